"""Every type that a format's page documents: declared in the feed file, published as that, checked, and shown.

No message says a type here but where the format's messages always do: what is published is what the feed declares.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidemark.feeds.model import Feed
from tidemark.operations.read_table import json_lines, read_snapshot, table_cells
from tidemark.pipeline.hour import run_hour
from tidemark.settings import Settings
from tidemark.tables.published_table import PublishedTable
from tidemark_samples.exporting import Message, write_export

HOUR = "2026-11-20T00"
POINT = {"x": 1.5, "y": -2.25, "wkb": "AQI=", "srid": 4326}
GEOMETRY = {"wkb": "AQI=", "srid": 4326}
MICROS = 1795133749539000
_TIME = "2026-11-20T00:15:49.539000"

#: Format → the declared type → (the text or value in the message, the published type, what is shown).
Documented = dict[str, tuple[Any, str, Any]]
DEBEZIUM: Documented = {
    "smallint": (7, "int", 7), "integer": (-7, "int", -7), "bigint": (2**53 + 1, "bigint", 2**53 + 1),
    "oid": (9, "bigint", 9), "numeric(25,2)": ("12345678901234567890.12", "decimal(25,2)", "12345678901234567890.12"),
    "money": ("1.50", "decimal(19,2)", "1.50"), "numeric(40,2)": ("1.50", "string", "1.50"),
    "numeric": ("1.500", "string", "1.500"), "real": (1.5, "float", 1.5), "double precision": (0.1, "double", 0.1),
    "boolean": (True, "boolean", True), "bit(1)": (True, "boolean", True), "bit(3)": ("BQ==", "string", "101"),
    "bit varying": ("BQ==", "string", "101"), "text": ("a", "string", "a"), "varchar(9)": ("a", "string", "a"),
    "char(2)": ("a ", "string", "a "), "enum": ("a", "string", "a"), "uuid": ("a", "string", "a"),
    "json": ('{"a": 1.50}', "string", '{"a": 1.50}'), "jsonb": ("{}", "string", "{}"), "xml": ("<a/>", "string", "<a/>"),
    "ltree": ("a.b", "string", "a.b"), "int4range": ("[1,2)", "string", "[1,2)"), "inet": ("::1", "string", "::1"),
    "timetz": ("01:02:03Z", "string", "01:02:03Z"), "hstore": ('{"a":"b"}', "string", '{"a":"b"}'),
    "interval": ("P1D", "string", "P1D"), "bytea": ("AQI=", "binary", "AQI="), "date": (20777, "date", "2026-11-20"),
    "timestamp": (MICROS, "timestamp_ntz", _TIME), "timestamp(3)": (MICROS // 1000, "timestamp_ntz", _TIME),
    "timestamptz": (f"{_TIME}Z", "timestamp", f"{_TIME}+00:00"), "time": (3723000001, "string", "01:02:03.000001"),
    "geometry": (GEOMETRY, "struct<wkb:binary,srid:int>", GEOMETRY),
    "geography": (GEOMETRY, "struct<wkb:binary,srid:int>", GEOMETRY),
    "point": (POINT, "struct<x:double,y:double,wkb:binary,srid:int>", POINT),
    "integer[]": ([1, None], "array<int>", [1, None]), "text[]": (["a"], "array<string>", ["a"]),
    "numeric(5,2)[]": (["1.50"], "array<decimal(5,2)>", ["1.50"]), "date[]": ([20777], "array<date>", ["2026-11-20"]),
    "geometry[]": ([GEOMETRY], "array<struct<wkb:binary,srid:int>>", [GEOMETRY]),
}  # fmt: skip
DATAWORKS: Documented = {
    "BOOLEAN": (True, "boolean", True), "LONG": (2**53 + 1, "bigint", 2**53 + 1), "DOUBLE": (0.1, "double", 0.1),
    # the midnight of the 20th of November in China
    "DATE": (1795104000000, "date", "2026-11-20"), "TIMESTAMP": (MICROS // 1000, "timestamp", f"{_TIME}+00:00"),
    "BYTES": ("AQI=", "binary", "AQI="), "STRING": ("a", "string", "a"), "decimal(25,2)": ("1.50", "decimal(25,2)", "1.50"),
}  # fmt: skip
CANAL: Documented = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "year"), ("7", "int", 7)),
    "int unsigned": ("7", "bigint", 7), "bigint": ("7", "bigint", 7),
    "bigint unsigned": (str(2**64 - 1), "decimal(20,0)", str(2**64 - 1)),
    "decimal(25,2)": ("1.50", "decimal(25,2)", "1.50"), "decimal(40,2)": ("1.50", "string", "1.50"),
    "float": ("1.5", "float", 1.5), "double": ("0.1", "double", 0.1), "bit(9)": ("5", "bigint", 5),
    "bit(64)": ("5", "decimal(20,0)", "5"), "date": ("2026-11-20", "date", "2026-11-20"),
    "datetime(6)": ("2026-11-20 00:15:49.539", "timestamp_ntz", _TIME),
    "timestamp(3)": ("2026-11-20 00:15:49.539", "timestamp_ntz", _TIME),
    **dict.fromkeys(("time", "char(3)", "varchar(3)", "text", "enum('a')", "set('a')"), ("a", "string", "a")),
    "json": ('{"a": 1.50}', "string", '{"a": 1.50}'),
    **dict.fromkeys(("binary(2)", "varbinary(2)", "blob", "geometry"), ("\x01ÿ", "binary", "Af8=")),
}  # fmt: skip
QLIK: Documented = {
    "BOOLEAN": (True, "boolean", True),
    **dict.fromkeys(("INT1", "INT2", "INT4", "UINT1", "UINT2"), (7, "int", 7)),
    "INT8": (2**53 + 1, "bigint", 2**53 + 1), "UINT4": (7, "bigint", 7),
    "UINT8": (str(2**64 - 1), "decimal(20,0)", str(2**64 - 1)), "REAL4": (1.5, "float", 1.5), "REAL8": (0.1, "double", 0.1),
    "NUMERIC(25,2)": ("1.50", "decimal(25,2)", "1.50"), "NUMERIC(40,2)": ("1.50", "string", "1.50"),
    "DATE": ("2026-11-20", "date", "2026-11-20"), "TIME": ("01:02:03", "string", "01:02:03"),
    "DATETIME": ("2026-11-20T00:15:49.539", "timestamp_ntz", _TIME),
    "TIMESTAMP": ("2026-11-20 00:15:49.539", "timestamp_ntz", _TIME),
    **dict.fromkeys(("STRING(3)", "WSTRING(3)", "CLOB", "NCLOB"), ("a", "string", "a")),
    **dict.fromkeys(("BYTES(2)", "BLOB"), ("01FF", "binary", "Af8=")),
}  # fmt: skip
IBM: Documented = {
    "SMALLINT": ("7", "int", 7), "INTEGER": ("7", "int", 7), "BIGINT": ("7", "bigint", 7),
    "DECIMAL(25,2)": ("1.50", "decimal(25,2)", "1.50"), "NUMERIC(5,2)": ("1.50", "decimal(5,2)", "1.50"),
    "DECFLOAT": ("1.50", "string", "1.50"), "REAL": ("1.5E+0", "float", 1.5), "DOUBLE": ("1E-1", "double", 0.1),
    "FLOAT": ("1E-1", "double", 0.1), "BOOLEAN": ("true", "boolean", True),
    **dict.fromkeys(("CHAR(1)", "VARCHAR(3)", "LONG VARCHAR", "GRAPHIC(1)", "VARGRAPHIC(3)", "CLOB(1M)", "DBCLOB(1M)", "XML"),
        ('"a"', "string", "a")),
    **dict.fromkeys(("CHAR(2) FOR BIT DATA", "BINARY(2)", "VARBINARY(2)", "ROWID", "BLOB(1M)"),
        ('"01FF"', "binary", "Af8=")),
    "DATE": ('"2026-11-20"', "date", "2026-11-20"), "TIME": ('"18.01.52"', "string", "18:01:52"),
    "TIMESTAMP": ('"2026-11-20-00.15.49.539000"', "timestamp_ntz", _TIME),
    "TIMESTAMP(12)": ('"2026-11-20-00.15.49.539000000000"', "string", f"{_TIME}000000"),
    "TIMESTAMP WITH TIME ZONE": ('"2026-11-20-00.15.49.539000+00:00"', "timestamp", f"{_TIME}+00:00"),
}  # fmt: skip


def _debezium(row: dict[str, Any]) -> bytes:
    source = {"name": "p", "ts_ms": 1, "schema": "s", "table": "t", "txId": 1, "lsn": 9, "sequence": '["5","9"]'}
    return json.dumps({"before": None, "after": row, "source": source, "op": "c", "ts_ms": 1}).encode()


def _dataworks(row: dict[str, Any]) -> bytes:
    """The message calls every column by the type that it is sent as."""
    sent_as = {"TIMESTAMP": "DATE", "decimal(25,2)": "STRING", "id": "LONG"}
    listed = [{"name": name, "type": sent_as.get(kind, kind)} for name, kind in (("id", "id"), *_named(DATAWORKS))]
    source = {"dbType": "MySQL", "dbName": "s", "tableName": "t"}
    payload = {
        "before": None,
        "after": {"dataColumn": row},
        "sequenceId": "1",
        "op": "INSERT",
        "timestamp": {"eventTime": 1},
    }
    schema = {"dataColumn": listed, "primaryKey": ["id"], "source": source}
    return json.dumps({"schema": schema, "payload": payload, "version": "0.0.1"}).encode()


def _canal(row: dict[str, Any]) -> bytes:
    about = {"database": "s", "table": "t", "type": "INSERT", "es": 1795132800000, "ts": 1795132800001, "id": 1}
    return json.dumps({"data": [row], "old": None, "pkNames": ["id"], **about}).encode()


def _qlik(row: dict[str, Any]) -> bytes:
    headers = {"operation": "INSERT", "changeSequence": "1".zfill(35), "timestamp": "2026-11-20T00:00:00.000"}
    return json.dumps({"data": row, "beforeData": None, "headers": headers}).encode()


def _ibm(row: dict[str, Any]) -> bytes:
    where, when = '"0000:0000:0000:0000:0001"', '"2026-11-20-00.00.00"'
    header = f'10,"IBM","2026324","000000000000","s","t","ISRT",{where},{where},{when},,0000'
    return f"{header},{',' * len(row)}{','.join(map(str, row.values()))}\n".encode()


def _named(documented: Documented) -> list[tuple[str, str]]:
    return [(f"c{number}", written) for number, written in enumerate(documented)]


CASES = {
    "canal": (CANAL, _canal, {}, "int"),
    "dataworks": (DATAWORKS, _dataworks, {"transactions": False, "zone": "Asia/Shanghai"}, "LONG"),
    "debezium": (DEBEZIUM, _debezium, {"decimals": "string"}, "integer"),
    "ibm": (IBM, _ibm, {}, "INTEGER"),
    "qlik": (QLIK, _qlik, {}, "INT4"),
}


@pytest.mark.parametrize("name", CASES)
def test_every_documented_type_is_published_checked_and_shown(
    spark: SparkSession, settings: Settings, tmp_path: Path, name: str
) -> None:
    documented, message, options, key_type = CASES[name]
    columns = dict(_named(documented))
    row = {"id": 1} | {column: documented[written][0] for column, written in columns.items()}
    published = f"types_{name}.t"
    sent = Message(
        topic="t", partition=0, offset=1, sent_at=datetime(2026, 11, 20), key=b'{"id":1}', value=message(row)
    )
    write_export(tmp_path, "t", HOUR, [[sent]], "kafka_json")
    feed = Feed.model_validate(
        {
            "feed": f"types_{name}", "description": "d", "owner": "o", "topics": ["t"],
            "exports": {"path": f"{tmp_path}/{{topic}}/dt={{date}}/hr={{hour}}/*"},
            "container": {"type": "kafka_json"}, "format": {"type": name, **options},
            "tables": {"s.t": {
                "name": published, "topic": "t", "key": ["id"], "columns": {"id": key_type, **columns},
                "checks": [{"column": column, "not_null": True} for column in columns],
            }},
        }
    )  # fmt: skip
    receipt = run_hour(feed, HOUR, settings)
    assert (receipt.counts.applied, receipt.quarantined) == (1, 0)
    types = PublishedTable(spark, published, feed.feed).columns()
    assert {columns[c]: types[c] for c in columns} == {written: kind for written, (_, kind, _) in documented.items()}
    rows, key = read_snapshot(settings, published)
    (line,) = json_lines(rows, key)
    shown = json.loads(line)
    assert {columns[c]: shown[c] for c in columns} == {written: value for written, (_, _, value) in documented.items()}
    assert next(table_cells(rows, key, 1))


def test_a_value_that_a_check_refuses_is_found_in_a_struct_too(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    """A geometry that is missing, where none may be."""
    feed = Feed.model_validate(
        {
            "feed": "no_geometry", "description": "d", "owner": "o", "topics": ["t"],
            "exports": {"path": f"{tmp_path}/{{topic}}/dt={{date}}/hr={{hour}}/*"},
            "container": {"type": "kafka_json"}, "format": {"type": "debezium"},
            "tables": {"s.t": {
                "name": "no_geometry.t", "columns": {"id": "integer", "g": "geometry"},
                "checks": [{"column": "g", "not_null": True, "consequence": "quarantine"}],
            }},
        }
    )  # fmt: skip
    message = Message(
        topic="t", partition=0, offset=1, sent_at=datetime(2026, 11, 20), key=b'{"id":1}',
        value=_debezium({"id": 1, "g": None}),
    )  # fmt: skip
    write_export(tmp_path, "t", HOUR, [[message]], "kafka_json")
    receipt = run_hour(feed, HOUR, settings)
    assert (receipt.counts.applied, receipt.quarantined) == (0, 1)
