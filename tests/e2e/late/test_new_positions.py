"""A source whose positions begin again lower (a new cluster, a failover): a reload that says so counts from its place on, and
the table is the new source's, in whatever order hours are run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.e2e.debezium_messages import HOURS, Event, event, row
from tests.e2e.one_table_feed import OneTableFeed, rows
from tidemark.ledger.reloads import name_reloads
from tidemark.operations.audit import audit
from tidemark.settings import Settings

pytestmark = [pytest.mark.promise(2), pytest.mark.full]

AGAIN = "s.items (positions begin again)"


def at(offset: int, op: str, lsn: int, of: Event | None, *, partition: int = 0, key: Event | None = None) -> Event:
    """A record at its place in the topic; op ``r``: read by a snapshot."""
    record = event(op, lsn, of, key=key)
    if op == "r":
        value = json.loads(record["value"])
        value["source"] |= {"snapshot": "true", "sequence": json.dumps([None, str(lsn)])}
        record["value"] = json.dumps(value)
    return record | {"offset": offset, "partition": partition}


#: By hour. The new cluster begins in hour 1, behind a change of the old one, and reads row 1 and 3; row 2 is gone there. In
#: hour 2 two changes of the old one come again. In partition 1 no row of the snapshot shows where it begins.
SENT = [
    [at(1, "c", 1000, row(1, 1)), at(2, "c", 1010, row(2, 1)), at(1, "c", 1020, row(4, 1), partition=1)],
    [
        at(3, "u", 2000, row(1, 2)), at(2, "u", 2010, row(4, 2), partition=1),
        at(4, "r", 50, row(1, 3)), at(5, "r", 50, row(3, 3)), at(3, "c", 60, row(5, 3), partition=1),
    ],
    [at(6, "u", 60, row(1, 4)), at(7, "u", 2000, row(1, 2)), at(8, "c", 1010, row(2, 1))],
    [at(9, "u", 70, row(3, 5))],
]  # fmt: skip
SHOWN = [row(1, 4), row(3, 5), row(5, 3)]


@pytest.mark.parametrize(
    ("order", "at_first"),
    [
        pytest.param([1, 2, 0, 3], True),
        pytest.param([0, 1, 2, 3], False),
        pytest.param([3, 2, 1, 0], True),
        pytest.param([0, 2, 3, 1], True),
    ],
    ids=["an older hour late", "named afterwards", "newest first", "the beginning last"],
)
def test_the_table_is_the_new_sources(
    spark: SparkSession, settings: Settings, tmp_path: Path, order: list[int], at_first: bool
) -> None:
    run = OneTableFeed(f"new_{''.join(map(str, order))}", tmp_path, settings)
    if at_first:
        name_reloads(run.definition(), [AGAIN], HOURS[1], settings)
    receipts = {hour: run(HOURS[hour], SENT[hour]) for hour in order}
    if not at_first:
        (warning,) = receipts[2].tables[0].warnings
        assert f"`tidemark reload {run.feed} {run.table} --hour H --positions-begin-again`" in warning
        assert name_reloads(run.definition(), [AGAIN], HOURS[1], settings)[1]
        receipts[1] = run(HOURS[1], None)
    for receipt in receipts.values():
        receipt.balance()
    assert [{name: one[name] for name in ("id", "n", "big")} for one in rows(settings, run)] == SHOWN
    assert [str(difference) for difference in audit(run.definition(), settings).findings] == []


#: The new cluster's table is emptied in hour 2, and goes on.
EMPTIED = [
    [at(1, "c", 1000, row(1, 1)), at(2, "c", 1010, row(2, 1))],
    [at(3, "r", 50, row(1, 3)), at(4, "r", 50, row(3, 3))],
    [at(5, "t", 60, None), at(6, "c", 61, row(7, 7))],
]  # fmt: skip


@pytest.mark.parametrize(
    ("order", "at_first"),
    [([2, 1, 0], True), ([0, 1, 2], False)],
    ids=["newest first", "named afterwards"],
)
def test_a_truncate_of_the_new_source_counts_behind_its_snapshot(
    spark: SparkSession, settings: Settings, tmp_path: Path, order: list[int], at_first: bool
) -> None:
    """Also where it is published before it is known that positions begin again."""
    run = OneTableFeed(f"new_emptied_{at_first}".lower(), tmp_path, settings)
    if at_first:
        name_reloads(run.definition(), [AGAIN], HOURS[1], settings)
    for hour in order:
        run(HOURS[hour], EMPTIED[hour])
    if not at_first:
        name_reloads(run.definition(), [AGAIN], HOURS[1], settings)
        run(HOURS[1], None)
    assert [one["id"] for one in rows(settings, run)] == [7]
    assert [str(difference) for difference in audit(run.definition(), settings).findings] == []


def test_once_taken_back_nothing_of_it_stays(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    """A truncate and a delete that counted behind all that was sent before stand where they stood, also for late changes."""
    sent = [
        [at(1, "c", 1000, row(1, 1)), at(2, "c", 1010, row(2, 1))],
        [at(3, "r", 50, row(9, 3)), at(4, "t", 61, None), at(5, "c", 62, row(10, 1)), at(6, "d", 63, None, key={"id": 6})],
        [at(7, "c", 1005, row(6, 6))],
    ]  # fmt: skip
    found = {}
    for name in ("named", "never"):
        run = OneTableFeed(f"new_taken_back_{name}", tmp_path / name, settings)
        if name == "named":
            name_reloads(run.definition(), [AGAIN], HOURS[1], settings)
        run(HOURS[0], sent[0])
        run(HOURS[1], sent[1])
        if name == "named":
            assert [one["id"] for one in rows(settings, run)] == [10]
            name_reloads(run.definition(), [AGAIN], HOURS[1], settings, revoke=True)
            run(HOURS[1], None)
        run(HOURS[2], sent[2])
        assert [str(difference) for difference in audit(run.definition(), settings).findings] == []
        found[name] = [one["id"] for one in rows(settings, run)]
    assert found["named"] == found["never"] == [1, 2, 6, 10]
