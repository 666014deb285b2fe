"""What happened at a made-up source, for the generators: what it sent, what that does to its tables, when it arrived.

A :class:`Deed` is what shows whole or not at all: a transaction, a statement, or one change. Deeds stand in the
source's order.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tidemark.hours import parse_hour
from tidemark.samples.exporting import Message, write_export, write_truth

Row = dict[str, Any]
Key = tuple[Any, ...]
#: Tables by name, rows by key.
State = dict[str, dict[Key, Row]]


@dataclass(frozen=True)
class Effect:
    """What a deed does to a table: ``row`` put under ``key``; without one, the row under it goes; without a key too,
    all rows go. ``renamed``: a column's old and new name; ``added``: a new column, null in every row."""

    table: str
    key: Key | None = None
    row: Row | None = None
    renamed: tuple[str, str] | None = None
    added: str | None = None

    def apply(self, state: State) -> None:
        """Do it."""
        rows = state[self.table]
        if self.renamed:
            old, new = self.renamed
            state[self.table] = {
                key: {new if name == old else name: value for name, value in row.items()} for key, row in rows.items()
            }
        elif self.added:
            state[self.table] = {key: row | {self.added: None} for key, row in rows.items()}
        elif self.key is None:
            rows.clear()
        elif self.row is None:
            rows.pop(self.key, None)
        else:
            rows[self.key] = dict(self.row)


@dataclass(frozen=True)
class Deed:
    """``sent``: messages with the time of their arrival. ``counts``: false for what was taken back or never ended."""

    sent: list[tuple[datetime, bytes]]
    effects: list[Effect] = field(default_factory=list)
    counts: bool = True

    @property
    def over(self) -> datetime:
        """When the last of it arrived."""
        return max(at for at, _ in self.sent)


def state_at(deeds: Iterable[Deed], tables: Iterable[str], cut: datetime) -> State:
    """The tables after every deed that was whole before the cut."""
    state: State = {table: {} for table in tables}
    for deed in deeds:
        if deed.counts and deed.over < cut:
            for effect in deed.effects:
                effect.apply(state)
    return state


def redelivered(deeds: Sequence[Deed], chance: random.Random, share: float) -> list[Deed]:
    """Some deeds a second time, all of their messages: at once, minutes later, or in the next hour."""
    again = []
    for deed in deeds:
        in_one_hour = len({at.replace(minute=0, second=0, microsecond=0) for at, _ in deed.sent}) == 1
        if deed.counts and in_one_hour and chance.random() < share:
            later = timedelta(seconds=chance.choice((0, 1, 300, 3600)))
            again.append(Deed([(at + later, value) for at, value in deed.sent]))
    return again


def write_hours(
    out: Path,
    names: Sequence[str],
    topic: str,
    deeds: Sequence[Deed],
    again: Sequence[Deed],
    tables: Mapping[str, Sequence[str]],
    chance: random.Random,
    *,
    poison: Sequence[bytes],
    container: str,
) -> None:
    """Exports and truth of hours (``names``), one after the other. What arrives after the last is not written.

    ``tables``: those there are, with their key (none: rows in any order). ``again``: redelivered deeds. ``poison`` comes
    in the second hour, spread. An hour lies in three objects whose names say nothing of their order.
    """
    sent = sorted(((at, value) for deed in [*deeds, *again] for at, value in deed.sent), key=lambda pair: pair[0])
    offset = 0
    for number, name in enumerate(names):
        start = parse_hour(name).replace(tzinfo=None)
        end = start + timedelta(hours=1)
        mine = [(at, value) for at, value in sent if start <= at < end]
        if number == min(1, len(names) - 1):
            for value in poison:
                place = chance.randrange(len(mine) + 1)
                mine.insert(place, (mine[place - 1][0] if mine else start, value))
        messages = [Message(topic, 0, offset + index, at, None, value) for index, (at, value) in enumerate(mine)]
        offset += len(messages)
        third = -(-len(messages) // 3) or 1
        objects = [messages[i : i + third] for i in range(0, len(messages), third)]
        chance.shuffle(objects)
        write_export(out / "exports", topic, name, objects, container)
        state = state_at(deeds, tables, end)
        write_truth(out / "truth", name, {table: _in_order(state[table], key) for table, key in tables.items()})


def _in_order(rows: dict[Key, Row], key: Sequence[str]) -> list[Row]:
    if not key:
        return list(rows.values())
    return sorted(rows.values(), key=lambda row: [row[name] for name in key])
