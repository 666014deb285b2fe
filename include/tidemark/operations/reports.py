"""What receipts, tables and the quarantine say, as listings for the command line. Read without Spark."""

from __future__ import annotations

from itertools import groupby

from tidemark.hours import Hour, hours_came_later
from tidemark.lake.catalog import Where, read_rows
from tidemark.lake.lake_marker import check_lake
from tidemark.lake.stored_formats import parse_document
from tidemark.ledger.publication_history import PublicationHistory
from tidemark.ledger.quarantine import list_kept_back, list_stopped
from tidemark.ledger.receipts import Receipt
from tidemark.ledger.state_store import load_state
from tidemark.operations.known_feeds import check_known, published_feeds
from tidemark.operations.listing import Listing, Row
from tidemark.settings import Settings


def newest_receipts(settings: Settings, feed: str | None = None) -> list[Receipt]:
    """The newest receipt of every hour, by feed and hour; of one feed or of all. Its notes say of the hour's cut which hours
    came later."""
    check_lake(settings)
    if feed:
        check_known(settings, feed)
    where: Where = [("feed", "=", feed)] if feed else []
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
        stopped = list_stopped(settings, state)
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
