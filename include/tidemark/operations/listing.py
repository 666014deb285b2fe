"""A listing: a table for people, on the command line and on the page in Airflow, and objects for programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

#: What a listing says in one line.
Row: TypeAlias = list[str | int | None]


@dataclass(frozen=True)
class Listing:
    """A table for people, and objects for programs. Cells may hold text that came from messages: what shows them must escape
    them."""

    title: str
    """One line above the table."""
    head: list[str]
    """The columns' names; with ``_`` for spaces they are those of an object."""
    rows: list[Row]
    """Its lines, each with a cell for every column. None: the cell is empty."""

    @property
    def cells(self) -> list[list[str]]:
        """The rows as texts."""
        return [["" if cell is None else str(cell) for cell in row] for row in self.rows]

    @property
    def objects(self) -> list[dict[str, str | int | None]]:
        """The rows as objects."""
        names = [name.replace(" ", "_") for name in self.head]
        return [dict(zip(names, row, strict=True)) for row in self.rows]
