"""Fold: what the changes of each key come to, in the source's order. From ROWS to FOLDED (:mod:`tidemark.fold.contract`).

For each key, begin at the last insert or delete, or at the last update that sent every column. Then take, column by
column, the newest value that was sent. A column that no change sent stays absent. The sort keys of columns that are
newer than where it begins are kept, so that what comes late can be joined (:mod:`tidemark.fold.row_join`).

A row that moved from another key without all of its columns rests on what that key held just before
(:mod:`tidemark.fold.moved_rows`).
"""

from __future__ import annotations

from typing import cast

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType
from pyspark.sql.window import WindowSpec

from tidemark.fold.contract import COUNTED, RESTING

#: The order of changes that share a position: the delete of a key change stands before its insert.
_RANK = {"delete": "0", "insert": "1", "update": "2"}


def sort_key(position: Column, op: Column) -> Column:
    """Where a change stands in its key's order. Together with the key it identifies the change: a change with the same
    key and sort key is a redelivery."""
    rank = F.lit("3")
    for name, digit in _RANK.items():
        rank = F.when(op == name, F.lit(digit)).otherwise(rank)
    return F.concat(position, F.lit("#"), rank)


def is_base(partial: bool) -> Column:
    """Whether a change needs nothing before it. ``partial`` false: no change of the table lacks a column."""
    return F.col("op").isin("insert", "delete") | (F.size("absent") == 0) if partial else F.lit(True)


def is_link() -> Column:
    """Whether a change of ROWS rests on another key: the insert of a key change that lacks columns."""
    return F.col("prior").isNotNull() & (F.col("op") == "insert") & (F.size("absent") > 0)


def fold(rows: DataFrame, *, partial: bool, links: bool = False) -> DataFrame:
    """ROWS → FOLDED, one row per key. ``partial``: whether any change lacks columns. ``links``: whether it is to be told
    which rows rest on another key, in ``rests`` and ``first``.

    One exchange and one sort, by key and sort key.
    """
    flat, key = _flat(rows)
    folded = _with_steps(_with_base(flat, key, partial=partial, links=links), key).where("newest")
    if partial:
        several = F.size("steps") > 0
        folded = folded.withColumn("state", F.when(several, fold_steps(F.col("steps"))))
        after = F.when(several, F.col("state.after")).otherwise(F.col("after"))
        absent = F.when(several, F.col("state.absent")).otherwise(F.col("absent"))
        newer = F.when(F.size("state.newer") > 0, F.col("state.newer"))
    else:
        after, absent, newer = F.col("after"), F.col("absent"), F.lit(None).cast("map<string, string>")
    return folded.select(
        "key", "sort_key", (F.col("op") == "delete").alias("deleted"), after.alias("after"), absent.alias("absent"),
        F.when(F.col("rests").isNull(), F.col("base")).alias("base_sort_key"), newer.alias("newer"), "tx", "committed_at",
        *COUNTED, *(RESTING if links else ()),
    )  # fmt: skip


def _with_base(rows: DataFrame, key: list[str], *, partial: bool, links: bool) -> DataFrame:
    """ROWS with ``duplicate`` (the same change again), ``after_before`` (the ``after`` of the change before it), and for
    each key: ``last`` (the newest sort key), ``base`` (the sort key where its fold begins; null: none), ``landed_count``,
    ``released_count``, ``rests`` and, with ``links``, ``first``, as in FOLDED."""
    in_order = _in_order(key)
    of_key = in_order.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    landed, counts = F.col("landed_this_hour") & F.col("counts"), F.col("counts")
    linked: list[Column] = [F.lit(None).alias("rests")]
    if links:
        # The old key's delete, which is part of the key change, is not before it.
        before = F.struct(
            F.col("prior").alias("key"), F.concat(F.substring_index("sort_key", "#", 1), F.lit("#")).alias("until")
        )
        base = F.max(F.when(is_base(partial), F.struct("sort_key", F.when(is_link(), before).alias("rests")))).over(
            of_key
        )
        linked = [base["rests"].alias("rests"), F.min("sort_key").over(of_key).alias("first")]
    return rows.select(
        *rows.columns,
        F.coalesce(F.lag("sort_key").over(in_order) == F.col("sort_key"), F.lit(False)).alias("duplicate"),
        F.lag("after").over(in_order).alias("after_before"),
        F.max("sort_key").over(of_key).alias("last"),
        F.max(F.when(is_base(partial), F.col("sort_key"))).over(of_key).alias("base"),
        F.sum(landed.cast("int")).over(of_key).alias("landed_count"),
        F.sum((counts & ~F.col("landed_this_hour")).cast("int")).over(of_key).alias("released_count"),
        *linked,
    )


def _with_steps(rows: DataFrame, key: list[str]) -> DataFrame:
    """With ``newest`` (whether the row is the key's newest change), the key's counts of duplicates, and ``steps``: the
    changes to fold, in order; empty where the newest change alone gives the row."""
    of_key = _in_order(key).rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    base, duplicate, counts = F.col("base"), F.col("duplicate"), F.col("counts")
    is_other = F.array_sort(F.map_entries("after")) != F.array_sort(F.map_entries("after_before"))
    needed = ~duplicate & (base.isNull() | (F.col("sort_key") >= base))
    rests = F.col("rests").isNotNull()
    several = base.isNull() | (base < F.col("last")) | rests
    # What goes on from another key's row is an update of it.
    op = F.when(rests & (F.col("sort_key") == base), F.lit("update")).otherwise(F.col("op")).alias("op")
    step = F.struct("sort_key", op, "after", "absent")
    return rows.select(
        "*",
        # As a column: Spark 4.1 cannot always reason about a filter on the equality itself.
        (~duplicate & (F.col("sort_key") == F.col("last"))).alias("newest"),
        F.sum((counts & F.col("landed_this_hour") & duplicate).cast("int")).over(of_key).alias("landed_duplicates"),
        F.sum((counts & ~F.col("landed_this_hour") & duplicate).cast("int")).over(of_key).alias("released_duplicates"),
        F.sum(F.when(duplicate & F.col("came").isNull(), is_other.cast("int"))).over(of_key).alias("other_content"),
        F.collect_list(F.when(needed & several, step)).over(of_key).alias("steps"),
    )


def _in_order(key: list[str]) -> WindowSpec:
    """The changes of each key. Of a change that came again the first stands, also where it says something else then."""
    return Window.partitionBy(*key).orderBy("sort_key", *first_come())


def first_come() -> list[Column]:
    """By what ROWS of the same change are ordered."""
    return [F.col("came").asc_nulls_last(), F.col("object"), F.col("record"), F.col("entry")]


def _flat(rows: DataFrame) -> tuple[DataFrame, list[str]]:
    """ROWS with a column for each column of the key, and the names of these: Spark sorts by them faster than by a
    struct."""
    key_type = cast(StructType, rows.schema["key"].dataType)
    names = {f"key_{number}": F.col("key")[name] for number, name in enumerate(key_type.names)}
    return rows.select("*", *(column.alias(name) for name, column in names.items())), list(names)


def fold_steps(steps: Column) -> Column:
    """Ordered steps of one key (sort_key, op, after, absent), of which only the first may need nothing before it →
    struct(after, absent, newer). All values are put into one map, in their order: of a column that comes several times the
    last value counts.

    An update that meets no row, because it is the first step or comes after a delete, leaves the columns that it did not
    send absent.
    """
    first, second = F.get(steps, F.lit(0)), F.get(steps, F.lit(1))
    is_base = first["op"].isin("insert", "delete") | (F.size(first["absent"]) == 0)
    newer = F.slice(steps, F.when(is_base, 2).otherwise(1), F.size(steps))
    after = F.map_from_entries(F.flatten(F.transform(steps, lambda step: F.map_entries(step["after"]))))
    lacking = F.when(first["op"] == "delete", second["absent"]).otherwise(first["absent"])
    several = F.struct(
        after.alias("after"),
        # A step sends or lacks every column, so what the first lacks and no other sends is absent.
        F.array_except(lacking, F.map_keys(after)).alias("absent"),
        F.map_from_entries(F.flatten(F.transform(newer, _sent_at))).alias("newer"),
    )
    alone = F.struct(
        first["after"].alias("after"),
        first["absent"].alias("absent"),
        F.when(~is_base, F.map_from_entries(_sent_at(first))).alias("newer"),
    )
    return F.when(F.size(steps) == 1, alone).otherwise(several)  # nearly every key has one


def _sent_at(step: Column) -> Column:
    """Of each column that a step sends, its name and the step's sort key."""
    return F.transform(F.map_keys(step["after"]), lambda name: F.struct(name, step["sort_key"]))
