"""Which hour of a feed comes next: a preference, not a need. Any order gives the same tables, but in order it costs least."""

from __future__ import annotations

from tidemark.hours import Hour, hours_between
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.manifest import first_landed, has_landed
from tidemark.settings import Settings

#: So many hours one job publishes, one after the other, at most.
MOST_IN_A_ROW = 24


def comes_next(settings: Settings, state: FeedState, hour: Hour) -> bool:
    """Whether it is the hour after the newest published one; where none is published, the oldest that has landed."""
    if state.newest_hour is not None:
        return hour == state.newest_hour.plus(1)
    return hour == first_landed(settings, state.feed)


def comes_soon(settings: Settings, state: FeedState, hour: Hour) -> bool:
    """Whether all hours from the next one to this one have landed: the job that publishes them goes on with it."""
    newest = state.newest_hour
    first = newest.plus(1) if newest is not None else first_landed(settings, state.feed)
    if first is None or not first < hour <= first.plus(MOST_IN_A_ROW - 1):
        return False
    return all(has_landed(settings, state.feed, before) for before in hours_between(first, hour))
