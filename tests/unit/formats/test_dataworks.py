"""Decoding DataWorks messages: every rule on a hand-written message, all of them in one Spark job."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from tidemark.containers.contract import RECORDS
from tidemark.feeds.model import Feed
from tidemark.formats.contract import CHANGES
from tidemark.formats.dataworks import decode as dataworks
from tidemark.values.columns import ColumnType
from tidemark.values.strict_json import NOT_UTF_8
from tidemark.values.table_changes import TableChange

FEED = Feed.model_validate(
    {
        "feed": "mall", "description": "-", "owner": "-", "topics": ["t"],
        "exports": {"path": "{topic}/dt={date}/hr={hour}/*"},
        "container": {"type": "kafka_json"}, "format": {"type": "dataworks"},
    }
)  # fmt: skip
COLUMNS = {"id": "LONG", "name": "STRING", "price": "DOUBLE"}
ROW = {"id": 1, "name": "a", "price": 1.50}
NO_HOUR = "-"


def message(op: str | None, sequence: Any = "1620457642589000001", **more: Any) -> bytes:
    """A message of table shop.orders; ``more``: parts that differ."""
    source = {"dbType": "MySQL", "dbName": "shop", "tableName": "orders"}
    if op in ("TRANSACTION_BEGIN", "TRANSACTION_END", "XACOMMIT", "XAROLLBACK", "MHEARTBEAT"):
        source = None
    images = {
        side: None if image is None else {"dataColumn": image}
        for side, image in (("before", more.get("before")), ("after", more.get("after")))
    }
    columns = more.get("columns", COLUMNS)
    return json.dumps(
        {
            "schema": {
                "dataColumn": None if columns is None else [{"name": n, "type": t} for n, t in columns.items()],
                "primaryKey": more.get("key", ["id"]),
                "source": more.get("source", source),
            },
            "payload": {
                **images,
                "sequenceId": sequence,
                "scn": None,
                "op": op,
                "timestamp": {"eventTime": more.get("at", 1620457896123), "systemTime": 1, "checkpointTime": 1},
                "ddl": None if "text" not in more else {"text": more["text"], "ddlMeta": "rO0ABXNyAA=="},
            },
            "version": "1.0.0",
        }
    ).encode()


NO_PK = {"key": None, "columns": {"name": "STRING", "#alibaba_rds_row_id#": "LONG"}}
ORACLE = {"dbType": "oracle", "dbName": "ORCL", "schemaName": "HR", "tableName": "JOBS"}
CASES: dict[str, list[bytes | None]] = {
    "insert": [message("INSERT", after=ROW)],
    "leading zeros": [message("INSERT", "000123", after=ROW)],
    "number": [message("INSERT", 99999999999999999999, after=ROW)],
    "combined": [message("UPDATE_AFTER", before=ROW, after={**ROW, "name": None})],
    "key change": [message("UPDATE_AFTER", before=ROW, after={**ROW, "id": 2})],
    "delete": [message("DELETE", before=ROW)],
    "partial": [message("UPDATE_AFTER", before=ROW, after={"id": 1, "price": 2})],
    "before": [message("UPDATE_BEFOR", before=ROW)],
    "after": [message("UPDATE_AFTER", after={**ROW, "id": 2})],
    "row id": [message("INSERT", after={"name": "a", "#alibaba_rds_row_id#": 15}, **NO_PK)],
    "row id, empty key": [message("INSERT", after={"name": "a", "#alibaba_rds_row_id#": 15}, **(NO_PK | {"key": []}))],
    "oracle rowid": [message("DELETE", before={"ROWID": "AAIU", "n": 1}, key=None, source=ORACLE)],
    "rowid elsewhere": [message("INSERT", after={"rowid": "x"}, key=None)],
    "keyless": [message("INSERT", after={"name": "a"}, key=None)],
    "two columns": [message("INSERT", after={"b": 1, "a": 2, "c": 3}, key=["a", "b"])],
    "schema of mysql": [
        message("INSERT", after=ROW, source={"dbType": "mysql", "dbName": "shop", "schemaName": "x", "tableName": "o"})
    ],
    "schema of oceanbase": [
        message(
            "INSERT", after=ROW, source={"dbType": "OceanBase", "dbName": "ob", "schemaName": "HR", "tableName": "o"}
        )
    ],
    "database of oceanbase": [
        message(
            "INSERT", after=ROW, source={"dbType": "OceanBase", "dbName": "ob", "schemaName": "ob", "tableName": "o"}
        )
    ],
    "truncate": [message("TRUNCATE", "7")],
    "erase": [message("ERASE", "7", text="DROP TABLE orders")],
    "erase temporary": [message("ERASE", "7", text="DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `orders`")],
    "alter": [message("ALTER", "8", text="ALTER TABLE orders ADD COLUMN note text", columns=None)],
    "query without table": [message("QUERY", "8", text="CREATE DATABASE x", source={"dbName": "shop"})],
    "create index": [message("CINDEX", "8", text="CREATE INDEX")],
    "index after others": [
        message("DINDEX", "9", text="ALTER TABLE orders DROP INDEX i, DROP COLUMN name", columns=None)
    ],
    "clauses behind an index": [message("DINDEX", "9", text="/* x */ DROP INDEX i, DROP name", columns=None)],
    "clauses behind a new index": [message("CINDEX", "9", text="ADD INDEX i (id), DROP name", columns=None)],
    "clauses alone": [message("ALTER", "9", text="DROP name", columns=None)],
    "drop index": [message("DINDEX", "8", text="DROP INDEX i ON orders")],
    "index without text": [message("DINDEX", "8")],
    "gtid": [message("GTID", None)],
    "heartbeat": [message("MHEARTBEAT", None, columns=None, key=None)],
    "tombstone": [None],
    "types": [message("INSERT", after={"id": 9007199254740993, "name": True, "price": 0.10})],
    "impossible time": [message("INSERT", after=ROW, at=10**18)],
    # what cannot be decoded
    "no JSON": [b"{"],
    "no object": [b"[1]"],
    "other JSON": [b'{"a": 1}'],
    "wrong field": [b'{"payload": {"op": "INSERT", "before": 3}}'],
    "binary": [bytes(range(256))],
    "unknown op": [message("UPSERT", after=ROW)],
    "small letters": [message("insert", after=ROW)],
    "no sequence": [message("INSERT", None, after=ROW)],
    "float sequence": [message("INSERT", 1.5, after=ROW)],
    "long sequence": [message("INSERT", "9" * 33, after=ROW)],
    "no table": [message("INSERT", after=ROW, source={"dbName": "shop"})],
    "no after": [message("INSERT", before=ROW)],
    "no before": [message("DELETE", after=ROW)],
    "empty row": [message("INSERT", after={})],
    "no key in row": [message("INSERT", after={"name": "a"})],
    "no key in before": [message("UPDATE_AFTER", before={"name": "a"}, after=ROW)],
    "column twice": [message("INSERT", after=ROW).replace(b'"name": "a"', b'"name": "a", "name": "b"')],
    "no text": [message("ALTER", "8")],
    "hidden change": [message("QUERY", "8", text=" delete from a", source={"dbName": "shop"})],
    "drop database": [message("QUERY", "8", text="DROP DATABASE shop", source={"dbName": "shop"})],
}
PROBLEMS = {
    "no JSON": "the value is not one DataWorks message: broken JSON, a field of another type, or it goes on behind it",
    "no object": "the value is not one DataWorks message: broken JSON, a field of another type, or it goes on behind it",
    "other JSON": "payload.op is missing: not a DataWorks message",
    "wrong field": "the value is not one DataWorks message: broken JSON, a field of another type, or it goes on behind it",
    "binary": NOT_UTF_8,
    "unknown op": "unknown op UPSERT",
    "small letters": "unknown op insert",
    "no sequence": "no sequenceId: its place in the order is unknown",
    "float sequence": "sequenceId is not a whole number of up to 32 digits",
    "long sequence": "sequenceId is not a whole number of up to 32 digits",
    "no table": "schema.source names no database and table",
    "no after": "no row in after, op INSERT",
    "no before": "no row in before, op DELETE",
    "empty row": "no column in after",
    "no key in row": "the row does not hold its key: id missing",
    "no key in before": "the row before the update does not hold its key",
    "column twice": "an image names a column twice",
    "no text": "no ddl.text, op ALTER",
    "hidden change": "a statement that may change rows of a table it is not sent for",
    "drop database": "a database is dropped: its tables that the feed file does not name stay",
    "verdict far behind": "XAROLLBACK stands right behind no transaction: nothing says which rows it takes back, and they "
    "stay published",
}
ONE = "mall/t/dt=2026-11-20/hr=22/v00001"
TWO = "mall/t/dt=2026-11-20/hr=23/v00001"
THREE = "mall/t/dt=2026-11-21/hr=00/v00001"


def row(sequence: int, op: str = "INSERT") -> bytes:
    images = {"before": ROW} if op in ("DELETE", "UPDATE_BEFOR") else {"after": ROW}
    return message(op, str(sequence), **images)


def begin(sequence: int) -> bytes:
    return message("TRANSACTION_BEGIN", str(sequence))


def end(sequence: int, op: str = "TRANSACTION_END") -> bytes:
    return message(op, str(sequence))


#: Hours by the folder of their objects: each is a run of messages, in the order they arrive.
HOURS: dict[str, list[bytes]] = {
    # out of order, redelivered, alone before, between and behind; the last goes on in the next hour
    ONE: [
        row(101), row(5), begin(100), end(110), row(102, "UPDATE_BEFOR"), row(102, "UPDATE_AFTER"), row(101),
        begin(100), row(150), begin(200), row(201), begin(300), row(301), end(310, "XAROLLBACK"), begin(400), row(401),
        message("MHEARTBEAT", None), begin(320), row(321), end(330), end(331, "XAROLLBACK"), begin(340), end(341),
        end(341), row(342, "UPDATE_BEFOR"), begin(900), row(901),
    ],
    # the first transaction of the hour before comes again: what it left open goes on behind that
    TWO: [
        begin(100), row(101), end(110), row(902), end(910), row(920), begin(930), row(931),
        end(940, "XACOMMIT"), begin(1000), message("TRUNCATE", "1001"),
    ],
    THREE: [end(1010, "XAROLLBACK"), row(1020), begin(1030), end(1031), row(1032), end(1033, "XAROLLBACK")],
}  # fmt: skip


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> list[Row]:
    records = []
    for name, messages in CASES.items():
        # each case in an hour of its own, so that no marker of another touches it
        records += [(f"{NO_HOUR}{name}", i, m, "t", 0, i, None, None, m, None, None) for i, m in enumerate(messages)]
    for folder, run in HOURS.items():
        records += [(f"{folder}/x", i, m, "t", 0, i, None, None, m, None, None) for i, m in enumerate(run)]
    records.append(("-foreign", 1, b"x", None, None, None, None, None, None, None, "not of this feed"))
    changes = dataworks.decode(spark.createDataFrame(records, RECORDS), FEED, dataworks.Options())
    assert changes.columns == CHANGES.names
    return changes.collect()


@pytest.fixture(scope="module")
def decoded(rows: list[Row]) -> dict[str, Row]:
    return {row.object.removeprefix(NO_HOUR): row for row in rows if row.object.startswith(NO_HOUR)}


@pytest.fixture(scope="module")
def in_hour(rows: list[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {folder: [] for folder in HOURS}
    for row in sorted(rows, key=lambda r: (r.record, r.entry)):
        if not row.object.startswith(NO_HOUR):
            found[row.object.removesuffix("/x")].append(row)
    return found


def test_every_record_gives_one_entry(rows: list[Row], decoded: dict[str, Row], in_hour: dict[str, list[Row]]) -> None:
    assert set(decoded) == {*CASES, "foreign"}
    assert {folder: len(found) for folder, found in in_hour.items()} == {f: len(run) for f, run in HOURS.items()}
    assert {row.entry for row in rows} == {0}
    assert [decoded["foreign"].op, decoded["foreign"].problem] == ["bad", "not of this feed"]


@pytest.mark.parametrize("name", [name for name in PROBLEMS if name in CASES])
def test_what_cannot_be_decoded_says_why(decoded: dict[str, Row], name: str) -> None:
    row = decoded[name]
    placed = {"unknown op", "small letters", *(case for case in PROBLEMS if case.startswith("no ")), "empty row",
              "column twice", "hidden change", "drop database"} - {"no JSON", "no object", "no sequence"}  # fmt: skip
    assert [row.op, row.problem, row.position is not None] == ["bad", PROBLEMS[name], name in placed]
    assert bytes(row.raw) == CASES[name][0]


def test_only_those_are_bad(decoded: dict[str, Row]) -> None:
    assert {name for name, row in decoded.items() if row.op == "bad"} == {*PROBLEMS, "foreign"} - {"verdict far behind"}


def test_an_insert(decoded: dict[str, Row]) -> None:
    row = decoded["insert"]
    assert [row.op, row.kind, row.source_table] == ["insert", "INSERT", "shop.orders"]
    assert row.position == "1620457642589000001".zfill(32)
    assert [row.key, row.prior_key, row.before] == [{"id": "1"}, None, None]
    assert row.after == {"id": "1", "name": "a", "price": "1.5"}
    assert [row.absent, row.tx, row.tx_part, row.tx_ordinal] == [[], None, None, None]
    assert row.committed_at == datetime(2021, 5, 8, 7, 11, 36, 123000)
    assert json.loads(row.message_schema) == [{"name": n, "type": t} for n, t in COLUMNS.items()]


def test_the_order_is_the_number(decoded: dict[str, Row]) -> None:
    assert decoded["leading zeros"].position == "123".zfill(32)
    assert decoded["number"].position == "99999999999999999999".zfill(32), "more digits than a long or a float holds"


def test_digits_stay(decoded: dict[str, Row]) -> None:
    assert decoded["types"].after == {"id": "9007199254740993", "name": "true", "price": "0.1"}
    assert decoded["impossible time"].committed_at is None


def test_updates(decoded: dict[str, Row]) -> None:
    combined, change = decoded["combined"], decoded["key change"]
    assert [combined.op, combined.key, combined.prior_key, combined.tx] == ["update", {"id": "1"}, None, None]
    assert [combined.before["name"], combined.after["name"], combined.absent] == ["a", None, []]
    assert [change.op, change.key, change.prior_key] == ["update", {"id": "2"}, {"id": "1"}]
    assert decoded["partial"].absent == ["name"], "listed, not sent"


def test_halves_of_a_pair_are_held_together(decoded: dict[str, Row]) -> None:
    before, after = decoded["before"], decoded["after"]
    assert [before.op, before.key, before.after] == ["delete", {"id": "1"}, None]
    # A key change: key 2 may still be taken.
    assert [after.op, after.key, after.prior_key, after.before] == ["insert", {"id": "2"}, {"id": "1"}, None]
    assert before.position == after.position
    assert before.tx == after.tx == "pair:shop.orders:1620457642589000001"
    assert [before.tx_part, before.tx_end, before.tx_count] == ["UPDATE_BEFOR", False, 2]
    assert [after.tx_part, after.tx_end, after.tx_count] == ["UPDATE_AFTER", True, 2]


@pytest.mark.promise(2)
@pytest.mark.parametrize("transactions", [True, False])
def test_a_second_half_is_the_same_change_wherever_the_first_lands(spark: SparkSession, transactions: bool) -> None:
    """It brings its row back, from a key that only the first half knows; and in a table without a key, one more row."""
    keyless = {"key": None, "columns": {"name": "STRING"}}
    run = {
        ONE: [
            message("UPDATE_BEFOR", "1", before=ROW), message("UPDATE_AFTER", "1", after=ROW),
            message("UPDATE_BEFOR", "2", before=ROW), message("UPDATE_AFTER", "2", after={**ROW, "id": 2}),
            message("UPDATE_BEFOR", "3", before=ROW),
            message("UPDATE_BEFOR", "4", before={"name": "a"}, **keyless),
            message("UPDATE_AFTER", "4", after={"name": "b"}, **keyless),
        ],
        TWO: [message("UPDATE_AFTER", "3", after=ROW), message("UPDATE_AFTER", "5", after={"name": "b"}, **keyless)],
    }  # fmt: skip
    records = [
        (f"{hour}/x", i, m, "t", 0, i, None, None, m, None, None)
        for hour, sent in run.items()
        for i, m in enumerate(sent)
    ]
    options = dataworks.Options(transactions=transactions)
    changes = dataworks.decode(spark.createDataFrame(records, RECORDS), FEED, options)
    seconds = changes.where("kind = 'UPDATE_AFTER'").orderBy("object", "record").collect()
    assert [(row.op, row.prior_key) for row in seconds] == [
        ("insert", None), ("insert", {"id": "1"}), ("insert", None), ("insert", {}), ("insert", None),
    ]  # fmt: skip


def test_a_delete_has_its_row(decoded: dict[str, Row]) -> None:
    row = decoded["delete"]
    assert [row.op, row.key, row.after, row.absent] == ["delete", {"id": "1"}, None, None]
    assert row.before == {"id": "1", "name": "a", "price": "1.5"}


def test_keys(decoded: dict[str, Row]) -> None:
    assert decoded["row id"].key == decoded["row id, empty key"].key == {"#alibaba_rds_row_id#": "15"}
    assert [decoded["oracle rowid"].key, decoded["oracle rowid"].source_table] == [{"ROWID": "AAIU"}, "ORCL.HR.JOBS"]
    assert decoded["rowid elsewhere"].key is None, "a column that happens to have this name"
    assert [decoded["keyless"].key, decoded["keyless"].tx_ordinal] == [None, 1]
    assert list(decoded["two columns"].key.items()) == [("a", "2"), ("b", "1")], "in the key's order"
    assert decoded["schema of mysql"].source_table == "shop.o"
    assert decoded["schema of oceanbase"].source_table == "ob.HR.o", "two schemas are two tables"
    assert decoded["database of oceanbase"].source_table == "ob.o"


def test_a_declared_key_that_messages_do_not_name_is_in_their_images(spark: SparkSession) -> None:
    feed = Feed.model_validate(FEED.model_dump(exclude_unset=True) | {"tables": {"shop.orders": {"key": ["name"]}}})
    moved = {"before": ROW, "after": {**ROW, "name": "b"}}
    sent = {
        "moved": message("UPDATE_AFTER", **moved),
        "keyless": message("UPDATE_AFTER", key=None, **moved),
        "delete": message("DELETE", before=ROW),
        "more": message("UPDATE_AFTER", key=["id", "name"], **moved),
        "lacks it": message("INSERT", after={"id": 1}),
    }
    records = [(name, 1, value, "t", 0, 1, None, None, value, None, None) for name, value in sent.items()]
    rows = dataworks.decode(spark.createDataFrame(records, RECORDS), feed, dataworks.Options()).collect()
    assert {row.object: (row.problem, row.key, row.prior_key) for row in rows} == {
        "moved": (None, {"name": "b"}, {"name": "a"}),
        "keyless": (None, {"name": "b"}, {"name": "a"}),
        "delete": (None, {"name": "a"}, None),
        "more": (None, {"id": "1", "name": "b"}, {"id": "1", "name": "a"}),
        "lacks it": (None, {"id": "1"}, None),
    }


def test_statements(decoded: dict[str, Row]) -> None:
    assert [decoded[name].op for name in ("truncate", "erase", "erase temporary")] == [
        "truncate",
        "truncate",
        "control",
    ]
    assert [decoded["truncate"].position, decoded["truncate"].source_table] == ["7".zfill(32), "shop.orders"]
    # Named by their first clause, whether the statement is around the clauses or not.
    for name in ("index after others", "clauses behind an index", "clauses behind a new index", "clauses alone"):
        dropped = decoded[name]
        assert [dropped.op, dropped.source_table] == ["schema", "shop.orders"], name
        change = dataworks.table_change(dropped.message_schema, dataworks.Options())
        assert change is not None and change.dropped == {"name"}, name
    alter = decoded["alter"]
    assert [alter.op, alter.position, alter.source_table] == ["schema", "8".zfill(32), "shop.orders"]
    assert json.loads(alter.message_schema) == {
        "op": "ALTER", "text": "ALTER TABLE orders ADD COLUMN note text", "dialect": "mysql",
    }  # fmt: skip
    assert dataworks.table_change(alter.message_schema, dataworks.Options()) == TableChange(
        columns={"note": ColumnType("string")}
    )
    for name in ("query without table", "create index", "drop index", "index without text", "gtid", "tombstone"):
        assert [decoded[name].op, decoded[name].problem] == ["control", None], name


@pytest.mark.promise(1)
def test_a_drop_of_several_tables_empties_each(spark: SparkSession) -> None:
    """Of MySQL; of another database, whose names are read otherwise, it is not passed over."""
    oracle = {"dbType": "Oracle", "dbName": "ORCL", "schemaName": "HR", "tableName": "A"}
    postgres = {"dbType": "PostgreSQL", "dbName": "hr", "schemaName": "public", "tableName": "a"}
    run = [
        message("ERASE", "7", text="DROP TABLE IF EXISTS `orders`, stock.`item`"),
        message("ERASE", "8", text="DROP TABLE shop.orders, item"),
        message("ERASE", "9", text="DROP TABLE A CASCADE CONSTRAINTS PURGE", source=oracle),
        message("TRUNCATE", "10", text="TRUNCATE a, b", source=postgres),
    ]
    records = [("o", i, m, "t", 0, i, None, None, m, None, None) for i, m in enumerate(run)]
    changes = dataworks.decode(spark.createDataFrame(records, RECORDS), FEED, dataworks.Options())
    assert [(row.op, row.source_table, row.problem) for row in changes.orderBy("record", "entry").collect()] == [
        ("truncate", "shop.orders", None), ("truncate", "stock.item", None), ("truncate", "shop.orders", None),
        ("bad", None, "a table is dropped, and nothing says of which database it was: item"),
        ("truncate", "ORCL.HR.A", None),
        ("bad", None, "the statement does not say which tables it drops in a form that is known here"),
    ]  # fmt: skip


def test_a_heartbeat_moves_the_clock(decoded: dict[str, Row]) -> None:
    row = decoded["heartbeat"]
    assert [row.op, row.kind, row.position] == ["control", "MHEARTBEAT", None]
    assert row.committed_at == datetime(2021, 5, 8, 7, 11, 36, 123000)


def _tx(rows: list[Row], run: list[bytes]) -> dict[int, set[str | None]]:
    """sequenceId → transactions of its entries."""
    found: dict[int, set[str | None]] = {}
    for row, value in zip(rows, run, strict=True):
        sequence = json.loads(value)["payload"]["sequenceId"]
        if sequence is not None:
            found.setdefault(int(sequence), set()).add(row.tx)
    return found


def test_rows_between_markers_are_a_transaction(in_hour: dict[str, list[Row]]) -> None:
    assert _tx(in_hour[ONE], HOURS[ONE]) == {
        5: {None}, 100: {"tx:100"}, 101: {"tx:100"}, 102: {"tx:100"}, 110: {"tx:100"}, 150: {None},
        200: {"tx:200"}, 201: {"tx:200"},  # never ended: another begins
        300: {"tx:300"}, 301: {"tx:300"}, 310: {"tx:300"},
        320: {"tx:320"}, 321: {"tx:320"}, 330: {"tx:320"}, 331: {"tx:320"},
        340: {"tx:340"}, 341: {"tx:340", None}, 342: {"pair:shop.orders:342"},
        400: {"tx:400"}, 401: {"tx:400"}, 900: {"tx:900"}, 901: {"tx:900"},
    }  # fmt: skip


def test_what_goes_on_over_the_hour_is_named_by_the_marker_that_is_there(in_hour: dict[str, list[Row]]) -> None:
    assert _tx(in_hour[TWO], HOURS[TWO]) == {
        100: {"tx:100"}, 101: {"tx:100"}, 110: {"tx:100"},
        902: {"end:910"}, 910: {"end:910"}, 920: {None}, 930: {"tx:930"}, 931: {"tx:930"},
        940: {"tx:930"}, 1000: {"tx:1000"}, 1001: {"tx:1000"},
    }  # fmt: skip
    assert _tx(in_hour[THREE], HOURS[THREE]) == {
        1010: {"end:1010"}, 1020: {None}, 1030: {"tx:1030"}, 1031: {"tx:1030"}, 1032: {None}, 1033: {None},
    }  # fmt: skip


def test_ends_and_rollbacks(in_hour: dict[str, list[Row]]) -> None:
    markers = {(row.kind, row.tx, row.tx_end, row.tx_rollback) for found in in_hour.values() for row in found if
               row.op == "control" and row.tx}  # fmt: skip
    assert ("XAROLLBACK", "tx:300", True, True) in markers
    assert ("XAROLLBACK", "tx:320", True, True) in markers, "the verdict on what was only prepared"
    assert ("XAROLLBACK", "end:1010", True, True) in markers
    assert ("XACOMMIT", "tx:930", True, None) in markers
    assert ("TRANSACTION_END", "tx:100", True, None) in markers
    assert ("TRANSACTION_BEGIN", "tx:200", False, None) in markers
    parts = {(row.kind, row.tx_part, row.tx_count) for found in in_hour.values() for row in found if row.tx_rollback}
    assert parts == {("XAROLLBACK", "end", 2)}, "an end waits for its begin"
    assert ("tx:200", True) not in {(tx, ended) for _, tx, ended, _ in markers}
    behind = in_hour[THREE][-1]
    assert [behind.op, behind.problem] == ["bad", PROBLEMS["verdict far behind"]]


@pytest.mark.promise(3)
def test_what_cannot_be_decoded_is_in_the_transaction_around_it(spark: SparkSession) -> None:
    """By its place in the order, whichever hour has the markers; a half takes the other one with it."""
    run = [
        begin(100), message("UPSERT", "101", after=ROW), row(102), end(110), message("UPSERT", "120", after=ROW),
        message("INSERT", None, after=ROW), message("UPDATE_AFTER", "130", after={"name": "no key"}), begin(200),
        message("DELETE", "201"), row(202),
    ]  # fmt: skip
    records = [(f"{ONE}/x", i, m, "t", 0, i, None, None, m, None, None) for i, m in enumerate(run)]
    records.append((f"{TWO}/x", 0, run[1], "t", 0, 20, None, None, message("UPSERT", "210"), None, None))
    records.append((f"{TWO}/x", 1, run[1], "u", 0, 21, None, None, message("UPSERT", "211"), None, "not of this feed"))
    decoded = dataworks.decode(spark.createDataFrame(records, RECORDS), FEED, dataworks.Options())
    edges = {"2026-11-20T22": ["begin:100", "end:110", "begin:200"]}
    bad = dataworks.tied(decoded, edges).where("op = 'bad'").orderBy("object", "record").collect()
    assert [(entry.tx, entry.tx_part) for entry in bad] == [
        ("tx:100", None), (None, None), (None, None), ("pair:shop.orders:130", "UPDATE_AFTER"), ("tx:200", None),
        ("tx:200", None), (None, None),
    ]  # fmt: skip


@pytest.mark.promise(3)
def test_an_hour_shows_others_where_what_it_shows_them_ends(spark: SparkSession) -> None:
    """Its first and its last transaction, each whole, an end without a begin, and a begin without an end with what bounds it;
    not the transactions between them."""
    run = [
        end(50), begin(100), begin(100), row(101), end(110), begin(200), row(201), end(210), begin(300), row(301),
        begin(400), row(401), end(410), begin(500), row(501), end(510), begin(600), end(610, "XACOMMIT"),
    ]  # fmt: skip
    records = [(f"{ONE}/x", i, m, "t", 0, i, None, None, m, None, None) for i, m in enumerate(run)]
    decoded = dataworks.decode(spark.createDataFrame(records, RECORDS), FEED, dataworks.Options())
    edges = {entry.edge for entry in decoded.select(dataworks.edge().alias("edge")).collect() if entry.edge}
    assert sorted(edges, key=dataworks.edge_position) == [
        "end:50", "begin:100", "end:110", "begin:300", "bound:400", "begin:600", "end:610",
    ]  # fmt: skip


def test_halves_of_a_pair_in_a_transaction_are_part_of_it(in_hour: dict[str, list[Row]]) -> None:
    halves = [row for row in in_hour[ONE] if row.kind.startswith("UPDATE") and row.tx == "tx:100"]
    assert [(row.op, row.tx_count, row.tx_end) for row in halves] == [("delete", None, None), ("insert", None, None)]
    assert {row.tx_part for row in halves} == {None}, "markers alone tell whether it is whole"


@pytest.mark.promise(3)
def test_a_half_before_the_begin_that_comes_late_waits_for_its_other_half(spark: SparkSession) -> None:
    """Its hour shows an end behind it; that the transaction began after it another hour shows."""
    run = [row(90, "UPDATE_AFTER"), row(91), row(105, "UPDATE_AFTER"), end(110)]
    records = [(f"{TWO}/x", i, m, "t", 0, i, None, None, m, None, None) for i, m in enumerate(run)]
    decoded = dataworks.decode(spark.createDataFrame(records, RECORDS), FEED, dataworks.Options())
    assert {change.tx for change in decoded.collect()} == {"end:110"}
    tied = dataworks.tied(decoded, {"2026-11-20T22": ["begin:100"], "2026-11-20T23": ["end:110"]}).orderBy("record")
    assert [(change.tx, change.tx_part, change.tx_end, change.tx_count) for change in tied.collect()] == [
        ("pair:shop.orders:90", "UPDATE_AFTER", True, 2), (None, None, None, None), ("tx:100", None, None, None),
        ("tx:100", "end", True, 1),
    ]  # fmt: skip


def test_a_half_that_lacks_columns_rests_on_the_other(spark: SparkSession) -> None:
    """In whichever order they come, each twice; without the other in its hour it cannot be read."""
    lacking = {"id": 2, "price": 2.0}
    alone = message("UPDATE_AFTER", "4", after=lacking)
    halves = [message("UPDATE_AFTER", "3", after=lacking), message("UPDATE_BEFOR", "3", before=ROW)]
    run = [*halves, message("UPDATE_BEFOR", "2", before={"id": 9}), *halves, alone]
    records = [(f"{ONE}/x", i, m, "t", 0, i, None, None, m, None, None) for i, m in enumerate(run)]
    for transactions in (True, False):
        options = dataworks.Options(transactions=transactions)
        decoded = dataworks.decode(spark.createDataFrame(records, RECORDS), FEED, options).orderBy("record").collect()
        found = [(change.op, change.key, change.prior_key, change.absent) for change in decoded]
        known = ("insert", {"id": "2"}, {"id": "1"}, ["name"])
        assert [found[0], found[3], found[5]] == [known, known, ("bad", None, None, None)]
        assert [found[1], found[4]] == [("delete", {"id": "1"}, None, None)] * 2
        assert "the row before it is not in the hour" in decoded[5].problem


def test_without_markers_rows_stand_alone(spark: SparkSession) -> None:
    run = [begin(1), row(2), row(3, "UPDATE_BEFOR"), end(4), end(5, "XAROLLBACK")]
    records = [(f"{ONE}/x", i, m, "t", 0, i, None, None, m, None, None) for i, m in enumerate(run)]
    options = dataworks.Options.model_validate({"transactions": False})
    changes = dataworks.decode(spark.createDataFrame(records, RECORDS), FEED, options).orderBy("record").collect()
    assert [(change.op, change.tx) for change in changes] == [
        ("control", None), ("insert", None), ("delete", "pair:shop.orders:3"), ("control", None), ("bad", None),
    ]  # fmt: skip
