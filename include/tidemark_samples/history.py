"""The history of a made-up source, for the generators: its messages, when they arrived, and their effect on its tables.

A :class:`Step` is published whole or not at all: a transaction, a statement, or one change. Steps are in the source's
order.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from tidemark.hours import Hour
from tidemark_samples.drawing import Key, Row
from tidemark_samples.exporting import Message, write_export, write_truth

#: Tables by name, rows by key.
State = Mapping[str, MutableMapping[Key, Row]]


@dataclass(frozen=True, kw_only=True)
class Effect:
    """The effect of a step on a table."""

    table: str
    """The table's name."""
    key: Key | None = None
    """The key under which the row is stored, or deleted; None: all rows are deleted, unless a column changes."""
    row: Row | None = None
    """The row as it is then; None: the row of the key is deleted."""
    renamed: tuple[str, str] | None = None
    """A column's old and new name; None: none is renamed."""
    added: str | None = None
    """The name of a new column, null in every row; None: none is added."""

    def apply(self, state: State) -> None:
        """Change the state."""
        rows = state[self.table]
        if self.renamed:
            old, new = self.renamed
            for key, row in rows.items():
                rows[key] = {new if name == old else name: value for name, value in row.items()}
        elif self.added:
            for key, row in rows.items():
                rows[key] = row | {self.added: None}
        elif self.key is None:
            rows.clear()
        elif self.row is None:
            rows.pop(self.key, None)
        else:
            rows[self.key] = dict(self.row)


@dataclass(frozen=True)
class Step:
    """Something that is published whole or not at all."""

    sent: list[tuple[datetime, bytes]]
    """Its messages, each with the time of its arrival in naive UTC."""
    effects: list[Effect] = field(default_factory=list)
    """What it does to the tables, in its order."""
    counts: bool = True
    """False for a step that was rolled back or never ended."""

    @property
    def over(self) -> datetime:
        """When the last of its messages arrived."""
        return max(at for at, _ in self.sent)


def state_at(steps: Iterable[Step], tables: Iterable[str], cut: datetime) -> State:
    """The tables after every step that was complete before the cut."""
    state: dict[str, MutableMapping[Key, Row]] = {table: {} for table in tables}
    for step in steps:
        if step.counts and step.over < cut:
            for effect in step.effects:
                effect.apply(state)
    return state


def redelivered(steps: Sequence[Step], chance: random.Random, share: float) -> list[Step]:
    """Some steps a second time, all of their messages: at once, minutes later, or in the next hour."""
    again = []
    for step in steps:
        in_one_hour = len({at.replace(minute=0, second=0, microsecond=0) for at, _ in step.sent}) == 1
        if step.counts and in_one_hour and chance.random() < share:
            later = timedelta(seconds=chance.choice((0, 1, 300, 3600)))
            again.append(Step([(at + later, value) for at, value in step.sent]))
    return again


@dataclass(frozen=True, kw_only=True)
class History:
    """All that happened at a source and was sent to one topic."""

    topic: str
    """The topic's name."""
    tables: Mapping[str, Sequence[str]]
    """All tables with their key; empty: the table has none, and its rows are in any order."""
    steps: Sequence[Step]
    """What happened, in the source's order."""
    again: Sequence[Step]
    """Steps that are delivered a second time."""
    poison: Sequence[bytes]
    """Records that cannot be decoded. They come in the second hour, spread, and in no step: one that stood in a transaction
    would hold it."""


def write_hours(out: Path, names: Sequence[str], history: History, chance: random.Random, container: str) -> None:
    """Write exports and truth of hours (``names``), one after the other. Messages after the last hour are left out.

    An hour is written as three objects whose names do not show their order.
    """
    steps = [*history.steps, *history.again]
    numbered = (
        (at, value, n == 0, n == len(step.sent) - 1) for step in steps for n, (at, value) in enumerate(step.sent)
    )
    sent = sorted(numbered, key=lambda one: one[0])
    offset = 0
    for number, name in enumerate(names):
        start = Hour.parse(name).start.replace(tzinfo=None)
        end = start + timedelta(hours=1)
        mine = [one for one in sent if start <= one[0] < end]
        if number == min(1, len(names) - 1):
            for value in history.poison:
                at = _between_steps(mine, chance.randrange(len(mine) + 1))
                mine.insert(at, (mine[at - 1][0] if mine else start, value, True, True))
        messages = [
            Message(topic=history.topic, partition=0, offset=offset + index, sent_at=at, key=None, value=value)
            for index, (at, value, *_) in enumerate(mine)
        ]
        offset += len(messages)
        third = -(-len(messages) // 3) or 1
        objects = [messages[i : i + third] for i in range(0, len(messages), third)]
        chance.shuffle(objects)
        write_export(out / "exports", history.topic, name, objects, container)
        state = state_at(history.steps, history.tables, end)
        truth = {table: _in_order(state[table], key) for table, key in history.tables.items()}
        write_truth(out / "truth", name, truth)


def _between_steps(sent: Sequence[tuple[datetime, bytes, bool, bool]], near: int) -> int:
    """The first place from ``near`` on, and then from the front, behind the last message of a step and before the first of
    another. ``sent``: moment, bytes, whether it is its step's first message, and its last."""
    places = [*range(near, len(sent) + 1), *range(near)]
    free = (p for p in places if (p == 0 or sent[p - 1][3]) and (p == len(sent) or sent[p][2]))
    return next(free, near)


def _in_order(rows: Mapping[Key, Row], key: Sequence[str]) -> list[Row]:
    if not key:
        return list(rows.values())
    return sorted(rows.values(), key=lambda row: [row[name] for name in key])
