"""The feed's own tables beside the change log: receipts, held transactions, tombstones, quarantine.

Each publication of a feed has a sequence number, and writes its part of these tables under that number before its
receipt. What carries a number without a receipt was never published and is not read: a run that died leaves nothing
that counts, and its successor, with the same number, replaces it.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.lake.session import create_namespace, full_name
from tidemark.ledger.receipts import Receipt

_SCHEMAS = {
    "held": "tx string, since string, hours array<string>, changes bigint, parts bigint, needed bigint, "
    "ended boolean, tables array<string>, position string",
    "tombstones": "`table` string, key string, sort_key string, hour string",
    "quarantine": "stage string, hour string, landed_this_hour boolean, `table` string, object string, "
    "record bigint, entry int, "
    "topic string, position string, reason string, raw binary, change string",
}
#: The books of a feed, beside its change log.
SYSTEM_TABLES = tuple(_SCHEMAS)
_PRUNED = "tidemark.pruned"
_RECEIPT = (
    "feed string, hour string, sequence bigint, landed bigint, split bigint, applied bigint, duplicate bigint, "
    "superseded bigint, control bigint, held bigint, quarantined bigint, published_at timestamp, receipt string"
)


def create_system_tables(spark: SparkSession, feed: str) -> None:
    """All of them, where missing."""
    create_namespace(spark, "tidemark", feed)
    for name, schema in _SCHEMAS.items():
        spark.sql(
            f"CREATE TABLE IF NOT EXISTS {system_table(feed, name)} (sequence bigint, {schema}) USING iceberg "
            "PARTITIONED BY (sequence) TBLPROPERTIES ('format-version' = '3', 'write.distribution-mode' = 'none')"
        )
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {full_name('tidemark', 'receipts')} ({_RECEIPT}) USING iceberg "
        "PARTITIONED BY (feed) TBLPROPERTIES ('format-version' = '3', 'write.distribution-mode' = 'none')"
    )


def system_table(feed: str, name: str) -> str:
    """The full name of one of the feed's books."""
    return full_name("tidemark", feed, name)


def pruned(spark: SparkSession, feed: str) -> str:
    """The highest place of a tombstone that maintenance has removed; empty: none has been."""
    properties = spark.sql(f"SHOW TBLPROPERTIES {system_table(feed, 'tombstones')}").collect()
    return next((row["value"] for row in properties if row["key"] == _PRUNED), "")


def note_pruned(spark: SparkSession, feed: str, sort_key: str) -> None:
    """Have :func:`pruned` say so from now on."""
    literal = sort_key.replace("\\", "\\\\").replace("'", "\\'")
    spark.sql(f"ALTER TABLE {system_table(feed, 'tombstones')} SET TBLPROPERTIES ('{_PRUNED}' = '{literal}')")


def clear_rows(spark: SparkSession, feed: str, sequence: int) -> None:
    """Remove what an attempt that was never published, of this hour or another, left under the number."""
    for name in _SCHEMAS:
        spark.sql(f"DELETE FROM {system_table(feed, name)} WHERE sequence = {sequence:d}")  # noqa: S608 - quoted, a number


def clear_stage_rows(spark: SparkSession, feed: str, name: str, sequence: int, stage: str) -> None:
    """Remove what an attempt that was never published put in a book at one stage."""
    where = f"sequence = {sequence:d} AND stage = '{stage}'"
    spark.sql(f"DELETE FROM {system_table(feed, name)} WHERE {where}")  # noqa: S608 - quoted, a number, a name of ours


def write_rows(
    spark: SparkSession, feed: str, name: str, sequence: int, rows: DataFrame, stage: str | None = None
) -> None:
    """Replace what the publication ``sequence`` says in a book; with ``stage``: what this stage kept back."""
    columns = spark.table(system_table(feed, name)).columns[1:]
    mine = F.col("sequence") == sequence
    if stage is not None:
        mine &= F.col("stage") == stage
    page = rows.select(F.lit(sequence).cast("bigint").alias("sequence"), *(F.col(c) for c in columns))
    page.writeTo(system_table(feed, name)).overwrite(mine)


def append_receipt(spark: SparkSession, receipt: Receipt) -> None:
    """The last step of a publication: from here on it counts."""
    counts = receipt.counts
    values = {
        "feed": receipt.feed, "hour": receipt.hour, "sequence": receipt.sequence, "landed": receipt.landed,
        "split": receipt.split, "applied": counts.applied, "duplicate": counts.duplicate,
        "superseded": counts.superseded, "control": receipt.control, "held": receipt.held,
        "quarantined": receipt.quarantined, "published_at": receipt.published_at, "receipt": receipt.model_dump_json(),
    }  # fmt: skip
    types = dict(part.split() for part in _RECEIPT.split(", "))
    # Literals, not createDataFrame: that would start a Python worker for one row.
    row = spark.range(1).select(*(F.lit(value).cast(types[name]).alias(name) for name, value in values.items()))
    row.coalesce(1).writeTo(full_name("tidemark", "receipts")).append()
