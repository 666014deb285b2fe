"""Assemble: the hour's changes and the held ones become whole transactions; the rest stays held.

A transaction is complete when its end has come and as many distinct parts as its end and its counters tell. What a
redelivery repeats of a transaction that was published long ago is complete by what the log holds of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.books import Published, book
from tidemark.errors import AccountError
from tidemark.feeds import Feed
from tidemark.hours import parse_hour
from tidemark.lake import changes_table
from tidemark.manifest import Manifest

_ROW_OPS = ("insert", "update", "delete", "truncate")


@dataclass(frozen=True)
class Assembled:
    """``rows``: log rows of complete transactions with ``own`` (landed in this hour). ``open``: transactions that stay
    held (columns of the book ``held``), None where there are none. ``refused``: held rows given up to quarantine."""

    rows: DataFrame
    open: DataFrame | None
    refused: DataFrame | None
    landed: int
    split: int
    control: int
    bad: int
    held: int
    held_transactions: int
    notes: list[str]


def is_row() -> Column:
    """Whether a log entry is a change of a table."""
    return F.col("op").isin(*_ROW_OPS)


def assemble(spark: SparkSession, feed: Feed, manifest: Manifest, published: Published) -> Assembled:
    """Reads the hour's partition of the change log and the held transactions; writes nothing.

    What an earlier publication of the hour accounted for (an older version of its export) is not looked at again.
    """
    log = spark.table(changes_table(feed.feed))
    fresh = log.where((F.col("hour") == manifest.hour) & ~is_published(published))
    counted = fresh.agg(
        F.count_if(F.col("entry") == 0),
        F.count_if(F.col("entry") > 0),
        F.count_if(F.col("op") == "control"),
        F.count_if(F.col("op") == "bad"),
        F.count("tx"),
    ).first()
    assert counted is not None
    landed, split, control, bad, in_transactions = counted
    _check_landed(feed, manifest, published, landed)
    held_before = _held(spark, feed, published)
    own = fresh.where(is_row()).withColumn("own", F.lit(True))
    if not in_transactions and held_before is None:
        return Assembled(own, None, None, landed, split, control, bad, 0, 0, [])

    held_rows = _held_rows(log, held_before, published)
    candidates = (
        fresh.where("tx is not null") if held_rows is None else fresh.where("tx is not null").unionByName(held_rows)
    )
    open_ = _open(candidates, log, published).localCheckpoint()
    overdue = _overdue(open_, feed, manifest.hour)
    still_open = open_ if feed.transactions.overdue == "hold" else open_.where(~overdue)
    names = F.broadcast(still_open.select("tx"))
    rows = own.join(names, "tx", "left_anti")
    refused = None
    if held_rows is not None:
        released = held_rows.where(is_row()).join(names, "tx", "left_anti").withColumn("own", F.lit(False))
        rows = rows.unionByName(released)
    notes = []
    late, held_transactions = open_.agg(F.count_if(overdue), F.count(F.lit(1))).first() or (0, 0)
    if late:
        notes.append(f"{late} overdue transactions ({feed.transactions.overdue})")
    if late and feed.transactions.overdue == "quarantine":
        given_up = F.broadcast(open_.where(overdue).select("tx"))
        refused = rows.join(given_up, "tx", "left_semi")
        rows = rows.join(given_up, "tx", "left_anti")
    if feed.transactions.overdue != "hold":
        held_transactions -= late
    held = own.join(names, "tx", "left_semi").count() if held_transactions else 0
    return Assembled(
        rows,
        still_open if held_transactions else None,
        refused,
        landed,
        split,
        control,
        bad,
        held,
        held_transactions,
        notes,
    )


def is_published(published: Published) -> Column:
    """Whether a log entry is part of a publication: its hour has a receipt, for this version of its export or a newer."""
    versions = {r.hour: r.manifest_version for r in published.receipts}
    usual = [hour for hour, version in versions.items() if version == 1]
    told = F.col("hour").isin(usual) & (F.col("version") <= 1)
    for hour, version in versions.items():
        if version > 1:
            told |= (F.col("hour") == hour) & (F.col("version") <= version)
    return told


def _check_landed(feed: Feed, manifest: Manifest, published: Published, landed: int) -> None:
    before = published.of_hour(manifest.hour)
    counts = [o.records for o in manifest.objects if before is None or o.version > before.manifest_version]
    if None not in counts and sum(c for c in counts if c is not None) != landed:
        raise AccountError(
            f"the manifest counts {sum(c for c in counts if c is not None)} records, the change log {landed}",
            mend="run decode again for this hour; if it stays, an object changed after it landed",
            feed=feed.feed,
            hour=manifest.hour,
        )


def _held(spark: SparkSession, feed: Feed, published: Published) -> DataFrame | None:
    """The transactions that the last publication left open."""
    last = published.receipts[-1] if published.receipts else None
    if last is None or not last.held_transactions:
        return None
    return spark.table(book(feed.feed, "held")).where(F.col("sequence") == last.sequence)


def _held_rows(log: DataFrame, held: DataFrame | None, published: Published) -> DataFrame | None:
    """Log entries of the held transactions, from the hours they landed in."""
    if held is None:
        return None
    names = F.broadcast(held.select("tx", F.explode("hours").alias("hour")))
    return log.where(is_published(published) & F.col("tx").isNotNull()).join(names, ["tx", "hour"], "left_semi")


def status(entries: DataFrame) -> DataFrame:
    """Log entries with a ``tx`` → one row per transaction: columns of the book ``held`` plus ``complete``."""
    needed = F.greatest(F.coalesce(F.max("tx_count"), F.lit(0)), F.coalesce(F.max("tx_ordinal"), F.lit(0)))
    return (
        entries.groupBy("tx")
        .agg(
            F.min("hour").alias("since"),
            F.sort_array(F.collect_set("hour")).alias("hours"),
            F.count_if(is_row()).alias("changes"),
            F.count_distinct("tx_part").alias("parts"),
            needed.alias("needed"),
            F.coalesce(F.bool_or("tx_end"), F.lit(False)).alias("ended"),
            F.sort_array(F.collect_set("table")).alias("tables"),
            F.min("position").alias("position"),
        )
        .withColumn("complete", F.col("ended") & (F.col("parts") >= F.col("needed")))
    )


def _open(candidates: DataFrame, log: DataFrame, published: Published) -> DataFrame:
    """Transactions of the candidates that are not complete, not even with what the log already holds of them."""
    # A begin alone holds nothing: what follows it will come with its own evidence.
    matters = (F.col("changes") > 0) | F.col("ended")
    seen = status(candidates).where(~F.col("complete") & matters)
    highest = published.highest
    if highest is None:
        return seen.drop("complete")
    # Below the highest place applied it may be a redelivery of a transaction that is complete in the log.
    maybe_old = F.coalesce(F.col("position") <= highest, F.lit(True))
    seen = seen.localCheckpoint()
    names = F.broadcast(seen.where(maybe_old).select("tx"))
    earlier = log.where(is_published(published) & F.col("tx").isNotNull())
    whole = status(candidates.join(names, "tx", "left_semi").unionByName(earlier.join(names, "tx", "left_semi")))
    return seen.join(F.broadcast(whole.where("complete").select("tx")), "tx", "left_anti").drop("complete")


def _overdue(open_: DataFrame, feed: Feed, hour: str) -> Column:
    """Whether a transaction has been held for longer than the feed allows, seen from the hour that runs."""
    oldest = (parse_hour(hour) - feed.transactions.alarm).strftime("%Y-%m-%dT%H")
    return F.col("since") < oldest
