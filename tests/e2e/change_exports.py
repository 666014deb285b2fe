"""Feeds of a few hours, written change by change, for tests that choose what lands when."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.convergence.histories import ROOM, Unit
from tests.convergence.oracle import Change
from tests.convergence.wire import Format, Sent
from tidemark.cli import app
from tidemark.feeds.model import Feed
from tidemark.ledger.receipts import Receipt
from tidemark.operations.read_table import json_lines, read_snapshot
from tidemark.pipeline.hour import run_hour
from tidemark.settings import Settings
from tidemark_samples.exporting import Message, write_export, write_feed

HOURS = [f"2026-11-20T{hour:02}" for hour in range(8)]


class Exports:
    """A feed, the hours that were written for it, and what it shows."""

    def __init__(self, format_: Format, out: Path, settings: Settings, name: str, **keys: Any) -> None:
        self.format, self.out, self.settings, self.name, self.offset = format_, out, settings, name, 0
        self.feed = Feed.model_validate(format_.feed(name, str(out)) | keys)
        write_feed(out / "feeds", format_.feed(name, str(out)) | keys)

    def run(self, hour: str, sent: list[Sent], policy: str | None = None) -> Receipt:
        """Write an hour's export and run it; with ``policy`` for what is overdue by then."""
        sent = [*getattr(self.format.encoder, "every_hour", list)(), *sent]
        for topic in self.feed.topics:
            mine = []
            for one in (one for one in sent if one.topic == topic):
                self.offset += 1
                message = Message(
                    topic=topic, partition=0, offset=self.offset, sent_at=datetime(2026, 11, 20), key=one.key,
                    value=one.value, headers=one.headers,
                )  # fmt: skip
                mine.append(message)
            write_export(self.out, topic, hour, [mine] if mine else [], self.format.container)
        feed = self.feed
        if policy:
            feed = feed.model_copy(update={"transactions": feed.transactions.model_copy(update={"overdue": policy})})
        return run_hour(feed, hour, self.settings)

    def rows(self, table: str, hour: str | None = None) -> dict[int, tuple[int, str | None]]:
        """id → (n, big) at an hour's cut, or now."""
        rows, key = read_snapshot(self.settings, f"{self.name}.{table}", hour)
        return {row["id"]: (row["n"], row["big"]) for row in map(json.loads, json_lines(rows, key))}

    def held(self, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
        """What the command prints: (transaction, since, changes, tables, missing)."""
        monkeypatch.setenv("TIDEMARK_HOME", str(self.settings.home))
        monkeypatch.setenv("TIDEMARK_FEEDS", str(self.out / "feeds"))
        printed = CliRunner().invoke(app, ["held", self.name]).output
        return [line.split("\t") for line in printed.splitlines()[1:]]


def change(table: str, unit: int, offset: int, op: str, id_: int, absent: frozenset[str] = frozenset()) -> Change:
    """A change of the row ``id_`` (in ``b``: and 7); its values name the position in the source's order."""
    at, key = unit * ROOM + offset, (id_, 7) if table == "b" else (id_,)
    names = dict(zip(("id", "no"), key, strict=False)) | {"n": at, "s": f"s{at}", "big": f"b{at}"}
    return Change(table, at, op, key, frozenset((n, v) for n, v in names.items() if n not in absent), absent)


def unit(number: int, *changes: Change, together: bool = True) -> Unit:
    """One transaction, or changes by themselves."""
    # these choices give an IBM transaction a segment for each change, and a DataWorks update one message
    return Unit(number, tuple((one,) for one in changes), together, "commit", (1,), (0,))
