"""Qlik's own data types: as metadata messages name them, and as a feed file declares them.

JSON carries numbers that fit as numbers, NUMERIC and UINT8 as text, binary as hexadecimal digits, dates and times as
ISO text. https://help.qlik.com/en-US/replicate (Kafka target data types)
"""

from __future__ import annotations

import re

from tidemark.values.columns import ColumnType

_FIXED = {
    "BOOLEAN": ColumnType("boolean"),
    "INT1": ColumnType("int"), "INT2": ColumnType("int"), "INT4": ColumnType("int"), "INT8": ColumnType("bigint"),
    "UINT1": ColumnType("int"), "UINT2": ColumnType("int"), "UINT4": ColumnType("bigint"),
    "UINT8": ColumnType("decimal(20,0)"),
    "REAL4": ColumnType("float"), "REAL8": ColumnType("double"),
    "DATE": ColumnType("date"), "TIME": ColumnType("string"),
    "DATETIME": ColumnType("timestamp_ntz"), "TIMESTAMP": ColumnType("timestamp_ntz"),
    "STRING": ColumnType("string"), "WSTRING": ColumnType("string"),
    "CLOB": ColumnType("string"), "NCLOB": ColumnType("string"),
    "BYTES": ColumnType("binary", "hex"), "BLOB": ColumnType("binary", "hex"),
}  # fmt: skip

_WRITTEN = re.compile(r"([A-Z][A-Z0-9]*)\s*(?:\(\s*(\d{1,9})\s*(?:,\s*(\d{1,9})\s*)?\))?")


def column_type(name: str, precision: int | None = None, scale: int | None = None) -> ColumnType:
    """A type by its name, as in a metadata message. Raises ValueError for one that is not known.

    A NUMERIC without precision, or with more than 38 digits, is published as its exact text.
    """
    kind = name.strip().upper()
    if kind == "NUMERIC":
        digits, fraction = precision or 0, scale or 0
        fits = 1 <= digits <= 38 and 0 <= fraction <= digits
        return ColumnType(f"decimal({digits},{fraction})") if fits else ColumnType("string")
    if kind not in _FIXED:
        raise ValueError(f"{name!r} is not a data type of Qlik Replicate that is known here")
    return _FIXED[kind]


def declared_type(written: str) -> ColumnType:
    """A type as a feed file writes it: ``NUMERIC(14,2)``, ``STRING(30)``, ``INT4``. Raises ValueError."""
    match = _WRITTEN.fullmatch(written.strip().upper())
    if match is None:
        raise ValueError(f"{written!r} is not a data type of Qlik Replicate")
    if match[1] == "NUMERIC" and match[2] is None:
        raise ValueError("NUMERIC needs precision and scale, like NUMERIC(14,2)")
    return column_type(match[1], int(match[2]) if match[2] else None, int(match[3]) if match[3] else None)
