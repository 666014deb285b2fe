"""Db2's column types: what they become in a table, and how messages write their values.

Types by the names of SQL, of SYSCAT.COLUMNS, and of the catalog's column COLTYPE (``TIMESTMP``, ``VARG`` …; IBM,
*SYSIBM.SYSCOLUMNS table*), with or without length, ``FOR BIT DATA`` and ``NOT NULL``. Published as: decimals as
decimals, DECFLOAT and TIME as text (Spark has neither), timestamps without zone, binary as binary.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemark.values.columns import ColumnType
from tidemark.values.encodings import Encoding, plain

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
#: COLTYPE's own names, of eight letters at most.
_CATALOG = {
    "LONGVAR": "LONG VARCHAR", "VARG": "VARGRAPHIC", "LONGVARG": "LONG VARGRAPHIC", "VARBIN": "VARBINARY",
    "TIMESTMP": "TIMESTAMP", "TIMESTZ": "TIMESTAMP",
}  # fmt: skip
_NO_TYPES = {
    "DISTINCT": "names a type of the database's own: declare the type it was made from, which SYSIBM.SYSDATATYPES has in "
    "SOURCETYPE (z/OS), SYSCAT.DATATYPES in SOURCENAME (Linux, UNIX, Windows), QSYS2.SYSTYPES in SOURCE_TYPE (i)",
    "REF": "is a reference to a row: declare the type that SYSCAT.DATATYPES has for it in SOURCENAME",
    "DATALINK": "is a link to a file, which messages do not carry",
}
_WRITTEN = re.compile(
    r"(?P<base>[A-Z]+(?: [A-Z]+)*?)"
    r"(?: ?\( ?(?P<first>\d+) ?[KMG]?(?: (?:OCTETS|CODEUNITS16|CODEUNITS32))?(?: ?, ?(?P<second>\d+))? ?\))?"
    r"(?P<bit> FOR BIT DATA)?(?: FOR (?:SBCS|MIXED) DATA)?(?P<zone> WITH(?:OUT)? TIME ZONE)?(?: NOT NULL)?"
)


@dataclass(frozen=True, kw_only=True)
class _Declared:
    """A type as it was written."""

    base: str
    """SQL's name of it, without length: ``CHAR``, also where the catalog's own name was written."""
    first: int | None
    """The first number in parentheses: a length or a precision. None: there is none."""
    second: int | None
    """The second: a scale. None: there is none."""
    bit: bool
    """Whether FOR BIT DATA was written: bytes, no text."""
    zone: bool
    """Whether a timestamp has a time zone."""
    digits: int | None
    """How many digits a timestamp's fraction has. None: not said."""


def _parse(written: str) -> _Declared:
    match = _WRITTEN.fullmatch(" ".join(written.upper().split()))
    if match is None:
        raise ValueError(f"{written!r} is not a Db2 type: write it like VARCHAR(40) or DECIMAL(9,2)")
    base, first, second = match["base"], *(int(match[name]) if match[name] else None for name in ("first", "second"))
    if base in _NO_TYPES:
        raise ValueError(f"{written!r} is no Db2 type that says how values are written: it {_NO_TYPES[base]}")
    zone = match["zone"] == " WITH TIME ZONE" or base == "TIMESTZ"
    return _Declared(
        base=_CATALOG.get(base, base),
        first=first,
        second=second,
        bit=bool(match["bit"]),
        zone=zone,
        digits=_digits(written, base, first, second),
    )


def _digits(written: str, base: str, first: int | None, second: int | None) -> int | None:
    """How many digits a timestamp's fraction has. Beside COLTYPE stand LENGTH, which counts bytes, and SCALE."""
    if base not in ("TIMESTMP", "TIMESTZ"):
        return first
    if second is not None:
        return 6 if (first, second) == (10, 0) else second  # as rows from before the types had digits
    if first is not None and first > 6:
        raise ValueError(
            f"{written!r}: is {first} the LENGTH, in bytes, or the SCALE? Write both, {base}(10,6), or TIMESTAMP with the "
            "digits of its fraction, TIMESTAMP(6)"
        )
    return first


def family(written: str) -> Family:
    """What kind of column a Db2 type makes, for the rules of invalid character data."""
    declared = _parse(written)
    base = declared.base
    if declared.bit:
        return "binary"
    return "time" if base == "TIME" else _TEXT.get(base) or _BINARY.get(base) or "other"


def column_type(written: str, decimal_character: str) -> ColumnType:
    """The ColumnType of a Db2 type. ValueError for one that is not known."""
    declared = _parse(written)
    base = declared.base
    if base in _BINARY or declared.bit:
        return ColumnType("binary", "hex")
    if base in _TEXT:
        return ColumnType("string")
    if base in _INTEGERS:
        return ColumnType(_INTEGERS[base])
    if base in _DECIMALS:
        precision, scale = declared.first or 5, declared.second or 0
        if not 1 <= precision <= 31 or scale > precision:
            raise ValueError(f"{written!r}: Db2 has precisions from 1 to 31, and no scale above the precision")
        return ColumnType(f"decimal({precision},{scale})", "ibm_decimal", decimal_character)
    if base in _FLOATS or base == "FLOAT":
        return ColumnType(_FLOATS.get(base) or _float(declared.first), "ibm_float", decimal_character)
    if base == "TIMESTAMP":
        return _timestamp_type(declared)
    if base == "DECFLOAT":
        return ColumnType("string", "ibm_decfloat", decimal_character)
    simple = {
        "DATE": ColumnType("date"),
        "TIME": ColumnType("string", "ibm_time"),
        "BOOLEAN": ColumnType("boolean"),
    }
    if base not in simple:
        raise ValueError(f"{written!r} is not a Db2 type that messages carry")
    return simple[base]


def _float(number: int | None) -> str:
    """``FLOAT(n)``: single precision up to 21 bits everywhere, up to 24 not on z/OS: a double then loses nothing. LENGTH is
    8, in bytes, for double precision, which as a number of bits would be single."""
    return "float" if number is not None and number <= 21 and number != 8 else "double"


def _timestamp_type(declared: _Declared) -> ColumnType:
    # A table's timestamps end at the microsecond: more digits are kept, as text, rather than cut off.
    if declared.digits is not None and declared.digits > 6:
        return ColumnType("string", "ibm_long_timestamp", "zone" if declared.zone else None)
    return ColumnType("timestamp" if declared.zone else "timestamp_ntz", "ibm_timestamp")


def _point(text: Column, decimal_character: str | None) -> Column:
    """A number's text with the decimal point that every cast knows; null where it held a point of another meaning."""
    if decimal_character in (None, "."):
        return text
    return F.when(~text.contains("."), F.replace(text, F.lit(decimal_character), F.lit(".")))


def decimal(text: Column, spark: str, arg: str | None) -> Column:
    """``120000.00``; ``arg`` is the decimal character. One that does not fit its scale is refused, never rounded."""
    number = _point(text, arg)
    return plain(F.when(number.rlike(r"^[+-]?(?:\d+\.?\d*|\.\d+)\z"), number), spark, None)


def binary_float(text: Column, spark: str, arg: str | None) -> Column:
    """``1.2E+10``; ``arg`` is the decimal character."""
    return plain(_point(text, arg), spark, None)


def decfloat(text: Column, spark: str, arg: str | None) -> Column:
    """A decimal floating-point number, as text to its last digit; ``arg`` is the decimal character."""
    number = _point(text, arg)
    return F.when(number.rlike(r"^[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[Ee][+-]?\d+)?|(?i:inf|infinity|s?nan))\z"), number)


_TIME = r"^([01]\d|2[0-3])[.:]([0-5]\d)[.:]([0-5]\d)\z|^(24)[.:](00)[.:](00)\z"


def is_time(text: Column) -> Column:
    """Whether this is a time of day; Db2's own 24.00.00 is."""
    return text.rlike(_TIME)


def time(text: Column, spark: str, arg: str | None) -> Column:
    """``18.01.52`` → ``18:01:52``. An impossible time (the manual's samples have some) stays as it is."""
    return F.when(is_time(text), F.translate(text, ".", ":")).otherwise(text)


_TIMESTAMP = r"^(\d{4}-\d{2}-\d{2})[- T](\d{2})[.:](\d{2})[.:](\d{2})"
_MICROSECONDS, _ALL_DIGITS = r"(?:(\.\d{1,6})0*)?", r"(\.\d{1,12})?"
_ZONE = r"(Z|[+-]\d{2}:\d{2})\z"


def timestamp(text: Column, spark: str, arg: str | None) -> Column:
    """``2006-06-30-18.01.52.000000``, with a zone ``+01:00`` where the type has one.

    Db2's 24.00.00 is the next day's midnight; a table has no other name for it. One that has digits beyond the microsecond
    is refused, never cut.
    """
    pattern = _TIMESTAMP + _MICROSECONDS + (_ZONE if spark == "timestamp" else r"()\z")
    midnight = text.rlike(r"^.{10}[- T]24[.:]00[.:]00(?:\.0+)?(?:[^.\d]|$)")
    hour = F.when(midnight, F.lit("00")).otherwise(F.lit("$2"))
    iso = F.when(
        text.rlike(pattern), F.regexp_replace(text, F.lit(pattern), F.concat(F.lit("$1T"), hour, F.lit(":$3:$4$5$6")))
    )
    value = iso.try_cast(spark)
    return F.when(midnight, value + F.expr("interval 1 day")).otherwise(value)


def long_timestamp(text: Column, spark: str, arg: str | None) -> Column:
    """``2006-06-30-18.01.52.000000000000`` → ``2006-06-30T18:01:52.000000000000``, as text; ``arg``: ``zone`` where the
    type has one."""
    pattern = _TIMESTAMP + _ALL_DIGITS + (_ZONE if arg == "zone" else r"()\z")
    to_the_second = timestamp(F.regexp_replace(text, pattern, "$1-$2.$3.$4"), "timestamp_ntz", None)
    return F.when(to_the_second.isNotNull(), F.regexp_replace(text, pattern, "$1T$2:$3:$4$5$6"))


#: By the name a ColumnType carries, next to those every format shares.
ENCODINGS: dict[str, Encoding] = {
    "ibm_decimal": decimal,
    "ibm_float": binary_float,
    "ibm_decfloat": decfloat,
    "ibm_time": time,
    "ibm_timestamp": timestamp,
    "ibm_long_timestamp": long_timestamp,
}
