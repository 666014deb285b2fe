"""The types of Debezium's PostgreSQL columns: declared in the feed (PostgreSQL's names), or read off a message schema.

Without message schemas nothing in a message tells a decimal's scale or a timestamp's precision: the feed says it, in
the source's own words. https://debezium.io/documentation/reference/connectors/postgresql (data types)
"""

from __future__ import annotations

import json
import re
from typing import Any

from tidemark.columns import ColumnType

_TEXT = {
    "text", "varchar", "character varying", "char", "character", "bpchar", "citext", "uuid", "json", "jsonb", "xml",
    "enum", "inet", "cidr", "macaddr", "macaddr8", "ltree", "interval", "hstore", "timetz", "time with time zone",
    "int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange", "money", "tsvector",
}  # fmt: skip
_PLAIN = {
    "smallint": "int", "int2": "int", "integer": "int", "int": "int", "int4": "int", "serial": "int",
    "bigint": "bigint", "int8": "bigint", "bigserial": "bigint", "boolean": "boolean", "bool": "boolean",
    "real": "float", "float4": "float", "double precision": "double", "float8": "double", "double": "double",
}  # fmt: skip
_WRITTEN = re.compile(r"([a-z][a-z0-9_ ]*?)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?(\s+with(?:out)? time zone)?(\[\])?")


def declared_type(written: str, *, decimals: str, binary: str) -> ColumnType:
    """A PostgreSQL type as the feed writes it (``numeric(14,2)``, ``timestamp(3)``, ``text[]``).

    ``decimals`` and ``binary`` are the connector's ``decimal.handling.mode`` and ``binary.handling.mode``. An
    unconstrained ``numeric`` is published as exact text, having no scale. Raises ValueError for an unknown type.
    """
    match = _WRITTEN.fullmatch(written.strip().lower())
    if match is None:
        raise ValueError(f"{written!r} is not a PostgreSQL type")
    name, precision, scale, zone, array = match[1] + (match[4] or ""), match[2], match[3], match[4], match[5]
    if array:
        item = declared_type(written.strip()[:-2], decimals=decimals, binary=binary)
        if item.encoding != "plain":
            raise ValueError(f"arrays of {name} cannot be read without message schemas")
        return ColumnType(f"array<{item.spark}>", "json")
    if name in _TEXT:
        return ColumnType("string")
    if name in _PLAIN:
        return ColumnType(_PLAIN[name])
    if name in ("numeric", "decimal"):
        return _decimal(precision, scale, decimals)
    if name == "bytea":
        return ColumnType("binary", {"bytes": "base64", "base64": "base64", "hex": "hex"}[binary])
    if name == "date":
        return ColumnType("date", "epoch_days")
    if name == "timestamptz" or (match[1] == "timestamp" and zone and zone.strip() == "with time zone"):
        return ColumnType("timestamp")
    short = precision is not None and int(precision) <= 3
    if match[1] == "timestamp":
        return ColumnType("timestamp_ntz", "epoch_millis" if short else "epoch_micros")
    if match[1] == "time":
        return ColumnType("string", "time_millis" if short else "time_micros")
    raise ValueError(f"{written!r} is not a PostgreSQL type that is known here")


def _decimal(precision: str | None, scale: str | None, decimals: str) -> ColumnType:
    if precision is None:
        return ColumnType("string", "variable_decimal" if decimals == "precise" else "plain")
    if int(precision) > 38:
        return ColumnType("string", "unscaled_decimal" if decimals == "precise" else "plain", scale or "0")
    spark = f"decimal({precision},{scale or 0})"
    return ColumnType(spark, "unscaled_decimal", scale or "0") if decimals == "precise" else ColumnType(spark)


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


def message_types(schema: str) -> dict[str, ColumnType]:
    """Column types of a row event by its own schema (the envelope's JSON): the fields of ``after``, else ``before``.

    Empty when the text is no such schema (the rows then keep their text).
    """
    try:
        fields = {field["field"]: field for field in json.loads(schema)["fields"]}
        row = fields.get("after") or fields["before"]
        return {field["field"]: _connect_type(field) for field in row["fields"]}
    except (ValueError, KeyError, TypeError):
        return {}


def _connect_type(field: dict[str, Any]) -> ColumnType:
    semantic = field.get("name")
    if semantic in _SEMANTIC:
        return _SEMANTIC[semantic]
    if semantic == "org.apache.kafka.connect.data.Decimal":
        parameters = field.get("parameters") or {}
        scale = str(int(parameters.get("scale", 0)))
        precision = int(parameters.get("connect.decimal.precision", 38))
        fits = precision <= 38
        return ColumnType(f"decimal({precision},{scale})" if fits else "string", "unscaled_decimal", scale)
    if field["type"] == "bytes":
        return ColumnType("binary", "base64")
    if field["type"] == "array":
        item = _connect_type(field["items"])
        return ColumnType(f"array<{item.spark}>" if item.encoding == "plain" else "array<string>", "json")
    return ColumnType(_CONNECT.get(field["type"], "string"))
