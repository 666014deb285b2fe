"""MySQL's other names of its types, for all who read types: those of statements, and those of messages, which keep the name
that was typed. Pure.

https://dev.mysql.com/doc/refman/8.4/en/other-vendor-data-types.html and the pages of the types themselves.
"""

from __future__ import annotations

import re

#: A name → the one of the type as it is known here, and to parsers. Of geometries nothing but this matters.
MYSQL_TYPES = {
    "INTEGER": "INT", "INT1": "TINYINT", "INT2": "SMALLINT", "INT3": "MEDIUMINT", "MIDDLEINT": "MEDIUMINT", "INT4": "INT",
    "INT8": "BIGINT", "SERIAL": "BIGINT UNSIGNED AUTO_INCREMENT", "BOOL": "TINYINT(1)", "BOOLEAN": "TINYINT(1)",
    "DEC": "DECIMAL", "NUMERIC": "DECIMAL", "FIXED": "DECIMAL", "FLOAT4": "FLOAT", "FLOAT8": "DOUBLE", "REAL": "DOUBLE",
    "DOUBLE PRECISION": "DOUBLE",
    "CHARACTER": "CHAR", "NCHAR": "CHAR", "NATIONAL CHAR": "CHAR", "NATIONAL CHARACTER": "CHAR",
    "CHAR VARYING": "VARCHAR", "CHARACTER VARYING": "VARCHAR", "VARCHARACTER": "VARCHAR", "NVARCHAR": "VARCHAR",
    "NCHAR VARCHAR": "VARCHAR", "NCHAR VARYING": "VARCHAR", "NATIONAL VARCHAR": "VARCHAR",
    "NATIONAL VARCHARACTER": "VARCHAR", "NATIONAL CHAR VARYING": "VARCHAR", "NATIONAL CHARACTER VARYING": "VARCHAR",
    "LONG": "MEDIUMTEXT", "LONG VARCHAR": "MEDIUMTEXT", "LONG VARBINARY": "MEDIUMBLOB",
    "POINT": "GEOMETRY", "LINESTRING": "GEOMETRY", "POLYGON": "GEOMETRY", "MULTIPOINT": "GEOMETRY",
    "MULTILINESTRING": "GEOMETRY", "MULTIPOLYGON": "GEOMETRY", "GEOMETRYCOLLECTION": "GEOMETRY", "GEOMCOLLECTION": "GEOMETRY",
}  # fmt: skip
#: Types of MariaDB that neither parsers nor the formats know → one that parsers do.
ONLY_PARSED = {"INET4": "UUID", "INET6": "UUID"}
_IN_BYTES = {
    "CHAR": "BINARY", "VARCHAR": "VARBINARY", "TINYTEXT": "TINYBLOB", "TEXT": "BLOB", "MEDIUMTEXT": "MEDIUMBLOB",
    "LONGTEXT": "LONGBLOB",
}  # fmt: skip
_OTHER_NAME = re.compile(rf"(?:{'|'.join(sorted(MYSQL_TYPES, key=len, reverse=True))})\b", re.I)


def in_known_name(written: str) -> str:
    """A type, and what stands behind it, under the name that is known here."""
    name = _OTHER_NAME.match(written)
    return MYSQL_TYPES[name[0].upper()] + written[name.end() :] if name else written


def in_bytes(written: str) -> str:
    """A type of characters behind which BYTE stands: one of bytes (https://dev.mysql.com/doc/refman/8.4/en/char.html)."""
    known = in_known_name(written)
    name = known.split("(")[0].strip()
    return _IN_BYTES.get(name.upper(), name) + known[len(name) :]
