"""Delta Lake: the hand-written job of ``benchmarks.merge``, its ``MERGE`` into a Delta table with deletion vectors."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from delta import configure_spark_with_delta_pip
from pyspark.sql import SparkSession

from benchmarks.merge import HandWritten
from benchmarks.peers.child import ASKED

_SETTINGS: dict[str, Any] = {
    "spark.driver.memory": "2g",
    "spark.jars.ivy": str(Path(sys.prefix) / "ivy"),
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Spark's 200 partitions of a shuffle and Delta's 50 of its log are meant for clusters, not for two cores.
    "spark.sql.shuffle.partitions": "4",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


class Job(HandWritten):
    table = "orders"

    def __init__(self, folder: Path) -> None:
        builder = SparkSession.builder.master("local[2]").config(map=_SETTINGS)
        builder = builder.config("spark.sql.warehouse.dir", str(folder))
        super().__init__(configure_spark_with_delta_pip(builder).getOrCreate(), "merge-on-read")

    def load(self, objects: list[str]) -> None:
        self.read_newest(objects)
        self.spark.sql(
            f"CREATE TABLE {self.table} USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true') "  # noqa: S608
            "AS SELECT * EXCEPT (op) FROM newest"
        )

    def sums(self) -> Iterable[Any]:
        (row,) = self.spark.sql(f"SELECT {ASKED} FROM {self.table}").collect()  # noqa: S608 - constants
        return row
