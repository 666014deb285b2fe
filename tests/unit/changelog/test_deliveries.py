"""Which delivery of a transaction is whole, and which one counts: by offsets, of IBM's messages in segments."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.unit.formats.ibm_messages import feed
from tidemark.changelog.transaction_status import (
    tell_torn,
    tells_deliveries,
    transaction_status,
    unused_messages,
    whole_deliveries,
)
from tidemark.changelog.transactions import open_at
from tidemark.formats.ibm import decode as ibm
from tidemark.hours import Hour
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.receipts import Receipt

HOURS = [Hour.parse(f"2026-11-20T{number:02d}") for number in range(4)]
KAFKA = feed({"type": "kafka_json"})
COLUMNS = (
    "tx string, topic string, partition int, offset bigint, tx_ordinal bigint, tx_end boolean, hour string, version int, "
    "object string, record bigint, entry int, op string, source_table string, `table` string, position string, "
    "tx_part string, tx_count bigint, key map<string, string>, prior_key map<string, string>, before map<string, string>, "
    "after map<string, string>, absent array<string>, raw binary"
)


#: An entry: its offset and its segment; what it says; its hour and partition; how often its message was exported before;
#: its topic.
Said = tuple[int, int, str, int, int, int, str]


def at(
    offset: int | None,
    segment: int,
    says: str = "x",
    hour: int = 0,
    partition: int = 0,
    again: int = 0,
    topic: str = "q",
) -> Any:
    return offset, segment, says, hour, partition, again, topic


def frame(spark: SparkSession, entries: list[Any]) -> DataFrame:
    """The log of one transaction."""
    return frame_of(spark, {"t": entries})


def frame_of(spark: SparkSession, transactions: dict[str, list[Any]]) -> DataFrame:
    """The log of several transactions, by their names."""
    rows = []
    for tx, entries in transactions.items():
        for number, (offset, segment, says, hour, partition, again, topic) in enumerate(entries):
            position = f"1.{segment or 99999:05}.{number:06}"
            rows.append(
                (tx, topic, partition, offset, segment, segment == 0, HOURS[hour], 1, f"o{hour}",
                 (offset or number) + 1000 * again, number, "insert", "S.T", "s.t", position,
                 f"{segment:04}" if segment else None, None, None, None, None, {"A": says}, None, None)
            )  # fmt: skip
    random.Random(1).shuffle(rows)
    return spark.createDataFrame(rows, COLUMNS)


#: The entries of a transaction; the parts that have come, the parts it needs, and whether it is complete.
DELIVERED: list[tuple[list[Any], int, int, bool]] = [
    ([at(5, 1), at(6, 2), at(7, 0)], 2, 2, True),
    ([at(5, 1), at(7, 0)], 1, 2, False),  # the hole before the end
    ([at(5, 1), at(7, 3), at(8, 0)], 1, 3, False),
    ([at(6, 2), at(7, 0)], 1, 2, False),
    ([at(5, 1), at(6, 2)], 2, 2, False),
    ([at(5, 1), at(9, 2), at(10, 0)], 1, 2, False),  # 1 of one delivery, the rest of another
    ([at(5, 1), at(6, 1), at(7, 0)], 1, 1, True),  # it began again
    ([at(5, 1), at(5, 1), at(6, 0)], 1, 1, True),  # exported twice
    # a producer that tried again: one message, a batch of them, and in another order
    ([at(5, 1), at(6, 2), at(7, 2), at(8, 0)], 2, 2, True),
    ([at(5, 1), at(6, 2), at(7, 3), at(8, 2), at(9, 3), at(10, 0)], 3, 3, True),
    ([at(5, 1), at(6, 3), at(7, 2), at(8, 0)], 3, 3, True),
    ([at(5, 1), at(6, 3), at(7, 0)], 2, 3, False),  # side by side, and a number is missing
    ([at(5, 0)], 0, 0, True),
    ([at(5, 0), at(9, 0)], 0, 0, True),
    ([at(5, 1, "a"), at(6, 2, "b"), at(9, 0, "c")], 2, 3, False),  # an end that lacks what came before
    ([at(5, 1, "a"), at(6, 2, "b"), *(at(9, 0, says) for says in "abc")], 2, 2, True),  # all in one message
    ([at(5, 1, "a"), at(6, 2, "a"), at(9, 0, "a")], 2, 3, False),  # once is not twice
    # what came before was exported twice, into one object: its records are there once
    ([at(5, 1, "a"), at(5, 1, "a", again=1), *(at(9, 0, says) for says in "ab")], 1, 1, True),
    ([at(5, 1, "a"), at(5, 1, "a"), at(9, 0, "a")], 1, 2, False),  # two equal rows in one message are two
    # nothing tells: the numbers alone
    ([at(None, 1), at(None, 0)], 1, 1, True),
    ([at(5, 1), at(9, 0, partition=1)], 1, 1, True),
    ([at(5, 1), at(9, 3, partition=1), at(11, 0, partition=1)], 2, 3, False),
]


def test_a_transaction_is_complete_when_one_delivery_is(spark: SparkSession) -> None:
    transactions = {f"case {number}": entries for number, (entries, *_) in enumerate(DELIVERED)}
    found = {row.tx: row for row in transaction_status(frame_of(spark, transactions), KAFKA).collect()}
    assert found.keys() == transactions.keys()
    for (tx, entries), (_, parts, needed, complete) in zip(transactions.items(), DELIVERED, strict=True):
        row = found[tx]
        assert (row.parts, row.needed, row.complete) == (parts, needed, complete), entries


#: The entries of a transaction in two queues, and whether it is complete where offsets are known, and where not.
IN_QUEUES = {
    "both whole": ([at(5, 1), at(6, 0), at(5, 0, topic="r")], True, True),
    "an end, and a beginning": ([at(5, 0), at(5, 1, topic="r")], False, False),
    "numbers that make one of both": ([at(5, 2), at(6, 0), at(5, 1, topic="r")], False, False),
    "a hole": ([at(5, 0), at(5, 1, topic="r"), at(7, 0, topic="r")], False, True),
    "one again": ([at(5, 1), at(6, 0), at(9, 1), at(10, 2), at(5, 0, topic="r")], True, True),
    "only one has come": ([at(5, 1), at(6, 0)], True, True),
}


@pytest.mark.promise(3)
def test_a_transaction_in_two_queues_is_complete_when_it_is_in_each(spark: SparkSession) -> None:
    log = frame_of(spark, {name: entries for name, (entries, *_) in IN_QUEUES.items()})
    log = log.withColumn("hour", F.when(F.col("topic") == "q", F.lit(HOURS[0])).otherwise(F.lit(HOURS[1])))
    found = {}
    for container in ("kafka_json", "raw"):
        two = feed({"type": container}).model_copy(update={"topics": ["q", "r"]})
        rows = transaction_status(log, two).collect()
        found[container] = {row.tx: row.complete for row in rows}
        assert {row.tx: row.hours for row in rows}["both whole"] == [str(HOURS[0]), str(HOURS[1])]
    assert found == {
        "kafka_json": {name: whole for name, (_, whole, _) in IN_QUEUES.items()},
        "raw": {name: whole for name, (*_, whole) in IN_QUEUES.items()},
    }


@pytest.mark.full
def test_each_queue_has_a_delivery_that_counts(spark: SparkSession) -> None:
    entries = [at(5, 1), at(6, 0), at(20, 1), at(21, 2), at(22, 0), at(3, 1, topic="r"), at(4, 0, topic="r")]
    unused = unused_messages(frame(spark, entries), ibm, KAFKA, FeedState(feed="payroll"))
    assert unused is not None
    assert {(row.message.topic, row.message.offset) for row in unused.collect()} == {("q", n) for n in (20, 21, 22)}


@pytest.mark.full
def test_what_one_queue_lacks_by_an_hour_keeps_a_transaction_open_as_of_it(spark: SparkSession) -> None:
    late = at(6, 0, hour=1, topic="r")
    transactions = {
        "lacks the end of one": [at(5, 0), at(5, 1, topic="r"), late],
        "nothing of one yet": [at(15, 0), late],
        "both whole": [at(25, 1), at(26, 0), at(25, 0, topic="r"), at(40, 1, hour=1), at(41, 0, hour=1)],
    }
    two = KAFKA.model_copy(update={"topics": ["q", "r"]})
    log = frame_of(spark, transactions)
    open_ = open_at(log, F.col("hour") == HOURS[0], two, HOURS[0])
    assert {row.tx for row in open_.collect()} == {"lacks the end of one"}


def receipt(hour: Hour, sequence: int) -> Receipt:
    return Receipt(
        feed="payroll", hour=hour, sequence=sequence, manifest_version=1, objects=1, bytes=1, landed=1, split=0,
        control=0, bad=0, held=0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("order", "chosen"),
    [((0, 1, 2), 5), ((2, 0, 1), 20), ((1, 2, 0), 20)],
    ids=["in order", "last first", "first last"],
)
def test_the_delivery_that_was_published_whole_first_counts(
    spark: SparkSession, order: tuple[int, ...], chosen: int
) -> None:
    """Also when its parts are of several hours, and whatever is known later."""
    entries = frame(
        spark,
        [at(5, 1, hour=0), at(6, 2, hour=1), at(7, 0, hour=1), at(20, 1, hour=2), at(21, 0, hour=2), at(40, 1, hour=2)],
    )
    state = FeedState.of("payroll", [receipt(HOURS[hour], n) for n, hour in enumerate(order, 1)])
    unused = unused_messages(entries, ibm, KAFKA, state)
    assert unused is not None
    found = {row.message.offset for row in unused.collect()}
    assert found == {5, 6, 7, 20, 21, 40} - ({5, 6, 7} if chosen == 5 else {20, 21})


def test_nothing_is_left_out_where_no_delivery_is_whole_or_each_is_one_message(spark: SparkSession) -> None:
    state = FeedState(feed="payroll")
    transactions = {
        "no end": [at(5, 1), at(7, 0)],
        "one message, twice": [at(5, 0), at(9, 0)],
        "one delivery": [at(5, 1), at(6, 0)],
        "without offsets": [at(None, 1), at(None, 0)],
    }
    assert unused_messages(frame_of(spark, transactions), ibm, KAFKA, state) is None


def test_an_end_that_another_message_holds_with_more_is_left_out(spark: SparkSession) -> None:
    entries = frame(spark, [at(7, 0, "c"), *(at(9, 0, says) for says in "abc"), *(at(12, 0, says) for says in "abc")])
    unused = unused_messages(entries, ibm, KAFKA, FeedState(feed="payroll"))
    assert unused is not None and {row.message.offset for row in unused.collect()} == {7}


def test_a_whole_delivery_needs_nothing_of_a_later_hour(spark: SparkSession) -> None:
    """Only an end by itself can turn out to be the rest of more."""
    cut_off = [at(51, 1, "a"), at(52, 2, "b", hour=1)]
    transactions = {
        "whole": [at(5, 1), at(6, 0), at(20, 1, hour=1), at(21, 2, hour=1), at(22, 0, hour=1)],
        "end": [at(33, 0), at(31, 1, hour=1), at(32, 2, hour=1)],
        "torn": [at(41, 1), at(43, 0), at(42, 2, hour=1)],
        "single": [*cut_off, *(at(90, 0, says) for says in "abc")],
    }
    log = frame_of(spark, transactions)
    open_ = open_at(log, F.col("hour") == HOURS[0], KAFKA, HOURS[0])
    assert {row.tx for row in open_.collect()} == {"end", "torn"}


def test_containers_without_offsets_tell_nothing() -> None:
    assert [tells_deliveries(feed({"type": name})) is None for name in ("raw", "kafka_json")] == [True, False]


def test_a_transaction_that_is_torn_is_told_from_one_whose_messages_are_all_ends(spark: SparkSession) -> None:
    """The latter is what a publishing queue map of row operations sends: between its messages nothing is missing."""
    log = {
        "torn": [at(5, 1), at(7, 0)],
        "two ends": [at(15, 0, "a"), at(27, 0, "b")],
        "row by row": [at(35, 0, "a"), at(36, 0, "b"), at(37, 0, "c")],
    }
    torn, ends = tell_torn(frame_of(spark, log), KAFKA)
    assert torn.endswith(
        "torn: q, partition 0, between the offsets 5 and 7; two ends: q, partition 0, between the offsets 15 and 27"
    )
    assert "MESSAGE CONTENT TYPE R" in ends and ends.endswith("anew: row by row: q, partition 0, from offset 35 on")
    assert tell_torn(frame(spark, [at(5, 0, "a"), at(6, 0, "b")]), KAFKA) == [
        ends.replace("row by row", "t").replace("35", "5")
    ]


def test_deliveries_are_listed_with_where_they_lie(spark: SparkSession) -> None:
    found = whole_deliveries(frame(spark, [at(5, 1), at(6, 2), at(8, 0)]), ibm)
    assert sorted((row.delivery, row.until, row.whole) for row in found.collect()) == [(5, 6, False), (8, 8, False)]
