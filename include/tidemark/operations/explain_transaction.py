"""What became of a source's transaction: all that landed of it, the fate of each change, and the first cut that shows it.

Read from the change log with Spark, by the same reading as the tables are made by.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from tidemark.changelog.places import placed
from tidemark.changelog.table_history import Definitions
from tidemark.changelog.table_log import TableLog
from tidemark.changelog.ties import tied_log
from tidemark.errors import ConfigError
from tidemark.feeds.loading import feed_names, find_feed
from tidemark.feeds.model import Feed
from tidemark.hours import Hour
from tidemark.lake.catalog import Where, read_rows
from tidemark.lake.session import open_session
from tidemark.ledger.change_log import is_published, is_row, published_by
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.quarantine import ENTRY
from tidemark.ledger.state_store import load_state
from tidemark.operations.fates import (
    APPLIED,
    DUPLICATE,
    GONE,
    HELD,
    KEPT,
    LATER,
    ROLLED_BACK,
    UNPUBLISHED,
    Fates,
    place_of,
    read_fates,
)
from tidemark.operations.known_feeds import check_known
from tidemark.operations.listing import Listing
from tidemark.operations.listing import Row as ListingRow
from tidemark.settings import Settings

#: More entries of one transaction than a person reads.
_MOST_ENTRIES = 10_000
#: So many names are suggested where none is the one asked for.
_SUGGESTED = 10

#: The fate of what is no change of a row.
CONTROL = "control"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Something that landed of a transaction."""

    hour: str
    """The hour that it landed in."""
    table: str | None
    """The published table that it is of; null: of none, as a marker is, or it cannot be told."""
    op: str
    """What it does, in the change log's words: insert, update, delete, truncate, schema, control or bad."""
    key: str | None
    """The key that it speaks of, as JSON with texts of the message; null where it has none."""
    position: str | None
    """Where it stands in the source's order; null where it has no place."""
    object: str
    """The landed object that holds it."""
    record: int
    """The number of its record in the object, from 1."""
    entry: int
    """Its number in a record that holds several changes, from 0."""
    fate: str
    """What became of it: one of the fates above. What follows a colon is why."""

    @property
    def ends(self) -> str:
        """The fate in a word."""
        return self.fate.partition(":")[0]


@dataclass(frozen=True, kw_only=True)
class Transaction:
    """A transaction, and what became of it."""

    feed: str
    """The feed that it landed in."""
    tx: str
    """Its name, as `tidemark held` prints it."""
    became: str
    """What became of it, for a person."""
    committed_at: str | None
    """The latest of the times of commit that its entries name; null: none does."""
    hours: list[str]
    """The hours that any of it landed in."""
    tables: list[str]
    """The published tables that it touches."""
    fates: dict[str, int]
    """How many of its entries have each fate, the words behind a colon left out."""
    first_cut: str | None
    """The hour of the first cut that shows its changes; null: none does, or ``note`` says why it is not known."""
    note: str
    """Why the first cut is not known; empty: it is, or there is none."""
    entries: list[Entry]
    """All that landed of it, by hour and position."""

    @property
    def object(self) -> dict[str, Any]:
        """All of it, for programs."""
        return asdict(self)


def explain_transaction(settings: Settings, name: str, feed: str | None = None) -> list[Transaction]:
    """The transaction of this name, as `tidemark held` prints it, in each feed that has one, or in one feed. ConfigError
    where there is none."""
    if feed is not None:
        check_known(settings, feed)
    states = {one: load_state(settings, one) for one in ([feed] if feed else feed_names(settings.path(settings.feeds)))}
    found, like = [], list[str]()
    small = all(state.has_small_tables for state in states.values())
    spark = open_session(settings, f"transaction {name}", small=small)
    for one, state in states.items():
        if not state.last_sequence and state.next is None:
            continue
        file = find_feed(one, settings)
        told = _told(spark, file, state, name, settings)
        found += [told] if told is not None else []
        like += [] if told is not None else _names_like(tied_log(spark, file, state), name)
    if not found:
        fix = (
            f"those that contain it: {', '.join(sorted(set(like))[:_SUGGESTED])}"
            if like
            else "see `tidemark held FEED`"
        )
        raise ConfigError(f"no transaction {name!r} has landed", fix=fix)
    return found


def transaction_listing(told: Transaction) -> Listing:
    """The entries for a person, one a line."""
    rows: list[ListingRow] = [
        [one.hour, one.table, one.op, one.key, f"record {one.record} of {one.object.rpartition('/')[2]}", one.fate]
        for one in told.entries
    ]
    cut = f"; the first cut that shows it: {told.first_cut}" if told.first_cut else ""
    title = f"{told.feed} {told.tx}: {told.became}{cut}" + (f"; {told.note}" if told.note else "")
    return Listing(title, ["hour", "table", "operation", "key", "landed as", "fate"], rows)


def what_became(fates: Counter[str]) -> str:
    """A transaction's fate in words, from how many of its changes have each."""
    changes = Counter({fate: count for fate, count in fates.items() if fate != CONTROL})
    shown = changes[APPLIED] + changes[DUPLICATE] + changes[GONE]
    if not changes:
        return "nothing but markers has landed"
    if shown == changes.total():
        return "published whole" if changes[APPLIED] + changes[GONE] else "published, by another delivery of the same"
    for fate in (ROLLED_BACK, UNPUBLISHED, LATER, HELD, KEPT):
        if changes[fate] == changes.total():
            return fate
    if shown:
        others = ", ".join(f"{count} {fate}" for fate, count in sorted(changes.items()) if fate not in (APPLIED, GONE))
        return f"published but for {others}"
    return ", ".join(f"{count} {fate}" for fate, count in sorted(changes.items()))


def first_cut(state: FeedState, entries: Sequence[tuple[str, int]], held_after: int) -> str | None:
    """The hour of the first cut that shows changes. ``entries``: the hour of each, and the version of the hour's export that
    brought it; ``held_after``: the last publication that left them held, 0: none did."""
    published = max((publication_of(state, hour, version) for hour, version in entries), default=0)
    if not published:
        return None
    shown = max(published, held_after + 1)
    for known in state.hours:
        hour = max(known.first, Hour.parse(max(hour for hour, _ in entries)))
        while hour <= known.last:
            if state.cut_by(hour) >= shown:
                return hour
            hour = hour.plus(1)
    return None


def publication_of(state: FeedState, hour: str, version: int) -> int:
    """The first publication of an hour that took account of a version of its export; 0: none has yet."""
    published = [(one.version, state.first_published(hour)) for one in state.hours if one.first <= hour <= one.last]
    published += [(again.version, again.sequence) for again in state.again.get(hour, [])]
    return min((sequence for of, sequence in published if of >= version), default=0)


def _told(spark: SparkSession, feed: Feed, state: FeedState, name: str, settings: Settings) -> Transaction | None:
    log = tied_log(spark, feed, state)
    of_it = placed(log.where(F.col("tx") == name), log, feed, state.reloads).localCheckpoint()
    rows = (
        of_it.select(
            "hour", "version", *ENTRY, "tx", "op", "kind", "source_table", "table", "position", "committed_at", "problem",
            F.to_json("key").alias("key"), F.xxhash64(F.to_json(F.struct("before", "after"))).alias("images"), "tx_ordinal",
            is_published(state).alias("published"), is_row().alias("is_row"),
            published_by(state).alias("came"),
        )
        .orderBy("hour", "position", *ENTRY).limit(_MOST_ENTRIES + 1).collect()
    )  # fmt: skip
    if len(rows) > _MOST_ENTRIES:
        raise ConfigError(f"more than {_MOST_ENTRIES} entries are of {name!r}", fix="read the change log with Spark")
    if not rows:
        return None
    table_log = TableLog(spark=spark, feed=feed, state=state, definitions=Definitions(), table="", sources=())
    counted = table_log.counted(of_it.where(is_published(state) & is_row())).select(*ENTRY).collect()
    fates = read_fates(table_log, rows, {place_of(row) for row in counted})
    in_turn = sorted(rows, key=lambda row: (not row.published, row.came, *place_of(row)))
    told = {place_of(row): _entry(row, feed, fates) for row in in_turn}
    entries = [told[place_of(row)] for row in rows]
    numbers = Counter(one.ends for one in entries)
    shown = [(row.hour, row.version) for row, one in zip(rows, entries, strict=True) if one.ends in (APPLIED, GONE)]
    cut, note = _first_cut(settings, state, name, shown)
    return Transaction(
        feed=feed.feed, tx=name, became=what_became(numbers),
        committed_at=max((str(row.committed_at) for row in rows if row.committed_at is not None), default=None),
        hours=sorted({row.hour for row in rows}), tables=sorted({one.table for one in entries if one.table}),
        fates=dict(sorted(numbers.items())), first_cut=cut, note=note, entries=entries,
    )  # fmt: skip


def _first_cut(
    settings: Settings, state: FeedState, name: str, counted: list[tuple[str, int]]
) -> tuple[str | None, str]:
    if not counted:
        return None, ""
    of_it: Where = [("tx", "=", name)]
    if read_rows(settings, "tidemark", state.feed, "waiting", where=of_it, columns=("sequence",)):
        return None, "it waited for metadata, and which publication released it is not recorded"
    last = max(publication_of(state, hour, version) for hour, version in counted)
    where: Where = [*of_it, ("sequence", ">=", last)]
    held = read_rows(settings, "tidemark", state.feed, "held", where=where, columns=("sequence",))
    return first_cut(state, counted, max((r["sequence"] for r in held if state.counts(r["sequence"])), default=0)), ""


def _entry(row: Row, feed: Feed, fates: Fates) -> Entry:
    source = row.source_table
    table = fates.state.names.get(source, feed.published_name(source)) if source else row.table
    fate = fates.of(row, table)
    if row.published and row.op == "bad":
        fate = f"{KEPT}: {fates.kept.get(place_of(row), row.problem)}"
    elif row.published and not row.is_row and place_of(row) not in fates.kept:
        fate = f"{CONTROL}: {row.kind}" if row.kind else CONTROL
    return Entry(
        hour=row.hour, table=table, op=row.op, key=row.key, position=row.position, object=row.object,
        record=row.record, entry=row.entry, fate=fate,
    )  # fmt: skip


def _names_like(log: DataFrame, name: str) -> Iterator[str]:
    """Names of transactions that contain a text."""
    alike = log.where(F.col("tx").contains(name)).select("tx").distinct().limit(_SUGGESTED)
    return (row.tx for row in alike.collect())
