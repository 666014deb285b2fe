"""Writes to tables of the lake that fail where another run has written the same rows meanwhile, however late they come."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession

from tidemark.errors import ConflictError

#: What Iceberg says where a commit meets rows that were written since, or cannot tell whether any were.
_CONFLICT = (
    "Found conflicting files",
    "Cannot determine history between",
    "Cannot delete file where some, but not all",
)


def current_snapshot(spark: SparkSession, table: str) -> int | None:
    """The id of the snapshot that a table (:func:`tidemark.lake.session.full_name`) has now; None where it has none, or
    there is no such table."""
    if not spark.catalog.tableExists(table):
        return None
    loaded = getattr(spark._jvm, "org.apache.iceberg.spark.Spark3Util").loadIcebergTable(spark._jsparkSession, table)
    loaded.refresh()
    snapshot = loaded.currentSnapshot()
    return None if snapshot is None else int(snapshot.snapshotId())


def overwrite_unchanged(
    rows: DataFrame, table: str, where: Column, since: int | None, summary: Mapping[str, str] | None = None
) -> None:
    """Replace the rows of a table for which ``where`` holds. ConflictError where any such row was written or removed after
    the snapshot ``since`` (None: ever). ``summary``: properties of the commit."""
    writer = rows.writeTo(table).option("isolation-level", "serializable")
    if since is not None:
        writer = writer.option("validate-from-snapshot-id", str(since))
    for name, value in (summary or {}).items():
        writer = writer.option(f"snapshot-property.{name}", value)
    try:
        writer.overwrite(where)
    except Exception as error:
        if not any(words in str(error) for words in _CONFLICT):
            raise
        raise ConflictError(
            "another run has written the same rows meanwhile", fix="run the hour again", table=table.replace("`", "")
        ) from error
