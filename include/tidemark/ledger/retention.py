"""Which of a feed's cuts have expired. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from tidemark.feeds.model import Feed
from tidemark.hours import Hour

#: A published table's property: the moment before which cuts were made that maintenance has dropped.
CUTS_DROPPED = "tidemark.cuts-dropped"


def expired_hours(feed: Feed, made: Mapping[Hour, datetime | None], now: datetime | None = None) -> set[Hour]:
    """Hours whose cuts are older than the feed keeps them. ``made``: of all published hours, when each was made. That of the
    newest hour never expires."""
    keep = feed.retention.cuts
    if keep is None:
        return set()
    oldest = (now or datetime.now(UTC)) - keep
    return {hour for hour, at in made.items() if at is not None and at < oldest and hour != max(made)}
