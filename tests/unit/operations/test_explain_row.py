"""Which change gave a cell its value: taking it away changes the cell, taking any other does not."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tidemark.operations.explain_row import Change, rows_of_key

COLUMNS = ("a", "b", "c", "d")


def history(rng: Random) -> list[Change]:
    """Changes of one key, in any order. Every value is another one."""
    changes = []
    for number in range(rng.randint(1, 8)):
        op = rng.choice(("insert", "update", "update", "update", "delete"))
        names = [name for name in COLUMNS if rng.random() < 0.6] if op != "delete" else []
        changes.append(
            Change(
                place=f"{number:04d}#{'dui'.index(op[0])}",
                op=op,
                key="k",
                hour="2026-11-20T00",
                object="o",
                record=number,
                sent={name: f"{name}{number}" for name in names},
                unsent=[name for name in COLUMNS if op == "update" and name not in names],
                fate="applied" if rng.random() < 0.9 else "duplicate",
            )
        )
    rng.shuffle(changes)
    return changes


def cells(changes: list[Change]) -> dict[str, str | None]:
    return {name: change.sent[name] for name, change in (rows_of_key(changes, {}).last or {}).items()}


def test_the_change_that_is_named_gave_the_cell_and_no_other() -> None:
    rng, looked_at = Random(7), 0
    while looked_at < 1000:
        changes = history(rng)
        for name, giver in (rows_of_key(changes, {}).last or {}).items():
            looked_at += 1
            value = cells(changes)[name]
            for one in changes:
                left = cells([other for other in changes if other is not one])
                if one is giver:
                    assert left.get(name) != value
                elif one.op != "delete" or left:
                    assert left.get(name) == value


def test_a_row_that_moved_has_what_it_had_where_it_came_from() -> None:
    common = {"hour": "2026-11-20T00", "object": "o", "fate": "applied"}
    first = Change(place="1#1", op="insert", key="1", record=1, sent={"id": "1", "a": "x", "b": "y"}, **common)
    moved = Change(place="2#1", op="insert", key="2", came_from="1", record=2, sent={"id": "2", "a": "z"},
                   unsent=("b",), **common)  # fmt: skip
    assert rows_of_key([moved], {("1", "2#1"): {"id": first, "a": first, "b": first}}).last == {
        "id": moved,
        "a": moved,
        "b": first,
    }
    assert rows_of_key([moved, Change(place="3#0", op="delete", key="2", record=3, **common)], {}).last is None


def test_an_insert_begins_the_row_again() -> None:
    common = {"key": "1", "hour": "2026-11-20T00", "object": "o", "fate": "applied"}
    first = Change(place="1#1", op="insert", record=1, sent={"id": "1", "a": "x"}, **common)
    again = Change(place="2#1", op="insert", record=2, sent={"id": "1"}, **common)
    assert rows_of_key([again, first], {}).last == {"id": again}


def test_a_column_that_an_update_does_not_name_is_none_of_the_table_any_more() -> None:
    common = {"key": "1", "hour": "2026-11-20T00", "object": "o", "fate": "applied"}
    first = Change(place="1#1", op="insert", record=1, sent={"id": "1", "a": "x", "b": "y"}, **common)
    then = Change(place="2#2", op="update", record=2, sent={"id": "1"}, unsent=("a",), **common)
    assert rows_of_key([first, then], {}).last == {"id": then, "a": first}


def test_rows_that_meet_under_a_key_are_told_apart() -> None:
    """``UPDATE t SET id = id + 1`` over 1 and 2: for a moment key 2 has two rows. What leaves it was there first."""
    common = {"hour": "2026-11-20T00", "object": "o", "fate": "applied"}
    there = Change(place="1#1", op="insert", key="2", record=1, sent={"id": "2", "a": "of 2"}, **common)
    statement = common | {"source_tx": "tx 9"}
    arrives = Change(
        place="2#1", op="insert", key="2", came_from="1", record=2, sent={"id": "2", "a": "of 1"}, **statement
    )
    leaves = Change(place="3#0", op="delete", key="2", record=3, **statement)
    found = rows_of_key([there, arrives, leaves], {})
    assert found.last == {"id": arrives, "a": arrives}
    assert found.left == {"3#0": {"id": there, "a": there}}
    # The row before shows another one; of transactions that follow each other nothing meets.
    shown = replace(leaves, before={"id": "2", "a": "of 1"})
    assert rows_of_key([there, arrives, shown], {}).last == {"id": there, "a": there}
    later = replace(leaves, source_tx="tx 10")
    assert rows_of_key([there, arrives, later], {}).last is None
    again = replace(
        arrives, place="4#2", op="update", came_from=None, sent={"id": "2"}, unsent=("a",), source_tx="tx 11"
    )
    assert rows_of_key([there, arrives, leaves, again], {}).last == {"id": again, "a": arrives}
