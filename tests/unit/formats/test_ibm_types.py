"""Db2 types, and the text of their values, as columns of a table."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidemark.formats.ibm import decode as ibm
from tidemark.formats.ibm.types import family
from tidemark.values.columns import ColumnType
from tidemark.values.encodings import ENCODINGS as SHARED

SPARK_TYPES = {
    "SMALLINT": "int", "INTEGER": "int", "INT": "int", "BIGINT": "bigint", "DECIMAL(9,2)": "decimal(9,2)",
    "decimal( 31 , 31 )": "decimal(31,31)", "NUMERIC(5)": "decimal(5,0)", "DEC": "decimal(5,0)",
    "DECFLOAT(34)": "string", "REAL": "float", "DOUBLE": "double", "DOUBLE PRECISION": "double", "FLOAT": "double",
    "FLOAT(24)": "double", "FLOAT(25)": "double", "CHAR(4)": "string", "CHARACTER(4) NOT NULL": "string",
    "VARCHAR(20)": "string", "CHARACTER VARYING(20)": "string", "LONG VARCHAR": "string", "GRAPHIC(4)": "string",
    "VARGRAPHIC(4)": "string", "LONG VARGRAPHIC": "string", "CLOB(1M)": "string", "CLOB(1 G)": "string",
    "DBCLOB(3)": "string", "XML": "string", "BLOB(2M)": "binary", "CHAR(8) FOR BIT DATA": "binary",
    "VARCHAR(8) FOR BIT DATA": "binary", "VARCHAR(8) FOR SBCS DATA": "string", "VARCHAR(8 OCTETS)": "string",
    "BINARY(3)": "binary", "VARBINARY(3)": "binary", "ROWID": "binary", "DATE": "date", "TIME": "string",
    "TIMESTAMP": "timestamp_ntz", "TIMESTAMP(0)": "timestamp_ntz", "TIMESTAMP(6)": "timestamp_ntz",
    "TIMESTAMP(12)": "string", "TIMESTAMP(6) WITH TIME ZONE": "timestamp",
    "TIMESTAMP(6) WITHOUT TIME ZONE": "timestamp_ntz", "BOOLEAN": "boolean", "NUM(5, 1)": "decimal(5,1)",
    "DECFLOAT(16)": "string", "CHAR VARYING(3)": "string", "NCHAR(4)": "string", "NVARCHAR(4)": "string",
    "NCLOB(1K)": "string", "CHARACTER LARGE OBJECT(1M)": "string", "BINARY LARGE OBJECT(1M)": "binary",
    "BINARY VARYING(3)": "binary", "GRAPHIC(4 CODEUNITS16)": "string", "FLOAT(21)": "float",
    "TIMESTAMP(6) WITH TIME ZONE NOT NULL": "timestamp", "TIMESTAMP(12) WITH TIME ZONE": "string",
}  # fmt: skip


def test_every_type_has_its_column() -> None:
    types = ibm.column_types({name: name for name in SPARK_TYPES}, ibm.Options())
    assert {name: type_.spark for name, type_ in types.items()} == SPARK_TYPES
    assert {type_.encoding for type_ in types.values()} <= set(SHARED) | set(ibm.ENCODINGS)


#: SYSIBM.SYSCOLUMNS.COLTYPE of Db2 for z/OS (and of QSYS2.SYSCOLUMNS on i), bare and with LENGTH or LENGTH and SCALE.
CATALOG_TYPES = {
    "INTEGER": "int", "SMALLINT": "int", "FLOAT": "double", "FLOAT(4)": "float", "FLOAT(8)": "double", "CHAR": "string",
    "VARCHAR": "string", "LONGVAR": "string", "DECIMAL": "decimal(5,0)", "GRAPHIC": "string", "VARG": "string",
    "LONGVARG": "string", "DATE": "date", "TIME": "string", "TIMESTMP": "timestamp_ntz", "TIMESTZ": "timestamp",
    "BLOB": "binary", "CLOB": "string", "DBCLOB": "string", "ROWID": "binary", "XML": "string", "BIGINT": "bigint",
    "BINARY": "binary", "VARBIN": "binary", "DECFLOAT": "string", "NUMERIC": "decimal(5,0)",
    "INTEGER(4)": "int", "VARG(30)": "string", "VARBIN(8)": "binary", "DATE(4)": "date", "DECFLOAT(8)": "string",
    "TIMESTMP(6)": "timestamp_ntz", "TIMESTMP(10,6)": "timestamp_ntz", "TIMESTMP(10,0)": "timestamp_ntz",
    "TIMESTMP(13,12)": "string", "TIMESTZ(12,6)": "timestamp", "TIMESTZ(15,12)": "string", "LONGVAR FOR BIT DATA": "binary",
}  # fmt: skip


def test_the_catalogs_own_spellings() -> None:
    types = ibm.column_types({name: name for name in CATALOG_TYPES}, ibm.Options())
    assert {name: type_.spark for name, type_ in types.items()} == CATALOG_TYPES
    assert (family("LONGVAR"), family("VARG"), family("LONGVARG(30)")) == ("character", "graphic", "graphic")
    assert (family("VARBIN"), family("TIMESTMP"), family("TIMESTZ")) == ("binary", "other", "other")


@pytest.mark.parametrize(
    ("written", "what_to_do"),
    [
        ("DISTINCT", "declare the type it was made from.*SOURCETYPE"),
        ("DISTINCT(8)", "SYSCAT.DATATYPES in SOURCENAME"),
        ("REF", "SOURCENAME"),
        ("DATALINK", "messages do not carry"),
        ("TIMESTMP(10)", r"Write both, TIMESTMP\(10,6\), or .*TIMESTAMP\(6\)"),
        ("TIMESTZ(12)", "LENGTH, in bytes, or the SCALE"),
    ],
)
def test_a_catalog_entry_that_does_not_say_how_values_are_written(written: str, what_to_do: str) -> None:
    for refuse in (lambda: ibm.column_types({"C": written}, ibm.Options()), lambda: family(written)):
        with pytest.raises(ValueError, match=what_to_do):
            refuse()


@pytest.mark.parametrize("written", ["VARCHAR2(3)", "DECIMAL(32,2)", "DECIMAL(2,3)", "text", "", "INT;", "MONEY"])
def test_a_type_that_is_not_db2s(written: str) -> None:
    with pytest.raises(ValueError, match="Db2"):
        ibm.column_types({"C": written}, ibm.Options())


def test_families() -> None:
    assert {name for name in SPARK_TYPES if family(name) == "lob"} == {
        "CLOB(1M)", "CLOB(1 G)", "DBCLOB(3)", "XML", "BLOB(2M)", "NCLOB(1K)", "CHARACTER LARGE OBJECT(1M)",
        "BINARY LARGE OBJECT(1M)",
    }  # fmt: skip
    assert family("CHAR(8) FOR BIT DATA") == family("VARBINARY(3)") == "binary"
    assert family("CHAR(8) FOR MIXED DATA") == family("long  varchar") == "character"
    assert (family("TIME"), family("TIMESTAMP"), family("GRAPHIC(4)")) == ("time", "other", "graphic")


# Db2 type, decimal character, text → value; None: the text is no value of the type.
VALUES: list[tuple[str, str, str, Any]] = [
    ("INTEGER", ".", "-12", -12),
    ("INTEGER", ".", "12.5", None),
    ("INTEGER", ".", "3000000000", None),
    ("DECIMAL(9,2)", ".", "120000.50", Decimal("120000.50")),
    ("DECIMAL(9,2)", ".", "-.5", Decimal("-0.50")),
    ("DECIMAL(9,2)", ".", "7.", Decimal("7.00")),
    ("DECIMAL(9,2)", ".", "1.239", None),
    ("DECIMAL(9,2)", ".", "1E3", None),
    ("DECIMAL(9,2)", ".", "1,5", None),
    ("DECIMAL(9,2)", ",", "1,5", Decimal("1.50")),
    ("DECIMAL(9,2)", ",", "1.5", None),
    ("DECIMAL(31,2)", ".", "12345678901234567890123456789.01", Decimal("12345678901234567890123456789.01")),
    ("DECFLOAT(34)", ".", "0.1234567890123456789012345678901234", "0.1234567890123456789012345678901234"),
    ("DECFLOAT(34)", ",", "-1,5E+300", "-1.5E+300"),
    ("DECFLOAT(34)", ".", "sNaN", "sNaN"),
    ("DECFLOAT(34)", ".", "1.2.3", None),
    ("DOUBLE", ".", "1.5E+10", 1.5e10),
    ("DOUBLE", ",", "1,5E+10", 1.5e10),
    ("DOUBLE", ".", "x", None),
    ("DATE", ".", "2006-06-30", date(2006, 6, 30)),
    ("DATE", ".", "2006-02-30", None),
    ("DATE", ".", "2006", None),
    ("TIME", ".", "18.01.52", "18:01:52"),
    ("TIME", ".", "24.00.00", "24:00:00"),
    ("TIME", ".", "18.01.67", "18.01.67"),
    ("TIMESTAMP", ".", "2006-06-30-18.01.52.000001", datetime(2006, 6, 30, 18, 1, 52, 1)),
    ("TIMESTAMP(0)", ".", "2006-06-30-18.01.52", datetime(2006, 6, 30, 18, 1, 52)),
    ("TIMESTAMP", ".", "2006-12-31-24.00.00.000000", datetime(2007, 1, 1)),
    ("TIMESTAMP", ".", "2006-06-30-24.00.01.000000", None),
    ("TIMESTAMP", ".", "2006-06-30-18.05.67.000000", None),
    ("TIMESTAMP", ".", "2006-06-30", None),
    ("TIMESTAMP(12)", ".", "2006-06-30-18.01.52.123456789012", "2006-06-30T18:01:52.123456789012"),
    ("TIMESTAMP(12)", ".", "2006-06-30-28.01.52.123456789012", None),
    ("TIMESTAMP(12)", ".", "2006-06-30-18.01.52.123456789012+01:00", None),
    ("TIMESTAMP", ".", "2006-06-30-18.01.52.123456000000", datetime(2006, 6, 30, 18, 1, 52, 123_456)),
    ("TIMESTAMP", ".", "2006-06-30-18.01.52.123456700000", None),
    ("TIMESTAMP", ".", "2006-06-30-18.01.5200", None),
    ("TIMESTMP", ".", "2006-06-30-18.01.52.123456", datetime(2006, 6, 30, 18, 1, 52, 123_456)),
    ("TIMESTZ", ".", "2006-06-30-18.01.52.000000+02:00", datetime(2006, 6, 30, 16, 1, 52)),
    ("TIMESTAMP WITH TIME ZONE", ".", "2006-06-30-18.01.52.1234567+02:00", None),
    (
        "TIMESTAMP(12) WITH TIME ZONE",
        ".",
        "2006-06-30-18.01.52.123456789012+02:00",
        "2006-06-30T18:01:52.123456789012+02:00",
    ),
    ("TIMESTAMP(12) WITH TIME ZONE", ".", "2006-06-30-18.01.52.123456789012", None),
    ("FLOAT(8)", ".", "0.1", 0.1),
    ("TIMESTAMP WITH TIME ZONE", ".", "2006-06-30-18.01.52.000000+02:00", datetime(2006, 6, 30, 16, 1, 52)),
    ("TIMESTAMP WITH TIME ZONE", ".", "2006-06-30-18.01.52.000000", None),
    ("VARCHAR(9)", ".", " x ", " x "),
    ("VARBINARY(3)", ".", "0aFF", bytearray(b"\x0a\xff")),
    ("VARBINARY(3)", ".", "", bytearray()),
    ("VARBINARY(3)", ".", "0g", None),
    ("SMALLINT", ".", "-32768", -32768),
    ("BIGINT", ".", "-9223372036854775808", -(2**63)),
    ("BIGINT", ".", "9223372036854775808", None),
    ("REAL", ".", "-1.5E-3", pytest.approx(-0.0015)),
    ("REAL", ",", "2,5", 2.5),
    ("FLOAT(53)", ".", "0.1", 0.1),
    ("NUM(5,1)", ",", "-1234,5", Decimal("-1234.5")),
    ("NUM(5,1)", ",", "12345,6", None),
    ("DECFLOAT(16)", ",", "0,1", "0.1"),
    ("CLOB(1M)", ".", "a,b", "a,b"),
    ("XML", ".", "<a/>", "<a/>"),
    ("GRAPHIC(4)", ".", "日本  ", "日本  "),
    ("CHAR(2) FOR BIT DATA", ".", "4142", bytearray(b"AB")),
    ("BLOB(1K)", ".", "00", bytearray(b"\x00")),
    ("ROWID", ".", "0", None),
    ("TIMESTAMP(3)", ".", "2006-06-30-18.01.52.120", datetime(2006, 6, 30, 18, 1, 52, 120_000)),
    ("BOOLEAN", ".", "TRUE", True),
    ("BOOLEAN", ".", "0", False),
]


def test_text_becomes_values(spark: SparkSession) -> None:
    columns = []
    for i, (written, decimal_character, text, _) in enumerate(VALUES):
        delimiter = ";" if decimal_character == "," else ","
        options = ibm.Options(decimal_character=decimal_character, column_delimiter=delimiter)
        type_: ColumnType = ibm.column_types({"C": written}, options)["C"]
        # A column, not a literal: Spark must not work it out while planning.
        sent = F.concat(F.lit(text), F.when(F.col("id") > 0, "").otherwise("x"))
        encoded = (SHARED | ibm.ENCODINGS)[type_.encoding](sent, type_.spark, type_.arg)
        columns.append(encoded.alias(f"c{i}"))
    (row,) = spark.range(1, 2).select(*columns).collect()
    got = {(written, text): row[i] for i, (written, _, text, _) in enumerate(VALUES)}
    assert got == {(written, text): value for written, _, text, value in VALUES}
