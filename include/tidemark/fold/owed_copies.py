"""Copies of a table without a key that were taken away under another set of columns than they were added with, or written
otherwise.

A source that adds or drops a column says nothing of the rows that are there: the image of such a row, when it is deleted
or updated later, has other columns than the image that added it. Where a column's type has changed, the image may have the
same value in another notation (``1.5`` and ``1.50``). So what is owed (more copies taken away than added) is matched with
copies that are there and agree in the values of all columns that both images have. Exact matches come first, by the images'
hashes (:mod:`tidemark.fold.keyless`); and what is matched here depends on all images alone, not on the hours in which they
came: an insert that comes late takes its own delete back.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.fold.keyless import image_hash
from tidemark.fold.typed_rows import TableShape


def removed_images(rows: DataFrame) -> DataFrame:
    """All log rows of a table → ``hash`` and ``taken``: the images that are taken away, each once."""
    taken = rows.where(F.col("op").isin("delete", "update") & F.col("before").isNotNull())
    of_hash = taken.groupBy(image_hash(F.col("before")).alias("hash"))
    return of_hash.agg(F.max_by("before", F.size("before")).alias("taken"))


def match_owed(images: DataFrame, removed: DataFrame, shape: TableShape) -> DataFrame:
    """:func:`tidemark.fold.keyless.copies` and :func:`removed_images` → the same copies, those below zero matched with
    others as far as any agree with them."""
    known = images.join(removed, "hash", "left").withColumn("image", F.coalesce("image", "taken")).drop("taken")
    known = known.localCheckpoint()
    common = known.agg(
        F.aggregate(
            F.collect_set(F.array_sort(F.map_keys("image"))),
            F.lit(None).cast("array<string>"),
            lambda found, names: F.coalesce(F.array_intersect(found, names), names),
        ).alias("common")
    )
    placed = (
        known.withColumn("image", shape.by_value(F.col("image")))
        .crossJoin(F.broadcast(common))
        .withColumn("part", image_hash(F.map_filter("image", lambda name, _: F.array_contains("common", name))))
    )
    # What agrees in no column with a value is no match; and without a common column all would be one group.
    anything = F.map_filter("image", lambda name, value: F.array_contains("common", name) & value.isNotNull())
    placed = placed.where(F.size(anything) > 0).drop("common").localCheckpoint()
    for number in ("before", "now"):
        known = _matched(known, placed, number)
    return known


def _matched(known: DataFrame, placed: DataFrame, number: str) -> DataFrame:
    """``known`` images with this number of copies matched, among those that agree in the common columns (``part``)."""
    entry = F.struct("hash", "image", F.abs(number).alias("copies"))

    def listed(which: Column, name: str) -> DataFrame:
        by_hash = F.array_sort(
            F.collect_list(entry), lambda one, other: F.when(one["hash"] < other["hash"], -1).otherwise(1)
        )
        return placed.where(which).groupBy("part").agg(by_hash.alias(name))

    groups = listed(F.col(number) < 0, "owed").join(listed(F.col(number) > 0, "there"), "part")
    nothing = F.array().cast("array<struct<hash: string, left: bigint>>")
    matched = F.aggregate("owed", F.struct("there", nothing.alias("owed")), _take)
    there = F.transform(matched["there"], lambda one: F.struct(one["hash"].alias("hash"), one["copies"].alias("left")))
    left = groups.select(F.inline(F.concat(there, matched["owed"])))
    return known.join(left, "hash", "left").withColumn(number, F.coalesce("left", number)).drop("left")


def _take(state: Column, owed: Column) -> Column:
    """What is left ``there``, and ``owed`` (below zero), once one more image has taken what agrees with it."""

    def one(so_far: Column, copy: Column) -> Column:
        taken = F.when(_agree(owed["image"], copy["image"]), F.least(so_far["need"], copy["copies"])).otherwise(0)
        rest = F.struct(
            copy["hash"].alias("hash"), copy["image"].alias("image"), (copy["copies"] - taken).alias("copies")
        )
        return F.struct((so_far["need"] - taken).alias("need"), F.concat(so_far["there"], F.array(rest)).alias("there"))

    begun = F.struct(owed["copies"].alias("need"), F.slice(state["there"], 1, 0).alias("there"))
    end = F.aggregate(state["there"], begun, one)
    rest = F.struct(owed["hash"].alias("hash"), (-end["need"]).alias("left"))
    return F.struct(end["there"].alias("there"), F.concat(state["owed"], F.array(rest)).alias("owed"))


def _agree(one: Column, other: Column) -> Column:
    """Whether two images have the same in all columns that both have."""
    both = F.array_intersect(F.map_keys(one), F.map_keys(other))
    return F.forall(both, lambda name: F.element_at(one, name).eqNullSafe(F.element_at(other, name)))
