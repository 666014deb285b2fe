"""A record that cannot be decoded and stands in a transaction: it holds that, or is named as what it perhaps lacks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.convergence import dataworks
from tests.convergence.dataworks import TOPICS, _message
from tests.convergence.oracle import Message
from tests.convergence.wire import Format, Sent
from tests.e2e.change_exports import Exports
from tests.e2e.debezium_messages import COLUMNS, HOURS, Event
from tests.e2e.feed_pair import FeedPair
from tests.e2e.transaction_exports import DEBEZIUM, export, ids, transaction
from tidemark.ledger.quarantine import list_kept_back
from tidemark.operations.audit import audit
from tidemark.operations.held import held_listing
from tidemark.settings import Settings

pytestmark = [pytest.mark.promise(1, 3), pytest.mark.full]

TABLES = {"s.items": {"columns": COLUMNS}, "s.others": {"columns": COLUMNS}}
FIRST = transaction(1, ("c", "items", 1, 1), ("c", "others", 1, 1))
SECOND = transaction(2, ("u", "items", 1, 2), ("c", "others", 2, 2))
THIRD = transaction(3, ("c", "items", 3, 3))


def reasons(settings: Settings, feed: str) -> set[tuple[str, str]]:
    return {(row["stage"], row["reason"]) for row in list_kept_back(settings, feed)}


def test_an_event_of_debezium_that_names_its_transaction(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    pair = FeedPair("named_bad", tmp_path, spark, settings, **DEBEZIUM, tables=TABLES)
    spoilt: Event = SECOND[1] | {"value": json.dumps(json.loads(SECOND[1]["value"]) | {"op": "?"})}
    export(pair, HOURS[0], [*FIRST, SECOND[0], spoilt, SECOND[2], *THIRD])
    receipt = pair.run(HOURS[0])
    assert (ids(pair, "items"), ids(pair, "others")) == ({1: 1, 3: 3}, {1: 1})
    assert reasons(settings, pair.fixed) == {
        ("decode", "unknown op ?"),
        ("transaction", "waits with its transaction: a record of it cannot be decoded: unknown op ?"),
    }
    assert (receipt.held_transactions, receipt.kept_whole) == (0, 1)
    assert [str(finding) for finding in audit(pair.feed(pair.fixed), settings).findings] == []


def test_another_event_with_the_number_of_a_bad_one_is_no_copy_of_it(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    """The connector was started again behind the bad event: it numbers the rest from 1 again, and END counts that alone."""
    pair = FeedPair("numbered_again", tmp_path, spark, settings, **DEBEZIUM, tables=TABLES)
    sent = transaction(2, ("u", "items", 1, 2), ("c", "items", 2, 2), ("c", "others", 2, 2))
    values = [json.loads(one["value"]) for one in sent]
    values[0]["op"] = "?"
    values[1]["transaction"]["total_order"], values[2]["transaction"]["total_order"] = 1, 2
    values[3]["event_count"] = 2
    restarted = [one | {"value": json.dumps(value)} for one, value in zip(sent, values, strict=True)]
    export(pair, HOURS[0], [*FIRST, *restarted, *THIRD])
    receipt = pair.run(HOURS[0])
    assert (ids(pair, "items"), ids(pair, "others")) == ({1: 1, 3: 3}, {1: 1})
    assert (receipt.held_transactions, receipt.kept_whole) == (0, 1)
    # The event itself, mended, is one.
    export(pair, HOURS[1], sent[:1])
    pair.run(HOURS[1])
    assert (ids(pair, "items"), ids(pair, "others")) == ({1: 2, 2: 2, 3: 3}, {1: 1, 2: 2})
    assert [str(finding) for finding in audit(pair.feed(pair.fixed), settings).findings] == []


@pytest.mark.parametrize("bad", ["hold", "split"])
def test_a_bad_event_and_its_good_copy_are_one_part(
    spark: SparkSession, settings: Settings, tmp_path: Path, bad: str
) -> None:
    """The two are as many events as END counts, with another one that has not come."""
    policy = {"transactions": {"bad": bad}}
    pair = FeedPair(f"counted_once_{bad}", tmp_path, spark, settings, **DEBEZIUM, **policy, tables=TABLES)
    sent = transaction(2, ("u", "items", 1, 2), ("c", "items", 2, 2), ("c", "others", 2, 2))
    spoilt: Event = sent[0] | {"value": json.dumps(json.loads(sent[0]["value"]) | {"op": "?"})}
    export(pair, HOURS[0], [*FIRST, spoilt, sent[0], *sent[2:], *THIRD])
    export(pair, HOURS[1], sent[1:2])
    receipt = pair.run(HOURS[0])
    assert (ids(pair, "items"), ids(pair, "others")) == ({1: 1, 3: 3}, {1: 1})
    assert (receipt.held_transactions, receipt.kept_whole, receipt.quarantined) == (1, 0, 1)
    assert pair.run(HOURS[1]).held_transactions == 0
    assert (ids(pair, "items"), ids(pair, "others")) == ({1: 2, 2: 2, 3: 3}, {1: 1, 2: 2})
    assert [str(finding) for finding in audit(pair.feed(pair.fixed), settings).findings] == []


def test_a_bad_event_that_comes_again_alone_opens_no_transaction(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    """What is not bad of its transaction is published, and stands before it."""
    split = {"transactions": {"bad": "split"}}
    pair = FeedPair("bad_again", tmp_path, spark, settings, **DEBEZIUM, **split, tables=TABLES)
    spoilt: Event = SECOND[1] | {"value": json.dumps(json.loads(SECOND[1]["value"]) | {"op": "?"})}
    export(pair, HOURS[0], [*FIRST, SECOND[0], spoilt, SECOND[2]])
    export(pair, HOURS[1], [spoilt])
    assert [pair.run(hour).held_transactions for hour in HOURS[:2]] == [0, 0]
    assert (ids(pair, "items"), ids(pair, "others")) == ({1: 2}, {1: 1})


def test_an_event_of_debezium_that_names_nothing(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    """The transaction lacks a change. It is held, then given up: each time the record is named as the likely reason."""
    policy = {"transactions": {"alarm": "1h", "overdue": "quarantine"}}
    pair = FeedPair("nameless_bad", tmp_path, spark, settings, **DEBEZIUM, **policy, tables=TABLES)
    export(pair, HOURS[0], [*FIRST, SECOND[0], SECOND[1] | {"value": '{"op":"c","after":{"id'}, SECOND[2]])
    receipt = pair.run(HOURS[0])
    assert (ids(pair, "items"), ids(pair, "others")) == ({1: 1}, {1: 1})
    (kept,) = list_kept_back(settings, pair.fixed)
    where = f"record 4 of {kept['object']}"
    assert receipt.notes == [
        f"transactions wait, and perhaps lack a record that cannot be decoded: srv:2: {where}"
    ]  # fmt: skip
    (held,) = held_listing(settings, pair.fixed).rows
    assert held[4] == f"1 of 2 parts; perhaps it lacks {where}, which cannot be decoded"
    for hour in HOURS[1:3]:
        export(pair, hour, [])
        last = pair.run(hour)
    assert (last.given_up, held_listing(settings, pair.fixed).rows) == (1, [])
    why = f"its transaction never completed; perhaps it lacks {where}, which cannot be decoded"
    assert why in {reason for _, reason in reasons(settings, pair.fixed)}
    assert [str(finding) for finding in audit(pair.feed(pair.fixed), settings).findings] == []
    # Its changes stay together: what is replayed waits for what is not.
    pair.replay(HOURS[0])
    assert (ids(pair, "items"), ids(pair, "others")) == ({1: 1}, {1: 1})


def row(op: str, number: int, id_: int | None = None) -> Sent:
    image = None if id_ is None else {"id": id_, "n": number, "s": "x", "big": "y"}
    return Sent(Message(f"{op} {number}"), TOPICS[0], _message(op, number, "a" if image else None, None, image))


UNKNOWN = row("UPSERT", 103, 2)
BROKEN = replace(UNKNOWN, value=b'{"payload":')
HEAD, TAIL = (
    [row("TRANSACTION_BEGIN", 100), row("INSERT", 101, 1)],
    [row("TRANSACTION_END", 110), row("INSERT", 120, 9)],
)
DATAWORKS = Format("dataworks", dataworks, "kafka_json", stream=True)


@pytest.mark.parametrize(
    ("sent", "policy", "shown"),
    [
        pytest.param([[*HEAD, UNKNOWN, *TAIL]], "hold", {9}, id="its place is known"),
        pytest.param([[*HEAD, BROKEN, *TAIL]], "hold", {9}, id="its neighbours are known"),
        pytest.param([[*HEAD, BROKEN, *TAIL]], "split", {1, 9}, id="split"),
        pytest.param([[*HEAD, UNKNOWN], TAIL], "hold", {9}, id="its place, in the hour before"),
        pytest.param([HEAD, [BROKEN, *TAIL]], "hold", {9}, id="its neighbours, in the next hour"),
        pytest.param([[*HEAD, BROKEN], TAIL], "hold", {9}, id="its neighbours, in the hour before"),
        pytest.param([[row("INSERT", 90, 1), BROKEN, TAIL[1]]], "hold", {1, 9}, id="in none"),
    ],
)
def test_a_message_of_dataworks_between_markers(
    spark: SparkSession, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: list[list[Sent]],
    policy: str, shown: set[int], request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    name = "between_" + "".join(c if c.isalpha() else "_" for c in request.node.callspec.id)
    feed = Exports(DATAWORKS, tmp_path, settings, name, transactions={"bad": policy}, quarantine={"limit": 1})
    for hour, messages in zip(HOURS, sent, strict=False):
        last = feed.run(hour, messages)
    assert set(feed.rows("a")) == shown
    assert feed.held(monkeypatch) == []
    found = reasons(settings, name)
    if policy == "hold" and 1 not in shown:
        (waits,) = {reason for stage, reason in found if stage == "transaction"}
        assert "cannot be decoded" in waits
        assert last.kept_whole == 1
    else:
        assert [stage for stage, _ in found] == ["decode"]
        assert ("split" in " ".join(last.notes)) == (policy == "split")
    assert [str(finding) for finding in audit(feed.feed, settings).findings] == []
