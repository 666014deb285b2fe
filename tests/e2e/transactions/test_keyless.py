"""A table without a key: the same message right behind itself is one row, another message with the same row is one more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.convergence import debezium, ibm, qlik
from tests.convergence.histories import KEYLESS, ROOM
from tests.convergence.oracle import Change
from tests.convergence.wire import Format
from tests.e2e.change_exports import HOURS, Exports, unit
from tests.e2e.debezium_messages import Event, event, row
from tests.e2e.feed_pair import FeedPair
from tidemark.ledger.quarantine import list_kept_back
from tidemark.operations.audit import audit
from tidemark.operations.read_table import read_snapshot
from tidemark.settings import Settings

pytestmark = pytest.mark.promise(1, 2, 5)

#: Without Canal: there two equal messages of one batch are two changes.
FORMATS = tuple(Format(encoder.__name__.rpartition(".")[2], encoder, "kafka_json") for encoder in (debezium, ibm, qlik))
ROW = frozenset({("id", 1), ("n", 1), ("s", "same"), ("big", None)})


@pytest.mark.parametrize(
    "format_",
    [pytest.param(one, id=one.name, marks=() if one.name == "debezium" else pytest.mark.full) for one in FORMATS],
)
def test_a_message_that_comes_again_at_once_counts_once(
    spark: SparkSession, settings: Settings, tmp_path: Path, format_: Format
) -> None:
    exports = Exports(format_, tmp_path, settings, f"twice_{format_.name}")
    one, other = (
        format_.encoder.encode(unit(at, Change(KEYLESS, at * ROOM + 10, "insert", sent=ROW))) for at in (1, 1001)
    )
    twice = [sent for sent in one for _ in range(2)]
    receipt = exports.run(HOURS[0], [*twice, *other])
    rows, _ = read_snapshot(settings, f"{exports.name}.{KEYLESS}", HOURS[0])
    assert [row["id"] for row in rows.to_pylist()] == [1, 1]
    assert (receipt.counts.applied, receipt.counts.duplicate) == (2, 1)


def sent(op: str, lsn: int, after: Event | None, before: Event | None = None) -> Event:
    """A change of a table without a key, as REPLICA IDENTITY FULL sends it."""
    one = event(op, lsn, after)
    return one | {"key": None, "value": json.dumps(json.loads(one["value"]) | {"before": before})}


@pytest.mark.full
def test_a_value_that_its_column_cannot_hold_waits(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    """It is no null: the row would be another one. What deletes it later leaves the others alone, and finds it in the end."""

    def tables(n: str) -> dict[str, Any]:
        return {"tables": {"s.items": {"key": [], "columns": {"id": "bigint", "n": n, "big": "text"}}}}

    debezium_feed = {"format": {"type": "debezium", "decimals": "string"}, "quarantine": {"limit": 1}}
    pair = FeedPair("unreadable", tmp_path, spark, settings, **debezium_feed, **tables("int"))
    big = 5_000_000_000
    pair.export(HOURS[0], [sent("c", 1, row(1, 1)), sent("c", 2, row(2, big)), sent("c", 3, row(None, None))])
    pair.export(HOURS[1], [
        sent("u", 10, row(1, big), row(1, 1)), sent("d", 11, None, row(2, big)), sent("c", 12, row(4, 4)),
    ])  # fmt: skip
    for hour, shown in zip(HOURS, ([(1, 1), (None, None)], [(1, 1), (4, 4), (None, None)]), strict=False):
        pair.run(hour, **tables("int"))
        assert sorted(((r["id"], r["n"]) for r in pair.rows(pair.fixed, "items")), key=str) == shown
        assert not audit(pair.feed(pair.fixed, **tables("int")), settings).findings
    reason = f'not a value of its column\'s type: n (int): "{big}"'
    assert [(r["hour"], r["record"], r["reason"]) for r in list_kept_back(settings, pair.fixed)] == [
        (HOURS[0], 2, reason), (HOURS[1], 1, reason),
    ]  # fmt: skip
    pair.run_right(HOURS[:2], **tables("bigint"))
    for hour in HOURS[:2]:
        pair.replay(hour, **tables("bigint"))
    pair.same("items")
    assert not audit(pair.feed(pair.fixed, **tables("bigint")), settings).findings
