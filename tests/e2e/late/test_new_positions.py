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


def at(offset: int, op: str, lsn: int, of: Event | None, *, partition: int = 0) -> Event:
    """A record at its place in the topic; op ``r``: read by a snapshot."""
    record = event(op, lsn, of)
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
