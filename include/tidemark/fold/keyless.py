"""Tables without a key: a multiset of rows, in which each image adds or takes away one copy. No order is needed, but where
no copy is there that is equal to one that is taken away (:mod:`tidemark.fold.owed_copies`).

Where a position names one change, a change that comes again is known by its position and its images, in whichever run,
partition or topic it comes. Where equal changes may share a position and all be real (a snapshot's, or a COPY's), only how
often they come tells: such a change counts as often as it appears within one run of the topic, in the run where it appears
most. A run ends where the order steps back, for there a connector started again from an older position; and where the
format says so. Each read of a table by a full load is a run of its own, where its rows name it.

What its transaction numbers is one change, also where it came again with another image: see :func:`other_content`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidemark.fold.contract import tidemark
from tidemark.fold.typed_rows import TableShape, texts_of, unreadable_in
from tidemark.identifiers import TIDEMARK

_SAME_CHANGE = ("position", "op", "removed", "added")
_OF_LAST = ("position", "read", "tx", "tx_ordinal", "offset")


def _no_more_ordinals(last: Mapping[str, Column]) -> Column:
    return F.coalesce(F.col("tx_ordinal") <= last["tx_ordinal"], F.lit(False))


@dataclass(frozen=True, kw_only=True)
class SharedPositions:
    """Which log rows without a key share their positions with equal ones that are all real."""

    shared: Column
    """Whether equal changes at a log row's position may all be real."""
    of_load: Column = field(default_factory=lambda: F.lit(False))
    """Whether a full load read the row: equal rows of it may lie in several partitions."""
    read: Column = field(default_factory=lambda: F.lit(None).cast("string"))
    """What names the full load's read of the table that a row came from; null where nothing does."""
    begins_again: Callable[[Mapping[str, Column]], Column] = _no_more_ordinals
    """Whether a row that stands right behind another one at its position and of its read, of which it gets the columns,
    begins another delivery."""


def image_hash(image: Column) -> Column:
    """SHA-256 of an image, independent of the order of its columns.

    A column without a value does not count: a row from before a column was added is the same row afterwards.
    """
    sent = F.filter(F.map_entries(image), lambda column: column["value"].isNotNull())
    return F.when(image.isNotNull(), F.sha2(F.to_json(F.array_sort(sent)), 256))


def other_content(came: Column) -> Column:
    """Whether a log row is a change that came before with another image, as its number in its transaction tells: mended, or
    the one that was mended. As in a table with a key, what was published first stands. ``came``: which publication brought
    the row."""
    numbered = F.col("tx").isNotNull() & F.col("tx_ordinal").isNotNull()
    # All rows of a snapshot stand at one position: they are not to be sorted together.
    apart = F.when(~numbered, F.struct("object", "record"))
    same = Window.partitionBy("tx", "tx_ordinal", "position", "op", apart).orderBy(came, "object", "record", "entry")
    images = F.struct(image_hash(F.col("before")).alias("before"), image_hash(F.col("after")).alias("after"))
    return numbered & (F.first(images).over(same) != images)


def effective(rows: DataFrame, positions: SharedPositions | None) -> DataFrame:
    """All log rows of a table, published and of this hour → one row per distinct change, with how often it counts.

    ``times``: over all rows; ``times_before``: without the rows of this hour; ``landed_this_hour``: how many rows of
    this hour are this change; ``removed`` and ``added``: image hashes; ``image`` and ``taken``: the maps of the added and
    the removed row; ``newest``:
    ``committed_at`` and ``tx`` of the newest row; ``doubtful``: how many rows of this hour stand right behind an equal one
    and are taken for another delivery of it; ``merged``: how many rows of a full load count once with equal ones, for they
    have no offset that would tell. ``positions``: None where each names one change.
    """
    told = rows.withColumns(
        {
            "removed": F.when(F.col("op").isin("delete", "update"), image_hash(F.col("before"))),
            "added": F.when(F.col("op").isin("insert", "update"), image_hash(F.col("after"))),
        }
    )
    of_change = [
        F.sum(F.col("landed_this_hour").cast("int")).alias("landed_this_hour"),
        F.first("after").alias("image"),
        F.first("before").alias("taken"),
        F.max(F.struct("committed_at", "tx")).alias("newest"),
    ]
    if positions is None:
        once = [F.lit(1).alias("times"), F.max((~F.col("landed_this_hour")).cast("int")).alias("times_before")]
        nothing = [F.lit(0).cast("bigint").alias(name) for name in ("doubtful", "merged")]
        return told.groupBy(*_SAME_CHANGE).agg(*once, *of_change, *nothing)
    before = ~F.col("landed_this_hour")
    # The exporter's own repetition (one offset twice) is never a second row; without offsets the position is unique.
    counted = F.when(F.col("shared") & F.col("offset").isNotNull(), (~F.col("again")).cast("int"))
    per_run = _in_runs(told, positions).groupBy(*_SAME_CHANGE, "stream", "read", "run").agg(
        F.coalesce(F.sum(counted), F.lit(1)).alias("times"),
        F.coalesce(F.sum(F.when(before, counted)), F.max(before.cast("int"))).alias("times_before"),
        *of_change,
        F.count_if(F.col("doubtful") & ~before).alias("doubtful"),
        F.count_if(F.col("of_load") & F.col("offset").isNull() & ~before).alias("unnumbered"),
    )  # fmt: skip
    return per_run.groupBy(*_SAME_CHANGE).agg(
        F.max("times").alias("times"),
        F.max("times_before").alias("times_before"),
        F.sum("landed_this_hour").alias("landed_this_hour"),
        F.first("image", ignorenulls=True).alias("image"),
        F.first("taken", ignorenulls=True).alias("taken"),
        F.max("newest").alias("newest"),
        F.sum("doubtful").alias("doubtful"),
        F.greatest(F.sum("unnumbered") - F.max("times") + F.max("times_before"), F.lit(0)).alias("merged"),
    )


def _in_runs(rows: DataFrame, positions: SharedPositions) -> DataFrame:
    """Log rows with ``shared``; ``read``; ``run``, the number of the run of their topic, and ``stream``, the partition in
    which it is one (null: in all); ``again``, whether the exporter repeats the offset before; and ``doubtful``."""
    # At one offset stands one record. What has another position there was sent to the topic when it had been made anew.
    position = F.when(F.col("offset").isNotNull(), F.col("position"))
    offsets = Window.partitionBy("topic", "partition").orderBy(
        "offset", position, "landed_this_hour", "object", "record", "entry"
    )
    rows = rows.withColumn("read", positions.read)
    last = {name: F.lag(name).over(offsets) for name in _OF_LAST}
    # Of what stands at one place the first record counts, with all of its rows; one that counts already before others.
    same = (F.col("offset") == last["offset"]) & (F.col("position") == last["position"])
    record, new = F.struct("object", "record"), ~F.coalesce(same, F.lit(False))
    first = F.last(F.when(F.col("new_place"), record), ignorenulls=True).over(offsets)
    rows = rows.withColumn("new_place", new)
    rows = rows.withColumn("again", F.col("offset").isNotNull() & (record != first))
    again = F.col("again")
    same_place = F.coalesce(F.col("position") == last["position"], F.lit(False)) & F.col("read").eqNullSafe(
        last["read"]
    )
    back = ~again & F.coalesce(F.col("position") < last["position"], F.lit(False))
    repeats = same_place & ~again & F.coalesce(positions.begins_again(last), F.lit(False))
    placed = rows.withColumns(
        {"shared": positions.shared, "of_load": positions.of_load, "back": back, "repeats": repeats}
    )
    return placed.withColumns(
        {
            "run": F.sum((F.col("back") | F.col("repeats")).cast("int")).over(offsets),
            "stream": F.when(~F.col("of_load"), F.struct("topic", "partition")),
            # Within a transaction the numbers of its changes tell, within a read its first and last rows.
            "doubtful": F.col("repeats") & F.col("shared") & F.col("tx").isNull() & F.col("read").isNull(),
        }
    )


def sides(changes: DataFrame, *, images: bool) -> DataFrame:
    """:func:`effective` changes → one row for each image that a change adds (``sign`` 1) or takes away (-1): ``hash``,
    ``position``, ``turn``, ``times``, ``times_before``; with ``images`` also ``image``, its map.

    ``turn``: its place among what stands at one position, where nothing tells which change was first. What is added comes
    before what is taken away; but a change that puts back what it takes has taken it first.
    """
    puts_back = F.coalesce(F.col("added") == F.col("removed"), F.lit(False))

    def side(hash_: str, sign: int, turn: Column, image: str) -> Column:
        shown = [F.col(image).alias("image")] if images else []
        return F.struct(F.col(hash_).alias("hash"), F.lit(sign).alias("sign"), turn.alias("turn"), *shown)

    added, removed = (
        side("added", 1, F.when(puts_back, 2).otherwise(0), "image"),
        side("removed", -1, F.lit(1), "taken"),
    )
    each = changes.select("position", "times", "times_before", F.explode(F.array(added, removed)).alias("side"))
    return each.where("side.hash is not null").select("side.*", "position", "times", "times_before")


def copies(changes: DataFrame) -> DataFrame:
    """:func:`effective` changes → per image: ``hash``, ``before`` and ``now`` copies, below zero where more are taken away
    than were added; ``lowest_before`` and ``lowest``: how far below zero they ever were, in the order of positions. There
    copies were taken away when none that is equal was there."""
    numbers = {"now": "times", "before": "times_before"}
    so_far = Window.partitionBy("hash").orderBy("position", "turn")
    each = sides(changes, images=False).select(
        "hash", *((F.sum(F.col("sign") * F.col(times)).over(so_far)).alias(name) for name, times in numbers.items()),
        *((F.col("sign") * F.col(times)).alias(times) for times in numbers.values()),
    )  # fmt: skip
    return each.groupBy("hash").agg(
        F.sum("times").alias("now"),
        F.sum("times_before").alias("before"),
        F.min(F.least("now", F.lit(0))).alias("lowest"),
        F.min(F.least("before", F.lit(0))).alias("lowest_before"),
    )


def added_copies(changes: DataFrame) -> DataFrame:
    """:func:`effective` changes → COPIES: one row for each copy that was ever added. ``hash``, ``copy``: its sort key, which
    nothing else has: where it was added, its image's hash, and which of the equal ones there it is; ``image``, ``newest``;
    ``added_before``: whether rows from before this hour add it."""
    of_place = changes.where("added is not null").groupBy(F.col("added").alias("hash"), "position").agg(
        F.first("image").alias("image"), F.max("newest").alias("newest"),
        F.sum("times").alias("times"), F.sum("times_before").alias("times_before"),
    )  # fmt: skip
    numbers = F.explode(F.sequence(F.lit(1).cast("bigint"), F.greatest("times", "times_before"))).alias("number")
    each = of_place.select("*", numbers)
    number = F.lpad(F.col("number").cast("string"), 12, "0")
    return each.select(
        "hash",
        F.concat_ws("#", "position", "hash", number).alias("copy"),
        "image",
        "newest",
        (F.col("number") <= F.col("times_before")).alias("added_before"),
    )


def stored_copies(rows: DataFrame, hashes: DataFrame) -> DataFrame:
    """Published rows → COPIES of these images (``hash``), without what they hold: they are there already."""
    copy = F.col(f"{TIDEMARK}.sort_key")
    each = rows.select(F.substring_index(F.substring_index(copy, "#", -2), "#", 1).alias("hash"), copy.alias("copy"))
    return each.join(F.broadcast(hashes.select("hash")), "hash", "left_semi").select(
        "hash",
        "copy",
        F.lit(None).cast("map<string, string>").alias("image"),
        F.lit(None).cast("struct<committed_at: timestamp, tx: string>").alias("newest"),
        F.lit(True).alias("added_before"),
    )


def present_copies(added: DataFrame, images: DataFrame) -> DataFrame:
    """COPIES with ``there`` and ``was``: whether they are there now, and were before. ``images``: how many of each image are
    there (``hash``, ``now``, ``before``; below zero: none).

    Of equal copies the oldest go first, so that which are left does not depend on the hours in which changes come.
    """

    def among_newest(counted: Column, number: str) -> Column:
        of_image = Window.partitionBy("hash").orderBy(F.desc("copy"))
        return counted & (F.sum(counted.cast("int")).over(of_image) <= F.col(number))

    numbered = added.join(images.select("hash", "now", "before"), "hash")
    return numbered.withColumns(
        {"there": among_newest(F.lit(True), "now"), "was": among_newest(F.col("added_before"), "before")}
    )


def settle_copies(present: DataFrame, shape: TableShape, hour: str, *, everything: bool = False) -> DataFrame:
    """:func:`present_copies` → SETTLED (:mod:`tidemark.fold.contract`) of the copies that come and go; of ``everything``
    that is there, where that is asked for. The key of each is its sort key. Plus ``unreadable``, as
    :func:`tidemark.fold.typed_rows.settle` gives it.
    """
    changed = F.col("there") if everything else F.col("there") != F.col("was")
    values = [shape.value(name, F.col("texts")[number]).alias(name) for number, name in enumerate(shape.columns)]
    copy, newest, nothing = F.col("copy"), F.col("newest"), F.array()
    stamp = tidemark(copy, copy, newest["tx"], newest["committed_at"], hour, nothing, F.lit(None))
    texts = texts_of(F.col("image"), list(shape.columns))
    return (
        present.where(changed)
        .withColumn("texts", texts)
        .select(
            F.struct("copy").alias("key"),
            (~F.col("there")).alias("deleted"),
            F.struct(*values).alias("row"),
            F.lit(False).alias("joins"),
            stamp.alias("tidemark"),
            F.when(F.col("there"), unreadable_in(shape, F.col("image"))).otherwise("").alias("unreadable"),
        )
    )
