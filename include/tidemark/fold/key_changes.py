"""Keys whose rows rest on other keys: what a key change inherits from its old key.

The insert of a key change may lack columns, because their values are under the old key. Then the row rests on what the
old key held just before the key change, which may itself rest on an older key. Where an old key had two rows for a
moment (:mod:`tidemark.fold.colliding_keys`), it rests on the one that left.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidemark.fold.colliding_keys import with_source_rows
from tidemark.fold.fold_rows import is_base, is_link
from tidemark.fold.materialized import Materialized, materialize
from tidemark.fold.typed_rows import TableShape

#: Keys that every executor can hold: a hundred bytes each, at most a thousand.
_FEW_KEYS = 100_000


def with_ancestors(rows: DataFrame, targets: DataFrame, colliding: DataFrame, shape: TableShape) -> DataFrame:
    """ROWS of a table and the keys to fold again → ROWS that :func:`tidemark.fold.fold_rows.fold` turns into these keys'
    states. ``colliding``: of all of ``rows`` (:func:`tidemark.fold.colliding_keys.colliding_keys`). ``shape``: the table's.

    ``key`` of the result is always a target. Changes that a target inherits keep their own sort key. A target's own
    changes before a link are left out, and the link becomes an update, so that the fold goes on from what was inherited.
    Of a key that collides, only the changes of the row that it has in the end are given.
    """
    none = F.lit(None).cast("string")
    frontier = targets.select(
        F.col("key").alias("target"), F.col("key").alias("source"), none.alias("until"), none.alias("wanted_row")
    )
    of_wanted_row = F.when(F.col("wanted_row").isNull(), F.col("of_last_row")).otherwise(
        F.col("of_row") == F.col("wanted_row")
    )
    with_rows = with_source_rows(rows, colliding, shape)
    parts: list[DataFrame] = []
    while True:
        changes = with_rows.join(frontier, with_rows["key"] == frontier["source"], "inner")
        changes = changes.where(F.col("until").isNull() | (F.col("sort_key") < F.col("until")))
        changes = changes.where(F.col("of_row").isNull() | of_wanted_row)
        start = F.max(F.when(is_base(partial=True), F.col("sort_key"))).over(Window.partitionBy("target"))
        changes = changes.withColumn("start", start)
        changes = changes.where(F.col("start").isNull() | (F.col("sort_key") >= F.col("start")))
        inherits = is_link() & (F.col("sort_key") == F.col("start"))
        found = materialize(changes, inheriting=F.count_if(inherits))
        parts.append(
            found.rows.withColumn("op", F.when(inherits, F.lit("update")).otherwise(F.col("op")))
            .withColumn("key", F.col("target"))
            .select(*rows.columns)
        )
        if not found.sums["inheriting"]:
            return reduce(DataFrame.unionByName, parts)
        frontier = found.rows.where(inherits).select(
            "target",
            F.col("prior").alias("source"),
            # Strictly before the position: the old key's delete, which is part of the key change, does not count.
            F.concat(F.substring_index("sort_key", "#", 1), F.lit("#")).alias("until"),
            F.col("prior_row").alias("wanted_row"),
        )


def rows_in_reach(rows: DataFrame, keys: DataFrame) -> DataFrame:
    """ROWS of ``keys`` and of every key that links tie to them, in either direction: all that :func:`with_ancestors` and
    :func:`descendants` can meet from there. Reads ``rows`` twice, whatever is then done with the result."""
    links = materialize(rows.where(is_link()).select("key", "prior").distinct())
    return of_keys(rows, tied_by(links.rows if links.count else None, keys)).localCheckpoint()


def changed_in_reach(rows: DataFrame, changed: Column) -> tuple[DataFrame, DataFrame]:
    """The keys (``key``) that have a ``changed`` row, and :func:`rows_in_reach` of them. Reads ROWS twice, too."""
    of_interest = rows.where(changed | is_link())
    every = of_interest.select("key", "prior", is_link().alias("link"), changed.alias("changed")).distinct()
    noted = materialize(every, links=F.count_if("link"))
    keys = noted.rows.where("changed").select("key").distinct()
    links = noted.rows.where("link") if noted.sums["links"] else None
    return keys, of_keys(rows, tied_by(links, keys)).localCheckpoint()


def tied_by(links: DataFrame | None, keys: DataFrame) -> Materialized:
    """``keys`` (``key``) and every key that ``links`` (``key``, ``prior``) tie to them, in either direction. ``links``: None:
    there are none."""
    reached = materialize(keys.select("key").distinct())
    if links is None:
        return reached
    both = links.select("key", F.col("prior").alias("other"))
    both = both.unionByName(links.select(F.col("prior").alias("key"), F.col("key").alias("other")))
    new = reached
    while new.count:
        onward = both.join(new.rows, "key", "left_semi").select(F.col("other").alias("key")).distinct()
        new = materialize(onward.join(reached.rows, "key", "left_anti"))
        if new.count:
            reached = materialize(reached.rows.unionByName(new.rows))
    return reached


def of_keys(rows: DataFrame, keys: Materialized) -> DataFrame:
    """The rows whose ``key`` is one of ``keys``, which are distinct. Where they are few the rows are not shuffled."""
    return rows.join(_at_hand(keys), "key", "left_semi").select(*rows.columns)


def without_changes(rows: DataFrame, changes: Materialized) -> DataFrame:
    """ROWS but for these ``changes`` (``key``, ``sort_key``). Where they are few the rows are not shuffled."""
    return rows.join(_at_hand(changes), ["key", "sort_key"], "left_anti").select(*rows.columns)


def _at_hand(found: Materialized) -> DataFrame:
    return F.broadcast(found.rows) if found.count <= _FEW_KEYS else found.rows


def descendants(rows: DataFrame, keys: DataFrame) -> DataFrame:
    """Every key whose row rests on one of ``keys`` through links (columns: ``key``): one of them too, where it rests on
    another."""
    links = (
        rows.where(is_link())
        .select(F.col("prior").alias("from"), F.col("key").alias("to"))
        .distinct()
        .localCheckpoint()
    )
    reached = new = keys.select("key").distinct()
    resting = reached.limit(0)
    while True:
        onward = links.join(new, links["from"] == new["key"], "left_semi").select(F.col("to").alias("key"))
        found = materialize(onward.distinct())
        if not found.count:
            return resting.distinct()
        resting = resting.unionByName(found.rows)
        beyond = materialize(found.rows.join(reached, "key", "left_anti"))
        if not beyond.count:
            return resting.distinct()
        new = beyond.rows
        reached = reached.unionByName(new)
