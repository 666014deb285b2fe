"""What DataWorks tells of tables: declared types, types of messages, and statements."""

from __future__ import annotations

import json

import pytest

from tidemark.formats.dataworks import decode as dataworks
from tidemark.formats.dataworks.types import declared_type
from tidemark.schema.columns import ColumnType
from tidemark.schema.table_changes import TableChange


def test_declared_types() -> None:
    assert declared_type("date") == ColumnType("timestamp", "epoch_millis")
    assert declared_type("decimal(12, 2)") == ColumnType("decimal(12,2)")
    assert dataworks.column_types({"a": "LONG"}, dataworks.Options()) == {"a": ColumnType("bigint")}
    for wrong in ("varchar(3)", "decimal(39,2)", "decimal(2,3)", "decimal"):
        with pytest.raises(ValueError, match="none of BOOLEAN"):
            declared_type(wrong)


def test_message_types() -> None:
    listed = [{"name": name, "type": name.upper()} for name in ("boolean", "double", "date", "bytes", "long", "other")]
    assert dataworks.message_types(json.dumps(listed)) == {
        "boolean": ColumnType("boolean"), "double": ColumnType("double"), "long": ColumnType("bigint"),
        "date": ColumnType("timestamp", "epoch_millis"), "bytes": ColumnType("binary", "base64"),
        "other": ColumnType("string"),
    }  # fmt: skip
    for text in ("", "{", "3", "[3]", '{"a": 1}', '[{"name": "a"}]'):
        assert dataworks.message_types(text) == {}


def _change(text: str, dialect: str | None = None) -> TableChange | None:
    entry = {"op": "ALTER", "text": text} | ({"dialect": dialect} if dialect else {})
    return dataworks.table_change(json.dumps(entry), dataworks.Options())


def test_statements_say_what_is_certain() -> None:
    change = _change("ALTER TABLE t ADD n decimal(9,2), ADD b blob, CHANGE c d datetime, DROP e")
    assert change == TableChange(
        {"b": ColumnType("binary", "base64"), "d": ColumnType("timestamp", "epoch_millis")},
        renamed={"c": "d"}, dropped=frozenset({"e"}),
    )  # fmt: skip
    whole = _change("CREATE TABLE t (id bigint primary key, name varchar(3))")
    assert whole == TableChange({"id": ColumnType("bigint"), "name": ColumnType("string")}, key=("id",), whole=True)
    unsure = _change("CREATE TABLE t (id bigint unsigned, name varchar(3))")
    assert unsure == TableChange({"name": ColumnType("string")}), "a column that is left out must not seem dropped"
    assert _change("CREATE INDEX i ON t (a)") is None
    assert _change("ALTER TABLE T ADD (A NUMBER(3), B VARCHAR2(9))", "oracle") == TableChange(
        {"B": ColumnType("string")}
    )


def test_a_statement_that_cannot_be_understood_is_named() -> None:
    for text in ("RENAME TABLE a TO b", "ALTER TABLE t FROB x", "DELETE FROM t"):
        with pytest.raises(ValueError, match=text):
            _change(text)
