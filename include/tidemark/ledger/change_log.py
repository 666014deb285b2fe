"""The change log of a feed: ``tidemark.<feed>.changes``, every entry of every landed record, and which of them count.

The predicates over its rows are here and nowhere else: what is published, what is a change of a table, which
transactions were rolled back.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.formats.contract import CHANGES
from tidemark.lake.catalog import find_table
from tidemark.lake.session import create_namespace, full_name
from tidemark.ledger.change_stats import IMAGE_NAMES
from tidemark.ledger.publication_history import PublicationHistory
from tidemark.settings import Settings

_ROW_OPS = ("insert", "update", "delete", "truncate")
_IMAGES = ("key", "prior_key", "before", "after")
# One hour is one partition: no shuffle before the write, and a codec that costs little.
_LOG_PROPERTIES = {
    "format-version": "3",
    "write.distribution-mode": "none",
    "write.parquet.compression-codec": "lz4_raw",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "50",
    # Nearly every value is another: a dictionary of them is built in vain, column by column, and costs a tenth of decode.
    **{
        f"write.parquet.dict-encoding-enabled.column.{name}": "false"
        for name in (*(f"{image}.value" for image in _IMAGES), "position", "record", "offset")
    },
    # What nothing is looked for by.
    **{
        f"write.parquet.stats-enabled.column.{name}": "false"
        for name in (*(f"{image}.{part}" for image in _IMAGES for part in ("key", "value")), *IMAGE_NAMES, "object")
    },
}
#: In the summary of a commit: the hour it decoded, and which version of its export.
DECODED = "tidemark.decoded"


def changes_table(feed: str) -> str:
    """The decoded log of a feed."""
    return full_name("tidemark", feed, "changes")


def create_log(spark: SparkSession, feed: str) -> str:
    """The feed's change log, made where it is missing. Its full name."""
    table = changes_table(feed)
    create_namespace(spark, "tidemark", feed)
    columns = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in CHANGES)
    names = ", ".join(f"{name} string" for name in IMAGE_NAMES)
    properties = ", ".join(f"'{key}' = '{value}'" for key, value in _LOG_PROPERTIES.items())
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {table} (hour string, version int, {columns}, `table` string, {names}) "
        f"USING iceberg PARTITIONED BY (hour) TBLPROPERTIES ({properties})"
    )
    return table


def decoded_version(settings: Settings, feed: str, hour: str) -> int | None:
    """The version of the hour's export that the change log holds; None where nobody knows (it was never decoded, or so
    long ago that maintenance has removed the commit)."""
    table = find_table(settings, "tidemark", feed, "changes")
    for snapshot in reversed(table.metadata.snapshots if table else []):
        said = snapshot.summary.additional_properties.get(DECODED, "") if snapshot.summary else ""
        if said.startswith(f"{hour} "):
            return int(said.removeprefix(f"{hour} "))
    return None


def is_row() -> Column:
    """Whether a log entry is a change of a table."""
    return F.col("op").isin(*_ROW_OPS)


def of_table(table: str, sources: tuple[str, ...]) -> Column:
    """Whether a log row is of a published table: also where it was decoded when the table had another name."""
    return (F.col("table") == table) | F.col("source_table").isin(*sources)


def rolled_back(log: DataFrame, published: PublicationHistory, hour: str | None = None) -> DataFrame | None:
    """Transactions (``tx``) that their source took back, in what is published and in the hour; None where there are
    none. Their changes were never part of any table."""
    if hour is None and not any(receipt.rollbacks for receipt in published.receipts):
        return None
    told = is_published(published) if hour is None else is_published(published) | (F.col("hour") == hour)
    return F.broadcast(log.where(told & F.col("tx_rollback")).select("tx").distinct())


def is_published(published: PublicationHistory) -> Column:
    """Whether a log entry is part of a publication: its hour has a receipt, for this version of its export or a newer."""
    versions = {r.hour: r.manifest_version for r in published.receipts}
    usual = [hour for hour, version in versions.items() if version == 1]
    told = F.col("hour").isin(usual) & (F.col("version") <= 1)
    for hour, version in versions.items():
        if version > 1:
            told |= (F.col("hour") == hour) & (F.col("version") <= version)
    return told
