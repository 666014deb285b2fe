"""The wait of an hour for those before it, in Airflow's triggerer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from tidemark.errors import TidemarkError
from tidemark.hours import Hour
from tidemark.ledger.hour_order import comes_next
from tidemark.ledger.state_store import load_state, newest_revision
from tidemark.settings import Settings

#: Seconds between two looks at the feed's state.
_POLL = 2.0
#: After so many seconds in which nobody has changed it, nobody is at work.
_IDLE = 60.0


class TurnTrigger(BaseTrigger):
    """Ends when an hour is its feed's next one, or published, or when nobody is at work on the hours before it."""

    def __init__(self, *, feed: str, hour: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.feed, self.hour = feed, hour

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """What the triggerer makes the same trigger of."""
        return f"{__name__}.TurnTrigger", {"feed": self.feed, "hour": self.hour}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """The one event, which says nothing: the task looks for itself."""
        seen, since = -1, time.monotonic()
        while time.monotonic() - since < _IDLE:
            try:
                revision, over = await asyncio.to_thread(self._look)
            except TidemarkError:
                break  # the task meets it again
            if over:
                break
            if revision != seen:
                seen, since = revision, time.monotonic()
            await asyncio.sleep(_POLL)
        yield TriggerEvent(self.hour)  # type: ignore[no-untyped-call]

    def _look(self) -> tuple[int, bool]:
        """The revision of the feed's state, and whether the wait is over by it."""
        settings, hour = Settings(), Hour.parse(self.hour)
        revision = newest_revision(settings, self.feed)
        if not revision:
            return 0, False
        state = load_state(settings, self.feed)
        return revision, state.has(hour) or comes_next(settings, state, hour)
