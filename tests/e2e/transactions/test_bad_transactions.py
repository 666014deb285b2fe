"""A transaction of which a change is refused waits whole, and is replayed whole; by `transactions.bad: split` in part."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.convergence import ibm
from tests.convergence.wire import Format, Sent
from tests.e2e.change_exports import Exports, change, unit
from tests.e2e.debezium_messages import COLUMNS, HOURS, Event
from tests.e2e.feed_pair import FeedPair
from tests.e2e.transaction_exports import DEBEZIUM, export, ids, transaction
from tidemark.ledger.quarantine import hours_in_quarantine, list_kept_back
from tidemark.operations.audit import audit
from tidemark.operations.held import held_listing
from tidemark.settings import Settings

pytestmark = pytest.mark.promise(1, 2, 3, 6)

TOO_MUCH, TOO_LONG = 50, 5_000_000_000


def tables(most: int = 9, n: str = "int") -> dict[str, Any]:
    checked = {"columns": {**COLUMNS, "n": n}, "checks": [{"column": "n", "max": most, "consequence": "quarantine"}]}
    return {"tables": {"s.items": checked, "s.others": {"columns": {**COLUMNS, "n": n}}}}


RIGHT = tables(TOO_LONG, "bigint")


THERE = transaction(1, ("c", "items", 1, 1), ("c", "items", 2, 2), ("c", "others", 1, 1))
UNREADABLE = transaction(2, ("u", "items", 1, TOO_LONG), ("c", "others", 2, 2))
FAILING = transaction(3, ("u", "items", 2, TOO_MUCH), ("d", "others", 1, 0), ("c", "others", 3, 3))
NEWER = transaction(4, ("c", "others", 4, 4), ("c", "items", 9, 9))
FIRST = [*THERE, *UNREADABLE, *FAILING, *NEWER]


def test_a_transaction_with_a_bad_change_waits_whole(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    pair = FeedPair("bad_tx", tmp_path, spark, settings, **DEBEZIUM, **tables())
    export(pair, HOURS[0], FIRST)
    receipt = pair.run(HOURS[0])
    assert ids(pair, "items") == {1: 1, 2: 2, 9: 9}
    assert ids(pair, "others") == {1: 1, 4: 4}
    counted = {table.table.split(".")[1]: table.counts for table in receipt.tables}
    assert {name: (c.applied, c.quarantined) for name, c in counted.items()} == {"items": (3, 2), "others": (2, 3)}
    assert [note for note in receipt.notes if "whole" in note] == [
        "2 transactions wait whole in quarantine: a change of each is refused"
    ]
    kept = list_kept_back(settings, pair.fixed)
    reasons = {(r["table"].split(".")[1], json.loads(r["change"])["key"]["id"]): r for r in kept}
    value, check = f'not a value of its column\'s type: n (int): "{TOO_LONG}"', "check failed: n <= 9"
    waits = f"waits with its transaction: a change of {pair.fixed}.items is refused: "
    assert {key: (r["stage"], r["reason"]) for key, r in reasons.items()} == {
        ("items", "1"): ("screen", value), ("others", "2"): ("transaction", waits + value),
        ("items", "2"): ("screen", check), ("others", "1"): ("transaction", waits + check),
        ("others", "3"): ("transaction", waits + check),
    }  # fmt: skip
    assert [str(finding) for finding in audit(pair.feed(pair.fixed), settings).findings] == []
    assert pair.run(HOURS[0]).sequence == receipt.sequence


@pytest.mark.full
def test_a_transaction_with_a_bad_change_is_replayed_whole(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    pair = FeedPair("bad_tx_pair", tmp_path, spark, settings, **DEBEZIUM, **tables())
    export(pair, HOURS[0], FIRST)
    pair.run(HOURS[0])
    assert [str(finding) for finding in audit(pair.feed(pair.fixed), settings).findings] == []
    pair.run_right(HOURS[:1], **RIGHT)
    pair.replay(HOURS[0], **RIGHT)
    pair.same("items", "others")
    assert ids(pair, "items") == {1: TOO_LONG, 2: TOO_MUCH, 9: 9}
    assert ids(pair, "others") == {2: 2, 3: 3, 4: 4}
    assert not list_kept_back(settings, pair.fixed)
    assert [str(finding) for finding in audit(pair.feed(pair.fixed, **RIGHT), settings).findings] == []


@pytest.mark.full
def test_a_truncate_waits_with_its_transaction(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    """In the hour of what it removes, and in an hour after it."""
    pair = FeedPair("bad_truncate", tmp_path, spark, settings, **DEBEZIUM, **tables())
    there = transaction(1, ("c", "items", 1, 1), ("c", "others", 1, 1))
    emptied = transaction(2, ("t", "others", 0, 0), ("u", "items", 1, TOO_LONG))
    again = transaction(4, ("t", "others", 0, 0), ("u", "items", 1, TOO_MUCH))
    export(pair, HOURS[0], [*there, *emptied, *transaction(3, ("c", "others", 3, 3))])
    export(pair, HOURS[1], [*again, *transaction(5, ("c", "others", 5, 5))])
    shown = ({1: 1, 3: 3}, {1: 1, 3: 3, 5: 5})
    for hour, others in zip(HOURS, shown, strict=False):
        pair.run(hour)
        assert (ids(pair, "items"), ids(pair, "others")) == ({1: 1}, others)
        assert [str(finding) for finding in audit(pair.feed(pair.fixed), settings).findings] == []
    kept = [(r["hour"], r["table"].split(".")[1], r["stage"]) for r in list_kept_back(settings, pair.fixed)]
    assert sorted(kept) == [
        (HOURS[0], "items", "screen"), (HOURS[0], "others", "transaction"),
        (HOURS[1], "items", "screen"), (HOURS[1], "others", "transaction"),
    ]  # fmt: skip
    pair.run_right(HOURS[:2], **RIGHT)
    for hour in (HOURS[1], HOURS[0]):  # the older truncate comes last
        pair.replay(hour, **RIGHT)
    pair.same("items", "others")
    assert ids(pair, "others") == {5: 5}
    assert [str(finding) for finding in audit(pair.feed(pair.fixed, **RIGHT), settings).findings] == []


@pytest.mark.parametrize(
    ("bad", "others"),
    [
        pytest.param({3: FAILING}, {3: 3, 4: 4}, id="one", marks=pytest.mark.full),
        pytest.param({2: UNREADABLE, 3: FAILING}, {2: 2, 3: 3, 4: 4}, id="one of each kind", marks=pytest.mark.full),
    ],
)
def test_by_the_operators_choice_it_is_split_and_named(
    spark: SparkSession, settings: Settings, tmp_path: Path, bad: dict[int, list[Event]], others: dict[int, int]
) -> None:
    split = {**DEBEZIUM, "transactions": {"bad": "split"}}
    pair = FeedPair(f"split_tx_{len(bad)}", tmp_path, spark, settings, **split, **tables())
    export(pair, HOURS[0], [*THERE, *(one for sent in bad.values() for one in sent), *NEWER])
    receipt = pair.run(HOURS[0])
    assert ids(pair, "items") == {1: 1, 2: 2, 9: 9}
    assert ids(pair, "others") == others
    names = ", ".join(f"srv:{number}" for number in bad)
    assert receipt.notes == [f"split transactions (transactions.bad is split): {names}"]
    assert len(list_kept_back(settings, pair.fixed)) == len(bad)
    assert [str(finding) for finding in audit(pair.feed(pair.fixed), settings).findings] == []


@pytest.mark.full
def test_once_its_export_is_mended_it_is_published(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    pair = FeedPair("mended_tx", tmp_path, spark, settings, **DEBEZIUM, **tables())
    export(pair, HOURS[0], [*THERE, *FAILING])
    pair.run(HOURS[0])
    export(pair, HOURS[0], transaction(3, ("u", "items", 2, 9), ("d", "others", 1, 0), ("c", "others", 3, 3)))
    receipt = pair.run(HOURS[0])
    assert ids(pair, "items") == {1: 1, 2: 9} and ids(pair, "others") == {3: 3}
    assert (receipt.taken_up, receipt.quarantined) == (2, 3), "of an earlier publication, whose account stays"
    (refused,) = list_kept_back(settings, pair.fixed)
    assert (refused["hour"], refused["reason"]) == (HOURS[0], "check failed: n <= 9")
    assert held_listing(settings, pair.fixed).rows == []
    assert [str(finding) for finding in audit(pair.feed(pair.fixed), settings).findings] == []


def spoilt(sent: Sent) -> Sent:
    """A record of which the operation cannot be read. Its header still names the transaction."""
    assert sent.value is not None
    return replace(sent, value=sent.value.replace(b'"ISRT"', b'"ISRX"'))


@pytest.mark.full
@pytest.mark.parametrize("late", [False, True], ids=["in one hour", "over hours"])
def test_a_record_that_cannot_be_decoded_holds_its_transaction(
    spark: SparkSession, settings: Settings, tmp_path: Path, late: bool
) -> None:
    exports = Exports(Format("ibm", ibm, "raw"), tmp_path, settings, f"bad_ibm_{late}".lower(), quarantine={"limit": 1})
    good = ibm.encode(unit(1, change("a", 1, 10, "insert", 1), change("b", 1, 12, "insert", 1)))
    first, second = ibm.encode(unit(1001, change("a", 1001, 10, "insert", 101), change("b", 1001, 12, "insert", 101)))
    newer = ibm.encode(unit(2001, change("a", 2001, 10, "update", 1)))
    if late:
        exports.run(HOURS[0], [*good, spoilt(first)])
        last = exports.run(HOURS[1], [second, *newer])
    else:
        last = exports.run(HOURS[0], [*good, first, spoilt(second), *newer])
    assert exports.rows("a") == {1: (200110, "b200110")}
    assert exports.rows("b") == {1: (112, "b112")}
    kept = {(r["stage"], r["reason"]) for r in list_kept_back(settings, exports.name)}
    why = "operation ISRX is not ISRT, REPL or DLET"
    assert kept == {
        ("decode", why),
        ("transaction", f"waits with its transaction: a record of it cannot be decoded: {why}"),
    }
    assert (last.held_transactions, last.alongside, last.kept_whole) == (0, 1, 1)
    assert [str(finding) for finding in audit(exports.feed, settings).findings] == []


@pytest.mark.full
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)], ids=str)
def test_over_hours_in_any_order_it_waits_whole_until_all_of_it_is_replayed(
    spark: SparkSession, settings: Settings, tmp_path: Path, order: tuple[int, ...]
) -> None:
    """Its second half cannot be read. Meanwhile its first half comes again, and a newer one writes its row."""
    pair = FeedPair("bad_hours_" + "".join(map(str, order)), tmp_path, spark, settings, **DEBEZIUM, **tables())
    one, two, end = transaction(2, ("u", "items", 1, 5), ("c", "others", 2, TOO_LONG))
    hours = [
        [*transaction(1, ("c", "items", 1, 1), ("c", "others", 1, 1)), one],
        [two, end, *transaction(3, ("u", "items", 1, 7))],
        [one, *transaction(4, ("c", "others", 4, 4))],
    ]
    for hour, sent in zip(HOURS, hours, strict=False):
        export(pair, hour, sent)
    for number in order:
        pair.run(HOURS[number])
    assert ids(pair, "items") == {1: 7}
    assert ids(pair, "others") == {1: 1, 4: 4}
    assert [str(finding) for finding in audit(pair.feed(pair.fixed), settings).findings] == []
    shown = [pair.rows(pair.fixed, table) for table in ("items", "others")]

    pair.run_right(HOURS[:3], **RIGHT)
    in_quarantine = hours_in_quarantine(settings, pair.fixed)
    for hour in in_quarantine[:-1]:
        pair.replay(hour, **RIGHT)
        assert [pair.rows(pair.fixed, table) for table in ("items", "others")] == shown
        assert "its changes in quarantine" in [row[4] for row in held_listing(settings, pair.fixed).rows]
        assert [str(finding) for finding in audit(pair.feed(pair.fixed, **RIGHT), settings).findings] == []
    pair.replay(in_quarantine[-1], **RIGHT)
    for table in ("items", "others"):
        assert pair.rows(pair.fixed, table) == pair.rows(pair.right, table)
    assert not list_kept_back(settings, pair.fixed)
    assert [str(finding) for finding in audit(pair.feed(pair.fixed, **RIGHT), settings).findings] == []
