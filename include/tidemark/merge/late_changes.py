"""Late and repeated changes: told apart by what is published, and folded again where they can still alter a row.

Only entered when a change is not newer than all that its table holds, or rests on another key. Three things can be
true of such a change: the log has it already (*duplicate*); the key's row rests wholly on newer changes, or a newer
delete stands (*superseded*); or it can still fill or alter columns: then its key is folded again from the change log.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.errors import SchemaError
from tidemark.ledger.receipts import Counts
from tidemark.ledger.system_tables import pruned
from tidemark.merge.fold import fold
from tidemark.merge.key_changes import descendants, is_link, with_ancestors
from tidemark.merge.typed_rows import key_is_whole, keyed_rows
from tidemark.tables.table_state import State


@dataclass(frozen=True)
class Classified:
    """``ordinary``: ROWS to fold onto what is stored. ``late``: ROWS behind ``refolded``, the FOLDED states that the log
    gives their keys. ``counts``: of all but the ordinary ones."""

    ordinary: DataFrame
    late: DataFrame | None
    refolded: DataFrame | None
    counts: Counts


def classify(state: State, rows: DataFrame, links: int) -> Classified:
    """Tell the hour's ROWS of one table apart."""
    logged = keyed_rows(state.published_rows(), state.shape, expand=True)
    published = logged.where(key_is_whole(state.shape))
    if state.rebuild and not logged.where(~key_is_whole(state.shape)).isEmpty():
        raise SchemaError(
            f"the change log holds changes without a value of the key {', '.join(state.shape.key)}",
            fix="declare the key that the table has had; or take a new snapshot of it into a new feed",
            feed=state.feed.feed,
            table=state.table,
        )
    judged = _judge(state, rows, published)
    said = {
        (row["fate"], row["landed_this_hour"]): row["count"]
        for row in judged.where("counts").groupBy("fate", "landed_this_hour").count().collect()
    }
    counts = Counts(
        duplicate=said.get(("duplicate", True), 0),
        released_duplicate=said.get(("duplicate", False), 0),
        superseded=said.get(("superseded", True), 0),
        released_superseded=said.get(("superseded", False), 0),
    )
    told = judged.where(F.col("fate").isin("duplicate", "superseded")).select("key", "sort_key").distinct()
    live = rows.join(told, ["key", "sort_key"], "left_anti").select(*rows.columns)
    targets = judged.where("fate = 'refold'").select("key").distinct()
    if state.emptied:
        targets = targets.unionByName(_keys_under_a_late_truncate(state)).distinct()
    if links or not published.where(is_link()).isEmpty():
        # A superseded change of a key that others rest on may still be what they carried over.
        changed = judged.where("fate <> 'duplicate'").select("key").distinct()
        resting = descendants(published.unionByName(live), changed).join(changed, "key", "left_anti")
        targets = targets.unionByName(resting).localCheckpoint()
    if state.rebuild:
        targets = published.select("key").unionByName(live.select("key")).distinct().localCheckpoint()
    if targets.isEmpty():
        return Classified(live, None, None, counts)
    ordinary = live.join(targets, "key", "left_anti").select(*rows.columns)
    late = live.join(targets, "key", "left_semi").select(*rows.columns).localCheckpoint()
    everything = published.unionByName(rows).withColumn("counts", F.lit(False))
    refolded = fold(with_ancestors(everything, targets), partial=True)
    return Classified(ordinary, late, refolded, counts.plus(applied(late)))


def _keys_under_a_late_truncate(state: State) -> DataFrame:
    """Keys whose rows are newer than a truncate that came late, but rest on what was there before it."""
    newer = F.col("stored_sort_key") >= F.lit(state.truncated)
    on_older = F.col("stored_base").isNull() | (F.col("stored_base") < F.lit(state.truncated))
    return state.stored().where(newer & on_older).select("key")


def _judge(state: State, rows: DataFrame, published: DataFrame) -> DataFrame:
    """Changes that are not simply newer than all: ``key``, ``sort_key``, ``landed_this_hour``, ``counts``,
    ``fate``."""
    highest = state.highest or ""
    suspect = rows.where((F.col("sort_key") <= highest) | is_link()).select(
        "key", "sort_key", "landed_this_hour", "counts", is_link().alias("link")
    )
    known = (
        published.where(F.col("sort_key") <= highest).select("key", "sort_key", F.lit(True).alias("known")).distinct()
    )
    outdated = (F.col("sort_key") <= F.col("stored_sort_key")) & (F.col("sort_key") <= F.col("stored_base"))
    fate = (
        F.when(F.col("known"), "duplicate")
        .when(outdated, "superseded")
        .when(F.col("sort_key") <= F.col("stored_sort_key"), "refold")
        .when(F.col("link"), "refold")
        .when(F.col("stored_sort_key").isNull() & (F.col("sort_key") <= pruned(state.spark, state.feed.feed)), "refold")
        .otherwise("ordinary")
    )
    joined = suspect.join(known, ["key", "sort_key"], "left").join(state.stored(), "key", "left")
    return joined.select("key", "sort_key", "landed_this_hour", "counts", fate.alias("fate")).localCheckpoint()


def applied(late: DataFrame) -> Counts:
    """Changes that a refold takes in; the same one twice in the hour is a duplicate."""
    landed, one = F.col("landed_this_hour"), F.struct("key", "sort_key")
    said = (
        late.where("counts")
        .agg(
            F.count_if(landed),
            F.count_distinct(F.when(landed, one)),
            F.count_if(~landed),
            F.count_distinct(F.when(~landed, one)),
        )
        .first()
    )
    assert said is not None
    return Counts(
        applied=said[1], duplicate=said[0] - said[1], released_applied=said[3], released_duplicate=said[2] - said[3]
    )
