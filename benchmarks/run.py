"""Run the benchmark: ``python -m benchmarks.run``. One process, one warm JVM, all cases in turn in every round.

Its ratios are printed beside those that were kept of an earlier run of the same workload (``kept.json``)."""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console

from benchmarks import floor, hour, merge, report
from benchmarks.case import WARM_UPS, Case, run_rounds
from benchmarks.folders import CACHE, HOME, new_folder
from benchmarks.generate import BASE, MEASURED, Exports, Workload, exports
from benchmarks.kept import KEPT
from benchmarks.truth import SUMS, differing
from tidemark.lake.session import open_session
from tidemark.settings import Settings

CASES = ("floor", "decode", "merge-on-read", "copy-on-write", "hour")
#: What ``--quick`` stands for: three minutes on two cores.
QUICK = {"events": 200_000, "base": 60_000, "repeat": 3, "only": "floor,decode,merge-on-read,hour"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=Workload.events, help="changes in the measured hour")
    parser.add_argument("--base", type=int, default=Workload.base, help="rows that the table has before it")
    parser.add_argument("--codec", choices=("gzip", "plain"), default="gzip", help="how the exports are written")
    parser.add_argument("--repeat", type=int, default=5, help=f"measured rounds, after {WARM_UPS} that warm up")
    parser.add_argument("--only", default=",".join(CASES), help=f"cases, of: {','.join(CASES)}")
    parser.add_argument(
        "--output", type=Path, default=HOME / "benchmarks", help="folder of results.json and results.md"
    )
    parser.add_argument("--quick", action="store_true", help="a small workload, in three minutes")
    parser.add_argument("--keep", action="store_true", help=f"keep the ratios in {KEPT.name}")
    parser.set_defaults(**QUICK if "--quick" in sys.argv else {})
    options = parser.parse_args()
    wanted = options.only.split(",")
    if unknown := set(wanted) - set(CASES):
        parser.error(f"--only knows {', '.join(CASES)}, not {', '.join(sorted(unknown))}")

    console = Console()
    workload = Workload(options.events, options.base)
    console.print(f"workload {workload.name}, {options.codec}, {options.repeat} rounds after {WARM_UPS} that warm up")
    made = exports(workload, CACHE)
    settings = settings_of(made, options.codec, new_folder("lake"), new_folder("peer"))
    spark = open_session(settings, "benchmark")
    try:
        cases = _cases(spark, settings, made, options.codec, wanted)
        wrong: dict[str, dict[str, int]] = {}
        for number, case in run_rounds(cases, options.repeat, console):
            if number == 0 and case.table and (findings := differences(spark, case.table, made)):
                wrong[case.name] = findings
    finally:
        spark.stop()
    results = report.make(workload, options.codec, cases, wrong)
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "results.json").write_text(json.dumps(results, indent=2) + "\n")
    (options.output / "results.md").write_text(report.markdown(results))
    report.show(console, results, report.name_of(results), keeps=options.keep)
    for name, findings in wrong.items():
        console.print(f"{name}: the table differs from the source's: {findings}")
    return 1 if "hour" in wrong else 0


def settings_of(made: Exports, codec: str, lake: Path, peer: Path) -> Settings:
    """Tidemark on the workload: its lake in one folder; the other one's tables can be read and written beside it."""
    return Settings(
        home=HOME,
        feeds=Path("benchmarks/feeds"),
        lake=str(lake),
        exports=str(made.root / codec),
        driver_memory="4g",
        spark_master="local[2]",
        spark_conf=merge.catalog_conf(peer),
    )


def _cases(spark: SparkSession, settings: Settings, made: Exports, codec: str, wanted: list[str]) -> list[Case]:
    base, measured = made.objects(BASE, codec), made.objects(MEASURED, codec)
    cases = []
    if "floor" in wanted:
        cases.append(Case("floor", [("parse", lambda: floor.to_nothing(floor.parse(spark, measured)))]))
    tidemark = hour.Tidemark(spark, settings)
    if "decode" in wanted or "hour" in wanted:
        tidemark.load()
    if "decode" in wanted:
        cases.append(Case("decode", [("decode", tidemark.decode)], tidemark.land_only))
    for mode in ("merge-on-read", "copy-on-write"):
        if mode in wanted:
            job = merge.HandWritten(spark, mode)
            job.load(base)
            cases.append(Case(mode, [("merge", partial(job.run, measured))], job.reset, job.table))
    if "hour" in wanted:
        cases.append(Case("hour", tidemark.stages(), tidemark.reset, hour.TABLE))
    return cases


def differences(spark: SparkSession, table: str, made: Exports) -> dict[str, int]:
    """Sums over the table that are not the source's: what it has less the truth. ``table``: as SQL names it, perhaps with the
    version that is meant."""
    sums = ", ".join(f"{sql} AS {name}" for name, sql in SUMS.items())
    (row,) = spark.sql(f"SELECT {sums} FROM {table}").collect()  # noqa: S608 - constants of this package
    return differing(row.asDict(), made.truth)


if __name__ == "__main__":
    sys.exit(main())
