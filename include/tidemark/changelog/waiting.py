"""Changes that wait for what describes them, which is in another hour: metadata that have not come.

They are not bad: they are held, listed with what they wait for, and read again in each hour that could bring it. A
change that waits takes the others of its transaction with it. Which ones wait is kept entry by entry in the system table
``waiting``; the last receipt says from which publication on its rows count.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.changelog.places import placed
from tidemark.changelog.table_history import Definitions, with_definitions
from tidemark.feeds.model import Feed
from tidemark.ledger.change_log import is_published, published_name
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.quarantine import ENTRY
from tidemark.ledger.system_tables import waiting_entries


@dataclass(frozen=True, kw_only=True)
class Described:
    """Log rows, by whether what describes them is there."""

    ready: DataFrame
    """Rows that can be read, or never will be (``problem``)."""
    waiting: DataFrame | None = None
    """Rows for the system table ``waiting``; None: there are none."""
    counted: int = 0
    """How many entries wait after this publication, of whatever hour."""
    since: int = 0
    """The publication from which on their rows count; 0: this one."""
    landed: int = 0
    """How many of ``waiting`` are of the hour."""


def described(rows: DataFrame, log: DataFrame, definitions: Definitions, feed: Feed, state: FeedState) -> Described:
    """The log rows of whole transactions completed by what the stream has stated, those that waited so far among them,
    and what waits."""
    earlier = waiting_entries(log.sparkSession, feed.feed, state)
    again = earlier is not None and _may_be_released(definitions, feed)
    if earlier is not None and again:
        released = log.where(is_published(state)).join(earlier.select("hour", *ENTRY), ["hour", *ENTRY], "left_semi")
        released = placed(released, log, feed, state.reloads).withColumn("table", published_name(feed))
        rows = rows.unionByName(released.withColumn("landed_this_hour", F.lit(False)).select(*rows.columns))
    bound = with_definitions(rows, definitions, feed)
    if earlier is not None and not again:
        bound = _with_their_transactions(bound, earlier)
    bound = bound.localCheckpoint()
    if not bound.where("waits_for is not null").isEmpty():
        bound = _with_their_transactions(bound, bound).localCheckpoint()
    waits = bound.where("waits_for is not null")
    landed, found = waits.agg(F.count_if("landed_this_hour"), F.count(F.lit(1))).first() or (0, 0)
    kept = 0 if again else state.waiting_entries
    return Described(
        ready=bound.where("waits_for is null").drop("waits_for"),
        waiting=waits if found else None,
        counted=kept + found,
        since=state.waiting_since if kept else 0,
        landed=landed,
    )


def _may_be_released(definitions: Definitions, feed: Feed) -> bool:
    """Whether this hour may bring what earlier changes wait for: metadata, or a table that the feed file now declares."""
    declared = (name for name, table in feed.tables.items() if table.columns or table.key is not None)
    return bool(definitions.new) or any(name not in definitions.tables for name in declared)


def _with_their_transactions(rows: DataFrame, waiting: DataFrame) -> DataFrame:
    """Log rows with ``waits_for`` also where another change of their transaction waits. ``waiting``: such changes."""
    named = (
        waiting.where("tx is not null and waits_for is not null").groupBy("tx").agg(F.min("waits_for").alias("theirs"))
    )
    both = rows.join(F.broadcast(named), "tx", "left").withColumn("waits_for", F.coalesce("waits_for", "theirs"))
    return both.select(*rows.columns)
