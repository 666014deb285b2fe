"""An hour in JVMs that have just started: ``python -m benchmarks.cold``, in the project's environment.

*hour* is what the hourly DAG does on this machine: the export is landed, then its tasks submit their jobs to Spark, each with
the settings that Airflow's operators give it, or see that they have nothing to do. *merge-on-read* is the hand-written job
(``merge.py``), submitted once, with Spark's own settings but for its catalog, the master and the driver's memory. CPU seconds
are those of all processes that were started; the Airflow worker that waits for them is left out.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rich.console import Console

from benchmarks import hour, merge, report
from benchmarks.case import Case, run_rounds
from benchmarks.folders import CACHE, HOME, new_folder
from benchmarks.generate import BASE, MEASURED, Exports, Workload, exports
from benchmarks.kept import KEPT
from benchmarks.lake import KeptLake
from benchmarks.measure import measure_children
from benchmarks.run import differences, settings_of
from tidemark.feeds.loading import find_feed
from tidemark.lake.session import open_session
from tidemark.settings import Settings

CODEC = "gzip"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=100_000, help="changes in the measured hour")
    parser.add_argument("--repeat", type=int, default=3, help="measured rounds; nothing is warmed up")
    parser.add_argument("--keep", action="store_true", help=f"keep the ratios in {KEPT.name}")
    options = parser.parse_args()
    console, made = Console(), exports(Workload(options.events), CACHE)
    lake, peer = new_folder("cold"), new_folder("cold-peer")
    os.environ |= {
        "TIDEMARK_HOME": str(HOME), "TIDEMARK_FEEDS": "benchmarks/feeds", "TIDEMARK_LAKE": str(lake),
        "TIDEMARK_EXPORTS": str(made.root / CODEC),
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",  # its operators repeat what their jobs print
    }  # fmt: skip
    cases = [tidemark(lake), hand_written(peer, made)]
    for _ in run_rounds(cases, options.repeat, console, warm_ups=0):
        pass
    spark = open_session(settings_of(made, CODEC, lake, peer), "benchmark")
    wrong = {case.name: differences(spark, str(case.table), made) for case in cases}
    spark.stop()
    report.show(
        console, report.compare(cases, {"hour": "merge-on-read"}, {"hour": 2.0}), f"cold: {options.events} events",
        keeps=options.keep,
    )  # fmt: skip
    for name, findings in wrong.items():
        if findings:
            console.print(f"{name}: the table differs from the source's: {findings}")
    return int(bool(wrong["hour"]))


def tidemark(lake: Path) -> Case:
    """The hour as the DAG's tasks do it, onto the base hour, which this loads."""
    run(["tidemark", "run", "bench", "--hour", hour.BASE_HOUR])
    land = ["tidemark", "land", "bench", "--hour", hour.HOUR]
    return Case(
        "hour", [("land", partial(run, land)), *dag_tasks()], KeptLake(lake).put_back, hour.TABLE, measure_children
    )


def dag_tasks() -> list[tuple[str, Callable[[], object]]]:
    """The tasks of the feed's DAG that submit jobs, in order, in a run by hand of the measured hour."""
    from airflow.sdk.api.datamodels._generated import DagRunType

    from dags.ingest import ingest
    from tidemark.orchestration.operators import SparkStage

    by_hand = SimpleNamespace(run_type=DagRunType.MANUAL, data_interval_start=None, logical_date=None)
    context: Any = {"dag_run": by_hand, "params": {"hour": hour.HOUR}}
    tasks = [task for task in ingest(find_feed("bench", Settings())).tasks if isinstance(task, SparkStage)]
    for task in tasks:
        task.outlets = []  # there is no Airflow to be told of them
    return [(task.task_id, partial(task.execute, context)) for task in tasks]


def hand_written(peer: Path, made: Exports) -> Case:
    """The hand-written job as a submit, onto the base hour, which this loads."""
    from tidemark.orchestration.submit_hook import find_place

    settings = Settings()
    conf = {
        "spark.driver.extraClassPath": f"{settings.path(settings.jars)}/*",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        **merge.catalog_conf(peer),
    }
    submit = ["spark-submit", "--master", find_place("spark_default").master, "--driver-memory", settings.driver_memory]
    submit += [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    job = [*submit, "benchmarks/merge.py"]
    run([*job, "load", *made.objects(BASE, CODEC)])
    work = partial(run, [*job, "run", *made.objects(MEASURED, CODEC)])
    table = f"{merge.CATALOG}.shop.orders_merge_on_read"
    return Case("merge-on-read", [("submit", work)], KeptLake(peer).put_back, table, measure_children)


def run(command: list[str]) -> None:
    """Run a command to its end; a failure ends the benchmark, with what it printed."""
    environment = os.environ | {"PYTHONPATH": str(HOME)}
    done = subprocess.run(command, cwd=HOME, env=environment, text=True, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command[:3])} failed:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    sys.exit(main())
