"""Listings of a feed's system tables for people, on the command line and on the page in Airflow. Read without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, In, LessThanOrEqual, Not

from tidemark.errors import ConfigError
from tidemark.feeds.loading import find_feed
from tidemark.hours import Hour, hours_came_later
from tidemark.lake.catalog import find_table, read_rows, reading
from tidemark.lake.lake_marker import check_lake
from tidemark.lake.stored_formats import parse_document
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.publication_history import PublicationHistory
from tidemark.ledger.quarantine import list_kept_back
from tidemark.ledger.receipts import Receipt
from tidemark.ledger.state_store import load_state
from tidemark.settings import Settings


@dataclass(frozen=True)
class Listing:
    """A table for people. Cells may hold text that came from messages: what shows them must escape them."""

    title: str
    head: list[str]
    rows: list[list[str]]


def newest_receipts(settings: Settings, feed: str | None = None) -> list[Receipt]:
    """The newest receipt of every hour, by feed and hour; of one feed or of all. Its notes say of the hour's cut which hours
    came later."""
    check_lake(settings)
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


def receipts_listing(receipts: list[Receipt]) -> Listing:
    """A row per feed and hour."""
    rows = [
        [r.feed, r.hour, r.landed, r.split, r.counts.applied, r.counts.duplicate, r.counts.superseded, r.control,
         r.held, r.quarantined, r.counts.released_applied,
         f"{r.newest:%Y-%m-%d %H:%M:%S}" if r.newest else "", "; ".join(r.notes)]
        for r in receipts
    ]  # fmt: skip
    return Listing(
        "Receipts: landed + split = applied + duplicate + superseded + control + held + quarantined",
        ["feed", "hour", "landed", "split", "applied", "duplicate", "superseded", "control", "held", "quarantined",
         "released", "source time", "notes"],
        [[str(cell) for cell in row] for row in rows],
    )  # fmt: skip


def receipts_by_table_listing(receipts: list[Receipt]) -> Listing:
    """A row per feed, hour and table."""
    rows = [
        [r.feed, r.hour, t.table, t.counts.applied, t.counts.duplicate, t.counts.superseded, t.counts.quarantined,
         t.counts.released_applied, "; ".join(t.warnings)]
        for r in receipts for t in r.tables
    ]  # fmt: skip
    return Listing(
        "Receipts by table",
        ["feed", "hour", "table", "applied", "duplicate", "superseded", "quarantined", "released", "warnings"],
        [[str(cell) for cell in row] for row in rows],
    )


def held_listing(settings: Settings, feed: str) -> Listing:
    """The transactions that wait for the rest of them, and the changes that wait for metadata: the oldest first, what is
    missing, and which are overdue."""
    check_lake(settings)
    state, limit = load_state(settings, feed), _alarm(feed, settings)
    # measured from the newest hour, not from the clock, as the feed's policy for overdue transactions is
    oldest = f"{state.newest_hour.start - limit:%Y-%m-%dT%H}" if state.newest_hour and limit else ""
    held = read_rows(settings, "tidemark", feed, "held", where=EqualTo(term="sequence", value=state.last_sequence))
    rows = [
        (row["since"], row["tx"], row["changes"], ", ".join(t for t in row["tables"] if t), _missing(row))
        for row in held
    ]
    rows += _waiting(settings, feed, state)
    return Listing(
        f"{feed}: {len(held)} held transactions"
        + (f", {state.waiting_entries} changes wait for metadata" if state.waiting_entries else ""),
        ["transaction", "since", "changes", "tables", "missing"],
        [
            [tx, since, str(changes), tables, missing + (_overdue(missing) if since < oldest else "")]
            for since, tx, changes, tables, missing in sorted(rows)
        ],
    )


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


def _missing(row: dict[str, object]) -> str:
    """What a held transaction waits for."""
    parts, needed = int(str(row["parts"])), int(str(row["needed"]))
    words = [] if row["ended"] else ["its end"]
    if parts < needed:
        words.append(f"{needed - parts} of {needed} parts")
    return " and ".join(words) or "its changes in quarantine"


def quarantine_listing(settings: Settings, feed: str, hour: str | None, limit: int) -> Listing:
    """What is in quarantine, also of an hour that stopped before publishing: the first rows, and how many there are."""
    check_lake(settings)
    kept = list_kept_back(settings, feed, hour)
    return Listing(
        f"{feed}: {len(kept)} in quarantine",
        ["hour", "table", "object", "record", "reason"],
        [[r["hour"], r["table"] or "", r["object"], str(r["record"]), r["reason"]] for r in kept[:limit]],
    )
