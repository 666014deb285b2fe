"""The feed's own tables beside the change log: receipts, held transactions, tombstones, quarantine.

Each attempt to make a publication has a sequence number of its own, and writes its rows of these tables under it. Only
the rows of numbers that the feed's state says are published are read: a run that died, or was overtaken, leaves nothing
that counts, and maintenance removes it.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.lake.fenced_writes import current_snapshot, overwrite_unchanged
from tidemark.lake.session import check_tables, create_namespace, full_name
from tidemark.lake.stored_formats import FORMAT, TABLE_FORMAT
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.receipts import Receipt

#: System table → its columns but ``sequence``, with their Spark types.
SYSTEM_COLUMNS = {
    "held": {
        "tx": "string", "since": "string", "hours": "array<string>", "changes": "bigint", "parts": "bigint",
        "needed": "bigint", "ended": "boolean", "tables": "array<string>", "position": "string",
    },
    "waiting": {
        "hour": "string", "object": "string", "record": "bigint", "entry": "int", "tx": "string", "table": "string",
        "waits_for": "string",
    },
    "tombstones": {"table": "string", "key": "string", "sort_key": "string", "hour": "string"},
    "quarantine": {
        "stage": "string", "hour": "string", "landed_this_hour": "boolean", "table": "string", "object": "string",
        "record": "bigint", "entry": "int", "topic": "string", "position": "string", "reason": "string",
        "raw": "binary", "change": "string",
    },
}  # fmt: skip
#: The names of a feed's system tables, beside its change log.
SYSTEM_TABLES = tuple(SYSTEM_COLUMNS)
_PROPERTIES = f"'format-version' = '3', 'write.distribution-mode' = 'none', '{TABLE_FORMAT}' = '{FORMAT}'"
_PRUNED = "tidemark.pruned"
_RECEIPT = (
    "feed string, hour string, sequence bigint, landed bigint, split bigint, applied bigint, duplicate bigint, "
    "superseded bigint, control bigint, held bigint, quarantined bigint, published_at timestamp, receipt string"
)


def create_system_tables(spark: SparkSession, feed: str) -> None:
    """Create those that are missing. StoredFormatError when one has another format than this release's."""
    create_namespace(spark, "tidemark", feed)
    for name, columns in SYSTEM_COLUMNS.items():
        schema = ", ".join(f"`{column}` {type_}" for column, type_ in columns.items())
        spark.sql(
            f"CREATE TABLE IF NOT EXISTS {system_table(feed, name)} (sequence bigint, {schema}) USING iceberg "
            f"PARTITIONED BY (sequence) TBLPROPERTIES ({_PROPERTIES})"
        )
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {full_name('tidemark', 'receipts')} ({_RECEIPT}) USING iceberg "
        f"PARTITIONED BY (feed) TBLPROPERTIES ({_PROPERTIES})"
    )
    check_tables(spark, full_name("tidemark", "receipts"), *(system_table(feed, name) for name in SYSTEM_TABLES))


def system_table(feed: str, name: str) -> str:
    """The full name of one of the feed's system tables."""
    return full_name("tidemark", feed, name)


def published_rows(spark: SparkSession, feed: str, name: str, state: FeedState) -> DataFrame:
    """The rows of a system table that publications wrote, without those of one that is still in the making."""
    counts = F.col("sequence") <= state.last_sequence
    if state.unpublished:
        counts &= ~F.col("sequence").isin(state.unpublished)
    return spark.table(system_table(feed, name)).where(counts)


def held_transactions(spark: SparkSession, feed: str, state: FeedState) -> DataFrame | None:
    """The transactions that the last publication left open; None where it left none."""
    if not state.held_transactions:
        return None
    return spark.table(system_table(feed, "held")).where(F.col("sequence") == state.last_sequence)


def waiting_entries(spark: SparkSession, feed: str, state: FeedState) -> DataFrame | None:
    """The entries that wait for what describes them, as the last publication left them; None where there are none."""
    if not state.waiting_entries:
        return None
    return published_rows(spark, feed, "waiting", state).where(F.col("sequence") >= state.waiting_since)


def pruned(spark: SparkSession, feed: str) -> str:
    """The highest sort key of a tombstone that maintenance has removed; empty: it has removed none."""
    properties = spark.sql(f"SHOW TBLPROPERTIES {system_table(feed, 'tombstones')}").collect()
    return next((row["value"] for row in properties if row["key"] == _PRUNED), "")


def note_pruned(spark: SparkSession, feed: str, sort_key: str) -> None:
    """Set what :func:`pruned` returns from now on."""
    literal = sort_key.replace("\\", "\\\\").replace("'", "\\'")
    spark.sql(f"ALTER TABLE {system_table(feed, 'tombstones')} SET TBLPROPERTIES ('{_PRUNED}' = '{literal}')")


def write_rows(spark: SparkSession, feed: str, name: str, sequence: int, rows: DataFrame) -> None:
    """Replace the rows of the publication ``sequence`` in a system table."""
    numbered = rows.select(F.lit(sequence).cast("bigint").alias("sequence"), *SYSTEM_COLUMNS[name])
    numbered.writeTo(system_table(feed, name)).overwrite(F.col("sequence") == sequence)


def write_receipt(spark: SparkSession, receipt: Receipt) -> None:
    """Write the receipt of a publication that is done. Written before, by this run or another: writes it once."""
    table, counts = full_name("tidemark", "receipts"), receipt.counts
    since = current_snapshot(spark, table)
    values = {
        "feed": receipt.feed, "hour": receipt.hour, "sequence": receipt.sequence, "landed": receipt.landed,
        "split": receipt.split, "applied": counts.applied, "duplicate": counts.duplicate,
        "superseded": counts.superseded, "control": receipt.control, "held": receipt.held,
        "quarantined": receipt.quarantined, "published_at": receipt.published_at, "receipt": receipt.model_dump_json(),
    }  # fmt: skip
    types = dict(part.split() for part in _RECEIPT.split(", "))
    # Literals, not createDataFrame: that would start a Python worker for one row.
    row = spark.range(1).select(*(F.lit(value).cast(types[name]).alias(name) for name, value in values.items()))
    of_publication = (F.col("feed") == receipt.feed) & (F.col("sequence") == receipt.sequence)
    overwrite_unchanged(row.coalesce(1), table, of_publication, since)
