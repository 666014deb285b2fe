"""The made-up shop: its tables, random rows for them, and the effect of a change, with and without a key."""

from __future__ import annotations

import random
from collections.abc import MutableMapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from tidemark_samples.drawing import Key, Row

#: Each connector's tables: columns with their PostgreSQL types, and the key (none: REPLICA IDENTITY FULL).
TABLES: dict[str, dict[str, tuple[dict[str, str], tuple[str, ...]]]] = {
    "web": {
        "store.customers": (
            {
                "id": "bigint", "name": "text", "balance": "numeric(14,2)", "since": "timestamptz",
                "active": "boolean", "notes": "text", "tags": "text[]",
            },
            ("id",),
        ),
        "store.visits": ({"page": "text", "seconds": "integer", "at": "timestamptz"}, ()),
    },
    "depot": {
        "stock.items": (
            {
                "site": "text", "sku": "text", "price": "numeric(12,4)", "quantity": "integer", "counted": "timestamp",
                "best_before": "date", "picture": "bytea", "manual": "text",
            },
            ("site", "sku"),
        ),
        "stock.moves": ({"id": "bigint", "sku": "text", "weight": "double precision", "moved": "timestamp"}, ("id",)),
    },
}  # fmt: skip
#: Large values: an update that leaves them alone does not have them in the log.
LARGE = {"notes", "manual", "picture"}
_TEXTS = ("", "plain", 'she said "no"', "two\nlines", "Zoë", "日本語", "{not json}", "} {", "back\\slash", " blanks ")

State = dict[str, MutableMapping[Key, Row]]


@dataclass
class Change:
    """A change as the truth takes it."""

    table: str
    """The name of the table at the source: schema.table."""
    key: Key | None
    """The row's key. None: the row is of a table without a key; where there is no row either, all rows are deleted."""
    row: Row | None
    """The row as it is then; None: it is deleted."""
    copies: int = 1
    """Of a table without a key: how many of these rows come, or go where it is negative."""


_COPIES = "(copies)"


def shown(row: Row) -> list[Row]:
    """A row as the truth lists it, once for each copy."""
    return [{name: value for name, value in row.items() if name != _COPIES}] * row.get(_COPIES, 1)


def apply(rows: MutableMapping[Key, Row], change: Change) -> None:
    """Make a change in a table's rows. Rows without a key are stored under their values, with their number of copies."""
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


def made_row(pick: random.Random, columns: dict[str, str], key: tuple[str, ...], number: int) -> Row:
    """A random row; ``number`` makes its key distinct."""
    at = datetime(2026, 11, 20) + timedelta(microseconds=pick.randrange(10**11))
    values: dict[str, Any] = {
        "text": lambda: pick.choice(_TEXTS), "integer": lambda: pick.randint(-(2**31), 2**31 - 1),
        "bigint": lambda: pick.randint(0, 2**62), "boolean": lambda: pick.random() < 0.5,
        "double precision": lambda: round(pick.uniform(-9, 9), 5), "bytea": lambda: pick.randbytes(9),
        "date": lambda: date(1950, 1, 1) + timedelta(pick.randrange(36_000)), "timestamp": lambda: at,
        "timestamptz": lambda: at.replace(tzinfo=UTC), "text[]": lambda: pick.choices(_TEXTS, k=pick.randint(0, 3)),
        "numeric(14,2)": lambda: Decimal(pick.randrange(-(10**13), 10**13)).scaleb(-2),
        "numeric(12,4)": lambda: Decimal(pick.randrange(-(10**11), 10**11)).scaleb(-4),
    }  # fmt: skip
    row = {n: None if n not in key and pick.random() < 0.1 else values[k]() for n, k in columns.items()}
    row |= {"sku": f"{number:06}"} if "sku" in key else {"id": number} if "id" in key else {}
    return row
