"""What DataWorks tells of tables: declared types, types of messages, and statements."""

from __future__ import annotations

import json
from datetime import date

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidemark.formats.dataworks import decode as dataworks
from tidemark.formats.dataworks.types import calendar_date, declared_type
from tidemark.values.columns import ColumnType
from tidemark.values.table_changes import TableChange


def test_declared_types() -> None:
    assert declared_type("timestamp", None) == ColumnType("timestamp", "epoch_millis")
    assert declared_type("date", "Asia/Shanghai") == ColumnType(
        "date", "calendar_date", "Asia/Shanghai", of_message=True
    )
    assert declared_type("decimal(12, 2)", None) == ColumnType("decimal(12,2)")
    with pytest.raises(ValueError, match="`zone: Asia/Shanghai`, or TIMESTAMP"):
        declared_type("date", None)
    with pytest.raises(ValueError, match="name of a time zone"):
        dataworks.Options(zone="Asia/Nowhere")
    assert dataworks.column_types({"a": "LONG"}, dataworks.Options()) == {"a": ColumnType("bigint")}
    for wrong in ("varchar(3)", "decimal(39,2)", "decimal(2,3)", "decimal"):
        with pytest.raises(ValueError, match="none of BOOLEAN"):
            declared_type(wrong, None)


def test_a_calendar_date_is_the_midnight_of_its_zone(spark: SparkSession) -> None:
    """In summer time too, and where a day begins at one; another time of the day is no date."""
    sent = [
        ("Asia/Shanghai", "1795104000000", date(2026, 11, 20)),
        ("Asia/Shanghai", "1795104000001", None),
        ("UTC", "1795104000000", None),
        ("UTC", "-62135596800000", date(1, 1, 1)),
        ("Asia/Shanghai", "552063600000", date(1987, 7, 1)),
        # midnight did not come in Beirut: the clocks went from 23:59 to 01:00
        ("Asia/Beirut", "1648332000000", date(2022, 3, 27)),
        ("America/New_York", "1795150800000", date(2026, 11, 20)),
        ("UTC", "9223372036854775807", None),
        ("UTC", "x", None),
    ]
    for zone in {zone for zone, _, _ in sent}:
        mine = [(text, day) for of, text, day in sent if of == zone]
        frame = spark.createDataFrame([(text,) for text, _ in mine], "text string")
        found = frame.select(calendar_date(F.col("text"), "date", zone).alias("day")).collect()
        assert [row.day for row in found] == [day for _, day in mine], zone


def test_message_types() -> None:
    listed = [{"name": name, "type": name.upper()} for name in ("boolean", "double", "date", "bytes", "long", "other")]
    assert dataworks.message_types(json.dumps(listed), dataworks.Options()) == {
        "boolean": ColumnType("boolean"), "double": ColumnType("double"), "long": ColumnType("bigint"),
        "date": ColumnType("timestamp", "epoch_millis"), "bytes": ColumnType("binary", "base64"),
        "other": ColumnType("string"),
    }  # fmt: skip
    for text in ("", "{", "3", "[3]", '{"a": 1}', '[{"name": "a"}]'):
        assert dataworks.message_types(text, dataworks.Options()) == {}


def _change(text: str, dialect: str | None = None) -> TableChange | None:
    entry = {"op": "ALTER", "text": text} | ({"dialect": dialect} if dialect else {})
    return dataworks.table_change(json.dumps(entry), dataworks.Options())


def test_statements_say_what_is_certain() -> None:
    change = _change("ALTER TABLE t ADD n decimal(9,2), ADD b blob, CHANGE c d datetime, DROP e")
    assert change == TableChange(
        columns={"b": ColumnType("binary", "base64"), "d": ColumnType("timestamp", "epoch_millis")},
        renamed={"c": "d"}, dropped=frozenset({"e"}),
    )  # fmt: skip
    whole = _change("CREATE TABLE t (id bigint primary key, name varchar(3))")
    assert whole == TableChange(
        columns={"id": ColumnType("bigint"), "name": ColumnType("string")}, key=("id",), whole=True
    )
    unsure = _change("CREATE TABLE t (id bigint unsigned, name varchar(3))")
    assert unsure == TableChange(columns={"name": ColumnType("string")}), (
        "a column that is left out must not seem dropped"
    )
    assert _change("CREATE INDEX i ON t (a)") is None
    assert _change("ALTER TABLE T ADD (A NUMBER(3), B VARCHAR2(9))", "oracle") == TableChange(
        columns={"B": ColumnType("string")}
    )


def test_a_statement_that_cannot_be_understood_is_named() -> None:
    for text in ("RENAME TABLE a TO b", "ALTER TABLE t FROB x", "DELETE FROM t"):
        with pytest.raises(ValueError, match=text):
            _change(text)
