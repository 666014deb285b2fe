"""MySQL's column types, as Canal messages and DDL statements write them, and how Canal writes their values. Pure.

Every value is text: numbers and times as MySQL prints them, bytes as the characters of ISO 8859-1.
"""

from __future__ import annotations

import json
import re

from pydantic import BaseModel

from tidemark.values.columns import ColumnType

_INTEGERS = {
    "tinyint": "int", "smallint": "int", "mediumint": "int", "int": "int", "integer": "int", "bigint": "bigint",
    "int2": "int", "int3": "int", "int4": "int", "int8": "bigint", "middleint": "int", "year": "int",
}  # fmt: skip
_UNSIGNED = {"int": "bigint", "integer": "bigint", "int4": "bigint", "bigint": "decimal(20,0)", "int8": "decimal(20,0)"}
_FLOATS = {"float": "float", "double": "double", "double precision": "double", "real": "double"}
_TEXTS = {
    "char", "varchar", "nchar", "nvarchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "json", "time",
    "character", "character varying",
}  # fmt: skip
_BYTES = {
    "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "geometry", "point", "linestring", "polygon",
    "multipoint", "multilinestring", "multipolygon", "geometrycollection", "geomcollection",
}  # fmt: skip
_WRITTEN = re.compile(r"([a-z][a-z0-9]*(?: precision| varying)?)\s*(?:\((.*?)\))?\s*(.*)", re.S)

#: The name of the encoding of bytes.
LATIN_BYTES = "latin1_bytes"


def mysql_type(written: str) -> ColumnType:
    """A type as MySQL writes it (``bigint(20) unsigned``, ``decimal(12,2)``). Raises ValueError for an unknown one.

    DATETIME and TIMESTAMP are without a zone here: messages give a timestamp in the zone of the server that reads the
    log, and do not say which it is.
    """
    match = _WRITTEN.fullmatch(written.strip().lower())
    name, arguments, rest = (match[1], match[2], match[3]) if match else ("", None, "")
    unsigned = "unsigned" in rest or "zerofill" in rest
    if name == "year":
        return ColumnType("int")
    if name in _INTEGERS:
        return ColumnType(_UNSIGNED.get(name, _INTEGERS[name]) if unsigned else _INTEGERS[name])
    if name in ("decimal", "numeric", "dec", "fixed"):
        precision, scale = ([*re.findall(r"\d+", arguments or "10"), "0"])[:2]
        return ColumnType(f"decimal({precision},{scale})" if int(precision) <= 38 else "string")
    if name in _FLOATS:
        return ColumnType(_FLOATS[name])
    if name in ("bool", "boolean"):
        return ColumnType("int")
    if name == "bit":
        return ColumnType("decimal(20,0)" if int(arguments or 1) > 63 else "bigint")
    if name == "date":
        return ColumnType("date")
    if name in ("datetime", "timestamp"):
        return ColumnType("timestamp_ntz")
    if name in _BYTES:
        return ColumnType("binary", LATIN_BYTES)
    if name in _TEXTS:
        return ColumnType("string")
    raise ValueError(f"{written!r} is not a MySQL type that is known here")


def message_types(schema: str, options: BaseModel) -> dict[str, ColumnType]:
    """Column types by a message's ``mysqlType`` (JSON); empty when the text is none. An unknown type is text."""
    try:
        return {name: type_or_text(written) for name, written in json.loads(schema).items()}
    except (ValueError, AttributeError):
        return {}


def type_or_text(written: object) -> ColumnType:
    """Like :func:`mysql_type`; an unknown type is text."""
    try:
        return mysql_type(str(written))
    except ValueError:
        return ColumnType("string")


def default_text(value: str | bytes, written: str) -> str:
    """A default of a DDL statement, as messages would write it. ``written``: the column's type. Of an ENUM Canal sends the
    place in its list, of a SET its places as bits (RowsLogBuffer in https://github.com/alibaba/canal)."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    kind, _, listed = written.partition("(")
    if kind.strip().upper() not in ("ENUM", "SET"):
        return value
    members = [member.replace("''", "'") for member in re.findall(r"'((?:[^']|'')*)'", listed)]
    if kind.strip().upper() == "ENUM":
        return str(members.index(value) + 1)
    return str(sum(1 << members.index(part) for part in {*value.split(",")} - {""}))
