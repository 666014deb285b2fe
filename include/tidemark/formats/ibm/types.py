"""Db2's column types: what they become in a table, and how messages write their values.

Types by Db2's own names, as in SYSIBM.SYSCOLUMNS or SYSCAT.COLUMNS, with or without length, ``FOR BIT DATA`` and
``NOT NULL``. Published as: decimals as decimals, DECFLOAT and TIME as text (Spark has neither), timestamps without
zone, binary as binary.
"""

from __future__ import annotations

import re
from typing import Literal

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemark.schema.columns import ColumnType
from tidemark.schema.encodings import Encoding, plain

#: The kinds of columns that decoding and the rules of invalid character data treat differently.
Family = Literal["character", "graphic", "lob", "binary", "time", "other"]

_TEXT: dict[str, Family] = {
    "CHAR": "character", "CHARACTER": "character", "VARCHAR": "character", "CHARACTER VARYING": "character",
    "CHAR VARYING": "character", "LONG VARCHAR": "character",
    "GRAPHIC": "graphic", "VARGRAPHIC": "graphic", "LONG VARGRAPHIC": "graphic", "NCHAR": "graphic",
    "NVARCHAR": "graphic",
    "CLOB": "lob", "CHARACTER LARGE OBJECT": "lob", "CHAR LARGE OBJECT": "lob", "DBCLOB": "lob", "NCLOB": "lob",
    "XML": "lob",
}  # fmt: skip
_BINARY: dict[str, Family] = {
    "BINARY": "binary", "VARBINARY": "binary", "BINARY VARYING": "binary", "ROWID": "binary",
    "BLOB": "lob", "BINARY LARGE OBJECT": "lob",
}  # fmt: skip
_INTEGERS = {"SMALLINT": "int", "INTEGER": "int", "INT": "int", "BIGINT": "bigint"}
_DECIMALS = ("DECIMAL", "DEC", "NUMERIC", "NUM")
_FLOATS = {"REAL": "float", "DOUBLE": "double", "DOUBLE PRECISION": "double"}
_WRITTEN = re.compile(
    r"(?P<base>[A-Z]+(?: [A-Z]+)*?)"
    r"(?: ?\( ?(?P<first>\d+) ?[KMG]?(?: (?:OCTETS|CODEUNITS16|CODEUNITS32))?(?: ?, ?(?P<second>\d+))? ?\))?"
    r"(?P<bit> FOR BIT DATA)?(?: FOR (?:SBCS|MIXED) DATA)?(?P<zone> WITH(?:OUT)? TIME ZONE)?(?: NOT NULL)?"
)


def _parse(written: str) -> re.Match[str]:
    match = _WRITTEN.fullmatch(" ".join(written.upper().split()))
    if match is None:
        raise ValueError(f"{written!r} is not a Db2 type: write it like VARCHAR(40) or DECIMAL(9,2)")
    return match


def family(written: str) -> Family:
    """What kind of column a Db2 type makes, for the rules of invalid character data."""
    match = _parse(written)
    base = match["base"]
    if match["bit"]:
        return "binary"
    return "time" if base == "TIME" else _TEXT.get(base) or _BINARY.get(base) or "other"


def column_type(written: str, decimal_character: str) -> ColumnType:
    """The ColumnType of a Db2 type. ValueError for one that is not known."""
    match = _parse(written)
    base, first, second = match["base"], match["first"], match["second"]
    if base in _BINARY or match["bit"]:
        return ColumnType("binary", "hex")
    if base in _TEXT:
        return ColumnType("string")
    if base in _INTEGERS:
        return ColumnType(_INTEGERS[base])
    if base in _DECIMALS:
        precision, scale = int(first or 5), int(second or 0)
        if not 1 <= precision <= 31 or scale > precision:
            raise ValueError(f"{written!r}: Db2 has precisions from 1 to 31, and no scale above the precision")
        return ColumnType(f"decimal({precision},{scale})", "ibm_decimal", decimal_character)
    if base in _FLOATS or base == "FLOAT":
        spark = _FLOATS.get(base) or ("float" if first and int(first) <= 24 else "double")
        return ColumnType(spark, "ibm_float", decimal_character)
    if base == "TIMESTAMP":
        if match["zone"] == " WITH TIME ZONE":
            return ColumnType("timestamp", "ibm_timestamp")
        # A table's timestamps end at the microsecond: more digits are kept, as text, rather than cut off.
        return (
            ColumnType("string", "ibm_long_timestamp")
            if int(first or 6) > 6
            else ColumnType("timestamp_ntz", "ibm_timestamp")
        )
    if base == "DECFLOAT":
        return ColumnType("string", "ibm_decfloat", decimal_character)
    simple = {
        "DATE": ColumnType("date", "ibm_date"),
        "TIME": ColumnType("string", "ibm_time"),
        "BOOLEAN": ColumnType("boolean"),
    }
    if base not in simple:
        raise ValueError(f"{written!r} is not a Db2 type that messages carry")
    return simple[base]


def _point(text: Column, decimal_character: str | None) -> Column:
    """A number's text with the decimal point that every cast knows; null where it held a point of another meaning."""
    if decimal_character in (None, "."):
        return text
    return F.when(~text.contains("."), F.replace(text, F.lit(decimal_character), F.lit(".")))


def decimal(text: Column, spark: str, arg: str | None) -> Column:
    """``120000.00``; ``arg`` is the decimal character. One that does not fit its scale is refused, never rounded."""
    number = _point(text, arg)
    return plain(F.when(number.rlike(r"^[+-]?(?:\d+\.?\d*|\.\d+)$"), number), spark, None)


def binary_float(text: Column, spark: str, arg: str | None) -> Column:
    """``1.2E+10``; ``arg`` is the decimal character."""
    return _point(text, arg).try_cast(spark)


def decfloat(text: Column, spark: str, arg: str | None) -> Column:
    """A decimal floating-point number, as text to its last digit; ``arg`` is the decimal character."""
    number = _point(text, arg)
    return F.when(number.rlike(r"^[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[Ee][+-]?\d+)?|(?i:inf|infinity|s?nan))$"), number)


def date(text: Column, spark: str, arg: str | None) -> Column:
    """``2006-06-30``."""
    return F.when(text.rlike(r"^\d{4}-\d{2}-\d{2}$"), text).try_cast("date")


_TIME = r"^([01]\d|2[0-3])[.:]([0-5]\d)[.:]([0-5]\d)$|^(24)[.:](00)[.:](00)$"


def is_time(text: Column) -> Column:
    """Whether this is a time of day; Db2's own 24.00.00 is."""
    return text.rlike(_TIME)


def time(text: Column, spark: str, arg: str | None) -> Column:
    """``18.01.52`` → ``18:01:52``. An impossible time (the manual's samples have some) stays as it is."""
    return F.when(is_time(text), F.translate(text, ".", ":")).otherwise(text)


_TIMESTAMP = r"^(\d{4}-\d{2}-\d{2})[- T](\d{2})[.:](\d{2})[.:](\d{2})(\.\d{1,12})?"


def timestamp(text: Column, spark: str, arg: str | None) -> Column:
    """``2006-06-30-18.01.52.000000``, with a zone ``+01:00`` where the type has one.

    Db2's 24.00.00 is the next day's midnight; a table has no other name for it.
    """
    zone = r"(Z|[+-]\d{2}:\d{2})$" if spark == "timestamp" else "()$"
    midnight = text.rlike(r"^.{10}[- T]24[.:]00[.:]00(?:\.0+)?(?:[^.\d]|$)")
    hour = F.when(midnight, F.lit("00")).otherwise(F.lit("$2"))
    iso = F.when(
        text.rlike(_TIMESTAMP + zone),
        F.regexp_replace(text, F.lit(_TIMESTAMP + zone), F.concat(F.lit("$1T"), hour, F.lit(":$3:$4$5$6"))),
    )
    value = iso.try_cast(spark)
    return F.when(midnight, value + F.expr("interval 1 day")).otherwise(value)


def long_timestamp(text: Column, spark: str, arg: str | None) -> Column:
    """``2006-06-30-18.01.52.000000000000`` → ``2006-06-30T18:01:52.000000000000``, as text."""
    return F.when(
        timestamp(text, "timestamp_ntz", None).isNotNull(), F.regexp_replace(text, _TIMESTAMP, "$1T$2:$3:$4$5")
    )


#: By the name a ColumnType carries, next to those every format shares.
ENCODINGS: dict[str, Encoding] = {
    "ibm_decimal": decimal,
    "ibm_float": binary_float,
    "ibm_decfloat": decfloat,
    "ibm_date": date,
    "ibm_time": time,
    "ibm_timestamp": timestamp,
    "ibm_long_timestamp": long_timestamp,
}
