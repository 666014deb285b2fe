"""The wait for an export, in Airflow's triggerer: one process waits for the exports of all feeds and hours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from tidemark.errors import TidemarkError
from tidemark.feeds.loading import find_feed
from tidemark.orchestration.kafka_login import settings_of_trigger
from tidemark.pipeline.exports import is_complete
from tidemark.settings import Settings

#: Seconds between two looks at the export.
_POLL = 60.0


class ExportTrigger(BaseTrigger):
    """Ends when the export of an hour is complete, when it can no longer be, or when ``until`` (ISO 8601) has come: its
    task then looks for itself, and says which. The feed file is read at each look, so that it may be mended meanwhile."""

    def __init__(self, *, feed: str, hour: str, until: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.feed, self.hour, self.until = feed, hour, until

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """What the triggerer makes the same trigger of."""
        return f"{__name__}.ExportTrigger", {"feed": self.feed, "hour": self.hour, "until": self.until}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """The one event, which says until when the task may wait."""
        end, said = datetime.fromisoformat(self.until), ""
        while datetime.now(UTC) < end:
            try:
                feed = find_feed(self.feed, Settings())
                settings = await settings_of_trigger(feed)
                readiness = await asyncio.to_thread(is_complete, feed, self.hour, settings)
            except TidemarkError:
                break  # the task meets it again
            if readiness.ready:
                break
            if readiness.why != said:
                said = readiness.why
                self.log.info("waits until %s: %s", self.until, said)
            await asyncio.sleep(min(_POLL, max(0.0, (end - datetime.now(UTC)).total_seconds())))
        yield TriggerEvent(self.until)  # type: ignore[no-untyped-call]
