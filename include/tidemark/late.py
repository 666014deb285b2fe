"""Late and repeated changes: told apart by what is published, and folded again where they can still alter a row.

Only entered when a change is not newer than all that its table holds, or rests on another key. Three things can be
true of such a change: the log has it already (*duplicate*); the key's row rests wholly on newer changes, or a newer
delete stands (*superseded*); or it can still fill or alter columns: then its key is folded again from the change log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tidemark.books import PRUNED, Published, book
from tidemark.definitions import Definitions, with_definitions
from tidemark.feeds import Feed
from tidemark.fold import fold
from tidemark.lake import changes_table
from tidemark.lineage import descendants, is_link, with_ancestors
from tidemark.names import TIDEMARK
from tidemark.quarantine import ENTRY, kept_back
from tidemark.receipts import Counts
from tidemark.rows import TableShape, key_is_whole, keyed_rows
from tidemark.snapshots.iceberg import IcebergSnapshot
from tidemark.snapshots.parquet import ParquetSnapshot
from tidemark.stages.assemble import is_published, is_row, rolled_back


@dataclass(frozen=True)
class State:
    """What is published of one table, as far as late changes need it. ``truncated``: the newest truncate, of this hour
    or before; ``emptied``: whether this hour brought one."""

    spark: SparkSession
    feed: Feed
    table: str
    snapshot: IcebergSnapshot | ParquetSnapshot
    shape: TableShape
    published: Published
    definitions: Definitions
    highest: str | None
    truncated: str | None
    emptied: bool

    def must_look(self, first: str, links: int) -> bool:
        """Whether any change of the hour may be late, or rests on another key."""
        return links > 0 or (self.highest is not None and first + "#" <= self.highest)

    def log_columns(self) -> list[str]:
        """Columns of log rows, with ``own``."""
        return [*self.spark.table(changes_table(self.feed.feed)).columns, "own"]

    def published_rows(self) -> DataFrame:
        """The table's log rows that are part of the snapshot: published, not held, not in quarantine, not truncated."""
        log = self.spark.table(changes_table(self.feed.feed))
        rows = log.where(is_published(self.published) & is_row() & (F.col("table") == self.table))
        rows = rows.where(F.col("op") != "truncate").withColumn("own", F.lit(False))
        if self.truncated is not None:
            rows = rows.where(F.col("position") >= self.truncated)
        last = self.published.receipts[-1] if self.published.receipts else None
        if last is not None and last.held_transactions:
            held = self.spark.table(book(self.feed.feed, "held")).where(F.col("sequence") == last.sequence)
            rows = rows.join(F.broadcast(held.select("tx")), "tx", "left_anti").select(*rows.columns)
        kept_out = kept_back(self.spark, self.feed.feed, self.published).where("change is not null")
        rows = rows.join(F.broadcast(kept_out.select(*ENTRY)), ENTRY, "left_anti").select(*rows.columns)
        taken_back = rolled_back(log, self.published)
        if taken_back is not None:
            rows = rows.join(taken_back, "tx", "left_anti").select(*rows.columns)
        return with_definitions(rows, self.definitions, self.feed).where("problem is null")

    def pruned(self) -> str:
        """The highest place of a tombstone that maintenance has removed; empty: none has been."""
        properties = self.spark.sql(f"SHOW TBLPROPERTIES {book(self.feed.feed, 'tombstones')}")
        return next((row["value"] for row in properties.collect() if row["key"] == PRUNED), "")

    def stored(self) -> DataFrame:
        """``key``, ``stored_place``, ``stored_floor`` of each row and tombstone; the newer of the two."""
        standing = self.snapshot.read().select(
            F.struct(*(F.col(name) for name in self.shape.key)).alias("key"),
            F.col(f"{TIDEMARK}.place").alias("stored_place"),
            F.col(f"{TIDEMARK}.floor").alias("stored_floor"),
        )
        key_type = cast(StructType, standing.schema["key"].dataType)
        gone = (
            self.spark.table(book(self.feed.feed, "tombstones"))
            .where((F.col("sequence") <= self.published.last_sequence) & (F.col("table") == self.table))
            .select(
                F.from_json("key", key_type).alias("key"),
                F.col("place").alias("stored_place"),
                F.col("place").alias("stored_floor"),
            )
        )
        return (
            standing.unionByName(gone)
            .groupBy("key")
            .agg(F.max("stored_place").alias("stored_place"), F.max("stored_floor").alias("stored_floor"))
        )


@dataclass(frozen=True)
class SortedOut:
    """``ordinary``: ROWS to fold onto what is stored. ``late``: ROWS behind ``refolded``, the FOLDED states that the log
    gives their keys. ``counts``: of all but the ordinary ones."""

    ordinary: DataFrame
    late: DataFrame | None
    refolded: DataFrame | None
    counts: Counts


def sort_out(state: State, rows: DataFrame, links: int) -> SortedOut:
    """Tell the hour's ROWS of one table apart."""
    published = keyed_rows(state.published_rows(), state.shape, expand=True).where(key_is_whole(state.shape))
    judged = _judge(state, rows, published)
    said = {
        (row["fate"], row["own"]): row["count"]
        for row in judged.where("counts").groupBy("fate", "own").count().collect()
    }
    counts = Counts(
        duplicate=said.get(("duplicate", True), 0),
        released_duplicate=said.get(("duplicate", False), 0),
        superseded=said.get(("superseded", True), 0),
        released_superseded=said.get(("superseded", False), 0),
    )
    told = judged.where(F.col("fate").isin("duplicate", "superseded")).select("key", "place").distinct()
    live = rows.join(told, ["key", "place"], "left_anti").select(*rows.columns)
    targets = judged.where("fate = 'refold'").select("key").distinct()
    if state.emptied:
        targets = targets.unionByName(_robbed(state)).distinct()
    if links or not published.where(is_link()).isEmpty():
        # A superseded change of a key that others rest on may still be what they carried over.
        changed = judged.where("fate <> 'duplicate'").select("key").distinct()
        resting = descendants(published.unionByName(live), changed).join(changed, "key", "left_anti")
        targets = targets.unionByName(resting).localCheckpoint()
    if targets.isEmpty():
        return SortedOut(live, None, None, counts)
    ordinary = live.join(targets, "key", "left_anti").select(*rows.columns)
    late = live.join(targets, "key", "left_semi").select(*rows.columns).localCheckpoint()
    everything = published.unionByName(rows).withColumn("counts", F.lit(False))
    refolded = fold(with_ancestors(everything, targets), partial=True)
    return SortedOut(ordinary, late, refolded, counts.plus(applied(late)))


def _robbed(state: State) -> DataFrame:
    """Keys whose rows are newer than a truncate that came late, but rest on what was there before it."""
    newer = F.col("stored_place") >= F.lit(state.truncated)
    on_older = F.col("stored_floor").isNull() | (F.col("stored_floor") < F.lit(state.truncated))
    return state.stored().where(newer & on_older).select("key")


def _judge(state: State, rows: DataFrame, published: DataFrame) -> DataFrame:
    """Changes that are not simply newer than all: ``key``, ``place``, ``own``, ``counts`` and their ``fate``."""
    highest = state.highest or ""
    suspect = rows.where((F.col("place") <= highest) | is_link()).select(
        "key", "place", "own", "counts", is_link().alias("link")
    )
    known = published.where(F.col("place") <= highest).select("key", "place", F.lit(True).alias("known")).distinct()
    outdated = (F.col("place") <= F.col("stored_place")) & (F.col("place") <= F.col("stored_floor"))
    fate = (
        F.when(F.col("known"), "duplicate")
        .when(outdated, "superseded")
        .when(F.col("place") <= F.col("stored_place"), "refold")
        .when(F.col("link"), "refold")
        .when(F.col("stored_place").isNull() & (F.col("place") <= state.pruned()), "refold")
        .otherwise("ordinary")
    )
    joined = suspect.join(known, ["key", "place"], "left").join(state.stored(), "key", "left")
    return joined.select("key", "place", "own", "counts", fate.alias("fate")).localCheckpoint()


def applied(late: DataFrame) -> Counts:
    """Changes that a refold takes in; the same one twice in the hour is a duplicate."""
    own, one = F.col("own"), F.struct("key", "place")
    said = (
        late.where("counts")
        .agg(
            F.count_if(own),
            F.count_distinct(F.when(own, one)),
            F.count_if(~own),
            F.count_distinct(F.when(~own, one)),
        )
        .first()
    )
    assert said is not None
    return Counts(
        applied=said[1], duplicate=said[0] - said[1], released_applied=said[3], released_duplicate=said[2] - said[3]
    )
