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
from tests.e2e.debezium_messages import DEBEZIUM, Event, event, row
from tests.e2e.feed_pair import FeedPair
from tidemark.ledger.quarantine import list_kept_back
from tidemark.operations.audit import audit
from tidemark.operations.read_table import read_snapshot
from tidemark.settings import Settings
from tidemark_samples.debezium_wire import UNAVAILABLE

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
    # A connector that starts again within the transaction sends them once more.
    events = sum(len(sent.says.changes) for sent in (*twice, *other))
    rows, _ = read_snapshot(settings, f"{exports.name}.{KEYLESS}", HOURS[0])
    assert [row["id"] for row in rows.to_pylist()] == [1, 1]
    assert (receipt.counts.applied, receipt.counts.duplicate) == (2, events - 2)


def sent(op: str, lsn: int, after: Event | None, before: Event | None = None) -> Event:
    """A change of a table without a key, as REPLICA IDENTITY FULL sends it."""
    one = event(op, lsn, after)
    return one | {"key": None, "value": json.dumps(json.loads(one["value"]) | {"before": before})}


def sent_at(message: Event, ts_ms: int, partition: int, offset: int) -> Event:
    value = json.loads(message["value"]) | {"ts_ms": ts_ms}
    return message | {"partition": partition, "offset": offset, "value": json.dumps(value)}


@pytest.mark.full
@pytest.mark.parametrize("order", ["01", "10"], ids=lambda order: f"hours {order}")
def test_what_a_connector_sends_again_and_under_other_columns(
    spark: SparkSession, settings: Settings, tmp_path: Path, order: str
) -> None:
    """PostgreSQL without transaction metadata. The last event comes again after a restart, in another partition too; of a
    COPY, equal rows are real. Then a column goes and another one comes: the rows of before are known by what is left."""
    table = {"s.items": {"key": [], "columns": {"id": "bigint", "n": "int", "big": "text", "more": "int"}}}
    pair = FeedPair(
        f"again_{order}", tmp_path, spark, settings, format={"type": "debezium", "decimals": "string"}, tables=table
    )
    once, copied, last = sent("c", 10, row(1, 1)), sent("c", 20, row(2, 2)), sent("c", 30, row(3, 3))
    pair.export(HOURS[0], [
        *(sent_at(one, at, 0, offset) for offset, (one, at) in enumerate([
            (once, 1000), (copied, 2000), (copied, 2000), (copied, 2001), (last, 3000), (last, 60_000), (last, 90_000),
        ])),
        sent_at(once, 90_000, 1, 0), sent_at(last, 90_000, 1, 1),
    ])  # fmt: skip
    new = {"id": 1, "n": 5, "more": 7}
    pair.export(HOURS[1], [
        sent_at(one, 120_000, 0, offset) for offset, one in enumerate([
            sent("u", 40, new, {"id": 1, "n": 1, "more": 7}), sent("d", 41, None, {"id": 2, "n": 2, "more": 7}),
            sent("c", 42, {"id": 3, "n": 3, "more": 7}), sent("d", 43, None, {"id": 3, "n": 3, "more": 7}),
            sent("d", 44, None, {"id": 9, "n": 9, "more": 9}),
        ], 7)
    ])  # fmt: skip
    receipts = [pair.run(HOURS[int(number)]) for number in order]
    found = sorted((r["id"], r["n"], r["big"], r["more"]) for r in pair.rows(pair.fixed, "items"))
    assert found == [(1, 5, None, 7), (2, 2, "x", None), (2, 2, "x", None), (3, 3, "x", None)]
    warned = dict(zip(order, [" ".join(one.tables[0].warnings) for one in receipts], strict=True))
    assert "2 rows stand at one position with equal ones right before them" in warned["0"]
    assert ("1 copies" if order == "01" else "3 copies") in warned["1"]
    assert sum(one.counts.duplicate for one in receipts) == 4
    assert not audit(pair.feed(pair.fixed), settings).findings


@pytest.mark.full
@pytest.mark.parametrize("order", ["01", "10", "0"], ids=["in order", "later first", "one hour"])
def test_a_row_is_found_by_its_values_however_they_are_written(
    spark: SparkSession, settings: Settings, tmp_path: Path, order: str
) -> None:
    """A type with more digits: images of rows of before have them too. Equal copies that are written alike go first."""
    columns = {"id": "bigint", "n": "numeric(7,2)", "big": "text"}
    tables = {"s.items": {"key": [], "columns": columns}}
    pair = FeedPair(f"written_{order}", tmp_path, spark, settings, **DEBEZIUM, tables=tables)
    first = [
        sent("c", 1, row(1, "1.5")),
        sent("c", 2, row(1, "2.5")),
        sent("c", 3, row(2, "3.0")),
        sent("c", 4, row(2, "3.0")),
    ]
    second = [
        sent("d", 10, None, row(1, "1.50")), sent("u", 11, row(1, "9.00"), row(1, "2.50")), sent("c", 12, row(2, "3.00")),
        sent("d", 13, None, row(2, "3.00")), sent("d", 14, None, row(2, "3.00")),
    ]  # fmt: skip
    for hour, records in zip(HOURS, [first, second] if len(order) > 1 else [first + second], strict=False):
        pair.export(hour, records)
    receipts = [pair.run(HOURS[int(number)]) for number in order]
    assert sorted((r["id"], str(r["n"])) for r in pair.rows(pair.fixed, "items")) == [(1, "9.00"), (2, "3.00")]
    assert not receipts[-1].tables[0].warnings
    assert not audit(pair.feed(pair.fixed), settings).findings


@pytest.mark.full
@pytest.mark.promise(4)
def test_a_change_that_does_not_show_its_whole_row_waits(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    """Images before of Oracle, SQL Server and MySQL hold placeholders for what was not in the log. Which row it was, and
    what the new one holds, nothing tells."""
    tables = {"s.items": {"key": [], "columns": {"id": "bigint", "n": "int", "big": "text"}}}
    oracle = {"type": "debezium", "connector": "oracle", "decimals": "string"}
    pair = FeedPair("unshown", tmp_path, spark, settings, format=oracle, tables=tables, quarantine={"limit": 1})
    unsent = {"big": UNAVAILABLE}
    records = [
        sent("c", 1, row(1, 1)), sent("c", 2, row(2, 2)), sent("u", 3, row(1, 5) | unsent, row(1, 1) | unsent),
        sent("d", 4, None, row(2, 2) | unsent), sent("u", 5, row(2, 6) | unsent, row(2, 2)),
    ]  # fmt: skip
    for scn, record in enumerate(records):
        value = json.loads(record["value"])
        value["source"] |= {"scn": str(scn), "commit_scn": str(scn), "rs_id": " 0x1.1.1", "ssn": 1, "txId": f"{scn:x}"}
        record["value"] = json.dumps(value)
    pair.export(HOURS[0], records)
    receipt = pair.run(HOURS[0])
    assert sorted((r["id"], r["n"], r["big"]) for r in pair.rows(pair.fixed, "items")) == [(1, 1, "x"), (2, 2, "x")]
    assert (receipt.quarantined, receipt.tables[0].warnings) == (3, [])
    reasons = {kept["reason"] for kept in list_kept_back(settings, pair.fixed)}
    assert reasons == {"a table without a key needs all columns, and this lacks big"}


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
