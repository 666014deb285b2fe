"""Fold: what a key's changes, in the source's order, come to. Pure DataFrame to DataFrame.

ROWS, the input of the functions here (one row per change of one keyed table):
    ``key`` struct of typed key columns · ``place`` text, see :func:`place` · ``op`` insert, update, delete ·
    ``after`` map of column → text · ``absent`` array of column names, never null · ``prior`` struct like ``key``, or
    null: the old key of a key change · ``own`` whether the change landed in the hour that runs (false: released from
    an earlier one) · ``counts`` false for the second half of a change that was sent as one · ``tx``, ``committed_at``.

For each key: begin at the last insert or delete (or an update that sent every column); then take, column by column,
the newest value that was sent. A column that nobody sent stays absent.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

#: The order of changes that share a position: a key change's delete stands before its insert.
_RANK = {"delete": "0", "insert": "1", "update": "2"}


def place(position: Column, op: Column) -> Column:
    """A change's place in its key's order, and with the key its identity: the same place again is a redelivery."""
    rank = F.lit("3")
    for name, digit in _RANK.items():
        rank = F.when(op == name, F.lit(digit)).otherwise(rank)
    return F.concat(position, F.lit("#"), rank)


def is_base(partial: bool) -> Column:
    """Whether a change needs nothing before it. With ``partial`` false no change of the table lacks a column."""
    return F.col("op").isin("insert", "delete") | (F.size("absent") == 0) if partial else F.lit(True)


def mark(rows: DataFrame, *, partial: bool) -> DataFrame:
    """ROWS with ``duplicate`` (the same change again), ``base`` (the place its key's fold begins at; null: none) and
    the key's counts ``own_count``, ``own_duplicates``, ``released_count``, ``released_duplicates``.

    One exchange and one sort, by key and place.
    """
    of_key = Window.partitionBy("key")
    before = F.lag("place").over(of_key.orderBy("place"))
    marked = rows.withColumn("duplicate", F.coalesce(before == F.col("place"), F.lit(False)))
    duplicate, own, counts = F.col("duplicate"), F.col("own") & F.col("counts"), F.col("counts")

    def count(which: Column) -> Column:
        return F.sum(which.cast("int")).over(of_key)

    return marked.select(
        "*",
        F.max(F.when(is_base(partial), F.col("place"))).over(of_key).alias("base"),
        count(own).alias("own_count"),
        count(own & duplicate).alias("own_duplicates"),
        count(counts & ~own).alias("released_count"),
        count(counts & ~own & duplicate).alias("released_duplicates"),
    )


def fold(rows: DataFrame, *, partial: bool) -> DataFrame:
    """ROWS → one row per key: FOLDED.

    ``key``, ``place`` (the newest), ``gone`` (the last change deletes), ``after``, ``absent``, ``floor`` (the place of
    the oldest change the row rests on; null when it rests on what is stored), ``tx``, ``committed_at``, and the counts
    of :func:`mark`.
    """
    counts = ["own_count", "own_duplicates", "released_count", "released_duplicates"]
    marked = mark(rows, partial=partial)
    standing = ~F.col("duplicate") & (F.col("base").isNull() | (F.col("place") >= F.col("base")))
    needed = marked.where(standing)
    if not partial:
        return needed.select(
            "key", "place", (F.col("op") == "delete").alias("gone"), F.coalesce("after", _no_columns()).alias("after"),
            "absent", F.col("place").alias("floor"), "tx", "committed_at", *counts,
        )  # fmt: skip
    step = F.struct("place", "op", F.coalesce("after", _no_columns()).alias("after"), "absent", "tx", "committed_at")
    steps = needed.groupBy("key").agg(
        F.array_sort(F.collect_list(step), _by_place).alias("steps"),
        F.first("base").alias("floor"),
        *(F.first(name).alias(name) for name in counts),
    )
    last = F.element_at("steps", -1)
    return steps.withColumn("state", fold_steps(F.col("steps"))).select(
        "key", last["place"].alias("place"), F.col("state.gone").alias("gone"), F.col("state.after").alias("after"),
        F.col("state.absent").alias("absent"), "floor", last["tx"].alias("tx"),
        last["committed_at"].alias("committed_at"), *counts,
    )  # fmt: skip


def _by_place(left: Column, right: Column) -> Column:
    return F.when(left["place"] < right["place"], -1).when(left["place"] > right["place"], 1).otherwise(0)


def _no_columns() -> Column:
    return F.create_map().cast("map<string, string>")


def fold_steps(steps: Column) -> Column:
    """Ordered steps of one key (place, op, after, absent) → struct(after, absent, gone).

    Only the first step may be one that needs nothing before it, but for steps after a delete: an update that meets no
    row keeps the columns it did not send absent.
    """

    def state(step: Column) -> Column:
        return F.struct(
            step["after"].alias("after"), step["absent"].alias("absent"), (step["op"] == "delete").alias("gone")
        )

    def merge(so_far: Column, step: Column) -> Column:
        kept = F.map_filter(so_far["after"], lambda column, _: F.array_contains(step["absent"], column))
        filled = F.struct(
            F.map_concat(kept, step["after"]).alias("after"),
            F.array_intersect(step["absent"], so_far["absent"]).alias("absent"),
            F.lit(False).alias("gone"),
        )
        fresh = so_far["gone"] | (step["op"] == "delete")
        return F.when(fresh, state(step)).otherwise(filled)

    # Nearly every key has one step: it needs no lambda.
    rest = F.slice(steps, 2, F.greatest(F.size(steps) - 1, F.lit(1)))
    first = state(F.element_at(steps, 1))
    return F.when(F.size(steps) == 1, first).otherwise(F.aggregate(rest, first, merge))
