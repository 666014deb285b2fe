"""Which refused changes break their transaction: those of which the log holds no good copy.

A change that is refused for its value, or a record that cannot be decoded, may have come again, mended: in an export that was
sent once more, or when the source delivered it again. Then nothing is missing, in whatever hours and order the two came: the
good copy is the change, and the other one is alone in quarantine.

What is the same change is told by its transaction, table, operation and what its position keeps wherever it stands; of a
record that cannot be decoded by its transaction, and by its position and its number there, as far as it says them: the halves
of a key change have one position, and a connector that starts again in a transaction may number the rest of it from 1 again.
Nothing rests on this alone: a transaction must also be whole by what is not refused. Where deliveries are told apart
(:class:`tidemark.formats.contract.TellsDeliveries`), one counts as it is, so no change of another one takes the place of one
of its own.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.changelog.places import own_from, own_place
from tidemark.changelog.ties import with_pairs
from tidemark.changelog.transaction_status import tells_deliveries, transaction_status
from tidemark.feeds.model import Feed
from tidemark.ledger.change_log import is_row, without_entries
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.quarantine import ENTRY


def without_good_copy(refused: DataFrame, good: DataFrame, feed: Feed, state: FeedState, until: str) -> DataFrame:
    """Of refused log entries, or records that cannot be decoded, those that break their transaction, or the other half of
    their key change. Same columns. ``good``: the entries of the log that are not refused. ``until``: as
    :func:`tidemark.changelog.places.awaits_place` has it.

    Two Spark jobs where nothing stands at their places, of which one reads the log where these can be; seven else."""
    if tells_deliveries(feed) is not None:
        return refused
    span = refused.agg(F.min("position"), F.max("position"), F.count_if(F.col("position").isNull())).first()
    assert span is not None
    first, last, unplaced = span
    if first is None and not unplaced:
        return refused
    in_span = F.col("position").between(first, last)
    near = good.where(is_row() & in_span if not unplaced and own_from(first, state, until) else is_row())
    there = near.select("tx", F.explode(_places(feed)).alias("place")).distinct()
    same = F.col("r.tx").eqNullSafe(F.col("g.tx")) & (F.col("r.place") == F.col("g.place"))
    sought = refused.select(*ENTRY, "tx", _place(feed).alias("place")).alias("r")
    copied = sought.join(there.alias("g"), same, "left_semi").select(*ENTRY).localCheckpoint()
    if copied.isEmpty():
        return refused
    alone, in_tx = without_entries(refused, copied), F.col("tx").isNotNull()
    names = refused.where(in_tx).select("tx").distinct().join(alone.select("tx"), "tx", "left_anti").localCheckpoint()
    whole = names if names.isEmpty() else _whole(good, names, feed)
    broken = refused.where(in_tx).join(whole, "tx", "left_anti").select(*refused.columns)
    return alone.where(~in_tx).unionByName(broken).localCheckpoint()


def without_copied(entries: DataFrame, feed: Feed) -> DataFrame:
    """Log entries of transactions, without the records that cannot be decoded of which a good copy is among them: both are
    one part of their transaction. Same columns."""
    if tells_deliveries(feed) is not None:
        return entries
    bad = entries.where("op = 'bad'").select("hour", *ENTRY, "tx", _place(feed).alias("place"))
    rows, of_change = entries.where(is_row()).select("tx", F.explode(_places(feed)).alias("place")), ["tx", "place"]
    there = rows.join(F.broadcast(bad.select(*of_change).distinct()), of_change, "left_semi").distinct()
    copied = bad.join(F.broadcast(there), of_change, "left_semi").select("hour", *ENTRY)
    return entries.join(F.broadcast(copied), ["hour", *ENTRY], "left_anti").select(*entries.columns)


def _whole(entries: DataFrame, names: DataFrame, feed: Feed) -> DataFrame:
    """Those of the transactions ``names`` (``tx``) that are complete by these log entries."""
    of_them = entries.join(F.broadcast(names), "tx", "left_semi").select(*entries.columns)
    return transaction_status(with_pairs(of_them, of_them, feed), feed).where("complete").select("tx")


def _place(feed: Feed) -> Column:
    """What tells the change that a refused entry is, in its transaction."""
    position = _position(feed)
    return F.when(F.col("op") != "bad", _change(feed)).otherwise(F.coalesce(_both(position), position, _number()))


def _places(feed: Feed) -> Column:
    """All by which an entry may be told to be the same."""
    position = _position(feed)
    return F.array_compact(F.array(_change(feed), _both(position), position, _number()))


def _change(feed: Feed) -> Column:
    return F.concat_ws("|", F.lit("change"), own_place(feed), "op", "source_table")


def _both(position: Column) -> Column:
    return F.concat(position, F.lit("|"), _number())


def _position(feed: Feed) -> Column:
    return F.concat(F.lit("position|"), own_place(feed))


def _number() -> Column:
    return F.when(F.col("tx").isNotNull(), F.concat(F.lit("number|"), F.col("tx_ordinal").cast("string")))
