"""A small change log with its system tables, the state of its feed, and a snapshot that holds what a test gives it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidemark.feeds.model import Feed
from tidemark.fold.contract import TIDEMARK_TYPE
from tidemark.hours import Hour
from tidemark.identifiers import TIDEMARK
from tidemark.ledger.change_log import changes_table, create_log
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.image_names import IMAGE_NAMES, image_names
from tidemark.ledger.receipts import Receipt, TableReceipt
from tidemark.ledger.system_tables import create_system_tables, system_table, write_rows

PUBLISHED_HOUR, NEXT_HOUR = Hour("2026-11-20T07"), Hour("2026-11-20T08")
TABLE, SOURCE = "pub.t", "s.t"


def make_feed(spark: SparkSession, name: str) -> Feed:
    """A feed with empty system tables and an empty change log."""
    create_log(spark, name)
    create_system_tables(spark, name)
    return Feed.model_validate(
        {
            "feed": name, "description": "-", "owner": "-", "topics": ["t"],
            "exports": {"path": "{topic}/{date}/{hour}/*"}, "container": {"type": "kafka_json"},
            "format": {"type": "debezium"}, "tables": {SOURCE: {"name": TABLE}},
        }
    )  # fmt: skip


def write_log(spark: SparkSession, feed: str, rows: Iterable[dict[str, Any]]) -> None:
    """Append entries to the change log; by default changes of the table in the published hour."""
    usual = {"hour": str(PUBLISHED_HOUR), "version": 1, "op": "insert", "table": TABLE, "source_table": SOURCE,
             "object": "o", "entry": 0, "topic": "t"}  # fmt: skip
    schema = spark.table(changes_table(feed)).schema
    listed = [tuple((usual | row).get(name) for name in schema.names) for row in rows]
    logged = spark.createDataFrame(listed, schema)
    logged.withColumns(dict(zip(IMAGE_NAMES, image_names(), strict=True))).writeTo(changes_table(feed)).append()


def write_system_rows(spark: SparkSession, feed: str, name: str, sequence: int, rows: Sequence[dict[str, Any]]) -> None:
    """Replace the rows of a publication in a system table."""
    schema = spark.table(system_table(feed, name)).schema
    listed = [tuple(row.get(column) for column in schema.names) for row in rows]
    write_rows(spark, feed, name, sequence, spark.createDataFrame(listed, schema))


def published(feed: str, *tables: TableReceipt, **more: Any) -> FeedState:
    """One publication, of the published hour."""
    receipt = {"feed": feed, "hour": PUBLISHED_HOUR, "sequence": 1, "manifest_version": 1, "objects": 1, "bytes": 1,
               "landed": 1, "split": 0, "control": 0, "bad": 0, "held": 0}  # fmt: skip
    return FeedState.of(feed, [Receipt.model_validate({**receipt, "tables": list(tables), **more})])


@dataclass
class HeldTable:
    """Holds rows of (id, a, sort key, base sort key), and notes how it was evolved."""

    spark: SparkSession
    rows: Sequence[tuple[int, str, str, str | None]] = ()
    held: dict[str, str] = field(default_factory=dict)
    table: str = TABLE
    by: int | None = None
    evolved: list[tuple[dict[str, str], tuple[str, ...], Sequence[tuple[str, str]], int]] = field(default_factory=list)

    def columns(self) -> dict[str, str]:
        return self.held

    def key(self) -> list[str]:
        return ["id"]

    def published_by(self) -> int | None:
        return self.by

    def taken_back(self) -> bool:
        return False

    def evolve(
        self, columns: dict[str, str], key: tuple[str, ...], renamed: Sequence[tuple[str, str]] = (), *,
        format_version: int = 3,
    ) -> None:  # fmt: skip
        self.evolved.append((columns, key, renamed, format_version))

    def read(self) -> DataFrame:
        listed = [(id_, a, (sort_key, base, None, None, "h", [], None)) for id_, a, sort_key, base in self.rows]
        return self.spark.createDataFrame(listed, f"id int, a string, {TIDEMARK} {TIDEMARK_TYPE.simpleString()}")
