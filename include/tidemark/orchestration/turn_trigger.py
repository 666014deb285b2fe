"""The wait of an hour for those before it, in Airflow's triggerer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from tidemark.errors import TidemarkError
from tidemark.hours import Hour
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.hour_order import comes_next
from tidemark.ledger.state_store import find_state
from tidemark.settings import Settings

#: Seconds between two looks at the feed's state.
_POLL = 2.0
#: After so many seconds in which nobody has changed the state, nobody is at work on the feed. A job that decodes, or waits
#: for the cores of a cluster, does not change it; one that goes on with the next hour soon does.
_IDLE, _IDLE_BEFORE_NEXT = 300.0, 30.0


class TurnTrigger(BaseTrigger):
    """Ends when an hour is published, or when nobody is at work on it and on those before it."""

    def __init__(self, *, feed: str, hour: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.feed, self.hour = feed, hour

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """What the triggerer makes the same trigger of."""
        return f"{__name__}.TurnTrigger", {"feed": self.feed, "hour": self.hour}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """The one event, which says nothing: the task looks for itself."""
        seen, since = -1, time.monotonic()
        while True:
            try:
                state, is_next = await asyncio.to_thread(self._look)
            except TidemarkError:
                break  # the task meets it again
            if state.revision != seen:
                seen, since = state.revision, time.monotonic()
            idle = time.monotonic() - since
            if state.has(self.hour) or idle > (_IDLE_BEFORE_NEXT if is_next else _IDLE):
                break
            await asyncio.sleep(_POLL)
        yield TriggerEvent(self.hour)  # type: ignore[no-untyped-call]

    def _look(self) -> tuple[FeedState, bool]:
        """The feed's state, an empty one before there is any; and whether the hour comes next by it."""
        settings = Settings()
        state = find_state(settings, self.feed) or FeedState(feed=self.feed)
        return state, comes_next(settings, state, Hour.parse(self.hour))
