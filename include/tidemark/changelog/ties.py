"""The transactions of log entries that only the markers of all hours name: see
:class:`tidemark.formats.contract.TiesTransactions`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.feeds.model import Feed
from tidemark.formats import load_format
from tidemark.formats.contract import TiesTransactions
from tidemark.identifiers import PAIR
from tidemark.ledger.change_log import changes_table, is_published
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.manifest import Manifest
from tidemark.ledger.quarantine import ENTRY

#: Hours and the edges that their publications kept.
Edges = Mapping[str, Sequence[str]]


def _ties(feed: Feed) -> TiesTransactions | None:
    format_ = load_format(feed.format["type"])
    return format_ if isinstance(format_, TiesTransactions) else None


def only_markers_tell(feed: Feed) -> bool:
    """Whether nothing counts the changes of a transaction, so that none is missed."""
    return _ties(feed) is not None


def edges_with(state: FeedState, hour: str, found: Sequence[str]) -> Edges:
    """The edges of all published hours, and those that an hour's new entries have (``found``)."""
    return state.edges | {hour: [*state.edges.get(hour, []), *found]} if found else state.edges


def edge(feed: Feed) -> Column:
    """A log entry's edge; null for all others."""
    format_ = _ties(feed)
    return format_.edge() if format_ else F.lit(None).cast("string")


def tied(entries: DataFrame, feed: Feed, edges: Edges) -> DataFrame:
    """Log entries with the transactions that all these edges show. Same columns."""
    format_ = _ties(feed)
    return format_.tied(entries, edges) if format_ and edges else entries


def with_pairs(entries: DataFrame, wanted: DataFrame, feed: Feed) -> DataFrame:
    """Log entries, and those that are halves of the pairs ``wanted`` (entries with ``tx``) and in a transaction of the source
    once more, under the name of their pair. Same columns."""
    format_ = _ties(feed)
    if format_ is None:
        return entries
    names = wanted.where(F.startswith(F.col("tx"), F.lit(PAIR))).select("tx").distinct()
    halves = format_.in_pairs(entries).join(F.broadcast(names), "tx", "left_semi")
    return entries.unionByName(halves.select(*entries.columns))


def tied_log(spark: SparkSession, feed: Feed, state: FeedState) -> DataFrame:
    """The feed's change log with the transactions that all published hours show."""
    return tied(spark.table(changes_table(feed.feed)), feed, state.edges)


@dataclass(frozen=True)
class NewEdges:
    """What an hour's new entries show of transactions."""

    found: list[str]
    """Their edges."""
    low: str | None
    """The lowest position of the hour's entries; None: no entry has one."""
    high: str | None
    """The highest."""


@dataclass(frozen=True, kw_only=True)
class TiedHour:
    """Log entries with the transactions that the markers of all published hours and of the one in the making name."""

    edges: list[str]
    """The hour's own edges, with their other halves."""
    known: bool
    """Whether there is any edge, of whatever hour."""
    log: DataFrame
    """The change log."""
    landed: DataFrame
    """The hour's new entries."""
    log_before: DataFrame
    """The change log without the hour's markers, which may name transactions of other hours."""
    retied: DataFrame | None
    """Published entries that have another transaction by the hour's markers; None: there are none."""


def tie_hour(
    log: DataFrame, landed: DataFrame, new: NewEdges, manifest: Manifest, state: FeedState, feed: Feed
) -> TiedHour:
    """The change log and an hour's new entries (``landed``) with their transactions."""
    edges = _with_partners(new, feed, landed, log, state)
    known = edges_with(state, manifest.hour, edges)
    before, of_hour = tied(log, feed, state.edges), tied(landed, feed, known)
    if known and manifest.small:
        # What names the transactions is an expression of thousands of words, and it is asked six times.
        of_hour = of_hour.localCheckpoint()
    return TiedHour(
        edges=edges, known=bool(known), log=tied(log, feed, known) if edges else before, landed=of_hour,
        log_before=before, retied=retied(log, feed, state, known) if edges else None,
    )  # fmt: skip


def _with_partners(new: NewEdges, feed: Feed, landed: DataFrame, log: DataFrame, state: FeedState) -> list[str]:
    """An hour's edges, with the other halves of those that have come before or come again: a begin or an end that was sent
    again by itself is of the transaction that it was of."""
    format_ = _ties(feed)
    if format_ is None or new.low is None or new.high is None:
        return new.found
    before = {text for edges in state.edges.values() for text in edges}
    found, unpaired = set(new.found), format_.unpaired(before | set(new.found))
    seen = max([state.highest or "", *map(format_.edge_position, before)])
    again = {text for text in unpaired if text in found and format_.edge_position(text) <= seen}
    reached = {text for text in unpaired if text not in found and new.low <= format_.edge_position(text) <= new.high}
    if again:
        found |= set(format_.partners(again, log.where(is_published(state))))
    if reached:
        found |= set(format_.partners(reached, landed))
    return sorted(found)


def retied(log: DataFrame, feed: Feed, state: FeedState, now: Edges) -> DataFrame | None:
    """Published entries of the log that have another transaction by the edges ``now`` than by those of ``state``, or one that
    ends elsewhere, as they are now; None: there are none."""
    format_ = _ties(feed)
    if format_ is None or not state.highest:
        return None
    texts = ({text for edges in known.values() for text in edges} for known in (state.edges, now))
    places = [place for place in format_.retied(*texts) if place[0] < state.highest]
    if not places:
        return None
    position, end_elsewhere = F.col("position"), [name for _, _, name in places if name]
    within = reduce(or_, ((position > F.lit(after)) & (position <= F.lit(until)) for after, until, _ in places))
    published = log.where(is_published(state) & within)
    before = tied(published, feed, state.edges).select(*ENTRY, F.col("tx").alias("tx_before"))
    found = tied(published, feed, now).join(before, ENTRY)
    other = ~F.col("tx").eqNullSafe(F.col("tx_before")) | F.coalesce(F.col("tx").isin(end_elsewhere), F.lit(False))
    return found.where(other).select(*log.columns).localCheckpoint()
