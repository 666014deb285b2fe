"""Qlik Replicate's messages of a unit: a topic per table, with masks, and event counters over all of them."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from tests.convergence.histories import ALTERED, FIRST, KEYLESS, KEYS, POOL, ROOM, SPREAD, Deed, Traits, Unit
from tests.convergence.oracle import Change, Message, is_broken
from tests.convergence.wire import Sent, key_row, name_of, prior_row, row

_N, _S, _BIG = frozenset({"n"}), frozenset({"s"}), frozenset({"big"})
TRAITS = Traits(
    absent=(_BIG, _S, _N | _S, frozenset()),
    truncates=False,
    loads="first",
    alters=("add", "drop", "rename"),
    lists=True,
    broken=True,
)
METADATA = "crm.metadata"
_COLUMNS = {"id": "INT8", "n": "INT8", "s": "STRING(40)", "big": "NCLOB"}
_TABLES = {
    "a": _COLUMNS,
    "b": {"id": "INT8", "no": "INT4"} | _COLUMNS,
    ALTERED: _COLUMNS,
    KEYLESS: _COLUMNS,
}
TOPICS = (*(f"crm.{table}" for table in _TABLES), METADATA)
_OPERATIONS = {"insert": "INSERT", "update": "UPDATE", "delete": "DELETE"}


def feed(name: str) -> dict[str, Any]:
    """The rest of the feed file. Metadata messages tell of ``a`` and ``d``, the file of the others."""
    tables: dict[str, Any] = {
        f"CRM.{table.upper()}": {"name": f"{name}.{table}", "topic": f"crm.{table}"} for table in ("a", ALTERED)
    }
    for table in ("b", KEYLESS):
        tables[f"CRM.{table.upper()}"] = {
            "name": f"{name}.{table}", "topic": f"crm.{table}", "columns": _TABLES[table],
            "key": list(KEYS.get(table, ())),
        }  # fmt: skip
    return {"format": {"type": "qlik"}, "tables": tables}


def every_hour() -> list[Sent]:
    """What comes in each hour, so that rows of any hour can be read."""
    return [
        Sent(Message("metadata"), METADATA, _metadata("A", _COLUMNS, "1" * 32, "2026-11-19T00:00:00.000")),
        Sent(Message(_described_in(0)), METADATA, _metadata_of(0, FIRST)),
    ]


def _described_in(place: int) -> str:
    """The name of the metadata that describe the altered table's rows of units with this place in their histories."""
    return f"metadata {place}"


def _own_columns(own: Collection[str]) -> dict[str, str]:
    """The altered table's: what changes comes in between, so that the ordinals of others do as well."""
    return {"id": "INT8", **{name: "STRING(40)" for name in POOL if name in own}, **_COLUMNS}


def _metadata_of(place: int, own: Collection[str]) -> bytes:
    time = f"2026-11-20T00:00:00.{place:02}0" if place else "2026-11-19T00:00:00.000"
    return _metadata("D", _own_columns(own), f"{place:032d}", time)


def _metadata(table: str, kinds: dict[str, str], schema_id: str, timestamp: str) -> bytes:
    columns = {
        column: {
            "ordinal": ordinal, "type": kind.split("(")[0], "length": 40, "precision": 0, "scale": 0,
            "primaryKeyPosition": int(column == "id"),
        }
        for ordinal, (column, kind) in enumerate(kinds.items(), 1)
    }  # fmt: skip
    content = {
        "schemaId": schema_id,
        "lineage": {"schema": "CRM", "table": table, "tableVersion": 1, "timestamp": timestamp},
        "tableStructure": {"tableColumns": columns},
        "dataSchema": None,
    }
    return _enveloped(content, "MD")


def encode(unit: Unit) -> list[Sent]:
    """A message for each deed. Rows of a full load stand before every change and in no transaction."""
    if (alteration := unit.deeds[0][0]).op == "alter":
        place = unit.number // SPREAD
        told = Message(_described_in(place), (alteration,))
        return [Sent(told, METADATA, _metadata_of(place, alteration.columns))]
    loaded = [deed for deed in unit.deeds if deed[-1].position == 0]
    counted = [deed for deed in unit.deeds if deed not in loaded]
    sent = []
    for index, deed in enumerate(loaded):
        operation = "?" if is_broken(deed[-1]) else ("REFRESH", "READ")[index % 2]
        headers = {"operation": operation, "changeSequence": "", "transactionId": ""}
        says = Message(name_of(unit, f"load{index}"), deed, described_by=_described_by(deed))
        sent.append(Sent(says, *_message(deed, headers)))
    for index, deed in enumerate(counted):
        change = deed[-1]
        operation = "UPDATE" if change.prior is not None else "?" if is_broken(change) else _OPERATIONS[change.op]
        headers = {
            "operation": operation,
            "changeSequence": f"20261120{unit.number // 1000:08d}{change.position:019d}",
            "timestamp": "2026-11-20T05:00:00.000",
            **_masks(deed),
        }
        tx = None
        if unit.together:
            tx = name_of(unit, "tx")
            last = index == len(counted) - 1
            headers |= {
                "transactionId": f"{unit.number:032X}", "transactionEventCounter": index + 1, "transactionLastEvent": last,
            }  # fmt: skip
        says = Message(name_of(unit, index), deed, tx, described_by=_described_by(deed))
        sent.append(Sent(says, *_message(deed, headers)))
    if unit.ending == "never" and counted:
        missing = len(loaded) + unit.choice(0, len(counted))
        never = Message(name_of(unit, "never"), tx=name_of(unit, "tx"))
        return [*(one for index, one in enumerate(sent) if index != missing), Sent(never, "", None)]
    return sent


def _message(deed: Deed, headers: dict[str, Any]) -> tuple[str, bytes]:
    """(topic, value)."""
    change = deed[-1]
    table = _table(change)
    before: dict[str, Any] | None = None
    if change.taken is not None:
        before = dict(change.taken)
    elif change.prior is not None:
        old = prior_row(change)
        if change.position // 2 % 2:  # beforeData has what the update changes alone
            before = {name: value for name, value in old.items() if value != key_row(change)[name]}
        else:
            before = dict.fromkeys(table) | old
    if change.op == "delete":
        data = before if before is not None else dict.fromkeys(table) | key_row(change)
        before = None
    else:
        data = dict.fromkeys(table) | row(change)
    body = {"data": data, "beforeData": before, "headers": headers}
    if change.table == ALTERED:
        return f"crm.{change.table}", _enveloped(body, "DT", f"{_place(change):032d}")
    return f"crm.{change.table}", _enveloped(body, "DT") if change.table == "a" else _dumps(body)


def _place(change: Change) -> int:
    return change.position // ROOM // SPREAD


def _described_by(deed: Deed) -> str | None:
    return _described_in(_place(deed[-1])) if deed[-1].table == ALTERED else None


def _table(change: Change) -> dict[str, str]:
    """Its columns, in the order of their ordinals; of a delete those that it sends."""
    if change.table == ALTERED:
        return _own_columns([name for name in POOL if name in dict(change.sent) or name in change.absent])
    return _TABLES[change.table]


def _masks(deed: Deed) -> dict[str, str]:
    change = deed[-1]
    if change.table == KEYLESS:
        return {}
    columns = list(_table(change))
    sent = dict(key_row(change)) if change.op == "delete" else row(change)
    bits = sum(1 << columns.index(name) for name in sent)
    stays = key_row(change) if change.op == "update" or change.prior is not None else {}
    if change.prior is not None:
        stays = {name: value for name, value in stays.items() if value == prior_row(change)[name]}
    kept = sum(1 << columns.index(name) for name in stays)
    return {"columnMask": f"{bits:02X}", "changeMask": f"{bits & 3 & ~kept:02X}"}


def _enveloped(body: dict[str, Any], kind: str, schema_id: str | None = None) -> bytes:
    return _dumps(
        {
            "magic": "atMSG",
            "type": kind,
            "headers": None,
            "messageSchemaId": schema_id,
            "messageSchema": None,
            "message": body,
        }
    )


def _dumps(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode()
