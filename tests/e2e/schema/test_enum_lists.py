"""Canal sends of an ENUM the place in its list. A list that changes changes no row, at the source and in the table."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.e2e.schema_change_messages import Change, Entry, Installation, Statement
from tidemark.operations.audit import audit
from tidemark.settings import Settings

pytestmark = [pytest.mark.full, pytest.mark.promise(1, 2)]

OLD, NEW, TEXT = (
    {"id": "int", "st": kind} for kind in ("enum('new','paid')", "enum('draft','new','paid')", "varchar(9)")
)
BAG = {"key": (), "table": "bag"}


def row(at: int, kinds: dict[str, str], id_: int, st: str) -> list[Entry]:
    """A row of a table with a key, and one of a table without."""
    image = {"id": id_, "st": st}
    return [Change("c", at, kinds, image), Change("c", at + 1, kinds, image, **BAG)]


def altered(at: int, kinds: dict[str, str]) -> list[Entry]:
    statements = {table: f"ALTER TABLE {table} MODIFY st {kinds['st']}" for table in ("items", "bag")}
    return [Statement(at, kinds, statements["items"]), Statement(at + 1, kinds, statements["bag"], **BAG)]


#: Row 1 is deleted in the table without a key, by another list than it came with.
HISTORY: list[list[Entry]] = [
    [*row(10, OLD, 1, "2"), *row(12, OLD, 2, "1")],
    [*altered(20, NEW), *row(22, NEW, 3, "3"), Change("d", 24, NEW, {"id": 1, "st": "3"}, {"id": 1, "st": "3"}, **BAG)],
    [*altered(30, TEXT), *row(32, TEXT, 4, "paid")],
]
ITEMS = [(1, "paid"), (2, "new"), (3, "paid"), (4, "paid")]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_a_list_of_words_that_changes_changes_no_row(
    spark: SparkSession, settings: Settings, tmp_path: Path, order: tuple[int, ...]
) -> None:
    name = "enums_" + "".join(map(str, order))
    made = Installation("canal", name, tmp_path, settings, {"s.items": {}, "s.bag": {}})
    for hour, entries in enumerate(HISTORY):
        made.export(hour, entries)
    made.run(*order)
    assert [(one["id"], one["st"]) for one in made.rows()] == ITEMS
    assert sorted((one["id"], one["st"]) for one in made.rows("bag")) == ITEMS[1:]
    assert [str(finding) for finding in audit(made.feed(), settings).findings] == []


BEFORE, NUMBERS, MORE = {"id": "int"}, OLD | {"st": "enum('0','1')"}, OLD | {"st": "enum('2','0','1')"}
#: A row of before has the default; row 1 is deleted in the table without a key, and so is row 2, by another list.
ADDED: list[list[Entry]] = [
    [entry for id_ in (1, 2, 3) for entry in (Change("c", 10 + 2 * id_, BEFORE, {"id": id_}),
                                              Change("c", 11 + 2 * id_, BEFORE, {"id": id_}, **BAG))],
    [Statement(20, NUMBERS, "ALTER TABLE items ADD st ENUM('0','1') NOT NULL DEFAULT '1'"),
     Statement(21, NUMBERS, "ALTER TABLE bag ADD st ENUM('0','1') NOT NULL DEFAULT '1'", **BAG)],
    [*row(30, NUMBERS, 4, "1"), Change("d", 32, NUMBERS, {"id": 1, "st": "2"}, {"id": 1, "st": "2"}, **BAG)],
    [*altered(40, MORE), *row(42, MORE, 5, "1"), Change("d", 44, MORE, {"id": 2, "st": "3"}, {"id": 2, "st": "3"}, **BAG)],
]  # fmt: skip
WORDS = [(1, "1"), (2, "1"), (3, "1"), (4, "0"), (5, "2")]


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 0, 2, 1)])
def test_a_default_that_is_a_number_is_a_word(
    spark: SparkSession, settings: Settings, tmp_path: Path, order: tuple[int, ...]
) -> None:
    name = "enum_numbers_" + "".join(map(str, order))
    made = Installation("canal", name, tmp_path, settings, {"s.items": {}, "s.bag": {}})
    for hour, entries in enumerate(ADDED):
        made.export(hour, entries)
    made.run(*order)
    assert [(one["id"], one["st"]) for one in made.rows()] == WORDS
    assert sorted((one["id"], one["st"]) for one in made.rows("bag")) == WORDS[2:]
    assert [str(finding) for finding in audit(made.feed(), settings).findings] == []
