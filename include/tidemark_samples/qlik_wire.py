"""What Qlik Replicate writes: the tables of the made-up CRM, and the messages that carry their rows and metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from tidemark_samples.drawing import Row


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of the CRM."""

    topic: str
    """The topic that carries its messages."""
    columns: dict[str, str]
    """The columns before the DDL, with Qlik's types."""
    key: tuple[str, ...]
    """The columns of its key."""
    shape: str
    """How its messages are laid out: in an `envelope`, `bare`, or `flat` with a field for each column."""
    named: bool
    """Whether its messages name their table."""
    added: str | None = None
    """The column that the DDL adds; None: it adds none."""

    def at(self, version: int) -> dict[str, str]:
        """The columns before the DDL (1) and after it (2)."""
        return self.columns | {self.added: "STRING(12)"} if version > 1 and self.added else self.columns


TABLES = {
    "CRM.ACCOUNTS": Table(
        topic="crm.accounts",
        columns={
            "ID": "INT8", "NAME": "WSTRING(60)", "EMAIL": "STRING(80)", "BALANCE": "NUMERIC(14,2)", "BIO": "NCLOB",
            "SINCE": "DATE", "SEEN": "DATETIME", "VIP": "BOOLEAN", "BADGE": "BYTES(8)", "SCORE": "REAL8",
        },
        key=("ID",), shape="envelope", named=False, added="TIER",
    ),
    "CRM.ORDERS": Table(
        topic="crm.orders",
        columns={"ACCOUNT_ID": "INT8", "NO": "INT4", "STATE": "STRING(9)", "AMOUNT": "NUMERIC(20,4)", "NOTE": "CLOB"},
        key=("ACCOUNT_ID", "NO"), shape="bare", named=True, added="CHANNEL",
    ),
    "CRM.PROFILE": Table(
        topic="crm.profile",
        columns={"ID": "INT4"} | {f"F{i:02}": "INT4" if i % 3 else "STRING(20)" for i in range(1, 72)},
        key=("ID",), shape="flat", named=False,
    ),
}  # fmt: skip


def dumps(value: Any) -> bytes:
    """JSON bytes."""
    return json.dumps(value, ensure_ascii=False).encode()


def in_json(row: Row, as_text: bool) -> Row:
    """Values as the endpoint writes them: dates and numerics as text, bytes as hexadecimal digits."""

    def written(value: Any) -> Any:
        if isinstance(value, bytes):
            return value.hex().upper()
        if isinstance(value, datetime):
            return value.isoformat(" ")
        if value is None or isinstance(value, bool | float | str):
            return value
        return value if isinstance(value, int) and not as_text else str(value)

    return {name: written(value) for name, value in row.items()}


def mask(table: str, version: int, names: set[str]) -> str:
    """Bits by ordinal, padded to whole bytes."""
    bits = _bits(table, version)
    return format(sum(bits[name] for name in names), f"0{2 * -(-len(bits) // 8)}X")


@cache
def _bits(table: str, version: int) -> dict[str, int]:
    return {name: 1 << ordinal for ordinal, name in enumerate(TABLES[table].at(version))}


def of_full_load() -> dict[str, Any]:
    """Headers of a row of the full load: they have no position."""
    empty = dict.fromkeys(("changeSequence", "timestamp", "streamPosition", "transactionId"), "")
    masks = {"changeMask": None, "columnMask": None}
    return {"operation": "REFRESH", **empty, **masks, "transactionEventCounter": None, "transactionLastEvent": None}


def enveloped(message: dict[str, Any], type_: str, schema_id: str | None = None) -> dict[str, Any]:
    """A message in the envelope."""
    return {
        "magic": "atMSG", "type": type_, "headers": None, "messageSchemaId": schema_id, "messageSchema": None,
        "message": message,
    }  # fmt: skip


def schema_id(table: str, version: int) -> str:
    """The id of a table's metadata."""
    return f"{list(TABLES).index(table) + 1:028X}{version:04X}"


def table_columns(columns: Mapping[str, str], key: Sequence[str]) -> dict[str, Any]:
    """The columns of a metadata message, in order, out of their types as ``NUMERIC(9,2)``."""
    listed = {}
    for ordinal, (name, written) in enumerate(columns.items(), 1):
        kind, _, sizes = written.rstrip(")").partition("(")
        first, _, second = sizes.partition(",")
        numeric = kind == "NUMERIC"
        listed[name] = {
            "ordinal": ordinal, "type": kind, "length": 0 if numeric else int(first or 0),
            "precision": int(first) if numeric else 0, "scale": int(second or 0),
            "primaryKeyPosition": key.index(name) + 1 if name in key else 0,
        }  # fmt: skip
    return listed


def metadata(table: str, version: int, written: datetime) -> dict[str, Any]:
    """The metadata message of a table."""
    of, (schema, name) = TABLES[table], table.split(".")
    return {
        "schemaId": schema_id(table, version),
        "lineage": {
            "server": "replicate", "task": "crm", "schema": schema, "table": name, "tableVersion": version,
            "timestamp": written.isoformat(timespec="milliseconds"),
        },
        "tableStructure": {"tableColumns": table_columns(of.at(version), of.key)},
        "dataSchema": None,
    }  # fmt: skip
