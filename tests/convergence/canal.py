"""Canal's messages of a unit: one batch, in which rows of one operation come together, statements by themselves.

All messages of a batch have one ``ts`` and ``id``: only their offsets tell their order, and equal ones apart. ``es`` runs
backwards now and then, as it does behind a statement that took long.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import groupby
from typing import Any

from tests.convergence.histories import KEYLESS, KEYS, POOL, Deed, Traits, Unit
from tests.convergence.oracle import Change, Message
from tests.convergence.wire import Sent, key_row, name_of, prior_row, row

_N, _S, _BIG = frozenset({"n"}), frozenset({"s"}), frozenset({"big"})
TRAITS = Traits(
    absent=(_BIG, _S | _BIG, _N, frozenset()), partial_inserts=True, transactions=False,
    alters=("add", "fill", "drop", "rename", "swap"),
)  # fmt: skip
TOPICS = ("canal.c",)
_STATEMENTS = ("TRUNCATE", "ALTER")
_COLUMNS = {"id": "bigint(20)", "n": "bigint(20)", "s": "varchar(40)", "big": "longtext"}


def feed(name: str) -> dict[str, Any]:
    """The rest of the feed file."""
    tables = {f"c.{table}": {"name": f"{name}.{table}"} for table in (*KEYS, KEYLESS)}
    return {"format": {"type": "canal"}, "tables": tables}


def repeatable(unit: Unit) -> bool:
    """Whether the batch can come again. A row that moved without all of its columns has left its old key by then, and
    nothing says whether it was the same move; nor whether columns were swapped once more."""
    changes = [change for deed in unit.deeds for change in deed]
    return not any((change.prior is not None and change.absent) or len(change.names) > 1 for change in changes)


def every_hour() -> list[Sent]:
    """What comes between the batches and what is delivered of them again."""
    value = json.dumps({"type": "MHEARTBEAT", "es": 1_795_132_800_000, "ts": 1_795_132_800_000, "id": 0}).encode()
    return [Sent(Message("heartbeat"), TOPICS[0], value)]


def encode(unit: Unit) -> list[Sent]:
    """Neighbours of one operation on one table come in one message; a truncate is a statement."""
    return encode_batches(unit, lambda position: unit.number)


def encode_batches(unit: Unit, batch_of: Callable[[int], int]) -> list[Sent]:
    """The messages of a unit. ``batch_of``: the number of the batch that a position is in."""
    sent = []
    for index, ((kind, table), together) in enumerate(groupby(unit.deeds, _kind)):
        deeds = list(together)
        for part in [deeds] if unit.choice(index, 2) and kind not in _STATEMENTS else [[deed] for deed in deeds]:
            position = part[0][-1].position
            says = Message(name_of(unit, position), tuple(c for deed in part for c in deed), entries=len(part))
            long = unit.choice(index, 3) == 0
            # No two statements began in one second: else equal ones would be one that came again.
            since = 100_000 - batch_of(position) if kind in _STATEMENTS else 1 + 600 * long
            value = _message(kind, table, batch_of(position), part, es_before=since)
            sent.append(Sent(says, TOPICS[0], value))
    return sent


def _kind(deed: Deed) -> tuple[str, str]:
    change = deed[-1]
    return ("UPDATE" if change.prior is not None else change.op.upper()), change.table


def _message(kind: str, table: str, batch: int, deeds: list[Deed], *, es_before: int) -> bytes:
    """``es_before``: how many seconds before the message its statement began."""
    millis = 1_795_132_800_000 + batch // 7
    message: dict[str, Any] = {
        "database": "c", "table": table, "type": kind, "es": millis // 1000 * 1000 - es_before * 1000, "ts": millis,
        "id": batch,
        "isDdl": kind in _STATEMENTS, "sql": statement(deeds[0][0]) if kind in _STATEMENTS else "",
        "data": None, "old": None, "pkNames": None, "mysqlType": None,
    }  # fmt: skip
    if kind not in _STATEMENTS:
        change = deeds[0][-1]
        own = {name: "varchar(40)" for name in sorted(dict(change.sent).keys() | change.absent) if name in POOL}
        columns = {"id": "bigint(20)", "no": "int(11)"} | _COLUMNS if table == "b" else _COLUMNS | own
        message |= {
            "pkNames": list(KEYS[table]) if table in KEYS else None,
            "mysqlType": columns,
            "data": [_texts(_image(deed)) for deed in deeds],
            "old": [_texts(_old(deed)) for deed in deeds] if kind == "UPDATE" else None,
        }
    return json.dumps(message).encode()


def statement(change: Change) -> str:
    """The SQL of a change that is one of a whole table."""
    if change.op == "truncate":
        return f"TRUNCATE TABLE {change.table}"
    default = "" if change.fill is None else f" DEFAULT '{change.fill}'"
    steps = [
        f"ADD COLUMN {new} varchar(40){default}"
        if old is None
        else f"DROP COLUMN {old}"
        if new is None
        else f"RENAME COLUMN {old} TO {new}"
        for old, new in change.names
    ]
    return f"ALTER TABLE {change.table} {', '.join(steps)}"


def _image(deed: Deed) -> dict[str, Any]:
    change = deed[-1]
    if change.op != "delete":
        return row(change)
    return dict(change.taken) if change.taken is not None else key_row(change)


def _old(deed: Deed) -> dict[str, Any]:
    """The columns that changed, as they were."""
    change = deed[-1]
    if change.taken is not None:
        now = dict(change.sent)
        return {name: value for name, value in dict(change.taken).items() if now[name] != value}
    return (
        {"n": 0} if change.prior is None else {n: v for n, v in prior_row(change).items() if (n, v) not in change.sent}
    )


def _texts(image: dict[str, Any]) -> dict[str, str | None]:
    return {name: None if value is None else str(value) for name, value in image.items()}
