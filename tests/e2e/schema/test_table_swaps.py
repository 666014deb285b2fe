"""Tables that a tool changes without locking them: a changed copy takes their place, and the rows stay the same rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.e2e.schema_change_messages import HOURS, Change, Entry, Installation, Statement
from tidemark.errors import SchemaError
from tidemark.operations.audit import audit
from tidemark.pipeline.hour import run_hour
from tidemark.settings import Settings

pytestmark = [pytest.mark.full, pytest.mark.promise(2)]

V1 = {"id": "int", "name": "text"}
V2 = {"id": "int", "title": "text", "qty": "int"}
GHOST, OLD = {"table": "_items_gho"}, {"table": "_items_del"}
SWAP = "rename /* gh-ost */ table `s`.`items` to `s`.`_items_del`, `s`.`_items_gho` to `s`.`items`"
CHANGED = "alter /* gh-ost */ table `s`.`_items_gho` ADD qty int NOT NULL DEFAULT 7, CHANGE name title varchar(40)"


def insert(id_: int, position: int, version: dict[str, str], *values: object) -> Change:
    return Change("c", position, version, dict(zip(version, (id_, *values), strict=True)))


def made_of(made: Installation, history: list[list[Entry]], order: tuple[int, ...]) -> None:
    for hour, entries in enumerate(history):
        made.export(hour, entries)
    made.run(*order)


@pytest.mark.parametrize("format_", ["canal", "dataworks"])
@pytest.mark.parametrize(
    "order",
    [(2, 1, 0), pytest.param((0, 1, 2), marks=pytest.mark.long), pytest.param((1, 2, 0), marks=pytest.mark.long)],
)
def test_the_table_goes_on_with_the_columns_of_its_copy(
    tmp_path: Path, spark: SparkSession, settings: Settings, format_: str, order: tuple[int, ...]
) -> None:
    # Canal names the first table that a rename makes.
    created = "create /* gh-ost */ table `s`.`_items_gho` like `s`.`items`"
    history: list[list[Entry]] = [
        [
            insert(1, 1, V1, "a1"), insert(2, 2, V1, "a2"),
            # an attempt that was given up
            Statement(3, V1, created, **GHOST, kind="CREATE"),
            Statement(4, V1, "alter table `s`.`_items_gho` ADD junk int DEFAULT 1", **GHOST),
        ],
        [
            Statement(10, V1, created, **GHOST, kind="CREATE"), Statement(11, V1, CHANGED, **GHOST),
            Change("u", 12, V1, {"id": 2, "name": "b2"}),
        ],
        [
            Statement(20, V2, SWAP, **OLD, kind="RENAME"), insert(4, 21, V2, "d4", 1),
            Change("u", 22, V2, {"id": 1, "title": "c1"}, absent=("qty",)), insert(3, 5, V1, "late"),
        ],
    ]  # fmt: skip
    name = f"ts_{format_}_" + "".join(map(str, order))
    made = Installation(format_, name, tmp_path, settings, {"s.items": {}})
    made_of(made, history, order)
    found = [(row["id"], row["title"], row["qty"]) for row in made.rows()]
    assert found == [(1, "c1", 7), (2, "b2", 7), (3, "late", 7), (4, "d4", 1)]
    assert set(made.types()) == {"id", "title", "qty"}
    assert [str(finding) for finding in audit(made.feed(), settings).findings] == []


@pytest.mark.parametrize("format_", ["canal", "dataworks"])
def test_a_feed_that_takes_no_other_table_hears_what_is_stated_of_its_copy(
    tmp_path: Path, spark: SparkSession, settings: Settings, format_: str
) -> None:
    """The rows of the copy go to quarantine, and the rename of another table stops that one."""
    made = Installation(format_, f"ts_closed_{format_}", tmp_path, settings, {"s.items": {}, "s.log": {}})
    copied = replace(insert(1, 12, V2, "a1", 7), table="_items_gho")
    made.export(0, [
        insert(1, 1, V1, "a1"), Statement(10, V1, CHANGED, **GHOST), copied,
        Statement(20, V2, SWAP, **OLD, kind="RENAME"), insert(2, 21, V2, "b2", 1),
    ])  # fmt: skip
    receipt = run_hour(made.feed(undeclared="quarantine"), HOURS[0], settings)
    assert (receipt.control, receipt.quarantined) == (2, 1)
    assert [tuple(row.values()) for row in made.rows()] == [(1, "a1", 7), (2, "b2", 1)]
    made.export(1, [Statement(30, V1, "RENAME TABLE s.log TO s.log_old", table="log_old", kind="RENAME")])
    with pytest.raises(SchemaError, match=r"table s\.log: a table is renamed: RENAME TABLE s\.log TO s\.log_old"):
        run_hour(made.feed(undeclared="quarantine"), HOURS[1], settings)


def test_of_a_copy_that_is_not_sent_messages_tell_the_columns(tmp_path: Path, settings: Settings) -> None:
    made = Installation("canal", "ts_not_sent", tmp_path, settings, {"s.items": {}})
    wider = V1 | {"qty": "int"}
    swap = "RENAME TABLE `s`.`items` TO `s`.`_items_old`, `s`.`_items_new` TO `s`.`items`"
    renamed = Statement(20, wider, swap, table="_items_old", kind="RENAME")
    made_of(made, [[insert(1, 1, V1, "a1")], [renamed, insert(2, 21, wider, "b2", 5)]], (0, 1))
    assert made.rows() == [{"id": 1, "name": "a1", "qty": None}, {"id": 2, "name": "b2", "qty": 5}]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_a_swap_that_is_sent_again_says_what_it_said(
    tmp_path: Path, spark: SparkSession, settings: Settings, order: tuple[int, ...]
) -> None:
    """Canal goes back by a minute: to behind the statement about the copy, which takes hours to fill."""
    made = Installation("canal", "ts_again_" + "".join(map(str, order)), tmp_path, settings, {"s.items": {}})
    last_minute = Change("u", 20, V1, {"id": 2, "name": "b2"})
    history: list[list[Entry]] = [
        [insert(1, 1, V1, "a1"), insert(2, 2, V1, "a2"), Statement(3, V1, CHANGED, **GHOST)],
        [last_minute, Statement(21, V2, SWAP, **OLD, kind="RENAME"), insert(3, 22, V2, "a3", 1)],
        [
            replace(last_minute, position=30), Statement(31, V2, SWAP, **OLD, kind="RENAME", again=21),
            insert(3, 32, V2, "a3", 1),
        ],
    ]  # fmt: skip
    made_of(made, history, order)
    assert [tuple(row.values()) for row in made.rows()] == [(1, "a1", 7), (2, "b2", 7), (3, "a3", 1)]
    assert set(made.types()) == {"id", "title", "qty"}
    assert [str(finding) for finding in audit(made.feed(), settings).findings] == []


def test_the_cut_of_a_late_hour_shows_what_the_copy_had_got(
    tmp_path: Path, spark: SparkSession, settings: Settings
) -> None:
    """Of which the hour with the swap is before it, and in which a new column would be filled once more behind it."""
    made = Installation("canal", "ts_late_cut", tmp_path, settings, {"s.items": {}})
    more = V2 | {"more": "int"}
    again = [Statement(30, more, "alter table s._items_gho ADD more int DEFAULT 5", **GHOST)]
    history: list[list[Entry]] = [
        [insert(1, 1, V1, "a1"), Statement(3, V1, CHANGED, **GHOST)],
        [Statement(10, V2, SWAP, **OLD, kind="RENAME")],
        [insert(2, 20, V2, "a2", 1)],
        [*again, Statement(31, more, SWAP, **OLD, kind="RENAME"), insert(3, 32, more, "a3", 1, 1)],
    ]
    made_of(made, history, (0, 1, 3, 2))
    of_cut, now = ([(r["id"], r["title"], r["qty"], r["more"]) for r in made.rows(as_of=at)] for at in (2, None))
    assert now == [(1, "a1", 7, 5), (2, "a2", 1, 5), (3, "a3", 1, 1)]
    assert of_cut == [(1, "a1", 7, None), (2, "a2", 1, None)]


def test_another_rename_stops_with_its_table(tmp_path: Path, settings: Settings) -> None:
    made = Installation("canal", "ts_renamed", tmp_path, settings, {"s.items": {}})
    renamed = Statement(20, V1, "RENAME TABLE s.items TO s.items_2", table="items_2", kind="RENAME")
    made.export(0, [insert(1, 1, V1, "a1")])
    made.export(1, [renamed])
    made.run(0)
    with pytest.raises(SchemaError, match=r"table s\.items: a table is renamed: RENAME TABLE s\.items TO s\.items_2"):
        made.run(1)
