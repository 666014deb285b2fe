"""What is published of one table, and what the stream has said of it since: where an hour's changes begin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tidemark.feeds.model import Feed
from tidemark.identifiers import TIDEMARK, publication_name, quote
from tidemark.ledger.change_log import changes_table, is_published, is_row, of_table, rolled_back
from tidemark.ledger.change_stats import TableStats, bounded, distinct, names_in, unpublishable
from tidemark.ledger.publication_history import PublicationHistory
from tidemark.ledger.quarantine import ENTRY, kept_back
from tidemark.ledger.system_tables import system_table
from tidemark.merge.typed_rows import TableShape
from tidemark.pipeline.assemble import Assembled
from tidemark.settings import Settings
from tidemark.snapshots.contract import Snapshot
from tidemark.tables.renames import RenamePlan, plan_renames
from tidemark.tables.resolve import History, shape_of
from tidemark.tables.table_history import Definitions, with_definitions

#: A place behind all others: whatever comes may be known.
_ANY = "~"


@dataclass(frozen=True)
class Work:
    """An hour of a feed in the making: what its tables need to know."""

    spark: SparkSession
    feed: Feed
    settings: Settings
    hour: str
    published: PublicationHistory

    @property
    def sequence(self) -> int:
        """The number of the publication in the making."""
        return self.published.last_sequence + 1

    @property
    def publication(self) -> str:
        """Its name."""
        return publication_name(self.feed.feed, self.hour, self.sequence)


@dataclass(frozen=True)
class State:
    """What is published of one table, as far as late changes need it. ``truncated``: the newest truncate, of this hour
    or before; ``emptied``: whether this hour brought one. ``sources``: the source's tables that are published as this
    one. ``rebuild``: all rows are folded again: they have not been under this name, or a change of columns comes late.
    ``change``: what the stream says of its columns since its last publication; ``retired``: those that hold nothing
    then."""

    spark: SparkSession
    feed: Feed
    table: str
    snapshot: Snapshot
    shape: TableShape
    published: PublicationHistory
    definitions: Definitions
    highest: str | None
    truncated: str | None
    emptied: bool
    sources: tuple[str, ...]
    rebuild: bool
    change: RenamePlan
    retired: list[str]

    def needs_log_lookup(self, first: str, links: int) -> bool:
        """Whether any change of the hour may be late, or rests on another key."""
        return self.rebuild or _needs_log_lookup(first, links, self.highest)

    def log_columns(self) -> list[str]:
        """Columns of log rows, with ``landed_this_hour``."""
        return [*self.spark.table(changes_table(self.feed.feed)).columns, "landed_this_hour"]

    def published_rows(self) -> DataFrame:
        """The table's log rows that are part of the snapshot: published, not held, not in quarantine, not truncated."""
        log = self.spark.table(changes_table(self.feed.feed))
        rows = log.where(is_published(self.published) & is_row() & of_table(self.table, self.sources))
        rows = rows.where(F.col("op") != "truncate").withColumn("landed_this_hour", F.lit(False))
        if self.truncated is not None:
            rows = rows.where(F.col("position") >= self.truncated)
        last = self.published.receipts[-1] if self.published.receipts else None
        if last is not None and last.held_transactions:
            held = self.spark.table(system_table(self.feed.feed, "held")).where(F.col("sequence") == last.sequence)
            rows = rows.join(F.broadcast(held.select("tx")), "tx", "left_anti").select(*rows.columns)
        kept_out = kept_back(self.spark, self.feed.feed, self.published).where("change is not null")
        rows = rows.join(F.broadcast(kept_out.select(*ENTRY)), ENTRY, "left_anti").select(*rows.columns)
        taken_back = rolled_back(log, self.published)
        if taken_back is not None:
            rows = rows.join(taken_back, "tx", "left_anti").select(*rows.columns)
        return with_definitions(rows, self.definitions, self.feed).where("problem is null")

    def stored(self) -> DataFrame:
        """``key``, ``stored_sort_key``, ``stored_base`` of each row and tombstone; the newer of the two."""
        standing = self.snapshot.read().select(
            F.struct(*(F.col(quote(name)).alias(name) for name in self.shape.key)).alias("key"),
            F.col(f"{TIDEMARK}.sort_key").alias("stored_sort_key"),
            F.col(f"{TIDEMARK}.base_sort_key").alias("stored_base"),
        )
        key_type = cast(StructType, standing.schema["key"].dataType)
        deleted = (
            self.spark.table(system_table(self.feed.feed, "tombstones"))
            .where((F.col("sequence") <= self.published.last_sequence) & (F.col("table") == self.table))
            .select(
                F.from_json("key", key_type).alias("key"),
                F.col("sort_key").alias("stored_sort_key"),
                F.col("sort_key").alias("stored_base"),
            )
        )
        return (
            standing.unionByName(deleted)
            .groupBy("key")
            .agg(F.max("stored_sort_key").alias("stored_sort_key"), F.max("stored_base").alias("stored_base"))
        )


def _needs_log_lookup(first: str, links: int, highest: str | None) -> bool:
    """Whether changes from a position on (empty: there are none), ``links`` of which rest on another key, can be older
    than what a table holds up to the place ``highest``."""
    return links > 0 or (first != "" and highest is not None and first + "#" <= highest)


def _history(
    spark: SparkSession,
    feed: Feed,
    published: PublicationHistory,
    table: str,
    sources: tuple[str, ...],
    told: Definitions,
) -> tuple[History, str | None]:
    """What the published log rows of a table carry, and the position of the newest truncate among them; one Spark job
    over narrow columns."""
    log = spark.table(changes_table(feed.feed))
    number = F.lit(0) if told.generation is None else told.generation
    rows = log.where(is_published(published) & is_row() & of_table(table, sources))
    said = rows.agg(
        distinct("after_names", number.alias("generation")).alias("columns"),
        distinct("message_schema", number.alias("generation")).alias("schemas"),
        F.max(F.when(F.col("op") == "truncate", F.col("position"))).alias("truncated"),
    ).first()
    assert said is not None
    known = told.of(sources[0])
    columns = [
        [now for name in names_in(text) if (now := known.name_now(name, generation)) is not None]
        for text, generation in bounded(table, said.columns)
        if unpublishable(text) is None  # it waits in quarantine
    ]
    return History(columns, [(text, number) for text, number in bounded(table, said.schemas)]), said.truncated


def reached(work: Work, found: TableStats) -> tuple[str | None, str | None]:
    """(the highest place applied before the hour, the newest truncate, of the hour or before)."""
    highest, truncated = work.published.table(found.table)
    return highest, max(filter(None, (truncated, found.truncated)), default=None)


def open_state(work: Work, found: TableStats, assembled: Assembled, snapshot: Snapshot) -> State:
    """What is published of the table, which is made, or its columns evolved, for the changes of the hour."""
    told, sources, stored = assembled.definitions.of(found.sources[0]), tuple(found.sources), snapshot.columns()
    stored_key = snapshot.key() if stored else []
    highest, truncated = reached(work, found)
    change = plan_renames(told, work.published.column_renames(found.table), stored, highest, keyed=bool(stored_key))
    history, rebuild = None, change.rebuild
    # Made by an attempt that was not published, it is no less new.
    fresh = bool(work.published.receipts) and not (stored and found.table in work.published.tables)
    keyless = bool(stored) and not stored_key
    if fresh or keyless or rebuild or _needs_log_lookup(found.first, found.links, highest):
        history, truncated_in_log = _history(
            work.spark, work.feed, work.published, found.table, sources, assembled.definitions
        )
        if fresh and history.columns:  # its rows are in the log, under another name
            rebuild, highest = True, _ANY
            truncated = max(filter(None, (truncated, truncated_in_log)), default=None)
    shape = shape_of(work.feed, found, told, change.applied(stored), stored_key, history)
    retired = [name for name in stored if name in change.left - shape.live]
    columns = {name: kind for name, kind in shape.spark_types.items() if name not in retired}
    snapshot.evolve(columns, shape.key, change.renamed)
    return State(
        work.spark, work.feed, found.table, snapshot, shape, work.published, assembled.definitions, highest, truncated,
        found.truncated is not None, sources, rebuild, change, retired,
    )  # fmt: skip


def published_state(
    spark: SparkSession, feed: Feed, published: PublicationHistory, definitions: Definitions, source: str,
    snapshot: Snapshot,
) -> State:  # fmt: skip
    """What is published of a source's table, as it stands: no hour is in the making, and nothing is evolved."""
    table, sources = feed.published_name(source), (source,)
    history, _ = _history(spark, feed, published, table, sources, definitions)
    nothing = TableStats(table, [source])
    shape = shape_of(feed, nothing, definitions.of(source), snapshot.columns(), snapshot.key(), history)
    truncated = published.table(table)[1]
    return State(
        spark, feed, table, snapshot, shape, published, definitions, None, truncated, False, sources, False,
        RenamePlan(), [],
    )  # fmt: skip
