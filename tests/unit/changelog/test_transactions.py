"""Transactions: the rule of completeness, and what becomes of those that are not complete."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.changelog.ties import TiedHour
from tidemark.changelog.transaction_status import transaction_status
from tidemark.changelog.transactions import (
    HourEntries,
    WholeTransactions,
    complete_transactions,
    open_at,
)
from tidemark.feeds.model import Feed
from tidemark.hours import Hour
from tidemark.ledger import change_log
from tidemark.ledger.feed_state import FeedState, TableProgress
from tidemark.ledger.receipts import Receipt, Reload

HOURS = [Hour.parse(f"2026-11-20T{number:02d}") for number in range(6)]
COLUMNS = (
    "hour string, version int, object string, record bigint, entry int, op string, source_table string, `table` string, "
    "position string, tx string, tx_part string, tx_count bigint, tx_ordinal bigint, tx_end boolean, tx_rollback boolean"
)
HELD = "tx string, hours array<string>"


def feed(overdue: str = "hold", *, tables_outside: bool = False) -> Feed:
    return Feed.model_validate(
        {
            "feed": "f", "description": "-", "owner": "-", "topics": ["t", "tx"],
            "exports": {"path": "{topic}/{date}/{hour}/*"},
            "container": {"type": "kafka_json"}, "format": {"type": "debezium", "transactions": "tx"},
            "transactions": {"alarm": "2h", "overdue": overdue, "tables_outside": tables_outside},
        }
    )  # fmt: skip


def entry(number: int, tx: str | None, hour: Hour = HOURS[0], **values: Any) -> dict[str, Any]:
    """A log entry; the number of its part is its own."""
    nothing = dict.fromkeys(("tx_count", "tx_ordinal", "tx_end", "tx_rollback"))
    return {
        "hour": hour, "version": 1, "object": f"t/{hour}", "record": number, "entry": 0, "op": "insert",
        "source_table": "s.t", "table": "s.t", "position": f"{number:03d}", "tx": tx, "tx_part": str(number),
        **nothing, **values,
    }  # fmt: skip


def frame(spark: SparkSession, entries: list[dict[str, Any]], columns: str = COLUMNS) -> DataFrame:
    names = [column.split()[0].strip("`") for column in columns.split(", ")]
    return spark.createDataFrame([tuple(each[name] for name in names) for each in entries], columns)


def end(number: int, tx: str, hour: Hour = HOURS[0], **values: Any) -> dict[str, Any]:
    return entry(number, tx, hour, op="control", tx_part=None, tx_end=True, **values)


def receipt(hour: Hour, sequence: int, **values: Any) -> Receipt:
    return Receipt(
        feed="f", hour=hour, sequence=sequence, manifest_version=1, objects=1, bytes=1, landed=1, split=0, control=0,
        bad=0, held=0, **values,
    )  # fmt: skip


#: The entries of a transaction, and whether it is complete.
CASES: list[tuple[list[dict[str, Any]], bool]] = [
    ([entry(1, "x")], False),
    ([entry(1, "x"), end(2, "x")], True),
    ([entry(1, "x"), end(2, "x", tx_count=2)], False),
    ([entry(1, "x"), entry(1, "x"), end(2, "x", tx_count=2)], False),  # a redelivery is no other part
    ([entry(1, "x"), entry(2, "x"), end(3, "x", tx_count=2)], True),
    ([entry(1, "x", tx_ordinal=1), entry(3, "x", tx_ordinal=3), end(4, "x")], False),
    ([entry(1, "x"), entry(2, "x")], False),
    ([end(1, "x", tx_count=0)], True),
    # of four changes, two are of tables that the feed does not read
    ([entry(1, "x"), end(2, "x", tx_count=4, tx_ordinal=2)], False),
    ([entry(1, "x"), entry(4, "x", tx_ordinal=4), end(5, "x", tx_count=4, tx_ordinal=2)], True),
    ([entry(1, "x"), entry(4, "x", tx_ordinal=4, op="control"), end(5, "x", tx_count=2)], False),  # a part itself
]


def test_a_transaction_is_complete_when_its_end_and_all_its_parts_have_come(spark: SparkSession) -> None:
    entries = [one | {"tx": f"case {number}"} for number, (of_case, _) in enumerate(CASES) for one in of_case]
    found = {row.tx: row.complete for row in transaction_status(frame(spark, entries), feed()).collect()}
    assert found == {f"case {number}": complete for number, (_, complete) in enumerate(CASES)}


def completed(
    spark: SparkSession, landed: list[dict[str, Any]], hour: Hour = HOURS[0], overdue: str = "hold",
    before: list[dict[str, Any]] | None = None, held: dict[str, list[str]] | None = None, rolled_back: bool = False,
    tables_outside: bool = False, highest: int | None = None, again: Hour | None = None, places_until: str = "",
) -> tuple[WholeTransactions, set[int]]:  # fmt: skip
    """What completes, and the numbers of the changes in it. ``before``: published entries; ``held``: open transactions;
    ``highest``: the number of the highest published change; ``again``: the hour in which positions began again;
    ``places_until``: a text behind the positions that others of the log can change."""
    hours = sorted({each["hour"] for each in before or []})
    state = FeedState.of("f", [receipt(each, n, held_transactions=1) for n, each in enumerate(hours, 1)])
    state.places_until = places_until
    if highest is not None:
        state.tables["s.t"] = TableProgress(highest=f"{highest:03d}#9")
    if again is not None:
        state.reloads["s.t"] = [Reload(hour=again, began=again, position="", begins_again=True)]
    log = frame(spark, [*landed, *(before or [])])
    whole = complete_transactions(
        HourEntries(
            feed=feed(overdue, tables_outside=tables_outside),
            hour=hour,
            state=state,
            ties=TiedHour(edges=[], known=False, log=log, landed=frame(spark, landed), log_before=log, retied=None),
            held=frame(spark, [{"tx": tx, "hours": of} for tx, of in held.items()], HELD) if held else None,
            rolled_back=change_log.rolled_back(log, state, hour if rolled_back else None),
            replay=False,
            bad=any(one.get("op") == "bad" for one in landed),
            new=change_log.is_new(hour, state),
            published=change_log.is_published(state),
        )
    )
    return whole, {row.record for row in whole.rows.collect()}


def test_changes_of_open_transactions_are_held(spark: SparkSession) -> None:
    whole, records = completed(spark, [entry(1, None), entry(2, "x"), end(3, "x"), entry(4, "y"), entry(5, "y")])
    assert records == {1, 2}
    assert (whole.held, whole.held_transactions, whole.notes) == (2, 1, [])
    assert whole.still_open is not None and [row.tx for row in whole.still_open.collect()] == ["y"]


def test_a_later_hour_releases_what_it_completes(spark: SparkSession) -> None:
    whole, records = completed(spark, [end(2, "x", HOURS[1])], HOURS[1], before=[entry(1, "x")], held={"x": [HOURS[0]]})
    assert records == {1} and whole.held_transactions == 0 and whole.still_open is None
    assert [row.landed_this_hour for row in whole.rows.collect()] == [False]


def test_what_was_rolled_back_is_in_no_table(spark: SparkSession) -> None:
    entries = [entry(1, "x"), entry(2, "x"), end(3, "x", tx_rollback=True), entry(4, None)]
    whole, records = completed(spark, entries, rolled_back=True)
    assert records == {4} and (whole.rolled_back_changes, whole.held_transactions) == (2, 0)


@pytest.mark.parametrize(
    ("policy", "records", "held", "given_up"),
    [("hold", set(), 1, 0), ("quarantine", set(), 0, 1), ("apply", {1}, 0, 0)],
)
def test_an_overdue_transaction_follows_the_feeds_policy(
    spark: SparkSession, policy: str, records: set[int], held: int, given_up: int
) -> None:
    """Overdue: held for longer than two hours."""
    open_ = {"before": [entry(1, "x")], "held": {"x": [HOURS[0]]}}
    at_the_limit, kept = completed(spark, [], HOURS[2], overdue=policy, **open_)
    assert (at_the_limit.held_transactions, at_the_limit.notes, kept) == (1, [], set())
    whole, found = completed(spark, [], HOURS[3], overdue=policy, **open_)
    assert (found, whole.held_transactions, whole.given_up_transactions) == (records, held, given_up)
    assert whole.notes == [f"1 overdue transactions ({policy})"]
    assert (whole.given_up is not None) == bool(given_up)


def test_a_transaction_with_parts_outside_the_feed_waits_for_one_hour_that_brings_nothing_more(
    spark: SparkSession,
) -> None:
    """Counters 1 and 3 come; 2 and the last event are of tables that the feed does not read."""
    parts = [entry(1, "x", tx_ordinal=1, tx_end=False), entry(3, "x", tx_ordinal=3, tx_end=False)]
    first, kept = completed(spark, parts, HOURS[0], tables_outside=True)
    assert (kept, first.held, first.held_transactions) == (set(), 2, 1), "the rest may come with the next hour"
    more = [entry(4, "x", HOURS[1], tx_ordinal=4, tx_end=False)]
    open_ = {"before": parts, "held": {"x": [HOURS[0]]}, "tables_outside": True}
    again, kept = completed(spark, more, HOURS[1], **open_)
    assert (kept, again.held, again.notes) == (set(), 1, [])
    whole, records = completed(spark, [], HOURS[1], **open_)
    assert (records, whole.held_transactions, whole.given_up_transactions) == ({1, 3}, 0, 0)
    assert whole.notes == ["1 transactions are published as they are: what they lack may be of tables outside the feed"]


def test_what_a_later_hour_completes_is_open_before_it(spark: SparkSession) -> None:
    """Also where a part that came later is not missed: here 2 of z. What comes again later is no other part."""
    later = {"hour": HOURS[1]}
    log = [
        entry(1, "x", tx_ordinal=1), end(2, "x", tx_count=2), entry(3, "x", **later),
        entry(4, "y"), end(5, "y", **later),
        entry(6, "z"), end(7, "z"), entry(8, "z", **later),
        entry(9, "again"), end(10, "again"), {**entry(9, "again", **later), "record": 11},
        entry(12, "early"), end(13, "early"), entry(14, "later", **later), end(15, "later", **later), entry(16, None),
    ]  # fmt: skip
    open_ = open_at(frame(spark, log), F.col("hour") <= HOURS[0], feed(), HOURS[0])
    assert {row.tx for row in open_.collect()} == {"x", "y", "z"}
    late = HOURS[5]
    assert open_at(frame(spark, log), F.col("hour") <= HOURS[0], feed("apply"), late).isEmpty(), (
        "the policy applied them"
    )


@pytest.mark.parametrize("tables_outside", [False, True])
def test_what_only_the_policy_publishes_is_open_until_it_does(spark: SparkSession, tables_outside: bool) -> None:
    """Nothing more of x comes."""
    log = frame(spark, [entry(1, "x", tx_ordinal=1), entry(2, "y"), end(3, "y"), entry(4, "later", HOURS[1])])
    of = feed("hold" if tables_outside else "apply", tables_outside=tables_outside)
    published_in = HOURS[1] if tables_outside else HOURS[3]
    for hour, expected in ((HOURS[0], {"x"}), (published_in, set())):
        open_ = open_at(log, F.col("hour") <= HOURS[0], of, hour)
        assert {row.tx for row in open_.collect()} == expected, hour
    hold = open_at(log, F.col("hour") <= HOURS[0], feed(), HOURS[0])
    assert hold.isEmpty(), "it is held to this day"


def test_a_bad_record_and_its_good_copy_are_one_part(spark: SparkSession) -> None:
    """Whichever comes first, and in which hour. Elsewhere in the order it is another part."""
    parts = [entry(1, "x", tx_ordinal=1), entry(2, "x", tx_ordinal=2), end(3, "x", tx_count=2, position=None)]
    spoilt = [{**entry(1, "x", tx_ordinal=1), "record": 9, "op": "bad", "tx_part": "9"}]
    assert completed(spark, [*spoilt, parts[0], parts[2]])[1] == set()
    assert completed(spark, [*spoilt, *parts])[1] == {1, 2}
    assert completed(spark, [*spoilt, *parts[1:]])[1] == {2}, "it takes the place of the good one"
    log = frame(spark, [*parts, *({**one, "hour": HOURS[1]} for one in spoilt)])
    until = F.col("hour") <= HOURS[0]
    assert open_at(log, until, feed(), HOURS[0], bad=True).isEmpty()
    moved = [{**one, "hour": HOURS[1], "position": "002", "tx_ordinal": 2} for one in spoilt]
    other = open_at(frame(spark, [parts[0], parts[2], *moved]), until, feed(), HOURS[0], bad=True)
    assert [row.tx for row in other.collect()] == ["x"]


WHOLE = [entry(1, "x", tx_ordinal=1), entry(2, "x", tx_ordinal=2), end(3, "x", tx_count=2, position=None)]


@pytest.mark.promise(3)
@pytest.mark.parametrize(
    ("landed", "records"),
    [
        pytest.param([entry(1, "x", HOURS[1], tx_ordinal=1)], {1}, id="a part of the first again"),
        pytest.param([entry(5, "x", HOURS[1], tx_ordinal=1)], set(), id="a part of the second"),
        pytest.param([entry(1, "x", HOURS[1]), entry(5, "x", HOURS[1])], set(), id="of both"),
        pytest.param(
            [entry(5, "x", HOURS[1]), end(6, "x", HOURS[1], tx_count=2)], set(), id="and its end, a part lacking"
        ),
        pytest.param([entry(5, "x", HOURS[1]), end(6, "x", HOURS[1], tx_count=1)], {5}, id="all of the second"),
    ],
)
def test_a_name_that_comes_again_behind_its_first_transaction_is_of_another(
    spark: SparkSession, landed: list[dict[str, Any]], records: set[int]
) -> None:
    """What the log holds of the first does not complete the second, where the hour is run late."""
    whole, found = completed(spark, landed, HOURS[1], before=[*WHOLE, entry(9, None, HOURS[2])], highest=9)
    assert (found, whole.held_transactions) == (records, 0 if records else 1)


@pytest.mark.promise(3)
def test_what_comes_again_with_another_position_is_of_the_same_transaction(spark: SparkSession) -> None:
    """PostgreSQL's first after a snapshot: where the connector was started again in it, one event names the commit before it
    first and then none, or the other way round."""

    def at(*lsns: int) -> str:
        return ".".join(f"{lsn:020d}" for lsn in lsns)

    for of_then, of_now in (((2, 7), (7, 7, 7)), ((7, 7, 7), (7, 7, 7)), ((7, 7, 7), (8, 7)), ((7, 7, 7), (8, 8, 8))):
        first, second = (
            entry(1, "x", tx_ordinal=1, position=at(6, 6, 6)),
            entry(2, "x", tx_ordinal=2, position=at(*of_then)),
        )
        whole, found = completed(
            spark, [second | {"hour": HOURS[1], "position": at(*of_now)}], HOURS[1], highest=999, places_until=at(9) + "~",
            before=[first, second, end(3, "x", tx_count=2, position=None), entry(9, None, HOURS[2])],
        )  # fmt: skip
        assert (found, whole.held_transactions) == ({2}, 0), (of_then, of_now)


def test_what_completes_a_transaction_that_was_not_whole_may_stand_behind_it(spark: SparkSession) -> None:
    """Its policy applied it, or a record of it that cannot be decoded was left out."""
    for of_before in ([entry(1, "x"), end(3, "x", tx_count=2, position=None)], [*WHOLE, entry(4, "x", op="bad")]):
        before = [*of_before, entry(9, None, HOURS[2])]
        _, found = completed(spark, [entry(5, "x", HOURS[1])], HOURS[1], before=before, highest=9)
        assert found == {5}


def test_what_completes_an_overdue_transaction_that_was_applied_may_be_newest_of_all(spark: SparkSession) -> None:
    """Of a feed in which nothing else has changed meanwhile."""
    first, second = entry(1, "x", tx_ordinal=1), entry(5, "x", HOURS[4], tx_ordinal=2)
    ending = end(6, "x", tx_count=2, position=None)
    for landed, before, policy in (
        ([second, ending | {"hour": HOURS[4]}], [first], "hold"),
        ([second, ending | {"hour": HOURS[4]}], [first], "apply"),
        ([second], [first, ending], "apply"),
    ):
        whole, found = completed(spark, landed, HOURS[4], overdue=policy, before=before, highest=1)
        assert (found, whole.held_transactions) == ({5}, 0)


@pytest.mark.promise(3)
@pytest.mark.parametrize(("again", "records"), [(None, {1}), (HOURS[1], set()), (HOURS[2], {1})])
def test_where_positions_began_again_a_name_of_before_completes_nothing(
    spark: SparkSession, again: Hour | None, records: set[int]
) -> None:
    """A new cluster counts its transactions from the beginning, too. What comes again of before is held, if it is a part."""
    before = [*WHOLE, entry(9, None, HOURS[2])]
    _, found = completed(
        spark, [entry(1, "x", HOURS[1], tx_ordinal=1)], HOURS[1], before=before, highest=9, again=again
    )
    assert found == records
