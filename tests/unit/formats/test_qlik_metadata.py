"""Metadata messages, types and masks of Qlik: all that needs no Spark."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import fastavro
import pytest

from tidemark.formats.qlik.masks import bit_of, full_mask
from tidemark.formats.qlik.metadata import read_metadata, table_change
from tidemark.formats.qlik.types import column_type, declared_type
from tidemark.values.columns import ColumnType


def metadata(**changes: Any) -> dict[str, Any]:
    content = {
        "schemaId": "8F0A",
        "lineage": {
            "server": "repl", "task": "crm", "schema": "SALES", "table": "ACCOUNTS", "tableVersion": 2,
            "timestamp": "2026-11-20T01:02:03.456",
        },
        "tableStructure": {
            "tableColumns": {
                "NAME": {"ordinal": 2, "type": "STRING", "length": 30, "precision": 0, "scale": 0,
                         "primaryKeyPosition": 0},
                "ID": {"ordinal": 1, "type": "INT8", "length": 0, "precision": 0, "scale": 0, "primaryKeyPosition": 2},
                "REGION": {"ordinal": 4, "type": "STRING", "length": 2, "primaryKeyPosition": 1},
                "TOTAL": {"ordinal": 3, "type": "NUMERIC", "length": 0, "precision": 14, "scale": 2,
                          "primaryKeyPosition": 0},
            }
        },
        "dataSchema": '{"type":"record"}',
    }  # fmt: skip
    return content | changes


def columns(**types: dict[str, Any] | None) -> dict[str, Any]:
    return metadata(tableStructure={"tableColumns": types})


def test_a_message_tells_columns_in_order_types_and_key() -> None:
    found = read_metadata(json.dumps(metadata()))
    assert list(found.ordinals.items()) == [("ID", 1), ("NAME", 2), ("TOTAL", 3), ("REGION", 4)]
    assert found.columns["TOTAL"] == ColumnType("decimal(14,2)")
    assert found.key == ("REGION", "ID"), "in the order of primaryKeyPosition"
    assert (found.schema_id, found.version, found.data_schema) == ("8F0A", "2", '{"type":"record"}')


def test_an_envelope_and_numbers_as_text_make_no_difference() -> None:
    plain = metadata()
    text = json.loads(json.dumps(plain), parse_int=str)
    enveloped = {"magic": "atMSG", "type": "MD", "headers": None, "messageSchemaId": None, "message": text}
    assert read_metadata(json.dumps(enveloped)) == read_metadata(json.dumps(plain))


def test_columns_may_be_listed_and_the_data_schema_an_object() -> None:
    listed = [{"name": name, **column} for name, column in metadata()["tableStructure"]["tableColumns"].items()]
    found = metadata(tableStructure={"tableColumns": listed}, dataSchema={"type": "record"})
    assert read_metadata(json.dumps(found)).ordinals == read_metadata(json.dumps(metadata())).ordinals
    assert read_metadata(json.dumps(found)).data_schema == '{"type": "record"}'


def test_a_table_change_is_whole() -> None:
    change = table_change(json.dumps(metadata()))
    assert change.whole and change.key == ("REGION", "ID")
    assert list(change.columns) == ["ID", "NAME", "TOTAL", "REGION"]
    keyless = table_change(json.dumps(columns(A={"ordinal": 1, "type": "INT4", "primaryKeyPosition": 0})))
    assert keyless.key == ()


def test_avro_is_read_with_the_schema_it_brings() -> None:
    column = {
        "type": "record", "name": "Column",
        "fields": [
            {"name": name, "type": "string" if name == "type" else "int"}
            for name in ("ordinal", "type", "length", "precision", "scale", "primaryKeyPosition")
        ],
    }  # fmt: skip
    structure = {
        "type": "record", "name": "Structure",
        "fields": [{"name": "tableColumns", "type": {"type": "map", "values": column}}],
    }  # fmt: skip
    schema = {
        "type": "record", "name": "Metadata",
        "fields": [{"name": "schemaId", "type": "string"}, {"name": "tableStructure", "type": structure},
                   {"name": "dataSchema", "type": ["null", "string"]}],
    }  # fmt: skip
    message = {
        "schemaId": "77", "dataSchema": "{}",
        "tableStructure": {"tableColumns": {"ID": {"ordinal": 1, "type": "INT4", "length": 0, "precision": 0,
                                                   "scale": 0, "primaryKeyPosition": 1}}},
    }  # fmt: skip
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), message)
    body = base64.b64encode(out.getvalue()).decode()
    found = read_metadata(json.dumps({"messageSchema": json.dumps(schema), "message": body}))
    assert (found.schema_id, found.key, found.data_schema) == ("77", ("ID",), "{}")
    with pytest.raises(ValueError, match="in Avro cannot be read"):
        read_metadata(json.dumps({"messageSchema": json.dumps(schema), "message": body[:8]}))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "no JSON"),
        ("[]", "no JSON object"),
        ("[" * 100_000, "no JSON"),
        ("{}", "has no tableStructure"),
        (json.dumps(metadata(tableStructure={"tableColumns": {}})), "has no tableColumns"),
        (json.dumps(columns(A=None)), "says nothing of column A"),
        (json.dumps(columns(A={"type": "INT4"})), "ordinal None"),
        (json.dumps(columns(A={"ordinal": 0, "type": "INT4"})), "ordinal 0"),
        (json.dumps(columns(A={"ordinal": 70000, "type": "INT4"})), "ordinal 70000"),
        (json.dumps(columns(A={"ordinal": "x", "type": "INT4"})), "the ordinal 'x'"),
        (json.dumps(columns(A={"ordinal": 1.5, "type": "INT4"})), "the ordinal 1.5"),
        (json.dumps(columns(A={"ordinal": 1})), "column A no type"),
        (json.dumps(columns(A={"ordinal": 1, "type": "GEOMETRY"})), "column A: 'GEOMETRY' is not a data type"),
        (json.dumps(columns(A={"ordinal": 1, "type": "INT4"}, B={"ordinal": 1, "type": "INT4"})), "one ordinal"),
    ],
)
def test_what_says_no_table_is_told_to_a_person(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read_metadata(text)


def test_types() -> None:
    spark = {
        "BOOLEAN": "boolean", "int1": "int", "INT2": "int", "INT4": "int", "INT8": "bigint", "UINT1": "int",
        "UINT2": "int", "UINT4": "bigint", "UINT8": "decimal(20,0)", "REAL4": "float", "REAL8": "double",
        "NUMERIC(14,2)": "decimal(14,2)", "NUMERIC( 38 )": "decimal(38,0)", "NUMERIC(39,2)": "string",
        "NUMERIC(5,6)": "string", "DATE": "date", "TIME": "string", "DATETIME": "timestamp_ntz",
        "STRING(30)": "string", "WSTRING": "string", "CLOB": "string", "NCLOB": "string", "BYTES(16)": "binary",
        "BLOB": "binary", "INT4 (10)": "int",
    }  # fmt: skip
    assert {written: declared_type(written).spark for written in spark} == spark
    assert declared_type("BYTES").encoding == "hex"
    assert column_type("NUMERIC") == ColumnType("string"), "without a precision: the exact text"


@pytest.mark.parametrize("written", ["VARCHAR2(3)", "NUMERIC", "", "INT4;", "NUMERIC(a)", "STRING(3"])
def test_an_unknown_declared_type_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match=r"Replicate|precision"):
        declared_type(written)


def test_masks_are_one_number_of_any_width() -> None:
    assert bit_of(1) == (0, "13579BDF"), "the last digit's lowest bit"
    assert bit_of(4) == (0, "89ABCDEF")
    assert bit_of(16)[0] == 3
    assert full_mask(16) == "FFFF"
    assert full_mask(116) == "F" * 29
    assert full_mask(5) == "1F"
    for mask in ("008080", "0B", "8" + "0" * 40):
        ordinals = {o for o in range(1, 200) if mask[::-1][bit_of(o)[0] : bit_of(o)[0] + 1] in tuple(bit_of(o)[1])}
        assert ordinals == {i + 1 for i in range(200) if int(mask, 16) >> i & 1}
