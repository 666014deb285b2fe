"""The recorded source database's final rows, and how they compare with what ``tidemark show`` prints."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

SAMPLES = Path(__file__).parent.parent.parent / "samples/debezium"
KEYS = {
    "customers": ["id"],
    "orders": ["id"],
    "order_items": ["order_id", "line_no"],
    "documents": ["doc_id"],
    "accounts": ["id"],
}
Row = dict[str, Any]


def _same(value: Any) -> Any:
    return value


def _moment(value: str) -> datetime:
    return datetime.fromisoformat(value)


def _float32(value: Any) -> bytes:
    # PostgreSQL's JSON of negative zero is -0, which JSON readers take for an integer
    return struct.pack("f", float(value) + 0.0)


def _bytes(value: str) -> bytes:
    return bytes.fromhex(value[2:]) if value.startswith("\\x") else base64.b64decode(value)


def _json(value: Any) -> Any:
    return json.loads(value, parse_float=Decimal) if isinstance(value, str) else value


#: Column → what makes PostgreSQL's JSON of a value and ours comparable. Not named: equal as they are.
_COMPARABLE: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("balance", "rate", "total", "price", "amount"), lambda value: Decimal(str(value))),
    **dict.fromkeys(("created_at", "updated_at", "seen_at", "placed_at", "at"), _moment),
    **dict.fromkeys(("avatar", "blob"), _bytes),
    **dict.fromkeys(("prefs", "meta", "detail"), _json),
    "ratio": _float32,
    "score": lambda value: repr(float(value) + 0.0),
}


def comparable(row: Row) -> Row:
    """A row of either side in comparable values."""
    return {name: None if v is None else _COMPARABLE.get(name, _same)(v) for name, v in row.items()}


def truth(table: str) -> list[Row]:
    """The database's final rows."""
    text = (SAMPLES / f"truth/{table}.jsonl").read_text()
    return [comparable(json.loads(line, parse_float=Decimal)) for line in text.splitlines()]


def gaps(variant: str, table: str) -> dict[tuple[str, str], Any]:
    """(key, column) → the value a reader gets instead, for cells that are not in the events. ``nums`` of C is."""
    known = json.loads((SAMPLES / "truth/known_gaps.json").read_text(), parse_float=Decimal)
    return {
        (json.dumps(gap["key"], sort_keys=True), gap["column"]): gap["replayed"]
        for gap in known
        if (gap["variant"], gap["table"]) == (variant, table) and not (variant == "C" and gap["column"] == "nums")
    }


def findings(shown: list[Row], variant: str, table: str) -> list[str]:
    """What differs, cell by cell, but for the known gaps."""

    def key(row: Row) -> str:
        return json.dumps({name: row[name] for name in KEYS[table]}, sort_keys=True)

    want, have = {key(r): r for r in truth(table)}, {key(r): comparable(r) for r in shown}
    known = gaps(variant, table)
    found = [f"row {k} is missing" for k in want.keys() - have.keys()]
    found += [f"row {k} should not be there" for k in have.keys() - want.keys()]
    for k in want.keys() & have.keys():
        for column in want[k].keys() | have[k].keys():
            expected, got = want[k].get(column, "no column"), have[k].get(column, "no column")
            if expected != got and (k, column) not in known:
                found.append(f"row {k} column {column}: {got!r} instead of {expected!r}")
    return found
