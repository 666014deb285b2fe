"""Listings of a feed's system tables for people, on the command line and on the page in Airflow. Read without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from typing import Any, TypeAlias

from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, In, LessThanOrEqual, Not

from tidemark.errors import ConfigError
from tidemark.feeds.loading import feed_names, find_feed
from tidemark.feeds.model import Feed
from tidemark.feeds.problems import nearest
from tidemark.hours import Hour, hours_came_later
from tidemark.lake.catalog import find_table, read_rows, reading
from tidemark.lake.lake_marker import check_lake
from tidemark.lake.stored_formats import parse_document
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.publication_history import PublicationHistory
from tidemark.ledger.quarantine import PERHAPS, list_kept_back, list_unplaced
from tidemark.ledger.receipts import Receipt
from tidemark.ledger.state_store import load_state
from tidemark.settings import Settings

#: What a listing says in one line.
Row: TypeAlias = list[str | int | None]


#: What a transaction waits for of which a part was refused.
_IN_QUARANTINE = "its changes in quarantine"


@dataclass(frozen=True)
class Listing:
    """A table for people, and objects for programs. Cells may hold text that came from messages: what shows them must escape
    them."""

    title: str
    head: list[str]
    """The columns' names; with ``_`` for spaces they are those of an object."""
    rows: list[Row]

    @property
    def cells(self) -> list[list[str]]:
        """The rows as texts."""
        return [["" if cell is None else str(cell) for cell in row] for row in self.rows]

    @property
    def objects(self) -> list[dict[str, str | int | None]]:
        """The rows as objects."""
        names = [name.replace(" ", "_") for name in self.head]
        return [dict(zip(names, row, strict=True)) for row in self.rows]


def published_feeds(settings: Settings) -> list[str]:
    """The feeds that have published anything, whether they still have a feed file or not."""
    return sorted({row["feed"] for row in read_rows(settings, "tidemark", "receipts", columns=("feed",))})


def check_known(settings: Settings, feed: str) -> None:
    """ConfigError for a name that no feed has, neither in the folder of feeds nor among what was ever published."""
    known = set(feed_names(settings.path(settings.feeds)))
    if feed not in known:
        known |= set(published_feeds(settings))
    if feed not in known:
        fix = nearest(feed, known) or (
            f"there are: {', '.join(sorted(known))}" if known else "write its first feed file"
        )
        raise ConfigError(f"there is no feed {feed!r}", fix=fix)


def newest_receipts(settings: Settings, feed: str | None = None) -> list[Receipt]:
    """The newest receipt of every hour, by feed and hour; of one feed or of all. Its notes say of the hour's cut which hours
    came later."""
    check_lake(settings)
    if feed:
        check_known(settings, feed)
    where = EqualTo(term="feed", value=feed) if feed else None
    listed = [
        parse_document(Receipt, row["receipt"]) for row in read_rows(settings, "tidemark", "receipts", where=where)
    ]
    histories: dict[str, list[Receipt]] = {}
    for receipt in sorted(listed, key=lambda r: r.sequence):
        histories.setdefault(receipt.feed, []).append(receipt)
    return [
        _with_late_hours(history.of_hour(hour), history.after_cut(hour))
        for _, history in sorted((feed, PublicationHistory(receipts)) for feed, receipts in histories.items())
        for hour in history.hours
    ]


def _with_late_hours(receipt: Receipt | None, later: list[Hour]) -> Receipt:
    """A receipt that says of its hour's cut what came later."""
    assert receipt is not None, "an hour of the history"
    if not later:
        return receipt
    return receipt.model_copy(update={"notes": [*receipt.notes, f"its cut: {hours_came_later(later)}"]})


def shown_receipts(receipts: list[Receipt], since: str | None, limit: int) -> list[Receipt]:
    """Of receipts by feed and hour those from an hour on, else the newest of each feed."""
    if since is not None:
        return [receipt for receipt in receipts if receipt.hour >= since]
    of_feeds = (list(group) for _, group in groupby(receipts, lambda receipt: receipt.feed))
    return [receipt for group in of_feeds for receipt in group[-limit:]]


def tables_listing(settings: Settings, feed: str | None) -> Listing:
    """A row per published table, of one feed or of all."""
    check_lake(settings)
    if feed is not None:
        check_known(settings, feed)
    feeds = [feed] if feed is not None else published_feeds(settings)
    rows: list[Row] = []
    for name in feeds:
        state = load_state(settings, name)
        stopped = state.stopped.get(state.last_hour, {}) if state.last_hour else {}
        for table, known in sorted(state.tables.items()):
            kept = "stopped" if table in stopped else ""
            rows.append([name, table, ", ".join(known.sources), kept])
    return Listing("Tables", ["feed", "table", "at the source", "state"], rows)


def receipts_listing(receipts: list[Receipt]) -> Listing:
    """A row per feed and hour."""
    rows: list[Row] = [
        [r.feed, r.hour, r.landed, r.split, r.counts.applied, r.counts.duplicate, r.counts.superseded, r.control,
         r.held, r.quarantined, r.counts.released_applied,
         f"{r.newest:%Y-%m-%d %H:%M:%S}" if r.newest else "", "; ".join(r.notes)]
        for r in receipts
    ]  # fmt: skip
    return Listing(
        "Receipts: landed + split = applied + duplicate + superseded + control + held + quarantined",
        ["feed", "hour", "landed", "split", "applied", "duplicate", "superseded", "control", "held", "quarantined",
         "released", "source time", "notes"],
        rows,
    )  # fmt: skip


def receipts_by_table_listing(receipts: list[Receipt]) -> Listing:
    """A row per feed, hour and table."""
    rows: list[Row] = [
        [r.feed, r.hour, t.table, t.counts.applied, t.counts.duplicate, t.counts.superseded, t.counts.quarantined,
         t.counts.released_applied, "; ".join(t.warnings)]
        for r in receipts for t in r.tables
    ]  # fmt: skip
    return Listing(
        "Receipts by table",
        ["feed", "hour", "table", "applied", "duplicate", "superseded", "quarantined", "released", "warnings"],
        rows,
    )


def held_listing(settings: Settings, feed: str) -> Listing:
    """The transactions that wait for the rest of them, and the changes that wait for metadata: the oldest first, what is
    missing, and which are overdue."""
    check_lake(settings)
    check_known(settings, feed)
    state = load_state(settings, feed)
    oldest, held = _overdue_before(state, _alarm(feed, settings)), _held(settings, feed, state)
    unplaced = list_unplaced(settings, feed) if held else []
    rows = [
        (
            row["since"], row["tx"], row["changes"], ", ".join(t for t in row["tables"] if t),
            missing_parts(row), _perhaps(row, unplaced, overdue=row["since"] < oldest),
        )
        for row in held
    ]  # fmt: skip
    rows += [(*row, "") for row in _waiting(settings, feed, state)]
    return Listing(
        f"{feed}: {len(held)} held transactions"
        + (f", {state.waiting_entries} changes wait for metadata" if state.waiting_entries else ""),
        ["transaction", "since", "changes", "tables", "missing"],
        [
            [tx, since, changes, tables, missing + (_overdue(missing) if since < oldest else "") + perhaps]
            for since, tx, changes, tables, missing, perhaps in sorted(rows)
        ],
    )


def overdue_transactions(settings: Settings, feed: Feed, state: FeedState) -> int:
    """How many held transactions have waited for longer than the feed allows. They are read only where the state does not
    tell that there are none."""
    oldest = _overdue_before(state, feed.transactions.alarm)
    if not state.held_transactions or (state.held_since is not None and state.held_since >= oldest):
        return 0
    return sum(row["since"] < oldest for row in _held(settings, feed.feed, state))


def _overdue_before(state: FeedState, limit: timedelta | None) -> str:
    """Transactions that are open since before this hour are overdue. Measured from the newest hour, not from the clock, as
    the feed's policy for overdue transactions is."""
    return f"{state.newest_hour.start - limit:%Y-%m-%dT%H}" if state.newest_hour and limit else ""


def _held(settings: Settings, feed: str, state: FeedState) -> list[dict[str, Any]]:
    return read_rows(settings, "tidemark", feed, "held", where=EqualTo(term="sequence", value=state.last_sequence))


def _waiting(settings: Settings, feed: str, state: FeedState) -> list[tuple[str, str, int, str, str]]:
    """What waits for metadata: (since, transaction, changes, tables, what for), grouped; without one, the transaction
    is empty."""
    table = find_table(settings, "tidemark", feed, "waiting")
    if table is None or not state.waiting_entries:
        return []
    where = And(
        GreaterThanOrEqual(term="sequence", value=state.waiting_since),
        LessThanOrEqual(term="sequence", value=state.last_sequence),
        Not(In(term="sequence", literals=state.unpublished)),
    )
    names = ("tx", "waits_for", "table", "hour")
    with reading("tidemark", feed, "waiting"):
        rows = table.scan(row_filter=where, selected_fields=names).to_arrow()
    grouped = rows.group_by(["tx", "waits_for", "table"]).aggregate([("hour", "min"), ("hour", "count")])
    return [
        (row["hour_min"], row["tx"] or "", row["hour_count"], row["table"] or "", row["waits_for"])
        for row in grouped.to_pylist()
    ]


def _alarm(feed: str, settings: Settings) -> timedelta | None:
    """After how long the feed file calls a held transaction overdue; None when there is no such file any more."""
    try:
        return find_feed(feed, settings, deep=False).transactions.alarm
    except ConfigError:
        return None


def _overdue(missing: str) -> str:
    if missing.endswith(" parts"):
        return " (overdue; perhaps of tables outside the feed: see transactions.tables_outside)"
    return " (overdue)"


def missing_parts(row: dict[str, Any]) -> str:
    """What a held transaction (a row of the system table) waits for."""
    parts, needed = int(str(row["parts"])), int(str(row["needed"]))
    words = [] if row["ended"] else ["its end"]
    if parts < needed:
        words.append(f"{needed - parts} of {needed} parts")
    return " and ".join(words) or _IN_QUARANTINE


def _perhaps(row: dict[str, Any], unplaced: list[dict[str, Any]], *, overdue: bool) -> str:
    """The record that a held transaction perhaps lacks: one that cannot be decoded, and landed while the transaction did.
    One whose end has not come may still go on, until it is overdue."""
    if not (row["ended"] or overdue) or missing_parts(row) == _IN_QUARANTINE:
        return ""
    last = max(row["hours"]) if row["ended"] else "9"
    found = [one for one in unplaced if row["since"] <= one["hour"] <= last]
    if not found:
        return ""
    more = f" or one of {len(found) - 1} others" if len(found) > 1 else ""
    return f"{PERHAPS}record {found[0]['record']} of {found[0]['object']}{more}, which cannot be decoded"


def quarantine_listing(settings: Settings, feed: str, hour: str | None, limit: int) -> Listing:
    """What is in quarantine, also of an hour that stopped before publishing: the first rows, and how many there are."""
    check_lake(settings)
    check_known(settings, feed)
    kept = list_kept_back(settings, feed, hour)
    return Listing(
        f"{feed}: {len(kept)} in quarantine",
        ["hour", "table", "object", "record", "reason"],
        [[r["hour"], r["table"] or "", r["object"], r["record"], r["reason"]] for r in kept[:limit]],
    )
