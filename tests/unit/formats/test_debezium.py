"""Debezium's events, corner by corner: each hand-written event in one Spark job per set of options, and every type."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from pydantic import ValidationError
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from tidemark.containers.contract import RECORDS
from tidemark.feeds.model import Feed
from tidemark.formats.contract import REPLACES
from tidemark.formats.debezium import decode as debezium
from tidemark.formats.debezium.transactions import outside
from tidemark.values import encodings

ENCODINGS = {**encodings.ENCODINGS, **debezium.ENCODINGS}


def feed(**tables: Any) -> Feed:
    return Feed.model_validate(
        {
            "feed": "shop", "description": "-", "owner": "-", "topics": ["p.s.t", "p.transaction"],
            "container": {"type": "kafka_json"},
            "exports": {"path": "{topic}/dt={date}/hr={hour}/*"}, "format": {"type": "debezium"},
            "tables": {f"s.{name}": table for name, table in tables.items()},
        }
    )  # fmt: skip


#: Options → name of the case → (topic, key, value, headers). Filled by `case`, decoded once.
CASES: dict[str, dict[str, tuple[str, Any, Any, list[tuple[str, str]]]]] = {}
FEED = feed(t={}, declared={"key": ["a", "b"]}, **{"dot.ted": {"name": "s.dotted"}})


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
case("ad-hoc snapshot", event("r", {"snapshot": "last"}), {"id": 1})
case("read without a key", event("r", {"snapshot": "true", "sequence": '[null,"30"]'}))
#: Version of a connector → the place in the read of a table that its row has there.
READ_BY = {
    None: None, "1.9.5.Final": None, "1.9.6.Final": 1, "2.0.0.Beta2": None, "2.0.0.CR1": 1, "2.0.1.Final": 1,
    "3.6.3.Final": 1,
}  # fmt: skip
READ = {"sequence": '[null,"30"]', "version": "3.6.3.Final"}
for version in READ_BY:
    case(f"read by {version}", event("r", READ | {"snapshot": "true", "version": version}))
for marker in ("first", "first_in_data_collection", "last_in_data_collection", "last", "incremental"):
    case(f"read without a key, {marker}", event("r", READ | {"snapshot": marker}))
case("incremental", event("r", {"snapshot": "incremental", "lsn": None, "txId": None}), {"id": 1})
case("incremental with lsn", event("r", {"snapshot": "incremental"}), {"id": 1})
BEHIND_COMMIT = {"snapshot": "incremental", "lsn": None, "txId": None, "sequence": '["20","20"]'}
case("incremental behind a commit", event("r", BEHIND_COMMIT), {"id": 1})
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
_CODES = [*WORD.encode()]
_DIGITS = [base64.b64encode(bytes([code])).decode() for code in _CODES]
_POINT = {"x": -99999999.0, "y": -99999999.0, "wkb": "AQEAAAAAAAD8g9eXwQAAAPyD15fB"}
#: As the connectors write a value that was not in the log, by the type of its column.
UNSENT: dict[str, Any] = {
    "text": WORD, "bytea": base64.b64encode(WORD.encode()).decode(), "bytes in hex": WORD.encode().hex(),
    "text[]": [WORD], "bytea[]": [base64.b64encode(WORD.encode()).decode()],
    "uuid[]": ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"], "hstore": {WORD: WORD},
    "hstore as JSON": json.dumps({WORD: WORD}, separators=(",", ":")),
    "bigint[], int[], smallint[], date[]": _CODES, "float[], double[]": [float(code) for code in _CODES],
    "numeric(9,2)[]": _DIGITS, "numeric[]": [{"scale": 0, "value": digit} for digit in _DIGITS],
    "boolean[]": [True] * len(_CODES),
    "geometry": {"wkb": "AQEAACDmEAAAAAAA/IPXl8EAAAD8g9eXwQ==", "srid": 4326},
    "geometry of version 2": {"wkb": "AQEAACDmEAAAAAAA/IPXl8EAAAD8g9eXwQ==", "srid": 4326, "extensions": None},
    "geography": {"wkb": "AQEAACDmEAAADCHn/f9/ZkAYQs77/39WQA==", "srid": 4326},
    "point": _POINT, "point with srid": _POINT | {"srid": None},
}  # fmt: skip
for kind, placeholder in UNSENT.items():
    case(f"unsent {kind}", event("u", after={"id": 1, "x": placeholder, "y": None}), {"id": 1})
    wrapped = {"schema": {}, "payload": event("u", after={"id": 1, "x": placeholder, "y": None})}
    case(f"unsent {kind}, with schemas", wrapped, {"id": 1})
#: Values that hold the placeholder, or look like one, and are none.
SENT = {
    "among others": [WORD, "a"], "map with a value": {WORD: "a"}, "map of two": {WORD: WORD, "a": "b"},
    "in a text": f"{WORD}!", "fewer codes": _CODES[:-1], "another point": _POINT | {"y": 1.0}, "one truth": [True],
}  # fmt: skip
for kind, value in SENT.items():
    case(f"sent {kind}", event("u", after={"id": 1, "x": value}), {"id": 1})
ORACLE = {"scn": "2868546", "commit_scn": "2868570", "rs_id": " 0x00000C.0000B10D.0010 ", "ssn": 1, "txId": "0a00"}
#: A placeholder given in hexadecimal → as its bytes are written in columns of some types.
IN_HEX: dict[str, dict[str, str]] = {
    "hex:4E4f56": {"text": "NOV", "bytea": "Tk9W", "hex": "4e4f56", "text[]": '["NOV"]', "hstore": '{"NOV":"NOV"}',
                   "int[]": "[78,79,86]", "numeric[]": '["Tg==","Tw==","Vg=="]'},
    "hex:ff1f41": {"text": "\ufffd\x1fA", "bytea": "/x9B", "hex": "ff1f41", "text[]": r'["\ufffd\u001FA"]',
                   "int[]": "[-1,31,65]", "numeric[]": '["/w==","Hw==","QQ=="]'},
}  # fmt: skip
for written, texts in IN_HEX.items():
    image = {"id": 1, **texts, **{name: json.loads(text) for name, text in texts.items() if text[0] in "[{"}}
    case(f"unsent {written}", event("u", after=image), {"id": 1}, unavailable=written)
AS_WORD = {"id": 1, "text": "hex:4e4f", "other": "NO"}
case("unsent of oracle", event("u", ORACLE, after=AS_WORD), {"id": 1}, connector="oracle", unavailable="hex:4e4f")
case("truths inserted", event("c", after={"id": 1, "x": UNSENT["boolean[]"]}), {"id": 1})
case(
    "truths with before", event("u", before={"id": 1, "x": None}, after={"id": 1, "x": UNSENT["boolean[]"]}), {"id": 1}
)
KEYS = {
    "as it is": '{"id": 7}', "with space": ' {"id": 7}\n', "with schema": '{"schema": {}, "payload": {"id": 7}}',
    "no JSON": "Struct{id=7}", "a text": '"id"', "a number": "7", "empty": "", "nothing": None,
    "broken": '{"id": 7', "two": '{"id": 7}{"id": 8}', "broken inside": '{"id": 7}}',
    "hostile": '{"id": 7},"d":{"op":"t"},"x":{}',
}  # fmt: skip
for which, text in KEYS.items():
    case(f"key {which}", event(), text)
    case(f"key {which}, value with schema", {"schema": {}, "payload": event()}, text)
#: What ExtractField$Key leaves of a key, with its message schema.
ALONE = {
    "number": {"schema": {"type": "int64", "optional": False}, "payload": 7},
    "number with a default": {"schema": {"type": "int64", "optional": False, "default": 0}, "payload": 7},
    "text": {"schema": {"optional": False, "type": "string"}, "payload": "abc"},
    "array": {"schema": {"type": "array", "items": {"type": "int32"}}, "payload": [7]},
    "null": {"schema": {"type": "int64", "optional": True}, "payload": None},
}
for which, scalar in ALONE.items():
    case(f"key is a {which}", event(), scalar)
    case(f"declared key, {which}", event(source={"table": "declared"}, after={"a": 1, "b": 2, "c": 3}), scalar)
case("key of a schema without its kind", event(), {"schema": {}, "payload": 7})
BOTH = {"schema": "plain", "payload": {"a": 1}}
case("key of columns schema and payload", event(after=BOTH), BOTH)
case("no row named", event("u"))
case("row named by before", event("u", before={"id": 1, "x": None}))

MOVED = event(after={"id": 1, "x": WORD})
OLD_KEYS = {
    "plain": '{"id":7}', "with schema": '{"schema": {"type": "struct"}, "payload": {"id": 7}}',
    "line break": '{"id":"a\nb"}', "struct": "Struct{id=7}", "broken": '{"id":7',
    "number": '{"schema":{"type":"int64"},"payload":7}',
}  # fmt: skip
for which, text in OLD_KEYS.items():
    for value in ("plain", "with schema"):
        wrapped = MOVED if value == "plain" else {"schema": {}, "payload": MOVED}
        case(f"old key {which}, value {value}", wrapped, {"id": 1}, headers={"__debezium.oldkey": text})
#: As ByLogicalTableRouter leaves keys and headers, which adds a column to keys alone; and an old key that is no part of one.
ROUTED = {"id": 1, "__dbz__physicalTableIdentifier": "p.s.t"}
case("old key of a routed table", MOVED, ROUTED, headers={"__debezium.oldkey": '{"id":7}'})
case("old key of other columns", MOVED, ROUTED, headers={"__debezium.oldkey": '{"number":7}'})
case("old key not needed", event(), {"id": 1}, headers={"__debezium.oldkey": "Struct{id=7}"})

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
COMPOSED = event(source={"table": "declared"}, after={"a": 1, "b": 2}, transaction=TX)
case("key on another topic", COMPOSED, {"b": 2, "a": 1}, topic="p.routed", transactions="p.transaction")
for order, composed in {"its own": {"b": 2, "a": 1}, "another": {"a": 1, "b": 2}, "the image's": None}.items():
    case(f"key in {order} order", COMPOSED, composed, transactions="p.transaction")
case("one's end", END, topic="p.transaction", transactions="p.transaction")
case("empty", END | {"event_count": 0}, topic="p.transaction", transactions="p.transaction")
case("begin", {"status": "BEGIN", "id": "5:99", "event_count": None, "data_collections": None}, topic="p.transaction")
case("end without a count", {"status": "END", "id": 1, "n": 5}, {"id": 1}, transactions="p.transaction")
SEVERAL = {"transactions": ["p.transaction", "q.x.transaction"]}
case("of several", event(transaction=TX), {"id": 1}, **SEVERAL)
case("of another", event(source={"name": "q.x"}, transaction=TX), {"id": 1}, topic="q.x.s.t", **SEVERAL)
case("end of another", END, topic="q.x.transaction", **SEVERAL)
ONE = {"transactions": "p.transaction"}
BAD_IN_TRANSACTION: dict[str, dict[str, Any]] = {
    "an unknown op in a transaction": event("x", transaction=TX),
    "no lsn in a transaction": event(source={"lsn": None}, transaction=TX | {"total_order": 2}),
    "no row in a transaction": event(after=None, transaction=TX | {"total_order": 3}),
    "another type in a transaction": event(source={"ts_ms": ["x"]}, transaction=TX | {"total_order": 4}),
    "the same under a schema": {"schema": {}, "payload": event("x", transaction=TX | {"total_order": 5})},
}
for name, value in BAD_IN_TRANSACTION.items():
    case(name, value, {"id": 1}, **ONE)
case("bad without a transaction's number", event("x", transaction={"total_order": 1}), {"id": 1}, **SEVERAL)

#: The feed reads the topics of s.declared (p.s.declared) and of s.t.
COLLECTIONS = {"s.t": 2, "s.other": 3, "db.s.declared": 1, "x.LogicalDecodingMessageId@1f": 1}
_LISTED = [{"data_collection": name, "event_count": count} for name, count in COLLECTIONS.items()]
case(
    "end of many",
    END | {"event_count": 7, "data_collections": _LISTED},
    topic="p.transaction",
    transactions="p.transaction",
)
case("end of own", END | {"data_collections": _LISTED[:1]}, topic="p.transaction", transactions="p.transaction")
case("end, topics renamed", END | {"data_collections": _LISTED}, topic="x.transaction", transactions="x.transaction")
case("of the only one, routed", event(transaction=TX), {"id": 1}, transactions="x.transaction")

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
case("mysql incremental", event("r", MYSQL | {"snapshot": "incremental"}), {"id": 1}, connector="mysql")
case("mysql incremental without", event("r", MYSQL | {"snapshot": "incremental", "pos": None}), connector="mysql")
case("mysql without position", event("u", MYSQL | {"file": ""}), {"id": 1}, connector="mysql")
case("mysql truncate", event("t", MYSQL), connector="mysql")
SERVER = {"commit_lsn": "00000027:00000A68:0005", "change_lsn": "00000027:00000a60:0002", "event_serial_no": 2}
case("sqlserver", event("u", SERVER | {"lsn": None}), {"id": 1}, connector="sqlserver")
IN_TX = {"transaction": TX | {"id": SERVER["commit_lsn"], "total_order": 12}}
NUMBERED = {"connector": "sqlserver", "transactions": "x"}
case("sqlserver numbered", event("c", SERVER, **IN_TX), {"id": 1}, **NUMBERED)
case("sqlserver moved", event("c", SERVER, **IN_TX), {"id": 1}, headers={"__debezium.oldkey": '{"id": 7}'}, **NUMBERED)
case("sqlserver without key", event("c", SERVER, **IN_TX), **NUMBERED)
case("sqlserver loaded", event("r", SERVER | {"change_lsn": None}), {"id": 1}, **NUMBERED)
OF_END = {"id": SERVER["commit_lsn"], "event_count": 1}
case("sqlserver of a", event("c", SERVER | {"db": "a"}, **IN_TX), {"id": 1}, topic="p.a.s.t", **NUMBERED)
case("sqlserver begin", END | OF_END | {"status": "BEGIN", "event_count": None}, topic="x", **NUMBERED)
for database, tables in {"a": ("s.t",), "b": ("s.t", "s.dot.ted"), "b.c": ("s.other",)}.items():
    of_database = [{"data_collection": f"{database}.{table}", "event_count": 1} for table in tables]
    case(f"sqlserver end of {database}", END | OF_END | {"data_collections": of_database}, topic="x", **NUMBERED)
case("sqlserver snapshot", event("r", SERVER | {"change_lsn": None, "event_serial_no": None}), connector="sqlserver")
case("sqlserver without position", event("u"), {"id": 1}, connector="sqlserver")
BOTH_NULL = {
    "before": {"id": 1, "n": 1, "x": None, "y": "y", "z": None},
    "after": {"id": 1, "n": 2, "x": None, "y": None},
}
BOTH_NULL["after"] |= {"z": "__debezium_unavailable_value", "w": None}
for of in ("sqlserver", "oracle"):
    more = SERVER if of == "sqlserver" else ORACLE
    case(f"{of} null twice", event("u", more, **BOTH_NULL), {"id": 1}, connector=of)
    case(f"{of} null twice, without key", event("u", more, **BOTH_NULL | {"after": {"id": 1, "x": None}}), connector=of)
case("sqlserver wrong position", event("u", SERVER | {"change_lsn": "0x27"}), {"id": 1}, connector="sqlserver")
case("oracle", event("u", ORACLE), {"id": 1}, connector="oracle")
case("oracle snapshot", event("r", {"scn": "2868000", "txId": None}), {"id": 1}, connector="oracle")
case("xstream", event("u", ORACLE | {"rs_id": None, "ssn": 0, "lcr_position": "00AF"}), {"id": 1}, connector="oracle")
case("oracle without position", event("u", ORACLE | {"scn": None}), {"id": 1}, connector="oracle")
for number in (2, 3):  # rows of one redo record, which the connector numbers
    of_one_record = ORACLE | {"ssn": 0, "txSeq": number}
    case(f"oracle row {number} of one redo record", event("c", of_one_record), connector="oracle")
OF_ORACLE = {"connector": "oracle", "transactions": "x"}
REPLICATOR = {"scn": "2868570", "ssn": 0, "txId": "0a00"}
IN_ORACLE_TX = {"transaction": TX | {"id": "0a00", "total_order": 12}}
case("oracle numbered", event("u", ORACLE, **IN_ORACLE_TX), {"id": 1}, **OF_ORACLE)
case("openlogreplicator", event("u", REPLICATOR, **IN_ORACLE_TX), {"id": 1}, **OF_ORACLE)
case("openlogreplicator without key", event("c", REPLICATOR, **IN_ORACLE_TX), **OF_ORACLE)
case("openlogreplicator alone", event("u", REPLICATOR), {"id": 1}, **OF_ORACLE)
DB2 = {"commit_lsn": "00000000:0000004c:0000:27a9", "change_lsn": "00000000:0000004c:0000:27A0"}
case("db2", event("u", DB2), {"id": 1}, connector="db2")
case("db2 snapshot", event("r", DB2 | {"change_lsn": None, "snapshot": "true"}), connector="db2")


def _bytes(part: Any) -> bytes | None:
    return None if part is None else part.encode() if isinstance(part, str) else json.dumps(part).encode()


@pytest.fixture(scope="module")
def decoded(spark: SparkSession) -> dict[str, Row]:
    rows_by_case = {}
    for options, cases in CASES.items():
        rows = [
            (name, 1, _bytes(value) or b"", topic, 0, 5, None, _bytes(key), _bytes(value), headers, None)
            for name, (topic, key, value, headers) in cases.items()
        ]
        records = spark.createDataFrame(rows, RECORDS)
        changes = debezium.decode(records, FEED, debezium.Options.model_validate(json.loads(options)))
        rows_by_case |= {row.object: row for row in changes.collect()}
    return rows_by_case


GOOD = "00000000000000000020.00000000000000000030"


def test_a_row_has_its_place_in_the_read_that_its_time_names(decoded: dict[str, Row]) -> None:
    """Where the connector asks for the time once for each table, not for each row."""
    assert {version: decoded[f"read by {version}"].tx_ordinal for version in READ_BY} == READ_BY
    places = {"first": 0, "first_in_data_collection": 0, "last_in_data_collection": 2, "last": 2, "incremental": None}
    assert {marker: decoded[f"read without a key, {marker}"].tx_ordinal for marker in places} == places
    assert decoded["snapshot 'first'"].tx_ordinal is None, "a row with a key is named by it"


def test_the_plain_event(decoded: dict[str, Row]) -> None:
    row = decoded["plain"]
    assert (row.op, row.source_table, row.position, row.key) == ("insert", "s.t", GOOD, {"id": "1"})
    assert (row.tx, row.tx_end, row.problem) == (None, None, None)
    assert decoded["braces in text"].problem is None


@pytest.mark.parametrize("kind", UNSENT)
def test_a_placeholder_alone_makes_its_column_absent(decoded: dict[str, Row], kind: str) -> None:
    for row in (decoded[f"unsent {kind}"], decoded[f"unsent {kind}, with schemas"]):
        assert (row.after, row.absent, row.problem) == ({"id": "1", "y": None}, ["x"], None)


def test_a_placeholder_in_hexadecimal_stands_for_its_bytes(decoded: dict[str, Row]) -> None:
    """PostgreSQL's and MySQL's connectors read it so; for Oracle's it is the text."""
    for written, texts in IN_HEX.items():
        row = decoded[f"unsent {written}"]
        assert (row.after, set(row.absent or ())) == ({"id": "1"}, set(texts)), written
    assert (decoded["unsent of oracle"].after, decoded["unsent of oracle"].absent) == (
        {"id": "1", "other": "NO"},
        ["text"],
    )


@pytest.mark.parametrize("kind", SENT)
def test_a_value_that_only_holds_the_placeholder_is_a_value(decoded: dict[str, Row], kind: str) -> None:
    row = decoded[f"sent {kind}"]
    assert (set(row.after), row.absent, row.problem) == ({"id", "x"}, None, None)


def test_truths_are_the_placeholder_only_where_the_row_was_there_before(decoded: dict[str, Row]) -> None:
    for name in ("truths inserted", "truths with before"):
        assert (set(decoded[name].after), decoded[name].absent) == ({"id", "x"}, None), name


def test_snapshot_markers_of_both_generations(decoded: dict[str, Row]) -> None:
    marked = [row for name, row in decoded.items() if name.startswith("snapshot ")]
    assert len(marked) == 8
    for row in marked:
        assert (row.op, row.kind) == ("insert", "r")
    read = {name: row for name, row in decoded.items() if name.startswith("snapshot ") and "alse" not in name}
    assert {row.position for row in read.values()} == {f"{30:020}.{30:020}"}
    ends = {name for name, row in read.items() if row.notes == [REPLACES]}
    assert ends == {"snapshot 'last_in_data_collection'", "snapshot 'last'"}
    assert decoded["ad-hoc snapshot"].position == GOOD and decoded["ad-hoc snapshot"].notes is None
    assert decoded["read without a key"].notes == [REPLACES]


def test_a_row_of_an_incremental_snapshot_stands_before_the_event_that_closes_its_window(
    decoded: dict[str, Row],
) -> None:
    """Both have one place, in `lsn` or in `sequence` alone; LSNs are multiples of eight, so between there is none."""
    kinds = {row.kind for name, row in decoded.items() if "incremental" in name and row.op == "insert"}
    assert kinds == {"incremental"}, "it may have read a part of the table"
    for name in ("incremental", "incremental with lsn"):
        row = decoded[name]
        assert (row.op, row.position) == ("insert", f"{20:020}.{29:020}"), name
    behind = decoded["incremental behind a commit"].position
    assert behind == f"{20:020}.{0:020}", "the next transaction may have lower LSNs"
    assert decoded["mysql incremental"].position == f"{7:012}.{153:020}.{2:010}"
    assert (decoded["mysql incremental without"].op, decoded["mysql incremental without"].position) == ("bad", None)


def test_places_that_are_none_are_bad(decoded: dict[str, Row]) -> None:
    assert decoded["no sequence"].position == f"{30:020}.{30:020}"
    assert decoded["sequence of nulls"].position == f"{30:020}.{30:020}.{30:020}", "the first after a snapshot"
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


@pytest.mark.parametrize("value", ["", ", value with schema"])
def test_a_key_is_read_beside_its_value_and_never_for_it(decoded: dict[str, Row], value: str) -> None:
    for which in ("as it is", "with space", "with schema", "hostile"):
        row = decoded[f"key {which}{value}"]
        assert (row.op, row.key) == ("insert", {"id": "7"}), which
    for which in ("no JSON", "a text", "a number", "empty", "nothing", "broken"):
        row = decoded[f"key {which}{value}"]
        assert (row.op, row.key) == ("insert", None), which
    for which in ("two", "broken inside"):
        row = decoded[f"key {which}{value}"]
        assert (row.op, "key or value" in row.problem) == ("bad", True), which
    assert {decoded[f"key {which}{value}"].after["id"] for which in ("as it is", "hostile", "nothing")} == {"1"}


def test_a_key_of_no_columns_is_none_whether_its_schema_is_there_or_not(decoded: dict[str, Row]) -> None:
    for which in ALONE:
        assert (decoded[f"key is a {which}"].key, decoded[f"key is a {which}"].problem) == (None, None), which
        assert decoded[f"declared key, {which}"].key == {"a": "1", "b": "2"}, which


def test_columns_named_as_a_message_schema_names_its_parts_are_columns(decoded: dict[str, Row]) -> None:
    assert decoded["key of columns schema and payload"].key == {"schema": "plain", "payload": '{"a":1}'}
    assert decoded["key of a schema without its kind"].key == {"schema": "{}", "payload": "7"}


@pytest.mark.parametrize("value", ["plain", "with schema"])
def test_an_old_key_is_read_by_its_own_shape(decoded: dict[str, Row], value: str) -> None:
    for which, key in (("plain", "7"), ("with schema", "7"), ("line break", "a\nb")):
        row = decoded[f"old key {which}, value {value}"]
        assert (row.op, row.prior_key, row.absent, row.problem) == ("insert", {"id": key}, ["x"], None), which
    for which in ("struct", "broken", "number"):
        row = decoded[f"old key {which}, value {value}"]
        assert (row.op, "__debezium.oldkey" in row.problem) == ("bad", True), which
    row = decoded["old key not needed"]
    assert (row.op, row.prior_key, row.problem) == ("insert", None, None)


def test_an_old_key_has_the_columns_that_were_added_to_its_key(decoded: dict[str, Row]) -> None:
    """The row that moved would not be found by a part of its key."""
    row = decoded["old key of a routed table"]
    assert (row.key, row.prior_key) == ({k: str(v) for k, v in ROUTED.items()}, {**row.key, "id": "7"})
    assert decoded["old key of other columns"].prior_key == {"number": "7"}


def test_a_declared_key_stands_in_where_messages_carry_none(decoded: dict[str, Row]) -> None:
    assert decoded["declared key"].key == {"a": "1", "b": "2"}
    row = decoded["declared key moves"]
    assert (row.op, row.key, row.prior_key) == ("update", {"a": "1", "b": "4"}, {"a": "1", "b": "2"})
    assert (decoded["declared key stays"].key, decoded["declared key stays"].prior_key) == ({"a": "1", "b": "2"}, None)
    assert decoded["declared key goes"].key == {"a": "1", "b": "2"}
    assert decoded["declared but sent"].prior_key is None
    assert decoded["not declared"].key is None


def test_transactions_of_one_and_of_several_connectors(decoded: dict[str, Row]) -> None:
    assert (decoded["one connector"].tx, decoded["one's end"].tx) == ("p:5", "p:5"), "also when another one joins"
    assert decoded["of the only one, routed"].tx == decoded["end, topics renamed"].tx == "x:5"
    assert (decoded["one's end"].tx_end, decoded["one's end"].tx_count) == (True, 2)
    assert (decoded["empty"].op, decoded["empty"].tx_count) == ("control", 0)
    assert decoded["no transaction"].tx is None
    assert decoded["of several"].tx == "p:5"
    assert decoded["of another"].tx == decoded["end of another"].tx == "q.x:5"


@pytest.mark.promise(3)
def test_an_event_is_one_part_in_whatever_order_its_key_comes_and_on_whatever_topic(decoded: dict[str, Row]) -> None:
    """It would be two where it comes again from an export that keeps no keys, and half of its transaction would be whole."""
    ways = ("in its own order", "in another order", "in the image's order", "on another topic")
    parts = {decoded[f"key {way}"].tx_part for way in ways}
    assert len(parts) == 1 and None not in parts, parts


@pytest.mark.promise(3)
def test_each_database_of_sql_server_has_transactions_of_its_own(decoded: dict[str, Row]) -> None:
    """Their numbers are LSNs, which two logs may share; the connector sends the markers of all databases to one topic."""
    lsn = SERVER["commit_lsn"]
    names = {name: decoded[f"sqlserver {name}"].tx for name in ("of a", "end of a", "end of b", "end of b.c", "begin")}
    assert names == {
        "of a": f"a:{lsn}", "end of a": f"a:{lsn}", "end of b": f"b:{lsn}", "end of b.c": f"b.c:{lsn}", "begin": None,
    }  # fmt: skip


@pytest.mark.promise(3)
def test_an_event_that_cannot_be_decoded_names_its_transaction(decoded: dict[str, Row]) -> None:
    rows = [decoded[name] for name in BAD_IN_TRANSACTION]
    assert [(row.op, row.tx, row.tx_ordinal, row.tx_end) for row in rows] == [
        ("bad", "p:5", order, None) for order in range(1, 6)
    ]  # fmt: skip
    assert len({row.tx_part for row in rows}) == len(rows), "each is one of those that END counts"
    assert (decoded["bad without a transaction's number"].op, decoded["bad without a transaction's number"].tx) == (
        "bad", None,
    )  # fmt: skip


def test_an_end_says_how_many_changes_are_of_tables_outside_the_feed(decoded: dict[str, Row]) -> None:
    row = decoded["end of many"]
    assert (row.op, row.tx_count, row.tx_ordinal) == ("control", 7, 3 + 1), "s.other, and a message"
    assert (decoded["end of own"].tx_count, decoded["end of own"].tx_ordinal) == (2, None)
    assert decoded["end, topics renamed"].tx_ordinal is None, "then no table is known to be outside"


#: Topics of a feed that declares s.t and s.declared, and of which tables they are known not to be.
TOPICS: dict[tuple[str, ...], int | None] = {
    ("p.s.t",): 3 + 1,
    ("p.db.s.t", "p.s.declared", "__debezium-heartbeat.p"): 3 + 1,
    ("p.s.t", "p.message"): 3,
    ("p.s.all_shards",): None,
    ("p.s.t", "p.s.all_shards"): None,
    ("p.t",): None,
    ("p.ss.t",): None,
    ("q.s.t",): None,
}


@pytest.mark.promise(3)
def test_tables_are_outside_the_feed_only_where_each_topic_is_that_of_a_declared_table(spark: SparkSession) -> None:
    """Topics that are routed can keep the prefix: all shards in one, or without the schema."""
    end = spark.createDataFrame([(_LISTED,)], "listed array<struct<data_collection: string, event_count: bigint>>")
    found = {}
    for topics in TOPICS:
        of_topics = FEED.model_copy(update={"topics": [*topics, "p.transaction"]})
        (found[topics],) = end.select(outside(F.col("listed"), of_topics, "p.transaction")).first() or ()
    assert found == TOPICS


def test_a_flattened_row_with_a_status_is_no_end_of_a_transaction(decoded: dict[str, Row]) -> None:
    row = decoded["end without a count"]
    assert (row.op, row.tx, row.tx_end) == ("bad", None, None)
    assert row.problem == "the value has no op and is no BEGIN or END: not a Debezium event"
    assert decoded["begin"].op == "control"


def test_logical_messages(decoded: dict[str, Row]) -> None:
    row = decoded["message as control"]
    assert (row.op, row.source_table, row.position, row.key) == ("control", None, None, None)
    assert (row.after["prefix"], row.after["content"]) == ("a", "Yg==")
    row = decoded["message"]
    assert (row.op, row.kind, row.source_table, row.position) == ("insert", "m", "log.messages", GOOD)
    assert row.key == {"connector": "p", "lsn": "30"}
    assert (row.tx, row.tx_ordinal, row.after["transactional"]) == ("p:5", 1, "true")
    types = debezium.message_types(row.message_schema, debezium.Options())
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
    assert decoded["sqlserver snapshot"].position == f"00000027:00000a68:0005.{'f' * 22}.{0:010}"
    assert decoded["xstream"].position == f"{2868570:020}.{2868546:020}.{'0' * 124}00af.{0:020}"
    row = decoded["oracle"]
    assert row.position == f"{2868570:020}.{2868546:020}.0000000000{'0x00000c.0000b10d.0010'}.{1:020}"
    assert decoded["oracle snapshot"].position.startswith(f"{2868000:020}.{2868000:020}."), "not before all others"
    assert decoded["oracle snapshot"].position < row.position
    assert decoded["db2"].position.endswith("00000000:0000004c:0000:27a0")
    assert len(decoded["db2"].position) == 97


def test_what_is_null_before_and_after_an_update_of_sql_server_is_absent(decoded: dict[str, Row]) -> None:
    """Its change table has no other word for a large column that an update leaves as it was."""
    row = decoded["sqlserver null twice"]
    assert (row.after, row.absent) == ({"id": "1", "n": "2", "y": None, "w": None}, ["z", "x"])
    row = decoded["sqlserver null twice, without key"]
    assert (row.after, row.absent) == ({"id": "1", "x": None}, None), "it is found by its image"
    row = decoded["oracle null twice"]
    assert (row.after, row.absent) == ({"id": "1", "n": "2", "x": None, "y": None, "w": None}, ["z"])


def test_transaction_metadata_number_what_sql_server_gives_no_order(decoded: dict[str, Row]) -> None:
    names = ("numbered", "moved", "without key", "loaded")
    places = [decoded[f"sqlserver {name}"].position.removeprefix("00000027:00000a68:0005.") for name in names]
    assert places == [f"{12:020}", f"{11:020}", f"00000027:00000a60:0002.{2:010}", f"{'f' * 22}.{2:010}"]


@pytest.mark.promise(1)
def test_rows_that_one_redo_record_of_oracle_writes_have_places_of_their_own(decoded: dict[str, Row]) -> None:
    """LogMiner gives all of an array's rows one rs_id, and those of a delete one ssn too; the connector sends no ssn."""
    first, second = (decoded[f"oracle row {number} of one redo record"].position for number in (2, 3))
    assert first < second


@pytest.mark.promise(2)
def test_transaction_metadata_number_what_openlogreplicator_gives_one_scn(decoded: dict[str, Row]) -> None:
    """Its changes have no place of their own: all of a transaction have the SCN of the commit."""
    scn = f"{2868570:020}.{2868570:020}."
    for name in ("openlogreplicator", "openlogreplicator without key"):
        assert decoded[name].position == f"{scn}{12:020}"
        assert decoded[name].tx_part.endswith("|12"), "two updates of a row are two events of those that END counts"
    assert decoded["openlogreplicator alone"].position == f"{scn}{0:032}.{0:020}"
    assert decoded["oracle numbered"].position == decoded["oracle"].position


@pytest.mark.promise(1, 2)
def test_what_a_snapshot_read_stands_behind_the_commit_that_it_names(decoded: dict[str, Row]) -> None:
    """It is the last one of the database then, and in what is read: without a key its rows would be there twice."""
    for connector in ("sqlserver", "sqlserver numbered", "db2"):
        event, read = decoded[connector].position, decoded[f"{connector.split()[0]} snapshot"].position
        assert read > event and read.split(".")[0] == event.split(".")[0], connector


@pytest.mark.parametrize("name", [name for cases in CASES.values() for name in cases if "position" in name])
def test_an_event_of_another_connector_without_a_place_is_bad(decoded: dict[str, Row], name: str) -> None:
    assert (decoded[name].op, decoded[name].position) == ("bad", None)
    assert decoded[name].problem.startswith("source")


def test_options_that_cannot_be_are_refused() -> None:
    for wrong in ({"messages": "nodot"}, {"transactions": []}, {"connector": "db3"}, {"times": "isostring"}):
        with pytest.raises(ValidationError):
            debezium.Options.model_validate(wrong)


def test_what_shows_which_changes_are_together_without_metadata(decoded: dict[str, Row]) -> None:
    """The connector's own number of the transaction: events of one can have different times."""
    together = {
        name: decoded[name].tx_part for name in ("oracle", "oracle snapshot", "db2", "sqlserver", "mysql snapshot")
    }
    assert together == {
        "oracle": "0a00", "oracle snapshot": None, "db2": DB2["commit_lsn"], "sqlserver": SERVER["commit_lsn"],
        "mysql snapshot": None,
    }  # fmt: skip
    alone = decoded["no transaction"]
    assert (alone.tx, alone.tx_part) == (None, "5")
