"""One feed: its hours, what it holds and what that waits for, what is in quarantine, its tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, Field

from tidemark.errors import TidemarkError
from tidemark.feeds.model import Feed
from tidemark.hours import Hour
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.publication_history import load_receipts_from
from tidemark.ledger.quarantine import list_kept_back, list_stopped
from tidemark.ledger.receipts import Receipt
from tidemark.ledger.state_store import load_state
from tidemark.operations.feed_health import examine_loaded, hours_with_quarantine
from tidemark.operations.held import held_listing
from tidemark.page.overview import FeedLine, feed_line
from tidemark.page.runs import Run
from tidemark.settings import Settings

#: How many hours (three days) a feed's strip shows, and how many of them may lie behind the newest published one.
SHOWN, _BEHIND = 72, 24
#: How many reasons of the quarantine the feed's page names.
_REASONS = 5

HourKind: TypeAlias = Literal["published", "empty", "changed", "quarantine", "stopped", "running", "failed", "missing"]
#: What each kind of hour is in words.
KINDS: Mapping[HourKind, str] = {
    "published": "published",
    "empty": "published; nothing landed",
    "changed": "published late, or again",
    "quarantine": "published; some of it is in quarantine",
    "stopped": "published, but for tables that stay as they were",
    "running": "under way",
    "failed": "failed",
    "missing": "not published",
}


class HourCell(BaseModel):
    """An hour of the strip."""

    hour: str = Field(description="The hour, in UTC: `2026-11-20T07`.")
    kind: HourKind = Field(description="How it went.")
    words: str = Field(description="What its kind is in words.")
    landed: int | None = Field(None, description="How many records landed in it; null: it is not published.")
    applied: int | None = Field(
        None, description="How many of its changes the tables rest on; null: it is not published."
    )
    quarantined: int | None = Field(
        None,
        description="How many of its records and changes its receipt has in quarantine; null: it is not published.",
    )
    run: Run | None = Field(None, description="Its newest run in Airflow; null: none is known.")


class TableLine(BaseModel):
    """A published table."""

    table: str = Field(description="Its published name.")
    sources: list[str] = Field(description="The source's tables that were published under its name.")
    stopped: str | None = Field(None, description="Why it stays as it was; null: it goes on.")


class ReasonCount(BaseModel):
    """A reason for which something is in quarantine."""

    reason: str = Field(description="Why, for a person.")
    entries: int = Field(description="How many entries wait in quarantine for it.")


class FeedView(BaseModel):
    """A feed."""

    line: FeedLine = Field(description="How it is.")
    description: str = Field(description="What it is, as its file says.")
    schedule: str | None = Field(description="The cron line of its hours; null: they run only by trigger and backfill.")
    topics: list[str] = Field(description="The topics that it reads.")
    hours: list[HourCell] = Field([], description="Oldest first.")
    more_hours_missing: int = Field(
        0,
        description="How many hours after the last of these are over and not published; 0 for a feed that is not on "
        "schedule.",
    )
    tables: list[TableLine] = Field([], description="Its published tables, by name.")
    held: list[dict[str, Any]] = Field(
        [],
        description="What waits, as `tidemark held` lists it: transactions for the rest of them, changes for metadata.",
    )
    reasons: list[ReasonCount] = Field([], description="The reasons of its quarantine, the most frequent first.")
    more_reasons: int = Field(0, description="How many reasons are not shown.")
    problems: list[str] = Field(
        [], description="What could not be read, each in a sentence. What depends on it is empty."
    )

    @property
    def days(self) -> list[tuple[str, list[HourCell]]]:
        """The hours by their day, the newest day first."""
        found: dict[str, list[HourCell]] = {}
        for cell in self.hours:
            found.setdefault(cell.hour[:10], []).append(cell)
        return list(reversed(found.items()))

    @property
    def staged(self) -> list[HourCell]:
        """The newest hours of which Airflow tells how long their stages took, newest first."""
        return [cell for cell in reversed(self.hours) if cell.run is not None and cell.run.stages][:12]

    @property
    def stage_names(self) -> list[str]:
        """The stages that any of them has, in their order."""
        return list(dict.fromkeys(name for cell in self.staged for name in (cell.run.stages if cell.run else ())))


def show_feed(settings: Settings, feed: Feed, runs: Mapping[str, Run], now: datetime) -> FeedView:
    """A feed's view. ``runs``: by hour, what Airflow knows."""
    (health,) = examine_loaded(settings, [feed], now)
    view = FeedView(
        line=feed_line(health, feed), description=feed.description, schedule=feed.schedule, topics=feed.topics
    )
    try:
        state = load_state(settings, feed.feed)
    except TidemarkError as error:
        view.problems.append(_sentence(error))
        return view
    for fill in (_fill_tables, _fill_hours, _fill_held, _fill_reasons):
        try:
            fill(view, settings, feed, state, runs, now)
        except TidemarkError as error:
            view.problems.append(_sentence(error))
    return view


def judge_hour(receipts: Sequence[Receipt], *, kept_back: bool, out_of_order: bool) -> HourKind:
    """The kind of a published hour. ``receipts``: all of it, the newest last; ``kept_back``: some of it is in quarantine;
    ``out_of_order``: it was first published after a later hour."""
    newest = receipts[-1]
    if newest.stopped:
        return "stopped"
    if kept_back:
        return "quarantine"
    if out_of_order or len(receipts) > 1:
        return "changed"
    return "published" if newest.landed else "empty"


def unpublished_kind(hour: str, state: FeedState, run: Run | None) -> HourKind:
    """The kind of an hour that is not published."""
    if run is not None and run.state in ("running", "queued"):
        return "running"
    if run is not None and run.state == "failed":
        return "failed"
    return "running" if run is None and state.next is not None and state.next.hour == hour else "missing"


def out_of_order(receipts: Mapping[str, Sequence[Receipt]]) -> set[str]:
    """The hours that were first published after a later one. ``receipts``: by hour, the oldest first."""
    late, lowest = set(), float("inf")
    for hour in sorted(receipts, reverse=True):
        first = receipts[hour][0].sequence
        late |= {hour} if first > lowest else set()
        lowest = min(lowest, first)
    return late


def _fill_hours(
    view: FeedView, settings: Settings, feed: Feed, state: FeedState, runs: Mapping[str, Run], now: datetime
) -> None:
    last = _last_shown(feed, state, runs, now)
    if last is None:
        return
    first = last.plus(1 - SHOWN)
    receipts: dict[str, list[Receipt]] = {}
    for receipt in load_receipts_from(settings, state, first):
        receipts.setdefault(receipt.hour, []).append(receipt)
    late, kept = out_of_order(receipts), hours_with_quarantine(settings, state)
    begun = min([*receipts, *(hour for hour in runs if first <= hour <= last)], default=last)
    hour = max(first, Hour.parse(begun))
    while hour <= last:
        found, run = receipts.get(hour), runs.get(hour)
        if found:
            kind = judge_hour(found, kept_back=hour in kept, out_of_order=hour in late)
            counts = found[-1].counts
            numbers = {"landed": found[-1].landed, "applied": counts.applied, "quarantined": found[-1].quarantined}
            view.hours.append(HourCell(hour=hour, kind=kind, words=KINDS[kind], run=run, **numbers))
        else:
            kind = unpublished_kind(hour, state, run)
            view.hours.append(HourCell(hour=hour, kind=kind, words=KINDS[kind], run=run))
        hour = hour.plus(1)
    if feed.on_schedule:
        view.more_hours_missing = max(0, _hours_between(last, _last_whole(now)))


def _last_shown(feed: Feed, state: FeedState, runs: Mapping[str, Run], now: datetime) -> Hour | None:
    """The last hour of the strip: the newest that is published or ran; on schedule the last that is over, but not many
    after that."""
    known = [hour for hour in (state.newest_hour, *map(Hour.parse, runs)) if hour is not None]
    newest = max(known, default=None)
    if newest is None or not feed.on_schedule:
        return newest
    return max(newest, min(_last_whole(now), newest.plus(_BEHIND)))


def _last_whole(now: datetime) -> Hour:
    return Hour.of(now.replace(minute=0, second=0, microsecond=0)).plus(-1)


def _hours_between(first: Hour, last: Hour) -> int:
    return int((last.start - first.start).total_seconds() // 3600)


def _fill_tables(view: FeedView, settings: Settings, feed: Feed, state: FeedState, *_: object) -> None:
    view.tables = [TableLine(table=name, sources=known.sources) for name, known in sorted(state.tables.items())]
    stopped = list_stopped(settings, state)
    for line in view.tables:
        line.stopped = stopped[line.table][1] if line.table in stopped else None


def _fill_held(view: FeedView, settings: Settings, feed: Feed, state: FeedState, *_: object) -> None:
    if state.held_transactions or state.waiting_entries:
        view.held = held_listing(settings, feed.feed).objects


def _fill_reasons(view: FeedView, settings: Settings, feed: Feed, *_: object) -> None:
    if not view.line.quarantined:
        return
    counted = Counter(row["reason"] for row in list_kept_back(settings, feed.feed, columns=("reason",)))
    view.reasons = [ReasonCount(reason=reason, entries=count) for reason, count in counted.most_common(_REASONS)]
    view.more_reasons = max(0, len(counted) - _REASONS)


def _sentence(error: TidemarkError) -> str:
    return str(error).replace("\n", " ")
