"""Statements whose hour has no row of their table, or only such as wait; and cuts of hours before which they came."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.e2e.schema_change_messages import HOURS, Change, Installation, Statement
from tidemark.errors import SchemaError
from tidemark.operations.audit import audit
from tidemark.operations.maintenance import maintain
from tidemark.pipeline.hour import run_hour
from tidemark.settings import Settings

pytestmark = [pytest.mark.full, pytest.mark.promise(2, 3)]

Rows = list[dict[str, Any]]
BEFORE, RENAMED = {"id": "int", "a": "text"}, {"id": "int", "b": "text"}
RENAME = "ALTER TABLE items CHANGE COLUMN a b varchar(40)"
#: By what a statement does: its SQL, the columns after it, and the rows when one has come since.
STATEMENTS: dict[str, tuple[str, dict[str, str], Rows]] = {
    "rename": (RENAME, RENAMED, [{"id": 1, "b": "x"}, {"id": 2, "b": "b2"}]),
    "drop": ("ALTER TABLE items DROP COLUMN a", {"id": "int"}, [{"id": 1, "a": None}, {"id": 2, "a": None}]),
    "add": ("ALTER TABLE items ADD COLUMN b varchar(40)", BEFORE | {"b": "text"},
            [{"id": 1, "a": "x", "b": None}, {"id": 2, "a": "a2", "b": "b2"}]),
    "widen": ("ALTER TABLE items MODIFY COLUMN id bigint", {"id": "long", "a": "text"},
              [{"id": 1, "a": "x"}, {"id": 2, "a": "a2"}]),
}  # fmt: skip


@pytest.mark.parametrize("format_", ["canal", "dataworks"])
@pytest.mark.parametrize("what", STATEMENTS)
def test_a_statement_alone_counts(
    tmp_path: Path, spark: SparkSession, settings: Settings, what: str, format_: str
) -> None:
    sql, columns, rows = STATEMENTS[what]
    made = Installation(format_, f"sa_{what}_{format_}", tmp_path, settings, {"s.items": {}})
    made.export(0, [Change("c", 1, BEFORE, {"id": 1, "a": "x"})])
    made.export(1, [Statement(10, columns, sql, 2)])
    made.export(2, [Change("c", 20, columns, {"id": 2, **{name: f"{name}2" for name in columns if name != "id"}})])
    made.run(0, 1)
    names = list(rows[0])
    assert [list(row) for row in (made.rows()[0], made.rows(as_of=1)[0])] == [names, names]
    maintain(made.feed(), settings)
    assert list(made.rows()[0]) == names, "they are not those of an hour that was not published"
    made.run(2)
    assert made.rows() == rows
    assert [str(finding) for finding in audit(made.feed(), settings).findings] == []


@pytest.mark.parametrize(("format_", "order"), [("canal", (0, 1)), ("dataworks", (1, 0))])
def test_a_statement_in_another_case_stops_until_the_feed_file_names_the_table(
    tmp_path: Path, spark: SparkSession, settings: Settings, format_: str, order: tuple[int, ...]
) -> None:
    table, first = f"case_{format_}", Change("c", 1, BEFORE, {"id": 1, "a": "x"})
    made = Installation(format_, f"sa_{table}", tmp_path, settings)
    made.export(0, [replace(first, table=table)])
    rows = [Change("c", 11, RENAMED, {"id": 2, "b": "y"}, table=table)] if order[0] == 0 else []
    typed = RENAME.replace("items", table.upper())
    made.export(1, [Statement(10, RENAMED, typed, 2, table=table.upper()), *rows])
    made.run(order[0])
    with pytest.raises(SchemaError, match="are one where the server does not tell cases apart") as stopped:
        made.run(order[1])
    assert f"`name: s.{table}`" in str(stopped.value)
    made.tables = {f"s.{table}": {"name": f"s.{table}"}}
    assert made.run(order[1])[0].quarantined == len(rows)
    later = [{"id": 1, "a": "x", "b": None}, {"id": 2, "a": None, "b": "y"}]
    assert made.rows(table, schema="s") == (later if rows else [{"id": 1, "a": "x"}])
    assert [str(finding) for finding in audit(made.feed(), settings).findings] == []


def test_a_rename_counts_whose_rows_are_all_refused(tmp_path: Path, spark: SparkSession, settings: Settings) -> None:
    check = {"checks": [{"column": "id", "max": 9, "consequence": "quarantine"}]}
    made = Installation("canal", "sa_refused", tmp_path, settings, {"s.items": check})
    made.export(0, [Change("c", 1, BEFORE, {"id": 1, "a": "x"})])
    made.export(1, [Statement(10, RENAMED, RENAME, 2), Change("c", 11, RENAMED, {"id": 50, "b": "big"})])
    made.export(2, [Change("c", 20, RENAMED, {"id": 2, "b": "b2"})])
    made.run(0, 1, 2)
    assert made.rows() == [{"id": 1, "b": "x"}, {"id": 2, "b": "b2"}]


@pytest.mark.parametrize("cuts", ["keep", "amend"])
@pytest.mark.parametrize("rows", [True, False], ids=["with rows", "alone"])
def test_cuts_of_late_hours_keep_what_was_renamed(
    tmp_path: Path, spark: SparkSession, settings: Settings, rows: bool, cuts: str
) -> None:
    made = Installation("canal", f"sa_{cuts}_{int(rows)}", tmp_path, settings, {"s.items": {}})
    with_it = [Change("c", 11, RENAMED, {"id": 3, "b": "z"})] if rows else []
    made.export(0, [Change("c", 1, BEFORE, {"id": 1, "a": "x"})])
    made.export(1, [Statement(10, RENAMED, RENAME, 2), *with_it])
    made.export(2, [Change("c", 20, RENAMED, {"id": 4, "b": "w"})])
    made.export(3, [Change("c", 30, RENAMED, {"id": 2, "b": "y"})])
    for hour in (0, 3, 1, 2):
        run_hour(made.feed(cuts=cuts), HOURS[hour], settings)
    first = [{"id": 1, "b": "x"}, *([{"id": 3, "b": "z"}] if rows else [])]
    second = [*first, {"id": 4, "b": "w"}]
    assert made.rows(as_of=1) == first
    assert made.rows(as_of=2) == second
    assert made.rows() == sorted([*second, {"id": 2, "b": "y"}], key=lambda row: int(row["id"]))
    if cuts == "amend":
        assert made.rows(as_of=3) == made.rows()


def test_cuts_of_late_hours_do_not_show_what_was_dropped(
    tmp_path: Path, spark: SparkSession, settings: Settings
) -> None:
    columns, left = {"id": "int", "a": "text", "k": "text"}, {"id": "int", "k": "text"}
    made = Installation("canal", "sa_dropped", tmp_path, settings, {"s.items": {}})
    made.export(0, [Change("c", 1, columns, {"id": 1, "a": "x", "k": "k1"})])
    made.export(1, [
        Statement(10, left, "ALTER TABLE items DROP COLUMN a", 2), Change("c", 11, left, {"id": 3, "k": "z"}),
    ])  # fmt: skip
    made.export(2, [Change("c", 30, left, {"id": 2, "k": "y"})])
    made.run(0, 2, 1)
    assert made.rows(as_of=1) == [{"id": 1, "a": None, "k": "k1"}, {"id": 3, "a": None, "k": "z"}]
    assert made.rows(as_of=0) == [{"id": 1, "a": "x", "k": "k1"}], "it has been cited"
