"""Tables without a key: a multiset of rows, in which each image adds or takes away one copy. No order is needed.

Equal rows of one snapshot or COPY share a position and are all real; a redelivery repeats them under new offsets. So a
change counts as often as it appears within one run of the topic, in the run where it appears most. A run ends where the
order steps back: there a connector started again from an older position.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidemark.merge.contract import tidemark
from tidemark.merge.typed_rows import TableShape

_SAME_CHANGE = ("position", "op", "removed", "added")


def image_hash(image: Column) -> Column:
    """SHA-256 of an image, independent of the order of its columns.

    A column without a value does not count: a row from before a column was added is the same row afterwards.
    """
    sent = F.filter(F.map_entries(image), lambda column: column["value"].isNotNull())
    return F.when(image.isNotNull(), F.sha2(F.to_json(F.array_sort(sent)), 256))


def effective(rows: DataFrame) -> DataFrame:
    """All log rows of a table, published and of this hour → one row per distinct change, with how often it counts.

    ``times``: over all rows; ``times_before``: without the rows of this hour; ``landed_this_hour``: how many rows of
    this hour are this change; ``removed`` and ``added``: image hashes; ``image``: the map of the added row; ``newest``:
    ``committed_at`` and ``tx`` of the newest row.
    """
    before = ~F.col("landed_this_hour")
    # The exporter's own repetition (one offset twice) is never a second row; without offsets the position is unique.
    counted = (~F.col("again")).cast("int")
    per_run = _in_runs(rows).groupBy(*_SAME_CHANGE, "run").agg(
        F.when(F.max("offset").isNull(), F.lit(1)).otherwise(F.sum(counted)).alias("times"),
        F.when(F.max("offset").isNull(), F.max(before.cast("int")))
        .otherwise(F.sum(F.when(before, counted).otherwise(0)))
        .alias("times_before"),
        F.count_if("landed_this_hour").alias("landed_this_hour"),
        F.first("image").alias("image"),
        F.max("newest").alias("newest"),
    )  # fmt: skip
    return per_run.groupBy(*_SAME_CHANGE).agg(
        F.max("times").alias("times"),
        F.max("times_before").alias("times_before"),
        F.sum("landed_this_hour").alias("landed_this_hour"),
        F.first("image").alias("image"),
        F.max("newest").alias("newest"),
    )


def _in_runs(rows: DataFrame) -> DataFrame:
    """Log rows with their image hashes, ``run`` (the number of the run of their topic), and ``again`` (whether the
    exporter repeats the offset before)."""
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
    return runs.select(
        "position", "op", "landed_this_hour", "again", "run", "offset",
        F.when(F.col("op").isin("delete", "update"), image_hash(F.col("before"))).alias("removed"),
        F.when(F.col("op").isin("insert", "update"), image_hash(F.col("after"))).alias("added"),
        F.col("after").alias("image"),
        F.struct("committed_at", "tx").alias("newest"),
    )  # fmt: skip


def copies(changes: DataFrame) -> DataFrame:
    """:func:`effective` changes → per image: ``hash``, ``image``, ``before`` and ``now`` copies, ``newest``."""
    sides = F.array(
        F.struct(F.col("added").alias("hash"), F.lit(1).alias("sign"), F.col("image").alias("image")),
        F.struct(F.col("removed").alias("hash"), F.lit(-1).alias("sign"), F.lit(None).alias("image")),
    )
    each = changes.select("times", "times_before", "newest", F.explode(sides).alias("side")).where(
        "side.hash is not null"
    )
    sign = F.col("side.sign")
    return each.groupBy(F.col("side.hash").alias("hash")).agg(
        F.first("side.image", ignorenulls=True).alias("image"),
        F.greatest(F.sum(sign * F.col("times")), F.lit(0)).alias("now"),
        F.greatest(F.sum(sign * F.col("times_before")), F.lit(0)).alias("before"),
        F.max("newest").alias("newest"),
    )


def settle_copies(images: DataFrame, shape: TableShape, hour: str) -> DataFrame:
    """:func:`copies` of images that had or have at least one → SETTLED (:mod:`tidemark.merge.contract`).

    Each copy is a row of its own. Its sort key, made of hash and number, is also its ``key``.
    """
    copy = F.explode(F.sequence(F.lit(1).cast("bigint"), F.greatest("now", "before"))).alias("copy")
    each = images.select("hash", "image", "now", "newest", copy)
    sort_key = F.concat("hash", F.lit("#"), F.lpad(F.col("copy").cast("string"), 12, "0"))
    values = [shape.value(name, F.element_at("image", F.lit(name))).alias(name) for name in shape.columns]
    newest, nothing = F.col("newest"), F.array()
    return each.select(
        F.struct(sort_key.alias("copy")).alias("key"),
        (F.col("copy") > F.col("now")).alias("deleted"),
        F.struct(*values).alias("row"),
        F.lit(False).alias("joins"),
        tidemark(sort_key, sort_key, newest["tx"], newest["committed_at"], hour, nothing, F.lit(None)).alias(
            "tidemark"
        ),
    )
