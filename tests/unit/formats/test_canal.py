"""Decoding Canal messages: every rule on a hand-written message, all of them in one Spark job."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from tidemark.containers.contract import RECORDS
from tidemark.feeds.model import Feed
from tidemark.formats.canal import decode as canal
from tidemark.formats.canal.types import mysql_type, type_or_text
from tidemark.formats.contract import CHANGES
from tidemark.formats.ddl.mysql_types import MYSQL_TYPES
from tidemark.values.columns import ColumnType
from tidemark.values.encodings import ENCODINGS
from tidemark.values.table_changes import TableChange

FEED = Feed.model_validate(
    {
        "feed": "inventory", "description": "-", "owner": "-", "topics": ["t"],
        "exports": {"path": "{topic}/dt={date}/hr={hour}/*"},
        "container": {"type": "kafka_json"}, "format": {"type": "canal"},
    }
)  # fmt: skip
TYPES = {"id": "bigint(20)", "name": "varchar(20)", "qty": "int(11)"}
ROW = {"id": "1", "name": "a", "qty": "3"}


def message(type_: str | None, data: Any = None, old: Any = None, **more: Any) -> bytes:
    """A message of table stock.item; ``more``: fields that differ."""
    content = {
        "data": data, "database": "stock", "es": 1588748884000, "id": 24, "isDdl": False, "mysqlType": TYPES,
        "old": old, "pkNames": ["id"], "sql": "", "sqlType": {"id": -5}, "table": "item", "ts": 1588748884545,
        "type": type_,
    }  # fmt: skip
    return json.dumps(content | more).encode()


BROKEN = "the value is not one Canal message: broken JSON, a field of another type, or it goes on behind it"
OTHER_OLD = "`old` has not as many rows as `data`: which row each is of is unknown"
NO_PLACE = "es, ts or id is not a whole number of up to 19 digits"
#: name → (message, topic offset)
CASES: dict[str, tuple[bytes | None, int | None]] = {
    "first": (message("INSERT", [ROW], id=23), 7),
    "insert": (message("INSERT", [ROW]), 8),
    "between": (message("INSERT", [{**ROW, "id": "8"}], id=90), 89),
    "insert again": (message("INSERT", [ROW]), 90),
    "several": (message("INSERT", [ROW, {**ROW, "id": "2"}, None], id=25), 9),
    "update": (message("UPDATE", [ROW], [{"qty": "2"}], id=26), 10),
    "update nulls": (message("UPDATE", [{**ROW, "name": None}], [{"name": "x", "qty": None}], id=30), 11),
    "key change": (message("UPDATE", [{**ROW, "id": "5"}], [{"id": "1"}], id=31), 12),
    "update without old": (message("UPDATE", [ROW], None, id=32), 13),
    "partial": (message("UPDATE", [{"id": "1", "qty": "9"}], [{"qty": "3"}], id=33), 14),
    "delete": (message("DELETE", [ROW], id=34), 15),
    "keyless": (message("UPDATE", [ROW], [{"qty": "2"}], pkNames=None, id=35), 16),
    "row id": (message("INSERT", [{"a": "1", "__#alibaba_rds_row_id#__": "7"}], pkNames=[], id=36), 17),
    "two columns": (message("DELETE", [{"b": "1", "a": "2"}], pkNames=["a", "b"], id=37), 19),
    "no id": (message("INSERT", [ROW], id=0), 18),
    "no es": (message("INSERT", [ROW], es=None, id=39), 27),
    "seconds": (message("INSERT", [ROW], es=1655812326, id=38), 28),
    # one batch, one moment: the offset tells their order, and that equal ones are two
    "same moment, second": (message("UPDATE", [{**ROW, "qty": "2"}], [{"qty": "1"}], id=50), 201),
    "same moment, first": (message("UPDATE", [{**ROW, "qty": "1"}], [{"qty": "2"}], id=50), 200),
    "same moment, first, equal": (message("UPDATE", [{**ROW, "qty": "1"}], [{"qty": "2"}], id=50), 202),
    "same moment, second, again": (message("UPDATE", [{**ROW, "qty": "2"}], [{"qty": "1"}], id=50), 300),
    # a statement that began a minute before the others, and was written behind them
    "long": (message("UPDATE", [{**ROW, "qty": "8"}], [{"qty": "7"}], es=1588748824000, id=51), 203),
    # rows without a key: a batch with two equal ones and a truncate, and the batch again
    "log, first": (message("INSERT", [ROW, ROW], pkNames=None, id=70), 500),
    "log, other": (message("CINDEX", isDdl=True, sql="CREATE INDEX", id=70), 501),
    "log, equal": (message("INSERT", [ROW, ROW], pkNames=None, id=70), 502),
    "log, emptied": (message("TRUNCATE", isDdl=True, sql="TRUNCATE TABLE item", id=70), 503),
    "log, after": (message("INSERT", [ROW], pkNames=None, id=70), 504),
    "log, between": (message("MHEARTBEAT", table="", id=0), 599),
    "log, first, again": (message("INSERT", [ROW, ROW], pkNames=None, id=70), 600),
    "log, equal, again": (message("INSERT", [ROW, ROW], pkNames=None, id=70), 601),
    "log, no id": (message("INSERT", [ROW], pkNames=None, id=None), 602),
    "truncate": (message("TRUNCATE", isDdl=True, sql="TRUNCATE TABLE item", id=60), 20),
    "erase": (message("ERASE", isDdl=True, sql="DROP TABLE item", id=61), 21),
    "erase temporary": (message("ERASE", isDdl=True, sql="DROP TEMPORARY TABLE item", id=62), 22),
    # Canal names the first of several
    "erase several": (
        message("ERASE", isDdl=True, sql="DROP TABLE `item`,`shelf`,`x`.`y` /* generated */", id=72),
        700,
    ),
    "erase of another database": (message("ERASE", isDdl=True, sql="DROP TABLE stock.item, shelf", id=72), 701),
    "rename": (message("RENAME", isDdl=True, sql="RENAME TABLE a TO item, b TO c", id=72), 702),
    "rename from another database": (message("RENAME", isDdl=True, sql="RENAME TABLE a TO stock.item", id=72), 703),
    "alter": (message("ALTER", isDdl=True, sql="ALTER TABLE item ADD note text", id=63), 23),
    "database": (message("QUERY", isDdl=True, sql="CREATE DATABASE x", table="", id=64), 24),
    "index": (message("CINDEX", isDdl=True, sql="CREATE INDEX", id=65), 25),
    "index after others": (
        message(
            "CINDEX",
            isDdl=True,
            sql="/* a */ -- b\n# c\n/*!80000 ALTER TABLE item ADD INDEX i (qty), CHANGE name label text */",
            id=66,
        ),
        43,
    ),
    "tombstone": (None, 26),
    # what cannot be decoded
    "no JSON": (b"{", 30),
    "no object": (b"3", 31),
    "other JSON": (b'{"a": 1}', 32),
    "wrong field": (b'{"type": "INSERT", "data": 3}', 33),
    "unknown type": (message("UPSERT", [ROW]), 34),
    "no data": (message("INSERT"), 35),
    "empty data": (message("DELETE", []), 36),
    "no table": (message("INSERT", [ROW], table=""), 37),
    "fewer before": (message("UPDATE", [ROW, ROW], [{"qty": "2"}], pkNames=None, id=38), 38),
    "fewer before, a key": (message("UPDATE", [ROW, {**ROW, "id": "2"}], [{"id": "3"}], id=39), 39),
    "fewer before, known": (message("UPDATE", [ROW, {**ROW, "id": "2"}], [{"qty": "2"}], id=40), 45),
    "es is text": (message("INSERT", [ROW], es="soon"), 39),
    "long id": (message("INSERT", [ROW], id="9" * 20), 40),
    "no sql": (message("ALTER", isDdl=True), 41),
    "beside its rows": (message("QUERY", sql="insert into item values (1, 'a', 3)", database="", table=""), 43),
    "hidden change": (message("QUERY", isDdl=True, sql="REPLACE INTO x VALUES (1)", table=""), 42),
    "drop database": (message("QUERY", isDdl=True, sql="DROP DATABASE stock", table=None), 44),
    "erase unread": (message("ERASE", isDdl=True, sql="DROP TABLE a b"), 45),
    "taken back": (message("XAROLLBACK", sql="XA ROLLBACK X'31',X'',1", database="", table="", mysqlType=None), 46),
    "prepared and committed": (
        message("XACOMMIT", sql="XA COMMIT X'31',X'',1", database="", table="", mysqlType=None),
        47,
    ),
}
#: How many rows those have that have several.
ENTRIES = dict.fromkeys(("several", "erase several"), 3) | dict.fromkeys(
    ("log, first", "log, equal", "log, first, again", "log, equal, again", "erase of another database",
     "rename from another database", "fewer before, known"), 2,
)  # fmt: skip
PROBLEMS = {
    "no JSON": BROKEN,
    "no object": BROKEN,
    "other JSON": "type is missing: not a Canal message",
    "wrong field": BROKEN,
    "unknown type": "unknown type UPSERT",
    "no data": "no row in data",
    "empty data": "no row in data",
    "fewer before": OTHER_OLD,
    "fewer before, a key": OTHER_OLD,
    "no table": "database and table are not both named",
    "es is text": NO_PLACE,
    "long id": NO_PLACE,
    "no sql": "no sql, type ALTER",
    "hidden change": "a statement that may change rows of a table it is not sent for",
    "drop database": "a database is dropped: its tables that the feed file does not name stay",
    "erase unread": "the statement does not say which tables it drops in a form that is known here",
    "taken back": "a prepared transaction is rolled back, and nothing says which rows were its: they stay published, so load "
    "the tables anew that it may have written",
}
#: Rows that are bad by themselves: name → problems by entry.
ROW_PROBLEMS = {
    "no row": (message("INSERT", [None]), "an element of data is no row"),
    "no column": (message("INSERT", [{}]), "an element of data is no row"),
    "no key": (message("INSERT", [{"name": "a"}]), "the row does not hold its key: id missing"),
    "twice": (message("INSERT", [ROW]).replace(b'"name": "a"', b'"name": "a", "name": "b"'), "an image names a column twice"),
}  # fmt: skip
CASES |= {name: (value, 400 + i) for i, (name, (value, _)) in enumerate(ROW_PROBLEMS.items())}


@pytest.fixture(scope="module")
def decoded(spark: SparkSession) -> dict[str, list[Row]]:
    records = [
        (name, 1, value, "t", 0, offset, None, None, value, None, None) for name, (value, offset) in CASES.items()
    ]
    changes = canal.decode(spark.createDataFrame(records, RECORDS), FEED, canal.Options())
    assert changes.columns == CHANGES.names
    found: dict[str, list[Row]] = {name: [] for name in CASES}
    for row in sorted(changes.collect(), key=lambda row: row.entry):
        found[row.object].append(row)
    return found


def in_lines(spark: SparkSession, objects: dict[str, list[bytes]]) -> dict[tuple[str, int], list[Row]]:
    """(object, record) → the rows of messages that have no offsets."""
    feed = FEED.model_copy(update={"container": {"type": "lines"}})
    records = [
        (name, number, value, "t", None, None, None, None, value, None, None)
        for name, values in objects.items()
        for number, value in enumerate(values, 1)
    ]
    found: dict[tuple[str, int], list[Row]] = {}
    for row in canal.decode(spark.createDataFrame(records, RECORDS), feed, canal.Options()).orderBy("entry").collect():
        found.setdefault((row.object, row.record), []).append(row)
    return found


def test_the_text_of_a_statement_beside_its_rows_changes_nothing(decoded: dict[str, list[Row]]) -> None:
    (row,) = decoded["beside its rows"]
    assert (row.op, row.problem, row.source_table) == ("control", None, None)


def test_every_record_is_there(decoded: dict[str, list[Row]]) -> None:
    for name, rows in decoded.items():
        assert [row.entry for row in rows] == list(range(ENTRIES.get(name, 1))), name


def test_what_cannot_be_decoded_says_why(decoded: dict[str, list[Row]]) -> None:
    problems = {name: row.problem for name, rows in decoded.items() for row in rows if row.op == "bad"}
    elements = {name: problem for name, (_, problem) in ROW_PROBLEMS.items()}
    parts = {
        "several": "an element of data is no row",
        "erase of another database": "a table is dropped, and nothing says of which database it was: shelf",
        "rename from another database": "a table is renamed, and nothing says of which database it was",
    }
    assert problems == PROBLEMS | elements | parts
    assert all(row.position is None and row.raw for rows in decoded.values() for row in rows if row.op == "bad")


def test_an_insert(decoded: dict[str, list[Row]]) -> None:
    (row,) = decoded["insert"]
    assert [row.op, row.kind, row.source_table] == ["insert", "INSERT", "stock.item"]
    parts = row.position.split(".")
    assert [int(part) for part in parts[:2]] == [1588748884545, 24]
    assert [parts[2], parts[4]] == ["8".zfill(20), "0" * 9]
    assert [len(part) for part in parts] == [19, 19, 20, 16, 9]
    assert [row.key, row.before, row.after, row.absent] == [{"id": "1"}, None, ROW, []]
    assert row.committed_at == datetime(2020, 5, 6, 7, 8, 4)
    assert json.loads(row.message_schema) == TYPES
    assert [row.tx, row.tx_part, row.tx_ordinal] == [None, None, None]


def test_what_comes_again_stands_behind_what_it_was(decoded: dict[str, list[Row]]) -> None:
    """All that followed it in its batch comes again too: the same rows stand at its end."""
    assert decoded["insert"][0].position < decoded["insert again"][0].position < decoded["update"][0].position


def test_messages_of_one_batch_and_moment_keep_their_order(decoded: dict[str, list[Row]]) -> None:
    a, b, equal, again = (
        decoded[name][0].position
        for name in (
            "same moment, first", "same moment, second", "same moment, first, equal", "same moment, second, again",
        )
    )  # fmt: skip
    assert a < b < equal < again, "equal ones are two"


def test_a_statement_that_began_earlier_stands_where_it_was_written(decoded: dict[str, list[Row]]) -> None:
    assert decoded["same moment, first, equal"][0].position < decoded["long"][0].position


def of_hour(spark: SparkSession, messages: dict[int, bytes]) -> list[Row]:
    """The changes of one hour's messages of one row each, by offset, in their order."""
    records = [
        (f"o{offset % 2}", offset, value, "t", 0, offset, None, None, value, None, None)
        for offset, value in messages.items()
    ]
    return (
        canal.decode(spark.createDataFrame(records, RECORDS), FEED, canal.Options())
        .orderBy("offset", "entry")
        .collect()
    )


@pytest.mark.promise(2)
def test_a_batch_that_two_hours_share_keeps_its_order(spark: SparkSession) -> None:
    """Whatever stands before its second part: here a message of another batch, delivered again."""
    other = message("INSERT", [{**ROW, "id": "9"}], id=23)
    two = {**ROW, "id": "2"}
    first = of_hour(spark, {7: other, 8: message("INSERT", [ROW]), 9: message("INSERT", [two])})
    second = of_hour(spark, {10: other, 11: message("UPDATE", [two], [{"qty": "2"}]), 12: message("DELETE", [two])})
    alone = of_hour(spark, {11: message("UPDATE", [two], [{"qty": "2"}])})
    positions = [row.position for row in (*first[1:], *second[1:])]
    assert positions == sorted(set(positions)), "an update does not stand before its insert"
    assert alone[0].position == second[1].position, "what comes before in the hour says nothing of it"


def test_equal_rows_without_a_key_are_told_by_their_delivery(decoded: dict[str, list[Row]]) -> None:
    """As fold/keyless.py counts them: the same position again with no higher ordinal begins another delivery."""
    first = [row.tx_ordinal for name in ("log, first", "log, equal") for row in decoded[name]]
    again = [row.tx_ordinal for name in ("log, first, again", "log, equal, again") for row in decoded[name]]
    assert first == sorted(set(first)) and again == sorted(set(again)) and again[0] < first[-1]
    positions = {row.position for name in decoded if name.startswith("log, first") for row in decoded[name]}
    assert len(positions) == 1
    assert positions.pop() < decoded["log, emptied"][0].position < decoded["log, after"][0].position
    assert decoded["log, no id"][0].position.split(".")[2] == "602".zfill(20)


def test_without_offsets_equal_messages_are_told_by_their_object(spark: SparkSession) -> None:
    one = message("UPDATE", [ROW], [{"qty": "2"}], id=80)
    two = message("UPDATE", [{**ROW, "qty": "2"}], [{"qty": "3"}], id=80)
    log = message("INSERT", [ROW], pkNames=None, id=80)
    emptied = message("TRUNCATE", isDdl=True, sql="TRUNCATE TABLE item", id=80)
    later = message("INSERT", [ROW], id=81)
    batch = [one, two, one, log, log, emptied, log]
    rows = in_lines(spark, {"a": batch, "b": [later, two, later, log, log], "c": [one]})
    a = [rows["a", number][0].position for number in range(1, 8)]
    assert a[0] < a[1] < a[2] < a[5], "one after the other, the first and the third though they are equal"
    assert a[3] != a[4] and max(a[3], a[4]) < a[5] < a[6], "two rows before the statement, one behind it"
    assert [rows["b", 2][0].position, rows["c", 1][0].position] == [a[1], a[0]], "delivered again"
    assert [rows["b", number][0].position for number in (4, 5)] == a[3:5]


def test_without_offsets_a_message_needs_its_time(spark: SparkSession) -> None:
    rows = in_lines(spark, {"a": [message("INSERT", [ROW], ts=None)]})
    assert rows["a", 1][0].problem == "no ts, and no offset: its place in the order is unknown"


def test_rows_of_one_message(decoded: dict[str, list[Row]]) -> None:
    first, second, third = decoded["several"]
    assert [first.key, second.key] == [{"id": "1"}, {"id": "2"}]
    assert first.position < second.position
    assert [first.op, third.op, third.key] == ["insert", "bad", None]


def test_updates(decoded: dict[str, list[Row]]) -> None:
    (row,) = decoded["update"]
    assert [row.op, row.after, row.before, row.prior_key] == ["update", ROW, {**ROW, "qty": "2"}, None]
    assert row.position > decoded["insert"][0].position
    (row,) = decoded["update nulls"]
    assert [row.after, row.before] == [{**ROW, "name": None}, {**ROW, "name": "x", "qty": None}]
    (row,) = decoded["key change"]
    assert [row.key, row.prior_key, row.before] == [{"id": "5"}, {"id": "1"}, ROW]
    (row,) = decoded["update without old"]
    assert [row.before, row.prior_key] == [ROW, None]
    assert [row.op for row in decoded["fewer before, known"]] == ["update"] * 2, "their key says whose they are"
    (row,) = decoded["partial"]
    assert [row.after, row.absent] == [{"id": "1", "qty": "9"}, ["name"]]


def test_a_delete_has_its_row(decoded: dict[str, list[Row]]) -> None:
    (row,) = decoded["delete"]
    assert [row.op, row.key, row.before, row.after, row.absent] == ["delete", {"id": "1"}, ROW, None, None]


def test_keys(decoded: dict[str, list[Row]]) -> None:
    (row,) = decoded["keyless"]
    assert [row.key, row.before] == [None, {**ROW, "qty": "2"}]
    assert decoded["row id"][0].key == {"__#alibaba_rds_row_id#__": "7"}
    assert list(decoded["two columns"][0].key.items()) == [("a", "2"), ("b", "1")], "in the key's order"


def test_a_declared_key_that_messages_do_not_name_is_in_their_images(spark: SparkSession) -> None:
    """A primary key that was altered, or none. Where the primary key holds the declared one, it is as it was sent."""
    of_table = {"tables": {"stock.item": {"key": ["name"]}, "stock.other": {"key": ["qty"]}}}
    feed = Feed.model_validate(FEED.model_dump(exclude_unset=True) | of_table)
    moved = ([{**ROW, "name": "b"}], [{"name": "a"}])
    sent = {
        "insert": message("INSERT", [ROW]),
        "moved": message("UPDATE", *moved),
        "keyless": message("UPDATE", *moved, pkNames=None),
        "delete": message("DELETE", [ROW], pkNames=[]),
        "more": message("UPDATE", *moved, pkNames=["id", "name"]),
        "lacks it": message("INSERT", [{"id": "1"}]),
        # Which row was the old one's is unknown where the declared key changes, and known where it stays.
        "fewer before": message("UPDATE", [ROW, {**ROW, "name": "b"}], [{"name": "c"}]),
        "fewer before, known": message("UPDATE", [ROW, ROW], [{"qty": "2"}], pkNames=None),
        "other": message("INSERT", [ROW], table="other"),
        "third": message("INSERT", [ROW], table="third"),
    }
    records = [(name, 1, value, "t", 0, 1, None, None, value, None, None) for name, value in sent.items()]
    found = {
        row.object: row
        for row in canal.decode(spark.createDataFrame(records, RECORDS), feed, canal.Options()).collect()
    }
    assert {name: (row.problem, row.key, row.prior_key) for name, row in found.items()} == {
        "insert": (None, {"name": "a"}, None),
        "moved": (None, {"name": "b"}, {"name": "a"}),
        "keyless": (None, {"name": "b"}, {"name": "a"}),
        "delete": (None, {"name": "a"}, None),
        "more": (None, {"id": "1", "name": "b"}, {"id": "1", "name": "a"}),
        "lacks it": (None, {"id": "1"}, None),
        "fewer before": (OTHER_OLD, None, None),
        "fewer before, known": (None, {"name": "a"}, None),
        "other": (None, {"qty": "3"}, None),
        "third": (None, {"id": "1"}, None),
    }


def test_without_an_id_the_offset_orders(decoded: dict[str, list[Row]]) -> None:
    assert decoded["no id"][0].position.split(".")[1:3] == ["0" * 19, "18".zfill(20)]
    assert decoded["seconds"][0].committed_at == datetime(2022, 6, 21, 11, 52, 6)


def test_without_es_the_time_of_the_commit_is_unknown(decoded: dict[str, list[Row]]) -> None:
    assert [decoded["no es"][0].op, decoded["no es"][0].committed_at] == ["insert", None]


def test_statements(decoded: dict[str, list[Row]]) -> None:
    ops = {name: decoded[name][0].op for name in CASES}
    assert [ops[name] for name in ("truncate", "erase", "erase temporary")] == ["truncate", "truncate", "control"]
    assert [ops[name] for name in ("database", "index", "tombstone")] == ["control"] * 3
    (alter,) = decoded["alter"]
    assert [alter.op, alter.source_table, alter.key] == ["schema", "stock.item", None]
    assert alter.position.split(".")[2] == "23".zfill(20)
    assert json.loads(alter.message_schema)["es"] == "1588748884000", "the same whenever it is sent again"
    assert canal.table_change(alter.message_schema, canal.Options()) == TableChange(
        columns={"note": ColumnType("string")}, known_by=alter.message_schema
    )
    (renamed,) = decoded["index after others"]  # Canal names an ALTER TABLE by its first clause
    assert [renamed.op, renamed.source_table] == ["schema", "stock.item"]
    change = canal.table_change(renamed.message_schema, canal.Options())
    assert change is not None and change.renamed == {"name": "label"}


@pytest.mark.promise(1)
def test_a_drop_of_several_tables_empties_each(decoded: dict[str, list[Row]]) -> None:
    rows = decoded["erase several"]
    assert [(row.op, row.source_table) for row in rows] == [
        ("truncate", "stock.item"), ("truncate", "stock.shelf"), ("truncate", "x.y"),
    ]  # fmt: skip
    ops = [(row.op, row.source_table) for row in decoded["erase of another database"]]
    assert ops == [("truncate", "stock.item"), ("bad", None)]
    assert [row.op for row in decoded["rename"]] == ["schema"]
    assert [row.op for row in decoded["rename from another database"]] == ["schema", "bad"]


def test_rows_without_a_key_stand_behind_the_drop_of_their_own_table(spark: SparkSession) -> None:
    """Named first or not, in one batch and moment; the drop of another table in between is none of theirs."""

    def log(table: str) -> bytes:
        return message("INSERT", [ROW], pkNames=None, table=table)

    erased = {table: message("ERASE", isDdl=True, sql=f"DROP TABLE {table}") for table in ("item, log", "other")}
    batch = [log("log"), erased["item, log"], log("log"), erased["other"], log("log")]
    between = message("INSERT", [ROW], id=90)
    rows = of_hour(spark, dict(enumerate([between, *batch, between, *batch])))
    first, again = ([row for row in rows if row.source_table == "stock.log"][at : at + 4] for at in (0, 4))
    for before, drop, behind, last in (first, again):
        assert before.position < drop.position < behind.position == last.position
        assert behind.tx_ordinal < last.tx_ordinal
    assert again[0].position == first[0].position, "delivered again, it counts once"
    assert first[3].position < again[1].position, "what the first drop left goes with the second"


WORDS = [
    (
        "enum('new','it''s','2')",
        {"1": "new", "2": "it's", "3": "2", "0": "", "4": None, "-1": None, "new": "new", "New": None},
    ),
    ("SET('a','b','c')", {"0": "", "5": "a,c", "7": "a,b,c", "8": None, "-1": None, "c,a": "c,a", "a,x": None, "": ""}),
    ("set(" + ",".join(f"'{n}'" for n in range(64)) + ")", {str(2**63 + 1): "0,63", str(2**64): None}),
    ("enum", {"1": "1"}),  # by a tool that leaves the list out
]  # fmt: skip


@pytest.mark.parametrize(("written", "texts"), WORDS, ids=[written[:9] for written, _ in WORDS])
def test_enums_and_sets_are_the_words_of_their_list(
    spark: SparkSession, written: str, texts: dict[str, str | None]
) -> None:
    kind = mysql_type(written)
    rows = spark.createDataFrame([(text,) for text in [*texts, None]], "text string")
    encodings = ENCODINGS | canal.ENCODINGS
    value = encodings[kind.encoding](F.col("text"), kind.spark, kind.arg)
    found = {row.text: row.value for row in rows.select("text", value.alias("value")).collect()}
    assert found == texts | {None: None}


def test_a_part_of_a_document_is_none(spark: SparkSession) -> None:
    """With binlog_row_value_options=PARTIAL_JSON Canal sends the expression, or the column's name, or nothing."""
    documents = ['{"a": 1}', "{}", " [1]", '"text"', '""', "-1.5", "0", "true", "false", "null"]
    none = ["JSON_REPLACE(doc, '$.a', 7)", "JSON_REMOVE(doc, '$[0]')", "doc", "@3", "nulls", "true_doc", ""]
    rows = spark.createDataFrame([(text,) for text in [*documents, *none, None]], "text string")
    kind = mysql_type("json")
    value = canal.ENCODINGS[kind.encoding](F.col("text"), kind.spark, kind.arg)
    found = {row.text: row.value for row in rows.select("text", value.alias("value")).collect()}
    assert found == {text: text for text in documents} | dict.fromkeys([*none, None])


def test_bytes_are_characters(spark: SparkSession) -> None:
    texts = {"all": "".join(map(chr, range(256))), "empty": "", "lines": "a\n\n", "none": "a€", "long": "é" * 100_000}
    rows = spark.createDataFrame(list(texts.items()), "name string, text string")
    read = canal.ENCODINGS[mysql_type("blob").encoding](F.col("text"), "binary", None)
    got = {row.name: None if row.b is None else bytes(row.b) for row in rows.select("name", read.alias("b")).collect()}
    assert got == {name: None if name == "none" else text.encode("latin-1") for name, text in texts.items()}


def test_a_binary_has_the_zeros_that_the_binlog_leaves_out(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("",), ("ab",), ("\xff\0\xff",), ("abcde",), ("€",), (None,)], "text string")
    for written, length in {
        "binary(4)": 4,
        "BINARY( 4 )": 4,
        "binary": 1,
        "binary(255)": 255,
        "varbinary(4)": 0,
    }.items():
        kind = mysql_type(written)
        value = canal.ENCODINGS[kind.encoding](F.col("text"), kind.spark, kind.arg)
        found = {
            row.text: row.value and bytes(row.value) for row in rows.select("text", value.alias("value")).collect()
        }
        sent = {text: text.encode("latin-1") for text in ("", "ab", "\xff\0\xff", "abcde")}
        assert found == {text: data.ljust(length, b"\0") for text, data in sent.items()} | {"€": None, None: None}, (
            written
        )


@pytest.mark.parametrize(
    ("written", "spark_type"),
    [
        ("tinyint(1)", "int"), ("int(11)", "int"), ("INT UNSIGNED", "bigint"), ("smallint(5) unsigned", "int"),
        ("bigint(20)", "bigint"), ("bigint(20) unsigned", "decimal(20,0)"), ("bigint zerofill", "decimal(20,0)"),
        ("decimal(12,2)", "decimal(12,2)"), ("DECIMAL(12, 2)", "decimal(12,2)"), ("decimal", "decimal(10,0)"),
        ("decimal(65,30)", "string"), ("float(7,2)", "float"), ("float(24)", "float"), ("float( 25 )", "double"),
        ("double precision", "double"), ("bit(1)", "bigint"),
        ("bit(64)", "decimal(20,0)"), ("date", "date"), ("datetime(6)", "timestamp_ntz"), ("timestamp", "timestamp_ntz"),
        ("time(3)", "string"), ("year(4)", "int"), ("enum('unsigned','b)')", "string"), ("json", "string"),
        ("varchar(20) unsigned", "string"), ("varbinary(9)", "binary"), ("longblob", "binary"), ("point", "binary"),
    ],
)  # fmt: skip
def test_types(written: str, spark_type: str) -> None:
    assert mysql_type(written).spark == spark_type


def test_a_type_is_the_same_under_every_name_in_a_statement_and_in_messages() -> None:
    """Messages keep the name that was typed; a column whose type they gave otherwise would stop its table."""
    numbers = [
        "float(7,4) unsigned",
        "float8 unsigned",
        "int1 zerofill",
        "int8 zerofill",
        "bigint(20) zerofill unsigned",
    ]
    for written in (*MYSQL_TYPES, *map(str.lower, MYSQL_TYPES), *numbers):
        stated = canal.table_change(
            json.dumps({"op": "ALTER", "text": f"ALTER TABLE t ADD c {written}"}), canal.Options()
        )
        assert stated is not None and stated.columns == {"c": mysql_type(written)}, written
    spark_types = {
        "float8": "double",
        "int1": "int",
        "serial": "decimal(20,0)",
        "long varchar": "string",
        "polygon": "binary",
    }
    assert {written: mysql_type(written).spark for written in spark_types} == spark_types


@pytest.mark.parametrize("written", ["uuid", "inet4", "INET6"])
def test_a_type_that_is_not_known_is_text_in_a_statement_and_in_messages(written: str) -> None:
    stated = canal.table_change(json.dumps({"op": "ALTER", "text": f"ALTER TABLE t ADD c {written}"}), canal.Options())
    assert stated is not None and stated.columns == {"c": type_or_text(written)} == {"c": ColumnType("string")}


def test_unknown_types() -> None:
    with pytest.raises(ValueError, match="'vector' is not a MySQL type"):
        canal.column_types({"a": "vector"}, canal.Options())
    assert canal.message_types('{"a": "vector", "b": "int", "c": null}', canal.Options()) == {
        "a": ColumnType("string"), "b": ColumnType("int"), "c": ColumnType("string"),
    }  # fmt: skip
    for text in ("", "{", "3", "[]", "null"):
        assert canal.message_types(text, canal.Options()) == {}


def test_statements_say_all_types() -> None:
    entry = json.dumps(
        {"op": "CREATE", "text": "CREATE TABLE `t` (`id` int unsigned, n decimal(9,2), PRIMARY KEY (id, n))"}
    )
    assert canal.table_change(entry, canal.Options()) == TableChange(
        columns={"id": ColumnType("bigint"), "n": ColumnType("decimal(9,2)")}, key=("id", "n"), whole=True, created=True
    )
    with pytest.raises(ValueError, match="RENAME TABLE a TO b"):
        canal.table_change(json.dumps({"op": "RENAME", "text": "RENAME TABLE a TO b"}), canal.Options())
    assert canal.table_change(json.dumps({"op": "QUERY", "text": "GRANT SELECT ON a.* TO b"}), canal.Options()) is None


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("enum('x','it''s') DEFAULT 'IT''S'", "it's"), ("enum('x','y') NOT NULL", "x"),
        ("set('a','b','c') DEFAULT 'c,a'", "a,c"),
        ("set('a','b') NOT NULL", ""), ("varchar(9) DEFAULT 'x'", "x"),
    ],
)  # fmt: skip
def test_the_default_of_an_added_column_is_read_as_what_canal_sends(written: str, text: str) -> None:
    change = canal.table_change(json.dumps({"op": "ALTER", "text": f"ALTER TABLE t ADD c {written}"}), canal.Options())
    assert change is not None and change.filled == {"c": text}
