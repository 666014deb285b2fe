"""Refold: the state of keys from the change log alone, for late changes and for key changes that carry columns over.

A key change's insert may lack columns (they are under the old key): its row rests on what the old key held just before
it, which may itself rest on an older key.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F


def is_link() -> Column:
    """Whether a change of ROWS rests on another key: the insert of a key change that lacks columns."""
    return F.col("prior").isNotNull() & (F.col("op") == "insert") & (F.size("absent") > 0)


def with_ancestors(rows: DataFrame, targets: DataFrame) -> DataFrame:
    """ROWS of a table and the keys to refold → ROWS that :func:`tidemark.merge.fold.fold` turns into these keys' states.

    ``key`` is the target. Rows it inherits come under it at their own place; rows of its own before a link are gone,
    and the link itself becomes an update, so that the fold goes on from what was inherited.
    """
    frontier = targets.select(
        F.col("key").alias("target"), F.col("key").alias("source"), F.lit(None).cast("string").alias("until")
    )
    parts: list[DataFrame] = []
    while True:
        mine = rows.join(frontier, rows["key"] == frontier["source"], "inner")
        mine = mine.where(F.col("until").isNull() | (F.col("sort_key") < F.col("until")))
        base = F.max(F.when(F.col("op").isin("insert", "delete") | (F.size("absent") == 0), F.col("sort_key"))).over(
            Window.partitionBy("target")
        )
        mine = mine.withColumn("start", base).where(F.col("start").isNull() | (F.col("sort_key") >= F.col("start")))
        mine = mine.localCheckpoint()
        resting = is_link() & (F.col("sort_key") == F.col("start"))
        parts.append(
            mine.withColumn("op", F.when(resting, F.lit("update")).otherwise(F.col("op")))
            .withColumn("key", F.col("target"))
            .select(*rows.columns)
        )
        frontier = mine.where(resting).select(
            # strictly before the position: the old key's delete, which is part of the key change, does not count
            "target",
            F.col("prior").alias("source"),
            F.concat(F.substring_index("sort_key", "#", 1), F.lit("#")).alias("until"),
        )
        if frontier.isEmpty():
            break
    together = parts[0]
    for part in parts[1:]:
        together = together.unionByName(part)
    return together


def descendants(rows: DataFrame, keys: DataFrame) -> DataFrame:
    """``keys`` and every key whose row rests on one of them through links (columns: ``key``)."""
    links = (
        rows.where(is_link())
        .select(F.col("prior").alias("from"), F.col("key").alias("to"))
        .distinct()
        .localCheckpoint()
    )
    reached = keys.select("key").distinct()
    while True:
        onward = links.join(reached, links["from"] == reached["key"], "left_semi").select(F.col("to").alias("key"))
        new = onward.join(reached, "key", "left_anti").distinct().localCheckpoint()
        if new.isEmpty():
            return reached
        reached = reached.unionByName(new).localCheckpoint()
