"""What holds a table's snapshot: an Iceberg table (the default) or Parquet folders.

The pipeline knows only :class:`tidemark.snapshots.contract.Snapshot`. Which storage a table has, and where that is, is
known here and in the two modules, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import SparkSession

from tidemark.feeds.model import Feed
from tidemark.settings import Settings
from tidemark.snapshots.contract import Snapshot
from tidemark.snapshots.iceberg import IcebergSnapshot
from tidemark.snapshots.parquet import ParquetSnapshot


def open_snapshot(spark: SparkSession, feed: Feed, table: str, settings: Settings, attempt: int = 0) -> Snapshot:
    """The snapshot of a published table in the storage its feed chose. ``attempt``: the number of the attempt that writes to
    it; who only reads has none."""
    if feed.declared(table).storage == "parquet":
        return ParquetSnapshot(spark, table, feed.feed, settings)
    return IcebergSnapshot(spark, table, feed.feed, attempt)


def discard_columns(spark: SparkSession, feed: Feed, tables: Iterable[str], settings: Settings, attempt: int) -> None:
    """Give published tables back the columns that they are published with. ``attempt``: the highest number that was taken.

    Columns are evolved before a publication is written. What an hour has evolved that is not published is not for
    readers."""
    for table in tables:
        open_snapshot(spark, feed, table, settings, attempt).discard()
