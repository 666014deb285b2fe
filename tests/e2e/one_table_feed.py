"""A Debezium feed of one table, ``items``, whose hours a test writes and runs one by one."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from tests.e2e.debezium_messages import COLUMNS, DEBEZIUM, Event
from tidemark.feeds.model import Feed
from tidemark.hours import Hour
from tidemark.ledger.receipts import Receipt
from tidemark.operations.read_table import json_lines, read_snapshot
from tidemark.pipeline.hour import run_hour
from tidemark.settings import Settings


class OneTableFeed:
    """Writes an hour's export and runs the hour: ``run(hour, events, **feed keys)``; None writes nothing more.

    ``table``: the published name, which a test may change together with the feed's keys.
    """

    def __init__(self, feed: str, exports: Path, settings: Settings) -> None:
        self.feed, self.table, self._exports, self._settings = feed, f"{feed}.items", exports, settings

    def __call__(self, hour: Hour, events: list[Event | str | bytes] | None, **changes: Any) -> Receipt:
        return run_hour(self.export(hour, events, **changes), hour, self._settings)

    def export(self, hour: Hour, events: list[Event | str | bytes] | None, **changes: Any) -> Feed:
        """Write an hour's export; the feed that reads it."""
        folder = self._exports / f"t/dt={hour.date}/hr={hour.clock}"
        folder.mkdir(parents=True, exist_ok=True)
        if events is not None:
            lines = [
                e if isinstance(e, bytes) else (e if isinstance(e, str) else json.dumps(e)).encode() for e in events
            ]
            part = folder / f"part-{len(list(folder.iterdir()))}.jsonl.gz"
            part.write_bytes(gzip.compress(b"\n".join(lines) + b"\n"))
        return self.definition(**changes)

    def definition(self, **changes: Any) -> Feed:
        """The feed, with other keys."""
        table = {"name": self.table, "columns": COLUMNS} | changes.pop("table", {})
        return Feed.model_validate(
            {
                "feed": self.feed, "description": "d", "owner": "o", "topics": ["t"],
                "exports": {"path": f"{self._exports}/{{topic}}/dt={{date}}/hr={{hour}}/*", "marker": None,
                            "settle": "0s"},
                "container": {"type": "kafka_json"}, **DEBEZIUM, "tables": {"s.items": table}, **changes,
            }
        )  # fmt: skip


def rows(settings: Settings, run: OneTableFeed, as_of: str | None = None) -> list[Event]:
    """What ``show`` gives of the table."""
    table, key = read_snapshot(settings, run.table, as_of)
    return [json.loads(line) for line in json_lines(table, key)]
