"""Types of Debezium, declared and told by messages: each with the text of a value and the value that it becomes."""

from __future__ import annotations

import base64
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from tidemark.containers import connect_avro, connect_parquet
from tidemark.formats.debezium import decode as debezium
from tidemark.values import encodings
from tidemark.values.columns import ColumnType

ENCODINGS = {**encodings.ENCODINGS, **debezium.ENCODINGS}


def _unscaled(number: int) -> str:
    return base64.b64encode(
        number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)
    ).decode()


def _written(unscaled: int, scale: int) -> str:
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    return f"{'-' if unscaled < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"


def _b64(*octets: int) -> str:
    return base64.b64encode(bytes(octets)).decode()


PRECISE, STRING, DOUBLE, NUMERIC = ({"decimals": mode} for mode in ("precise", "string", "double", "numeric"))
AT = datetime(2026, 11, 20, 1, 2, 3, 456_000)
SECONDS = int((AT - datetime(1970, 1, 1)).total_seconds())
#: PostgreSQL's type, the connector's options, its text in a message, the value it is.
DECLARED: list[tuple[str, dict[str, str], str, Any]] = [
    ("numeric(9,2)", PRECISE, _unscaled(-12345), Decimal("-123.45")),
    ("numeric(9,2)", STRING, "-123.45", Decimal("-123.45")),
    ("numeric(9,2)", DOUBLE, "-123.45", Decimal("-123.45")),
    ("numeric", PRECISE, json.dumps({"scale": 3, "value": _unscaled(5)}), "0.005"),
    ("numeric", STRING, "1E-3", "1E-3"),
    *[("numeric", mode, json.dumps({"scale": 3, "value": _unscaled(1504)}), "1.504") for mode in (STRING, DOUBLE, NUMERIC)],
    ("numeric[]", NUMERIC, json.dumps([{"scale": -2, "value": _unscaled(1)}, 1.5]), ["100", "1.5"]),
    *[
        ("numeric", PRECISE, json.dumps({"scale": 3, "value": _unscaled(sign * number)}), _written(sign * number, 3))
        for number in (10**37, 2**127 - 1, 2**127, 10**38, 10**39 - 7, 2**128, 2**200 + 1, 10**500 + 10**9, 10**2000)
        for sign in (1, -1)
    ],
    ("numeric(60,2)", PRECISE, _unscaled(-(10**58) - 5), f"-1{'0' * 56}.05"),
    *[("numeric(3,5)", mode, text, Decimal("0.00123")) for mode, text in ((PRECISE, _unscaled(123)), (STRING, "0.00123"))],
    ("numeric(36,-2)", PRECISE, _unscaled(12345), Decimal(1234500)),
    ("numeric(36,-2)", PRECISE, _unscaled(-(10**36) + 1), Decimal(f"-{'9' * 36}00")),
    ("numeric(36, -2)", STRING, "1234500", Decimal(1234500)),
    ("numeric(36,-3)", PRECISE, _unscaled(12), "12000"),
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
    ("time", {}, "86400000000", "24:00:00"),
    ("time", {}, "86400000001", None),
    ("time", {}, "-1", None),
    ("time", {"connector": "mysql"}, "-3020399000000", "-838:59:59"),
    ("time", {"connector": "mysql"}, "3020399000001", None),
    ("time(3)", {}, "86400000", "24:00:00"),
    ("time", {"times": "nanoseconds"}, "86400000000000", "24:00:00"),
    ("time", {"times": "connect"}, "3723456", "01:02:03.456"),
    ("time", {"times": "nanoseconds"}, "3723456789000", "01:02:03.456789"),
    *[("time(3)", {"connector": "mysql", **more}, count, "01:02:03.456")
      for more, count in (({}, "3723456000"), ({"times": "adaptive"}, "3723456"))],
    *[("timestamp(3)", {"connector": connector}, str(SECONDS * 1000 + 456), AT) for connector in ("mysql", "sqlserver")],
    ("time(3)", {"connector": "sqlserver"}, "3723456", "01:02:03.456"),
    ("time(7)", {"connector": "sqlserver"}, "3723456789100", "01:02:03.4567891"),
    ("time(7)", {"connector": "sqlserver", "times": "adaptive_time_microseconds"}, "3723456789", "01:02:03.456789"),
    *[(f"timestamp({digits})", {"connector": connector, **more}, str(SECONDS * 10**9 + 456_000_000), AT)
      for digits, connector in ((7, "sqlserver"), (9, "oracle"), (9, "db2"))
      for more in ({}, {"times": "adaptive_time_microseconds"})],
    ("money", {"connector": "sqlserver"}, _unscaled(63230), Decimal("6.3230")),
    ("money(2)", {"connector": "oracle"}, _unscaled(632), Decimal("6.32")),
    ("time", {"connector": "sqlserver"}, "600000000000", "00:10:00"),
    ("time", {"connector": "db2"}, "43200000", "12:00:00"),
    ("timestamp", {"connector": "mysql"}, str(SECONDS * 1000 + 456), AT),
    ("timestamp", {"connector": "sqlserver"}, str(SECONDS * 10**9 + 456_000_000), AT),
    *[("timestamp", {"connector": of}, str(SECONDS * 10**6 + 456_000), AT) for of in ("oracle", "db2")],
    ("timestamp(9)", {}, str(SECONDS * 10**6 + 456_000), AT),  # PostgreSQL makes timestamp(6) of it
    # As containers write the dates and times of sinks' files.
    ("date", {}, "2026-11-20", date(2026, 11, 20)),
    ("date", {}, "2026-11-20T01:02:03", None),
    *[("timestamp(3)", {"times": times}, f"{AT.isoformat()}{zone}", AT)
      for times, zone in (("adaptive", ""), ("connect", "Z"), ("microseconds", "Z"), ("nanoseconds", "Z"))],
    ("timestamp", {"times": "nanoseconds"}, "2026-11-20T01:02:03.1234567", None),
    ("timestamp", {}, "2026-11-20T01:02:03+01:00", None),
    ("date[]", {}, '["2026-11-20",null]', [date(2026, 11, 20), None]),
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
    ("shop.mood", {}, "happy", "happy"),
    ("shop.mood[]", {}, '["happy",null]', ["happy", None]),
    ("pg_catalog.int4", {}, "7", 7),
    ("public.numeric(9,2)", STRING, "1.50", Decimal("1.50")),
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
_EXTENSIONS = _field("map", field="extensions", keys=_field("string"), values=_field("string"), optional=True)
_PLACE_OF_3_7 = _PLACE | {"fields": [*_GEOMETRY, _EXTENSIONS]}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_TENTHS = _field("bytes", _DECIMAL, parameters={"scale": "1", "connect.decimal.precision": "5"})
#: A field of a message schema, its text in a message, the value it is.
TOLD: list[tuple[dict[str, Any], str, Any]] = [
    (_field("bytes", _DECIMAL, parameters={"scale": "2", "connect.decimal.precision": "9"}), _unscaled(-1), Decimal("-0.01")),
    (_field("bytes", _DECIMAL, parameters={"scale": "2", "connect.decimal.precision": "60"}), _unscaled(12345), "123.45"),
    (_field("bytes", _DECIMAL, parameters={"scale": "-2"}), _unscaled(12), "1200"),
    (_field("bytes", _DECIMAL, parameters={"scale": "5", "connect.decimal.precision": "3"}), _unscaled(1), Decimal("1E-5")),
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
    (_field("int64", "io.debezium.time.NanoTime"), "3723456789999", "01:02:03.456789999"),
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
    (_PLACE_OF_3_7, json.dumps({"wkb": _b64(1), "srid": 1, "extensions": None}), Row(wkb=bytearray(b"\x01"), srid=1)),
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


def _told(field: dict[str, Any], options: dict[str, str]) -> ColumnType:
    """The type of a column by a message schema of which it is a field."""
    envelope = {"fields": [{"field": "after", "fields": [field | {"field": "c"}]}]}
    return debezium.message_types(json.dumps(envelope), debezium.Options.model_validate(options))["c"]


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
    typed = [(_told(field, {}), text) for field, text, _ in TOLD]
    for (field, text, expected), found in zip(TOLD, values(spark, typed), strict=True):
        assert _comparable(found, expected) == expected, (field, text)


def test_times_of_day_are_spans_of_mysql_alone(spark: SparkSession) -> None:
    field = _field("int64", "io.debezium.time.MicroTime")
    typed = [(_told(field, {"connector": of}), "-3020399000000") for of in ("mysql", "postgresql")]
    assert values(spark, typed) == ["-838:59:59", None]


def test_dates_and_times_of_a_sinks_files_are_read_as_they_are(spark: SparkSession, tmp_path: Path) -> None:
    """Of time.precision.mode=connect: a converter that knows schemas leaves the files' own types in them."""
    columns = {"day": "date", "at": "timestamp(3)", "clock": "time(3)"}
    row = {"day": AT.date(), "at": AT.replace(tzinfo=UTC), "clock": AT.time()}
    logical = {"day": ("int", "date"), "at": ("long", "timestamp-millis"), "clock": ("int", "time-millis")}
    fields = [{"name": name, "type": {"type": of, "logicalType": kind}} for name, (of, kind) in logical.items()]
    with (tmp_path / "t+0+0000000000.avro").open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "R", "fields": fields}, [row])
    stamps = pa.array([row["at"]], pa.timestamp("ms", "UTC"))
    pq.write_table(pa.table({"day": [row["day"]], "at": stamps}), tmp_path / "t+0+0000000000.parquet")
    types = debezium.column_types(columns, debezium.Options(times="connect"))
    for container, ending, wanted in ((connect_avro, "avro", [*columns]), (connect_parquet, "parquet", ["day", "at"])):
        read = container.read(spark, [str(tmp_path / f"t+0+0000000000.{ending}")], container.Options()).first()
        assert read is not None
        texts = json.loads(read.value)
        found = values(spark, [(types[name], str(texts[name])) for name in wanted])
        assert found == [AT.date(), AT, "01:02:03.456"][: len(wanted)], ending


def test_a_schema_does_not_say_that_its_decimals_are_numbers_of_json(spark: SparkSession) -> None:
    """Four digits would be bytes in base64 too, of another number."""
    whole = _field("bytes", _DECIMAL, parameters={"scale": "0", "connect.decimal.precision": "10"})
    wide = _field("bytes", _DECIMAL, parameters={"scale": "2", "connect.decimal.precision": "60"})
    sent = [(whole, "1234", Decimal(1234)), (_TENTHS, "-12.50", Decimal("-12.5")), (_TENTHS, "0.05", None),
            (wide, "12345.67", "12345.67"), (_field("array", items=whole), "[1234,null]", [Decimal(1234), None])]  # fmt: skip
    found = values(spark, [(_told(field, NUMERIC), text) for field, text, _ in sent])
    assert found == [expected for _, _, expected in sent]


def test_types_that_are_none_are_refused() -> None:
    for wrong in ("numerik", "timestamp(3) zone", "[]", "text[][]"):
        with pytest.raises(ValueError, match="PostgreSQL type"):
            debezium.column_types({"c": wrong}, debezium.Options())
    with pytest.raises(ValueError, match="at least one digit"):
        debezium.column_types({"c": "numeric(0)"}, debezium.Options())
    with pytest.raises(ValueError, match="money has no digits"):
        debezium.column_types({"c": "money"}, debezium.Options(connector="oracle"))
