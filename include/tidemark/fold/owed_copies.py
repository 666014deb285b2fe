"""Copies of a table without a key that were taken away when none that is equal was there.

A source that adds or drops a column says nothing of the rows that are there: the image of such a row, when it is deleted
or updated later, has other columns than the image that added it. Where a column's type has changed, the image may have the
same value in another notation (``1.5`` and ``1.50``). So, in the order of positions, each copy that is taken away meets one
that is equal to it; where none is there, one that agrees with it in all columns that both images have; else it is *owed*, and
meets the first that comes behind it, equal ones before those that agree.

What is left depends on the changes and their positions alone, not on the hours in which they came: an insert that comes late
takes its own delete back. And what stands behind everything else begins where that ended: as long as equal copies are there
for all that is taken away, and nothing is owed, an hour is added to what is stored (:mod:`tidemark.fold.keyless`).
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidemark.fold.keyless import image_hash, sides
from tidemark.fold.typed_rows import TableShape
from tidemark.values.expressions import compute_once

_IMAGE = "array<struct<key: string, value: string>>"
#: A copy or an owed one: its image's hash; the image, for equal ones may differ in columns without a value; how many, those
#: that are owed below zero.
_COPIES = f"array<struct<hash: string, image: {_IMAGE}, number: bigint>>"
_OF_ANOTHER = 3


def match_owed(changes: DataFrame, images: DataFrame, shape: TableShape) -> DataFrame:
    """:func:`tidemark.fold.keyless.effective` changes and what :func:`tidemark.fold.keyless.copies` makes of them → the same,
    the copies that were taken away when no equal one was there matched with others as far as any agree with them."""
    in_turn = sides(changes, images=True).withColumn("image", shape.by_value(F.col("image"))).localCheckpoint()
    for number, times in (("before", "times_before"), ("now", "times")):
        # What was there before depends on nothing that this hour brings.
        steps = in_turn.withColumn("number", F.col("sign") * F.col(times)).where("number != 0")
        left = _match(steps.select("hash", "image", "position", "turn", "number"))
        images = images.join(left, "hash", "left").withColumn(number, F.coalesce("left", number)).drop("left")
    return images


def _match(steps: DataFrame) -> DataFrame:
    """Copies that are added, or taken away, at their positions → ``hash`` and how many are ``left``, of the images that may
    meet others: those of the parts of the table in which copies were taken away when no equal ones were there. A part is
    what is the same in the columns that all images have."""
    common = steps.agg(
        F.aggregate(
            F.collect_set(F.array_sort(F.map_keys("image"))),
            F.lit(None).cast("array<string>"),
            lambda found, names: F.coalesce(F.array_intersect(found, names), names),
        ).alias("common")
    )
    in_common = F.map_filter("image", lambda name, _: F.array_contains("common", name))
    parts = steps.crossJoin(F.broadcast(common)).withColumn("part", image_hash(in_common))
    # What agrees in no column with a value is no match; and without a common column all would be one part.
    parts = parts.where(F.exists(F.map_values(in_common), lambda value: value.isNotNull()))
    of_image = Window.partitionBy("part", "hash", "image").orderBy("position", "turn")
    parts = parts.withColumn("image", F.array_sort(F.map_entries("image"))).drop("common")
    parts = parts.withColumn("so_far", F.sum("number").over(of_image)).localCheckpoint()
    first = parts.where("so_far < 0").groupBy("part").agg(F.min("position").alias("first"))
    # Before the first of these, all copies have met their own: there the sum of each image is enough.
    behind = F.col("position") >= F.col("first")
    places = [
        F.when(behind, F.col(name)).otherwise(F.lit(other)).alias(name)
        for name, other in (("position", ""), ("turn", 0))
    ]
    summed = parts.join(first, "part").groupBy("part", "hash", "image", *places).agg(F.sum("number").alias("number"))
    step, none = (
        F.struct("position", "turn", "hash", "image", "number"),
        F.struct("hash", "image", F.lit(0).alias("number")),
    )
    of_part = summed.groupBy("part").agg(
        F.array_sort(F.collect_list(step)).alias("steps"), F.collect_set(none).cast(_COPIES).alias("copies")
    )  # fmt: skip
    left = of_part.select(F.inline(F.aggregate("steps", "copies", _take_step)))
    return left.groupBy("hash").agg(F.sum("number").alias("left"))


def _take_step(copies: Column, step: Column) -> Column:
    """The copies of a part once a step has met what it can of them: what it takes away those that are there, what it adds
    those that are owed."""
    own = F.exists(copies, lambda copy: _is_own(step, copy) & (_opposite(step, copy) >= F.abs(step["number"])))
    nothing = ~F.exists(copies, lambda copy: _opposite(step, copy) > 0)
    return F.when(own | nothing, _counted(copies, step, step["number"])).otherwise(_meet(copies, step))


def _meet(copies: Column, step: Column) -> Column:
    """The copies once a step has met some of them: of its own image, else equal ones, else such that agree."""
    times, sign = F.abs(step["number"]).cast("int"), F.signum(step["number"]).cast("bigint")

    def meet(so_far: Column, copy: Column) -> Column:
        met = F.when(copy["likeness"] < _OF_ANOTHER, F.least(so_far["rest"], _opposite(step, copy))).otherwise(0)
        one = F.array(_plus(copy, sign * met))
        return F.struct((so_far["rest"] - met).alias("rest"), F.concat(so_far["copies"], one).alias("copies"))

    def meet_nearest(nearest: Column) -> Column:
        # Each has at least one that is met: more of them than the step's number are never needed.
        others = F.transform(F.slice(nearest, times + 1, F.size(nearest)), lambda copy: F.struct(*_fields(copy)))
        begun = F.struct(F.abs(step["number"]).alias("rest"), F.slice(copies, 1, 0).alias("copies"))
        return F.aggregate(
            F.slice(nearest, 1, times), begun, meet,
            lambda end: _counted(F.concat(end["copies"], others, same), step, sign * end["rest"]),
        )  # fmt: skip

    def by_likeness(copy: Column) -> Column:
        return F.struct(_likeness(step, copy).alias("likeness"), *_fields(copy))

    same = F.filter(copies, lambda copy: _opposite(step, copy) <= 0)
    nearest = F.array_sort(F.transform(F.filter(copies, lambda copy: _opposite(step, copy) > 0), by_likeness))
    return compute_once(nearest, meet_nearest)


def _counted(copies: Column, step: Column, number: Column) -> Column:
    """The copies with so many more, or less, of the step's own image."""
    return F.transform(copies, lambda copy: _plus(copy, F.when(_is_own(step, copy), number).otherwise(0)))


def _opposite(step: Column, copy: Column) -> Column:
    """How many of the copies a step could meet, were they of its image."""
    return F.greatest(-F.signum(step["number"]).cast("bigint") * copy["number"], F.lit(0))


def _is_own(step: Column, copy: Column) -> Column:
    return (step["hash"] == copy["hash"]) & (step["image"] == copy["image"])


def _likeness(step: Column, copy: Column) -> Column:
    """0: of the step's own image; 1: of an equal one; 2: of one that agrees with it; else of another row."""
    found = F.when(_is_own(step, copy), 0).when(step["hash"] == copy["hash"], 1)
    return found.when(_agree(step["image"], copy["image"]), 2).otherwise(_OF_ANOTHER)


def _agree(one: Column, other: Column) -> Column:
    """Whether two images have the same in all columns that both have."""
    both = F.array_intersect(one["key"], other["key"])
    return F.size(F.array_intersect(one, other)) == F.size(both)


def _plus(copy: Column, number: Column) -> Column:
    hash_, image, already = _fields(copy)
    return F.struct(hash_, image, (already + number).alias("number"))


def _fields(copy: Column) -> tuple[Column, Column, Column]:
    return copy["hash"].alias("hash"), copy["image"].alias("image"), copy["number"].alias("number")
