"""DataWorks' messages of a unit: markers around a transaction's rows, which only their order ties to them."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from tests.convergence.canal import statement
from tests.convergence.histories import KEYS, POOL, ROOM, Deed, Traits, Unit
from tests.convergence.oracle import Change, Message, is_broken
from tests.convergence.wire import Sent, key_row, name_of, prior_row, row

_N, _S, _BIG = frozenset({"n"}), frozenset({"s"}), frozenset({"big"})
TRAITS = Traits(
    absent=(_BIG, _S | _BIG, _N, frozenset()), partial_inserts=True, rollbacks=True, keyless=False, loads="here",
    alters=("add", "fill", "drop", "rename", "swap"), broken=True,
)  # fmt: skip
TOPICS = ("dataworks.c",)
_COLUMNS = {"id": "LONG", "n": "LONG", "s": "STRING", "big": "STRING"}
_OPS = {"insert": "INSERT", "update": "UPDATE_AFTER", "delete": "DELETE", "truncate": "TRUNCATE", "alter": "ALTER"}
_ENDS = {"commit": "TRANSACTION_END", "rollback": "XAROLLBACK"}


def feed(name: str) -> dict[str, Any]:
    """The rest of the feed file."""
    return {"format": {"type": "dataworks"}, "tables": {f"c.{table}": {"name": f"{name}.{table}"} for table in KEYS}}


def encode(unit: Unit) -> list[Sent]:
    """In the order of the stream. A whole update may come as a pair, which is a transaction of its own outside one."""
    tx = name_of(unit, "tx") if unit.together else None
    rows = [one for index, deed in enumerate(unit.deeds) for one in _row(unit, index, deed, tx)]
    if tx is None:
        return rows

    def marker(what: str, offset: int, own: str | None) -> Sent:
        value = _message(what, unit.number * ROOM + offset)
        return Sent(Message(name_of(unit, f"marker{offset}"), tx=own), TOPICS[0], value)

    first = marker("TRANSACTION_BEGIN", 1, tx)
    if unit.ending == "never":
        # Only the next marker says that what was begun has no end.
        behind = [marker("TRANSACTION_BEGIN", 97, None), marker("TRANSACTION_END", 98, None)]
        return [first, *rows, Sent(Message(name_of(unit, "never"), tx=tx), "", None), *behind]
    return [first, *rows, marker(_ENDS[unit.ending], 96, tx)]


def _row(unit: Unit, index: int, deed: Deed, tx: str | None) -> list[Sent]:
    change = deed[-1]
    moved = change.prior is not None
    paired = (change.op == "update" or moved) and not is_broken(change)
    if paired and unit.choice(index, 3) == 0:
        # The row before, a delete of its key, and the row after: what that lacks is what the row before had.
        if change.absent:
            change = replace(change, op="insert", prior=change.prior or change.key)
        deleted = Change(
            change.table, change.position, "delete", change.prior or change.key, transaction=change.transaction
        )
        own = tx or name_of(unit, f"pair{index}")
        halves = (("UPDATE_BEFOR", (deleted,), _old(change), None), ("UPDATE_AFTER", (change,), None, row(change)))
        return [
            Sent(
                Message(name_of(unit, f"{index}.{op}"), changes, own),
                TOPICS[0],
                _message(op, change.position, change.table, before, after, absent=change.absent),
                tight=bool(change.absent) and before is None,
            )
            for op, changes, before, after in halves
        ]
    op = "UPDATE_AFTER" if moved else "?" if is_broken(change) else _OPS[change.op]
    before = _old(change) if paired or change.op == "delete" else None
    after = row(change) if change.op in ("insert", "update") else None
    text = statement(change) if change.op == "alter" else None
    value = _message(op, change.position, change.table, before, after, text, change.absent)
    return [Sent(Message(name_of(unit, index), deed, tx), TOPICS[0], value)]


def _old(change: Change) -> dict[str, Any]:
    return prior_row(change) if change.prior is not None else key_row(change)


def _message(
    op: str,
    sequence: int,
    table: str | None = None,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
    text: str | None = None,
    absent: Collection[str] = (),
) -> bytes:
    columns = {"id": "LONG", "no": "LONG"} | _COLUMNS if table == "b" else _COLUMNS
    columns = columns | {name: "STRING" for name in POOL if name in absent or name in (after or ())}
    listed = [{"name": name, "type": kind} for name, kind in columns.items()]
    rows = before is not None or after is not None
    payload = {
        "schema": {
            "dataColumn": listed if rows else None,
            "primaryKey": list(KEYS[table]) if table and rows else None,
            "source": {"dbType": "MySQL", "dbName": "c", "tableName": table} if table else None,
        },
        "payload": {
            "before": None if before is None else {"dataColumn": before},
            "after": None if after is None else {"dataColumn": after},
            # Nineteen digits and more: no float holds them.
            "sequenceId": str(17951328 * 10**12 + sequence),
            "timestamp": {"eventTime": 1795132800000},
            "op": op,
            "ddl": text and {"text": text, "ddlMeta": None},
        },
        "version": "0.0.1",
    }
    return json.dumps(payload).encode()
