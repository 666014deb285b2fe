"""How many Spark jobs an hour takes: what it costs in small hours, where planning and starting are nearly all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pytest
from pyspark.sql import SparkSession

from tests.e2e.debezium_messages import HOURS, Event, line
from tests.e2e.feed_pair import FeedPair
from tests.e2e.transaction_exports import DEBEZIUM, transaction
from tidemark.changelog.table_log import TableLog
from tidemark.fold import late_changes
from tidemark.operations.audit import audit
from tidemark.operations.read_table import read_snapshot
from tidemark.settings import Settings

TABLES = ("one", "two")
UNSENT = "__debezium_unavailable_value"
COLUMNS = {"id": "bigint", "n": "int", "big": "text"}


def everywhere(number: int, op: str, *ids: int, partial: bool = False) -> list[Event]:
    """A transaction that does the same in all tables."""
    sent = transaction(number, *((op, table, id_, number) for table in TABLES for id_ in ids))
    for one in sent[:-1] if partial else ():
        value = json.loads(one["value"])
        value["after"]["big"] = UNSENT
        one["value"] = json.dumps(value)
    return sent


def moved(number: int, *moves: tuple[int, int], partial: bool = False) -> list[Event]:
    """A transaction that changes keys, old to new, in all tables, and sends whole rows, or rows without a column."""
    each = [(table, *move) for table in TABLES for move in moves]
    sent = transaction(
        number, *((op, table, id_, old) for table, old, new in each for op, id_ in (("d", old), ("c", new)))
    )
    for (_, old, _), left, one in zip(each, sent[:-1:2], sent[1:-1:2], strict=True):
        one["headers"] = [{"key": "__debezium.oldkey", "value": json.dumps({"id": old})}]
        value = json.loads(one["value"]) | {"source": json.loads(left["value"])["source"]}  # both are one UPDATE
        if partial:
            value["after"]["big"] = UNSENT
        one["value"] = json.dumps(value)
    return sent


AGAIN = everywhere(15, "c", *range(10, 20))
AT_FIRST = [*everywhere(11, "c", *range(10)), *AGAIN]
#: By what happens in it: an hour's events, and at most so many jobs, of which so many for each of the tables.
HOURS_OF: dict[str, tuple[list[Event], int, int]] = {
    "in order": ([*everywhere(21, "c", 20, 21, 22), *everywhere(22, "u", 1, 2, 3)], 9, 2),
    "in order twice": ([*everywhere(21, "c", 20, 21, 22), *everywhere(21, "c", 20, 21, 22)], 9, 2),
    "redelivered": ([*AGAIN, *everywhere(31, "u", 4, 5)], 12, 2),
    "late": ([*everywhere(13, "u", *range(10), partial=True), *everywhere(41, "u", 4, 5)], 11, 4),
    "a moved key": (moved(51, (1, 91)), 11, 2),
    "a moved key without a column": (moved(51, (1, 91), partial=True), 11, 4),
    "keys that collide": (moved(51, (1, 2), (2, 3), (3, 91)), 11, 5),
    "a truncate": ([*everywhere(61, "t", 0), *everywhere(62, "c", 1, 2)], 9, 4),
}


def export(pair: FeedPair, hour: str, sent: Sequence[Event]) -> None:
    for topic in DEBEZIUM["topics"]:
        pair.export(hour, [one for one in sent if one["topic"] == topic], topic=str(topic))


def jobs_of(spark: SparkSession, pair: FeedPair, hour: str) -> int:
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()
    before = scheduler.nextJobId()
    pair.run(hour)
    return int(scheduler.nextJobId() - before)


@pytest.mark.parametrize(
    "name", [name if name == "redelivered" else pytest.param(name, marks=pytest.mark.full) for name in HOURS_OF]
)
def test_an_hour_takes_few_jobs(spark: SparkSession, settings: Settings, tmp_path: Path, name: str) -> None:
    usual = {**DEBEZIUM, "tables": {f"s.{table}": {"columns": COLUMNS} for table in TABLES}}
    pair = FeedPair(f"jobs_{name.replace(' ', '_')}", tmp_path, spark, settings, **usual)
    sent, each_hour, each_table = HOURS_OF[name]
    export(pair, HOURS[0], AT_FIRST)
    export(pair, HOURS[1], sent)
    pair.run(HOURS[0])
    assert jobs_of(spark, pair, HOURS[1]) == each_hour + each_table * len(TABLES)
    assert {row["big"] for row in pair.rows(pair.fixed, TABLES[0])} == {"x"}, "what was not sent is what it was"


@pytest.mark.full
@pytest.mark.parametrize("checked", [False, True], ids=["", "checked"])
def test_an_hour_that_comes_late_takes_few_jobs(
    spark: SparkSession, settings: Settings, tmp_path: Path, checked: bool
) -> None:
    """Its cut is not what the tables hold then: it goes on from the one before, with what has come since. It is worked out
    once, also where it is checked before it is made."""
    checks = {"checks": [{"column": "n", "min": 0}]} if checked else {}
    usual = {**DEBEZIUM, "tables": {f"s.{table}": {"columns": COLUMNS, **checks} for table in TABLES}}
    pair = FeedPair(f"jobs_late_{checked}".lower(), tmp_path, spark, settings, **usual)
    export(pair, HOURS[0], AT_FIRST)
    export(pair, HOURS[1], [*everywhere(21, "c", 20, 21), *everywhere(22, "u", 1, 2, 3)])
    export(pair, HOURS[2], everywhere(31, "u", 3, 4))
    pair.run(HOURS[0])
    pair.run(HOURS[2])
    # of a table with checks: its rows and those of its cut, counted and looked through
    assert jobs_of(spark, pair, HOURS[1]) == 14 + (9 + 4 * checked) * len(TABLES)
    for table in TABLES:
        for hour, values in ((None, [22, 22, 31, 31, 21]), (HOURS[1], [22, 22, 22, 11, 21])):
            rows = read_snapshot(settings, f"{pair.fixed}.{table}", hour)[0].to_pylist()
            found = {row["id"]: row["n"] for row in rows}
            assert [found[id_] for id_ in (1, 2, 3, 4, 20)] == values


def test_what_comes_again_needs_no_log_where_keys_met(
    spark: SparkSession, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sources that send at least once begin each restart with what they sent before it. Without that the rest is in order:
    it is joined with what is stored, though rows met at its keys, and the log of all hours is not read."""
    usual = {**DEBEZIUM, "tables": {f"s.{table}": {"columns": COLUMNS} for table in TABLES}}
    pair = FeedPair("jobs_met", tmp_path, spark, settings, **usual)
    met = [*moved(51, (1, 2), (2, 3), (3, 91)), *moved(52, (4, 94), partial=True)]
    for hour, sent in zip(HOURS, (AT_FIRST, met, [*met, *everywhere(61, "u", 2, 94, partial=True)]), strict=False):
        export(pair, hour, sent)
    pair.run(HOURS[0])
    pair.run(HOURS[1])
    monkeypatch.setattr(TableLog, "carried", _is_not_asked)
    monkeypatch.setattr(late_changes, "classify", _is_not_asked)
    assert jobs_of(spark, pair, HOURS[2]) == 13 + 2 * len(TABLES)
    monkeypatch.undo()
    for table in TABLES:
        rows = {row["id"]: row for row in pair.rows(pair.fixed, table)}
        assert sorted(rows) == [0, 2, 3, *range(5, 20), 91, 94]
        assert [rows[id_]["n"] for id_ in (2, 3, 91, 94)] == [61, 2, 3, 61]
        assert {row["big"] for row in rows.values()} == {"x"}, "what was not sent is what it was"
    assert not audit(pair.feed(pair.fixed), settings).findings


@pytest.mark.full
def test_a_table_without_a_key_takes_few_jobs(
    spark: SparkSession, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes in order is added to what is stored, or taken from it: the change log of before is not read."""
    table = {"columns": {"id": "bigint", "n": "int"}, "key": []}
    pair = FeedPair("jobs_keyless", tmp_path, spark, settings, format={"type": "debezium"}, tables={"s.lines": table})
    hours = [
        [("c", id_) for id_ in range(5)], [("c", id_) for id_ in range(3)], [("d", 0), ("d", 4), ("c", 4)], [("c", 0)],
    ]  # fmt: skip
    found = []
    for number, changes in enumerate(hours, 1):
        sent = [line(100 * number + at, id_, op) for at, (op, id_) in enumerate(changes)]
        pair.export(HOURS[number - 1], sent)
        found.append(jobs_of(spark, pair, HOURS[number - 1]))
        monkeypatch.setattr(TableLog, "rows", _is_not_asked)
        monkeypatch.setattr(TableLog, "carried", _is_not_asked)
    monkeypatch.undo()
    assert sorted(row["n"] for row in pair.rows(pair.fixed, "lines")) == [0, 0, 1, 1, 2, 2, 3, 4]
    assert not audit(pair.feed(pair.fixed), settings).findings
    assert found[1:] == [9, 14, 9], found


def _is_not_asked(*_: object) -> NoReturn:
    pytest.fail("the change log is read")
