"""Qlik's messages in Avro: rows are read by the schemas that metadata carry. All in one Spark job."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from tests.unit.formats.qlik_messages import (
    METADATA,
    SEQUENCE,
    TABLES,
    avro,
    avro_envelope,
    data_schema,
    decode_and_bind,
    feed,
    full_load,
    headers,
    metadata,
)  # fmt: skip
from tidemark.formats.contract import CHANGES, SchemaEntry
from tidemark.formats.qlik import decode as qlik

AVRO: dict[str, tuple[str, bytes | None]] = {}

AVRO_COLUMNS: dict[str, Any] = {
    "ID": "long", "NAME": "string", "TOTAL": {"type": "bytes", "logicalType": "decimal", "precision": 14, "scale": 2},
    "DAY": {"type": "int", "logicalType": "date"}, "AT": {"type": "long", "logicalType": "timestamp-micros"},
    "CLOCK": {"type": "int", "logicalType": "time-millis"}, "BITS": "bytes", "RATIO": "double", "FLAG": "boolean",
}  # fmt: skip
AVRO_TYPES = {"ID": "INT8", "NAME": "STRING(30)", "TOTAL": "NUMERIC(14,2)", "DAY": "DATE", "AT": "DATETIME",
              "CLOCK": "TIME", "BITS": "BYTES(4)", "RATIO": "REAL8", "FLAG": "BOOLEAN"}  # fmt: skip
SCHEMA = data_schema(AVRO_COLUMNS)
WITH_ID = data_schema(AVRO_COLUMNS, external_id=True)
OTHER = data_schema({"ID": "string"})


def avro_row(sent_headers: dict[str, Any], before: Any = None, schema: Any = SCHEMA, **changes: Any) -> bytes:
    from datetime import UTC, date, time
    from decimal import Decimal

    row = {
        "ID": 7, "NAME": "Ada F20261120010203000000000000000000001", "TOTAL": Decimal("-12.50"),
        "DAY": date(2026, 11, 20), "AT": datetime(2026, 11, 20, 1, 2, 3, 456789, tzinfo=UTC),
        "CLOCK": time(3, 45, 51, 435000), "BITS": b"\x00\xff", "RATIO": 0.1, "FLAG": True,
    }  # fmt: skip
    return avro(schema, {"data": row | changes, "beforeData": before, "headers": sent_headers})


def avro_case(name: str, value: bytes, topic: str = "accounts") -> None:
    AVRO[name] = (topic, value)


avro_md = metadata("SALES.ACCOUNTS", AVRO_TYPES, ["ID"], schema_id="V1", data_schema=json.dumps(SCHEMA))
avro_case("md", json.dumps(avro_md).encode(), "metadata")
avro_case("md with id", avro_envelope(avro(METADATA, metadata(
    "SALES.ORDERS", AVRO_TYPES, ["ID"], version=3, schema_id="V2", data_schema=json.dumps(WITH_ID))),
    "MD", schema=METADATA), "metadata")  # fmt: skip
avro_case("md unreadable", json.dumps(metadata("SALES.ONE", {"ID": "INT4"}, ["ID"], schema_id="X1",
                                               data_schema="{}")).encode(), "metadata")  # fmt: skip
avro_case("md other", json.dumps(metadata("SALES.ONE", {"ID": "STRING(9)"}, ["ID"], schema_id="X2",
                                          data_schema=json.dumps(OTHER))).encode(), "metadata")  # fmt: skip
masks = {"changeMask": b"\x02", "columnMask": b"\xfd\x01"}
avro_case("update", avro_envelope(avro_row(headers(**masks), {"ID": 7}), schema_id="V1"))
avro_case("bare", avro_row(headers("INSERT", columnMask=b"\xff\x01", transactionEventCounter=300)))
avro_case("delete", avro_envelope(avro_row(headers("DELETE"), NAME=None), schema_id="V1"))
avro_case("refresh", avro_envelope(avro_row(full_load()), schema_id="V1"))
avro_case("refresh with time", avro_row(full_load(timestamp="2026-11-20T00:59:00.000")))
avro_case("external id", avro_row(headers("INSERT", externalSchemaId="V2"), schema=WITH_ID), "orders")
avro_case("other order", avro_envelope(avro_row(headers(columnMask=b"\x01\xff")), schema_id="V1"))
avro_case("no text", avro_row(headers("INSERT"), NAME="a place").replace(b"a place", b"a\xffplace"))
avro_case("cut", avro_row(headers("INSERT"))[:-1])
avro_case("longer", avro_row(headers("INSERT")) + b"\x00")
avro_case("head only", b"atMSG\x04")
avro_case("nothing", b"\x00\x01\x02")
avro_case("no schema", avro_envelope(avro_row(headers("INSERT")), schema_id="V9"))
avro_case("unreadable schema", avro_envelope(avro_row(headers("INSERT", schema="SALES")), schema_id="X1"), "orders")
avro_case("md of unknown layout", avro_envelope(b"\x00", "MD", schema={"type": "record", "name": "A", "fields": [
    {"name": "other", "type": "string"}]}), "metadata")  # fmt: skip


@pytest.fixture(scope="module")
def in_avro(spark: SparkSession) -> tuple[dict[str, Row], ...]:
    return decode_and_bind(spark, AVRO, feed(TABLES, messages="avro"))


def test_avro_rows_are_read_by_their_metadata(spark: SparkSession, in_avro: tuple[dict[str, Row], ...]) -> None:
    decoded, bound = in_avro
    update = bound["update"]
    assert decoded["update"].after is None and decoded["update"].op == "update"
    assert (update.problem, update.absent, update.key) == (None, ["NAME"], {"ID": "7"})
    assert update.after == {
        "ID": "7", "TOTAL": "-12.50", "DAY": "2026-11-20", "AT": "2026-11-20 01:02:03.456789",
        "CLOCK": "03:45:51.435", "BITS": "00FF", "RATIO": "0.1", "FLAG": "true",
    }  # fmt: skip
    assert update.before["ID"] == "7" and update.position == SEQUENCE
    assert (bound["bare"].op, bound["bare"].absent, bound["bare"].tx_ordinal) == ("insert", None, 300)
    assert bound["bare"].after["NAME"].startswith("Ada F2026")
    assert (bound["delete"].key, bound["delete"].after) == ({"ID": "7"}, None)
    for name in ("refresh", "refresh with time"):
        assert (bound[name].key, bound[name].tx) == ({"ID": "7"}, None)
        assert bound[name].position == f"{'0' * 35}*{bound[name].offset:019}"
    schemas = [SchemaEntry(r.source_table, r.position, r.message_schema) for r in decoded.values() if r.op == "schema"]
    in_reload = spark.createDataFrame([decoded["refresh"]], CHANGES).withColumn("position", F.lit(f"{SEQUENCE}+"))
    of = feed(TABLES, messages="avro")
    (row,) = qlik.bind(in_reload, schemas, of, of.format_options).collect()
    assert (row.position, row.problem) == (f"{SEQUENCE}+*{row.offset:019}", None)
    assert row.after == bound["refresh"].after
    assert (decoded["md with id"].op, decoded["md with id"].source_table) == ("schema", "SALES.ORDERS")
    assert decoded["md with id"].position.endswith("3")
    assert bound["external id"].problem is None
    assert bound["external id"].key == {"ID": "7"}


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("other order", "columnMask FF01 has bits beyond the 9 columns of SALES.ACCOUNTS; with its bytes in the other"),
        ("cut", "in Avro: cut short"),
        ("longer", "in Avro: cut short"),
        ("head only", "in Avro: cut short"),
        ("nothing", "in Avro: cut short"),
        ("no text", "bytes that are not UTF-8"),
        ("md of unknown layout", "in Avro: cut short, or of an unknown layout"),
        ("no schema", "SALES.ACCOUNTS with schemaId V9 has not come"),
    ],
)
def test_avro_that_cannot_be_read_says_why(in_avro: tuple[dict[str, Row], ...], name: str, problem: str) -> None:
    assert problem in in_avro[1][name].problem
