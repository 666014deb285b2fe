"""The statements of a feed's stream, each under the tables that it concerns, in the source's order. Pure.

Mostly that is the table the source names it for. A swap (a changed copy takes a table's place) concerns the table: what was
stated of the copy since it was made is stated of the table, at the place of the swap. A swap that is sent again says what it
said the first time: the statements about its copy ran hours before it, and may not be sent again with it. A rename concerns
every table whose name it takes or gives: a message names but one of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from tidemark.feeds.model import Feed
from tidemark.formats import load_format
from tidemark.formats.contract import SchemaEntry, TellsTableChanges
from tidemark.values.table_changes import TableChange, TableName, TableRenamed, UnsentRows


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A statement about one table."""

    source_table: str
    """The source's table that it concerns."""
    position: str
    """Its place in the source's order. Of what was stated of a copy that takes the table's place: where it does so."""
    change: TableChange | None
    """What it changes. None: nothing that matters, or it cannot be understood."""
    problem: str | None
    """Why it cannot be understood, for a person. None: it can."""
    said_by: frozenset[tuple[str, str]]
    """The entries that it comes from, as (source's table, position)."""
    partition: int | None = None
    """The partition of its topic, where it is known: see :class:`tidemark.formats.contract.SharesMoments`."""
    unsent: bool = False
    """Whether it moves rows which messages do not send: that is why it cannot be followed."""


def statements(entries: Sequence[SchemaEntry], feed: Feed) -> list[Statement]:
    """Entries, in any order, as statements in the source's order."""
    found: list[Statement] = []
    of_copy: dict[str, list[Statement]] = {}
    of_swap: dict[tuple[str, str], list[Statement]] = {}
    known = {*feed.tables, *(entry.source_table for entry in entries)}
    for entry in sorted(entries, key=lambda entry: (entry.position, entry.source_table, entry.text)):
        for said in _read(entry, feed, known):
            if said.change is None or said.change.swapped is None:
                found.append(said)
                if said.change is not None and said.change.created:
                    of_copy[said.source_table] = []
                of_copy.setdefault(said.source_table, []).append(said)
                continue
            copy, table = (_in_feed(name, entry, known) for name in said.change.swapped)
            stated = of_copy.pop(copy, [])
            if said.change.known_by is not None:
                stated = of_swap.setdefault((entry.source_table, said.change.known_by), stated)
            found += [
                replace(
                    s,
                    source_table=table,
                    position=entry.position,
                    partition=entry.partition,
                    said_by=s.said_by | said.said_by,
                )
                for s in stated
            ]
    return found


def _read(entry: SchemaEntry, feed: Feed, known: Collection[str]) -> Iterator[Statement]:
    format_ = load_format(feed.format["type"])
    assert isinstance(format_, TellsTableChanges), "a schema entry of a format that gives none"
    said_by = frozenset({(entry.source_table, entry.position)})
    try:
        change = format_.table_change(entry.text, feed.format_options)
        yield Statement(
            source_table=entry.source_table, position=entry.position, change=change, problem=None, said_by=said_by,
            partition=entry.partition,
        )  # fmt: skip
    except ValueError as error:
        names = error.tables if isinstance(error, TableRenamed) else ()
        for table in sorted({entry.source_table, *(_in_feed(name, entry, known) for name in names if name[1])}):
            yield Statement(
                source_table=table, position=entry.position, change=None, problem=str(error), said_by=said_by,
                unsent=isinstance(error, UnsentRows),
            )  # fmt: skip


def _in_feed(name: TableName, entry: SchemaEntry, known: Collection[str]) -> str:
    """A table that a statement names, as messages do: it may name as much of it as is not in use, and in any case, where the
    database folds names. ``known``: tables of the feed."""
    own = [part for part in name if part]
    full = ".".join([*entry.source_table.split(".")[: -len(own)], *own])
    same = [table for table in known if table.lower() == full.lower()]
    return full if full in known or not same else min(same)
