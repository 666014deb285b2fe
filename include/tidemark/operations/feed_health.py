"""How each feed is, in one word, and why: what a person looks at first. Read from the feeds' states, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from tidemark.errors import TidemarkError
from tidemark.feeds.loading import find_feed
from tidemark.feeds.model import Feed
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.quarantine import list_kept_back
from tidemark.ledger.state_store import load_state
from tidemark.operations.reports import Listing, Row, overdue_transactions
from tidemark.settings import Settings

#: The best last.
Health = Literal["stopped", "late", "waiting", "never ran", "good"]
#: How far the newest published hour may be behind before a feed is late. An hour is whole when the next one has begun, and
#: takes its time to be exported and run.
_BEHIND = timedelta(hours=2)
#: The same, for a schedule that is not hourly.
_LONG_BEHIND = timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class FeedHealth:
    """How a feed is."""

    feed: str
    health: Health
    """The worst that is true of it."""
    why: str = ""
    """What is wrong and what to do, for a person; empty: nothing is."""
    newest_hour: str | None = None
    """The latest published hour."""
    behind_hours: int | None = None
    """How many whole hours ago that hour ended."""
    held_transactions: int = 0
    quarantined: int = 0

    @property
    def needs_person(self) -> bool:
        """Whether it does not become good by itself."""
        return self.health not in ("good", "never ran")


def examine_feeds(settings: Settings, names: Sequence[str], now: datetime | None = None) -> list[FeedHealth]:
    """How these feeds are. What cannot be read is said in its feed's line."""
    return [_examine(name, settings, now or datetime.now(UTC)) for name in names]


def _examine(name: str, settings: Settings, now: datetime) -> FeedHealth:
    try:
        state = load_state(settings, name)
        feed = find_feed(name, settings, deep=False)
        quarantined = len(list_kept_back(settings, name)) if state.last_sequence else 0
        overdue = overdue_transactions(settings, name, state) if state.held_transactions else 0
    except TidemarkError as error:
        return FeedHealth(feed=name, health="stopped", why=str(error).splitlines()[0])
    return judge(feed, state, quarantined=quarantined, overdue=overdue, now=now)


def judge(feed: Feed, state: FeedState, *, quarantined: int, overdue: int, now: datetime) -> FeedHealth:
    """``quarantined``: how many records and changes wait there; ``overdue``: held transactions that have waited too long."""
    newest = state.newest_hour
    behind = now - newest.plus(1).start if newest is not None else None
    reasons: list[tuple[Health, str]] = []
    stopped = state.stopped.get(state.last_hour, {}) if state.last_hour else {}
    reasons += [("stopped", f"{table} stays as it was: {why}") for table, why in sorted(stopped.items())]
    if late := _late(feed, behind, now):
        begun = f"; hour {state.next.hour} was begun" if state.next is not None else ""
        reasons.append(("late", late + begun))
    if overdue:
        reasons.append(("waiting", f"{overdue} transactions are overdue: `tidemark held {feed.feed}`"))
    if quarantined:
        reasons.append(("waiting", f"{quarantined} in quarantine: `tidemark quarantine list {feed.feed}`"))
    if newest is None and not reasons:
        reasons.append(("never ran", f"`tidemark run {feed.feed} --hour …`, or switch its DAG on"))
    health, why = reasons[0] if reasons else ("good", "")
    return FeedHealth(
        feed=feed.feed, health=health, why="; ".join([why, *(more for _, more in reasons[1:])]), newest_hour=newest,
        behind_hours=None if behind is None else max(0, int(behind.total_seconds() // 3600)),
        held_transactions=state.held_transactions, quarantined=quarantined,
    )  # fmt: skip


def _late(feed: Feed, behind: timedelta | None, now: datetime) -> str | None:
    """Why a feed on schedule is late; None: it is not."""
    if feed.start is None or feed.schedule is None:
        return None
    allowed = _BEHIND if feed.schedule.split()[1:] == ["*"] * 4 else _LONG_BEHIND
    if behind is None:
        since = now - feed.start
        return f"nothing is published, and it begins at {feed.start:%Y-%m-%dT%H}" if since > allowed else None
    return f"its newest hour ended {int(behind.total_seconds() // 3600)} hours ago" if behind > allowed else None


def status_listing(found: Sequence[FeedHealth]) -> Listing:
    """A row per feed; first who needs a person."""
    words = Health.__args__  # type: ignore[attr-defined]
    rows: list[Row] = [
        [one.health, one.feed, one.newest_hour, one.behind_hours, one.held_transactions, one.quarantined, one.why]
        for one in sorted(found, key=lambda one: (words.index(one.health), one.feed))
    ]
    return Listing("Feeds", ["health", "feed", "newest hour", "hours behind", "held", "quarantined", "why"], rows)
