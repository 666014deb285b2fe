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

from tidemark.formats.debezium.sources import INCREMENTAL

_LSN = 20
_SNAPSHOT = 2 * _LSN + 1


def _half(start: int) -> Column:
    return F.substring("position", start, _LSN)


def first_after_snapshot() -> Column:
    """Whether a log row is of the first transaction after a snapshot: its LSN stands three times in its position."""
    return F.coalesce(F.length("position") > _SNAPSHOT, F.lit(False))


def read_by_snapshot() -> Column:
    """Whether a log row was read by a snapshot, of whatever kind."""
    return F.coalesce(F.col("kind").isin("r", INCREMENTAL), F.lit(False))


def of_snapshot() -> Column:
    """Whether a log row was read by a snapshot that knows of no commit before it: its LSN stands twice."""
    twice = (F.length("position") == _SNAPSHOT) & (_half(1) == _half(_LSN + 2))
    return F.coalesce((F.col("op") == "insert") & read_by_snapshot() & twice, F.lit(False))


def own_place() -> Column:
    """The LSN of a log row's own event, with which its position ends wherever it stands."""
    return F.right("position", F.lit(_LSN))


def _places(log: DataFrame) -> DataFrame:
    """What tells the places of rows, as one row: ``snapshots`` of the log, by topic and partition, with the last hour and the
    last offset of each; ``first``, the transactions after them, each from the first to the last of its events; ``read_at``,
    the LSNs of the snapshots."""
    read, own = of_snapshot(), _half(1)
    of_each = log.where(read | first_after_snapshot()).groupBy(
        *(F.when(read, F.col(name)).alias(name) for name in ("topic", "partition", "position")),
        F.when(~read, F.coalesce("tx", "tx_part")).alias("tx"),
    )
    found = of_each.agg(
        F.max("offset").alias("last"), F.max("hour").alias("hour"), F.min(own).alias("begins"), F.max(own).alias("ends"),
    )  # fmt: skip
    snapshot = F.struct("hour", "position", "topic", "partition", "last")
    return found.agg(
        F.collect_list(F.when(F.col("last").isNotNull() & F.col("position").isNotNull(), snapshot)).alias("snapshots"),
        F.collect_list(F.when(F.col("tx").isNotNull(), F.struct("tx", "begins", "ends"))).alias("first"),
        F.collect_set(F.when(F.col("position").isNotNull(), F.col("begins"))).alias("read_at"),
    )


def _own_places() -> Column:
    """The position of a log row; of one of the first transaction after a snapshot its own LSN three times, also where the
    connector was started again in it."""
    before, own = _half(1), _half(_LSN + 2)
    goes_on = F.exists(
        "first",
        lambda one: (one["tx"] == F.coalesce("tx", "tx_part")) & before.between(one["begins"], one["ends"]),
    )
    change = (F.length("position") == _SNAPSHOT) & ~read_by_snapshot()
    again = change & (F.array_contains("read_at", before) | F.coalesce(goes_on, F.lit(False)))
    return F.when(again, F.concat_ws(".", own, own, own)).otherwise(F.col("position"))


def place(rows: DataFrame, log: DataFrame) -> DataFrame:
    """Log rows with their places: ``<snapshot's LSN>.<the same>.<own LSN>``. ``log``: entries of the change log, among
    them the snapshots that stand before the rows. Without offsets the own LSN is all there is."""
    joined = rows.crossJoin(F.broadcast(_places(log))).withColumn("position", _own_places())

    def in_topic(one: Column) -> Column:
        return one["topic"] == F.col("topic")

    goes_on = F.transform(
        F.filter(
            "snapshots",
            lambda one: in_topic(one) & (one["partition"] == F.col("partition")) & (one["last"] >= F.col("offset")),
        ),
        lambda one: one["position"],
    )
    landed = F.filter(
        "snapshots",
        lambda one: in_topic(one) & (one["hour"] <= F.col("hour")) & ~F.array_contains(goes_on, one["position"]),
    )
    before = F.when(F.col("offset").isNotNull(), F.array_max(landed)["position"])
    behind = F.when(first_after_snapshot() & (before > F.col("position")), F.concat(before, F.lit("."), _half(1)))
    placed = F.coalesce(behind, F.col("position")).alias("position")
    return joined.select(*(placed if name == "position" else F.col(name) for name in rows.columns))
