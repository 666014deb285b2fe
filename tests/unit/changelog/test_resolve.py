"""What becomes of a table's columns: what statements say, what a published table does about it, types and order."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidemark.changelog.renames import RenamePlan, plan_renames
from tidemark.changelog.resolve import (
    LoggedColumns,
    altered_in_another_case,
    refuse_other_sources,
    shape_of,
    unlisted_note,
)
from tidemark.changelog.table_history import Definition, Definitions, define, with_definitions
from tidemark.errors import SchemaError
from tidemark.feeds.model import Feed
from tidemark.fold.typed_rows import TableShape
from tidemark.formats.contract import SchemaEntry
from tidemark.ledger.change_stats import TableStats
from tidemark.ledger.image_names import MOST_COLUMNS
from tidemark.values.columns import ColumnType, add_in_order


def feed(format_: str = "canal", tables: Any = None) -> Feed:
    return Feed.model_validate(
        {
            "feed": "f", "description": "-", "owner": "-", "topics": ["t"], "exports": {"path": "{topic}/{date}/{hour}/*"},
            "container": {"type": "kafka_json"}, "format": {"type": format_}, "tables": tables or {},
        }
    )  # fmt: skip


def definition_of(*statements: tuple[str, str], of: Feed | None = None) -> Definition:
    """Of table s.t, by (position, DDL)."""
    entries = [SchemaEntry("s.t", position, json.dumps({"op": "ALTER", "text": sql})) for position, sql in statements]
    outcomes = [define(order, of or feed()).of("s.t") for order in itertools.islice(itertools.permutations(entries), 6)]
    assert all(outcome == outcomes[0] for outcome in outcomes), "in whichever order they come"
    return outcomes[0]


def metadata(position: str, columns: dict[str, str]) -> SchemaEntry:
    listed = {
        name: {"ordinal": i, "type": kind, "primaryKeyPosition": int(i == 1)}
        for i, (name, kind) in enumerate(columns.items(), 1)
    }
    return SchemaEntry("s.t", position, json.dumps({"tableStructure": {"tableColumns": listed}}))


def listing(*lists: str, generation: int = 0) -> list[tuple[str, int]]:
    """Message schemas, of the columns that each lists."""
    return [(json.dumps(dict.fromkeys(names, "int")), generation) for names in lists]


@pytest.mark.parametrize(
    ("schemas", "missing"),
    [
        (listing("iab", "iab"), None),
        (listing("iab", "ia"), "b"),
        (listing("iab", "ia", "ib"), "a, b"),
        (listing("iab", "i"), None),  # a delete
        (listing("iab") + listing("ia", generation=1), None),  # a statement stands between them
        (listing("ab", "iab"), "i"),
        ([], None),
    ],
)
def test_messages_that_list_different_columns_are_told(schemas: list[tuple[str, int]], missing: str | None) -> None:
    stats = TableStats(table="s.t", sources=["s.t"], schemas=schemas)
    told = unlisted_note(feed(), stats, Definitions(), ("i",))
    assert missing is None if told is None else told.startswith(f"some messages of the hour do not list {missing}, ")
    assert unlisted_note(feed(), stats, Definitions(new=frozenset({"s.t"})), ("i",)) is None, "a statement tells why"
    assert unlisted_note(feed("debezium"), stats, Definitions(), ("i",)) is None, "messages are all that tells it"


def test_names_go_through_all_that_comes_behind_a_row() -> None:
    known = definition_of(
        ("10", "ALTER TABLE t CHANGE a b int"), ("20", "ALTER TABLE t DROP c"), ("30", "ALTER TABLE t CHANGE b c int")
    )
    names = [[known.name_now(name, generation) for name in "abcd"] for generation in range(4)]
    assert names[0] == ["c", None, None, "d"], "b was dropped before a took its name, c before b did"
    assert names[1] == ["a", "c", None, "d"]
    assert names[2] == ["a", "c", None, "d"]
    assert names[3] == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("between", "b"),
    [
        ((), "b"),
        ((("20", "ALTER TABLE t ADD c int"),), "b"),
        ((("20", "ALTER TABLE t DROP b"),), None),  # so a was there again, and is renamed
        ((("20", "ALTER TABLE t CHANGE b c int"),), "c"),
    ],
)
def test_a_rename_that_comes_again_takes_nothing(between: tuple[tuple[str, str], ...], b: str | None) -> None:
    """A batch that could not be handed over is sent again, its statements too."""
    rename = "ALTER TABLE t CHANGE a b int"
    known = definition_of(("10", rename), *between, ("30", rename))
    assert [known.name_now(name, 0) for name in "ab"] == [b, None]
    assert [known.name_now(name, 1) for name in "ab"] == ["b", b], "rows between the two statements"


@pytest.mark.parametrize(
    ("statements", "names"),
    [
        (["RENAME COLUMN a TO b, RENAME COLUMN b TO a"], {"a": "b", "b": "a"}),
        (["RENAME COLUMN a TO b", "RENAME COLUMN c TO a"], {"a": "b", "c": "a"}),
        (["DROP COLUMN a, CHANGE c a int"], {"a": None, "c": "a"}),
        (["DROP COLUMN a", "CHANGE c a int"], {"a": None, "c": "a"}),
        (["CHANGE c d int", "DROP COLUMN a, ADD c int DEFAULT 5"], {"a": None, "c": "d"}),
    ],
)
def test_a_statement_that_is_sent_again_happens_once(statements: list[str], names: dict[str, str | None]) -> None:
    """It has the binlog's time of it; and so has all that followed it, of which the second part may still be to come."""
    entries = [
        SchemaEntry("s.t", f"{at}{n}", json.dumps({"op": "ALTER", "text": f"ALTER TABLE t {sql}", "es": str(n)}))
        for at in (1, 2, 3)
        for n, sql in enumerate(statements)
    ]
    others = [entry for entry in entries if len(statements) == 1 or entry.position != "31"]
    filled = {"c": "5"} if "ADD" in statements[-1] else {}
    for sent in (entries, others):
        known = define(sent, feed()).of("s.t")
        for before in range(0, 3 * len(statements), len(statements)):
            assert {name: known.name_now(name, before) for name in names} == names, (
                "rows of before, and those sent again"
            )
            assert known.filled_now[before] == filled
        assert [known.name_now(name, len(sent)) for name in "abc"] == list("abc")
    for between in (1, 3, 5) if len(statements) == 2 else ():
        behind = [define(entries, feed()).of("s.t").name_now(name, between) for name in "abc"]
        assert behind == [None, "b", "c" if filled else "a"], "of the second statement alone"


def test_a_rename_that_may_do_nothing_takes_nothing() -> None:
    known = definition_of(("10", "ALTER TABLE t CHANGE COLUMN IF EXISTS a b int"))
    assert [known.name_now(name, 0) for name in "ab"] == ["b", "b"]


@pytest.mark.parametrize(
    ("before", "filled"),
    [
        (["ADD A int"], {}),
        (["ADD a int", "CHANGE a b int"], {"a": "5"}),
        (["ADD a int", "DROP a"], {"a": "5"}),
        (["ADD b int", "CHANGE b a int"], {}),
        (["ADD b int"], {"a": "5"}),
        (["ADD a int DEFAULT 4"], {"a": "4"}),
    ],
)
def test_a_column_that_is_there_is_not_added_again(before: list[str], filled: dict[str, str]) -> None:
    """IF NOT EXISTS: the source passes it over, with its type, its default and the note of one that is no constant."""
    statements = [(f"1{n}", f"ALTER TABLE t {clause}") for n, clause in enumerate(before)]
    known = definition_of(*statements, ("20", "ALTER TABLE t ADD COLUMN IF NOT EXISTS a varchar(9) DEFAULT 5"))
    assert (known.filled_now[0] if known.column_renames else {}) == filled
    assert (ColumnType("string") in known.columns["a" if "a" in known.columns else "A"]) == ("5" in filled.values())
    again = definition_of(*statements, ("20", "ALTER TABLE t DROP a, ADD COLUMN IF NOT EXISTS a int DEFAULT 5"))
    assert list(again.filled_now[-1].values()) == ["5"], "the statement itself drops it"
    timed = definition_of(*statements, ("20", "ALTER TABLE t ADD COLUMN IF NOT EXISTS a datetime DEFAULT now()"))
    assert bool(timed.unfilled) == ("5" in filled.values())


MOMENT, LATER = (f"{n:019}.{n:019}." for n in (5, 6))


@pytest.mark.parametrize(
    ("statements", "rows"),
    [
        # (what the row lists, its place in the moment) → how many statements stand before it
        (["CHANGE a b int"], {("ia", "9"): 0, ("ib", "1"): 1, ("i", "1"): 1}),
        (["DROP a"], {("ia", "9"): 0, ("i", "1"): 1}),
        (["ADD a int DEFAULT 5"], {("i", "9"): 0, ("ia", "1"): 1}),
        (["DROP a, CHANGE c a int"], {("iac", "9"): 0, ("ia", "1"): 1}),
        (["CHANGE a b int", "CHANGE b c int"], {("ia", "9"): 0, ("ib", "1"): 1, ("ib", "9"): 1, ("ic", "1"): 2}),
        (["CHANGE a b int, CHANGE b a int"], {("iab", "9"): 1, ("iab", "1"): 0}),  # nothing tells
    ],
)
def test_columns_tell_the_side_of_a_statement_of_another_partition(
    spark: SparkSession, statements: list[str], rows: dict[tuple[str, str], int]
) -> None:
    """Canal: in one batch and millisecond, whose offsets say nothing of each other."""
    entries = [
        SchemaEntry("s.t", f"{MOMENT}{n}", json.dumps({"op": "ALTER", "text": f"ALTER TABLE t {sql}"}), 0)
        for n, sql in enumerate(statements, 5)
    ]
    number = define(entries, feed()).generation
    assert number is not None
    of_offset = {row: sum(f"{n}" <= row[1] for n in range(5, 5 + len(statements))) for row in rows}
    cases = [(*row, MOMENT, 1, found) for row, found in rows.items()]
    cases += [(*row, MOMENT, 0, found) for row, found in of_offset.items()]
    cases += [(*row, moment, 1, n) for row in rows for moment, n in ((LATER, len(statements)), (f"{4:019}", 0))]
    found = spark.createDataFrame(
        [("s.t", moment + at, json.dumps(dict.fromkeys(names.upper(), "int")), part, n)
         for names, at, moment, part, n in cases],
        "source_table string, position string, message_schema string, partition int, wanted int",
    ).select("*", number.alias("found"))  # fmt: skip
    assert [row for row in found.collect() if row.found != row.wanted] == []


def test_columns_may_swap_names() -> None:
    known = definition_of(("10", "ALTER TABLE t CHANGE a b int, CHANGE b a int"))
    assert [known.name_now(name, 0) for name in "ab"] == ["b", "a"]


def test_names_in_statements_are_the_same_in_any_case() -> None:
    created = ("05", "CREATE TABLE t (Id int PRIMARY KEY, Name text)")
    known = definition_of(
        created, ("10", "ALTER TABLE T CHANGE NAME Title text, ADD qty INT"), ("20", "ALTER TABLE t MODIFY QTY bigint")
    )
    assert list(known.columns) == ["Id", "Title", "qty"]
    assert [kind.spark for kind in known.columns["qty"]] == ["int", "bigint"]
    assert known.name_now("nAmE", 0) == "Title"
    with pytest.raises(SchemaError, match="a column of the key is renamed or dropped: Id"):
        definition_of(created, ("10", "ALTER TABLE t CHANGE ID no int"))
    with pytest.raises(SchemaError, match="a column of the key is renamed or dropped"):
        definition_of(created, ("10", "ALTER TABLE t DROP COLUMN iD"))
    declared = feed(tables={"s.t": {"columns": {"no": "int"}}})
    assert definition_of(created, ("10", "ALTER TABLE t CHANGE ID no int"), of=declared).key == ("Id",)


def test_a_column_that_is_no_longer_listed_was_dropped() -> None:
    entries = [
        metadata("1", {"id": "INT4", "a": "STRING"}),
        metadata("2", {"id": "INT8", "b": "STRING"}),
        metadata("3", {"id": "INT8", "b": "STRING"}),
        metadata("4", {"id": "INT8", "b": "STRING", "a": "STRING"}),
    ]
    known = define(entries, feed("qlik")).of("s.t")
    assert [(rename.position, rename.names) for rename in known.column_renames] == [("2", (("a", None),))]
    assert list(known.columns) == ["id", "a", "b"]
    assert [kind.spark for kind in known.columns["id"]] == ["int", "bigint"]
    assert [known.name_now("a", generation) for generation in (0, 1)] == [None, "a"]


def plan(known: Definition, stored: str, highest: str | None, *, done: int = 0, keyed: bool = True) -> RenamePlan:
    ids = [rename.id for rename in known.column_renames[:done]]
    return plan_renames(known, ids, stored.split(), highest, keyed=keyed)


def test_what_a_published_table_does_about_it() -> None:
    known = definition_of(("10", "ALTER TABLE t CHANGE a b int"), ("20", "ALTER TABLE t DROP B, DROP x"))
    first, second = (rename.id for rename in known.column_renames)
    assert plan(known, "id a", "09#1") == RenamePlan(renamed=(("a", "b"),), dropped=("b",), ids=(first, second))
    assert plan(known, "id b", "09#1") == RenamePlan(renamed=(), dropped=("b",), ids=(first, second)), (
        "renamed by a run that died"
    )
    assert plan(known, "id b", "15#1", done=1) == RenamePlan(renamed=(), dropped=("b",), ids=(second,))
    assert plan(known, "id a b", "09#1") == RenamePlan(rebuild=True, left=frozenset("a"), ids=(first, second))
    assert plan(known, "id A", "25#1") == RenamePlan(rebuild=True, left=frozenset("A"), ids=(first, second)), "late"
    assert plan(known, "id a", "09#1", keyed=False) == RenamePlan(
        renamed=(("a", "b"),), dropped=(), rebuild=True, ids=(first, second)
    )
    assert plan(known, "id c", "25#1") == RenamePlan(ids=(first, second)), "it has no such column"
    assert plan(known, "id a b", "25#1", done=2) == RenamePlan()


def shaped(
    schemas: list[dict[str, str]] = [],  # noqa: B006 - only read
    stored: dict[str, str] | None = None,
    known: Definition = Definition(),  # noqa: B008 - frozen
    tables: Any = None,
    history: LoggedColumns | None = None,
    keys: list[str] = ["1\x1fid"],  # noqa: B006 - only read
) -> TableShape:
    found = TableStats(
        table="s.t",
        sources=["s.t"],
        landed=1,
        keyed=1,
        keys=keys,
        schemas=[(json.dumps(schema), 0) for schema in schemas],
    )
    return shape_of(feed(tables=tables), found, known, stored or {}, ["id"] if stored else [], history)


def types(shape: TableShape) -> dict[str, str]:
    return shape.spark_types


@pytest.mark.parametrize(
    ("given", "wide"),
    [
        (["int", "bigint"], "bigint"),
        (["float", "double"], "double"),
        (["decimal(12,2)", "decimal(14,2)", "decimal(9,2)"], "decimal(14,2)"),
        (["varchar(9)", "text"], "string"),
    ],
)
def test_a_column_has_the_widest_type_that_it_was_given(given: list[str], wide: str) -> None:
    schemas = [{"id": "int", "n": kind} for kind in given]
    assert types(shaped(schemas))["n"] == wide
    for first, *others in itertools.permutations(schemas):
        stored: dict[str, str] = {}
        for schema in (first, *others):
            stored = types(shaped([schema], stored))
        assert stored["n"] == wide, "the same as hour by hour, in any order"
    statements = [(str(i), f"ALTER TABLE t MODIFY n {kind}") for i, kind in enumerate(given)]
    assert types(shaped([{"id": "int"}], known=definition_of(*statements)))["n"] == wide


@pytest.mark.parametrize("others", [["int", "varchar(9)"], ["decimal(12,2)", "decimal(12,4)"], ["date", "datetime"]])
def test_types_of_which_none_becomes_the_other_stop_the_table(others: list[str]) -> None:
    for kinds in (others, others[::-1]):
        with pytest.raises(SchemaError, match=r"table s\.t: column n is .* and would become") as stopped:
            shaped([{"id": "int", "n": kind} for kind in kinds])
        assert "`name`" in str(stopped.value)
    wide = shaped([{"id": "int", "n": kind} for kind in others], tables={"s.t": {"columns": {"n": "text"}}})
    assert types(wide)["n"] == "string", "what the feed file says counts"
    stored = {"id": "int", "n": "string"}
    assert types(shaped([{"id": "int", "n": others[0]}], stored))["n"] == "string", "text holds all"


def test_what_a_table_has_it_keeps() -> None:
    shape = shaped([{"id": "int"}], {"id": "int", "unused": "date"})
    assert types(shape) == {"id": "int", "unused": "date"}
    assert shape.live == {"id"}


def test_columns_stand_where_their_source_has_them() -> None:
    lists = [["id", "a", "old"], ["id", "a", "z", "b"], ["id", "c", "a"]]
    outcomes = set()
    for order in itertools.permutations(lists):
        listed: list[str] = []
        for names in order:
            add_in_order(listed, names)
        outcomes.add(tuple(listed))
    assert outcomes == {("id", "c", "a", "old", "z", "b")}
    listed = ["id"]
    add_in_order(listed, ["else", "where"])
    assert listed == ["id", "else", "where"]


def test_rows_of_before_have_the_value_of_a_column_that_was_added(spark: SparkSession) -> None:
    """So has what a table without a key removes; with a key an image before may be a part, and a value more than was sent
    would make it show another row."""
    statement = json.dumps({"op": "ALTER", "text": "ALTER TABLE t ADD c varchar(9) DEFAULT 'x'"})
    definitions = define([SchemaEntry("s.t", "20", statement)], feed())
    image = "map<string, string>"
    kind = f"position string, key {image}, before {image}, after {image}"
    rows = spark.createDataFrame(
        [("10", {"id": "1"}, {"id": "1"}, {"id": "1", "a": "b"}), ("11", None, {"a": "b"}, {"a": "d"}),
         ("30", None, {"a": "d"}, {"a": "e"})], kind
    ).withColumns({"source_table": F.lit("s.t"), "prior_key": F.lit(None).cast(image), "unbound": F.lit(None).cast(image),
                   "absent": F.array().cast("array<string>")})  # fmt: skip
    found = with_definitions(rows, definitions, feed()).orderBy("position").select("before", "after").collect()
    assert [tuple(row) for row in found] == [
        ({"id": "1"}, {"id": "1", "a": "b", "c": "x"}), ({"a": "b", "c": "x"}, {"a": "d", "c": "x"}),
        ({"a": "d"}, {"a": "e"}),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "default", "sent", "words"),
    [
        ("enum('0','1')", "DEFAULT '1'", "2", ["1", "1"]),
        ("enum('0','1')", "NOT NULL", "2", ["0", "1"]),
        ("set('2','1')", "DEFAULT '1'", "3", ["1", "2,1"]),
        ("enum('a','b')", "DEFAULT 'b'", "1", ["b", "a"]),
    ],
)
@pytest.mark.parametrize("also", [None, "enum('x','0','2','1')"])
def test_a_default_is_the_word_that_it_is_also_where_messages_send_places(
    spark: SparkSession, kind: str, default: str, sent: str, words: list[str], also: str | None
) -> None:
    """``also``: a list that the column gets later."""
    known = definition_of(("10", f"ALTER TABLE t ADD st {kind} {default}"))
    schemas = [{"id": "int"}, {"id": "int", "st": kind}, *([{"id": "int", "st": also}] if also else [])]
    shape = shaped(schemas, known=known)
    texts = [("", known.filled_now[0]["st"]), (json.dumps(schemas[1]), sent)]
    rows = spark.createDataFrame([(n, schema, {"st": text}) for n, (schema, text) in enumerate(texts)],
                                 "n int, message_schema string, image map<string, string>")  # fmt: skip
    value = shape.value("st", shape.in_one_notation(F.col("image"))["st"]).alias("st")
    assert [row.st for row in rows.select("n", value).orderBy("n").collect()] == words
    alone = shaped([{"id": "int"}], known=known)  # an hour that has the statement alone
    filled = spark.range(1).select(alone.value("st", F.lit(texts[0][1])).alias("st"))
    assert [row.st for row in filled.collect()] == words[:1]


def test_keys_of_one_hour() -> None:
    two = ["2\x1fa\x1fb", "2\x1fb\x1fa"]
    assert shaped(keys=two).key == ("b", "a"), "their order does not count"
    with pytest.raises(SchemaError, match="the key changes: messages name a, b and id"):
        shaped(keys=[two[0], "1\x1fid"])
    with pytest.raises(SchemaError, match="the key changes: messages name a, b and id"):
        shaped(
            keys=["1\x1fid"],
            known=definition_of(("1", "ALTER TABLE t ADD PRIMARY KEY (A, b)"), ("0", "ALTER TABLE t ADD a int")),
        )
    assert shaped(keys=["1\x1fid"], known=definition_of(("1", "ALTER TABLE t ADD PRIMARY KEY (ID)"))).key == ("id",)


def test_updates_that_name_no_row_stop_a_table_without_a_key() -> None:
    untied = TableStats(table="s.t", sources=["s.t"], landed=3, untied=2)
    with pytest.raises(SchemaError, match="2 updates and deletes come without the row as it was before"):
        shape_of(feed("debezium"), untied, Definition(), {}, [])
    with pytest.raises(SchemaError, match="the table has no key, and 2 updates"):
        shape_of(feed("debezium", {"s.t": {"key": []}}), replace(untied, keyed=3), Definition(), {}, [])
    assert shape_of(feed("debezium", {"s.t": {"key": ["id"]}}), untied, Definition(), {}, []).key == ("id",)


def test_the_limit_of_columns() -> None:
    with pytest.raises(SchemaError, match=f"{MOST_COLUMNS + 1} columns, more than {MOST_COLUMNS}"):
        shaped([{"id": "int"} | {f"c{n}": "int" for n in range(MOST_COLUMNS)}])


def test_a_column_written_in_two_ways_is_read_by_each_message_s_own() -> None:
    kinds = ["io.debezium.time.Timestamp", "io.debezium.time.MicroTimestamp"]
    schemas = [
        json.dumps({"fields": [{"field": "after", "fields": [{"field": "at", "type": "int64", "name": kind}]}]})
        for kind in kinds
    ]
    found = TableStats(table="s.t", sources=["s.t"], landed=1, keyed=1, keys=["1\x1fid"], schemas=[(schemas[0], 0)])
    alone = shape_of(feed("debezium"), found, Definition(), {}, [])
    assert alone.columns["at"] == ColumnType("timestamp_ntz", "epoch_millis") and not alone.rewrites
    both = shape_of(feed("debezium"), found, Definition(), {}, [], LoggedColumns([], [(schemas[1], 0)]))
    assert both.columns["at"] == ColumnType("timestamp_ntz", "rewritten")
    assert [both.rewrites[schema]["at"].encoding for schema in schemas] == ["epoch_millis", "epoch_micros"]


def test_two_tables_of_the_source_are_never_one() -> None:
    """Also where the second comes in a later hour; a `name` in the feed file says that the table goes on as another."""
    of = feed("dataworks")
    assert of.published_name("ORCL.HR.JOBS") == of.published_name("ORCL2.HR.JOBS") == "hr.jobs"
    both = TableStats(table="hr.jobs", sources=["ORCL.HR.JOBS", "ORCL2.HR.JOBS"])
    later = TableStats(table="hr.jobs", sources=["ORCL2.HR.JOBS"])
    for stats, before in ((both, set()), (later, {"ORCL.HR.JOBS"})):
        with pytest.raises(SchemaError, match=r"ORCL\.HR\.JOBS and ORCL2\.HR\.JOBS would both be published"):
            refuse_other_sources(of, stats, before)
    refuse_other_sources(of, later, {"ORCL2.HR.JOBS"})
    refuse_other_sources(feed("dataworks", {"ORCL2.HR.JOBS": {"name": "hr.jobs"}}), later, {"ORCL.HR.JOBS"})


def test_a_table_that_a_statement_alters_in_another_case_may_be_another() -> None:
    """Of what alters no row nothing is lost, whichever table it is of."""
    rows = TableStats(table="s.items", sources=["s.items"])

    def altered(*statements: str, of: Feed | None = None, table: str = "s.ITEMS") -> set[str]:
        sent = [
            SchemaEntry(table, f"{n}", json.dumps({"op": "ALTER", "text": f"ALTER TABLE ITEMS {sql}"}))
            for n, sql in enumerate(statements)
        ]
        return altered_in_another_case(of or feed(), rows, define(sent, of or feed()))

    for sql in ("CHANGE n m int", "DROP n", "ADD x int NOT NULL DEFAULT 5"):
        assert altered(sql) == {"s.ITEMS"}
    assert altered("ADD x int", "MODIFY x bigint", "ADD KEY (x)") == altered("DROP n", table="s.others") == set()
    assert altered("DROP n", of=feed(tables={"s.ITEMS": {"name": "s.items2"}})) == set()
    with pytest.raises(SchemaError, match=r"(?s)s\.ITEMS and s\.items .* and are one where .*`name: s\.items`"):
        refuse_other_sources(feed(), rows, {"s.ITEMS"})
    refuse_other_sources(feed(tables={"s.items": {"name": "s.items"}}), rows, {"s.ITEMS"})


MOVES = ("20", "INSERT INTO t VALUES ('Smith', 7)"), ("30", "ALTER TABLE t DROP PARTITION p1")


def moved(of: Feed, *statements: tuple[str, str]) -> Definitions:
    """All that is said of s.t, of which each landed in the hour of its position."""
    entries = [SchemaEntry("s.t", position, json.dumps({"op": "ALTER", "text": sql})) for position, sql in statements]
    hours = {("s.t", position): f"2026-11-20T{position}" for position, _ in statements}
    return define(entries, of, hours.keys(), hours)


@pytest.mark.promise(1)
def test_rows_that_move_without_being_sent_stop_a_table_or_are_told() -> None:
    said = "tidemark reload f s.t --hour"
    with pytest.raises(SchemaError) as stopped:
        moved(feed(tables={"s.t": {}}), *MOVES[1:])
    assert "rows go without being sent" in stopped.value.problem
    assert stopped.value.fix is not None and "tables.s.t.columns" in stopped.value.fix
    assert f"`{said} 2026-11-20T30 --empty`" in stopped.value.fix and f"`{said} HOUR`" in stopped.value.fix
    declared = feed(tables={"s.t": {"columns": {"id": "int"}}})
    (note,) = moved(declared, *MOVES).unsent.values()
    assert "s.t: the statement may change rows without sending them: INSERT INTO t VALUES (and 1 more such" in note
    assert f"`{said} 2026-11-20T20 --empty`" in note and "Smith" not in note


def test_what_a_declared_table_is_said_of_its_columns_stays_quiet() -> None:
    declared = feed(tables={"s.t": {"columns": {"id": "int"}}})
    assert moved(declared, ("20", "ALTER TABLE t FROBNICATE x"), ("21", "ALTER TABLE t ADD c int")).unsent == {}
    assert moved(feed(tables={"s.u": {}}).model_copy(update={"undeclared": "quarantine"}), *MOVES).unsent == {}
    with pytest.raises(SchemaError) as stopped:
        moved(feed(tables={"s.t": {}}), ("20", "ALTER TABLE t FROBNICATE x"))
    assert stopped.value.fix is not None and "reload" not in stopped.value.fix
