"""The rows of the made-up shop: what a change makes of a table, with and without a key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
Key = tuple[Any, ...]
State = dict[str, dict[Key, Row]]


@dataclass
class Change:
    """A change as the truth takes it. ``row`` None: the row goes; ``key`` None: all rows go, or one copy of ``row``."""

    table: str
    key: Key | None
    row: Row | None
    copies: int = 1


_COPIES = "(copies)"


def shown(row: Row) -> list[Row]:
    """A row as the truth has it, as many times as there are copies."""
    return [{name: value for name, value in row.items() if name != _COPIES}] * row.get(_COPIES, 1)


def apply(rows: dict[Key, Row], change: Change) -> None:
    """Make a change in a table's rows. Rows without a key stand under their values, with how many copies there are."""
    if change.key is not None:
        rows.pop(change.key, None)
        if change.row is not None:
            rows[change.key] = change.row
    elif change.row is None:
        rows.clear()
    else:
        # In the order `tidemark show` has for a table without a key: by all columns, nulls first.
        image = tuple((v is not None, v) for v in change.row.values())
        copies = rows.get(image, {}).get(_COPIES, 0) + change.copies
        rows.pop(image, None)
        if copies:
            rows[image] = change.row | {_COPIES: copies}
