"""Statements that move a table's rows without sending them: what says so, and how the rows come right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.schema_change_messages import HOURS, Change, Installation, Statement
from tidemark.errors import SchemaError
from tidemark.ledger.reloads import name_reloads
from tidemark.settings import Settings

pytestmark = [pytest.mark.full, pytest.mark.promise(2)]

V1 = {"id": "int", "name": "text"}
DECLARED = {
    "canal": {"id": "int(11)", "name": "varchar(40)"},
    "dataworks": {"id": "LONG", "name": "STRING"},
}


def insert(id_: int, position: int) -> Change:
    return Change("c", position, V1, {"id": id_, "name": "a"}, table="log")


def stopped(made: Installation, hour: int) -> str:
    with pytest.raises(SchemaError) as error:
        made.run(hour)
    return str(error.value)


@pytest.mark.parametrize("format_", ["canal", "dataworks"])
def test_a_log_that_is_rotated_is_emptied_by_a_reload(tmp_path: Path, settings: Settings, format_: str) -> None:
    made = Installation(format_, f"mr_{format_}", tmp_path, settings, {"s.log": {}})
    made.export(0, [insert(1, 1), insert(2, 2)])
    renamed = Statement(20, V1, "RENAME TABLE `s`.`log` TO `s`.`log_old`", table="log_old", kind="RENAME")
    created = Statement(21, V1, "CREATE TABLE `s`.`log` LIKE `s`.`log_old`", table="log", kind="CREATE")
    made.export(1, [renamed, created, insert(3, 22)])
    made.run(0)
    way_out = f"`tidemark reload {made.name} {made.name}.log --hour {HOURS[1]} --empty`"
    why = stopped(made, 1)
    assert "a table is renamed" in why and "tables.s.log.columns" in why and way_out in why

    made.tables = {name: {"columns": DECLARED[format_]} for name in ("s.log", "s.log_old")}
    (receipt,) = made.run(1)
    assert [row["id"] for row in made.rows("log")] == [1, 2, 3]
    (note,) = [note for note in receipt.notes if note.startswith(f"{made.name}.log:")]
    assert "RENAME TABLE `s`.`log` TO `s`.`log_old`: the table's rows stay as they were" in note and way_out in note

    name_reloads(made.feed(), ["s.log (empty)"], HOURS[1], settings)
    (receipt,) = made.run(1)
    assert [row["id"] for row in made.rows("log")] == [3]
    assert not [note for note in receipt.notes if note.startswith(f"{made.name}.log:")], "it is mended"


def test_of_a_partition_that_is_dropped_a_new_load_tells(tmp_path: Path, settings: Settings) -> None:
    made = Installation("canal", "mr_partition", tmp_path, settings, {"s.log": {"columns": DECLARED["canal"]}})
    made.export(0, [insert(1, 1), insert(2, 2)])
    made.export(1, [Statement(20, V1, "ALTER TABLE `s`.`log` DROP PARTITION p0", table="log"), insert(3, 22)])
    made.export(
        2, [Statement(30, V1, "ALTER TABLE `s`.`log` ADD KEY k (name)", table="log"), insert(2, 31), insert(3, 32)]
    )
    _, receipt, later = made.run(0, 1, 2)
    assert len(receipt.notes) == 1 and "have the source load the table anew" in receipt.notes[0], receipt.notes
    assert later.notes == [], "neither a statement of before nor one that moves no rows"
    name_reloads(made.feed(), ["s.log"], HOURS[2], settings)
    made.run(2)
    assert [row["id"] for row in made.rows("log")] == [2, 3]
