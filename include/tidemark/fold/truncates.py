"""Truncates: what a truncate of a table does to the changes around it. Pure DataFrame to DataFrame."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.ledger.receipts import Counts


@dataclass(frozen=True)
class UnderTruncate:
    """One table's log rows of an hour, once its newest truncate is applied."""

    rows: DataFrame
    """The log rows that are left to fold."""
    counts: Counts
    """What became of the truncates, and of the rows that they remove."""
    beside: bool = False
    """Whether rows of the truncate's moment are in other partitions: nothing says whether they stand before or behind it."""


def under_truncate(
    rows: DataFrame, truncated: str | None, known: Collection[str], moment: int | None = None
) -> UnderTruncate:
    """Apply the newest truncate to one table's log rows of an hour: what stands before it, an older truncate too, is
    superseded by it.

    ``truncated``: the position of the newest truncate, of the hour or published before; None: there is none. ``known``:
    positions of published truncates, so that a redelivered one is a duplicate. ``moment``: how much of a position is the
    moment in which partitions have no order (:class:`tidemark.formats.contract.SharesMoments`); None: they have.
    """
    if truncated is None:
        return UnderTruncate(rows, Counts())
    truncate, older, landed = F.col("op") == "truncate", F.col("position") < truncated, F.col("landed_this_hour")
    repeated = truncate & F.col("position").isin(list(known)) if known else F.lit(False)
    beside = F.lit(0)
    if moment is not None:
        at_once = F.substring("position", 1, moment) == truncated[:moment]
        beside = F.count_distinct(F.when(at_once, F.col("partition")))
    of_landed = _aggregates("", truncate, older, repeated, landed)
    of_released = _aggregates("released_", truncate, older, repeated, ~landed)
    counted = rows.agg(*of_landed, *of_released, beside.alias("beside")).first()
    assert counted is not None
    found = counted.asDict()
    counts = Counts(
        applied=found["applied"],
        duplicate=found["truncates"] - found["applied"] - found["outdated"],
        superseded=found["superseded"],
        released_applied=found["released_applied"],
        released_duplicate=found["released_truncates"] - found["released_applied"] - found["released_outdated"],
        released_superseded=found["released_superseded"],
    )
    return UnderTruncate(rows.where(~truncate & ~older), counts, found["beside"] > 1)


def _aggregates(prefix: str, truncate: Column, older: Column, repeated: Column, of_these: Column) -> list[Column]:
    """Counts of the rows ``of_these``: distinct truncates that are ``applied``; rows that are ``superseded``; all
    ``truncates``; and of these the new but ``outdated`` ones."""
    new = truncate & ~older & ~repeated
    return [
        F.count_distinct(F.when(new & of_these, F.col("position"))).alias(f"{prefix}applied"),
        F.count_if(older & ~repeated & of_these).alias(f"{prefix}superseded"),
        F.count_if(truncate & of_these).alias(f"{prefix}truncates"),
        F.count_if(truncate & older & ~repeated & of_these).alias(f"{prefix}outdated"),
    ]
