"""A refused change of which a good copy is in the log does not break its transaction, in whatever hours the two come."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.convergence import dataworks
from tests.convergence.dataworks import TOPICS, _message
from tests.convergence.oracle import Message
from tests.convergence.wire import Format, Sent
from tests.e2e.change_exports import Exports
from tests.e2e.debezium_messages import COLUMNS, HOURS, Event, event, moved
from tests.e2e.debezium_messages import DEBEZIUM as ALONE
from tests.e2e.debezium_messages import row as image
from tests.e2e.feed_pair import FeedPair
from tests.e2e.transaction_exports import DEBEZIUM, export, ids, transaction
from tidemark.ledger.quarantine import hours_in_quarantine, list_kept_back
from tidemark.operations.audit import audit
from tidemark.operations.held import held_listing
from tidemark.operations.read_table import json_lines, read_snapshot
from tidemark.settings import Settings

pytestmark = [pytest.mark.promise(1, 2, 3, 6), pytest.mark.full]

CHECKED: dict[str, Any] = {
    "tables": {
        "s.items": {
            "columns": {**COLUMNS, "n": "int"}, "checks": [{"column": "n", "max": 9, "consequence": "quarantine"}],
        },
        "s.others": {"columns": {**COLUMNS, "n": "int"}},
    }
}  # fmt: skip
THERE = transaction(1, ("c", "items", 1, 1), ("c", "others", 1, 1))
UNREADABLE = transaction(2, ("u", "items", 1, 5_000_000_000), ("c", "others", 2, 2), ("d", "others", 1, 0))
FAILING = transaction(2, ("u", "items", 1, 50), ("c", "others", 2, 2), ("d", "others", 1, 0))
MENDED = transaction(2, ("u", "items", 1, 5), ("c", "others", 2, 2), ("d", "others", 1, 0))


def run(pair: FeedPair, hours: Sequence[Sequence[Event]], order: Sequence[int], settings: Settings) -> None:
    """Export the hours, and run them in this order. Nothing that the audit finds is wrong after any of them."""
    for hour, sent in zip(HOURS, hours, strict=False):
        export(pair, hour, list(sent))
    for number in order:
        pair.run(HOURS[number]).balance()
        assert [str(finding) for finding in audit(pair.feed(pair.fixed), settings).findings] == []


def cut(pair: FeedPair, hour: str, settings: Settings) -> tuple[dict[int, int], ...]:
    """id → n of both tables as the hour's cut shows them."""
    shown = (read_snapshot(settings, f"{pair.fixed}.{table}", hour) for table in ("items", "others"))
    return tuple({row["id"]: row["n"] for row in map(json.loads, json_lines(*found))} for found in shown)


@pytest.mark.parametrize(
    ("name", "order", "bad", "again"),
    [
        pytest.param("in_order", (0, 1), UNREADABLE, MENDED, id="all of it, in order"),
        pytest.param("late", (1, 0), FAILING, MENDED, id="all of it, first"),
        pytest.param("alone", (0, 1), FAILING, MENDED[:1], id="the change alone, in order"),
        pytest.param("alone_late", (1, 0), UNREADABLE, MENDED[:1], id="the change alone, first"),
        pytest.param("one_hour", None, UNREADABLE, MENDED[:1], id="the change alone, in its hour"),
    ],
)
def test_a_mended_copy_publishes_its_transaction(
    spark: SparkSession, settings: Settings, tmp_path: Path, name: str, order: Sequence[int] | None, bad: list[Event],
    again: list[Event],
) -> None:  # fmt: skip
    pair = FeedPair(f"mended_{name}", tmp_path, spark, settings, **DEBEZIUM, **CHECKED)
    hours = [[*THERE, *bad], again] if order is not None else [[*THERE, *bad, *again]]
    run(pair, hours, order or (0,), settings)
    assert (ids(pair, "items"), ids(pair, "others")) == ({1: 5}, {2: 2})
    if order is not None:  # what is mended later is in no cut of before
        assert cut(pair, HOURS[0], settings) == ({1: 1}, {1: 1})
    assert [(r["hour"], r["stage"]) for r in list_kept_back(settings, pair.fixed)] == [(HOURS[0], "screen")]
    assert held_listing(settings, pair.fixed).rows == []
    assert hours_in_quarantine(settings, pair.fixed) == [HOURS[0]]
    if name == "alone":  # what was refused is so still, and alone
        pair.replay(HOURS[0])
        assert (ids(pair, "items"), ids(pair, "others")) == ({1: 5}, {2: 2})
        assert len(list_kept_back(settings, pair.fixed)) == 1
        assert [str(finding) for finding in audit(pair.feed(pair.fixed), settings).findings] == []


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["in order", "first"])
def test_where_transactions_are_split_a_cut_shows_the_rest_without_the_copy(
    spark: SparkSession, settings: Settings, tmp_path: Path, order: Sequence[int]
) -> None:
    split = {"transactions": {"bad": "split"}}
    pair = FeedPair(f"mended_split_{order[0]}", tmp_path, spark, settings, **DEBEZIUM, **split, **CHECKED)
    run(pair, [[*THERE, *FAILING], MENDED[:1]], order, settings)
    assert (ids(pair, "items"), ids(pair, "others")) == ({1: 5}, {2: 2})
    assert cut(pair, HOURS[0], settings) == ({1: 1}, {2: 2})


SPOILT: Event = MENDED[0] | {"value": json.dumps(json.loads(MENDED[0]["value"]) | {"op": "?"})}
FAILING_TWICE = transaction(2, ("u", "items", 1, 50), ("c", "others", 2, "none"), ("d", "others", 1, 0))


@pytest.mark.parametrize(
    ("name", "hours", "order", "stages"),
    [
        pytest.param(
            "middle",
            [[*THERE, FAILING[0]], MENDED[:1], FAILING[1:]],
            (2, 0, 1),
            ["screen"],
            id="between the hours that hold it",
        ),
        pytest.param(
            "undecodable",
            [[*THERE, SPOILT, *MENDED[1:]], MENDED[:1]],
            (0, 1),
            ["decode"],
            id="of an undecodable record",
        ),
        pytest.param(
            "undecodable_late",
            [[*THERE, SPOILT, *MENDED[1:]], MENDED[:1]],
            (1, 0),
            ["decode"],
            id="of an undecodable record, first",
        ),
        pytest.param(
            "two",
            [[*THERE, *FAILING_TWICE], MENDED[:1], MENDED[1:2]],
            (0, 2, 1),
            ["screen", "screen"],
            id="of two refused changes, one after the other",
        ),
        pytest.param(
            "both_bad",
            [[*THERE, *FAILING], UNREADABLE[:1], MENDED[:1]],
            (0, 1, 2),
            ["screen", "screen"],
            id="a second copy is refused too, the third is good",
        ),
        pytest.param(
            "before",
            [MENDED[:1], [*THERE, *FAILING]],
            (1, 0),
            ["screen"],
            id="in an older hour, which runs late",
        ),
    ],
)
def test_its_transaction_is_published_once_all_of_it_has_a_good_copy(
    spark: SparkSession, settings: Settings, tmp_path: Path, name: str, hours: Sequence[Sequence[Event]],
    order: Sequence[int], stages: list[str],
) -> None:  # fmt: skip
    pair = FeedPair(f"mended_{name}", tmp_path, spark, settings, **DEBEZIUM, **CHECKED)
    run(pair, hours, order[:-1], settings)
    assert name == "undecodable_late" or ids(pair, "items") == {1: 1}
    run(pair, [], order[-1:], settings)
    assert (ids(pair, "items"), ids(pair, "others")) == ({1: 5}, {2: 2})
    assert [row["stage"] for row in list_kept_back(settings, pair.fixed)] == stages
    assert held_listing(settings, pair.fixed).rows == []


@pytest.mark.parametrize("order", [None, (1, 0)], ids=["in one hour", "first"])
def test_a_mended_half_of_a_key_change_leaves_the_other_half_to_its_copy(
    spark: SparkSession, settings: Settings, tmp_path: Path, order: Sequence[int] | None
) -> None:
    """In no transaction: the row leaves its old key."""
    pair = FeedPair(f"mended_move_{order is None}".lower(), tmp_path, spark, settings, **ALONE, **CHECKED)
    hours = [[event("c", 1, image(1, 1)), *moved(20, 1, 11, 50)], moved(20, 1, 11, 4)]
    for hour, sent in zip(HOURS, hours if order else [[*hours[0], *hours[1]]], strict=False):
        pair.export(hour, sent)
    for number in order or (0,):
        pair.run(HOURS[number])
    assert ids(pair, "items") == {11: 4}
    if order is not None:  # as of the older hour both halves wait
        shown = json_lines(*read_snapshot(settings, f"{pair.fixed}.items", HOURS[0]))
        assert {row["id"]: row["n"] for row in map(json.loads, shown)} == {1: 1}
    assert [row["stage"] for row in list_kept_back(settings, pair.fixed)] == ["screen"]
    assert [str(finding) for finding in audit(pair.feed(pair.fixed), settings).findings] == []


def inserted(tx: int, *numbers: int, together: bool = False) -> list[Event]:
    """A transaction that inserts rows of a table without a key; ``together``: by one COPY, so at one place of the log."""
    *rows, end = transaction(tx, *(("c", "lines", 1, n) for n in numbers))
    values = [json.loads(one["value"]) for one in rows]
    for value in values if together else []:
        value["source"] |= {"sequence": values[0]["source"]["sequence"], "lsn": values[0]["source"]["lsn"]}
    return [
        *(one | {"key": None, "value": json.dumps(value)} for one, value in zip(rows, values, strict=True)), end
    ]  # fmt: skip


@pytest.mark.parametrize("bad", ["split", "hold"])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["in order", "first"])
def test_a_replay_without_the_check_takes_up_no_change_beside_its_good_copy(
    spark: SparkSession, settings: Settings, tmp_path: Path, bad: str, order: Sequence[int]
) -> None:
    """In a table without a key the refused change would be a row beside its copy. Other rows of its COPY are no copies."""
    table: dict[str, Any] = {"key": [], "columns": {"id": "bigint", "n": "int"}}
    checked = table | {"checks": [{"column": "n", "max": 9, "consequence": "quarantine"}]}
    options = DEBEZIUM | {"transactions": {"bad": bad}, "tables": {"s.lines": checked}}
    pair = FeedPair(f"mended_lines_{bad}_{order[0]}", tmp_path, spark, settings, **options)
    copied = inserted(3, 70, 7, together=True)
    again = [one | {"offset": one["offset"] + 1000} for one in inserted(2, 5, 2)]
    run(pair, [[*inserted(1, 1), *inserted(2, 50, 2), *copied], again], order, settings)
    rows = [1, 2, 5, 7] if bad == "split" else [1, 2, 5]
    assert sorted(row["n"] for row in pair.rows(pair.fixed, "lines")) == rows
    receipt = pair.replay(HOURS[0], tables={"s.lines": table})
    assert receipt is not None
    receipt.balance()
    assert sorted(row["n"] for row in pair.rows(pair.fixed, "lines")) == [1, 2, 5, 7, 70]
    assert list_kept_back(settings, pair.fixed) == []
    (told,) = receipt.tables
    assert [text for text in told.warnings if "1 changes came again with other content" in text]
    assert told.counts.duplicate == (1 if order == (0, 1) else 2)  # its neighbour too, where the copy's hour was first
    assert [str(one) for one in audit(pair.feed(pair.fixed, tables={"s.lines": table}), settings).findings] == []


def dataworks_row(op: str, number: int, id_: int | None = None) -> Sent:
    values = None if id_ is None else {"id": id_, "n": number, "s": "x", "big": "y"}
    return Sent(Message(f"{op} {number}"), TOPICS[0], _message(op, number, "a" if values else None, None, values))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=str)
def test_where_only_markers_tell_it_is_told_by_its_position(
    spark: SparkSession, settings: Settings, tmp_path: Path, order: Sequence[int]
) -> None:
    name = "mended_markers_" + "".join(map(str, order))
    feed = Exports(Format("dataworks", dataworks, "kafka_json", stream=True), tmp_path, settings, name)
    begun, ended = dataworks_row("TRANSACTION_BEGIN", 100), dataworks_row("TRANSACTION_END", 110)
    bad, good = dataworks_row("UPSERT", 103, 2), dataworks_row("INSERT", 103, 2)
    sent = [[begun, dataworks_row("INSERT", 101, 1), bad, ended], [begun, good, ended]]
    for number in order:
        feed.run(HOURS[number], sent[number])
    assert set(feed.rows("a")) == {1, 2}
    assert [row["stage"] for row in list_kept_back(settings, name)] == ["decode"]
    assert [str(finding) for finding in audit(feed.feed, settings).findings] == []
