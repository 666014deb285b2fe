"""Columns that are added with a default: the source gives it to all rows of before, and sends nothing for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.e2e.schema_change_messages import HOURS, Change, Entry, Installation, Statement, Version
from tidemark.errors import CheckError
from tidemark.operations.audit import audit
from tidemark.settings import Settings

pytestmark = [pytest.mark.full, pytest.mark.promise(2)]

Install = Callable[..., Installation]
V1 = {"id": "int", "name": "text"}
V2 = V1 | {"qty": "int", "state": "text", "price": "decimal(8,2)", "at": "datetime"}
V3 = {"amount" if name == "qty" else name: kind for name, kind in V2.items() if name != "state"}
V4 = V3 | {"state": "text"}
BAG1 = {"a": "int", "b": "text"}
BAG2 = BAG1 | {"c": "text"}
BAGGED = {"key": (), "table": "bag"}
ADDED = (
    "ALTER TABLE items ADD COLUMN qty int NOT NULL DEFAULT '7', ADD state varchar(40) NOT NULL, "
    "ADD (price decimal(8,2) DEFAULT 1.5, at datetime DEFAULT CURRENT_TIMESTAMP)"
)


def bag(op: str, position: int, row: dict[str, object]) -> Change:
    return Change(op, position, BAG2 if "c" in row else BAG1, row, row if op == "d" else None, **BAGGED)


HISTORY: list[list[Entry]] = [
    [
        *(Change("c", n, V1, {"id": n, "name": f"a{n}"}) for n in (1, 2, 3)),
        bag("c", 6, {"a": 1, "b": "x"}), bag("c", 7, {"a": 1, "b": "x"}), bag("c", 8, {"a": 2, "b": "y"}),
    ],
    [
        Change("u", 21, V2, {"id": 1, "name": "b1"}),  # explicit nulls stay
        Change("u", 22, V2, {"id": 2, "name": "b2"}, absent=("qty", "state", "price", "at")),
        Change("u", 24, V2, {"id": 6, "name": "b6"}, absent=("qty", "price")),  # its row comes later
        Statement(20, V2, ADDED, 2),
        Change("c", 11, V1, {"id": 5, "name": "a5"}),  # of before the statement, behind it
        Statement(30, BAG2, "ALTER TABLE bag ADD c varchar(40) DEFAULT 'def'", 2, **BAGGED),
        bag("d", 31, {"a": 1, "b": "x", "c": "def"}),
        bag("c", 32, {"a": 3, "b": "z", "c": None}),
    ],
    [Change("c", 4, V1, {"id": 6, "name": "a6"}), bag("c", 9, {"a": 4, "b": "w"})],
    [
        Statement(40, V3, "ALTER TABLE items CHANGE qty amount int NOT NULL, DROP state", 3),
        Statement(41, V4, "ALTER TABLE items ADD COLUMN state varchar(40) DEFAULT 'again'", 4),
        Change("c", 42, V4, {"id": 8, "name": "a8", "amount": 1, "state": None}),
    ],
]  # fmt: skip


def row(id_: int, name: str, amount: int | None, price: str | None, state: str | None = "again") -> dict[str, object]:
    return {"id": id_, "name": name, "amount": amount, "price": price, "at": None, "state": state}


ROWS = [
    row(1, "b1", None, None), row(2, "b2", 7, "1.50"), row(3, "a3", 7, "1.50"), row(5, "a5", 7, "1.50"),
    row(6, "b6", 7, "1.50"), row(8, "a8", 1, None, None),
]  # fmt: skip
BAG = [(1, "x", "def"), (2, "y", "def"), (3, "z", None), (4, "w", "def")]


@pytest.fixture
def install(tmp_path: Path, spark: SparkSession, settings: Settings, request: pytest.FixtureRequest) -> Install:
    """``install(format, suffix, history)``: a feed with a name of its own, its hours written."""
    test = request.node.originalname.removeprefix("test_")[:20].rstrip("_")

    def make(format_: str, suffix: str, history: list[list[Entry]], **table: object) -> Installation:
        name = f"ac_{test}_{format_}{suffix}"
        made = Installation(
            format_, name, tmp_path / f"{format_}{suffix}", settings, {"s.items": dict(table), "s.bag": dict(table)}
        )
        for hour, entries in enumerate(history):
            made.export(hour, entries)
        return made

    return make


@pytest.mark.parametrize("format_", ["canal", "dataworks"])
@pytest.mark.parametrize(
    "order",
    [
        (3, 2, 1, 0), (1, 0, 3, 2), pytest.param((0, 1, 2, 3), marks=pytest.mark.long),
        pytest.param((2, 3, 0, 1), marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_rows_of_before_have_the_default(
    install: Install, spark: SparkSession, settings: Settings, format_: str, order: tuple[int, ...]
) -> None:
    made = install(format_, "_" + "".join(map(str, order)), HISTORY)
    receipts = dict(zip(order, made.run(*order), strict=True))
    found = {row["id"]: row for row in made.rows()}
    assert [dict(sorted(one.items())) for one in found.values()] == [dict(sorted(one.items())) for one in ROWS]
    assert sorted(tuple(one.values()) for one in made.rows("bag")) == BAG
    assert receipts[1].notes == [
        "s.items.at is null in rows of before it was added: its default is no constant: CURRENT_TIMESTAMP()"
    ]
    assert not any(receipts[hour].notes for hour in (0, 2, 3))
    assert [str(finding) for finding in audit(made.feed(), settings).findings] == []


def test_a_table_follows_in_place(install: Install) -> None:
    """All that is stored is older than the statement: stored rows get the value, whatever else the hour brings."""
    made = install("canal", "_in_place", [
        HISTORY[0],
        [Statement(20, V2, ADDED, 2)],
        [Change("u", 22, V2, {"id": 2, "name": "b2"}, absent=("qty", "state", "price"))],
    ])  # fmt: skip
    made.run(0, 1)
    assert [(r["id"], r["qty"], r["state"], r["price"], r["at"]) for r in made.rows()] == [
        (n, 7, "", "1.50", None) for n in (1, 2, 3)
    ]
    assert list(made.rows(as_of=0)[0].values())[:2] == [1, "a1"] and "7" not in str(made.rows(as_of=0))
    made.run(2)
    assert made.rows()[1] == {"id": 2, "name": "b2", "qty": 7, "state": "", "price": "1.50", "at": None}


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (0,)], ids=["in order", "later first", "one hour"])
def test_a_rename_that_is_sent_again_takes_nothing(
    install: Install, settings: Settings, order: tuple[int, ...]
) -> None:
    """With the batch that it came in; rows between the two statements have the new name."""
    titled = {"id": "int", "title": "text"}
    hours: list[list[Entry]] = [
        [Change("c", n, V1, {"id": n, "name": f"a{n}"}) for n in (1, 2)],
        *(
            [
                Statement(position, titled, "ALTER TABLE items CHANGE name title varchar(40)", 2),
                Change("u", position + 1, titled, {"id": 2, "title": "b2"}),
                *new,
            ]
            for position, new in ((20, [Change("c", 25, titled, {"id": 3, "title": "a3"})]), (30, []))
        ),
    ]
    parts = hours if len(order) > 1 else [[entry for hour in hours for entry in hour]]
    made = install("canal", "_again" + "".join(map(str, order)), parts)
    made.run(*order)
    assert [(r["id"], r["title"]) for r in made.rows()] == [(1, "a1"), (2, "b2"), (3, "a3")]
    assert [str(finding) for finding in audit(made.feed(), settings).findings] == []


A, AC, BA = ({"id": "int"} | dict.fromkeys(names, "text") for names in ("a", "ac", "ba"))
#: By table: its columns before and behind its statements, which come again, and what becomes of a row of before.
SENT_AGAIN: dict[str, tuple[Version, Version, list[str], dict[str, str | None]]] = {
    "swapped": (BA, BA, ["RENAME COLUMN a TO b, RENAME COLUMN b TO a"], {"a": "old b", "b": "old a"}),
    "chained": (AC, BA, ["RENAME COLUMN a TO b", "RENAME COLUMN c TO a"], {"b": "old a", "a": "old c"}),
    "retyped": (AC, A, ["DROP COLUMN a, CHANGE c a varchar(40)"], {"a": "old c"}),
    "in_two": (AC, A, ["DROP COLUMN a", "CHANGE c a varchar(40)"], {"a": "old c"}),
}


@pytest.mark.parametrize(
    "order",
    [(0, 1, 2), (2, 1, 0), pytest.param((1, 0, 2), marks=pytest.mark.long), pytest.param((0,), marks=pytest.mark.long)],
)
def test_statements_that_are_sent_again_happen_once(
    tmp_path: Path, spark: SparkSession, settings: Settings, order: tuple[int, ...]
) -> None:
    """Canal goes back to where it was before, and sends all again from there on: row 1 had changed before that."""
    hours: list[list[Entry]] = [[], [], []]
    for table, (before, now, statements, _) in SENT_AGAIN.items():
        old = [{"id": n} | {name: f"old {name}" for name in before if name != "id"} for n in (1, 2)]
        hours[0] += [Change("c", n, before, row, table=table) for n, row in enumerate(old, 1)]
        for hour, at in ((0, 10), (1, 30), (2, 50)):
            hours[hour].append(Change("u", at, before, old[1] | {"a": "changed"}, table=table))
            hours[hour] += [
                Statement(at + n, now, f"ALTER TABLE {table} {sql}", table=table, again=10 + n)
                for n, sql in enumerate(statements, 1)
            ]
            hours[hour].append(Change("c", at + 5, now, {"id": 3, "a": "new"}, table=table))
    parts = hours if len(order) > 1 else [[entry for hour in hours for entry in hour]]
    name = "ac_sent_again_" + "".join(map(str, order))
    made = Installation("canal", name, tmp_path, settings, {f"s.{table}": {} for table in SENT_AGAIN})
    for hour, entries in enumerate(parts):
        made.export(hour, entries)
    made.run(*order)
    for table, (_, now, _, row) in SENT_AGAIN.items():
        found = [{name: one[name] for name in now if name != "id"} for one in made.rows(table)]
        changed = {name: "changed" if value == "old a" else value for name, value in row.items()}
        new = {name: "new" if name == "a" else None for name in row}
        assert found == [row, changed, new], table
    assert [str(finding) for finding in audit(made.feed(), settings).findings] == []


@pytest.mark.parametrize("order", [(0, 2, 1), (2, 1, 0)])
def test_a_late_cut_has_what_was_stated_by_then(install: Install, order: tuple[int, ...]) -> None:
    later = [
        Statement(50, V2, "ALTER TABLE items ADD more int NOT NULL", 3),
        Change("c", 51, V2, {"id": 9, "name": "n"}),
    ]
    made = install("canal", "_" + "".join(map(str, order)), [HISTORY[0][:3], [Statement(20, V2, ADDED, 2)], later])
    made.run(*order)
    assert [(r["id"], r["qty"], r["more"]) for r in made.rows()] == [(1, 7, 0), (2, 7, 0), (3, 7, 0), (9, None, None)]
    if order == (0, 2, 1):
        assert [(r["id"], r["qty"], r["more"]) for r in made.rows(as_of=1)] == [(n, 7, None) for n in (1, 2, 3)]
    assert HOURS[0]


def test_a_check_of_a_column_that_comes_later_stops_no_hour_before(install: Install) -> None:
    """Each hour's receipt names the column while the table does not have it, as one that is misspelt."""
    checks: list[dict[str, object]] = [
        {"column": "qty", "min": 5}, {"column": "qyt", "max": 9}, {"unique": ["id", "qty"]}, {"column": "id", "max": 7},
    ]  # fmt: skip
    version = V1 | {"qty": "int"}
    added = Statement(20, version, "ALTER TABLE items ADD COLUMN qty int", 2)
    made = install("canal", "", [
        [Change("c", 1, V1, {"id": 1, "name": "a"})], [added, Change("c", 21, version, {"id": 2, "name": "b", "qty": 3})],
    ], checks=checks)  # fmt: skip
    told = f"{made.name}.items: checks name columns that the table does not have: {{}}; they are not made before it has them"
    (first,) = made.run(0)
    assert first.notes == [told.format("qty, qyt")]
    with pytest.raises(CheckError, match=r"checks failed, nothing is published: .*: qty >= 5"):
        made.run(1)
    checks[0]["min"] = 3
    (second,) = made.run(1)
    assert second.notes == [told.format("qyt")]


@pytest.mark.parametrize("order", [(1, 0), (0,), pytest.param((0, 1), marks=pytest.mark.long)])
@pytest.mark.parametrize("format_", ["canal", "debezium"])
def test_a_row_of_before_is_not_refused_by_a_column_that_it_did_not_have(
    install: Install, settings: Settings, format_: str, order: tuple[int, ...]
) -> None:
    """It stays, with the value that the statement gives it or none, and the receipt says so: in whichever hours it lands."""
    checks = [
        {"column": "qty", "min": 5, "consequence": "quarantine"},
        {"column": "note", "not_null": True, "consequence": "quarantine"},
    ]
    version = V1 | {"qty": "int", "note": "text"}
    added = Statement(20, version, "ALTER TABLE items ADD COLUMN qty int DEFAULT 1, ADD note varchar(9)", 2)
    hours: list[list[Entry]] = [
        [Change("c", 1, V1, {"id": 1, "name": "a"}), Change("u", 2, V1, {"id": 1, "name": "b"})],
        [
            added,
            Change("c", 21, version, {"id": 2, "name": "b", "qty": 7, "note": "n"}),
            Change("c", 22, version, {"id": 3, "name": "c", "qty": 1, "note": "n"}),
            Change("c", 23, version, {"id": 4, "name": "d", "qty": 7}),
        ],
    ]
    parts = hours if len(order) > 1 else [[entry for hour in hours for entry in hour]]
    made = install(format_, "".join(map(str, order)), parts, checks=checks)
    receipts = made.run(*order)
    before = 1 if format_ == "canal" else None
    assert [(r["id"], r["qty"], r["note"]) for r in made.rows()] == [(1, before, None), (2, 7, "n")]
    assert sum(receipt.quarantined for receipt in receipts) == 2
    told = [warning for receipt in receipts for table in receipt.tables for warning in table.warnings]
    assert order == (0, 1) or any("note is not null fails in 1 of" in one and one.endswith("and stay") for one in told)
    assert [str(finding) for finding in audit(made.feed(), settings).findings] == []


def test_a_value_that_a_statement_gives_all_rows_meets_the_checks(install: Install) -> None:
    """Also in rows that no change of its hour touches."""
    version = V1 | {"qty": "int"}
    checks: list[dict[str, object]] = [{"column": "qty", "min": 5}, {"unique": ["qty"], "consequence": "warn"}]
    made = install("canal", "", [
        [Change("c", n, V1, {"id": n, "name": "a"}) for n in (1, 2)],
        [Statement(20, version, "ALTER TABLE items ADD COLUMN qty int DEFAULT 1", 2)],
    ], checks=checks)  # fmt: skip
    made.run(0)
    with pytest.raises(CheckError, match=r"nothing is published: .*: qty >= 5 fails in 2 of 2 rows that were written"):
        made.run(1)
    assert "qty" not in made.rows()[0]
    checks[0]["consequence"] = "quarantine"
    (receipt,) = made.run(1)
    assert [warning.partition(" fails")[0] for warning in receipt.tables[0].warnings] == ["not unique: qty", "qty >= 5"]
    assert [(r["id"], r["qty"]) for r in made.rows()] == [(1, 1), (2, 1)]
