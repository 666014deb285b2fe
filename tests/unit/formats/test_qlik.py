"""Decoding Qlik's messages and binding them to metadata: every rule on a hand-written message, in one Spark job."""

from __future__ import annotations

import json
from datetime import datetime
from random import Random
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from tests.unit.formats.qlik_messages import (
    SEQUENCE,
    TABLES,
    avro_envelope,
    decode_and_bind,
    enveloped,
    feed,
    full_load,
    headers,
    message,
    metadata,
)  # fmt: skip
from tidemark.formats.contract import SchemaEntry
from tidemark.formats.qlik import decode as qlik
from tidemark.formats.qlik.masks import columns_with, columns_without, digits_of, names_by_digit, trimmed

ACCOUNTS = {"ID": "INT8", "NAME": "STRING(30)", "NOTE": "CLOB", "TOTAL": "NUMERIC(14,2)"}
LATER = {"ID": "INT8", "NAME": "STRING(30)", "EXTRA": "STRING(3)", "NOTE": "CLOB", "TOTAL": "NUMERIC(14,2)"}
WIDE = {f"C{i}": "INT4" for i in range(1, 117)}

ROW = {"ID": "7", "NAME": "Ada", "NOTE": None, "TOTAL": "12.50"}
JSON: dict[str, tuple[str, bytes | None]] = {}


def case(name: str, content: Any, topic: str = "accounts") -> None:
    assert name not in JSON
    JSON[name] = (topic, content if isinstance(content, bytes) or content is None else json.dumps(content).encode())


def named(table: str, operation: str = "UPDATE", **changes: Any) -> dict[str, Any]:
    return headers(operation, schema="SALES", table=table, **changes)


# Metadata, of several tables, versions and shapes.
case("md", metadata("SALES.ACCOUNTS", ACCOUNTS, ["ID"], schema_id="A1"), "metadata")
case("md later", enveloped(metadata("SALES.ACCOUNTS", LATER, ["ID"], version=2, schema_id="A2",
                                    timestamp="2026-11-20T05:00:00.250"), "MD"), "metadata")  # fmt: skip
case("md wide", metadata("SALES.WIDE", WIDE, ["C2", "C1"]), "metadata")
case("md pair", metadata("SALES.PAIR", {"A": "INT4", "B": "INT4", "N": "INT4"}, ["A", "B"]), "metadata")
case("md log", metadata("SALES.EVENTS", {"A": "INT4", "B": "INT4"}, []), "metadata")
case("md other key", metadata("SALES.OTHER_KEY", {"ID": "INT4", "CODE": "STRING(3)"}, ["ID"]), "metadata")
case(
    "md unusable",
    {"lineage": {"schema": "SALES", "table": "BROKEN"}, "tableStructure": {"tableColumns": {"A": 1}}},
    "metadata",
)
case("md no table", {"lineage": {"server": "x"}, "tableStructure": {"tableColumns": {"A": 1}}}, "metadata")
case("md dropped", metadata("SALES.DROPPED", {"ID": "INT4", "B": "INT4", "C": "INT4"}, ["ID"]), "metadata")
case("md dropped later", metadata("SALES.DROPPED", {"ID": "INT4", "C": "INT4"}, ["ID"], version=2,
                                  timestamp="2026-11-20T05:00:00"), "metadata")  # fmt: skip
grown = {"ID": "INT4", "EXTRA": "INT4", "NAME": "STRING(9)", "NOTE": "CLOB"}
case("md grown", metadata("SALES.GROWN", grown, ["ID"], version=2, schema_id="B2", timestamp="2026-11-20T05:00:00"),
     "metadata")  # fmt: skip
case(
    "of before all metadata", message({"ID": 1, "NAME": "x"}, named("GROWN", schemaId="B1", columnMask="03")), "orders"
)
case("of the first metadata", message({"ID": 1, "NAME": "x"}, named("GROWN", schemaId="B2", columnMask="05")), "orders")
for name, columns, time in (("md remade", {"ID": "INT4", "N": "INT4", "BIG": "CLOB"}, "2026-11-20T00:00:00"),
                            ("md remade later", {"ID": "INT4", "EXTRA": "INT4", "N": "INT4", "BIG": "CLOB"},
                             "2026-11-20T05:00:00")):  # fmt: skip
    case(name, metadata("SALES.REMADE", columns, ["ID"], version=1, timestamp=time), "metadata")
case("of a task of before", message({"ID": 1, "N": 2}, named("REMADE", tableVersion=1, columnMask="03")), "orders")
# Shapes.
case("envelope", enveloped(message(ROW, headers(changeMask="02", columnMask="0F"), {**ROW, "NAME": "A"})))
case("bare", message(ROW, headers("INSERT", changeMask="0F", columnMask="0F")))
case("flat", {**ROW, **headers("INSERT", columnMask="0F")})
case("flat update", {**ROW, **headers(columnMask="0F"), "beforeData": {**ROW, "NAME": "A"}})
prefixed = {f"data_{k}": v for k, v in ROW.items()} | {f"beforeData_{k}": v for k, v in {**ROW, "NAME": "A"}.items()}
case("flat prefixed", prefixed | {f"headers_{k}": v for k, v in headers(columnMask="0F").items()})
LEADING = {"ID": 1, "_A": "x", "__B": "y"}
for between in (".", "_", "__"):
    content = {f"{section}{between}{k}": v for section in ("data", "beforeData") for k, v in LEADING.items()}
    case(f"flat by {between}", content | {f"headers{between}{k}": v for k, v in named("LEADING").items()}, "leading")
SECTIONS = {"ID": "1", "lineage": "x", "message": "y", "tableStructure": "2", "type": "DT", "data": "z"}
case("flat with the names of sections", SECTIONS | headers("INSERT"), "sections")
case("flat by _ with the names of sections", {f"data_{k}": v for k, v in SECTIONS.items()}
     | {f"headers_{k}": v for k, v in headers("INSERT", another="x").items()}, "sections")  # fmt: skip
case("flat by _ but for the row", SECTIONS | {f"headers_{k}": v for k, v in headers("INSERT").items()}, "sections")
NOWHERE = {"none": None, "without the key": {"NAME": "A"}}
for which, image in NOWHERE.items():
    case(f"key from nowhere, {which}", message(ROW, headers(changeMask="03", columnMask="0F"), image))
case("key from somewhere", message(ROW, headers(changeMask="03", columnMask="0F"), {"ID": "6"}))
case("all marked as changed", message(ROW, headers(changeMask="0F", columnMask="0F")))
case("all that were sent marked", message(ROW, headers(changeMask="03", columnMask="03")))
case("pubsub", {"schema": "SALES", "table": "KEY_ONLY", **message({"ID": 1}, headers("INSERT"))}, "metadata")
case("talend", message(ROW, headers("INSERT", externalSchemaId="A1", lineage="x")))
case(
    "numbers",
    b'{"data":{"ID":7,"TOTAL":12345678901234567890.10,"NAME":true,"NOTE":-0.10},"headers":'
    + json.dumps(headers("INSERT", transactionEventCounter="2", transactionLastEvent="false")).encode()
    + b"}",
)
case("tombstone", None)
# Full load.
case("refresh", message(ROW, full_load()))
case("read", message(ROW, full_load(operation="READ", timestamp="2026-11-20T00:59:00.000")))
case("lower", message(ROW, headers("insert")))
# Masks.
case("absent", message({**ROW, "NAME": None}, headers(changeMask="00", columnMask="0d"), {**ROW, "NAME": None}))
case("unsent key of JSON", message({"ID": "7", "NAME": "B"}, headers(changeMask="02"), None))
case("lob", message({**ROW, "NOTE": "long"}, headers(changeMask="00", columnMask="0000000F"), ROW))
case("changed, not sent", message(ROW, headers(changeMask="04", columnMask="0B"), ROW))
case("later by columns", message({**ROW, "EXTRA": "x"}, headers(columnMask="1D"), None))
case("later by id", enveloped(message({**ROW, "EXTRA": None}, headers(columnMask="1B"), None), "DT", "A2"))
case("later by version", message({**ROW, "EXTRA": None}, headers(columnMask="1B", tableVersion=2), None))
after_ddl = "20261120060000000000000000000000001"
case("whole by columns", message(ROW, named("ACCOUNTS", schemaId="ZZ", columnMask="0F"), None))
case("dropped column", message({"ID": 7, "C": None}, named("DROPPED", columnMask="01"), None), "orders")
case("after by position", message({"ID": "7"}, headers(columnMask="01", changeSequence=after_ddl), None))
case("before by position", message({"ID": "7"}, headers(columnMask="01"), None))
case("wide", message({f"C{i}": str(i) for i in range(1, 117)},
     named("WIDE", changeMask="8" + "0" * 28, columnMask="0" + "F" * 12 + "7" + "F" * 15 + "E"),
     {"C1": "1"}), "orders")  # fmt: skip
case("declared", message({"ID": 1, "NAME": None, "NOTE": "x"}, named("DECLARED", columnMask="05")), "orders")
case("key only", message({"ID": 1, "NAME": None}, named("KEY_ONLY")), "orders")
case("other key", message({"ID": 1, "CODE": "c"}, named("OTHER_KEY", columnMask="03")), "orders")
# Keys.
case("key change", message({**ROW, "ID": "8"}, headers(columnMask="0F"), ROW))
case("before without key", message(ROW, headers(columnMask="0F"), {"ID": None, "NAME": "x"}))
case("part of a key changed", message({"A": 1, "B": 3, "N": 5}, named("PAIR", columnMask="07"), {"B": 2}), "orders")
case("part of a key changed, the rest null",
     message({"A": 1, "B": 3, "N": 5}, named("PAIR", columnMask="07"), {"A": None, "B": 2, "N": None}), "orders")  # fmt: skip
case("the rest of a key in beforeData",
     message({"A": None, "B": 3, "N": 5}, named("PAIR", columnMask="06"), {"A": 1, "B": 2}), "orders")  # fmt: skip
case(
    "part of a key stays", message({"A": 1, "B": 3, "N": 5}, named("PAIR", columnMask="07"), {"B": 3, "N": 4}), "orders"
)
case("delete", message({"ID": "7", "NAME": None, "NOTE": None, "TOTAL": None}, headers("DELETE", changeMask="01")))
case("delete by before", message(None, headers("DELETE"), ROW))
case("log update", message({"A": 1, "B": 2}, named("LOG", columnMask="3"), {"A": 1, "B": 1}), "orders")
case("log delete", message({"A": 1, "B": 2}, named("EVENTS", "DELETE")), "orders")
# Transactions.
case("no counter", message(ROW, headers("INSERT", transactionEventCounter=None)))
case("later part", message(ROW, headers("INSERT", transactionEventCounter=12, transactionLastEvent="False")))
# A column with the name of a header.
STAMPED, UNSTAMPED = {"ID": 7, "timestamp": "2020-01-01 00:00:00"}, headers("INSERT")
UNSTAMPED.pop("timestamp")
case("stamped, bare", message(STAMPED, headers("INSERT")), "stamped")
case("stamped, prefixed", {f"data_{k}": v for k, v in STAMPED.items()} | {f"headers_{k}": v for k, v in UNSTAMPED.items()},
     "stamped")  # fmt: skip
case("stamped, the row's alone", STAMPED | UNSTAMPED, "stamped")
case("stamped, the header alone", {"ID": 7, **headers("INSERT")}, "stamped")
case("stamped, another topic", STAMPED | UNSTAMPED)
# What decode refuses.
BAD = {
    "broken": (b'{"data":{"ID":1', "no data message and no metadata"),
    "array": (json.dumps([message(ROW, headers())]).encode(), "no data message and no metadata"),
    "not text": (b'{"data":{"ID":"\xff"},"headers":{"operation":"INSERT"}}', "bytes that are not UTF-8"),
    "rubbish behind it": (json.dumps(message(ROW, headers())).encode() + b"}", "no data message and no metadata"),
    "column twice": (b'{"data":{"ID":1,"ID":2},"headers":{"operation":"INSERT"}}', "names a column twice"),
    "column twice, prefixed": (b'{"data_ID":1,"ID":2,"headers_operation":"INSERT"}', "names a column twice"),
    "column twice, flattened": (b'{"ID":1,"ID":2,"operation":"INSERT"}', "names a column twice"),
    "header twice": (b'{"data":{"ID":1},"headers":{"operation":"INSERT","operation":"DELETE"}}', "a header is there twice"),
    "text": (b"hello", "no data message and no metadata"),
    "empty": (b"", "no data message and no metadata"),
    "no headers": (json.dumps({"data": ROW}).encode(), "no data message and no metadata"),
    "other type": (json.dumps(enveloped(message(ROW, headers()), "HB")).encode(), "no data message and no metadata"),
    "data of another kind": (json.dumps(message("x", headers())).encode(), "no row in data"),
    "no columns": (json.dumps(enveloped({"lineage": {}, "tableStructure": {}}, "MD")).encode(), "no tableColumns"),
    "avro": (avro_envelope(b"x"), "the value is Avro"),
    "operation": (json.dumps(message(ROW, headers("MERGE"))).encode(), "unknown operation MERGE"),
    "no sequence": (json.dumps(message(ROW, headers(changeSequence=""))).encode(), "has no changeSequence"),
    "short sequence": (json.dumps(message(ROW, headers(changeSequence="100"))).encode(), "is not 35 digits"),
    "no row": (json.dumps(message(None, headers())).encode(), "no row in data, operation UPDATE"),
    "empty row": (json.dumps(message({}, headers())).encode(), "no row in data"),
    "mask": (json.dumps(message(ROW, headers(columnMask="0G"))).encode(), "columnMask is not hexadecimal"),
    "change mask": (json.dumps(message(ROW, headers(changeMask="x"))).encode(), "changeMask is not hexadecimal"),
    "counter": (json.dumps(message(ROW, headers(transactionEventCounter="x"))).encode(), "Counter is no number"),
    "last": (json.dumps(message(ROW, headers(transactionLastEvent="maybe"))).encode(), "is not true or false"),
}  # fmt: skip
for name, (value, _) in BAD.items():
    case(name, value)
case("several tables of a topic", message(ROW, headers()), "both")
case("no table", message(ROW, headers()), "metadata")
# What bind refuses.
UNBOUND = {
    "no metadata": (named("UNKNOWN"), "the metadata message of table SALES.UNKNOWN has not come"),
    "no such schema": (named("ACCOUNTS", schemaId="ZZ", columnMask="01"), "SALES.ACCOUNTS with schemaId ZZ has not"),
    "same columns": (named("ACCOUNTS", schemaId="ZZ", columnMask="0D"), "SALES.ACCOUNTS with schemaId ZZ has not"),
    "no such version": (named("ACCOUNTS", tableVersion=9, columnMask="01"), "with tableVersion 9 has not come"),
    "metadata unusable": (named("BROKEN"), "the metadata message of table SALES.BROKEN has not come"),
    "too wide": (named("DECLARED", columnMask="0F"), "columnMask 0F has bits beyond the 3 columns of SALES.DECLARED"),
    "more columns than known": (named("PAIR", columnMask="0F"), "columnMask 0F has bits beyond the 3 columns"),
    "other order": (named("DECLARED", columnMask="0700"), "with its bytes in the other order it fits"),
    "change too wide": (named("DECLARED", changeMask="8"), "changeMask 8 has bits beyond the 3 columns"),
    "key unsent": (named("DECLARED", columnMask="06"), "lacks a value of the key ID"),
    "mask without columns": (named("KEY_ONLY", columnMask="01"), "columnMask needs the columns of SALES.KEY_ONLY"),
    "keyless partial": (named("LOG", columnMask="01"), "a table without a key needs all columns, and this lacks B"),
    "keyless without before": (named("LOG"), "an update of a table without a key needs beforeData"),
}
for name, (sent_headers, _) in UNBOUND.items():
    row_sent = (
        {"A": 1, "B": 2, "N": 3, "NEW": 4}
        if "more" in name
        else ROW
        if "same" in name
        else {"A": 1, "B": 2}
        if "keyless" in name
        else {"ID": 1}
    )
    case(name, message(row_sent, sent_headers), "orders")


@pytest.fixture(scope="module")
def in_json(spark: SparkSession) -> tuple[dict[str, Row], ...]:
    return decode_and_bind(spark, JSON, feed(TABLES))


@pytest.fixture(scope="module")
def decoded(in_json: tuple[dict[str, Row], ...]) -> dict[str, Row]:
    return in_json[0]


@pytest.fixture(scope="module")
def bound(in_json: tuple[dict[str, Row], ...]) -> dict[str, Row]:
    return in_json[1]


def test_the_good_are_good(bound: dict[str, Row]) -> None:
    refused = {
        *BAD,
        *UNBOUND,
        *(f"key from nowhere, {which}" for which in NOWHERE),
        "several tables of a topic",
        "no table",
        "md no table",
        "stamped, the row's alone",
        "stamped, the header alone",
    }
    assert {name: row.problem for name, row in bound.items() if row.problem and name not in refused} == {}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_decoded_says_why(decoded: dict[str, Row], name: str) -> None:
    row = decoded[name]
    assert (row.op, row.raw) == ("bad", JSON[name][1])
    assert BAD[name][1] in row.problem


@pytest.mark.parametrize("name", UNBOUND)
def test_what_cannot_be_bound_says_why(decoded: dict[str, Row], bound: dict[str, Row], name: str) -> None:
    assert decoded[name].problem is None
    assert UNBOUND[name][1] in bound[name].problem
    assert bound[name].unbound == decoded[name].unbound


def test_what_metadata_of_another_hour_would_mend_waits_for_them(bound: dict[str, Row]) -> None:
    waits = {name: row.waits_for for name, row in bound.items() if row.waits_for}
    assert waits == {
        "no metadata": "metadata of SALES.UNKNOWN",
        "no such schema": "metadata of SALES.ACCOUNTS with schemaId ZZ",
        "same columns": "metadata of SALES.ACCOUNTS with schemaId ZZ",
        "no such version": "metadata of SALES.ACCOUNTS with tableVersion 9",
        "metadata unusable": "metadata of SALES.BROKEN",
        "mask without columns": "metadata of SALES.KEY_ONLY",
        "more columns than known": "metadata of SALES.PAIR",
    }
    assert all(bound[name].problem for name in waits)


def test_a_table_comes_from_the_message_or_its_topic(decoded: dict[str, Row]) -> None:
    assert decoded["envelope"].source_table == "SALES.ACCOUNTS"
    assert decoded["wide"].source_table == "SALES.WIDE", "the headers win over the topic"
    assert decoded["pubsub"].source_table == "SALES.KEY_ONLY"
    for name in ("several tables of a topic", "no table", "md no table"):
        assert "the message names no table" in decoded[name].problem


def test_an_update_in_all_shapes_is_the_same(bound: dict[str, Row]) -> None:
    shapes = ("envelope", "flat update", "flat prefixed")
    for row in (bound[name] for name in shapes):
        assert (row.op, row.kind, row.position) == ("update", "UPDATE", SEQUENCE)
        assert row.after == ROW and row.before == {**ROW, "NAME": "A"}
        assert (row.key, row.prior_key, row.absent) == ({"ID": "7"}, None, None)
        assert (row.tx, row.tx_part, row.tx_ordinal, row.tx_end) == (headers()["transactionId"], "1", 1, True)
        assert row.committed_at == datetime(2026, 11, 20, 1, 2, 3)
    for row in (bound[name] for name in ("bare", "flat", "talend", "lower")):
        assert (row.op, row.after, row.before) == ("insert", ROW, None)


def test_numbers_keep_their_digits(bound: dict[str, Row]) -> None:
    row = bound["numbers"]
    assert row.after == {"ID": "7", "TOTAL": "12345678901234567890.10", "NAME": "true", "NOTE": "-0.10"}
    assert (row.tx_ordinal, row.tx_end) == (2, False)


def test_the_full_load_stands_before_every_change_and_alone(bound: dict[str, Row]) -> None:
    for name in ("refresh", "read"):
        row = bound[name]
        place = f"{'0' * 35}*{row.offset:019}"
        assert (row.op, row.position, row.tx, row.tx_part) == ("insert", place, None, None)
        assert row.after == ROW and row.key == {"ID": "7"}
    assert bound["refresh"].committed_at is None
    assert bound["read"].committed_at == datetime(2026, 11, 20, 0, 59)


def test_metadata_stand_in_the_order_of_changes(decoded: dict[str, Row]) -> None:
    first, later = decoded["md"], decoded["md later"]
    assert (first.op, first.kind, first.source_table) == ("schema", "MD", "SALES.ACCOUNTS")
    assert first.position == "2026112000000000" + "1".zfill(19)
    assert later.position == "2026112005000025" + "2".zfill(19)
    assert decoded["md unusable"].position == "0" * 35, "neither time nor version"
    change = qlik.table_change(later.message_schema, qlik.Options())
    assert list(change.columns) == list(LATER) and change.key == ("ID",)


def test_a_column_whose_bit_is_off_is_absent(bound: dict[str, Row]) -> None:
    row = bound["absent"]
    assert row.absent == ["NAME"]
    assert row.after == {"ID": "7", "NOTE": None, "TOTAL": "12.50"}
    assert row.before == {"ID": "7", "NOTE": None, "TOTAL": "12.50"}
    assert bound["unsent key of JSON"].absent == ["NOTE", "TOTAL"]
    assert bound["lob"].absent is None and bound["lob"].after["NOTE"] == "long", "changeMask says nothing of LOBs"
    assert bound["declared"].absent == ["NAME"]
    assert bound["changed, not sent"].absent == ["NOTE"]
    assert bound["changed, not sent"].notes == ["changed, but not sent: NOTE"]


def test_a_mask_of_116_columns_is_one_number(bound: dict[str, Row]) -> None:
    row = bound["wide"]
    mask = int("0" + "F" * 12 + "7" + "F" * 15 + "E", 16)
    assert row.absent == [f"C{i}" for i in range(1, 117) if not mask >> (i - 1) & 1] == ["C1", "C68"]
    assert row.key == {"C2": "2", "C1": "1"}, "C1 from beforeData"


def test_which_metadata_speak_of_a_row(bound: dict[str, Row]) -> None:
    assert bound["later by columns"].absent == ["NAME"], "though the row is older than the message"
    assert bound["whole by columns"].absent is None, "with all bits set, no ordinal matters"
    assert bound["dropped column"].absent == ["C"], "though the older metadata could hold it too"
    assert bound["later by id"].absent == ["EXTRA"]
    assert bound["later by version"].absent == ["EXTRA"]
    assert bound["of a task of before"].absent == ["BIG"], "versions count from 1 again in a task that is made anew"
    assert bound["before by position"].absent == ["NAME", "NOTE", "TOTAL"]
    assert bound["after by position"].absent == ["NAME", "EXTRA", "NOTE", "TOTAL"]


def test_declared_columns_speak_of_what_came_before_all_metadata(bound: dict[str, Row]) -> None:
    before, after = bound["of before all metadata"], bound["of the first metadata"]
    assert (before.absent, after.absent) == (["NOTE"], ["EXTRA", "NOTE"])
    assert before.after == after.after == {"ID": "1", "NAME": "x"}, "the bits of each mask are those of its columns"


def test_where_the_metadata_stand_that_a_row_names(spark: SparkSession) -> None:
    """Metadata that are sent again are the same columns once more: the row is of the newest of before it."""

    def said(position: str, **names: Any) -> SchemaEntry:
        return SchemaEntry("SALES.T", position, json.dumps(metadata("SALES.T", {"ID": "INT4"}, ["ID"], **names)))

    schemas = [said("30", schema_id="A"), said("10", schema_id="A"), said("20", schema_id="B", version=7)]
    cases = {
        ("05", "schemaId", "A"): "10", ("15", "schemaId", "A"): "10", ("40", "schemaId", "A"): "30",
        ("05", "schemaId", "B"): "20", ("40", "tableVersion", "7"): "20",
        ("40", "schemaId", "Z"): None, ("40", "avro", "A"): None,
    }  # fmt: skip
    rows = [("SALES.T", position, {name: value}, wanted) for (position, name, value), wanted in cases.items()]
    rows.append(("SALES.OTHER", "40", {"schemaId": "A"}, None))
    kind = "source_table string, position string, unbound map<string, string>, wanted string"
    at = qlik.described_at(schemas)
    assert at is not None
    found = spark.createDataFrame(rows, kind).select("source_table", "position", "unbound", "wanted", at.alias("at"))
    assert [row for row in found.collect() if row.at != row.wanted] == []
    assert qlik.described_at([SchemaEntry("SALES.T", "10", "{}")]) is None, "none can be understood"


def test_keys(bound: dict[str, Row]) -> None:
    assert (bound["key change"].key, bound["key change"].prior_key) == ({"ID": "8"}, {"ID": "7"})
    assert bound["before without key"].prior_key is None
    assert (bound["delete"].key, bound["delete"].after) == ({"ID": "7"}, None)
    assert bound["delete by before"].key == {"ID": "7"}
    assert bound["key only"].key == {"ID": "1"}
    moved = ("part of a key changed", "part of a key changed, the rest null", "the rest of a key in beforeData")
    for row in (bound[name] for name in moved):
        assert (row.key, row.prior_key) == ({"A": "1", "B": "3"}, {"A": "1", "B": "2"})
    assert bound["part of a key stays"].prior_key is None
    assert bound["other key"].key == {"CODE": "c"}, "the feed file wins"
    assert bound["log update"].key is None
    assert bound["log update"].before == {"A": "1", "B": "1"}
    assert (bound["log delete"].key, bound["log delete"].before) == (None, {"A": "1", "B": "2"})


def test_transactions(decoded: dict[str, Row]) -> None:
    alone = decoded["no counter"]
    assert alone.tx is None, "nothing would tell when it is whole"
    assert alone.tx_part == headers()["transactionId"], "which changes are together it tells all the same"
    part = decoded["later part"]
    assert (part.tx_part, part.tx_ordinal, part.tx_end) == ("12", 12, False)
    assert decoded["mask"].tx_part == "1", "a bad record does not keep its transaction waiting"
    assert (decoded["tombstone"].op, decoded["tombstone"].kind) == ("control", "tombstone")


def test_a_key_that_changes_from_nowhere_waits(bound: dict[str, Row]) -> None:
    """The row that it was stays under its old key otherwise. A source that marks all that it sends says nothing of any."""
    for which in NOWHERE:
        row = bound[f"key from nowhere, {which}"]
        assert "its key was changed, and the message does not say from what" in row.problem, which
    assert (bound["key from somewhere"].key, bound["key from somewhere"].prior_key) == ({"ID": "7"}, {"ID": "6"})
    for which in ("all marked as changed", "all that were sent marked"):
        assert (bound[which].problem, bound[which].prior_key) == (None, None), which


def test_a_column_may_be_named_as_a_section_is(bound: dict[str, Row]) -> None:
    for name in (
        "flat with the names of sections",
        "flat by _ with the names of sections",
        "flat by _ but for the row",
    ):
        assert bound[name].after == SECTIONS, name


def test_what_may_be_a_column_or_a_header_is_neither(decoded: dict[str, Row]) -> None:
    """It was the header: the column was absent for ever, and the row had the column's time for that of its commit."""
    for how in ("bare", "prefixed"):
        assert (decoded[f"stamped, {how}"].problem, decoded[f"stamped, {how}"].after) == (
            None, {name: str(value) for name, value in STAMPED.items()}
        ), how  # fmt: skip
    for how in ("the row's alone", "the header alone"):
        row = decoded[f"stamped, {how}"]
        assert (row.op, row.problem.startswith("timestamp: of a column and of a header alike")) == ("bad", True), how
    assert decoded["stamped, another topic"].problem is None


def test_a_column_may_begin_with_what_stands_behind_its_section(bound: dict[str, Row]) -> None:
    for between in (".", "_", "__"):
        assert (bound[f"flat by {between}"].after or {}).keys() == LEADING.keys(), between


def test_each_bit_of_a_mask_is_of_one_column(spark: SparkSession) -> None:
    """Columns that left have no bit any more, masks have leading zeros, and stop where no further bit is set."""
    rng = Random(5)
    ordinals = {f"c{ordinal}": ordinal for ordinal in range(1, 71) if ordinal % 6}
    masks = [
        0,
        1,
        1 << 69,
        (1 << 70) - 1,
        *(rng.getrandbits(70) for _ in range(60)),
        *(rng.getrandbits(9) for _ in range(9)),
    ]
    sent = [(f"{mask:0{width}x}", str(mask)) for mask in masks for width in (1, 24)]
    rows = spark.createDataFrame(sent, "mask string, n string")
    known = F.from_json(F.lit(json.dumps(names_by_digit(ordinals))), "array<array<array<string>>>")
    digits = digits_of(trimmed(F.col("mask")))
    read = rows.select("n", columns_with(known, digits).alias("set"), columns_without(known, digits).alias("unset"))
    for row in read.collect():
        assert row.set == [name for name, ordinal in ordinals.items() if int(row.n) >> (ordinal - 1) & 1], row.n
        assert row.unset == [name for name in ordinals if name not in row.set], row.n
