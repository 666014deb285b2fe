"""How much of each transaction has come, and whether it is complete.

It is when its end has come, and with it as many distinct parts as its end and its counters say. Where deliveries can be
told apart (:class:`tidemark.formats.contract.TellsDeliveries`), all of them are of one delivery.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidemark.changelog.deliveries import OF_TOPIC, tells_deliveries, whole_deliveries
from tidemark.feeds.model import Feed
from tidemark.formats import load_format
from tidemark.formats.contract import TellsDeliveries
from tidemark.ledger.change_log import is_row


def transaction_status(entries: DataFrame, feed: Feed) -> DataFrame:
    """Log entries with a ``tx`` → one row per transaction: columns of the system table ``held`` plus ``complete``.

    Where deliveries can be told apart, one must be whole; otherwise ``parts`` are those of the longest.
    """
    # Of such a format each topic numbers its parts by itself, and what has come of a transaction in each must be whole.
    in_topics = len(feed.topics) > 1 and isinstance(load_format(feed.format["type"]), TellsDeliveries)
    by = OF_TOPIC if in_topics else ("tx",)
    status = _by_numbers(entries, by)
    if (format_ := tells_deliveries(feed)) is not None:
        status = _by_deliveries(status, entries, format_, by)
    return _of_all_topics(status) if in_topics else status


def _by_deliveries(status: DataFrame, entries: DataFrame, format_: TellsDeliveries, by: Sequence[str]) -> DataFrame:
    told = (
        whole_deliveries(entries, format_)
        .groupBy(*by)
        .agg(
            F.max("parts").alias("longest"),
            F.bool_or("whole").alias("whole"),
        )
    )
    longest, lacks = F.col("longest"), F.col("whole").isNotNull() & ~F.col("whole")
    # What lies between the longest and the end is at least one part.
    needed = F.greatest("needed", longest + F.col("ended").cast("int"))
    return (
        status.join(told, list(by), "left")
        .withColumn("needed", F.when(lacks, needed).otherwise(F.col("needed")))
        .withColumn("parts", F.when(lacks, longest).otherwise(F.col("parts")))
        .withColumn("complete", F.coalesce("whole", "complete"))
        .select(*status.columns)
    )


def _of_all_topics(status: DataFrame) -> DataFrame:
    """One row per transaction, from one for each topic that has something of it."""

    def all_of(lists: str) -> Column:
        return F.array_sort(F.array_distinct(F.flatten(F.collect_list(lists)))).alias(lists)

    return status.groupBy("tx").agg(
        F.min("since").alias("since"),
        all_of("hours"),
        *(F.sum(name).alias(name) for name in ("changes", "parts", "needed")),
        F.bool_and("ended").alias("ended"),
        all_of("tables"),
        F.min("position").alias("position"),
        F.bool_and("complete").alias("complete"),
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


def _by_numbers(entries: DataFrame, by: Sequence[str]) -> DataFrame:
    marker, none = (F.col("op") == "control") & F.col("tx_part").isNull(), F.lit(0)
    ordinal = F.coalesce(F.max(F.when(~marker, F.col("tx_ordinal"))), none)
    outside = F.coalesce(F.max(F.when(marker, F.col("tx_ordinal"))), none)
    needed = F.greatest(F.coalesce(F.max("tx_count"), none), ordinal) - outside
    return (
        entries.groupBy(*by)
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
