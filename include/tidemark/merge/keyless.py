"""Tables without a key: a multiset of rows, in which each image adds or takes away one copy. No order is needed.

Equal rows of one snapshot or COPY share a position and are all real; a redelivery repeats them under new offsets. So
what counts is how often a change appears within one run of the topic, and the most that any run says is the truth. A
run ends where the order steps back: that is a connector that started again from an older place.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

_SAME_CHANGE = ("position", "op", "removed", "added")


def image_hash(image: Column) -> Column:
    """SHA-256 of an image, independent of the order of its columns.

    A column without a value does not count: a row from before a column was added is the same row afterwards.
    """
    sent = F.filter(F.map_entries(image), lambda column: column["value"].isNotNull())
    return F.when(image.isNotNull(), F.sha2(F.to_json(F.array_sort(sent)), 256))


def effective(rows: DataFrame) -> DataFrame:
    """All log rows of a table (own and published) → one row per distinct change with how often it counts.

    ``times`` over all rows, ``times_before`` without the own ones; ``landed_this_hour`` how many rows of this hour said
    it; ``removed`` and
    ``added`` image hashes; ``image`` the map of the added row.
    """
    offsets = Window.partitionBy("topic", "partition").orderBy("offset", "object", "record", "entry")
    last = {name: F.lag(name).over(offsets) for name in ("position", "tx_ordinal", "offset", "object", "record")}
    back = (F.col("position") < last["position"]) | (
        (F.col("position") == last["position"]) & (F.col("tx_ordinal") <= last["tx_ordinal"])
    )
    other = (F.col("object") != last["object"]) | (F.col("record") != last["record"])  # a record may hold many rows
    again = F.coalesce((F.col("offset") == last["offset"]) & other, F.lit(False))
    runs = rows.withColumn("again", again).withColumn(
        "run", F.sum(F.coalesce(back, F.lit(False)).cast("int")).over(offsets)
    )
    hashed = runs.select(
        "position", "op", "landed_this_hour", "again", "run", "offset",
        F.when(F.col("op").isin("delete", "update"), image_hash(F.col("before"))).alias("removed"),
        F.when(F.col("op").isin("insert", "update"), image_hash(F.col("after"))).alias("added"),
        F.col("after").alias("image"),
        F.struct("committed_at", "tx").alias("said"),
    )  # fmt: skip
    # The exporter's own repetition (one offset twice) is never a second row; without offsets the position is unique.
    counted = (~F.col("again")).cast("int")
    per_run = hashed.groupBy(*_SAME_CHANGE, "run").agg(
        F.when(F.max("offset").isNull(), F.lit(1)).otherwise(F.sum(counted)).alias("times"),
        F.when(F.max("offset").isNull(), F.max((~F.col("landed_this_hour")).cast("int")))
        .otherwise(F.sum(F.when(~F.col("landed_this_hour"), counted).otherwise(0)))
        .alias("times_before"),
        F.count_if("landed_this_hour").alias("landed_this_hour"),
        F.first("image").alias("image"),
        F.max("said").alias("said"),
    )
    return per_run.groupBy(*_SAME_CHANGE).agg(
        F.max("times").alias("times"),
        F.max("times_before").alias("times_before"),
        F.sum("landed_this_hour").alias("landed_this_hour"),
        F.first("image").alias("image"),
        F.max("said").alias("said"),
    )


def copies(changes: DataFrame) -> DataFrame:
    """:func:`effective` changes → per image: ``hash``, ``image``, ``before`` and ``now`` copies, ``said``."""
    sides = F.array(
        F.struct(F.col("added").alias("hash"), F.lit(1).alias("sign"), F.col("image").alias("image")),
        F.struct(F.col("removed").alias("hash"), F.lit(-1).alias("sign"), F.lit(None).alias("image")),
    )
    each = changes.select("times", "times_before", "said", F.explode(sides).alias("side")).where(
        "side.hash is not null"
    )
    sign = F.col("side.sign")
    return each.groupBy(F.col("side.hash").alias("hash")).agg(
        F.first("side.image", ignorenulls=True).alias("image"),
        F.greatest(F.sum(sign * F.col("times")), F.lit(0)).alias("now"),
        F.greatest(F.sum(sign * F.col("times_before")), F.lit(0)).alias("before"),
        F.max("said").alias("said"),
    )
