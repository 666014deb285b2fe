"""What the changes of a table with a key come to, told in a second way: each column has the value that was sent last.

The audit holds tables against this, so that a mistake of the fold (:mod:`tidemark.fold`), or of the join with what is stored,
is not made twice. It keeps no states and joins nothing: of a change that came again the first is taken, values are taken
apart by column, and the newest of each stays.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tidemark.fold.fold_rows import first_come
from tidemark.fold.typed_rows import TableShape


def newest_values(shape: TableShape, rows: DataFrame) -> DataFrame:
    """ROWS of keys whose rows rest on no other key → of each key its ``key``, ``sort_key``, typed ``row``, and whether that
    is ``deleted``."""
    ends_others = F.col("op").isin("insert", "delete") | (F.size("absent") == 0)
    begins = F.max(F.when(ends_others, F.col("sort_key"))).over(Window.partitionBy("key"))
    # What a change does not name as unsent it says, be it that there is no such column.
    others = F.array(*(F.lit(name) for name in shape.columns if name not in shape.key)).cast("array<string>")
    said = F.array_except(others, F.col("absent"))
    nth = F.row_number().over(Window.partitionBy("key", "sort_key").orderBy(*first_come()))
    counted = rows.select(
        "key", "sort_key", "op", "after", said.alias("said"), begins.alias("begins"), nth.alias("nth")
    )
    counted = counted.where("nth = 1").where(F.col("begins").isNull() | (F.col("sort_key") >= F.col("begins")))
    newest = counted.groupBy("key").agg(F.max("sort_key").alias("sort_key"), F.max_by("op", "sort_key").alias("op"))
    each = counted.select("key", "sort_key", "op", "after", F.explode("said").alias("name"))
    # A delete says nothing: what that of a row which moved has is its other key's.
    text = F.when(F.col("op") != "delete", F.try_element_at("after", F.col("name")))
    of_column = each.groupBy("key", "name").agg(F.max_by(text, "sort_key").alias("text"))
    texts = of_column.groupBy("key").agg(F.map_from_entries(F.collect_list(F.struct("name", "text"))).alias("texts"))
    values = [
        F.col("key")[name] if name in shape.key else shape.value(name, F.element_at("texts", F.lit(name)))
        for name in shape.columns
    ]
    row = F.struct(*(value.alias(name) for value, name in zip(values, shape.columns, strict=True)))
    deleted = (F.col("op") == "delete").alias("deleted")
    return newest.join(texts, "key", "left").select("key", "sort_key", row.alias("row"), deleted)
