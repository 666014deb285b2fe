"""Late and repeated changes: told apart by what is published, and folded again where they can still alter a row.

Only entered when a change is not newer than all that its table holds, or rests on another key. Three things can be
true of such a change: the log has it already (*duplicate*); the key's row rests wholly on newer changes, or a newer
delete stands (*superseded*); or it can still fill or alter columns: then its key is folded again from the change log.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.books import pruned
from tidemark.errors import SchemaError
from tidemark.fold import fold
from tidemark.lineage import descendants, is_link, with_ancestors
from tidemark.receipts import Counts
from tidemark.rows import key_is_whole, keyed_rows
from tidemark.state import State


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
    logged = keyed_rows(state.published_rows(), state.shape, expand=True)
    published = logged.where(key_is_whole(state.shape))
    if state.anew and not logged.where(~key_is_whole(state.shape)).isEmpty():
        raise SchemaError(
            f"the change log holds changes without a value of the key {', '.join(state.shape.key)}",
            mend="declare the key that the table has had; or take a new snapshot of it into a new feed",
            feed=state.feed.feed,
            table=state.table,
        )
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
    if state.anew:
        targets = published.select("key").unionByName(live.select("key")).distinct().localCheckpoint()
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
        .when(F.col("stored_place").isNull() & (F.col("place") <= pruned(state.spark, state.feed.feed)), "refold")
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
