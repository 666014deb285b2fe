"""What the changes of a table with a key come to, told in a second way: each column has the value that was sent last.

The audit holds tables against this, so that a mistake of the fold (:mod:`tidemark.fold`), or of the join with what is stored,
is not made twice. It keeps no states and joins nothing: of a change that came again the first is taken, values are taken
apart by column, and the newest of each stays.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidemark.fold.fold_rows import first_come
from tidemark.fold.typed_rows import TableShape


def newest_values(shape: TableShape, rows: DataFrame) -> DataFrame:
    """ROWS of keys whose rows rest on no other key → of each key its ``key``, ``sort_key``, typed ``row``, whether that is
    ``deleted``, ``commit`` (``tx`` and ``committed_at`` of its newest change), and ``sent_at``: by column the sort key of
    the change that sent its value, null where none has; of the key the newest change that needs nothing before it."""
    ends_others = F.col("op").isin("insert", "delete") | (F.size("absent") == 0)
    begins = F.max(F.when(ends_others, F.col("sort_key"))).over(Window.partitionBy("key"))
    # What a change does not name as unsent it says, be it that there is no such column.
    others = F.array(*(F.lit(name) for name in shape.columns if name not in shape.key)).cast("array<string>")
    said = F.array_except(others, F.col("absent"))
    nth = F.row_number().over(Window.partitionBy("key", "sort_key").orderBy(*first_come()))
    counted = rows.select(
        "key", "sort_key", "op", "after", F.struct("tx", "committed_at").alias("commit"), said.alias("said"),
        begins.alias("begins"), nth.alias("nth"),
    )  # fmt: skip
    counted = counted.where("nth = 1").where(F.col("begins").isNull() | (F.col("sort_key") >= F.col("begins")))
    newest = counted.groupBy("key").agg(
        F.max("sort_key").alias("sort_key"), F.max("begins").alias("begins"),
        *(F.max_by(name, "sort_key").alias(name) for name in ("op", "commit")),
    )  # fmt: skip
    each = counted.select("key", "sort_key", "op", "after", F.explode("said").alias("name"))
    # A delete says nothing: what that of a row which moved has is its other key's.
    one = F.struct(F.try_element_at("after", F.col("name")).alias("text"), F.col("sort_key").alias("at"))
    of_column = each.groupBy("key", "name").agg(
        F.max_by(F.when(F.col("op") != "delete", one), "sort_key").alias("said")
    )
    columns = of_column.groupBy("key").agg(F.map_from_entries(F.collect_list(F.struct("name", "said"))).alias("said"))
    of_name = {name: F.element_at("said", F.lit(name)) for name in shape.columns}
    values = [
        (F.col("key")[name] if name in shape.key else shape.value(name, one["text"])).alias(name)
        for name, one in of_name.items()
    ]
    sent_at = [(F.col("begins") if name in shape.key else one["at"]).alias(name) for name, one in of_name.items()]
    return newest.join(columns, "key", "left").select(
        "key", "sort_key", F.struct(*values).alias("row"), (F.col("op") == "delete").alias("deleted"), "commit",
        F.struct(*sent_at).alias("sent_at"),
    )  # fmt: skip


def newest_noted(stamp: str, shape: TableShape) -> list[Column]:
    """``sort_key``, ``commit`` and ``sent_at`` as rows note them in their ``_tidemark``, a column named ``stamp``."""
    newer, absent, base = (F.col(f"{stamp}.{field}") for field in ("newer", "absent", "base_sort_key"))
    sent_at = {name: F.coalesce(newer[name], F.when(~F.array_contains(absent, name), base)) for name in shape.columns}
    sent_at |= dict.fromkeys(shape.key, base)
    commit = F.struct(F.col(f"{stamp}.transaction").alias("tx"), F.col(f"{stamp}.committed_at"))
    of_columns = F.struct(*(at.alias(name) for name, at in sent_at.items()))
    return [F.col(f"{stamp}.sort_key"), commit.alias("commit"), of_columns.alias("sent_at")]
