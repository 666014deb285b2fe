"""Which refused changes break their transaction: those of which the log holds no good copy.

A change that is refused for its value, or a record that cannot be decoded, may have come again, mended: in an export that was
sent once more, or when the source delivered it again. Then nothing is missing, in whatever hours and order the two came: the
good copy is the change, and the other one is alone in quarantine.

What is the same change is told by its transaction, position, table and operation; of a record that cannot be decoded by its
transaction, and by its position and its number there, as far as it says them: the halves of a key change have one position,
and a connector that starts again in a transaction may number the rest of it from 1 again. Nothing rests on this alone: a
transaction must also be whole by what is not refused. Where deliveries are told apart
(:class:`tidemark.formats.contract.TellsDeliveries`), one counts as it is, so no change of another one takes the place of one
of its own.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.changelog.ties import with_pairs
from tidemark.changelog.transaction_status import tells_deliveries, transaction_status
from tidemark.feeds.model import Feed
from tidemark.ledger.change_log import is_row, without_entries
from tidemark.ledger.quarantine import ENTRY


def without_good_copy(refused: DataFrame, good: DataFrame, feed: Feed) -> DataFrame:
    """Of refused log entries, or records that cannot be decoded, those that break their transaction, or the other half of
    their key change. Same columns. ``good``: the entries of the log that are not refused.

    Two Spark jobs where nothing stands at their places, of which one reads the log where these can be; seven else."""
    if tells_deliveries(feed) is not None:
        return refused
    span = refused.agg(F.min("position"), F.max("position"), F.count_if(F.col("position").isNull())).first()
    assert span is not None
    first, last, unplaced = span
    if first is None and not unplaced:
        return refused
    near = good.where(is_row()) if unplaced else good.where(is_row() & F.col("position").between(first, last))
    there = near.select("tx", F.explode(_places()).alias("place")).distinct()
    same = F.col("r.tx").eqNullSafe(F.col("g.tx")) & (F.col("r.place") == F.col("g.place"))
    sought = refused.select(*ENTRY, "tx", _place().alias("place")).alias("r")
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
    bad = entries.where("op = 'bad'").select("hour", *ENTRY, "tx", _place().alias("place"))
    rows, of_change = entries.where(is_row()).select("tx", F.explode(_places()).alias("place")), ["tx", "place"]
    there = rows.join(F.broadcast(bad.select(*of_change).distinct()), of_change, "left_semi").distinct()
    copied = bad.join(F.broadcast(there), of_change, "left_semi").select("hour", *ENTRY)
    return entries.join(F.broadcast(copied), ["hour", *ENTRY], "left_anti").select(*entries.columns)


def _whole(entries: DataFrame, names: DataFrame, feed: Feed) -> DataFrame:
    """Those of the transactions ``names`` (``tx``) that are complete by these log entries."""
    of_them = entries.join(F.broadcast(names), "tx", "left_semi").select(*entries.columns)
    return transaction_status(with_pairs(of_them, of_them, feed), feed).where("complete").select("tx")


def _place() -> Column:
    """What tells the change that a refused entry is, in its transaction."""
    return F.when(F.col("op") != "bad", _change()).otherwise(F.coalesce(_both(), _position(), _number()))


def _places() -> Column:
    """All by which an entry may be told to be the same."""
    return F.array_compact(F.array(_change(), _both(), _position(), _number()))


def _change() -> Column:
    return F.concat_ws("|", F.lit("change"), "position", "op", "source_table")


def _both() -> Column:
    return F.concat(_position(), F.lit("|"), _number())


def _position() -> Column:
    return F.concat(F.lit("position|"), F.col("position"))


def _number() -> Column:
    return F.when(F.col("tx").isNotNull(), F.concat(F.lit("number|"), F.col("tx_ordinal").cast("string")))
