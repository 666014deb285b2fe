"""Changes that no row's own state tells enough of: classified by what is published, and folded again from the change log.

Only needed when a change comes late and it or any before it rests on another key or met another row at its own; when rows
meet at a key over two hours, or meet and rest on other keys; and when all rows are folded again. Such a change is one of
three: the change log has it already (*duplicate*); the key's row rests wholly on newer changes, or a newer delete stands
(*superseded*); or it can still fill or alter columns. In the last case its key is folded again from the change log
(*refold*).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.fold.colliding_keys import colliding_keys, is_arrival
from tidemark.fold.fold_rows import fold, is_link
from tidemark.fold.key_changes import descendants, of_keys, tied_by, with_ancestors
from tidemark.fold.materialized import Materialized, materialize
from tidemark.fold.typed_rows import TableShape
from tidemark.ledger.receipts import Counts


@dataclass(frozen=True, kw_only=True)
class PublishedChanges:
    """What is published of a table with a key."""

    rows: DataFrame
    """ROWS of its published changes since the newest truncate or reload."""
    shape: TableShape
    """How its texts are read."""
    stored: DataFrame
    """``key``, ``stored_sort_key`` and ``stored_base_sort_key`` of each row, and of each key that has only a tombstone."""
    highest: str | None
    """The highest sort key that is published. None: nothing is."""
    truncated: str | None = None
    """The position of the newest truncate or reload, of this hour or before. None: there is none."""
    new_truncate: bool = False
    """Whether this hour brings one."""
    pruned: str = ""
    """The highest sort key of any tombstone of the feed that was removed; empty: none was."""
    rebuild: bool = False
    """Whether all rows are folded again."""


@dataclass(frozen=True)
class Classified:
    """An hour's changes of one table, by what is to be done with them."""

    ordinary: DataFrame
    """ROWS to fold onto what is stored."""
    refolded: DataFrame | None
    """The FOLDED states of keys that are folded again from the change log. None: no key is."""
    counts: Counts
    """What became of all changes but the ordinary ones."""


def classify(table: PublishedChanges, rows: DataFrame, links: int, *, late: bool) -> Classified:
    """Classify the hour's ROWS of one table. ``links``: how many of them rest on another key. ``late``: whether one of them
    may be older than what is published; else nothing of them is there already or superseded, and no stored row is asked.

    Of what is published only the keys that the hour's late changes can meet are taken, so that the joins and folds after
    it are of their size and not of the table's."""
    rows = rows.localCheckpoint()
    if not table.rebuild:
        table = _in_reach(table, rows)
    of_hour = rows.withColumn("of_hour", F.lit(True))
    known_and_new = table.rows.withColumn("of_hour", F.lit(False)).unionByName(of_hour)
    colliding = colliding_keys(known_and_new, F.col("of_hour")).localCheckpoint()
    live, counts = rows, Counts()
    if late or table.rebuild:
        judged, counts = _judge(table, rows, colliding)
        without_effect = (
            judged.where(F.col("fate").isin("duplicate", "superseded")).select("key", "sort_key").distinct()
        )
        live = rows.join(without_effect, ["key", "sort_key"], "left_anti").select(*rows.columns)
    else:
        judged = rows.where(is_link()).select("key", "sort_key", F.lit("refold").alias("fate"))
    targets = _keys_to_refold(table, judged, live, links, colliding)
    if not targets.count:
        return Classified(live, None, counts)
    ordinary = live.join(targets.rows, "key", "left_anti").select(*rows.columns)
    taken_in = live.join(targets.rows, "key", "left_semi").select(*rows.columns)
    everything = table.rows.unionByName(rows).withColumn("counts", F.lit(False))
    refolded = fold(with_ancestors(everything, targets.rows, colliding, table.shape), partial=True)
    return Classified(ordinary, refolded, counts.plus(applied(taken_in)))


def _in_reach(table: PublishedChanges, rows: DataFrame) -> PublishedChanges:
    """What is published of the keys that the hour's ROWS can meet: those of its late changes; those of its changes onto
    which a row ever moved, because they can collide; those under a late truncate, and all that can collide over it; and
    all that links tie to these."""
    moved = is_arrival() | is_link()
    both = table.rows.where(moved).unionByName(rows.where(moved))
    moves = materialize(both.select("key", "prior", is_link().alias("link")).distinct(), links=F.count_if("link"))
    late = (F.col("sort_key") <= (table.highest or "")) | is_link()
    # The other ends of the hour's links as well, as a rule all that links tie to these.
    keys = rows.where(late).select("key").unionByName(rows.where(is_link()).select(F.col("prior").alias("key")))
    if moves.count:
        keys = keys.unionByName(rows.select("key").join(moves.rows.select("key"), "key", "left_semi"))
    if table.new_truncate:
        under = keys_under_a_truncate(table.stored, table.truncated or "")
        keys = keys.unionByName(under).unionByName(moves.rows.select("key"))
    near = tied_by(moves.rows.where("link") if moves.sums["links"] else None, keys)
    return replace(table, rows=of_keys(table.rows, near).localCheckpoint(), stored=of_keys(table.stored, near))


def _judge(table: PublishedChanges, rows: DataFrame, colliding: DataFrame) -> tuple[DataFrame, Counts]:
    """The changes that are not simply newer than all: ``key``, ``sort_key``, ``landed_this_hour``, ``counts``,
    ``fate``. The duplicates and the superseded ones are counted; ordinary and refolded ones are where they are folded."""
    highest = table.highest or ""
    suspects = rows.where((F.col("sort_key") <= highest) | is_link()).select(
        "key", "sort_key", "landed_this_hour", "counts", is_link().alias("link")
    )
    known = (
        table.rows.where(F.col("sort_key") <= highest).select("key", "sort_key", F.lit(True).alias("known")).distinct()
    )
    outdated = (F.col("sort_key") <= F.col("stored_sort_key")) & (F.col("sort_key") <= F.col("stored_base_sort_key"))
    # A key may have had a tombstone that was removed: only the change log knows.
    gone = F.col("stored_sort_key").isNull() & (F.col("sort_key") <= table.pruned)
    fate = (
        F.when(F.col("known"), "duplicate")
        # Which row of its key a delete took depends on all that came before.
        .when(F.col("collides"), "refold")
        .when(outdated, "superseded")
        .when(F.col("sort_key") <= F.col("stored_sort_key"), "refold")
        .when(F.col("link"), "refold")
        .when(gone & (F.col("sort_key") <= F.col("deleted_at")), "superseded")
        .when(gone, "refold")
        .otherwise("ordinary")
    )
    collides = colliding.select("key", F.lit(True).alias("collides"))
    joined = suspects.join(known, ["key", "sort_key"], "left").join(table.stored, "key", "left")
    joined = joined.join(collides, "key", "left").withColumn("deleted_at", F.lit(None).cast("string"))
    if table.pruned:
        deleted = table.rows.where("op = 'delete'").groupBy("key").agg(F.max("sort_key").alias("deleted_at"))
        joined = joined.drop("deleted_at").join(deleted, "key", "left")
    judged = joined.select("key", "sort_key", "landed_this_hour", "counts", fate.alias("fate"))

    def number(fate: str, landed: Column) -> Column:
        return F.count_if(F.col("counts") & (F.col("fate") == fate) & landed)

    landed = F.col("landed_this_hour")
    found = materialize(
        judged, duplicate=number("duplicate", landed), released_duplicate=number("duplicate", ~landed),
        superseded=number("superseded", landed), released_superseded=number("superseded", ~landed),
    )  # fmt: skip
    return found.rows, Counts(**found.sums)


def _keys_to_refold(
    table: PublishedChanges, judged: DataFrame, live: DataFrame, links: int, colliding: DataFrame
) -> Materialized:
    """The keys whose rows come from the change log. ``live``: the hour's ROWS that have an effect."""
    if table.rebuild:
        return materialize(table.rows.select("key").unionByName(live.select("key")).distinct())
    altered = colliding.where("new").join(live.select("key").distinct(), "key", "left_semi").select("key")
    if table.new_truncate:
        # Which row of its key a delete took depends on what the truncate ended, too.
        under = keys_under_a_truncate(table.stored, table.truncated or "")
        altered = altered.unionByName(under).unionByName(colliding.select("key"))
    targets = judged.where("fate = 'refold'").select("key").unionByName(altered).distinct()
    if links or not table.rows.where(is_link()).isEmpty():
        # A superseded change of a key that others rest on may still be what they inherited.
        changed = judged.where("fate <> 'duplicate'").select("key").unionByName(altered).distinct()
        resting = descendants(table.rows.unionByName(live), changed)
        targets = targets.unionByName(resting).distinct()
    return materialize(targets)


def keys_under_a_truncate(stored: DataFrame, truncated: str) -> DataFrame:
    """Keys whose rows are newer than a truncate that came late, but rest on what was there before it. ``stored``: as in
    :class:`PublishedChanges`."""
    on_older = F.col("stored_base_sort_key").isNull() | (F.col("stored_base_sort_key") < F.lit(truncated))
    return stored.where((F.col("stored_sort_key") >= F.lit(truncated)) & on_older).select("key")


def applied(late: DataFrame) -> Counts:
    """The changes that a refold takes in. The same change twice in the hour is a duplicate."""
    landed, change = F.col("landed_this_hour"), F.struct("key", "sort_key")
    row = (
        late.where("counts")
        .agg(
            F.count_if(landed).alias("landed"),
            F.count_distinct(F.when(landed, change)).alias("landed_changes"),
            F.count_if(~landed).alias("released"),
            F.count_distinct(F.when(~landed, change)).alias("released_changes"),
        )
        .first()
    )
    assert row is not None
    return Counts(
        applied=row.landed_changes,
        duplicate=row.landed - row.landed_changes,
        released_applied=row.released_changes,
        released_duplicate=row.released - row.released_changes,
    )
