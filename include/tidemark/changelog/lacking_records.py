"""Records that cannot be decoded, and do not say what they are of, as what a transaction perhaps lacks.

Where changes are counted, a transaction that lacks one is held for ever, and the record itself says nothing of it. So the
receipt names it as the likely reason, and the changes say it when they are given up. It is a guess: any record that
cannot be decoded and landed while the transaction did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.changelog.transactions import WholeTransactions
from tidemark.ledger.change_log import is_published, is_unplaced
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.kept_back import beginning, record_place
from tidemark.ledger.quarantine import PERHAPS

_MOST_NAMED = 5


def name_lacking_records(
    whole: WholeTransactions, log: DataFrame, new: Column, state: FeedState, hours: Sequence[str]
) -> WholeTransactions:
    """The transactions of an hour, with a note that names what open ones lack, and the reasons of those given up.

    ``log``: the change log, of which published and ``new`` entries count; ``hours``: those with records that cannot be
    decoded. Two Spark jobs where there are such, and a transaction lacks something."""
    if not hours or (whole.still_open is None and whole.given_up is None):
        return whole
    counted = log.where((is_published(state) | new) & F.col("hour").isin(list(hours)) & is_unplaced())
    records = counted.select("hour", F.struct("hour", "object", "record").alias("at"), record_place().alias("place"))
    if whole.still_open is not None:
        # One whose end has not come goes on: that is no sign of a lost record.
        span = F.col("since"), F.array_max("hours")
        open_ = whole.still_open.where(F.col("ended") & ~F.col("spared"))
        whole = replace(whole, notes=whole.notes + _notes(_beside(open_.select("tx", *_named(*span)), records)))
    if whole.given_up is not None:
        span = F.min("hour"), F.lit("9")
        found = _beside(whole.given_up.groupBy("tx").agg(*_named(*span)), records)
        given_up = whole.given_up.join(F.broadcast(found), "tx", "left")
        reason = F.concat(
            "reason", F.coalesce(F.concat(F.lit(PERHAPS), "lacks", F.lit(", which cannot be decoded")), F.lit(""))
        )
        whole = replace(whole, given_up=given_up.withColumn("reason", reason).select(*whole.given_up.columns))
    return whole


def _named(first: Column, last: Column) -> tuple[Column, Column]:
    return first.alias("first"), last.alias("last")


def _beside(transactions: DataFrame, records: DataFrame) -> DataFrame:
    """Transactions (``tx``, and the ``first`` and ``last`` hour) in whose hours such records landed: ``tx``, ``lacks``."""
    both = transactions.join(F.broadcast(records), F.col("hour").between(F.col("first"), F.col("last")))
    found = both.groupBy("tx").agg(F.min_by("place", "at").alias("place"), F.count(F.lit(1)).alias("n"))
    more = F.when(F.col("n") > 1, F.concat(F.lit(" or one of "), F.col("n") - 1, F.lit(" others"))).otherwise("")
    return found.select("tx", F.concat("place", more).alias("lacks")).localCheckpoint()


def _notes(found: DataFrame) -> list[str]:
    named = found.select(beginning(F.col("tx")).alias("tx"), "lacks").orderBy("tx").limit(_MOST_NAMED + 1).collect()
    if not named:
        return []
    told = "; ".join(f"{one.tx}: {one.lacks}" for one in named[:_MOST_NAMED])
    more = "; …" if len(named) > _MOST_NAMED else ""
    return [f"transactions wait, and perhaps lack a record that cannot be decoded: {told}{more}"]
