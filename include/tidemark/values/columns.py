"""How the text of a column in a message becomes a value of the table.

Formats describe columns in their source's types; they come out as a :class:`ColumnType`: the Spark type of the
published column, and the encoding of its text in messages (a name in :mod:`tidemark.values.encodings`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class ColumnType:
    """What a column is in the table, and how its text in messages becomes that."""

    spark: str
    """Spark's name of the published type, as in SQL: ``decimal(14,2)``."""
    encoding: str = "plain"
    """How messages write the values: a name in :mod:`tidemark.values.encodings`, or one of the format's own."""
    arg: str | None = None
    """What the encoding must know besides: a scale, a zone, a decimal character. None: nothing."""
    of_message: bool = False
    """Of a declared type: its encoding reads what messages hold, whatever type they say they have."""


@dataclass(frozen=True)
class Reading:
    """How a column's texts were read, and who said so."""

    kind: ColumnType
    """The type, with the encoding by which they were read."""
    by: Literal["feed", "source", "nobody"]
    """Who said it: the ``feed`` file, the ``source`` (messages or statements), or ``nobody``: it holds what was sent."""


def add_in_order(listed: list[str], names: Sequence[str]) -> None:
    """Add columns, in the order of their source, to a list in another order: each after the column that it follows.

    Of columns that follow the same one in different lists, the first by name comes first, so that the order of the
    lists hardly matters. A list that has no column in common with the others goes to the end.
    """
    mine = set(names)
    if mine <= set(listed):
        return
    at = next((listed.index(name) for name in names if name in listed), len(listed))
    for name in names:
        if name not in listed:
            while at < len(listed) and listed[at] not in mine and listed[at] < name:
                at += 1
            listed.insert(at, name)
        at = listed.index(name) + 1
