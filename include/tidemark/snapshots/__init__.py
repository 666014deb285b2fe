"""What holds a table's snapshot: Iceberg (the default) or Parquet folders. One module each, the same class surface.

``columns()`` source columns and types · ``evolve(columns)`` create, or rename, add and widen · ``read()`` what readers
see · ``stage(...)`` write an hour beside it, unseen · ``staged()`` read that · ``publish(hour)`` make it the table and tag
it · ``retire(columns)`` remove what the publication left empty · ``withdraw()`` undo what was evolved for an hour that
was not published.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from tidemark.settings import Settings
from tidemark.snapshots.iceberg import IcebergSnapshot
from tidemark.snapshots.parquet import ParquetSnapshot


def open_snapshot(
    spark: SparkSession, storage: str, table: str, feed: str, settings: Settings
) -> IcebergSnapshot | ParquetSnapshot:
    """The snapshot of a published table in the storage its feed chose."""
    if storage == "parquet":
        return ParquetSnapshot(spark, table, feed, settings)
    return IcebergSnapshot(spark, table, feed)
