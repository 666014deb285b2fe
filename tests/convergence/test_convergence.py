"""Promise 2: the tables depend on what has landed alone. Random histories of every format, run in any order, come to what
the oracle says, after each hour; so do the cuts, also of hours that run late or again (promise 3), what is absent (4) and
the receipts (1). Maintenance between two hours, which forgets what was deleted, changes nothing of that. In every
third plan the cuts are amended.

A failure names the history and how to run it alone.
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.convergence import canal, canal_lines, dataworks, debezium, ibm, ibm_kafka, qlik
from tests.convergence.delivery_plan import HOURS, WHOLE, DeliveryPlan, Publication, Size
from tests.convergence.histories import ALTERED, COLUMNS_OF, KEYLESS, KEYS, draw_histories
from tests.convergence.oracle import Account, Copies, Image, Message, Row, Rows
from tests.convergence.wire import Format
from tidemark.feeds.model import Feed
from tidemark.hours import Hour
from tidemark.identifiers import TIDEMARK
from tidemark.lake.catalog import find_table
from tidemark.ledger.quarantine import SCREEN, list_kept_back
from tidemark.ledger.receipts import Receipt
from tidemark.operations.audit import audit
from tidemark.operations.maintenance import maintain
from tidemark.pipeline.hour import replay_hour, run_hour
from tidemark.settings import Settings

pytestmark = pytest.mark.promise(1, 2, 3, 4)

FORMATS = (
    Format("canal", canal, "kafka_json", stream=True, by_offset=True),
    Format("canal_lines", canal_lines, "lines"),
    Format("dataworks", dataworks, "kafka_json", stream=True),
    Format("debezium", debezium, "kafka_json"),
    Format("ibm", ibm, "raw", in_order=True),
    Format("ibm_kafka", ibm_kafka, "kafka_json", in_order=True),
    Format("qlik", qlik, "pubsub"),
)
#: The format in `make test`, whose messages come in any order. All of it, and the others, are in `make test-full`.
SHORT = next(one for one in FORMATS if one.name == "debezium")
#: How much of it: one table, that is truncated too, and two hours, of which by the seed the later is run first. A table
#: costs seconds an hour, a history nothing.
SMALL, SMALL_SEED, SMALL_COUNT = Size(hours=2, again=0, tables=("t0",)), 3, 60
#: The format in the long run alone: in the others' container its messages are Canal's.
LONG = ("canal_lines",)
#: Histories of a format in the ordinary run, 252 in all; and in each plan of the long one.
ORDINARY, MANY = 42, 500
#: The long run goes through more containers.
CONTAINERS = {
    "canal": ("kafka_json", "connect_parquet", "connect_avro"),
    "canal_lines": ("lines", "pubsub"),
    "dataworks": ("kafka_json", "lines", "connect_avro"),
    "debezium": ("kafka_json", "connect_parquet", "connect_avro"),
    "ibm": ("raw",),  # with offsets: ibm_kafka, whose messages keep their order
    "ibm_kafka": ("kafka_json", "connect_parquet", "connect_avro"),
    "qlik": ("pubsub", "kafka_json", "connect_avro"),
}
#: What the long run is asked for: so many histories of each format.
SEEDS = range(2, 2 + math.ceil(int(os.environ.get("TIDEMARK_HISTORIES", "3000")) / MANY))
#: One history to be run alone, as a failure names it: container, seed, how many there were, its number.
ALONE = os.environ.get("TIDEMARK_HISTORY", "").split()


def test_a_late_hour_comes_to_the_same_tables(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    run_plan(SHORT, SMALL_SEED, SMALL_COUNT, settings, tmp_path, SMALL)


@pytest.mark.full
@pytest.mark.parametrize(
    "format_", [pytest.param(one, id=one.name) for one in FORMATS if ALONE or one.name not in LONG]
)
def test_any_order_comes_to_the_same_tables(
    spark: SparkSession, settings: Settings, tmp_path: Path, format_: Format
) -> None:
    if ALONE:
        format_ = replace(format_, container=ALONE[0])
    drawn = map(int, ALONE[1:3]) if ALONE else (1 + FORMATS.index(format_) % 2, ORDINARY)
    run_plan(format_, *drawn, settings, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("format_", FORMATS, ids=lambda format_: format_.name)
@pytest.mark.parametrize("seed", SEEDS)
def test_any_order_comes_to_the_same_tables_by_the_thousand(
    spark: SparkSession, settings: Settings, tmp_path: Path, format_: Format, seed: int
) -> None:
    containers = CONTAINERS[format_.name]
    run_plan(replace(format_, container=containers[seed % len(containers)]), seed, MANY, settings, tmp_path)


def run_plan(format_: Format, seed: int, count: int, settings: Settings, out: Path, size: Size = WHOLE) -> None:
    """Run all hours of a plan and hold the lake against the oracle after each."""
    name = f"conv_{format_.name}_{seed}"
    # Its keys and its places are the history's own, so that one of them alone is the same as among the others.
    histories = draw_histories(format_.encoder.TRAITS, count, seed)
    if ALONE:
        histories = [history for history in histories if history.number in (int(ALONE[3]), COLUMNS_OF)]
    plan = DeliveryPlan(format_, histories, seed, out / "exports", size)
    file = format_.feed(name, str(plan.exports))
    file["tables"] = {
        source: table for source, table in file["tables"].items() if source.split(".")[1].lower() in size.tables
    }
    if amends := size == WHOLE and seed % 3 == 0:
        file["cuts"] = "amend"
    if plan.source.splits:
        file["transactions"] = {**file.get("transactions", {}), "bad": "split"}
    feed = Feed.model_validate(file)
    published: list[Publication] = []
    maintained = Random(f"{name} maintained").randint(1, len(plan.order))
    for at in plan.order:
        plan.land(at)
        receipt = run_hour(feed, HOURS[at.hour], settings)
        published.append(at)
        if size == WHOLE and len(published) == maintained:
            maintain(feed, settings, now=datetime.now(UTC) + feed.retention.tombstones * 2)
        context = f"{format_.name}, seed {seed}, after {', '.join(map(str, published))}"
        assert_account(receipt, plan.accounts(published), format_, context)
        bad = plan.source.refused(plan.landed(published))
        assert refused(settings, feed) == {(change.table, str(dict(change.sent)["n"])) for change in bad}, context
        found = findings(plan, plan.landed(published), name, settings, None)
        assert not found, f"{context}:\n{explained(plan, found, f'{seed} {count}')}"
        if at.version == 1:
            found = findings(plan, shown_by_cut(plan, at, published), name, settings, HOURS[at.hour])
            assert not found, f"the cut, {context}:\n{explained(plan, found, f'{seed} {count}')}"
    for hour in HOURS[: size.hours]:  # a backfill over hours that are published
        assert run_hour(feed, hour, settings).sequence <= len(published), hour
    if size == WHOLE and not amends:  # else the cuts would show what it takes up
        replay_without_checks(plan, file, settings, f"{seed} {count}")
    for at in (at for at in published if at.version == 1):  # the cuts stay what they were, or have what came since
        made_by = [one for one in published if one.hour <= at.hour][-1] if amends else at
        shown = shown_by_cut(plan, at, published[: published.index(made_by) + 1])
        found = findings(plan, shown, name, settings, HOURS[at.hour])
        assert not found, f"the cut of {at} afterwards:\n{explained(plan, found, f'{seed} {count}')}"
    if size == WHOLE:  # it costs as much as an hour
        assert not [str(finding) for finding in audit(feed, settings).findings], (
            "the audit is quiet on a lake that is right"
        )


def replay_without_checks(plan: DeliveryPlan, file: dict[str, Any], settings: Settings, drawn: str) -> None:
    """Take up what failed a check that the feed file does not have any more, hour by hour in any order: it is where it would
    have been, had the check never been there. Where a change came once more without what failed, that copy stands."""
    landed = plan.landed(plan.order)
    good = {(one.tx, one.name) for one in landed if not any(map(plan.source.is_bad, one.changes))}
    counts = [one for one in landed if (one.tx, one.name) not in good or not any(map(plan.source.is_bad, one.changes))]
    for table in file["tables"].values():
        table.pop("checks", None)
    feed = Feed.model_validate(file)
    hours = sorted({row["hour"] for row in list_kept_back(settings, feed.feed)})
    plan.random.shuffle(hours)
    for hour in hours:
        assert replay_hour(feed, hour, settings) is not None, hour
    checked, plan.source.checked = plan.source.checked, ()
    context = f"{plan.format.name}, after {', '.join(hours)} were replayed without checks"
    bad = plan.source.refused(landed)
    assert refused(settings, feed) == {(change.table, str(dict(change.sent)["n"])) for change in bad}, context
    found = findings(plan, counts, feed.feed, settings, None)
    assert not found, f"{context}:\n{explained(plan, found, drawn)}"
    plan.source.checked = checked


def shown_by_cut(plan: DeliveryPlan, of: Publication, until: list[Publication]) -> list[Message]:
    """What the cut of an hour shows: what was published ``until`` it was made, of the hour and hours before it. Columns that
    were renamed or dropped by then, by whatever hour, are so in it."""
    shown = plan.landed([at for at in until if at.hour <= of.hour])
    told = (message for message in plan.landed(until) if message.changes and message.changes[0].op == "alter")
    later = [message for message in told if message not in shown]
    return shown + [replace(one, changes=tuple(replace(c, fill=None) for c in one.changes)) for one in later]


def assert_account(receipt: Receipt, wanted: Account, format_: Format, context: str) -> None:
    """The receipt's sum holds, and what does not depend on the order is as the oracle counts it."""
    counts = receipt.counts
    parts = counts.applied + counts.duplicate + counts.superseded + receipt.control + receipt.held + receipt.quarantined
    assert receipt.landed + receipt.split == parts, context
    # A change that comes again says the same, in whatever form its product sends it.
    told = [text for table in receipt.tables for text in table.warnings]
    assert not [text for text in told if "other content" in text or "with different changes of one key" in text], (
        context
    )
    if format_.container == "raw":  # which knows no messages, but each record of them
        wanted = replace(wanted, landed=wanted.landed + wanted.split, split=0)
    found = Account(receipt.landed, receipt.split, receipt.control, receipt.held, receipt.quarantined)
    if format_.encoder is ibm_kafka:  # the oracle does not know which of a transaction's deliveries counts
        found, wanted = replace(found, quarantined=0), replace(wanted, quarantined=0)
    assert found == wanted, context


def refused(settings: Settings, feed: Feed) -> set[tuple[str, str]]:
    """The table and the value of ``n`` of each change in quarantine that is bad itself."""
    kept = (row for row in list_kept_back(settings, feed.feed) if row["stage"] == SCREEN and not _is_half(row))
    return {(row["table"].split(".")[1], json.loads(row["change"])["after"]["n"]) for row in kept}


def _is_half(row: dict[str, Any]) -> bool:
    """Whether a row of the quarantine waits with the other half of its key change, where the rest of its transaction does
    not."""
    return bool(row["reason"].startswith("the other half of its key change is refused"))


#: A row of either side that the other does not have: its table, its id, and it.
AuditFinding = tuple[str, int, str]


def findings(
    plan: DeliveryPlan, shown: list[Message], schema: str, settings: Settings, hour: str | None
) -> list[AuditFinding]:
    """What an hour's cut (None: the tables as they are) and the oracle do not agree in. ``shown``: what it knows of."""
    wanted = plan.source.tables(shown)
    found: list[AuditFinding] = []
    for table in (*KEYS, KEYLESS):
        held = read(settings, schema, table, hour)
        if table == KEYLESS:
            found += _copies_apart(wanted.get(table, Counter()), Counter(frozenset(_source(row)) for row in held))
        else:
            key = KEYS[table]
            stored = {tuple(row[name] for name in key): _row(row) for row in held}
            assert len(stored) == len(held), f"{table} holds a key twice"
            found += _rows_apart(table, wanted.get(table, {}), stored)
    return found


def read(settings: Settings, schema: str, table: str, hour: str | None) -> list[dict[str, Any]]:
    """All rows of a cut (None: of the table as it is), with what the lake keeps of each; none where the table was not
    there yet."""
    found = find_table(settings, schema, table)
    snapshot = found.snapshot_by_name(Hour.parse(hour).tag if hour else "main") if found else None
    return found.scan(snapshot_id=snapshot.snapshot_id).to_arrow().to_pylist() if found and snapshot else []


def _source(row: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in row.items() if name != TIDEMARK]


def _row(row: dict[str, Any]) -> Row:
    return Row(dict(_source(row)), frozenset(row[TIDEMARK]["absent"] or ()))


def _rows_apart(table: str, wanted: Rows | Copies, stored: Rows) -> list[AuditFinding]:
    apart: list[AuditFinding] = []
    for key in sorted(wanted.keys() | stored.keys()):
        one, other = wanted.get(key), stored.get(key)
        if table == ALTERED:  # which columns the table has had by now is not the oracle's matter
            one, other = _told(one), _told(other)
        if one != other:
            apart.append((table, key[0], f"{key}: the oracle says {one}, the table {other}"))
    return apart


def _told(row: Row | None) -> Row | None:
    """A row without columns that hold nothing."""
    return row and replace(row, values={name: value for name, value in row.values.items() if value is not None})


def _copies_apart(wanted: Rows | Copies, shown: Counter[Image]) -> list[AuditFinding]:
    return [
        (
            KEYLESS,
            dict(image)["id"],
            f"{sorted(image, key=str)}: the oracle says {wanted[image]}, the table {shown[image]}",
        )
        for image in wanted.keys() | shown.keys()
        if wanted[image] != shown[image]
    ]


def explained(plan: DeliveryPlan, found: list[AuditFinding], drawn: str) -> str:
    """The differences, the first of their histories, and how to run it alone."""
    numbers = sorted({id_ // 100 for _, id_, _ in found})
    lines = [f"{table} {what}" for table, _, what in found[:12]]
    return "\n".join(
        [
            f"{len(found)} rows of histories {numbers} differ",
            *lines,
            f"history {numbers[0]}:",
            plan.story(numbers[0]),
            f"alone: TIDEMARK_HISTORY='{plan.format.container} {drawn} {numbers[0]}' scripts/in-project pytest -m '' "
            f"'tests/convergence/test_convergence.py::test_any_order_comes_to_the_same_tables[{plan.format.name}]'",
        ]
    )
