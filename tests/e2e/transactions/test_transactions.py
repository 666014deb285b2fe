"""Promise 3, one mechanism after the other: a transaction over tables, topics and hours shows whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.convergence import dataworks, debezium, ibm, qlik
from tests.convergence.wire import Format
from tests.e2e.change_exports import HOURS, Exports, change, unit
from tests.e2e.debezium_messages import COLUMNS
from tests.e2e.feed_pair import FeedPair
from tests.e2e.qlik_messages import in_kafka
from tests.e2e.qlik_messages import qlik as message_of
from tests.e2e.transaction_exports import DEBEZIUM, export, ids, transaction
from tests.unit.formats.qlik_messages import metadata
from tidemark.lake.catalog import read_rows
from tidemark.operations.audit import audit
from tidemark.operations.held import held_listing
from tidemark.settings import Settings

pytestmark = pytest.mark.promise(3)

FORMATS = (
    Format("dataworks", dataworks, "kafka_json", stream=True),
    Format("debezium", debezium, "kafka_json"),
    Format("ibm", ibm, "raw"),
    Format("qlik", qlik, "kafka_json"),
)


def test_a_transaction_over_two_hours_shows_whole_and_in_its_place(
    spark: SparkSession, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows are in no table before it is whole. Meanwhile a newer one wrote one of its keys: what that sent stays,
    what it did not send comes from the older."""
    exports = Exports(FORMATS[1], tmp_path, settings, "tx_two_hours")
    encode = debezium.encode
    base = encode(unit(1, change("a", 1, 10, "insert", 102), change("b", 1, 12, "insert", 1)))
    long = encode(
        unit(1001, change("a", 1001, 10, "insert", 101), change("b", 1001, 12, "insert", 101),
             change("a", 1001, 14, "update", 102))
    )  # fmt: skip
    newer = encode(unit(2001, change("a", 2001, 10, "update", 102, debezium.TRAITS.absent[0])))
    half = len(long) // 2
    first = exports.run(HOURS[0], [*base, *long[:half], *newer])
    (waits,) = exports.held(monkeypatch)
    assert waits[1] == HOURS[0] and waits[4] == "its end", waits
    assert first.held_transactions == 1
    assert exports.rows("a") == {102: (200110, "b110")}
    assert exports.rows("b") == {1: (112, "b112")}
    last = exports.run(HOURS[1], long[half:])
    assert last.held_transactions == 0
    assert exports.held(monkeypatch) == []
    assert exports.rows("a", HOURS[0]) == {102: (200110, "b110")}
    assert exports.rows("a") == {101: (100110, "b100110"), 102: (200110, "b100114")}
    assert exports.rows("b") == {1: (112, "b112"), 101: (100112, "b100112")}


@pytest.mark.full
@pytest.mark.parametrize("format_", FORMATS, ids=lambda format_: format_.name)
def test_a_transaction_over_hours_shows_whole_and_in_its_place(
    spark: SparkSession, settings: Settings, tmp_path: Path, format_: Format, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows are in no table at the cuts before it is whole. Meanwhile a newer one wrote one of its keys: what that
    sent stays, what it did not send comes from the older."""
    exports = Exports(format_, tmp_path, settings, f"tx_{format_.name}")
    encode = format_.encoder.encode
    base = encode(unit(1, change("a", 1, 10, "insert", 102), change("b", 1, 12, "insert", 1)))
    long = encode(
        unit(1001, change("a", 1001, 10, "insert", 101), change("b", 1001, 12, "insert", 101),
             change("a", 1001, 14, "update", 102))
    )  # fmt: skip
    newer = encode(unit(2001, change("a", 2001, 10, "update", 102, format_.encoder.TRAITS.absent[0])))
    assert "big" in format_.encoder.TRAITS.absent[0]
    half = len(long) // 2
    if format_.stream:  # the first hour is run last: only so does something newer come before the rest
        receipts = {HOURS[1]: exports.run(HOURS[1], [*long[half:], *newer])}
        (waits,) = exports.held(monkeypatch)
        assert waits[1:3] == [HOURS[1], "2"] and waits[4] == "1 of 2 parts", waits
        receipts[HOURS[0]] = exports.run(HOURS[0], [*base, *long[:half]])
        partly, whole = [HOURS[1]], HOURS[0]
    else:
        receipts = {
            HOURS[0]: exports.run(HOURS[0], [*base, *long[:half]]),
            HOURS[1]: exports.run(HOURS[1], newer),
        }
        partly, whole = HOURS[:2], HOURS[2]
        (waits,) = exports.held(monkeypatch)
        assert waits[1] == HOURS[0] and waits[4] == "its end", waits
        receipts[whole] = exports.run(whole, long[half:])
        assert receipts[HOURS[0]].held_transactions == receipts[HOURS[1]].held_transactions == 1
    for hour in partly:
        assert 101 not in exports.rows("a", hour) and all(
            "1001" not in str(n) for n, _ in exports.rows("a", hour).values()
        )
        if not format_.stream:
            assert 101 not in exports.rows("b", hour)
    assert exports.held(monkeypatch) == []
    assert exports.rows("a") == {101: (100110, "b100110"), 102: (200110, "b100114")}
    assert exports.rows("b") == {1: (112, "b112"), 101: (100112, "b100112")}
    assert receipts[whole].held_transactions == 0


@pytest.mark.full
def test_what_never_completes_is_listed_and_the_policy_decides(
    spark: SparkSession, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Held until it is overdue, then noted, by the feed's policy held on, given up to quarantine, or applied."""
    exports = Exports(FORMATS[1], tmp_path, settings, "tx_overdue", transactions={"alarm": "2h"})
    encode = debezium.encode
    whole = encode(unit(1, change("a", 1, 10, "insert", 1)))
    given_up = encode(unit(1001, change("a", 1001, 10, "insert", 101), change("b", 1001, 12, "insert", 101)))
    applied = encode(unit(2001, change("a", 2001, 10, "insert", 201), change("b", 2001, 12, "insert", 201)))
    heartbeat = encode(unit(3001, change("a", 3001, 10, "update", 1)))
    first = exports.run(HOURS[0], [*whole, *given_up[:2]])
    assert (first.held, first.held_transactions, first.notes) == (1, 1, [])
    second = exports.run(HOURS[2], [])
    assert (second.held_transactions, second.notes) == (1, []), "at the limit it is not yet overdue"
    (waits,) = exports.held(monkeypatch)
    assert waits[1:] == [HOURS[0], "1", "tx_overdue.a", "its end"]
    third = exports.run(HOURS[3], heartbeat)
    assert (third.held_transactions, third.notes) == (1, ["1 overdue transactions (hold)"])
    assert [waits[4] for waits in exports.held(monkeypatch)] == ["its end (overdue)"]
    assert exports.rows("a", HOURS[3]) == {1: (300110, "b300110")}

    fourth = exports.run(HOURS[4], applied[:2], policy="quarantine")
    assert (fourth.held_transactions, fourth.notes) == (1, ["1 overdue transactions (quarantine)"])
    (kept,) = read_rows(settings, "tidemark", "tx_overdue", "quarantine")
    assert kept["reason"] == "its transaction never completed" and json.loads(kept["change"])["after"]["id"] == "101"
    assert [waits[1] for waits in exports.held(monkeypatch)] == [HOURS[4]]

    fifth = exports.run(HOURS[7], [], policy="apply")
    assert (fifth.held_transactions, fifth.notes) == (0, ["1 overdue transactions (apply)"])
    assert exports.rows("a", HOURS[7]) == {1: (300110, "b300110"), 201: (200110, "b200110")}
    rest = exports.run(HOURS[5], applied[2:])
    assert exports.rows("a", HOURS[5]) == exports.rows("a", HOURS[7])
    assert exports.rows("b", HOURS[5]) == {201: (200112, "b200112")}, "the rest of what was applied comes"
    assert (rest.held_transactions, rest.counts.applied) == (0, 1)


@pytest.mark.full
def test_transactions_that_the_feed_file_gives_up_are_published_as_they_are(
    tmp_path: Path, spark: SparkSession, settings: Settings
) -> None:
    """One is held when the feed file names the topic of their metadata no more: the rest of it comes in no transaction."""
    tables = {"tables": {"s.items": {"columns": COLUMNS}, "s.others": {"columns": COLUMNS}}}
    pair, none = FeedPair("tx_given_up", tmp_path, spark, settings, **DEBEZIUM, **tables), {"type": "debezium"}
    sent = transaction(2, ("c", "items", 2, 2), ("c", "others", 2, 2))
    export(pair, HOURS[0], [*transaction(1, ("c", "items", 1, 1), ("c", "others", 1, 1)), *sent[:1]])
    export(pair, HOURS[1], sent[1:])
    assert pair.run(HOURS[0]).held_transactions == 1
    receipt = pair.run(HOURS[1], format=none)
    assert (receipt.held_transactions, receipt.counts.released_applied) == (0, 1)
    assert receipt.notes == [
        "1 transactions that were held are published as they are: the feed file reads no transactions any more"
    ]
    assert ids(pair, "items") == ids(pair, "others") == {1: 1, 2: 2}
    assert audit(pair.feed(pair.fixed, format=none), settings).findings == []


@pytest.mark.full
def test_of_a_transaction_over_tables_outside_the_feed_what_is_there_is_published(
    tmp_path: Path, spark: SparkSession, settings: Settings
) -> None:
    """Its counters have gaps and its last event never comes: it waits until an hour brings nothing more of it."""
    outside = {"tables": {"CRM.ACCOUNTS": {"topic": "t"}}, "transactions": {"tables_outside": True}}
    pair = FeedPair("tx_outside", tmp_path, spark, settings, format={"type": "qlik"}, **outside)
    described = in_kafka(metadata("CRM.ACCOUNTS", {"ID": "INT8", "NAME": "STRING(30)"}, ["ID"]))
    first, third = (
        message_of(n, "INSERT", {"ID": n, "NAME": "A"}, "03", counter=n, last=False, transaction=1) for n in (1, 3)
    )
    for hour, records in zip(HOURS, ([described, first], [third], []), strict=False):
        pair.export(hour, records)
    assert pair.run(HOURS[0]).held_transactions == pair.run(HOURS[1]).held_transactions == 1
    (waits,) = held_listing(settings, pair.fixed).rows
    assert waits[4] == "its end and 1 of 3 parts"
    last = pair.run(HOURS[2])
    assert (last.held_transactions, last.counts.released_applied) == (0, 2)
    assert last.notes == ["1 transactions are published as they are: what they lack may be of tables outside the feed"]
    assert [row["ID"] for row in pair.rows(pair.fixed, "accounts")] == [1, 3]
    assert [str(finding) for finding in audit(pair.feed(pair.fixed), settings).findings] == []


@pytest.mark.full
@pytest.mark.promise(1)
def test_a_truncate_that_was_held_is_told_as_applied(tmp_path: Path, spark: SparkSession, settings: Settings) -> None:
    """Of two tables, as one statement sends it. The same hour again, and a redelivery, are the same truncates."""
    tables = {f"s.{name}": {"columns": COLUMNS} for name in ("items", "others")}
    pair = FeedPair("held_truncate", tmp_path, spark, settings, **DEBEZIUM, tables=tables)
    emptied = transaction(2, ("t", "items", 0, 0), ("t", "others", 0, 0), ("c", "items", 3, 3))
    export(pair, HOURS[0], transaction(1, ("c", "items", 1, 1), ("c", "others", 1, 1)))
    export(pair, HOURS[1], emptied[:2])
    export(pair, HOURS[2], emptied[2:])
    export(pair, HOURS[3], emptied)
    counts = [pair.run(hour).counts for hour in HOURS[:4]]
    assert [(one.applied, one.duplicate) for one in counts] == [(2, 0), (0, 0), (1, 0), (0, 3)]
    assert (counts[2].released_applied, counts[2].released_duplicate) == (2, 0)
    assert (ids(pair, "items"), ids(pair, "others")) == ({3: 3}, {})


@pytest.mark.full
def test_the_rest_of_an_overdue_transaction_that_was_given_up_waits_for_its_replay(
    tmp_path: Path, spark: SparkSession, settings: Settings
) -> None:
    """Also where nothing else has changed meanwhile, and however long it takes."""
    policy = {"transactions": {"alarm": "1h", "overdue": "quarantine"}, "tables": {"s.items": {"columns": COLUMNS}}}
    pair = FeedPair("rest_of_overdue", tmp_path, spark, settings, **DEBEZIUM, **policy)
    sent = transaction(2, ("c", "items", 1, 1), ("c", "items", 2, 2))
    for hour, part in ((0, transaction(1, ("c", "items", 9, 9))), (1, sent[:1]), (3, []), (4, sent[1:]), (7, [])):
        export(pair, HOURS[hour], part)
        receipt = pair.run(HOURS[hour])
    assert (receipt.held_transactions, receipt.given_up) == (1, 0)
    assert [line[4] for line in held_listing(settings, pair.fixed).rows] == ["its changes in quarantine"]
    pair.replay(HOURS[1])
    assert ids(pair, "items") == {1: 1, 2: 2, 9: 9}


@pytest.mark.full
def test_what_was_held_goes_to_its_table_under_the_name_that_this_has_by_then(
    tmp_path: Path, spark: SparkSession, settings: Settings
) -> None:
    """It is released by the hour that first publishes the table under that name, or by one after it."""
    pair = FeedPair("held_renamed", tmp_path, spark, settings, **DEBEZIUM)
    before = {f"s.{name}": {"columns": COLUMNS} for name in ("items", "others")}
    after = {source: {**table, "name": f"{pair.fixed}.{source[2:]}_2"} for source, table in before.items()}
    items, others = transaction(5, ("u", "items", 1, 5)), transaction(6, ("u", "others", 1, 6))
    begun = transaction(1, *(("c", table, id_, id_) for table in ("items", "others") for id_ in (1, 2)))
    export(pair, HOURS[0], [*begun, *items[:1], *others[:1]])
    export(pair, HOURS[1], [*items[1:], *transaction(7, ("u", "others", 2, 7))])
    export(pair, HOURS[2], others[1:])
    pair.run(HOURS[0], tables=before)
    for hour in HOURS[1:3]:
        receipt = pair.run(hour, tables=after)
        assert receipt.counts.released_applied == 1
    assert (ids(pair, "items_2"), ids(pair, "others_2")) == ({1: 5, 2: 2}, {1: 6, 2: 7})
    assert ids(pair, "items") == ids(pair, "others") == {1: 1, 2: 2}
    assert [str(finding) for finding in audit(pair.feed(pair.fixed, tables=after), settings).findings] == []
