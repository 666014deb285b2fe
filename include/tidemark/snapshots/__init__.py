"""What holds a table's snapshot: Iceberg (the default) or Parquet folders.

Stages see :class:`tidemark.snapshots.contract.Snapshot` alone.

What storage a table has, and where that is, is said here and in the two modules, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import SparkSession

from tidemark.feeds.model import Feed
from tidemark.settings import Settings
from tidemark.snapshots.contract import Snapshot
from tidemark.snapshots.iceberg import IcebergSnapshot
from tidemark.snapshots.parquet import ParquetSnapshot


def open_snapshot(spark: SparkSession, feed: Feed, table: str, settings: Settings) -> Snapshot:
    """The snapshot of a published table in the storage its feed chose."""
    if feed.declared(table).storage == "parquet":
        return ParquetSnapshot(spark, table, feed.feed, settings)
    return IcebergSnapshot(spark, table, feed.feed)


def discard_columns(spark: SparkSession, feed: Feed, tables: Iterable[str], settings: Settings) -> None:
    """Have published tables look as they are published: their columns are evolved before the branches are written, and
    what an hour that does not come to be has evolved is not for readers."""
    for table in tables:
        open_snapshot(spark, feed, table, settings).discard()
