"""Debezium's events, corner by corner: each hand-written event in one Spark job per set of options, and every type."""

from __future__ import annotations

import base64
import functools
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from tidemark.containers.contract import RECORDS
from tidemark.feeds.model import Feed
from tidemark.formats.debezium import decode as debezium
from tidemark.schema import encodings
from tidemark.schema.columns import ColumnType

ENCODINGS = {**encodings.ENCODINGS, **debezium.ENCODINGS}


def feed(**tables: Any) -> Feed:
    return Feed.model_validate(
        {
            "feed": "shop", "description": "-", "owner": "-", "topics": ["t"], "container": {"type": "kafka_json"},
            "exports": {"path": "{topic}/dt={date}/hr={hour}/*"}, "format": {"type": "debezium"},
            "tables": {f"s.{name}": table for name, table in tables.items()},
        }
    )  # fmt: skip


#: Options → name of the case → (topic, key, value, headers). Filled by `case`, decoded once.
CASES: dict[str, dict[str, tuple[str, Any, Any, list[tuple[str, str]]]]] = {}
FEED = feed(declared={"key": ["a", "b"]})


def case(
    name: str, value: Any, key: Any = None, topic: str = "p.s.t", headers: dict[str, str] | None = None, **options: Any
) -> None:
    of_options = CASES.setdefault(json.dumps(options), {})
    assert all(name not in cases for cases in CASES.values())
    of_options[name] = (topic, key, value, list((headers or {}).items()))


def event(op: str = "c", source: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    default = {
        "schema": "s",
        "table": "t",
        "lsn": 30,
        "sequence": '["20","30"]',
        "ts_ms": 1_000,
        "name": "p",
        "txId": 5,
    }
    image = {} if op == "t" else {"before": {"id": 1}} if op == "d" else {"after": {"id": 1}}
    return {"op": op, "source": default | (source or {}), **image, **more}


case("plain", event(), {"id": 1})
for marker in (True, False, "true", "first", "first_in_data_collection", "last_in_data_collection", "last", "false"):
    case(
        f"snapshot {marker!r}",
        event("r", {"snapshot": marker, "sequence": '[null,"30"]'}, transaction=None),
        {"id": 1},
    )
case("incremental", event("r", {"snapshot": "incremental", "lsn": None, "txId": None}), {"id": 1})
case("no sequence", event("u", {"sequence": None}), {"id": 1})
case("sequence of nulls", event("u", {"sequence": "[null,null]"}), {"id": 1})
case("no lsn", event("u", {"lsn": None}), {"id": 1})
case("negative lsn", event("u", {"lsn": -1}), {"id": 1})
case("sequence is rubbish", event("u", {"sequence": '["x","30"]'}), {"id": 1})
NUMBERS = {
    "18446744073709551615": "18446744073709551615", "0000000020": "00000000000000000020", "000000000000000000020": None,
    "+20": None, "-20": None, " 20": None, "20x": None, "20.0": None, "2e1": None, "": None,
}  # fmt: skip
for number in NUMBERS:
    case(f"commit {number!r}", event("u", {"sequence": f'["{number}","30"]'}), {"id": 1})
case("message as control", event("m", {"schema": "", "table": ""}, message={"prefix": "a", "content": "Yg=="}))
case("two documents", json.dumps(event()) * 2, {"id": 1})
case("rubbish behind", json.dumps(event()) + " x", {"id": 1})
case("braces in text", event(after={"id": 1, "x": "}{ } {"}), {"id": 1})
case("unknown op", event("x"), {"id": 1})
WORD = "__debezium_unavailable_value"
UNSENT = {"text": WORD, "bytea": base64.b64encode(WORD.encode()).decode(), "texts": [WORD], "codes": [*WORD.encode()]}
for kind, placeholder in UNSENT.items():
    case(f"unsent {kind}", event("u", after={"id": 1, "x": placeholder, "y": None}), {"id": 1})
KEYS = {
    "as it is": '{"id": 7}', "with space": ' {"id": 7}\n', "with schema": '{"schema": {}, "payload": {"id": 7}}',
    "no JSON": "Struct{id=7}", "a text": '"id"', "a number": "7", "empty": "", "nothing": None,
    "broken": '{"id": 7', "two": '{"id": 7}{"id": 8}', "broken inside": '{"id": 7}}',
    "hostile": '{"id": 7},"d":{"op":"t"},"x":{}',
}  # fmt: skip
for which, text in KEYS.items():
    wrapped = {"schema": {}, "payload": event()} if which == "with schema" else event()
    case(f"key {which}", wrapped, text)

case("declared key", event(source={"table": "declared"}, after={"a": 1, "b": 2, "c": 3}))
moved = {"before": {"a": 1, "b": 2, "c": 3}, "after": {"a": 1, "b": 4, "c": 3}}
case("declared key moves", event("u", {"table": "declared"}, **moved))
case("declared key stays", event("u", {"table": "declared"}, before=moved["before"], after=moved["before"]))
case("declared key goes", event("d", {"table": "declared"}, before={"a": 1, "b": 2, "c": None}))
case("declared but sent", event("u", {"table": "declared"}, **moved), {"a": 1, "b": 4})
case("not declared", event("u", after={"a": 1, "b": 4}))

TX = {"id": "5:30", "total_order": 1, "data_collection_order": 1}
END = {"status": "END", "id": "5:99", "event_count": 2}
case("one connector", event(transaction=TX), {"id": 1}, transactions="p.transaction")
case("no transaction", event(transaction=None), {"id": 1}, transactions=["p.transaction"])
case("one's end", END, topic="p.transaction", transactions="p.transaction")
case("empty", END | {"event_count": 0}, topic="p.transaction", transactions="p.transaction")
SEVERAL = {"transactions": ["p.transaction", "q.x.transaction"]}
case("of several", event(transaction=TX), {"id": 1}, **SEVERAL)
case("of another", event(source={"name": "q.x"}, transaction=TX), {"id": 1}, topic="q.x.s.t", **SEVERAL)
case("end of another", END, topic="q.x.transaction", **SEVERAL)

MESSAGES = {"messages": "log.messages", "transactions": "p.transaction"}
WORD = {"prefix": "app", "content": base64.b64encode(b"\x00hi").decode()}
NOWHERE = {"schema": "", "table": ""}
case("message", event("m", NOWHERE, message=WORD, transaction=TX), {"prefix": "app"}, **MESSAGES)
case("message alone", event("m", NOWHERE | {"txId": None}, message=WORD, transaction=None), **MESSAGES)
case("message without position", event("m", NOWHERE | {"lsn": None}, message=WORD), **MESSAGES)
case("message in hex", event("m", NOWHERE, message=WORD | {"content": "006869"}), binary="hex", **MESSAGES)

MYSQL = {"schema": None, "db": "shop", "lsn": None, "sequence": None, "file": "bin.000007", "pos": 154, "row": 2}
case("mysql", event("u", MYSQL, transaction=TX | {"id": "3e11:23"}), {"id": 1}, connector="mysql", transactions="x")
case("mysql end", END | {"id": "3e11:23"}, topic="x", connector="mysql", transactions="x")
case("mysql snapshot", event("r", MYSQL | {"row": 0, "snapshot": "true"}), {"id": 1}, connector="mysql")
case("mysql without position", event("u", MYSQL | {"file": ""}), {"id": 1}, connector="mysql")
case("mysql truncate", event("t", MYSQL), connector="mysql")
SERVER = {"commit_lsn": "00000027:00000A68:0005", "change_lsn": "00000027:00000a60:0002", "event_serial_no": 2}
case("sqlserver", event("u", SERVER | {"lsn": None}), {"id": 1}, connector="sqlserver")
case("sqlserver snapshot", event("r", SERVER | {"change_lsn": None, "event_serial_no": None}), connector="sqlserver")
case("sqlserver without position", event("u"), {"id": 1}, connector="sqlserver")
case("sqlserver wrong position", event("u", SERVER | {"change_lsn": "0x27"}), {"id": 1}, connector="sqlserver")
ORACLE = {"scn": "2868546", "commit_scn": "2868570", "rs_id": " 0x00000C.0000B10D.0010 ", "ssn": 1, "txId": "0a00"}
case("oracle", event("u", ORACLE), {"id": 1}, connector="oracle")
case("oracle snapshot", event("r", {"scn": "2868000", "txId": None}), {"id": 1}, connector="oracle")
case("oracle without position", event("u", ORACLE | {"scn": None}), {"id": 1}, connector="oracle")
DB2 = {"commit_lsn": "00000000:0000004c:0000:27a9", "change_lsn": "00000000:0000004c:0000:27A0"}
case("db2", event("u", DB2), {"id": 1}, connector="db2")


def _bytes(part: Any) -> bytes | None:
    return None if part is None else part.encode() if isinstance(part, str) else json.dumps(part).encode()


@pytest.fixture(scope="module")
def decoded(spark: SparkSession) -> dict[str, Row]:
    changes = []
    for options, cases in CASES.items():
        rows = [
            (name, 1, _bytes(value) or b"", topic, 0, 5, None, _bytes(key), _bytes(value), headers, None)
            for name, (topic, key, value, headers) in cases.items()
        ]
        records = spark.createDataFrame(rows, RECORDS)
        changes.append(debezium.decode(records, FEED, debezium.Options.model_validate(json.loads(options))))
    return {row.object: row for row in functools.reduce(DataFrame.unionAll, changes).collect()}


GOOD = "00000000000000000020.00000000000000000030"


def test_the_plain_event(decoded: dict[str, Row]) -> None:
    row = decoded["plain"]
    assert (row.op, row.source_table, row.position, row.key) == ("insert", "s.t", GOOD, {"id": "1"})
    assert (row.tx, row.tx_end, row.problem) == (None, None, None)
    assert decoded["braces in text"].problem is None


@pytest.mark.parametrize("kind", UNSENT)
def test_a_placeholder_alone_makes_its_column_absent(decoded: dict[str, Row], kind: str) -> None:
    row = decoded[f"unsent {kind}"]
    assert (row.after, row.absent, row.problem) == ({"id": "1", "y": None}, ["x"], None)


def test_snapshot_markers_of_both_generations(decoded: dict[str, Row]) -> None:
    marked = [row for name, row in decoded.items() if name.startswith("snapshot ")]
    assert len(marked) == 8
    for row in marked:
        assert (row.op, row.kind, row.position) == ("insert", "r", f"{0:020}.{30:020}")
    row = decoded["incremental"]
    assert (row.op, row.position) == ("insert", GOOD)


def test_places_that_are_none_are_bad(decoded: dict[str, Row]) -> None:
    assert decoded["no sequence"].position == f"{0:020}.{30:020}"
    assert decoded["sequence of nulls"].position == f"{0:020}.{30:020}"
    problems = {name: decoded[name].problem for name in ("no lsn", "negative lsn", "sequence is rubbish")}
    assert "no lsn" in problems["no lsn"]
    assert all("LSN" in problems[name] or "lsn" in problems[name] for name in problems)
    assert "unknown op x" in decoded["unknown op"].problem


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_of_the_order_is_digits_and_nothing_else(decoded: dict[str, Row], number: str) -> None:
    row, padded = decoded[f"commit {number!r}"], NUMBERS[number]
    assert row.position == (padded and f"{padded}.{30:020}")
    assert (row.op, row.problem) == (("update", None) if padded else ("bad", "source.sequence is not two LSNs"))


def test_a_value_that_goes_on_behind_its_event_is_bad(decoded: dict[str, Row]) -> None:
    for name in ("two documents", "rubbish behind"):
        assert (decoded[name].op, "goes on" in decoded[name].problem) == ("bad", True)


def test_a_key_is_read_beside_its_value_and_never_for_it(decoded: dict[str, Row]) -> None:
    for which in ("as it is", "with space", "with schema", "hostile"):
        assert (decoded[f"key {which}"].op, decoded[f"key {which}"].key) == ("insert", {"id": "7"}), which
    for which in ("no JSON", "a text", "a number", "empty", "nothing", "broken"):
        assert (decoded[f"key {which}"].op, decoded[f"key {which}"].key) == ("insert", None), which
    for which in ("two", "broken inside"):
        assert (decoded[f"key {which}"].op, "key or value" in decoded[f"key {which}"].problem) == ("bad", True), which
    assert {decoded[f"key {which}"].after["id"] for which in ("as it is", "hostile", "nothing")} == {"1"}


def test_a_declared_key_stands_in_where_messages_carry_none(decoded: dict[str, Row]) -> None:
    assert decoded["declared key"].key == {"a": "1", "b": "2"}
    row = decoded["declared key moves"]
    assert (row.op, row.key, row.prior_key) == ("update", {"a": "1", "b": "4"}, {"a": "1", "b": "2"})
    assert (decoded["declared key stays"].key, decoded["declared key stays"].prior_key) == ({"a": "1", "b": "2"}, None)
    assert decoded["declared key goes"].key == {"a": "1", "b": "2"}
    assert decoded["declared but sent"].prior_key is None
    assert decoded["not declared"].key is None


def test_transactions_of_one_and_of_several_connectors(decoded: dict[str, Row]) -> None:
    assert (decoded["one connector"].tx, decoded["one's end"].tx) == ("5", "5")
    assert (decoded["one's end"].tx_end, decoded["one's end"].tx_count) == (True, 2)
    assert (decoded["empty"].op, decoded["empty"].tx_count) == ("control", 0)
    assert decoded["no transaction"].tx is None
    assert decoded["of several"].tx == "p:5"
    assert decoded["of another"].tx == decoded["end of another"].tx == "q.x:5"


def test_logical_messages(decoded: dict[str, Row]) -> None:
    row = decoded["message as control"]
    assert (row.op, row.source_table, row.position, row.key) == ("control", None, None, None)
    assert (row.after["prefix"], row.after["content"]) == ("a", "Yg==")
    row = decoded["message"]
    assert (row.op, row.kind, row.source_table, row.position) == ("insert", "m", "log.messages", GOOD)
    assert row.key == {"connector": "p", "lsn": "30"}
    assert (row.tx, row.tx_ordinal, row.after["transactional"]) == ("5", 1, "true")
    types = debezium.message_types(row.message_schema)
    assert types.keys() == row.after.keys()
    assert (types["content"].spark, types["transactional"].spark, types["lsn"].spark) == ("binary", "boolean", "bigint")
    alone = decoded["message alone"]
    assert (alone.op, alone.tx, alone.after["transactional"]) == ("insert", None, "false")
    assert decoded["message without position"].op == "bad"
    assert decoded["message in hex"].after["content"] == row.after["content"] == WORD["content"]


def test_other_connectors_differ_in_source_alone(decoded: dict[str, Row]) -> None:
    row = decoded["mysql"]
    assert (row.op, row.source_table) == ("update", "shop.t")
    assert row.position == f"{7:012}.{154:020}.{2:010}"
    assert row.tx == decoded["mysql end"].tx == "3e11:23", "a GTID holds a colon"
    assert decoded["mysql snapshot"].position == f"{7:012}.{154:020}.{0:010}"
    assert (decoded["mysql truncate"].op, decoded["mysql truncate"].source_table) == ("truncate", "shop.t")
    row = decoded["sqlserver"]
    assert (row.source_table, row.position) == ("s.t", f"00000027:00000a68:0005.00000027:00000a60:0002.{2:010}")
    assert decoded["sqlserver snapshot"].position == f"00000027:00000a68:0005.{'0' * 22}.{0:010}"
    row = decoded["oracle"]
    assert row.position == f"{2868570:020}.{2868546:020}.0000000000{'0x00000c.0000b10d.0010'}.{1:020}"
    assert decoded["oracle snapshot"].position < row.position
    assert decoded["db2"].position.endswith("00000000:0000004c:0000:27a0")
    assert len(decoded["db2"].position) == 97


@pytest.mark.parametrize("name", [name for cases in CASES.values() for name in cases if "position" in name])
def test_an_event_of_another_connector_without_a_place_is_bad(decoded: dict[str, Row], name: str) -> None:
    assert (decoded[name].op, decoded[name].position) == ("bad", None)
    assert decoded[name].problem.startswith("source")


def test_options_that_cannot_be_are_refused() -> None:
    for wrong in ({"messages": "nodot"}, {"transactions": []}, {"connector": "db3"}, {"times": "isostring"}):
        with pytest.raises(ValidationError):
            debezium.Options.model_validate(wrong)


def _unscaled(number: int) -> str:
    return base64.b64encode(number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)).decode()


def _b64(*octets: int) -> str:
    return base64.b64encode(bytes(octets)).decode()


PRECISE, STRING, DOUBLE = ({"decimals": mode} for mode in ("precise", "string", "double"))
AT = datetime(2026, 11, 20, 1, 2, 3, 456_000)
SECONDS = int((AT - datetime(1970, 1, 1)).total_seconds())
#: PostgreSQL's type, the connector's options, its text in a message, the value it is.
DECLARED: list[tuple[str, dict[str, str], str, Any]] = [
    ("numeric(9,2)", PRECISE, _unscaled(-12345), Decimal("-123.45")),
    ("numeric(9,2)", STRING, "-123.45", Decimal("-123.45")),
    ("numeric(9,2)", DOUBLE, "-123.45", Decimal("-123.45")),
    ("numeric", PRECISE, json.dumps({"scale": 3, "value": _unscaled(5)}), "0.005"),
    ("numeric", STRING, "1E-3", "1E-3"),
    ("money", PRECISE, _unscaled(-99), Decimal("-0.99")),
    ("money", STRING, "1234.50", Decimal("1234.50")),
    ("date", {}, "20777", date(2026, 11, 20)),
    ("timestamp(3)", {}, str(SECONDS * 1000 + 456), AT),
    ("timestamp", {}, str(SECONDS * 10**6 + 456_000), AT),
    ("timestamp", {"times": "connect"}, str(SECONDS * 1000 + 456), AT),
    ("timestamp(3)", {"times": "microseconds"}, str(SECONDS * 10**6 + 456_000), AT),
    ("timestamp(3)", {"times": "nanoseconds"}, str(SECONDS * 10**9 + 456_000_000), AT),
    ("timestamptz", {}, "2026-11-20T01:02:03.456Z", AT.replace(tzinfo=UTC)),
    ("timestamp(0) with time zone", {}, "2026-11-20T01:02:03Z", AT.replace(microsecond=0, tzinfo=UTC)),
    ("time(3)", {}, "3723456", "01:02:03.456"),
    ("time", {}, "3723456789", "01:02:03.456789"),
    ("time(3)", {"times": "adaptive_time_microseconds"}, "3723456000", "01:02:03.456"),
    ("time", {"times": "connect"}, "3723456", "01:02:03.456"),
    ("time", {"times": "nanoseconds"}, "3723456789000", "01:02:03.456789"),
    ("timetz", {}, "01:02:03.456Z", "01:02:03.456Z"),
    ("interval", {}, "P1Y2M3DT4H5M6.78S", "P1Y2M3DT4H5M6.78S"),
    ("bigint", {}, "36993906780000", 36993906780000),  # an interval in numeric mode: microseconds
    ("uuid", {}, "a96a846a-25bc-bde3-4da9-c729209024fb", "a96a846a-25bc-bde3-4da9-c729209024fb"),
    ("jsonb", {}, '{"a": 1}', '{"a": 1}'),
    ("xml", {}, "<a/>", "<a/>"),
    ("bit", {}, "true", True),
    ("bit(1)", {}, "false", False),
    ("bit(12)", {}, _b64(0b00000101, 0b00001000), "100000000101"),
    ("bit(12)", {}, _b64(1), "000000000001"),
    ("bit(12)", {}, "", "000000000000"),
    ("bit(4)", {}, _b64(0xFF), None),
    ("varbit(12)", {}, _b64(0b101), "101"),
    ("hstore", {}, '{"a":null}', '{"a":null}'),
    ("text[]", {}, '["a",null]', ["a", None]),
    ("integer[]", {}, "[1,null]", [1, None]),
    ("integer[]", {}, '["x"]', None),
    ("numeric(9,2)[]", PRECISE, json.dumps([_unscaled(150), None]), [Decimal("1.50"), None]),
    ("numeric(9,2)[]", STRING, '["1.50"]', [Decimal("1.50")]),
    ("timestamp(3)[]", {}, f"[{SECONDS * 1000 + 456}]", [AT]),
    ("date[]", {}, "[0]", [date(1970, 1, 1)]),
    ("bytea[]", {}, json.dumps([_b64(0, 255)]), [bytearray(b"\x00\xff")]),
    ("enum", {}, "new", "new"),
    ("bytea", {"binary": "bytes"}, _b64(0, 255), bytearray(b"\x00\xff")),
    ("bytea", {"binary": "base64"}, _b64(0, 255), bytearray(b"\x00\xff")),
    ("bytea", {"binary": "hex"}, "00ff", bytearray(b"\x00\xff")),
    ("int4range", {}, "[1,5)", "[1,5)"),
    ("tstzrange", {}, '["2026-01-01 00:00:00+00",)', '["2026-01-01 00:00:00+00",)'),
    ("double precision", {}, "-Infinity", float("-inf")),
    ("geometry", {}, json.dumps({"wkb": _b64(1, 2), "srid": 4326}), Row(wkb=bytearray(b"\x01\x02"), srid=4326)),
    (
        "point", {}, json.dumps({"x": 1.5, "y": 2, "wkb": _b64(1), "srid": None}),
        Row(x=1.5, y=2.0, wkb=bytearray(b"\x01"), srid=None),
    ),
]  # fmt: skip


def _field(kind: str, name: str | None = None, **more: Any) -> dict[str, Any]:
    return {"type": kind, **({"name": name} if name else {}), **more}


_GEOMETRY = [_field("bytes", field="wkb"), _field("int32", field="srid", optional=True)]
_PLACE = _field("struct", "io.debezium.data.geometry.Geometry", fields=_GEOMETRY)
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_TENTHS = _field("bytes", _DECIMAL, parameters={"scale": "1", "connect.decimal.precision": "5"})
#: A field of a message schema, its text in a message, the value it is.
TOLD: list[tuple[dict[str, Any], str, Any]] = [
    (_field("bytes", _DECIMAL, parameters={"scale": "2", "connect.decimal.precision": "9"}), _unscaled(-1), Decimal("-0.01")),
    (_field("bytes", _DECIMAL, parameters={"scale": "2", "connect.decimal.precision": "60"}), _unscaled(12345), "123.45"),
    (_field("bytes", _DECIMAL, parameters={"scale": "-2"}), _unscaled(12), "1200"),
    (_field("struct", "io.debezium.data.VariableScaleDecimal"), json.dumps({"scale": 1, "value": _unscaled(-15)}), "-1.5"),
    (_field("int32", "io.debezium.time.Date"), "20777", date(2026, 11, 20)),
    (_field("int32", "org.apache.kafka.connect.data.Date"), "20777", date(2026, 11, 20)),
    (_field("int64", "io.debezium.time.Timestamp"), str(SECONDS * 1000 + 456), AT),
    (_field("int64", "org.apache.kafka.connect.data.Timestamp"), str(SECONDS * 1000 + 456), AT),
    (_field("int64", "io.debezium.time.MicroTimestamp"), str(SECONDS * 10**6 + 456_000), AT),
    (_field("int64", "io.debezium.time.NanoTimestamp"), str(SECONDS * 10**9 + 456_000_789), AT),
    (_field("string", "io.debezium.time.ZonedTimestamp"), "2026-11-20T01:02:03.456Z", AT.replace(tzinfo=UTC)),
    (_field("int32", "io.debezium.time.Time"), "3723456", "01:02:03.456"),
    (_field("int32", "org.apache.kafka.connect.data.Time"), "3723456", "01:02:03.456"),
    (_field("int64", "io.debezium.time.MicroTime"), "3723456789", "01:02:03.456789"),
    (_field("int64", "io.debezium.time.NanoTime"), "3723456789999", "01:02:03.456789"),
    (_field("string", "io.debezium.time.ZonedTime"), "01:02:03Z", "01:02:03Z"),
    (_field("int64", "io.debezium.time.MicroDuration"), "-1000", -1000),
    (_field("string", "io.debezium.time.Interval"), "P1D", "P1D"),
    (_field("string", "io.debezium.data.Uuid"), "u", "u"),
    (_field("string", "io.debezium.data.Json"), "{}", "{}"),
    (_field("string", "io.debezium.data.Xml"), "<a/>", "<a/>"),
    (_field("string", "io.debezium.data.Enum", parameters={"allowed": "a,b"}), "b", "b"),
    (_field("bytes", "io.debezium.data.Bits", parameters={"length": "3"}), _b64(0b011), "011"),
    (_field("bytes", "io.debezium.data.Bits", parameters={"length": "2147483647"}), _b64(0b011), "11"),
    (_field("map", keys=_field("string"), values=_field("string")), '{"a":"b"}', '{"a":"b"}'),
    (_field("bytes"), _b64(7), bytearray(b"\x07")),
    (_field("array", items=_field("int64", "io.debezium.time.Timestamp")), f"[{SECONDS * 1000 + 456},null]", [AT, None]),
    (_field("array", items=_TENTHS), json.dumps([_unscaled(-5)]), [Decimal("-0.5")]),
    (_field("array", items=_field("array", items=_field("int32"))), "[[1],[]]", [[1], []]),
    (_PLACE, json.dumps({"wkb": _b64(1), "srid": 1}), Row(wkb=bytearray(b"\x01"), srid=1)),
    (_field("struct", fields=[_field("string", field="a`b")]), '{"a`b":"c"}', '{"a`b":"c"}'),
]  # fmt: skip


def values(spark: SparkSession, typed: list[tuple[ColumnType, str]]) -> list[Any]:
    columns = [
        ENCODINGS[kind.encoding](F.element_at("texts", i), kind.spark, kind.arg).alias(f"c{i}")
        for i, (kind, _) in enumerate(typed, 1)
    ]
    frame = spark.createDataFrame([([text for _, text in typed],)], "texts array<string>").select(*columns)
    for (kind, _), field in zip(typed, frame.schema, strict=True):
        assert field.dataType.simpleString() == kind.spark
    row = frame.first()
    assert row is not None
    return list(row)


def _comparable(value: Any, like: Any) -> Any:
    if isinstance(value, datetime) and isinstance(like, datetime) and like.tzinfo:
        return value.astimezone(UTC)
    return value


def test_every_declared_type(spark: SparkSession) -> None:
    typed = [
        (debezium.column_types({"c": kind}, debezium.Options.model_validate(options))["c"], text)
        for kind, options, text, _ in DECLARED
    ]
    for (kind, options, text, expected), found in zip(DECLARED, values(spark, typed), strict=True):
        assert _comparable(found, expected) == expected, (kind, options, text)


def test_every_type_that_messages_tell(spark: SparkSession) -> None:
    typed = []
    for field, text, _ in TOLD:
        envelope = {"fields": [{"field": "after", "fields": [field | {"field": "c"}]}]}
        typed.append((debezium.message_types(json.dumps(envelope))["c"], text))
    for (field, text, expected), found in zip(TOLD, values(spark, typed), strict=True):
        assert _comparable(found, expected) == expected, (field, text)


def test_types_that_are_none_are_refused() -> None:
    for wrong in ("numerik", "timestamp(3) zone", "[]", "text[][]"):
        with pytest.raises(ValueError, match="PostgreSQL type"):
            debezium.column_types({"c": wrong}, debezium.Options())
