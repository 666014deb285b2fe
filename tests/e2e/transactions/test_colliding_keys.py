"""Keys that move onto each other where the source names no transactions: an hour may end in the middle of a statement."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.convergence import debezium
from tests.convergence.histories import ROOM, Deed, Unit
from tests.convergence.oracle import Change, Image
from tests.convergence.wire import Format, Sent
from tests.e2e.change_exports import HOURS, Exports, change, unit
from tests.e2e.debezium_messages import Event, event
from tests.e2e.one_table_feed import OneTableFeed, rows
from tests.e2e.qlik_messages import qlik
from tidemark.hours import Hour
from tidemark.operations.audit import audit
from tidemark.operations.explain_row import explain_row
from tidemark.settings import Settings

pytestmark = pytest.mark.promise(2, 4)

#: ``UPDATE a SET id = id + 1`` over these.
IDS = (1, 2)
NOT_SENT = frozenset({"big"})


@pytest.mark.full
def test_a_statement_that_two_hours_share(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    """In the table whose messages lack what did not change: that is to come from the row which had the key before."""
    debezium_strings = {"format": {"type": "debezium", "decimals": "string"}}
    exports = Exports(Format("debezium", debezium, "kafka_json"), tmp_path, settings, "collide", **debezium_strings)
    there = [one for id_ in IDS for one in debezium.encode(unit(id_, _there("b", id_), together=False))]
    statement = _plus_one("b")
    exports.run(HOURS[0], [*there, *statement[:3]])
    exports.run(HOURS[1], statement[3:])
    assert exports.rows("b") == WANTED
    assert not audit(exports.feed, settings).findings
    with_feeds = settings.model_copy(update={"feeds": tmp_path / "feeds"})
    for id_ in IDS:  # what the message of the move lacks is told to come from the insert of the row that moved
        found = explain_row(with_feeds, "collide.b", [str(id_ + 1), "7"])
        assert found.given is not None
        assert found.given["big"].sent["big"] == WANTED[id_ + 1][1]


@pytest.mark.full
def test_a_statement_that_two_hours_share_after_the_hour_of_its_rows(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    exports = Exports(
        Format("debezium", debezium, "kafka_json"), tmp_path, settings, "collide_after",
        format={"type": "debezium", "decimals": "string"},
    )  # fmt: skip
    there = [
        sent
        for table in ("a", "b")
        for id_ in IDS
        for sent in debezium.encode(unit(id_, _there(table, id_), together=False))
    ]
    statement = [sent for table in ("a", "b") for sent in _plus_one(table)]
    # Key 2 is moved onto in the first hour, and left in the second, where nothing else collides.
    first, rest = statement[:3] + statement[6:9], statement[3:6] + statement[9:]

    exports.run(HOURS[0], there)
    exports.run(HOURS[1], first)
    exports.run(HOURS[2], rest)
    for table in ("a", "b"):
        assert exports.rows(table, HOURS[2]) == WANTED
    assert not audit(exports.feed, settings).findings


@pytest.mark.full
@pytest.mark.parametrize("late", [(2, 3), (2,), (1, 2, 3)], ids=str)
def test_rows_in_a_circle_come_late(
    spark: SparkSession, settings: Settings, tmp_path: Path, late: tuple[int, ...]
) -> None:
    """Each row rests on another one, so a late change of any of them alters others. That of row 3 is older than what row 3
    has come to rest on by then, and still counts: for row 1."""
    exports = Exports(
        Format("debezium", debezium, "kafka_json"), tmp_path, settings, f"circle_{len(late)}",
        format={"type": "debezium", "decimals": "string"},
    )  # fmt: skip
    begun = {1: 10, 2: 2, 3: 3}
    there = {
        id_: debezium.encode(unit(number, change("b", number, 10, "insert", id_), together=False))
        for id_, number in begun.items()
    }
    exports.run(HOURS[0], [one for id_ in sorted(there.keys() - set(late)) for one in there[id_]])
    circle = [(3, 1), (1, 2), (2, 3)]
    exports.run(HOURS[1], _moves("b", circle))
    exports.run(HOURS[2], [one for id_ in late for one in there[id_]])
    assert exports.rows("b") == {to: (_at(id_), f"b{begun[id_] * ROOM + 10}") for id_, to in circle}
    assert not audit(exports.feed, settings).findings


def uncounted(number: int, second: int, operation: str, id_: int, value: str, old: int | None = None) -> dict[str, Any]:
    """A change of Qlik's that names its transaction, 77, and does not count in it; each has a time of its own."""
    record = qlik(number, operation, {"ID": id_, "V": value}, "03", {"ID": old, "V": value} if old else None)
    body = json.loads(record["value"])
    head = body["message"]["headers"] if "message" in body else body["headers"]
    del head["transactionEventCounter"], head["transactionLastEvent"]
    head |= {"transactionId": f"{77:032d}", "timestamp": f"2026-11-20T01:02:{second:02d}.000"}
    return record | {"value": json.dumps(body)}


@pytest.mark.full
@pytest.mark.parametrize("order", [(0,), (0, 1), (1, 0)], ids=["in one hour", "in two", "the second first"])
def test_rows_move_in_a_transaction_that_is_named_and_not_counted(
    spark: SparkSession, settings: Settings, tmp_path: Path, order: tuple[int, ...]
) -> None:
    """Its changes have times of their own: they show no transaction."""
    run = OneTableFeed(f"uncounted_{''.join(map(str, order))}", tmp_path, settings)
    declared = {
        "format": {"type": "qlik"},
        "table": {"topic": "t", "key": ["ID"], "columns": {"ID": "INT8", "V": "STRING(9)"}},
    }
    there = [uncounted(number, 1, "INSERT", number, "abc"[number - 1]) for number in (1, 2, 3)]
    moved = [uncounted(10, 5, "UPDATE", 2, "a", 1), uncounted(11, 6, "DELETE", 2, "b")]
    hours = [there + moved] if len(order) == 1 else [[*there, moved[0]], moved[1:]]
    for hour in order:
        assert run(Hour.parse(HOURS[hour]), [*hours[hour]], **declared).quarantined == 0
    assert [(one["ID"], one["V"]) for one in rows(settings, run)] == [(2, "a"), (3, "c")]
    assert audit(run.definition(**declared), settings).findings == []


@pytest.mark.full
@pytest.mark.parametrize("order", [(0,), (0, 1), (1, 0)], ids=["in one hour", "in two", "the second first"])
def test_an_image_shows_a_row_by_its_values(
    spark: SparkSession, settings: Settings, tmp_path: Path, order: tuple[int, ...]
) -> None:
    """What is stored of a row is told as well as what came with it in the hour, whatever texts its values were sent as."""
    run = OneTableFeed(f"by_value_{''.join(map(str, order))}", tmp_path, settings)
    table = {"columns": {"id": "bigint", "price": "numeric(10,2)", "at": "timestamp(6)", "key": "text"}}
    one = {"price": "7.5", "at": 1795132800000000, "key": "one"}
    moved, stays = one | {"id": 2}, {"id": 2, "price": "7.5", "at": 1795132801500000, "key": "two"}
    there = [event("c", lsn, row) for lsn, row in ((101, one | {"id": 1}), (102, stays))]
    left, arrived, gone = (
        event("d", 201, None, key={"id": 1}),
        event("c", 201, moved),
        event("d", 202, None, key={"id": 2}),
    )
    arrived["headers"] = [{"key": "__debezium.oldkey", "value": json.dumps({"id": 1})}]
    statement = [_in_transaction(one) for one in (left, arrived, gone)]
    # Of the row that goes, the image has the time alone.
    statement[2]["value"] = json.dumps(json.loads(statement[2]["value"]) | {"before": stays | {"key": None}})
    hours = [there + statement] if len(order) == 1 else [there, statement]
    for hour in order:
        assert run(Hour.parse(HOURS[hour]), [*hours[hour]], table=table).quarantined == 0
    assert [(found["id"], found["key"]) for found in rows(settings, run)] == [(2, "one")]
    assert audit(run.definition(table=table), settings).findings == []


def _in_transaction(sent: Event) -> Event:
    value = json.loads(sent["value"])
    value["source"]["txId"] = 200
    return sent | {"value": json.dumps(value)}


def _plus_one(table: str) -> list[Sent]:
    return _moves(table, [(id_, id_ + 1) for id_ in IDS])


def _moves(table: str, moves: list[tuple[int, int]]) -> list[Sent]:
    """One commit. Three messages for each row: the delete of its key, a tombstone, and the insert; in ``b`` it lacks a
    column that did not change."""
    deeds: list[Deed] = []
    for index, (id_, to) in enumerate(moves):
        deleted, arrived = (_change(table, index, op, key) for op, key in (("delete", id_), ("insert", to)))
        prior = (id_, 7)[: len(arrived.key)]
        new = {"n": _at(id_), "big": f"b{id_ * ROOM + 10}"}
        sent: Image = frozenset((name, new.get(name, value)) for name, value in arrived.sent)
        deeds.append((deleted, replace(arrived, sent=sent, prior=prior)))
    return debezium.encode(Unit(50, tuple(deeds), False, "commit", (1,), (0,)))


def _there(table: str, id_: int) -> Change:
    return change(table, id_, 10, "insert", id_)


def _change(table: str, index: int, op: str, id_: int) -> Change:
    return change(table, 50, 10 + index, op, id_, NOT_SENT if (table, op) == ("b", "insert") else frozenset())


def _at(id_: int) -> int:
    """What the statement writes into another column of the row that had this id."""
    return 1000 + id_


WANTED = {id_ + 1: (_at(id_), f"b{id_ * ROOM + 10}") for id_ in IDS}
