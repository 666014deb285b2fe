"""The types of Debezium's columns: declared in the feed (PostgreSQL's names), or read off a message schema.

Without message schemas nothing in a message shows a decimal's scale or a timestamp's precision: the feed declares
them, with the source's own type names. https://debezium.io/documentation/reference/connectors/postgresql (data types)
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemark.values.columns import ColumnType
from tidemark.values.encodings import ENCODINGS as COMMON
from tidemark.values.encodings import Encoding, plain
from tidemark.values.strict_json import exact_json

_TEXT = {
    "text", "varchar", "character varying", "char", "character", "bpchar", "citext", "uuid", "json", "jsonb", "xml",
    "enum", "inet", "cidr", "macaddr", "macaddr8", "ltree", "interval", "hstore", "timetz", "time with time zone",
    "int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange", "tsvector",
}  # fmt: skip
_PLAIN = {
    "smallint": "int", "int2": "int", "integer": "int", "int": "int", "int4": "int", "serial": "int",
    "smallserial": "int", "bigint": "bigint", "int8": "bigint", "bigserial": "bigint", "oid": "bigint",
    "boolean": "boolean", "bool": "boolean", "real": "float", "float4": "float", "double precision": "double",
    "float8": "double", "double": "double",
}  # fmt: skip
_STRUCTS = {
    "geometry": "struct<wkb:binary,srid:int>",
    "geography": "struct<wkb:binary,srid:int>",
    "point": "struct<x:double,y:double,wkb:binary,srid:int>",
}
#: By the name of a message schema. Releases add fields (3.7 `extensions`), which would be another type of the table.
_TOLD_STRUCTS = {f"io.debezium.data.geometry.{name.capitalize()}": spark for name, spark in _STRUCTS.items()}
_WRITTEN = re.compile(
    r"([a-z][a-z0-9_ ]*?)\s*(?:\(\s*(\d+)\s*(?:,\s*(-?\d+)\s*)?\))?(\s+with(?:out)? time zone)?(\[\])?"
)
_ZONE = "with time zone"
#: ``schema.type``: PostgreSQL's own and those of extensions are known by their name, any other is an enum of the source's.
_QUALIFIED = re.compile(r"[a-z_][a-z0-9_$]*\.([a-z_][a-z0-9_$]*)(\[\])?(.*)")


def declared_type(
    written: str, *, decimals: str, binary: str, times: str, digits: int, unwritten: Mapping[str, int]
) -> ColumnType:
    """A PostgreSQL type as the feed writes it (``numeric(14,2)``, ``timestamp(3)``, ``text[]``).

    ``decimals``, ``binary`` and ``times`` are the connector's ``decimal.handling.mode``, ``binary.handling.mode`` and
    ``time.precision.mode``; ``digits``: how many the database has behind the second at most;
    ``unwritten``: how many ``time``, ``timestamp`` and ``money`` have that do not say it. An unconstrained ``numeric`` is
    published as exact text, having no scale. Raises ValueError for an unknown type; ``schema.type`` is an enum where
    the type is not known.
    """
    of_same = partial(declared_type, decimals=decimals, binary=binary, times=times, digits=digits, unwritten=unwritten)
    if qualified := _QUALIFIED.fullmatch(written.strip().lower()):
        try:
            return of_same(written.strip().split(".", 1)[1])
        except ValueError:
            return _array(ColumnType("string")) if qualified[2] else ColumnType("string")
    match = _WRITTEN.fullmatch(written.strip().lower())
    if match is None:
        raise ValueError(f"{written!r} is not a PostgreSQL type")
    name, precision, scale, zone, array = match[1] + (match[4] or ""), match[2], match[3], match[4], match[5]
    if precision is None and match[1] in unwritten:
        precision = str(unwritten[match[1]])
    if array:
        return _array(of_same(written.strip()[:-2]))
    if name in _TEXT:
        return ColumnType("string")
    if name in _PLAIN:
        return ColumnType(_PLAIN[name])
    if name in _STRUCTS:
        return ColumnType(_STRUCTS[name], "json")
    if name in ("numeric", "decimal"):
        return _decimal(precision, scale, decimals)
    if name == "money":
        if precision is None:
            raise ValueError("money has no digits of its own in this database: write how many, `money(2)`")
        return _decimal("19", precision, decimals)
    if name == "bytea":
        return ColumnType("binary", {"bytes": "base64", "base64": "base64", "hex": "hex"}[binary])
    if name == "bit" and precision in (None, "1"):
        return ColumnType("boolean")
    if name in ("bit", "bit varying", "varbit"):
        return ColumnType("string", "bits", precision if name == "bit" else None)
    if name == "date":
        return ColumnType("date", "epoch_days")
    if name == "timestamptz" or (match[1] == "timestamp" and zone and zone.strip() == _ZONE):
        return ColumnType("timestamp")
    if match[1] == "timestamp":
        return ColumnType("timestamp_ntz", f"epoch_{_unit(precision, times, digits, clock=False)}")
    if match[1] == "time":
        return ColumnType("string", f"time_{_unit(precision, times, digits, clock=True)}")
    raise ValueError(f"{written!r} is not a PostgreSQL type that is known here")


def _unit(precision: str, times: str, digits: int, *, clock: bool) -> str:
    """The unit in which a time of day (``clock``) or a timestamp without zone is counted."""
    fixed = {"connect": "millis", "microseconds": "micros", "nanoseconds": "nanos"}
    if times in fixed:
        return fixed[times]
    precise = min(int(precision), digits)
    if 3 < precise <= 6 or (clock and times == "adaptive_time_microseconds"):
        return "micros"
    return "millis" if precise <= 3 else "nanos"


def _decimal(precision: str | None, scale: str | None, decimals: str) -> ColumnType:
    if precision is None:
        return ColumnType("string", "variable_decimal")
    if int(precision) == 0:
        raise ValueError("a numeric has at least one digit: write how many the source has")
    spark = _decimal_of(int(precision), int(scale or 0))
    if decimals == "precise" or spark == "string":
        return ColumnType(spark, "unscaled_decimal" if decimals == "precise" else "plain", scale or "0")
    return ColumnType(spark)


def _decimal_of(precision: int, scale: int) -> str:
    """Spark's type of a decimal of so many digits, text where it has none: it counts the zeros before digits that begin
    further behind the point (``numeric(3,5)``), and those behind digits that end before it (``numeric(36,-2)``)."""
    digits = max(precision - min(scale, 0), scale)
    return f"decimal({digits},{max(scale, 0)})" if precision >= 1 and digits <= 38 else "string"


def _array(item: ColumnType) -> ColumnType:
    """An array of items of a type: each is read as the type's own text is."""
    if item.spark == "string" and item.encoding == "plain":
        return ColumnType("array<string>", "json")
    return ColumnType(f"array<{item.spark}>", "items", json.dumps([item.spark, item.encoding, item.arg]))


_CONNECT = {
    "int8": "int", "int16": "int", "int32": "int", "int64": "bigint", "float": "float", "float32": "float",
    "double": "double", "float64": "double", "boolean": "boolean", "string": "string",
}  # fmt: skip
_SEMANTIC = {
    "io.debezium.time.Date": ColumnType("date", "epoch_days"),
    "org.apache.kafka.connect.data.Date": ColumnType("date", "epoch_days"),
    "io.debezium.time.Timestamp": ColumnType("timestamp_ntz", "epoch_millis"),
    "org.apache.kafka.connect.data.Timestamp": ColumnType("timestamp_ntz", "epoch_millis"),
    "io.debezium.time.MicroTimestamp": ColumnType("timestamp_ntz", "epoch_micros"),
    "io.debezium.time.NanoTimestamp": ColumnType("timestamp_ntz", "epoch_nanos"),
    "io.debezium.time.ZonedTimestamp": ColumnType("timestamp"),
    "io.debezium.time.Time": ColumnType("string", "time_millis"),
    "org.apache.kafka.connect.data.Time": ColumnType("string", "time_millis"),
    "io.debezium.time.MicroTime": ColumnType("string", "time_micros"),
    "io.debezium.time.NanoTime": ColumnType("string", "time_nanos"),
    "io.debezium.data.VariableScaleDecimal": ColumnType("string", "variable_decimal"),
}


def told_types(schema: str, *, decimals: str) -> dict[str, ColumnType]:
    """Column types of a row event by its own schema (the envelope's JSON): the fields of ``after``, else ``before``.

    Empty when the text is no such schema (the rows then keep their text). ``decimals``: as in :func:`declared_type`, since
    a schema does not say whether its converter writes Connect's Decimal as bytes or, ``numeric``, as a number of JSON.
    """
    try:
        fields = {field["field"]: field for field in json.loads(schema)["fields"]}
        row = fields.get("after") or fields["before"]
        types = {field["field"]: _connect_type(field, decimals) for field in row["fields"]}
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return {}
    return types if all(isinstance(name, str) for name in types) else {}


def _connect_type(field: dict[str, Any], decimals: str) -> ColumnType:
    semantic, kind = field.get("name"), field["type"]
    if semantic in _SEMANTIC:
        return _SEMANTIC[semantic]
    parameters = field.get("parameters") or {}
    if semantic == "org.apache.kafka.connect.data.Decimal":
        scale, precision = int(parameters.get("scale", 0)), int(parameters.get("connect.decimal.precision", 38))
        encoding = "plain" if decimals == "numeric" else "unscaled_decimal"
        return ColumnType(_decimal_of(precision, scale), encoding, str(scale))
    if semantic == "io.debezium.data.Bits":
        length = int(parameters.get("length", 0))
        return ColumnType("string", "bits", str(length) if 0 < length <= _LONGEST_BITS else None)
    if kind == "bytes":
        return ColumnType("binary", "base64")
    if kind == "array":
        return _array(_connect_type(field["items"], decimals))
    if kind == "struct" and semantic in _TOLD_STRUCTS:
        return ColumnType(_TOLD_STRUCTS[semantic], "json")
    if kind == "struct":
        return _struct(field["fields"], decimals)
    return ColumnType(_CONNECT.get(kind, "string"))


def _struct(fields: list[dict[str, Any]], decimals: str) -> ColumnType:
    """A struct of simple fields is kept as one; any other is its JSON text."""
    types = {field["field"]: _connect_type(field, decimals) for field in fields}
    simple = all(
        re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII)
        and kind.spark in (*_CONNECT.values(), "binary")
        and kind.encoding in ("plain", "base64")
        for name, kind in types.items()
    )
    if not simple or not types or len({name.lower() for name in types}) < len(fields):
        return ColumnType("string")
    return ColumnType(f"struct<{','.join(f'{name}:{kind.spark}' for name, kind in types.items())}>", "json")


#: A greater length means none: PostgreSQL's `bit varying` without a length gives the greatest integer.
_LONGEST_BITS = 1 << 20


def bits(text: Column, spark: str, arg: str | None) -> Column:
    """Bits: base64 of bytes in little-endian order → the digits as PostgreSQL writes them, ``arg`` of them.

    Without a length (``bit varying``) zeros in front are not in the message, and so not in the text.
    """

    def digits(hexadecimal: Column) -> Column:
        places = F.sequence(F.length(hexadecimal) - 1, F.lit(1), F.lit(-2))
        byte = F.transform(places, lambda at: F.lpad(F.conv(F.substring(hexadecimal, at, F.lit(2)), 16, 2), 8, "0"))
        written = F.ltrim(F.array_join(byte, ""), F.lit("0"))
        return written if arg is None else F.when(F.length(written) <= int(arg), F.lpad(written, int(arg), "0"))

    content = F.hex(F.try_to_binary(text, F.lit("base64")))
    zeros = F.when(content.isNotNull(), F.lit("0" * int(arg or 0)))
    return F.element_at(F.transform(F.array(content), lambda h: F.when(F.length(h) > 0, digits(h)).otherwise(zeros)), 1)


def items(text: Column, spark: str, arg: str | None) -> Column:
    """An array whose items are read like the text of their own type: ``arg`` holds that type as JSON.

    Null when one of them is no such value.
    """
    item_spark, encoding, item_arg = json.loads(arg or "[]")
    read = {**COMMON, **ENCODINGS}[encoding]

    def values(texts: Column) -> Column:
        pairs = F.transform(
            texts, lambda item: F.struct(item.alias("text"), read(item, item_spark, item_arg).alias("value"))
        )
        return F.element_at(
            F.transform(
                F.array(pairs),
                lambda pairs: F.when(
                    ~F.exists(pairs, lambda pair: pair["text"].isNotNull() & pair["value"].isNull()),
                    F.transform(pairs, lambda pair: pair["value"]),
                ),
            ),
            1,
        )

    return values(exact_json(text, "array<string>"))


def _counted_or_written(count: Encoding) -> Encoding:
    """A count, or the date or time that it says, as containers write those of sinks' Avro and Parquet files: there
    ``time.precision.mode=connect`` leaves dates and timestamps. No count looks like one."""

    def read(text: Column, spark: str, arg: str | None) -> Column:
        # Containers write microseconds. More digits would be cut off, unseen where they are of a key.
        written = plain(F.when(~text.rlike(r"\.\d{7}"), text), spark, arg)
        return F.coalesce(count(text, spark, arg), written)

    return read


#: Encodings of this format's own.
ENCODINGS: dict[str, Encoding] = {
    "bits": bits,
    "items": items,
    **{f"epoch_{unit}": _counted_or_written(COMMON[f"epoch_{unit}"]) for unit in ("days", "millis", "micros", "nanos")},
}
