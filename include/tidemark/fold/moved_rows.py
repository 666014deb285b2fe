"""Rows that moved to another key without all of their columns, in an hour in order: what they come to is joined with what
the other key held just before, as any row is with the one that is stored (:mod:`tidemark.fold.row_join`).

What a key held just before is what the hour's own changes of it until then come to, which may rest on a third key; and
what is stored of it.
"""

from __future__ import annotations

from typing import cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tidemark.fold.fold_rows import fold
from tidemark.fold.materialized import materialize
from tidemark.fold.row_join import joined_stamp, joined_value
from tidemark.fold.typed_rows import TableShape, settle
from tidemark.identifiers import TIDEMARK, quote


def join_changes_before(settled: DataFrame, rows: DataFrame, shape: TableShape, hour: str) -> DataFrame:
    """SETTLED rows, those that rest on other keys joined with what the hour's ROWS of these until then come to: what they
    rest on then is stored."""
    while True:
        rests = settled.where(F.col("rests").isNotNull()).select(F.col("key").alias("moved"), "rests")
        before = rows.join(rests, (F.col("key") == F.col("rests.key")) & (F.col("sort_key") < F.col("rests.until")))
        of_moved = before.withColumn("key", F.col("moved")).select(*rows.columns)
        older = materialize(settle(fold(of_moved, partial=True, links=True), shape, hour))
        if not older.count:
            return settled
        without_base = F.when(F.col("tidemark.base_sort_key").isNull(), F.lit(True))
        held = older.rows.select(
            F.col("key").alias("held_key"), F.struct("row.*", F.col("tidemark").alias(TIDEMARK)).alias("t"),
            F.col("rests").alias("held_rests"), without_base.alias("without_base"),
        )  # fmt: skip
        # The changes before have no base of their own: what they rest on is what the same key held before the hour.
        stored = F.struct(F.col("s.rests.key").alias("key"), F.lit("").alias("until"))
        rests_then = F.when(F.col("t").isNull(), F.col("s.rests")).otherwise(
            F.coalesce("held_rests", F.when(F.col("without_base"), stored))
        )
        joined = _joined(settled, held, F.col("s.key") == F.col("held_key"), {"rests": rests_then})
        settled = joined.localCheckpoint()


def join_stored(settled: DataFrame, stored: DataFrame, key: tuple[str, ...]) -> DataFrame:
    """SETTLED rows, those that rest on other keys joined with what is stored of these: they take the place of what their own
    keys hold. ``stored``: rows of the published table, which has this ``key``."""
    held = stored.select(
        F.struct(*(F.col(quote(name)).alias(name) for name in key)).alias("held_key"), F.struct("*").alias("t")
    )
    joins = F.col("s.joins") & F.col("s.rests").isNull()
    return _joined(settled, held, F.col("s.rests.key") == F.col("held_key"), {"joins": joins})


def _joined(settled: DataFrame, held: DataFrame, same: Column, others: dict[str, Column]) -> DataFrame:
    """SETTLED rows (``s``), each joined with the row (``t``) that it rests on, if any. ``same``: which one that is.
    ``others``: what else is another."""
    row, of_held = cast(StructType, settled.schema["row"].dataType), cast(StructType, held.schema["t"].dataType)
    key = cast(StructType, settled.schema["key"].dataType)

    def value(name: str) -> Column:
        sent = F.col(f"s.row.{quote(name)}")
        if name in key.names or name not in of_held.names:
            return sent
        older = F.expr(joined_value(name, f"s.row.{quote(name)}")).cast(row[name].dataType)
        return F.when(F.col("t").isNull(), sent).otherwise(older)

    now = others | {
        "row": F.struct(*(value(name).alias(name) for name in row.names)),
        "tidemark": F.when(F.col("t").isNull(), F.col("s.tidemark")).otherwise(F.expr(joined_stamp())),
    }
    pairs = settled.select(F.struct("*").alias("s")).join(held, same & F.col("s.rests").isNotNull(), "left")
    return pairs.select(*(now.get(name, F.col(f"s.{name}")).alias(name) for name in settled.columns))
