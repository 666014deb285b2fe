"""Tables whose columns change: in mid-hour, old and new messages interleaved, hours in any order and again.

Every expectation is written down as rows. What the source reports about a change differs by format: Canal and DataWorks send
the statement, Qlik all columns, Debezium and IBM nothing but rows.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.e2e.schema_change_messages import EPOCH, HOURS, Change, Entry, Installation, Row, Statement, Version
from tidemark.changelog import table_history as definitions
from tidemark.errors import CheckError, QuarantineLimitError, SchemaError
from tidemark.lake.catalog import read_rows
from tidemark.lake.session import full_name
from tidemark.ledger.publication_history import load_history
from tidemark.operations.audit import audit
from tidemark.pipeline.hour import decode_stage, fold_stage, run_hour
from tidemark.pipeline.land import land
from tidemark.settings import Settings

pytestmark = [pytest.mark.full, pytest.mark.promise(4)]

Install = Callable[..., Installation]
#: A column as hostile as MySQL allows.
ODD = "a.b `c` 'd' \"e\\; -- ${env:PATH}"
V1 = {"id": "int", "name": "text", "qty": "int", "old": "text"}
V2 = {"id": "int", "name": "text", "qty": "long", "note": "text", ODD: "text"}
V3 = {"id": "int", "title": "text", "qty": "long", "note": "text", ODD: "text"}
V4 = {"id": "int", "title": "text", "qty": "long", ODD: "text"}
QUOTED = "`" + ODD.replace("`", "``") + "`"
ALTERED = Statement(
    20, V2, f"ALTER TABLE items ADD COLUMN note varchar(40), ADD {QUOTED} varchar(40), DROP OLD, MODIFY Qty bigint", 2
)
#: Written in another case than messages write the columns: to MySQL it is the same.
RENAMED = Statement(40, V3, "ALTER TABLE items CHANGE NAME title varchar(40)", 3)
DROPPED = Statement(50, V4, "ALTER TABLE items DROP COLUMN note", 4)

BAG1, BAG2 = {"a": "int", "b": "text"}, {"a": "int", "b": "text", "c": "text"}
BAGGED = {"key": (), "table": "bag"}


def insert(position: int, version: Version, *values: Any) -> Change:
    return Change("c", position, version, dict(zip(version, values, strict=True)))


def update(position: int, version: Version, *values: Any) -> Change:
    return Change("u", position, version, dict(zip(version, values, strict=True)))


def bag(op: str, position: int, version: Version, *values: Any) -> Change:
    row = dict(zip(version, values, strict=True))
    return Change(op, position, version, row, row if op == "d" else None, **BAGGED)


HISTORY: list[list[Entry]] = [
    [Statement(0, V1, "ALTER TABLE items COMMENT 'x'"), Statement(0, BAG1, "ALTER TABLE bag COMMENT 'x'", **BAGGED)]
    + [insert(n, V1, n, f"a{n}", n, f"o{n}") for n in (1, 2, 3, 4, 5)]
    + [bag("c", 6, BAG1, 1, "x"), bag("c", 7, BAG1, 1, "x"), bag("c", 8, BAG1, 2, "y")],
    # in mid-hour; messages of before the change come behind those of after it
    [
        update(21, V2, 1, "b1", 3_000_000_000, "n1", "x1"),
        ALTERED,
        update(11, V1, 2, "b2", 12, "p2"),
        insert(12, V1, 6, "a6", 6, "o6"),
        Change("d", 22, V2, {"id": 5, "name": "a5", "qty": 5}),
        Statement(30, BAG2, "ALTER TABLE bag ADD c varchar(40)", 2, **BAGGED),
        bag("d", 31, BAG2, 1, "x", None),
        bag("c", 32, BAG2, 3, "z", "new"),
        bag("c", 9, BAG1, 4, "w"),
    ],
    [
        update(41, V3, 4, "c4", 4, "n4", None),
        RENAMED,
        update(13, V1, 3, "b3", 13, "p3"),
        update(21, V2, 1, "b1", 3_000_000_000, "n1", "x1"),
    ],
    # the statement alone: no row is changed
    [DROPPED],
]
BAG = [(1, "x", None), (2, "y", None), (3, "z", "new"), (4, "w", None)]


def table(columns: list[str], *rows: tuple[Any, ...]) -> list[Row]:
    return [dict(zip(columns, row, strict=True)) for row in rows]


STATED = table(
    ["id", "title", "qty", "note", ODD, "old"],
    (1, "b1", 3_000_000_000, None, "x1", None),
    (2, "b2", 12, None, None, None),
    (3, "b3", 13, None, None, None),
    (4, "c4", 4, None, None, None),
    (6, "a6", 6, None, None, None),
)
#: The source lists all columns: a renamed column is no longer there under its old name.
LISTED = table(
    ["id", "name", "title", "qty", "note", ODD, "old"],
    (1, None, None, 3_000_000_000, None, "x1", None),
    (2, None, None, 12, None, None, None),
    (3, None, None, 13, None, None, None),
    (4, None, "c4", 4, None, None, None),
    (6, None, None, 6, None, None, None),
)
#: The source reports no change of columns: a row has what its own messages sent last.
UNREPORTED = table(
    ["id", "name", "title", "qty", "note", ODD, "old"],
    (1, "b1", None, 3_000_000_000, "n1", "x1", None),
    (2, "b2", None, 12, None, None, "p2"),
    (3, "b3", None, 13, None, None, "p3"),
    (4, None, "c4", 4, "n4", None, None),
    (6, "a6", None, 6, None, None, "o6"),
)
#: Its records have no names, so the feed file lists columns; the values do not show a rename.
NAMELESS = [
    {k: v for k, v in row.items() if k != "title"} | ({"name": "c4"} if row["id"] == 4 else {}) for row in UNREPORTED
]
EXPECTED = {"canal": STATED, "dataworks": STATED, "qlik": LISTED, "debezium": UNREPORTED, "ibm": NAMELESS}
DB2 = {"int": "INTEGER", "long": "BIGINT", "text": "VARCHAR(40)"}
IBM_TABLES = {
    "s.items": {"key": ["id"], "columns": {n: DB2[k] for n, k in V2.items()},
                "earlier_columns": [{n: DB2[k] for n, k in V1.items()}]},
    "s.bag": {"columns": {n: DB2[k] for n, k in BAG2.items()}, "earlier_columns": [{n: DB2[k] for n, k in BAG1.items()}]},
}  # fmt: skip
NAMED: Row = {"s.items": {}, "s.bag": {}}


@pytest.fixture
def install(tmp_path: Path, spark: SparkSession, settings: Settings, request: pytest.FixtureRequest) -> Install:
    """``install(format, suffix, tables)``: a feed with a name and tables of its own."""
    test = request.node.originalname.removeprefix("test_")[:24].rstrip("_")

    def make(format_: str, suffix: str = "", tables: Row | None = None) -> Installation:
        name = f"sc_{test}_{format_}{suffix}"
        default = IBM_TABLES if format_ == "ibm" else NAMED
        return Installation(
            format_, name, tmp_path / f"{format_}{suffix}", settings, default if tables is None else tables
        )

    return make


def exported(installation: Installation, history: list[list[Entry]]) -> Installation:
    """A history's hours written. Qlik's metadata, which come once, are repeated, so that hours run in any order."""
    for hour, entries in enumerate(history):
        before = [s for earlier in history[:hour] for s in earlier if isinstance(s, Statement)]
        installation.export(hour, [*(before if installation.format == "qlik" else []), *entries])
    return installation


@pytest.mark.parametrize("format_", EXPECTED)
def test_columns_change_in_mid_hour_and_hours_run_in_any_order(
    install: Install, spark: SparkSession, settings: Settings, format_: str
) -> None:
    outcomes = []
    mixed = [("_m", (1, 3, 0, 2))] if format_ == "dataworks" else []
    for suffix, order in (("", (0, 1, 2, 3)), ("_r", (3, 2, 1, 0)), *mixed):
        made = exported(install(format_, suffix), HISTORY if format_ != "ibm" else WITHOUT_RENAME)
        receipts = made.run(*order)
        assert [receipt.quarantined for receipt in receipts] == [0, 0, 0, 0], order
        outcomes.append((order, made.rows(), made.types()))
        assert sorted(tuple(row.values()) for row in made.rows("bag")) == BAG, order
        absent = spark.table(full_name(made.name, "items")).where("size(_tidemark.absent) > 0")
        assert absent.count() == 0, order
        if format_ == "canal":  # that a published hour stays as it is depends on no format
            again = [receipt.sequence for receipt in made.run(*order)]
            assert again == [receipt.sequence for receipt in receipts], "the hours again: nothing to do"
    for order, rows, types in outcomes:
        assert rows == EXPECTED[format_], order
        assert types == outcomes[0][2], order
        assert list(types) == list(EXPECTED[format_][0]), order
        assert types["qty"] == "int64"


def v2_instead(entry: Entry) -> Entry:
    """What IBM's records can say of a renamed column: its value, in its place."""
    if isinstance(entry, Change) and entry.version is V3:
        row = {"name" if name == "title" else name: value for name, value in entry.row.items()}
        return Change(entry.op, entry.position, V2, row, table=entry.table)
    return entry


WITHOUT_RENAME = [[v2_instead(entry) for entry in hour] for hour in HISTORY]


TEXT = V1 | {"qty": "text"}
UNSAFE: list[list[Entry]] = [
    [Statement(0, V1, "ALTER TABLE items COMMENT 'x'"), insert(1, V1, 1, "a", 10, "o"), insert(2, V1, 2, "b", 20, "p")],
    [
        Statement(20, TEXT, "ALTER TABLE items MODIFY qty varchar(40)", 2),
        insert(11, V1, 3, "c", 30, "q"),
        update(21, TEXT, 2, "b", "many", "p"),
    ],
]
DECLARED_TEXT = {"canal": "varchar(40)", "dataworks": "STRING", "qlik": "WSTRING", "debezium": "text"}


def db2(version: Version, **more: Any) -> Row:
    return {"s.items": {"key": ["id"], "columns": {name: DB2[kind] for name, kind in version.items()}, **more}}


@pytest.mark.parametrize("format_", EXPECTED)
def test_an_incompatible_type_stops_the_feed_and_the_way_out_works(
    install: Install, settings: Settings, format_: str
) -> None:
    made = exported(install(format_, tables=db2(V1) if format_ == "ibm" else NAMED), UNSAFE)
    made.run(0)
    before = made.rows()
    if format_ == "ibm":
        made.tables = db2(TEXT)
    with pytest.raises(SchemaError) as stopped:
        made.run(1)
    number = "bigint" if format_ == "dataworks" else "int"
    assert f"table {made.name}.items: column qty is {number} and would become string" in str(stopped.value)
    assert stopped.value.feed == made.name
    assert made.rows() == before
    assert [receipt.hour for receipt in load_history(settings, made.name).receipts] == [HOURS[0]]
    name = {"name": f"{made.name}.items_2"}
    made.tables = (
        db2(TEXT, **name) if format_ == "ibm" else {"s.items": name | {"columns": {"qty": DECLARED_TEXT[format_]}}}
    )
    made.run(1)
    assert {row["id"]: (row["name"], row["qty"]) for row in made.rows("items_2")} == {
        1: ("a", "10"), 2: ("b", "many"), 3: ("c", "30"),
    }  # fmt: skip
    assert made.rows() == before, "the old table stays what it was"


@pytest.mark.parametrize("format_", ["debezium", "canal", "dataworks", "qlik"])
def test_another_key_stops_the_feed_and_the_way_out_works(install: Install, format_: str) -> None:
    wide = ("id", "name")
    changed = Change("u", 21, V1, dict(zip(V1, (1, "a", 11, "o"), strict=True)), key=wide)
    history = [UNSAFE[0], [Statement(20, V1, "ALTER TABLE items COMMENT 'x'", 2, wide), changed]]
    made = exported(install(format_, tables=NAMED), history)
    made.run(0)
    with pytest.raises(SchemaError, match=r"key") as stopped:
        made.run(1)
    assert f"table {made.name}.items" in str(stopped.value) and "id, name" in str(stopped.value)
    made.tables = {"s.items": {"key": ["id"]}}
    made.run(1)
    assert [row["qty"] for row in made.rows()] == [11, 20]


UNPUBLISHED: list[list[Entry]] = [
    [insert(1, V1, 1, "a", 10, "o"), insert(2, V1, 2, "b", 20, "p")],
    [
        ALTERED,
        update(21, V2, 1, "b1", 3_000_000_000, "n1", "x1"),
        RENAMED,
        insert(41, V3, 9, "c9", 9, "n9", "x9"),
        bag("c", 42, BAG1, 1, "x"),
    ],
    [update(3, V1, 2, "b2", 22, "p2")],
]


@pytest.mark.parametrize("ends", ["by a check", "by the quarantine's limit", "unheard"])
def test_columns_of_an_hour_that_is_not_published_are_not_there(
    install: Install, spark: SparkSession, settings: Settings, ends: str
) -> None:
    """Its columns are added, renamed and widened before it is checked; then it fails, or is never heard of again."""
    made = exported(install("canal", f"_{ends.split()[-1]}"), UNPUBLISHED)
    made.run(0)
    before, types = made.rows(), made.types()

    def items() -> DataFrame:
        return spark.table(full_name(made.name, "items"))

    if ends == "unheard":
        feed = made.feed()
        land(feed, HOURS[1], settings)
        decode_stage(spark, feed, HOURS[1], settings)
        fold_stage(spark, feed, HOURS[1], settings)
        assert "title" in items().columns, "Iceberg has no columns of a branch alone"
        assert made.types() == types, "`tidemark show` reads what is published"
    else:
        at_most = {"column": "id", "max": 5, "consequence": "stop" if ends == "by a check" else "quarantine"}
        name = {"name": f"{made.name}.items", "checks": [at_most]}
        feed = made.feed(tables=made.feed().model_dump()["tables"] | {"s.items": name}, quarantine={"at_least": 0})
        with pytest.raises((CheckError, QuarantineLimitError)):
            run_hour(feed, HOURS[1], settings)
        assert (made.rows(), made.types()) == (before, types)
        assert items().columns == [*types, "_tidemark"]
        assert items().schema["qty"].dataType.simpleString() == "int"
        assert not spark.catalog.tableExists(full_name(made.name, "bag"))
    made.run(2)
    assert items().columns == [*types, "_tidemark"]
    assert (made.rows(), made.types()) == ([before[0], {"id": 2, "name": "b2", "qty": 22, "old": "p2"}], types)
    assert not spark.catalog.tableExists(full_name(made.name, "bag")) or ends == "unheard"
    made.run(1)
    assert made.rows() == table(
        ["id", "title", "qty", "note", ODD, "old"],
        (1, "b1", 3_000_000_000, "n1", "x1", None),
        (2, "b2", 22, None, None, None),
        (9, "c9", 9, "n9", "x9", None),
    )
    assert made.types()["qty"] == "int64"
    assert made.rows("items", as_of=2)[1] == {"id": 2, "name": "b2", "qty": 22, "old": "p2"}
    assert made.rows("bag") == [{"a": 1, "b": "x"}]
    properties = spark.sql(f"SHOW TBLPROPERTIES {full_name(made.name, 'items')}").collect()
    assert "tidemark.schema-before" not in {row["key"] for row in properties}


MILLIS, MICROS = "int64/io.debezium.time.Timestamp", "int64/io.debezium.time.MicroTimestamp"
CLOCK1 = {"id": "int32", "at": MILLIS, "f": "float32", "big": "text"}
CLOCK2 = {"id": "int32", "at": MICROS, "f": "float64", "big": "text"}
CLOCKS: list[list[Entry]] = [
    [insert(1, CLOCK1, 1, EPOCH, 1.1, "one"), insert(2, CLOCK1, 2, EPOCH + 1, 1.1, "two")],
    [
        update(21, CLOCK2, 1, EPOCH * 1000 + 5, 2.2, "__debezium_unavailable_value"),
        update(3, CLOCK1, 1, EPOCH + 3, 3.3, "last"),
        insert(22, CLOCK2, 3, EPOCH * 1000 + 6, 2.2, "three"),
        insert(4, CLOCK1, 4, EPOCH + 4, 1.1, "four"),
    ],
]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_each_value_is_read_as_its_own_message_says(install: Install, order: tuple[int, ...]) -> None:
    """A column's precision changes, and with it how messages write it: also where a late hour folds both again."""
    made = exported(install("debezium", f"_{order[0]}"), CLOCKS)
    made.run(*order)
    single = 1.100000023841858  # 1.1 as the source's single precision has it
    assert made.rows() == table(
        ["id", "at", "f", "big"],
        (1, "2026-11-20T00:00:00.000005", 2.2, "last"),
        (2, "2026-11-20T00:00:00.001000", single, "two"),
        (3, "2026-11-20T00:00:00.000006", 2.2, "three"),
        (4, "2026-11-20T00:00:00.004000", single, "four"),
    )
    assert made.types()["f"] == "double"


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_row_without_a_key_is_found_in_another_notation(install: Install, order: tuple[int, ...]) -> None:
    """The connector writes a time in microseconds from some hour on: what it deletes then was sent in milliseconds."""
    old, new = ({"a": "int32", "at": clock} for clock in (MILLIS, MICROS))
    made = exported(install("debezium", f"_bag_{order[0]}"), [
        [bag("c", 1, old, 1, EPOCH), bag("c", 2, old, 2, EPOCH), bag("c", 3, old, 2, EPOCH)],
        [bag("d", 21, new, 1, EPOCH * 1000), bag("d", 22, new, 2, EPOCH * 1000), bag("c", 23, new, 3, EPOCH * 1000 + 5)],
    ])  # fmt: skip
    made.run(*order)
    left = table(["a", "at"], (2, "2026-11-20T00:00:00"), (3, "2026-11-20T00:00:00.000005"))
    assert sorted(made.rows("bag"), key=lambda row: row["a"]) == left
    assert not audit(made.feed(), made.settings).findings


PAIR = {"id": "int", "a": "decimal(8,2)", "b": "int"}
TAKEN: list[list[Entry]] = [
    [insert(1, PAIR, 1, "1.50", 10), insert(2, PAIR, 2, "2.50", 20), bag("c", 3, BAG1, 1, "x"), bag("c", 4, BAG1, 2, "y")],
    [
        Statement(20, PAIR, "ALTER TABLE items DROP b"),
        Statement(21, PAIR, "ALTER TABLE items CHANGE a d decimal(9,2)"),
        Statement(22, PAIR, "ALTER TABLE items CHANGE d b decimal(10,2)"),
        update(23, {"id": "int", "b": "decimal(10,2)"}, 1, "12345678.50"),
        Statement(24, BAG1, "ALTER TABLE bag DROP a, CHANGE b c varchar(40)", **BAGGED),
        bag("d", 25, {"c": "text"}, "x"),
        bag("c", 26, {"c": "text"}, "z"),
    ],
    [
        Statement(30, PAIR, "ALTER TABLE items ADD a bigint"),
        update(31, {"id": "int", "b": "decimal(10,2)", "a": "bigint"}, 1, "6.00", 7),
    ],
]  # fmt: skip


def test_names_that_are_taken_again_mean_what_they_meant(install: Install) -> None:
    """A column takes the name of a dropped one, and gives its own to a new one."""
    types = None
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        tables = {"s.items": {"columns": {"b": "decimal(10,2)"}}, "s.bag": {}}
        made = exported(install("canal", f"_taken_{order[0]}", tables), TAKEN)
        made.run(*order)
        assert made.rows() == [{"id": 1, "b": "6.00", "a": 7}, {"id": 2, "b": "2.50", "a": None}], order
        assert sorted((row["a"], row["c"]) for row in made.rows("bag")) == [(None, "y"), (None, "z")], order
        types = types or made.types()
        assert made.types() == types, order


@pytest.mark.parametrize("format_", ["debezium", "canal"])
def test_columns_that_differ_only_in_case_stop_the_feed(install: Install, format_: str) -> None:
    colliding = V1 | {"NAME": "text"}
    made = exported(install(format_), [UNSAFE[0], [insert(21, colliding, 3, "c", 30, "q", "C")]])
    fresh = exported(install(format_, "_fresh"), [[insert(21, colliding, 3, "c", 30, "q", "C")]])
    made.run(0)
    before = made.rows()
    for installation, hour in ((made, 1), (fresh, 0)):
        with pytest.raises(SchemaError, match="columns 'name' and 'NAME' differ only in case"):
            installation.run(hour)
    assert (made.rows(), load_history(made.settings, fresh.name).receipts) == (before, [])


def test_rows_of_impossible_columns_wait_in_quarantine(install: Install, settings: Settings) -> None:
    """Each would spoil the table for good, or stop the feed: the rest of the hour goes on without them."""
    wide = {f"c{n}": "text" for n in range(2_000)}
    impossible: list[Version] = [{"_TideMark": "text"}, {"": "text"}, {"a\x1fb": "text"}, {"x" * 256: "text"}, wide]
    made = install("plain_debezium", tables={"s.items": {"columns": {"id": "int"}}})
    rows = [insert(n, {"id": "int"} | more, n, *("v" for _ in more)) for n, more in enumerate(impossible, 2)]
    made.export(0, [insert(1, {"id": "int", "fine": "text"}, 1, "f"), *rows])
    (receipt,) = made.run(0)
    assert (receipt.landed, receipt.counts.applied, receipt.quarantined) == (6, 1, 5)
    assert made.rows() == [{"id": 1, "fine": "f"}]
    kept = {row["record"]: row["reason"] for row in read_rows(settings, "tidemark", made.name, "quarantine")}
    assert kept == {
        2: "a column is named _TideMark, which Tidemark keeps for itself",
        3: "a column has no name",
        4: "a column's name holds the control character U+001F",
        5: "a column's name has 256 characters, more than 255",
        6: "the row has 2001 columns, more than 2000",
    }
    # and where they are looked at again: a late hour reads the log
    made.export(1, [Change("u", 9, {"id": "int", "fine": "text"}, {"id": 1, "fine": "__debezium_unavailable_value"})])
    made.export(2, [insert(8, {"id": "int", "fine": "text"}, 1, "late")])
    made.run(1, 2)
    assert made.rows() == [{"id": 1, "fine": "late"}]


def test_a_table_without_end_of_columns_stops_the_feed(install: Install) -> None:
    made = install("plain_debezium", tables={"s.items": {"columns": {"id": "int"}}})
    parts = [{"id": "int"} | {f"c{part}_{n}": "text" for n in range(700)} for part in range(3)]
    made.export(0, [insert(n, part, n, *("v" for _ in range(700))) for n, part in enumerate(parts, 1)])
    with pytest.raises(SchemaError, match=r"the table would have 2101 columns, more than 2000"):
        made.run(0)


def test_statements_without_end_stop_the_feed(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    made = exported(install("canal"), [[insert(1, V1, 1, "a", 10, "o"), ALTERED, RENAMED, RENAMED]])
    monkeypatch.setattr(definitions, "_MOST_ENTRIES", 1)
    with pytest.raises(SchemaError, match="more than 1 different statements about its tables"):
        made.run(0)
    monkeypatch.setattr(definitions, "_MOST_ENTRIES", 2)
    made.run(0)
    assert [row["title"] for row in made.rows()] == ["a"]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_without_schemas_added_columns_appear_by_name(install: Install, order: tuple[int, ...]) -> None:
    """Their type is the feed file's, or text. A late row that is folded again keeps a column its hour knows nothing of."""
    known = {"id": "int", "big": "text"}
    more = {"id": "int", "big": "text", "note": "text", "n": "int"}
    tables = {"s.items": {"columns": {"id": "int", "n": "int"}}}
    made = install("plain_debezium", f"_{order[0]}", tables)
    made.export(0, [insert(1, known, 1, "one"), insert(2, known, 2, "two")])
    made.export(1, [
        Change("u", 21, more, {"id": 1, "big": "__debezium_unavailable_value", "note": "n1", "n": 7}),
        update(3, known, 2, "newer"),
    ])  # fmt: skip
    made.run(*order)
    rows = [{"id": 1, "big": "one", "note": "n1", "n": 7}, {"id": 2, "big": "newer", "note": None, "n": None}]
    assert made.rows() == rows
    assert list(made.types()) == ["id", "big", "note", "n"]


def test_a_table_of_another_name_is_built_from_the_log(install: Install) -> None:
    """What no later change touches is in it, and what was deleted stays so."""
    made = install("plain_debezium", tables=NAMED)
    made.export(0, [Change("c", n, V1, {"id": n}) for n in (2, 3, 4)])
    made.export(1, [Change("d", 10, V1, {"id": 2}), Change("u", 11, V1, {"id": 3, "name": "b"})])
    made.export(2, [Change("c", 20, V1, {"id": 5}), Change("c", 3, V1, {"id": 2, "name": "late"})])
    made.run(0, 1)
    made.tables = {"s.items": {"name": f"{made.name}.other", "key": ["id"]}}
    never = {"checks": [{"column": "name", "isin": ["nobody"]}]}
    with pytest.raises(CheckError):  # a run that only gets as far as making the table
        run_hour(made.feed(tables={"s.items": made.tables["s.items"] | never}), HOURS[2], made.settings)
    (receipt,) = made.run(2)
    assert [(row["id"], row["name"]) for row in made.rows("other")] == [("3", "b"), ("4", None), ("5", None)]
    assert receipt.counts.superseded + receipt.counts.applied == 2
    made.tables = NAMED
    made.export(3, [Change("c", 30, V1, {"id": 6})])
    with pytest.raises(SchemaError, match=r"s\.items was published as \w+\.other since"):
        made.run(3)


def test_a_name_that_another_table_has_had_is_not_given_away(install: Install) -> None:
    """Its rows would be those of both. A table of the source that moved is in the feed file once, and goes on."""
    made = install("plain_debezium", tables=NAMED)
    made.export(0, [Change("c", n, V1, {"id": n}) for n in (1, 2)])
    made.run(0)
    made.export(1, [Change("c", 11, V1, {"id": 2}, table="others")])
    of_others = {"s.others": {"name": f"{made.name}.items", "key": ["id"]}}
    made.tables = {"s.items": {"name": f"{made.name}.other", "key": ["id"]}, **of_others}
    with pytest.raises(
        SchemaError, match=r"it holds the rows of s\.items, which the feed file publishes as \w+\.other now"
    ):
        made.run(1)
    made.tables = of_others
    made.run(1)
    assert [row["id"] for row in made.rows()] == ["1", "2"]


def test_the_audit_asks_for_no_late_cut_under_a_former_name(install: Install, settings: Settings) -> None:
    made = install("plain_debezium", tables=NAMED)
    for hour in range(3):
        made.export(hour, [Change("c", 10 * hour + 1, V1, {"id": hour})])
    made.run(0)
    made.tables = {"s.items": {"name": f"{made.name}.other", "key": ["id"]}}
    made.run(2, 1)
    assert [str(finding) for finding in audit(made.feed(), settings).findings] == []


def test_a_record_of_no_declared_width_says_which_there_are(install: Install, settings: Settings) -> None:
    made = install("ibm")
    made.export(0, [insert(1, V1, 1, "a", 10, "o"), insert(2, BAG1, 1, "x")])
    (receipt,) = made.run(0)
    assert (receipt.counts.applied, receipt.quarantined) == (1, 1)
    (kept,) = read_rows(settings, "tidemark", made.name, "quarantine")
    assert kept["reason"].endswith(
        "4 values: s.items has 5 or 4 columns in the feed file, so a record has 10 or 8"
    )  # fmt: skip
