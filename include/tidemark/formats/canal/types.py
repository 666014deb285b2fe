"""MySQL's column types, as Canal messages and DDL statements write them, and how Canal writes their values. Pure.

Every value is text: numbers and times as MySQL prints them, bytes as the characters of ISO 8859-1.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal

from pydantic import BaseModel
from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemark.formats.ddl.mysql_types import in_known_name
from tidemark.values.columns import ColumnType

_INTEGERS = {
    "tinyint": "int", "smallint": "int", "mediumint": "int", "int": "int", "bigint": "bigint", "year": "int",
}  # fmt: skip
_UNSIGNED = {"int": "bigint", "bigint": "decimal(20,0)"}
_FLOATS = {"float": "float", "double": "double"}
_TEXTS = {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "time"}
_BYTES = {"varbinary", "tinyblob", "blob", "mediumblob", "longblob", "geometry"}
_WRITTEN = re.compile(r"([a-z][a-z0-9]*)\s*(?:\((.*?)\))?\s*(.*)", re.S)

_MEMBER = re.compile(r"'((?:[^']|'')*)'")

#: The names of the encodings of bytes, whose argument is the length of all values, where they have one; and of the words of
#: an ENUM and a SET, whose lists are their arguments, as JSON.
LATIN_BYTES, ENUM_PLACE, SET_BITS = "latin1_bytes", "mysql_enum", "mysql_set"
#: The name of the encoding of JSON.
JSON_TEXT = "mysql_json"


def mysql_type(written: str) -> ColumnType:
    """A type as MySQL writes it (``bigint(20) unsigned``, ``decimal(12,2)``). Raises ValueError for an unknown one.

    DATETIME and TIMESTAMP are without a zone here: messages give a timestamp in the zone of the server that reads the
    log, and do not say which it is.
    """
    match = _WRITTEN.fullmatch(in_known_name(written.strip()).lower())
    name, arguments, rest = (match[1], match[2], match[3]) if match else ("", None, "")
    unsigned = "unsigned" in rest or "zerofill" in rest
    if name == "year":
        return ColumnType("int")
    if name in _INTEGERS:
        return ColumnType(_UNSIGNED.get(name, _INTEGERS[name]) if unsigned else _INTEGERS[name])
    if name == "decimal":
        precision, scale = ([*re.findall(r"\d+", arguments or "10"), "0"])[:2]
        return ColumnType(f"decimal({precision},{scale})" if int(precision) <= 38 else "string")
    if name == "float" and arguments and arguments.strip().isdigit() and int(arguments) > 24:  # its precision in bits
        return ColumnType("double")
    if name in _FLOATS:
        return ColumnType(_FLOATS[name])
    if name == "bit":
        return ColumnType("decimal(20,0)" if int(arguments or 1) > 63 else "bigint")
    if name == "date":
        return ColumnType("date")
    if name in ("datetime", "timestamp"):
        return ColumnType("timestamp_ntz")
    if name == "binary":  # whose values have all one length, of which the binlog leaves out the zeros at the end
        return ColumnType("binary", LATIN_BYTES, (arguments or "1").strip())
    if name in _BYTES:
        return ColumnType("binary", LATIN_BYTES)
    if name in ("enum", "set") and (words := _words(written)):
        return ColumnType("string", ENUM_PLACE if name == "enum" else SET_BITS, json.dumps(words, ensure_ascii=False))
    if name == "json":
        return ColumnType("string", JSON_TEXT)
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


def _words(written: str) -> list[str]:
    """The list of an ENUM or a SET."""
    return [word.replace("''", "'") for word in _MEMBER.findall(written)]


def enum_word(text: Column, spark: str, arg: str | None) -> Column:
    """The word of an ENUM. Canal sends its place in the list, as the binlog has it (RowsLogBuffer in
    https://github.com/alibaba/canal), 0 for the empty one that MySQL stores where a word is none of it. A default of a
    statement, and what another tool writes, is the word itself."""
    words, place = F.from_json(F.lit(arg), "array<string>"), text.try_cast("int")
    word = F.when(F.array_contains(words, text), text)
    return F.when(place == 0, F.lit("")).when(place.isNotNull(), F.get(words, place - 1)).otherwise(word)


def set_words(text: Column, spark: str, arg: str | None) -> Column:
    """The words of a SET, as MySQL prints them. Canal sends their places as bits; see :func:`enum_word`."""
    listed, number = F.from_json(F.lit(arg), "array<string>"), text.try_cast("decimal(20,0)")
    count, half = len(json.loads(arg or "[]")), Decimal(2**63)
    bits = F.when(number >= half, number - Decimal(2**64)).otherwise(number).cast("bigint")
    words = F.array_join(F.filter(listed, lambda _, place: F.getbit(bits, place) == 1), ",")
    known = (text == "") | (F.size(F.array_except(F.split(text, ","), listed)) == 0)
    return F.when(number.between(0, Decimal(2**count - 1)), words).when(number.isNull() & known, text)


def json_text(text: Column, spark: str, arg: str | None) -> Column:
    """A JSON document as it is sent. Canal does not compute what MySQL logs as a part of one (binlog_row_value_options):
    it writes an expression on the document before, the column's name, or nothing (JsonDiffConversion in
    https://github.com/alibaba/canal), none of which begins as JSON does."""
    return F.when(text.rlike(r"^\s*(?:[{\[\"\d-]|(?:true|false|null)\s*\z)"), text)


def default_text(value: str | bytes) -> str:
    """A default of a DDL statement, in one of the ways in which the texts of messages are read."""
    return value.decode("latin-1") if isinstance(value, bytes) else value
