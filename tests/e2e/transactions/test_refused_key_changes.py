"""What waits takes the whole of its change with it: a row keeps its last good version under its last good key."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.e2e.debezium_messages import DEBEZIUM, HOURS, Event, event, moved, row
from tests.e2e.feed_pair import FeedPair
from tidemark.ledger.quarantine import list_kept_back
from tidemark.operations.audit import audit
from tidemark.settings import Settings

pytestmark = pytest.mark.promise(1, 3, 5)

TOO_MUCH, TOO_LONG = 50, 5_000_000_000
COLUMNS = {"id": "bigint", "n": "int", "big": "text"}


def tables(most: int, n: str = "int") -> dict[str, Any]:
    table = {"columns": {**COLUMNS, "n": n}, "checks": [{"column": "n", "max": most, "consequence": "quarantine"}]}
    return {"tables": {"s.items": table, "s.emptied": table}}


def key_changes(table: str) -> list[Event]:
    """Of rows 1 to 4; three of them are refused."""
    return [
        *moved(20, 1, 11, TOO_LONG, table),  # the new row cannot be read
        *moved(21, 2, 12, TOO_MUCH, table),  # the new row fails a check
        *moved(22, 3, 13, 4, table),
        *moved(23, 4, "none", 4, table),  # the new key cannot be read
    ]


VALUE, CHECK = f'not a value of its column\'s type: n (int): "{TOO_LONG}"', "check failed: n <= 9"
KEY = "the key (id) is missing or cannot be read; if a part of it is null, have the source name a key without nulls"
OTHER = "the other half of its key change is refused: "


def test_a_row_stays_where_it_was_last_good(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    """And not longer than the table did: what was there before a truncate does not come back."""
    of_table = {"tables": {"s.items": tables(9)["tables"]["s.items"]}}
    pair = FeedPair("refused", tmp_path, spark, settings, **DEBEZIUM, **of_table, quarantine={"limit": 1})
    emptied = [event("c", 1, row(8, 8)), event("t", 2, None), event("c", 3, row(8, TOO_MUCH))]
    there = [event("c", 10 + id_, row(id_, id_)) for id_ in (1, 2, 3, 4)]
    pair.export(HOURS[0], [*emptied, *there, *key_changes("items")])
    pair.run(HOURS[0])
    assert {r["id"]: r["n"] for r in pair.rows(pair.fixed, "items")} == {1: 1, 2: 2, 4: 4, 13: 4}
    reasons = Counter(r["reason"] for r in list_kept_back(settings, pair.fixed))
    assert reasons == {VALUE: 1, OTHER + VALUE: 1, KEY: 1, OTHER + KEY: 1, CHECK: 2, OTHER + CHECK: 1}
    assert not audit(pair.feed(pair.fixed), settings).findings


THERE, (LEAVES, ARRIVES) = event("c", 1, row(1, 1)), moved(20, 1, 11, TOO_MUCH)
AGAIN, MENDED = {**LEAVES, "offset": 90}, moved(20, 1, 11, 5)[1]


@pytest.mark.parametrize(
    ("name", "hours", "order", "rows"),
    [
        pytest.param("again", [[THERE, LEAVES, ARRIVES], [AGAIN]], (0, 1), {1: 1}, id="it comes again"),
        pytest.param("late", [[THERE, LEAVES], [ARRIVES]], (1, 0), {1: 1}, id="it comes late", marks=pytest.mark.full),
        pytest.param(
            "mended", [[THERE, LEAVES, ARRIVES], [AGAIN, MENDED]], (0, 1), {11: 5}, id="a good copy has come",
            marks=pytest.mark.full,
        ),
    ],
)  # fmt: skip
def test_a_half_waits_while_the_other_is_in_quarantine(
    spark: SparkSession, settings: Settings, tmp_path: Path, name: str, hours: list[list[Event]], order: tuple[int, ...],
    rows: dict[int, int],
) -> None:  # fmt: skip
    """In another hour than the half that is refused, in no transaction that would hold both."""
    of_table = {"tables": {"s.items": tables(9)["tables"]["s.items"]}}
    pair = FeedPair(f"half_{name}", tmp_path, spark, settings, **DEBEZIUM, **of_table, quarantine={"limit": 1})
    for hour, sent in zip(HOURS, hours, strict=False):
        pair.export(hour, sent)
    for number in order:
        pair.run(HOURS[number]).balance()
    assert {r["id"]: r["n"] for r in pair.rows(pair.fixed, "items")} == rows
    assert not audit(pair.feed(pair.fixed), settings).findings
    waits = [r["hour"] for r in list_kept_back(settings, pair.fixed) if r["reason"].startswith(OTHER)]
    assert waits == ([HOURS[0]] if name != "again" else list(HOURS[:2]))


@pytest.mark.full
@pytest.mark.parametrize("hours", [1, 2], ids=["one hour", "two hours"])
def test_once_replayed_the_tables_are_those_of_a_feed_that_was_right_from_the_start(
    spark: SparkSession, settings: Settings, tmp_path: Path, hours: int
) -> None:
    pair = FeedPair(f"refused_{hours}", tmp_path, spark, settings, **DEBEZIUM, **tables(9), quarantine={"limit": 1})
    there = [event("c", lsn, row(lsn, lsn)) for lsn in (1, 2, 3, 4)]
    there += [event("c", lsn, row(lsn, lsn), table="emptied") for lsn in (1, 2)]
    changes = [*key_changes("items"), event("t", 30, None, table="emptied")]
    changes += [event("c", 31, row(1, TOO_MUCH), table="emptied"), event("c", 32, row(5, 5), table="emptied")]
    if hours == 1:
        pair.export(HOURS[0], [*there, *changes])
        pair.run(HOURS[0])
    else:
        pair.export(HOURS[0], there)
        pair.run(HOURS[0])
        pair.export(HOURS[1], changes)
        pair.run(HOURS[1])
    last = HOURS[hours - 1]
    for table, rows in {"items": {1: 1, 2: 2, 4: 4, 13: 4}, "emptied": {5: 5}}.items():
        assert {r["id"]: r["n"] for r in pair.rows(pair.fixed, table)} == rows, table
    assert not audit(pair.feed(pair.fixed), settings).findings
    reasons = {r["reason"] for r in list_kept_back(settings, pair.fixed) if r["table"].endswith("items")}
    assert reasons == {VALUE, OTHER + VALUE, KEY, OTHER + KEY, CHECK, OTHER + CHECK}

    right = tables(TOO_MUCH, "bigint")
    right = {"tables": {name: {**t, "checks": [{"column": "n", "max": TOO_LONG, "consequence": "quarantine"}]}
                        for name, t in right["tables"].items()}}  # fmt: skip
    pair.run_right(HOURS[:hours], **right)
    pair.replay(last, **right)
    pair.same("items", "emptied")
    assert {r["reason"] for r in list_kept_back(settings, pair.fixed)} == {KEY, OTHER + KEY}
