"""A table without a key whose columns change: a row of before goes under other columns than it came with, and one that is
equal to it but for these comes. Which of them is left does not depend on the hours in which the changes land."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.e2e.schema_change_messages import Change, Entry, Installation, Row, Statement
from tidemark.operations.audit import audit
from tidemark.settings import Settings

pytestmark = [pytest.mark.full, pytest.mark.promise(2)]

Install = Callable[..., Installation]
Bag = tuple[int, int, int | None]
OLD = {"a": "int", "b": "int", "left": "int", "gone": "text"}
NEW = {"a": "int", "b": "int", "c": "int"}
BAGGED = {"key": (), "table": "bag"}
DB2 = {"int": "INTEGER", "text": "VARCHAR(40)"}
IBM = {
    "columns": {name: DB2[kind] for name, kind in NEW.items()},
    "earlier_columns": [{name: DB2[kind] for name, kind in OLD.items()}],
}


def came(position: int, a: int, **values: object) -> Change:
    """A row from before the statement."""
    return Change("c", position, OLD, {"a": a, "b": 1, **values}, **BAGGED)


def change(op: str, position: int, row: Bag, before: Bag | None = None) -> Change:
    """A change of a row that has the new column."""
    was = before or (row if op == "d" else None)
    values = dict(zip(NEW, row, strict=True))
    return Change(op, position, NEW, values, None if was is None else dict(zip(NEW, was, strict=True)), **BAGGED)


#: The default is an expression, so that no stream gives it to rows of before: they show none until they are changed.
ALTERED = Statement(
    20, NEW, "ALTER TABLE bag ADD c int DEFAULT (1 + 4), DROP COLUMN left, DROP COLUMN gone", 2, **BAGGED
)
HISTORY: list[list[Entry]] = [
    [*(came(number, a) for number, a in enumerate((1, 2, 2, 3, 4, 6, 6, 8), 1)), came(9, 5, left=3, gone="x")],
    [
        ALTERED,
        change("d", 21, (1, 1, 5)),
        change("c", 22, (2, 1, 5)), change("d", 23, (2, 1, 5)), change("d", 24, (2, 1, 5)),
        change("u", 25, (3, 2, 5), (3, 1, 5)),
        change("u", 26, (4, 1, 5), (4, 1, 5)),  # an update that changes nothing
        change("d", 27, (5, 1, 5)),
        change("c", 28, (6, 1, None)), change("d", 29, (6, 1, 5)),
    ],
    [
        change("c", 31, (1, 1, 5)),
        change("c", 32, (2, 1, 5)),
        change("u", 33, (3, 1, 5), (3, 2, 5)),
        change("d", 27, (5, 1, 5)),  # delivered again
        change("d", 34, (6, 1, None)), change("d", 40, (6, 1, 5)),
        change("d", 35, (8, 1, 5)), change("c", 36, (8, 1, 5)),
        change("d", 37, (7, 1, 5)), change("c", 38, (7, 1, 5)), change("d", 39, (9, 1, 5)),  # their inserts never came
    ],
]  # fmt: skip
LEFT: list[Bag] = [(1, 1, 5), (2, 1, None), (2, 1, 5), (3, 1, 5), (4, 1, 5), (8, 1, 5)]


@pytest.fixture
def install(tmp_path: Path, spark: SparkSession, settings: Settings) -> Install:
    """``install(format, suffix, history)``: a feed with a name of its own, its hours written."""

    def make(format_: str, suffix: str, history: list[list[Entry]]) -> Installation:
        tables: Row = {"s.bag": IBM if format_ == "ibm" else {}}
        made = Installation(format_, f"kc_{format_}_{suffix}", tmp_path / suffix, settings, tables)
        for hour, entries in enumerate(history):
            made.export(hour, entries)
        return made

    return make


def shown(made: Installation) -> list[Bag]:
    found = [(row["a"], row["b"], row.get("c")) for row in made.rows("bag")]
    return sorted(found, key=lambda row: (row[:2], row[2] or 0))


@pytest.mark.parametrize("format_", ["debezium", "canal", "ibm"])
@pytest.mark.parametrize(
    "order",
    ["012", "201", "210", *(pytest.param(order, marks=pytest.mark.long) for order in ("021", "102", "120")), "0"],
    ids=lambda order: "one hour" if order == "0" else f"hours {order}",
)
def test_a_row_of_before_goes_first_where_no_equal_one_was_there(
    install: Install, settings: Settings, format_: str, order: str
) -> None:
    parts = HISTORY if len(order) > 1 else [[entry for hour in HISTORY for entry in hour]]
    made = install(format_, order, parts)
    receipts = made.run(*map(int, order))
    assert shown(made) == LEFT
    assert [str(finding) for finding in audit(made.feed(), settings).findings] == []
    assert "copies of rows are taken away" in " ".join(" ".join(one.tables[0].warnings) for one in receipts)


@pytest.mark.parametrize("format_", ["debezium", "ibm"])
def test_an_hour_that_takes_a_row_of_before_and_brings_its_like(
    install: Install, settings: Settings, format_: str
) -> None:
    """Its changes come to nothing, and are two rows all the same."""
    made = install(format_, "alike", [
        [came(1, 1), came(2, 1), came(3, 2)],
        [change("d", 21, (1, 1, 5)), change("c", 22, (1, 1, 5))],
        [change("u", 31, (2, 1, 5), (2, 1, 5)), change("c", 32, (1, 2, 5)), change("u", 33, (1, 3, 5), (1, 2, 5))],
    ])  # fmt: skip
    receipts = made.run(0, 1, 2)
    assert shown(made) == [(1, 1, None), (1, 1, 5), (1, 3, 5), (2, 1, 5)]
    assert [(one.counts.applied, one.tables[0].warnings) for one in receipts] == [(3, []), (2, []), (3, [])]
    assert [str(finding) for finding in audit(made.feed(), settings).findings] == []
