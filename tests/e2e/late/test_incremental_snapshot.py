"""Rows that an incremental snapshot reads carry the place of what closes their chunk's window. With `read.only` that is an
event that is sent right behind them, and takes what they are, or a commit (docs/formats/debezium.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.e2e.debezium_messages import COLUMNS, DEBEZIUM, HOURS, event, line, row
from tests.e2e.feed_pair import FeedPair
from tidemark.operations.read_table import json_lines, read_snapshot
from tidemark.pipeline.hour import run_hour
from tidemark.settings import Settings

pytestmark = [pytest.mark.full, pytest.mark.promise(2)]

_CLOSES = 5000
READ = {id_: row(id_, 10 * id_) for id_ in (1, 2, 3)}
#: By what closes the window: the events of its place, and the keys that are left.
CLOSING: dict[str, tuple[list[dict[str, Any]], set[int]]] = {
    "a delete": ([event("d", _CLOSES, None, key={"id": 2})], {1, 3}),
    "a key change": ([event("d", _CLOSES, None, key={"id": 2}), event("c", _CLOSES, row(7, 20))], {1, 3, 7}),
    "an update": ([event("u", _CLOSES, row(2, 21))], {1, 2, 3}),
    "a truncate": ([event("t", _CLOSES, None), event("c", _CLOSES + 8, row(5, 50))], {5}),
}


def read_by_the_window(record: dict[str, Any], snapshot: str = "incremental") -> dict[str, Any]:
    value = json.loads(record["value"])
    value["source"] |= {"snapshot": snapshot}
    return record | {"value": json.dumps(value)}


@pytest.mark.parametrize("closing", CLOSING)
@pytest.mark.parametrize("order", [[0], [0, 1], [1, 0]], ids=["one hour", "in order", "later first"])
def test_what_closes_a_window_comes_behind_its_rows(
    tmp_path: Path, spark: SparkSession, settings: Settings, closing: str, order: list[int]
) -> None:
    events, left = CLOSING[closing]
    window = [read_by_the_window(event("r", _CLOSES, read)) for read in READ.values()]
    parts = [window, events] if len(order) > 1 else [[*window, *events]]
    name = f"window_{list(CLOSING).index(closing)}_{''.join(map(str, order))}_{len(parts)}"
    pair = FeedPair(name, tmp_path, spark, settings, **DEBEZIUM, tables={"s.items": {"columns": COLUMNS}})
    for hour, records in zip(HOURS, parts, strict=False):
        pair.export(str(hour), records)
    for number in order:
        run_hour(pair.feed(name), HOURS[number], settings)
    rows = [json.loads(line) for line in json_lines(*read_snapshot(settings, f"{name}.items"))]
    assert {found["id"] for found in rows} == left
    assert closing != "an update" or [found["n"] for found in rows if found["id"] == 2] == [21]


@pytest.mark.parametrize("order", [[0, 1], [1, 0]], ids=["in order", "later first"])
def test_rows_whose_window_a_commit_closes_stand_before_what_was_in_flight_then(
    tmp_path: Path, spark: SparkSession, settings: Settings, order: list[int]
) -> None:
    """A commit or a heartbeat has closed it: the rows carry the place of the commit twice. The next transaction to commit can
    have lower LSNs."""

    def behind_commit(record: dict[str, Any], lsn: int) -> dict[str, Any]:
        value = json.loads(record["value"])
        value["source"] |= {"sequence": json.dumps([str(_CLOSES), str(lsn)])}
        return record | {"value": json.dumps(value)}

    window = [behind_commit(read_by_the_window(event("r", _CLOSES, read)), _CLOSES) for read in READ.values()]
    changes = [event("u", _CLOSES - 80, row(2, 21)), event("d", _CLOSES - 72, None, key={"id": 3})]
    name = f"window_of_commit_{order[0]}"
    pair = FeedPair(name, tmp_path, spark, settings, **DEBEZIUM, tables={"s.items": {"columns": COLUMNS}})
    pair.export(HOURS[0], window)
    pair.export(HOURS[1], [behind_commit(change, _CLOSES - at) for change, at in zip(changes, (80, 72), strict=True)])
    for number in order:
        run_hour(pair.feed(name), HOURS[number], settings)
    rows = [json.loads(line) for line in json_lines(*read_snapshot(settings, f"{name}.items"))]
    assert {found["id"]: found["n"] for found in rows} == {1: 10, 2: 21}


@pytest.mark.parametrize(
    ("snapshot", "read_at", "told"),
    [("incremental", 30, True), ("last", 30, True), ("incremental", 10, False)],
    ids=["incremental", "blocking", "before all changes"],
)
def test_rows_without_a_key_that_an_ad_hoc_snapshot_reads_again_are_told(
    tmp_path: Path, spark: SparkSession, settings: Settings, snapshot: str, read_at: int, told: bool
) -> None:
    """It may read a part of its table, and replaces nothing: what stands before it is there twice."""
    name = f"read_again_{snapshot}_{read_at}"
    pair = FeedPair(name, tmp_path, spark, settings, **DEBEZIUM, tables={"s.lines": {"key": []}})
    pair.export(HOURS[0], [line(20, 2), read_by_the_window(line(read_at, 2, "r"), snapshot), line(40, 3)])
    warnings = run_hour(pair.feed(name), HOURS[0], settings).tables[0].warnings
    assert any("there twice" in warning for warning in warnings) == told
