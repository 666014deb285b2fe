"""Debezium PostgreSQL's messages of a unit: a topic per table and one of transaction metadata, no message schemas."""

from __future__ import annotations

import json
from typing import Any

from tests.convergence.histories import KEYLESS, KEYS, ROOM, Traits, Unit
from tests.convergence.oracle import Change, Message
from tests.convergence.wire import Sent, key_row, name_of, prior_row, row
from tidemark_samples.debezium_wire import UNAVAILABLE

_NONE, _S, _BIG = frozenset[str](), frozenset({"s"}), frozenset({"big"})
TRAITS = Traits(absent=(_BIG, _S, _S | _BIG, _NONE), loads="here", split_moves=True, alters=("add", "drop"))
_META = "srv.transaction"
_TABLES = (*KEYS, KEYLESS)
TOPICS = (*(f"srv.c.{table}" for table in _TABLES), _META)
_OPS = {"insert": "c", "update": "u", "delete": "d", "truncate": "t"}


def feed(name: str) -> dict[str, Any]:
    """The rest of the feed file."""
    columns = {"id": "bigint", "n": "bigint", "s": "text", "big": "text"}
    tables = {
        f"c.{table}": {
            "name": f"{name}.{table}",
            "columns": columns if table != "b" else {"id": "bigint", "no": "bigint"} | columns,
        }
        for table in _TABLES
    }
    return {"format": {"type": "debezium", "decimals": "string", "transactions": _META}, "tables": tables}


def encode(unit: Unit) -> list[Sent]:
    """In the order of the log. Half of the long transactions began early: their LSNs lie before those of others. Columns
    that come and go are not told: rows have them or have not."""
    if unit.deeds[0][0].op == "alter":
        return []
    sent: list[Sent] = []
    events = [change for deed in unit.deeds for change in deed]
    # Rows that a snapshot read again are in no transaction. Rows without a key are: nothing else tells a row that comes
    # again at once from its twin.
    marked = [c for c in events if (unit.together or c.table == KEYLESS) and not _loaded(c, unit)]
    tx = name_of(unit, "tx") if marked else None
    begun = unit.number - (700 if unit.choice(0, 2) and unit.number > 2000 else 0)
    order = 0
    if tx:
        body = {"status": "BEGIN", "id": f"{unit.number}:{_lsn(begun, 1)}", "event_count": None}
        sent.append(Sent(Message(name_of(unit, "begin"), tx=tx), _META, _dumps(body), needed=False))
    for index, change in enumerate(events):
        own = tx if change in marked else None
        order += own is not None
        says = Message(name_of(unit, index), (change,), own)
        lsn = _lsn(begun, change.position % ROOM)
        key = None if change.table == KEYLESS or change.op == "truncate" else _dumps(key_row(change))
        value = _dumps(_event(unit, change, lsn, order if own else None))
        # Kafka spreads messages without a key.
        spread = change.table == KEYLESS
        sent.append(Sent(says, f"srv.c.{change.table}", value, key, _headers(change, events), spread=spread))
        if change.op == "delete":
            sent.append(Sent(Message(name_of(unit, f"{index}.tombstone")), f"srv.c.{change.table}", None, key))
    if tx and unit.ending == "commit":
        body = {"status": "END", "id": f"{unit.number}:{_lsn(begun, 99)}", "event_count": order}
        sent.append(Sent(Message(name_of(unit, "end"), tx=tx), _META, _dumps(body)))
    elif tx:
        sent.append(Sent(Message(name_of(unit, "never"), tx=tx), "", None))
    return sent


def _loaded(change: Change, unit: Unit) -> bool:
    """Whether an insert is a row that a snapshot read."""
    return (
        change.op == "insert"
        and change.prior is None
        and change.table != KEYLESS
        and unit.choice(change.position, 3) == 0
    )


def _lsn(number: int, offset: int) -> int:
    return number * ROOM + offset


def _event(unit: Unit, change: Change, lsn: int, order: int | None) -> dict[str, Any]:
    # The commit before this transaction's own: what orders it among those it was interleaved with.
    before = unit.number * ROOM
    read = order is None and _loaded(change, unit)
    sequence: list[str | None] = [str(before), str(lsn)]
    marks: dict[str, Any] = {"txId": None if read else unit.number, "lsn": None if read else lsn}
    if read and len(unit.deeds) == 1 and unit.choice(1, 2):  # a second snapshot, in the middle of the tables' life
        taken = _lsn(unit.number, change.position % ROOM)
        sequence, marks = [None, str(taken)], {"txId": unit.number, "lsn": taken, "snapshot": "true"}
    source = {
        "ts_ms": 1795132800000, "sequence": json.dumps(sequence), "schema": "c", "table": change.table, **marks,
    }  # fmt: skip
    # A column that the source's table did not have then is null, and not named.
    named = {name: value for name, value in row(change).items() if value is not None or change.position % 2}
    after = named | dict.fromkeys(change.absent, UNAVAILABLE)
    return {
        "before": dict(change.taken) if change.taken is not None else None,
        "after": after if change.op in ("insert", "update") else None,
        "source": source,
        "op": "r" if read else _OPS[change.op],
        "transaction": None if order is None else {"id": f"{unit.number}:{lsn}", "total_order": order},
    }


def _headers(change: Change, events: list[Change]) -> tuple[tuple[str, str], ...]:
    if change.prior is not None:
        return (("__debezium.oldkey", json.dumps(prior_row(change))),)
    moved = [e for e in events if e.prior == change.key and (e.table, e.position) == (change.table, change.position)]
    return (("__debezium.newkey", json.dumps(key_row(moved[0]))),) if change.op == "delete" and moved else ()


def _dumps(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode()
