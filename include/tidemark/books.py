"""The feed's own tables beside the change log: receipts, held transactions, tombstones, quarantine.

Each publication of a feed has a sequence number, and writes its part of these tables under that number before its
receipt. What carries a number without a receipt was never published and is not read: a run that died leaves nothing
that counts, and its successor, with the same number, replaces it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyiceberg.expressions import EqualTo
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.catalog import read_rows
from tidemark.lake import create_namespace, full_name
from tidemark.receipts import Receipt
from tidemark.settings import Settings

_SCHEMAS = {
    "held": "tx string, since string, hours array<string>, changes bigint, parts bigint, needed bigint, "
    "ended boolean, tables array<string>, position string",
    "tombstones": "`table` string, key string, place string, hour string",
    "quarantine": "stage string, hour string, own boolean, `table` string, object string, record bigint, entry int, "
    "topic string, position string, reason string, raw binary, change string",
}
#: The books of a feed, beside its change log.
BOOKS = tuple(_SCHEMAS)
_PRUNED = "tidemark.pruned"
_RECEIPT = (
    "feed string, hour string, sequence bigint, landed bigint, split bigint, applied bigint, duplicate bigint, "
    "superseded bigint, control bigint, held bigint, quarantined bigint, published_at timestamp, receipt string"
)


def create_books(spark: SparkSession, feed: str) -> None:
    """All of them, where missing."""
    create_namespace(spark, "tidemark", feed)
    for name, schema in _SCHEMAS.items():
        spark.sql(
            f"CREATE TABLE IF NOT EXISTS {book(feed, name)} (sequence bigint, {schema}) USING iceberg "
            "PARTITIONED BY (sequence) TBLPROPERTIES ('format-version' = '3', 'write.distribution-mode' = 'none')"
        )
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {full_name('tidemark', 'receipts')} ({_RECEIPT}) USING iceberg "
        "PARTITIONED BY (feed) TBLPROPERTIES ('format-version' = '3', 'write.distribution-mode' = 'none')"
    )


def book(feed: str, name: str) -> str:
    """The full name of one of the feed's books."""
    return full_name("tidemark", feed, name)


def pruned(spark: SparkSession, feed: str) -> str:
    """The highest place of a tombstone that maintenance has removed; empty: none has been."""
    properties = spark.sql(f"SHOW TBLPROPERTIES {book(feed, 'tombstones')}").collect()
    return next((row["value"] for row in properties if row["key"] == _PRUNED), "")


def note_pruned(spark: SparkSession, feed: str, place: str) -> None:
    """Have :func:`pruned` say so from now on."""
    literal = place.replace("\\", "\\\\").replace("'", "\\'")
    spark.sql(f"ALTER TABLE {book(feed, 'tombstones')} SET TBLPROPERTIES ('{_PRUNED}' = '{literal}')")


def clear_pages(spark: SparkSession, feed: str, sequence: int) -> None:
    """Remove what an attempt that was never published, of this hour or another, left under the number."""
    for name in _SCHEMAS:
        spark.sql(f"DELETE FROM {book(feed, name)} WHERE sequence = {sequence:d}")  # noqa: S608 - quoted, a number


def clear_page(spark: SparkSession, feed: str, name: str, sequence: int, stage: str) -> None:
    """Remove what an attempt that was never published put in a book at one stage."""
    where = f"sequence = {sequence:d} AND stage = '{stage}'"
    spark.sql(f"DELETE FROM {book(feed, name)} WHERE {where}")  # noqa: S608 - quoted, a number, a name of ours


def write_page(
    spark: SparkSession, feed: str, name: str, sequence: int, rows: DataFrame, stage: str | None = None
) -> None:
    """Replace what the publication ``sequence`` says in a book; with ``stage``: what this stage kept back."""
    columns = spark.table(book(feed, name)).columns[1:]
    mine = F.col("sequence") == sequence
    if stage is not None:
        mine &= F.col("stage") == stage
    page = rows.select(F.lit(sequence).cast("bigint").alias("sequence"), *(F.col(c) for c in columns))
    page.writeTo(book(feed, name)).overwrite(mine)


@dataclass(frozen=True)
class Published:
    """What a feed has published so far, oldest first."""

    receipts: list[Receipt] = field(default_factory=list)

    @property
    def last_sequence(self) -> int:
        """0 before the first publication."""
        return self.receipts[-1].sequence if self.receipts else 0

    @property
    def rows_written(self) -> int:
        """Rows written to all tables so far: no table holds more."""
        return sum(table.rows_written for receipt in self.receipts for table in receipt.tables)

    @property
    def recalls(self) -> dict[str, int]:
        """Hours that were replayed → up to which publication what they had in quarantine was recalled."""
        return {receipt.hour: receipt.recalls for receipt in self.receipts if receipt.recalls}

    @property
    def hours(self) -> list[str]:
        """Hours with a receipt."""
        return sorted({receipt.hour for receipt in self.receipts})

    @property
    def tables(self) -> set[str]:
        """The tables that any publication speaks of."""
        return {table.table for receipt in self.receipts for table in receipt.tables}

    def of_hour(self, hour: str) -> Receipt | None:
        """The newest receipt of an hour."""
        return next((receipt for receipt in reversed(self.receipts) if receipt.hour == hour), None)

    def table(self, name: str) -> tuple[str | None, str | None]:
        """(highest place applied, newest truncate) of a table; None, None before its first publication."""
        mine = [t for receipt in self.receipts for t in receipt.tables if t.table == name]
        highest = max((t.highest for t in mine if t.highest), default=None)
        truncated = max((t.truncated for t in mine if t.truncated), default=None)
        return highest, truncated

    def reshapes(self, name: str) -> set[str]:
        """What was renamed and dropped in a table so far; ids of :class:`tidemark.definitions.Reshape`."""
        return {id_ for receipt in self.receipts for t in receipt.tables if t.table == name for id_ in t.reshapes}

    @property
    def highest(self) -> str | None:
        """The highest place applied in any table."""
        return max((t.highest for r in self.receipts for t in r.tables if t.highest), default=None)


def load_published(settings: Settings, feed: str) -> Published:
    """The feed's receipts, by sequence."""
    rows = read_rows(settings, "tidemark", "receipts", where=EqualTo(term="feed", value=feed))
    receipts = [Receipt.model_validate_json(row["receipt"]) for row in rows]
    return Published(sorted(receipts, key=lambda receipt: receipt.sequence))


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
