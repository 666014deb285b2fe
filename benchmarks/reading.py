"""What it costs to read a published table: ``python -m benchmarks.reading``.

The table after the measured hour (``generate.py``), *as published* (Iceberg v3 with deletion vectors) and *maintained* (after
``tidemark maintain``, which rewrites files of which many rows are deleted), against *fresh*: the same rows and columns,
``_tidemark`` among them, written by Spark as a new Iceberg table. *scan* reads all columns, *sum* adds up two.
"""

from __future__ import annotations

import argparse
import sys

from pyspark.sql import SparkSession
from rich.console import Console

from benchmarks import hour, report
from benchmarks.case import Case, run_rounds
from benchmarks.floor import to_nothing
from benchmarks.folders import CACHE, new_folder
from benchmarks.generate import Exports, Workload, exports
from benchmarks.kept import KEPT
from benchmarks.merge import CATALOG
from benchmarks.run import differences, settings_of
from tidemark.hours import Hour
from tidemark.lake.session import open_session
from tidemark.operations.maintenance import maintain
from tidemark.settings import Settings

FRESH = f"{CATALOG}.shop.fresh"
TABLES = {
    "as published": f"{hour.TABLE} VERSION AS OF '{Hour.parse(hour.HOUR).tag}'", "maintained": hour.TABLE, "fresh": FRESH,
}  # fmt: skip
#: Measured rounds, and how often a case reads its table in each: once is over too soon to be measured.
ROUNDS, READS = 7, 5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=200_000, help="changes in the hour before")
    parser.add_argument("--keep", action="store_true", help=f"keep the ratios in {KEPT.name}")
    options = parser.parse_args()
    console, made = Console(), exports(Workload(options.events), CACHE)
    settings = settings_of(made, "gzip", new_folder("reading"), new_folder("reading-peer"))
    spark = open_session(settings, "benchmark")
    try:
        make_tables(spark, settings, console)
        cases = [case for name, table in TABLES.items() for case in reads_of(spark, name, table)]
        for _ in run_rounds(cases, ROUNDS, console):
            pass
        wrong = wrong_tables(spark, made)
    finally:
        spark.stop()
    rivals = {
        f"{what}, {name}": f"{what}, fresh" for what in ("scan", "sum") for name in ("as published", "maintained")
    }
    results = report.compare(cases, rivals, dict.fromkeys(rivals, 1.2))
    report.show(console, results, f"reading: {options.events} events", keeps=options.keep)
    for name, findings in wrong.items():
        console.print(f"{name}: the table differs from the source's: {findings}")
    return int(bool(wrong))


def make_tables(spark: SparkSession, settings: Settings, console: Console) -> None:
    """Publish both hours, write the fresh table of the same rows, and maintain the published one: its hour's cut stays."""
    tidemark = hour.Tidemark(spark, settings)
    tidemark.load()
    for _, work in tidemark.stages():
        work()
    spark.sql(f"CREATE NAMESPACE {CATALOG}.shop")
    spark.table(hour.TABLE).writeTo(FRESH).using("iceberg").create()
    done = maintain(tidemark.feed, settings)
    console.print(f"maintained: {done.rewritten} data files were rewritten")


def reads_of(spark: SparkSession, name: str, table: str) -> list[Case]:
    """The two ways to read a table, each several times."""

    def scan() -> None:
        for _ in range(READS):
            to_nothing(spark.sql(f"SELECT * FROM {table}"))  # noqa: S608 - a constant of this module

    def add_up() -> None:
        for _ in range(READS):
            spark.sql(f"SELECT sum(total), sum(quantity) FROM {table}").collect()  # noqa: S608 - a constant of this module

    return [Case("scan, " + name, [("scan", scan)]), Case("sum, " + name, [("sum", add_up)])]


def wrong_tables(spark: SparkSession, made: Exports) -> dict[str, dict[str, int]]:
    """By name, what the sums over a table are more than the source's."""
    found = {name: differences(spark, table, made) for name, table in TABLES.items()}
    return {name: findings for name, findings in found.items() if findings}


if __name__ == "__main__":
    sys.exit(main())
