"""Where the transaction stands that was in flight while PostgreSQL's connector took a snapshot.

It is the first that the connector sends after the snapshot, and is not in it. Some of its events can have lower LSNs than
the snapshot, and they do not say which commit was before them. The topic tells: within a partition they come behind
the snapshot's rows. So they are placed behind the newest snapshot of their topic of which no row stands behind them in their
partition, and that landed no later than they did, where their own LSN would put them before it. The snapshot may have no row
in that partition: the row is new, or all that it had there were deleted.

A connector that is started again before that transaction's end takes the last event that it has processed for the commit
before (``lastCommitLsn = lastCompletelyProcessedLsn`` in PostgresOffsetContext): what it sends from then on names an event
of the transaction itself, or the snapshot. No commit stands where either does, so both are of the first transaction, too.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

_LSN = 20
_SNAPSHOT = 2 * _LSN + 1


def _half(start: int) -> Column:
    return F.substring("position", start, _LSN)


def first_after_snapshot() -> Column:
    """Whether a log row is of the first transaction after a snapshot: its LSN stands three times in its position."""
    return F.coalesce(F.length("position") > _SNAPSHOT, F.lit(False))


def of_snapshot() -> Column:
    """Whether a log row was read by a snapshot that knows of no commit before it: its LSN stands twice."""
    twice = (F.length("position") == _SNAPSHOT) & (_half(1) == _half(_LSN + 2))
    return F.coalesce((F.col("op") == "insert") & (F.col("kind") == "r") & twice, F.lit(False))


def _sent_on(rows: DataFrame, log: DataFrame) -> DataFrame:
    """Log rows, those of the first transaction after a snapshot with their own LSN three times, also where the connector was
    started again in it. Same columns."""
    name, before = F.coalesce("tx", "tx_part"), _half(1)
    of_first = log.where(first_after_snapshot() & name.isNotNull()).groupBy(name.alias("first"))
    first = of_first.agg(F.min(before).alias("from"), F.max(before).alias("until"))
    read_at = log.where(of_snapshot()).select(before.alias("read_at")).distinct()
    in_first = (name == F.col("first")) & before.between(F.col("from"), F.col("until"))
    joined = rows.join(F.broadcast(first), in_first, "left")
    joined = joined.join(F.broadcast(read_at), before == F.col("read_at"), "left")
    change = (F.length("position") == _SNAPSHOT) & ~F.coalesce(F.col("kind") == "r", F.lit(False))
    again = change & (F.col("first").isNotNull() | F.col("read_at").isNotNull())
    own = _half(_LSN + 2)
    position = F.when(again, F.concat_ws(".", own, own, own)).otherwise(F.col("position")).alias("position")
    return joined.select(*(position if column == "position" else F.col(column) for column in rows.columns))


def place(rows: DataFrame, log: DataFrame) -> DataFrame:
    """Log rows with their places: ``<snapshot's LSN>.<the same>.<own LSN>``. ``log``: entries of the change log, among
    them the snapshots that stand before the rows. Without offsets the own LSN is all there is."""
    rows = _sent_on(rows, log)
    snapshots = (
        log.where(of_snapshot() & F.col("offset").isNotNull())
        .groupBy("topic", "partition", "position")
        .agg(F.max("offset").alias("last"), F.max("hour").alias("hour"))
        .groupBy("topic")
        .agg(F.collect_list(F.struct("hour", "position", "partition", "last")).alias("snapshots"))
    )
    goes_on = F.transform(
        F.filter("snapshots", lambda one: (one["partition"] == F.col("partition")) & (one["last"] >= F.col("offset"))),
        lambda one: one["position"],
    )
    landed = F.filter(
        "snapshots", lambda one: (one["hour"] <= F.col("hour")) & ~F.array_contains(goes_on, one["position"])
    )
    before = F.when(F.col("offset").isNotNull(), F.array_max(landed)["position"])
    behind = F.when(first_after_snapshot() & (before > F.col("position")), F.concat(before, F.lit("."), _half(1)))
    joined = rows.join(F.broadcast(snapshots), "topic", "left")
    placed = F.coalesce(behind, F.col("position")).alias("position")
    return joined.select(*(placed if name == "position" else F.col(name) for name in rows.columns))
