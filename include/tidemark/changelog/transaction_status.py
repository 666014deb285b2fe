"""How much of each transaction has come, and whether it is complete.

It is when its end has come, and with it as many distinct parts as its end and its counters say. Where deliveries can be
told apart (:class:`tidemark.formats.contract.TellsDeliveries`), all of them are of one delivery.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidemark.changelog.deliveries import tells_deliveries, whole_deliveries
from tidemark.feeds.model import Feed
from tidemark.ledger.change_log import is_row


def transaction_status(entries: DataFrame, feed: Feed) -> DataFrame:
    """Log entries with a ``tx`` → one row per transaction: columns of the system table ``held`` plus ``complete``.

    Where deliveries can be told apart, one must be whole; otherwise ``parts`` are those of the longest.
    """
    status = _by_numbers(entries)
    format_ = tells_deliveries(feed)
    if format_ is None:
        return status
    told = (
        whole_deliveries(entries, format_)
        .groupBy("tx")
        .agg(
            F.max("parts").alias("longest"),
            F.bool_or("whole").alias("whole"),
        )
    )
    longest, lacks = F.col("longest"), F.col("whole").isNotNull() & ~F.col("whole")
    # What lies between the longest and the end is at least one part.
    needed = F.greatest("needed", longest + F.col("ended").cast("int"))
    return (
        status.join(told, "tx", "left")
        .withColumn("needed", F.when(lacks, needed).otherwise(F.col("needed")))
        .withColumn("parts", F.when(lacks, longest).otherwise(F.col("parts")))
        .withColumn("complete", F.coalesce("whole", "complete"))
        .select(*status.columns)
    )


def with_earlier(found: DataFrame, earlier: DataFrame, feed: Feed) -> DataFrame:
    """Log entries of incomplete transactions together with those that are published under their names.

    A name can come again for another transaction (counters that wrap, or begin again). What stands behind all of a
    transaction that is whole, as published, is none of its parts: of such a name only that is given, with entries that have
    no position. Where deliveries can be told apart they are: there the same parts can have other positions.
    """
    if tells_deliveries(feed) is not None:
        return found.unionByName(earlier)
    of_tx, is_old, position = Window.partitionBy("tx"), F.col("is_old"), F.col("position")
    marker, none = (F.col("op") == "control") & F.col("tx_part").isNull(), F.lit(0)

    def most(value: str, condition: Column) -> Column:
        return F.coalesce(F.max(F.when(is_old & condition, F.col(value))).over(of_tx), none)

    needed = F.greatest(most("tx_count", F.lit(True)), most("tx_ordinal", ~marker)) - most("tx_ordinal", marker)
    parts = F.size(F.collect_set(F.when(is_old, F.col("tx_part"))).over(of_tx))
    whole = F.coalesce(F.bool_or(is_old & F.col("tx_end")).over(of_tx), F.lit(False)) & (parts >= needed)
    # A record that could not be decoded may have been one of the parts that come now.
    whole &= ~F.bool_or(is_old & (F.col("op") == "bad")).over(of_tx)
    last = F.max(F.when(is_old, position)).over(of_tx)
    together = found.withColumn("is_old", F.lit(False)).unionByName(earlier.withColumn("is_old", F.lit(True)))
    told = together.withColumns({"behind": ~is_old & (position > last), "whole": whole})
    another = F.coalesce(F.bool_or("behind").over(of_tx), F.lit(False)) & F.col("whole")
    told = told.withColumn("another", another)
    left = ~F.col("another") | F.coalesce("behind", ~is_old)
    return told.where(left).select(*found.columns)


def _by_numbers(entries: DataFrame) -> DataFrame:
    marker, none = (F.col("op") == "control") & F.col("tx_part").isNull(), F.lit(0)
    ordinal = F.coalesce(F.max(F.when(~marker, F.col("tx_ordinal"))), none)
    outside = F.coalesce(F.max(F.when(marker, F.col("tx_ordinal"))), none)
    needed = F.greatest(F.coalesce(F.max("tx_count"), none), ordinal) - outside
    return (
        entries.groupBy("tx")
        .agg(
            F.min("hour").alias("since"),
            F.sort_array(F.collect_set("hour")).alias("hours"),
            # A record that cannot be decoded counts: its transaction is not whole without it.
            F.count_if(is_row() | (F.col("op") == "bad")).alias("changes"),
            F.count_distinct("tx_part").alias("parts"),
            needed.alias("needed"),
            F.coalesce(F.bool_or("tx_end"), F.lit(False)).alias("ended"),
            F.sort_array(F.collect_set("table")).alias("tables"),
            F.min("position").alias("position"),
        )
        .withColumn("complete", F.col("ended") & (F.col("parts") >= F.col("needed")))
    )
