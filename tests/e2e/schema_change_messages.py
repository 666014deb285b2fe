"""Messages of one table whose columns change, as each format writes them, by hand: no generator, no library code.

A *version* of a table is its columns with their kinds, in the source's order. Kinds: ``int``, ``long``, ``text``.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidemark.feeds.model import Feed
from tidemark.hours import hours_between
from tidemark.ledger.receipts import Receipt
from tidemark.operations.read_table import json_lines, read_snapshot
from tidemark.pipeline.hour import run_hour
from tidemark.settings import Settings

Version = dict[str, str]
Row = dict[str, Any]
HOURS = hours_between("2026-11-20T00", "2026-11-20T04")
EPOCH = 1_795_132_800_000


@dataclass(frozen=True)
class Change:
    """One change of a row: ``op`` c, u or d; the version its message is of; the row behind it (of a delete: before).
    ``absent``: columns of the version that are not sent."""

    op: str
    position: int
    version: Version
    row: Row
    before: Row | None = None
    key: tuple[str, ...] = ("id",)
    table: str = "items"
    absent: tuple[str, ...] = ()


@dataclass(frozen=True)
class Statement:
    """What the source reports about a table's columns: DDL where the format carries it, all columns where that does.
    ``kind``: the source's word for the DDL; ``again``: the position at which Canal sent it first, if this is not that."""

    position: int
    version: Version
    sql: str = ""
    number: int = 1
    key: tuple[str, ...] = ("id",)
    table: str = "items"
    kind: str = "ALTER"
    again: int | None = None


Entry = Change | Statement


def _record(position: int, value: Any, key: Any = None) -> Row:
    text = value if isinstance(value, str) else json.dumps(value)
    return {
        "topic": "t", "partition": 0, "offset": position, "timestamp": EPOCH,
        "key": None if key is None else json.dumps(key), "value": text, "headers": [],
    }  # fmt: skip


def _image(change: Change) -> Row:
    """A row's columns in the version's order; what the test does not say is null."""
    return {name: change.row.get(name) for name in change.version if name not in change.absent}


def debezium(entry: Entry) -> Row | None:
    """With message schemas. A statement is not sent."""
    if isinstance(entry, Statement):
        return None
    kinds = {"int": "int32", "long": "int64", "text": "string"}
    fields = [_connect(name, kinds.get(kind, kind)) for name, kind in entry.version.items()]
    row = {"type": "struct", "optional": True, "fields": fields}
    schema = {"type": "struct", "fields": [{**row, "field": "before"}, {**row, "field": "after"}]}
    whole = _image(entry)
    before = entry.before if entry.before is not None else whole if entry.op == "d" else None
    payload = {
        "before": before, "after": None if entry.op == "d" else whole, "op": entry.op, "transaction": None,
        "source": {
            "ts_ms": EPOCH, "sequence": json.dumps([str(entry.position - 1), str(entry.position)]), "schema": "s",
            "table": entry.table, "txId": entry.position, "lsn": entry.position,
        },
    }  # fmt: skip
    key = {"schema": {}, "payload": {name: entry.row[name] for name in entry.key}} if entry.key else None
    return _record(entry.position, {"schema": schema, "payload": payload}, key)


def _connect(name: str, kind: str) -> Row:
    """A field of Connect: a plain type, or ``type/semantic name``."""
    plain, _, semantic = kind.partition("/")
    return {"field": name, "type": plain, "optional": True, **({"name": semantic} if semantic else {})}


def plain_debezium(entry: Entry) -> Row | None:
    """Without message schemas: the feed file says the types."""
    record = debezium(entry)
    if record is None:
        return None
    key = None if record["key"] is None else json.loads(record["key"])["payload"]
    return _record(entry.position, json.loads(record["value"])["payload"], key)


def canal(entry: Entry) -> Row:
    kinds = {"int": "int(11)", "long": "bigint(20)", "text": "varchar(40)"}
    first = entry.again if isinstance(entry, Statement) else None
    message = {
        "database": "s", "table": entry.table, "es": EPOCH + (first or entry.position), "ts": EPOCH + entry.position,
        "id": entry.position, "isDdl": isinstance(entry, Statement), "sql": "", "pkNames": list(entry.key) or None,
        "mysqlType": {name: kinds.get(kind, kind) for name, kind in entry.version.items()},
    }  # fmt: skip
    if isinstance(entry, Statement):
        return _record(
            entry.position, message | {"type": entry.kind, "sql": entry.sql, "data": None, "mysqlType": None}
        )
    texts = {name: None if value is None else str(value) for name, value in _image(entry).items()}
    types = {"c": "INSERT", "u": "UPDATE", "d": "DELETE"}
    old = [{name: str(value) for name, value in entry.before.items()}] if entry.before and entry.op == "u" else None
    return _record(entry.position, message | {"type": types[entry.op], "data": [texts], "old": old})


def dataworks(entry: Entry) -> Row:
    kinds = {"int": "LONG", "long": "LONG", "text": "STRING", "datetime": "DATE"}
    columns = [{"name": name, "type": kinds.get(kind, kind)} for name, kind in entry.version.items()]
    payload: Row = {
        "before": None, "after": None, "sequenceId": str(entry.position), "scn": None, "ddl": None,
        "timestamp": {"eventTime": EPOCH, "systemTime": EPOCH, "checkpointTime": EPOCH},
    }  # fmt: skip
    if isinstance(entry, Statement):
        payload |= {"op": entry.kind, "ddl": {"text": entry.sql, "ddlMeta": ""}}
    else:
        image = {"dataColumn": _image(entry)}
        before = {"dataColumn": entry.before or entry.row}
        payload["op"] = {"c": "INSERT", "u": "UPDATE_AFTER", "d": "DELETE"}[entry.op]
        payload |= {"before": image if entry.op == "d" else before if entry.op == "u" else None}
        payload |= {"after": None if entry.op == "d" else image}
    source = {"dbType": "MySQL", "dbName": "s", "tableName": entry.table}
    schema = {"dataColumn": columns, "primaryKey": list(entry.key) or None, "source": source}
    return _record(entry.position, {"schema": schema, "payload": payload, "version": "1.0.0"})


def qlik(entry: Entry) -> Row | None:
    """A statement's version goes out as metadata; rows name it by what its columns are."""
    kinds = {"int": "INT4", "long": "INT8", "text": "WSTRING"}
    schema_id = json.dumps([entry.table, entry.version, entry.key])
    if isinstance(entry, Statement):
        listed = {
            name: {
                "ordinal": ordinal, "type": kinds.get(kind, kind), "length": 40, "precision": 0, "scale": 0,
                "primaryKeyPosition": entry.key.index(name) + 1 if name in entry.key else 0,
            }
            for ordinal, (name, kind) in enumerate(entry.version.items(), 1)
        }  # fmt: skip
        lineage = {
            "server": "r", "task": "t", "schema": "s", "table": entry.table, "tableVersion": entry.number,
            "timestamp": f"2026-11-20T00:00:{entry.position:02d}.00",
        }  # fmt: skip
        structure = {"tableColumns": listed}
        message = {"schemaId": schema_id, "lineage": lineage, "tableStructure": structure, "dataSchema": ""}
        return _record(entry.position, _envelope("MD", message, None))
    headers = {
        "operation": {"c": "INSERT", "u": "UPDATE", "d": "DELETE"}[entry.op], "schema": "s", "table": entry.table,
        "changeSequence": f"202611200000{entry.position:02d}00" + "0" * 19, "timestamp": "2026-11-20T00:00:01.000",
        "columnMask": None, "changeMask": None,
    }  # fmt: skip
    before = entry.before if entry.before is not None else entry.row if entry.op == "u" else None
    return _record(
        entry.position, _envelope("DT", {"data": _image(entry), "beforeData": before, "headers": headers}, schema_id)
    )


def _envelope(type_: str, message: Row, schema_id: str | None) -> Row:
    return {
        "magic": "atMSG", "type": type_, "headers": None, "messageSchemaId": schema_id, "messageSchema": None,
        "message": message,
    }  # fmt: skip


def ibm(entry: Entry) -> Row | None:
    """Values in the version's order, without names. A statement is not sent."""
    if isinstance(entry, Statement):
        return None

    def values(row: Row | None) -> list[str]:
        found = [None if row is None else row.get(name) for name in entry.version]
        return ["" if v is None else f'"{v}"' if isinstance(v, str) else str(v) for v in found]

    operation = {"c": "ISRT", "u": "REPL", "d": "DLET"}[entry.op]
    before = None if entry.op == "c" else entry.before or entry.row
    header = [
        "10", '"IBM"', '"2026324"', '"000000000000"', '"s"', f'"{entry.table}"', f'"{operation}"',
        f'"0000:0000:0000:0000:{entry.position:04x}"', f'"0000:0000:0000:0000:{entry.position:04x}"',
        '"2026-11-20-00.00.00"', '"ASN"', "0000",
    ]  # fmt: skip
    after = None if entry.op == "d" else entry.row
    return _record(entry.position, ",".join([*header, *values(before), *values(after)]))


WRITERS = {
    "debezium": debezium, "plain_debezium": plain_debezium, "canal": canal, "dataworks": dataworks, "qlik": qlik,
    "ibm": ibm,
}  # fmt: skip
FORMATS = {
    "debezium": {"type": "debezium", "decimals": "string"},
    "plain_debezium": {"type": "debezium", "decimals": "string"},
    "canal": {"type": "canal"},
    "dataworks": {"type": "dataworks", "transactions": False},
    "qlik": {"type": "qlik"},
    "ibm": {"type": "ibm"},
}


@dataclass
class Installation:
    """A feed of one format, its exports and its published tables. ``tables``: its block of the feed file, by the
    source's table; names are made its own."""

    format: str
    name: str
    exports: Path
    settings: Settings
    tables: Row = field(default_factory=dict)

    def export(self, hour: int, entries: list[Entry]) -> None:
        """Write an hour's messages, in the order of their arrival."""
        records = [record for record in map(WRITERS[self.format], entries) if record is not None]
        if not records:
            return
        folder = self.exports / f"t/dt={HOURS[hour].date}/hr={HOURS[hour].clock}"
        folder.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(record).encode() for record in records]
        (folder / f"part-{len(list(folder.iterdir()))}.jsonl.gz").write_bytes(gzip.compress(b"\n".join(lines) + b"\n"))

    def feed(self, **changes: Any) -> Feed:
        tables = {
            source: {"name": f"{self.name}.{source.split('.')[1]}"} | table for source, table in self.tables.items()
        }
        return Feed.model_validate(
            {
                "feed": self.name, "description": "-", "owner": "-", "topics": ["t"],
                "exports": {
                    "path": f"{self.exports}/{{topic}}/dt={{date}}/hr={{hour}}/*", "marker": None, "settle": "0s",
                    "missing": "empty",
                },
                "container": {"type": "kafka_json"}, "format": FORMATS[self.format], "tables": tables, **changes,
            }
        )  # fmt: skip

    def run(self, *hours: int) -> list[Receipt]:
        return [run_hour(self.feed(), HOURS[hour], self.settings) for hour in hours]

    def rows(self, table: str = "items", as_of: int | None = None, schema: str | None = None) -> list[Row]:
        found, key = read_snapshot(
            self.settings, f"{schema or self.name}.{table}", None if as_of is None else HOURS[as_of]
        )
        return [json.loads(line) for line in json_lines(found, key)]

    def types(self, table: str = "items") -> dict[str, str]:
        """Published columns in their order, and their types (Arrow's names)."""
        found, _ = read_snapshot(self.settings, f"{self.name}.{table}")
        return {column.name: str(column.type).removeprefix("large_") for column in found.schema}
