"""What waits: held transactions, what each lacks and which are overdue, and changes that wait for metadata. Read without
Spark."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tidemark.errors import ConfigError
from tidemark.feeds.loading import find_feed
from tidemark.feeds.model import Feed
from tidemark.lake.catalog import Where, find_table, read_rows, reading, row_filter
from tidemark.lake.lake_marker import check_lake
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.quarantine import PERHAPS, list_unplaced
from tidemark.ledger.state_store import load_state
from tidemark.operations.known_feeds import check_known
from tidemark.operations.listing import Listing
from tidemark.settings import Settings

#: What a transaction waits for of which a part was refused.
_IN_QUARANTINE = "its changes in quarantine"


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


def overdue_changes(settings: Settings, feed: Feed, state: FeedState) -> int:
    """How many changes have waited for metadata for longer than the feed allows transactions to."""
    oldest = _overdue_before(state, feed.transactions.alarm)
    return sum(changes for since, _, changes, *_ in _waiting(settings, feed.feed, state) if since < oldest)


def _overdue_before(state: FeedState, limit: timedelta | None) -> str:
    """Transactions that are open since before this hour are overdue. Measured from the newest hour, not from the clock, as
    the feed's policy for overdue transactions is."""
    return f"{state.newest_hour.start - limit:%Y-%m-%dT%H}" if state.newest_hour and limit else ""


def _held(settings: Settings, feed: str, state: FeedState) -> list[dict[str, Any]]:
    return read_rows(settings, "tidemark", feed, "held", where=[("sequence", "=", state.last_sequence)])


def _waiting(settings: Settings, feed: str, state: FeedState) -> list[tuple[str, str, int, str, str]]:
    """What waits for metadata: (since, transaction, changes, tables, what for), grouped; without one, the transaction
    is empty."""
    table = find_table(settings, "tidemark", feed, "waiting")
    if table is None or not state.waiting_entries:
        return []
    where: Where = [
        ("sequence", ">=", state.waiting_since), ("sequence", "<=", state.last_sequence),
        ("sequence", "not in", state.unpublished),
    ]  # fmt: skip
    names = ("tx", "waits_for", "table", "hour")
    with reading("tidemark", feed, "waiting"):
        rows = table.scan(row_filter=row_filter(where), selected_fields=names).to_arrow()
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
