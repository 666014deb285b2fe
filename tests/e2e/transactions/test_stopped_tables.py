"""One table that cannot go on: by `on_table_stop: table` it stops alone, and what waits is published in its place later."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.e2e.debezium_messages import COLUMNS, HOURS
from tests.e2e.feed_pair import FeedPair
from tests.e2e.schema_change_messages import HOURS as CANAL_HOURS
from tests.e2e.schema_change_messages import Change, Installation, Statement
from tests.e2e.transaction_exports import DEBEZIUM, export, ids, transaction
from tidemark.changelog.table_log import TableLog
from tidemark.errors import SchemaError
from tidemark.ledger.quarantine import list_kept_back, list_stopped
from tidemark.ledger.state_store import load_state
from tidemark.operations.audit import audit
from tidemark.operations.reports import tables_listing
from tidemark.pipeline.hour import run_hour
from tidemark.settings import Settings

pytestmark = [pytest.mark.full, pytest.mark.promise(3)]


def tables(n: str) -> dict[str, Any]:
    """``n``: of items; a text cannot take the place of a number."""
    return {"tables": {"s.items": {"columns": {**COLUMNS, "n": n}}, "s.others": {"columns": COLUMNS}}}


STOPPED = {"on_table_stop": "table", "quarantine": {"limit": 0.0, "at_least": 0}, **tables("text")}
MENDED = {"on_table_stop": "table", **tables("bigint")}
HISTORY = [
    [*transaction(1, ("c", "items", 1, 1), ("c", "items", 2, 2), ("c", "others", 1, 1))],
    [
        *transaction(5, ("u", "items", 1, 5), ("c", "others", 5, 5)), *transaction(6, ("c", "others", 6, 6)),
        *transaction(7, ("d", "items", 2, 0)),
    ],
    [
        *transaction(8, ("u", "others", 1, 8)), *transaction(9, ("c", "items", 9, 9), ("d", "others", 6, 0)),
        *transaction(2, ("c", "items", 3, 3), ("u", "others", 1, 2)),  # late
    ],
]  # fmt: skip


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_the_others_go_on_and_what_waits_is_published_in_its_place(
    spark: SparkSession, settings: Settings, tmp_path: Path, order: tuple[int, ...]
) -> None:
    pair = FeedPair(f"stopped_{order[0]}", tmp_path, spark, settings, **DEBEZIUM, **tables("int"))
    for hour, sent in enumerate(HISTORY):
        export(pair, HOURS[hour], sent)
    pair.run(HOURS[0])
    with pytest.raises(SchemaError, match="column n is int and would become string"):
        pair.run(HOURS[order[0]], **tables("text"))
    items = f"{pair.fixed}.items"
    for hour in order:
        receipt = pair.run(HOURS[hour], **STOPPED)
        assert list(receipt.stopped) == [items]
        assert f"{items} is stopped and stays as it was, 2 changes" in receipt.notes[-1]
        assert "n is int and would become string" in receipt.notes[-1] and "run the hour again" in receipt.notes[-1]
        assert ids(pair, "items") == {1: 1, 2: 2}
        found = audit(pair.feed(pair.fixed, **STOPPED), settings).findings
        assert [str(finding) for finding in found] == []
    assert ids(pair, "others") == {1: 8, 6: 6}
    kept = list_kept_back(settings, pair.fixed)
    assert {(r["table"].split(".")[1], r["stage"]) for r in kept} == {("items", "stopped"), ("others", "transaction")}
    assert len(kept) == 7

    pair.run_right(HOURS[:3], **MENDED)
    for hour in order:
        assert pair.run(HOURS[hour], **MENDED).stopped == {}
    pair.same("items", "others")
    assert not list_kept_back(settings, pair.fixed)
    assert [str(finding) for finding in audit(pair.feed(pair.fixed, **MENDED), settings).findings] == []
    again = [pair.run(HOURS[hour], **MENDED).sequence for hour in order]
    assert again == [pair.run(HOURS[hour], **MENDED).sequence for hour in order], "nothing to do"


@pytest.mark.parametrize("first", [0, 1])
def test_what_was_held_until_a_table_stopped_waits_with_it(
    spark: SparkSession, settings: Settings, tmp_path: Path, first: int
) -> None:
    """It is of another hour than the one that stops the table: that hour has to run again, too, in whatever order."""
    pair = FeedPair(f"stopped_held_{first}", tmp_path, spark, settings, **DEBEZIUM, **tables("int"))
    begun = transaction(5, ("u", "items", 1, 5), ("u", "others", 1, 5), ("c", "items", 5, 5))
    sent = [
        [*transaction(1, ("c", "items", 1, 1), ("c", "others", 1, 1)), *begun[:2]],
        [*begun[2:], *transaction(6, ("c", "items", 6, 6))],
        [*transaction(7, ("u", "items", 6, 7), ("u", "others", 1, 7))],
    ]
    for hour, events in enumerate(sent):
        export(pair, HOURS[hour], events)
    pair.run(HOURS[0])
    items = f"{pair.fixed}.items"
    receipt = pair.run(HOURS[1], **STOPPED)
    assert (list(receipt.stopped), receipt.progress.stopped_hours) == ([items], [HOURS[0]])
    assert f"as do changes of {HOURS[0]} that were held until now" in receipt.notes[-1]
    assert "run these hours again" in receipt.notes[-1]
    assert pair.run(HOURS[first], **MENDED).stopped == {}
    state = load_state(settings, pair.fixed)
    assert list(state.stopped) == [HOURS[1 - first]]
    assert list(list_stopped(settings, state)) == [items], "until the other hour has run, too"
    assert list(pair.run(HOURS[2], **MENDED).stopped) == [items]
    for hour in (1 - first, 2):
        assert pair.run(HOURS[hour], **MENDED).stopped == {}
    pair.run_right(HOURS[:3], **MENDED)
    for table in ("items", "others"):
        assert pair.rows(pair.fixed, table) == pair.rows(pair.right, table)
    assert (ids(pair, "items"), ids(pair, "others")) == ({1: 5, 5: 5, 6: 7}, {1: 7})
    assert not list_kept_back(settings, pair.fixed) and not load_state(settings, pair.fixed).stopped
    assert [str(finding) for finding in audit(pair.feed(pair.fixed, **MENDED), settings).findings] == []


@pytest.mark.parametrize(("name", "stops"), [("items", "table"), ("items_2", "table"), ("items", "feed")])
def test_a_mended_table_does_not_go_on_before_what_waits(
    spark: SparkSession, settings: Settings, tmp_path: Path, name: str, stops: str
) -> None:
    """Nor under another name, nor where the feed file does not stop tables by themselves any more; and it is told as stopped
    until nothing waits."""
    pair = FeedPair(f"stopped_{name}_{stops}", tmp_path, spark, settings, **DEBEZIUM, **tables("int"))
    why = "column n is int and would become string: not possible without losing values"

    def stopped() -> dict[str, tuple[str, str]]:
        found = list_stopped(settings, load_state(settings, pair.fixed))
        listed = tables_listing(settings, pair.fixed).rows
        assert {row[1] for row in listed if row[3] == "stopped"} == found.keys()
        return {table: (hour, said.partition(" (to fix")[0]) for table, (hour, said) in found.items()}

    for hour, sent in enumerate([*HISTORY, transaction(10, ("u", "items", 9, 10))]):
        export(pair, HOURS[hour], sent)
    pair.run(HOURS[0])
    pair.run(HOURS[1], **STOPPED)
    old, items = f"{pair.fixed}.items", f"{pair.fixed}.{name}"
    assert stopped() == {old: (HOURS[1], why)}
    mended = MENDED | tables("bigint") | {"on_table_stop": stops}
    mended["tables"]["s.items"]["name"] = items
    assert pair.run(HOURS[2], **mended).stopped[items].startswith(f"changes of {HOURS[1]} wait: {why}")
    assert stopped() == {items: (HOURS[2], why), old: (HOURS[1], why)}
    assert ids(pair, "items") == {1: 1, 2: 2}
    pair.replay(HOURS[1], **mended)
    assert stopped() == {items: (HOURS[2], why)}
    assert pair.run(HOURS[3], **mended).stopped[items].startswith(f"changes of {HOURS[2]} wait: {why}")
    for hour in HOURS[2:4]:
        pair.replay(hour, **mended)
    assert stopped() == {}
    pair.run_right(HOURS[:4], **MENDED)
    assert pair.rows(pair.fixed, name) == pair.rows(pair.right, "items")
    pair.same("others")


def test_a_table_that_only_its_late_changes_stop_stops_alone(
    spark: SparkSession, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the change log carries of it is read last, when what came again is out; all is accounted for."""
    pair = FeedPair("stopped_late", tmp_path, spark, settings, **DEBEZIUM, **MENDED)
    arrived = json.loads(json.dumps(transaction(5, ("d", "items", 1, 0), ("c", "items", 4, 4), ("u", "others", 1, 5))))
    arrived[1]["headers"] = [{"key": "__debezium.oldkey", "value": json.dumps({"id": 1})}]
    values = [json.loads(one["value"]) for one in arrived[:2]]
    values[1]["source"] = values[0]["source"]  # both are one UPDATE
    values[1]["after"]["big"] = "__debezium_unavailable_value"
    arrived[1]["value"] = json.dumps(values[1])
    late = [
        *HISTORY[0],
        *transaction(3, ("u", "items", 2, 3), ("u", "others", 1, 3)),
        *transaction(8, ("c", "others", 8, 8)),
    ]
    for hour, sent in enumerate([HISTORY[0], arrived, late]):
        export(pair, HOURS[hour], sent)
    pair.run(HOURS[0])
    pair.run(HOURS[1])
    items = f"{pair.fixed}.items"
    carried = TableLog.carried

    def too_many(log: TableLog) -> Any:
        if log.table == items:
            raise SchemaError("its rows come with too many columns", table=items)
        return carried(log)

    with monkeypatch.context() as patched:
        patched.setattr(TableLog, "carried", too_many)
        receipt = pair.run(HOURS[2])
    assert receipt.stopped == {items: "its rows come with too many columns"}
    assert (ids(pair, "items"), ids(pair, "others")) == ({2: 2, 4: 4}, {1: 5, 8: 8})
    kept = [(r["table"].split(".")[1], r["stage"]) for r in list_kept_back(settings, pair.fixed)]
    assert sorted(kept) == [("items", "stopped")] * 3 + [("others", "transaction")], "what came again has good copies"
    pair.run_right(HOURS[:3])
    assert pair.run(HOURS[2]).stopped == {}
    pair.same("items", "others")
    assert ids(pair, "items") == {2: 3, 4: 4}
    assert not list_kept_back(settings, pair.fixed)


V1, BAG = {"id": "int", "name": "text"}, {"a": "int"}


def test_a_statement_that_cannot_be_followed_stops_its_table_alone(tmp_path: Path, settings: Settings) -> None:
    made = Installation("canal", "st_statement", tmp_path, settings, {"s.items": {}, "s.bag": {}})

    def bag(position: int) -> Change:
        return Change("c", position, BAG, {"a": position}, key=(), table="bag")

    def insert(position: int) -> Change:
        return Change("c", position, V1, {"id": position, "name": "x"})

    lost = Statement(10, V1, "ALTER TABLE items DROP PARTITION p1")
    for hour, entries in enumerate([[insert(1), bag(2)], [lost, insert(11), bag(12)], [insert(21), bag(22)]]):
        made.export(hour, entries)

    def run(hour: int, **changes: Any) -> dict[str, str]:
        return run_hour(made.feed(on_table_stop="table", **changes), CANAL_HOURS[hour], settings).stopped

    assert run(0) == {}
    assert "rows go without being sent" in json.dumps(run(1)) and "declare the table's columns" in json.dumps(run(2))
    assert [row["id"] for row in made.rows()] == [1]
    assert [row["a"] for row in made.rows("bag")] == [2, 12, 22]
    with pytest.raises(SchemaError, match="rows go without being sent"):
        made.run(1)
    made.tables = {"s.items": {"columns": {"id": "int", "name": "text"}}, "s.bag": {}}
    assert run(1) == run(2) == {}
    assert [row["id"] for row in made.rows()] == [1, 11, 21]
    assert [row["a"] for row in made.rows("bag")] == [2, 12, 22]
    assert [str(finding) for finding in audit(made.feed(on_table_stop="table"), settings).findings] == []
