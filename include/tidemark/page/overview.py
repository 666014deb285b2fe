"""All feeds: what needs a person first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from pydantic import BaseModel, Field

from tidemark.errors import ConfigError
from tidemark.feeds.loading import load_feed
from tidemark.feeds.model import Feed
from tidemark.hours import Hour
from tidemark.operations.feed_health import FeedHealth, Health, examine_loaded
from tidemark.page.shapes import Bar, bars
from tidemark.settings import Settings

#: Of how many hours, up to the newest, the overview draws what landed.
_DRAWN = 24


class HourCount(BaseModel):
    """What landed in an hour."""

    hour: str = Field(description="The hour, in UTC: `2026-11-20T07`.")
    landed: int | None = Field(description="How many records landed in it; null: it is not published.")


class FeedLine(BaseModel):
    """How a feed is, by :class:`tidemark.operations.feed_health.FeedHealth`."""

    feed: str = Field(description="The feed's name.")
    owner: str = Field(description="Who is responsible for it, as its file says.")
    on_schedule: bool = Field(description="Whether its hours run by themselves, each in its time.")
    health: Health = Field(description="The worst that is true of it.")
    needs_person: bool = Field(description="Whether it does not become good by itself.")
    why: str = Field(description="What is wrong and what to do, for a person; empty: nothing is.")
    since: str | None = Field(description="The first hour that is not right; null: there is none, or it is not known.")
    last_good_hour: str | None = Field(
        description="The latest published hour of which nothing is in quarantine, and that left no table as it was; null: "
        "none yet.",
    )
    newest_hour: str | None = Field(description="The latest published hour; null: none yet.")
    behind_hours: int | None = Field(
        description="How many whole hours ago the newest hour ended; null: none is published."
    )
    held_transactions: int = Field(description="How many transactions the last publication held.")
    quarantined: int = Field(description="How many records and changes wait in quarantine.")
    recent: list[HourCount] = Field(description="What landed in the hours up to the newest, the oldest first.")

    @property
    def bars(self) -> list[Bar | None]:
        """The chart of the recent hours, 120 by 28."""
        return bars([one.landed for one in self.recent], 120, 28)

    @property
    def recent_words(self) -> str:
        """The chart in a sentence."""
        known = [one for one in self.recent if one.landed is not None]
        if not known:
            return "no records per hour are known"
        least, most = min(one.landed or 0 for one in known), max(one.landed or 0 for one in known)
        return f"{known[0].hour} to {known[-1].hour}: {least:,} to {most:,} records an hour, the newest {known[-1].landed:,}"


class Overview(BaseModel):
    """All feeds that somebody may see."""

    at: datetime = Field(description="When it was made.")
    feeds: list[FeedLine] = Field(description="The feeds, those that need a person first.")
    broken_files: int = Field(
        0, description="How many feed files have mistakes. Their feeds have no DAG, and are not among these."
    )

    @property
    def numbers(self) -> list[tuple[str, int]]:
        """How many feeds are in each health that any is in, the worst first."""
        words: list[Health] = ["stopped", "late", "waiting", "never ran", "good"]
        counted = [(word, sum(one.health == word for one in self.feeds)) for word in words]
        return [(word, count) for word, count in counted if count]


def known_feeds(folder: Path) -> tuple[list[Feed], int]:
    """The feeds of a folder whose files are right, by name; and how many others there are. A file that has not changed is
    not read again."""
    feeds, broken = [], 0
    for path in sorted(folder.glob("*.yaml")):
        try:
            stat = path.stat()
            feeds.append(_feed(path, (stat.st_mtime_ns, stat.st_size, stat.st_ino)))
        except (ConfigError, OSError):
            broken += 1
    return feeds, broken


@lru_cache(maxsize=4096)
def _feed(path: Path, version: tuple[int, ...]) -> Feed:
    return load_feed(path, deep=False)


def show_overview(settings: Settings, feeds: Sequence[Feed], broken: int, now: datetime) -> Overview:
    """The overview of these feeds: one document of each is read, and no table where its state tells all."""
    found = [feed_line(one, feed) for one, feed in zip(examine_loaded(settings, feeds, now), feeds, strict=True)]
    order: list[Health] = ["stopped", "late", "waiting", "never ran", "good"]
    found.sort(key=lambda line: (order.index(line.health), line.feed))
    return Overview(at=now, feeds=found, broken_files=broken)


def feed_line(found: FeedHealth, feed: Feed) -> FeedLine:
    """A feed as the overview shows it."""
    names = FeedLine.model_fields.keys() - {"owner", "on_schedule", "recent"}
    same = {name: getattr(found, name) for name in names}
    return FeedLine(owner=feed.owner, on_schedule=feed.on_schedule, recent=list(_recent(found)), **same)


def _recent(found: FeedHealth) -> Iterable[HourCount]:
    if found.newest_hour is None or not found.recent:
        return
    newest = Hour.parse(found.newest_hour)
    first = max(min(found.recent), newest.plus(1 - _DRAWN))
    hour = Hour.parse(first)
    while hour <= newest:
        yield HourCount(hour=hour, landed=found.recent.get(hour))
        hour = hour.plus(1)
