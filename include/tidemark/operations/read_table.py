"""A published table's rows for people and programs, read without Spark."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysFalse, And, BooleanExpression, EqualTo, Or
from pyiceberg.table import Table as IcebergTable

from tidemark.errors import ConfigError
from tidemark.feeds.problems import nearest
from tidemark.hours import Hour
from tidemark.identifiers import TIDEMARK, is_published_name
from tidemark.lake.catalog import find_table, read_rows, reading
from tidemark.lake.lake_marker import check_lake
from tidemark.lake.stored_formats import parse_document
from tidemark.ledger.publication_history import PublicationHistory
from tidemark.ledger.receipts import Receipt
from tidemark.operations.reports import newest_receipts
from tidemark.operations.shown_values import counted, shown
from tidemark.settings import Settings
from tidemark.storage.retry import retry

#: Types of keys that Arrow sorts as :func:`_sorted` does.
_SORTED_ALIKE = (pa.types.is_integer, pa.types.is_decimal, pa.types.is_string, pa.types.is_large_string)


def read_first_rows(
    settings: Settings, table: str, limit: int, as_of: str | None = None
) -> tuple[pa.Table, list[str], int]:
    """The first rows by key, and :func:`read_snapshot` otherwise; and how many rows there are. Of a table with a key the
    keys are read, and then these rows alone."""
    found, snapshot = _open(settings, table, as_of)
    key = json.loads(found.properties.get("tidemark.key", "[]"))
    if not key:
        rows, key = read_snapshot(settings, table, as_of)
        return rows, key, rows.num_rows
    with reading(table):
        keys = found.scan(snapshot_id=snapshot, selected_fields=tuple(key)).to_arrow()
        if not all(any(alike(field.type) for alike in _SORTED_ALIKE) for field in keys.schema):
            rows, key = read_snapshot(settings, table, as_of)
            return rows, key, rows.num_rows
        first = pc.select_k_unstable(keys, min(limit, keys.num_rows), [(name, "ascending") for name in key])
        chosen = keys.select(key).take(first).to_pylist()
        rows = found.scan(snapshot_id=snapshot, row_filter=_is_one_of(chosen)).to_arrow()
    return _source_columns(rows), key, keys.num_rows


def _is_one_of(keys: list[dict[str, Any]]) -> BooleanExpression:
    rows = [_all_of([EqualTo(term=name, value=value) for name, value in key.items()]) for key in keys]
    nothing: BooleanExpression = AlwaysFalse()
    return reduce(lambda one, other: Or(one, other), rows, nothing)


def _all_of(parts: Sequence[BooleanExpression]) -> BooleanExpression:
    return reduce(lambda one, other: And(one, other), parts)


@retry
def read_snapshot(settings: Settings, table: str, as_of: str | None = None) -> tuple[pa.Table, list[str]]:
    """(source columns of all rows, the key's columns) of a published table; at an hour's cut with ``as_of``.

    ConfigError names what there is when the table or the cut is missing.
    """
    found, snapshot = _open(settings, table, as_of)
    with reading(table):
        rows = found.scan(snapshot_id=snapshot).to_arrow()
    return _source_columns(rows), json.loads(found.properties.get("tidemark.key", "[]"))


def _open(settings: Settings, table: str, as_of: str | None) -> tuple[IcebergTable, int | None]:
    """A published table and which of its snapshots is meant (None: the current one)."""
    if not is_published_name(table.lower()):
        raise ConfigError(f"{table!r} is no table name", fix="write schema.table")
    hour = Hour.parse(as_of) if as_of is not None else None
    check_lake(settings)
    found = find_table(settings, *table.split(".", 1))
    if found is None:
        raise ConfigError(f"there is no published table {table}", fix=_which(settings, table))
    # A snapshot's own columns are those of before an hour that is in the making, but also those that it has retired since.
    evolved = "tidemark.schema-before" in found.properties
    snapshot = found.current_snapshot() if evolved else None
    if hour is not None:
        snapshot = found.snapshot_by_name(hour.tag)
        if snapshot is None:
            cuts = sorted(name.removeprefix("hour_") for name in found.metadata.refs if name.startswith("hour_"))
            raise _no_cut(table, hour, cuts)
    return found, snapshot.snapshot_id if snapshot is not None else None


def came_after_cut(settings: Settings, table: str, as_of: str) -> list[Hour]:
    """The hours up to this one that have brought changes of the table since the hour's cut was made: the cut stays as it
    was cited, without them."""
    history = _history_of(settings, table)
    return history.after_cut(as_of, table) if history else []


def reloaded_in(settings: Settings, table: str, hour: str) -> bool:
    """Whether a reload of the table began in the hour, as far as the hour's cut shows it."""
    history = _history_of(settings, table)
    if history is None:
        return False
    then = history.in_cut(hour).state
    return any(one.began == hour for source in then.table(table).sources for one in then.reloads.get(source, []))


def _history_of(settings: Settings, table: str) -> PublicationHistory | None:
    """What the feed has published that a table is of."""
    histories: dict[str, list[Receipt]] = {}
    for row in read_rows(settings, "tidemark", "receipts"):
        receipt = parse_document(Receipt, row["receipt"])
        histories.setdefault(receipt.feed, []).append(receipt)
    found = (PublicationHistory(sorted(listed, key=lambda r: r.sequence)) for listed in histories.values())
    return next((history for history in found if table in history.tables), None)


def _which(settings: Settings, table: str) -> str:
    """Which published table somebody may mean who writes this name: names are exact, and mostly small letters."""
    published = {of.table for receipt in newest_receipts(settings) for of in receipt.tables}
    return nearest(table, published) or "`tidemark receipts --tables` lists what is published"


def _source_columns(rows: pa.Table) -> pa.Table:
    return rows.drop_columns([TIDEMARK])


def _no_cut(table: str, hour: str, cuts: list[str]) -> ConfigError:
    have = ", ".join(cuts[-5:]).replace("_", "-") or "none"
    return ConfigError(f"{table} has no cut of {hour}", fix=f"its newest cuts: {have}")


def json_lines(rows: pa.Table, key: list[str]) -> Iterator[str]:
    """One row per line, sorted by key (without one: by all columns), columns by source name.

    Decimals as text, timestamps ISO-8601, binary base64; a float with the fewest digits that say which one it is. A year
    beyond those of Python (1 to 9999) has its sign: ``+12026-11-20``. Programs depend on it.
    """
    for row in _sorted(rows, key):
        yield json.dumps(row, default=_plain, ensure_ascii=False, allow_nan=True)


def _sorted(rows: pa.Table, key: list[str]) -> list[dict[str, Any]]:
    stored = rows.cast(pa.schema([field.with_type(counted(field.type)) for field in rows.schema])).to_pylist()
    names = key or rows.column_names

    def order(row: dict[str, Any]) -> list[tuple[bool, Any]]:
        # a list (an array column of a table without a key) is ordered as its text
        values = (row[name] for name in names)
        return [(v is not None, repr(v) if isinstance(v, list | dict | float) else v) for v in values]

    kinds = {field.name: field.type for field in rows.schema}
    return [{name: shown(value, kinds[name]) for name, value in row.items()} for row in sorted(stored, key=order)]


def _plain(value: object) -> str:
    """What JSON has no form for."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} has no JSON form here")


def table_cells(rows: pa.Table, key: list[str], limit: int) -> Iterator[list[str]]:
    """The first rows by key as short texts for a terminal."""
    for row in _sorted(rows, key)[:limit]:
        yield ["·" if value is None else _short(value) for value in row.values()]


def _short(value: object, width: int = 40) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=_plain, ensure_ascii=False).strip('"')
    text = "".join(c if c.isprintable() else "␣" for c in text)
    return text if len(text) <= width else text[: width - 1] + "…"
