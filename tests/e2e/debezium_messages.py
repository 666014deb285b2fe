"""Debezium messages as Kafka records, one change each, and the keys of a feed that reads them."""

from __future__ import annotations

import json
from typing import Any

from tidemark.hours import hours_between

HOURS = hours_between("2026-11-20T00", "2026-11-20T05")
Event = dict[str, Any]
DEBEZIUM = {"format": {"type": "debezium", "decimals": "string"}}
TRANSACTIONS = {"topics": ["t", "tx"], "format": {"type": "debezium", "decimals": "string", "transactions": "tx"}}
COLUMNS = {"id": "bigint", "n": "int", "big": "text"}


def event(op: str, lsn: int, row: Event | None, *, key: Event | None = None, table: str = "items") -> Event:
    """A Kafka record of one change; every change commits by itself, in LSN order."""
    value = {
        "before": None,
        "after": None if op in ("d", "t") else row,
        "source": {
            "ts_ms": 1795132800000, "sequence": json.dumps([str(lsn - 1), str(lsn)]), "schema": "s", "table": table,
            "txId": lsn, "lsn": lsn,
        },
        "op": op,
        "transaction": None,
    }  # fmt: skip
    id_ = key or ({"id": row["id"]} if row else None)
    return {
        "topic": "t", "partition": 0, "offset": lsn, "timestamp": 1795132800000,
        "key": json.dumps(id_) if id_ else None, "value": json.dumps(value), "headers": [],
    }  # fmt: skip


def moved(lsn: int, old: int, new: Any, n: int, table: str = "items") -> list[Event]:
    """A key change as the connector sends it."""
    arrived = event("c", lsn, row(new, n, f"moved from {old}"), table=table)
    arrived["headers"] = [{"key": "__debezium.oldkey", "value": json.dumps({"id": old})}]
    return [event("d", lsn, None, key={"id": old}, table=table), arrived]


def row(id_: int, n: int | str | None, big: str | None = "x") -> Event:
    return {"id": id_, "n": n, "big": big}


def part(record: dict[str, Any], tx: str, order: int) -> dict[str, Any]:
    value = json.loads(record["value"]) | {
        "transaction": {"id": tx, "total_order": order, "data_collection_order": order}
    }
    return record | {"value": json.dumps(value)}


def end(tx: str, count: int) -> dict[str, Any]:
    value = json.dumps({"status": "END", "id": tx, "event_count": count})
    return {"topic": "tx", "partition": 0, "offset": int(tx), "timestamp": 1795132800000, "key": None, "value": value,
            "headers": []}  # fmt: skip


def line(lsn: int, n: int | str, op: str = "c") -> dict[str, Any]:
    record = event("c", lsn, {"id": 1, "n": n}, table="lines")
    value = json.loads(record["value"]) | {"op": op}
    if op == "d":
        value |= {"before": {"id": 1, "n": n}, "after": None}
    return record | {"key": None, "value": json.dumps(value)}
