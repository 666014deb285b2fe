"""How each feed is, in one word, and why: what a person looks at first.

Read from the feeds' states, one small document each, without Spark. A table of the lake is read only for a feed whose
state says that it has to be: an attempt that is not published may have put something in quarantine, hours left tables as
they were, or transactions are held for so long that some may be overdue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Literal, TypeAlias, TypeVar

from tidemark.errors import ConfigError, TidemarkError
from tidemark.feeds.loading import find_feed
from tidemark.feeds.model import Feed
from tidemark.hours import Hour
from tidemark.lake.lake_marker import check_lake
from tidemark.ledger.feed_state import FeedState, hours_from
from tidemark.ledger.quarantine import list_kept_back, list_stopped
from tidemark.ledger.state_store import load_state
from tidemark.operations.held import overdue_changes, overdue_transactions
from tidemark.operations.listing import Listing, Row
from tidemark.settings import Settings

#: The best last.
Health = Literal["stopped", "late", "waiting", "never ran", "good"]
#: How far the newest published hour may be behind before a feed is late. An hour is whole when the next one has begun, and
#: takes its time to be exported and run.
_BEHIND = timedelta(hours=2)
#: How many feeds are looked at at the same time where the lake is on S3: nearly all of the time is waiting there.
_AT_ONCE = 16

#: What is wrong: the word for it, why, and since which hour.
Reason: TypeAlias = tuple[Health, str, str | None]
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class FeedHealth:
    """How a feed is."""

    feed: str
    """The feed's name."""
    health: Health
    """The worst that is true of it."""
    why: str = ""
    """What is wrong and what to do, for a person; empty: nothing is."""
    since: str | None = None
    """The first hour that is not right, as far as it is known."""
    newest_hour: str | None = None
    """The latest published hour."""
    last_good_hour: str | None = None
    """The latest published hour of which nothing is in quarantine, and that left no table as it was."""
    behind_hours: int | None = None
    """How many whole hours ago the newest hour ended."""
    held_transactions: int = 0
    """How many transactions the last publication held."""
    quarantined: int = 0
    """How many records and changes wait in quarantine, those of an attempt that is not published among them."""
    recent: Mapping[str, int] = field(default_factory=dict)
    """The newest published hours, and how many records landed in each."""

    @property
    def needs_person(self) -> bool:
        """Whether it does not become good by itself."""
        return self.health not in ("good", "never ran")


def examine_feeds(settings: Settings, names: Sequence[str], now: datetime | None = None) -> list[FeedHealth]:
    """How these feeds are. What cannot be read is said in its feed's line."""
    return _examine_all(lambda name: _examine(name, None, settings, now), names, settings)


def examine_loaded(settings: Settings, feeds: Sequence[Feed], now: datetime | None = None) -> list[FeedHealth]:
    """The same, of feeds whose files are read already."""
    return _examine_all(lambda feed: _examine(feed.feed, feed, settings, now), feeds, settings)


def _examine_all(examine: Callable[[T], FeedHealth], of: Sequence[T], settings: Settings) -> list[FeedHealth]:
    """TidemarkError for a lake that is not the catalog's, in which every feed would seem never to have run."""
    check_lake(settings)
    if "://" not in settings.lake_root:
        return list(map(examine, of))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(examine, of))


def _examine(name: str, feed: Feed | None, settings: Settings, now: datetime | None) -> FeedHealth:
    try:
        feed = feed or find_feed(name, settings, deep=False)
    except ConfigError as error:
        return FeedHealth(feed=name, health="stopped", why=f"{error.problem.splitlines()[0]}: `tidemark feeds check`")
    try:
        state = load_state(settings, name)
        quarantined = hours_with_quarantine(settings, state)
        overdue = overdue_transactions(settings, feed, state)
        unread = overdue_changes(settings, feed, state)
        stopped = list_stopped(settings, state)
    except TidemarkError as error:
        problem = str(error).splitlines()[0]
        return FeedHealth(feed=name, health="stopped", why=f"{problem}: {error.fix}" if error.fix else problem)
    now = now or datetime.now(UTC)
    return judge(feed, state, quarantined=quarantined, stopped=stopped, overdue=overdue, unread=unread, now=now)


def hours_with_quarantine(settings: Settings, state: FeedState) -> Mapping[str, int]:
    """Hours with anything in quarantine, and how much; that of an attempt that is not published too."""
    if state.in_quarantine is not None and state.taken == state.last_sequence:
        return state.in_quarantine
    return Counter(row["hour"] for row in list_kept_back(settings, state.feed, columns=("stage",)))


def judge(
    feed: Feed, state: FeedState, *, quarantined: Mapping[str, int], stopped: Mapping[str, tuple[Hour, str]], overdue: int,
    unread: int, now: datetime,
) -> FeedHealth:  # fmt: skip
    """``quarantined``: by hour, how many records and changes wait there; ``stopped``: by table, since when and why it stays
    as it was; ``overdue``: held transactions that have waited too long; ``unread``: changes that have waited too long for
    metadata."""
    newest = state.newest_hour
    behind = now - newest.plus(1).start if newest is not None else None
    reasons: list[Reason] = [
        ("stopped", f"{table} stays as it was: {why}", since) for table, (since, why) in stopped.items()
    ]
    reasons += _late(feed, state, behind, now)
    if overdue:
        why = f"{overdue} transactions are overdue: `tidemark held {feed.feed}`"
        reasons.append(("waiting", why, state.held_since))
    if unread:
        why = f"{unread} changes have waited too long for metadata: `tidemark held {feed.feed}`"
        reasons.append(("waiting", why, None))
    if kept := sum(quarantined.values()):
        why = f"{kept} in quarantine: `tidemark quarantine list {feed.feed}`"
        reasons.append(("waiting", why, min(quarantined)))
    if newest is None and not reasons:
        reasons.append(("never ran", f"`tidemark run {feed.feed} --hour …`, or switch its DAG on", None))
    health, _, since = reasons[0] if reasons else ("good", "", None)
    return FeedHealth(
        feed=feed.feed, health=health, why="; ".join(why for _, why, _ in reasons), since=since, newest_hour=newest,
        last_good_hour=_last_good(state, quarantined),
        behind_hours=None if behind is None else max(0, int(behind.total_seconds() // 3600)),
        held_transactions=state.held_transactions, quarantined=kept, recent=state.recent,
    )  # fmt: skip


def missing_hours(feed: Feed, state: FeedState, now: datetime) -> list[Hour]:
    """Hours before the newest published one that are not published, of a feed on schedule: they failed, or never ran.
    Without the newest of them, which may still run beside one that was published before them."""
    if feed.start is None or not feed.on_schedule or not state.hours:
        return []
    begins = Hour.parse(f"{feed.start:%Y-%m-%dT%H}")
    gaps = [(begins, state.hours[0].first), *((one.last.plus(1), other.first) for one, other in pairwise(state.hours))]
    missing = [since.plus(step) for since, until in gaps for step in range(hours_from(since, until))]
    return [hour for hour in missing if now - hour.end > _BEHIND]


def _late(feed: Feed, state: FeedState, behind: timedelta | None, now: datetime) -> list[Reason]:
    """Why a feed on schedule is late."""
    if not feed.on_schedule:
        return []
    found: list[Reason] = []
    begun = f"; hour {state.next.hour} was begun" if state.next is not None else ""
    if behind is None and feed.start is not None and now - feed.start > _BEHIND:
        why = f"nothing is published, and it begins at {feed.start:%Y-%m-%dT%H}"
        found.append(("late", why + begun, f"{feed.start:%Y-%m-%dT%H}"))
    if behind is not None and behind > _BEHIND and state.newest_hour is not None:
        why = f"its newest hour ended {int(behind.total_seconds() // 3600)} hours ago"
        found.append(("late", why + begun, state.newest_hour.plus(1)))
    if missing := missing_hours(feed, state, now):
        more = f" and {len(missing) - 1} others" if len(missing) > 1 else ""
        why = f"hour {missing[0]}{more} before the newest {'are' if more else 'is'} not published"
        found.insert(0, ("late", why, missing[0]))
    return found


def _last_good(state: FeedState, quarantined: Mapping[str, int]) -> Hour | None:
    for one in reversed(state.hours):
        hour = one.last
        while hour >= one.first:
            if hour not in quarantined and hour not in state.stopped:
                return hour
            hour = hour.plus(-1)
    return None


def status_listing(found: Sequence[FeedHealth]) -> Listing:
    """A row per feed; first who needs a person."""
    words = Health.__args__  # type: ignore[attr-defined]
    rows: list[Row] = [
        [
            one.health,
            one.feed,
            one.newest_hour,
            one.behind_hours,
            one.held_transactions,
            one.quarantined,
            one.since,
            one.why,
        ]
        for one in sorted(found, key=lambda one: (words.index(one.health), one.feed))
    ]
    return Listing(
        "Feeds", ["health", "feed", "newest hour", "hours behind", "held", "quarantined", "since", "why"], rows
    )
