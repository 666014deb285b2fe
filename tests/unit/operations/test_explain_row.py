"""Which change gave a cell its value: taking it away changes the cell, taking any other does not."""

from __future__ import annotations

from random import Random

from tidemark.operations.explain_row import Change, given_by

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
    return {name: change.sent[name] for name, change in (given_by(changes, {}) or {}).items()}


def test_the_change_that_is_named_gave_the_cell_and_no_other() -> None:
    rng, looked_at = Random(7), 0
    while looked_at < 1000:
        changes = history(rng)
        for name, giver in (given_by(changes, {}) or {}).items():
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
    assert given_by([moved], {("1", "2#1"): {"id": first, "a": first, "b": first}}) == {
        "id": moved,
        "a": moved,
        "b": first,
    }
    assert given_by([moved, Change(place="3#0", op="delete", key="2", record=3, **common)], {}) is None


def test_an_insert_begins_the_row_again() -> None:
    common = {"key": "1", "hour": "2026-11-20T00", "object": "o", "fate": "applied"}
    first = Change(place="1#1", op="insert", record=1, sent={"id": "1", "a": "x"}, **common)
    again = Change(place="2#1", op="insert", record=2, sent={"id": "1"}, **common)
    assert given_by([again, first], {}) == {"id": again}


def test_a_column_that_an_update_does_not_name_is_none_of_the_table_any_more() -> None:
    common = {"key": "1", "hour": "2026-11-20T00", "object": "o", "fate": "applied"}
    first = Change(place="1#1", op="insert", record=1, sent={"id": "1", "a": "x", "b": "y"}, **common)
    then = Change(place="2#2", op="update", record=2, sent={"id": "1"}, unsent=("a",), **common)
    assert given_by([first, then], {}) == {"id": then, "a": first}
