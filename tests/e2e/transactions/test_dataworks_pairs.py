"""DataWorks' updates of two messages: one change, wherever an hour or an object ends between the two."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.convergence import dataworks
from tests.convergence.dataworks import TOPICS, _message
from tests.convergence.oracle import Message
from tests.convergence.wire import Format, Sent
from tests.e2e.change_exports import HOURS, Exports
from tidemark.ledger.receipts import Receipt
from tidemark.operations.audit import audit
from tidemark.operations.explain_row import explain_row
from tidemark.pipeline.hour import run_hour
from tidemark.settings import Settings
from tidemark_samples import exporting
from tidemark_samples.exporting import write_export

pytestmark = [pytest.mark.promise(2, 3), pytest.mark.full]

FORMAT = Format("dataworks", dataworks, "kafka_json", stream=True)
ROWS = (1, 2, 3)


def sent(op: str, number: int, before: dict[str, Any] | None = None, after: dict[str, Any] | None = None) -> Sent:
    table = "a" if before or after else None
    return Sent(Message(f"{op} {number}"), TOPICS[0], _message(op, number, table, before, after))


def image(id_: int, n: int) -> dict[str, Any]:
    return {"id": id_, "n": n, "s": "x", "big": "y"}


def halves(number: int, old: tuple[int, int], new: tuple[int, int]) -> list[Sent]:
    """The two messages of an update, of the row (id, n)."""
    return [sent("UPDATE_BEFOR", number, before=image(*old)), sent("UPDATE_AFTER", number, after=image(*new))]


def statement(*moves: tuple[int, int]) -> list[Sent]:
    """One that gives rows other keys, of which each was there with ten times its key in ``n``."""
    return [one for at, (old, new) in enumerate(moves) for one in halves(100 + at, (old, 10 * old), (new, 10 * old))]


THERE = [sent("INSERT", id_, after=image(id_, 10 * id_)) for id_ in ROWS]
PLUS_ONE = statement((1, 2), (2, 3), (3, 4))
SWAP = statement((1, 2), (2, 1))
MOVED, SWAPPED = {2: 10, 3: 20, 4: 30}, {1: 20, 2: 10, 3: 30}


def exports(out: Path, settings: Settings, name: str, *, transactions: bool) -> Exports:
    return Exports(FORMAT, out, settings, name, format={"type": "dataworks", "transactions": transactions})


def run_objects(exports: Exports, hour: str, objects: list[list[Sent]]) -> Receipt:
    """Write an hour's export as these objects, and run it."""
    messages = [
        [
            exporting.Message(
                topic=TOPICS[0],
                partition=0,
                offset=100 + at,
                sent_at=datetime(2026, 11, 20),
                key=one.key,
                value=one.value,
            )
            for at, one in enumerate(of)
        ]
        for of in objects
    ]
    write_export(exports.out, TOPICS[0], hour, messages, FORMAT.container)
    return run_hour(exports.feed, hour, exports.settings)


def shown(exports: Exports) -> dict[int, int]:
    return {id_: n for id_, (n, _) in exports.rows("a").items()}


@pytest.mark.parametrize(
    ("messages", "cut", "wanted", "transactions"),
    [
        pytest.param(PLUS_ONE, 6, MOVED, False, id="id + 1, no markers"),
        pytest.param(PLUS_ONE, 1, MOVED, True, id="id + 1 cut in 1"),
        pytest.param(SWAP, 1, SWAPPED, True, id="swap cut in 1"),
        pytest.param(SWAP, 2, SWAPPED, True, id="swap cut between"),
        pytest.param(SWAP, 3, SWAPPED, False, id="swap cut in 2, no markers"),
    ],
)
def test_rows_that_move_onto_each_other_are_all_there(
    spark: SparkSession, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, messages: list[Sent],
    cut: int, wanted: dict[int, int], transactions: bool,
) -> None:  # fmt: skip
    feed = exports(tmp_path, settings, f"pairs_{len(messages)}_{cut}_{transactions}".lower(), transactions=transactions)
    feed.run(HOURS[0], THERE)
    feed.run(HOURS[1], messages[:cut])
    if cut % 2:
        assert [line[0] for line in feed.held(monkeypatch)] == [f"pair:c.a:{17951328 * 10**12 + 100 + cut // 2}"]
    feed.run(HOURS[2], messages[cut:])
    assert shown(feed) == wanted
    assert feed.held(monkeypatch) == []
    known = settings.model_copy(update={"feeds": tmp_path / "feeds"})
    for id_, n in wanted.items():  # also of a row after an update whose row before is in another hour
        found = explain_row(known, f"{feed.name}.a", [str(id_)])
        assert found.given is not None
        assert found.given["n"].sent["n"] == str(n)
    # What comes again is known.
    receipt = feed.run(HOURS[3], messages)
    assert (shown(feed), receipt.counts.duplicate, receipt.held) == (wanted, len(messages), 0)
    assert audit(feed.feed, settings).findings == []


@pytest.mark.parametrize("order", [(1, 2), (2, 1)], ids=str)
def test_in_a_transaction_that_two_hours_share(
    spark: SparkSession, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: tuple[int, int]
) -> None:
    feed = exports(tmp_path, settings, f"pairs_tx_{order[0]}", transactions=True)
    parts = {1: [sent("TRANSACTION_BEGIN", 99), *SWAP[:1]], 2: [*SWAP[1:], sent("TRANSACTION_END", 110)]}
    feed.run(HOURS[0], THERE)
    feed.run(HOURS[order[0]], parts[order[0]])
    assert shown(feed) == {1: 10, 2: 20, 3: 30}
    feed.run(HOURS[order[1]], parts[order[1]])
    assert shown(feed) == SWAPPED
    assert feed.held(monkeypatch) == []
    assert audit(feed.feed, settings).findings == []


def test_in_two_versions_of_an_hour(
    spark: SparkSession, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hour is exported again, with an object more that holds the other half."""
    feed = exports(tmp_path, settings, "pairs_again", transactions=True)
    feed.run(HOURS[0], THERE)
    for objects in ([SWAP[:1]], [SWAP[:1], SWAP[1:]]):
        receipt = run_objects(feed, HOURS[1], objects)
    assert (shown(feed), receipt.landed) == (SWAPPED, 4)
    assert feed.held(monkeypatch) == []
    assert audit(feed.feed, settings).findings == []


def test_an_object_that_changes_is_understood_by_all_of_its_hour(
    spark: SparkSession, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two objects one lands again, with a message more. What its messages are halves of, or the end of, is in the other
    one, which does not land again."""
    feed = exports(tmp_path, settings, "pairs_of_objects", transactions=True)
    before, after = sent("UPDATE_BEFOR", 100, before=image(1, 10)), sent("UPDATE_AFTER", 100, after={"id": 1, "n": 11})
    begin, taken_back = sent("TRANSACTION_BEGIN", 110), sent("XAROLLBACK", 119)
    doomed = sent("UPDATE_AFTER", 111, {"id": 2}, {"id": 2, "n": 21})
    first, second = (
        [before, sent("TRANSACTION_BEGIN", 50), begin],
        [sent("TRANSACTION_END", 52), after, doomed, taken_back],
    )
    more = [*second, sent("UPDATE_AFTER", 130, {"id": 3}, {"id": 3, "n": 31})]
    feed.run(HOURS[0], THERE)
    receipt = run_objects(feed, HOURS[1], [first, second])
    assert (shown(feed), receipt.quarantined, receipt.control) == ({1: 11, 2: 20, 3: 30}, 0, 5)
    receipt = run_objects(feed, HOURS[1], [first, more])
    assert (shown(feed), receipt.quarantined, receipt.control) == ({1: 11, 2: 20, 3: 31}, 0, 8)
    assert (receipt.landed, receipt.held, feed.held(monkeypatch)) == (12, 0, [])
    assert audit(feed.feed, settings).findings == []


@pytest.mark.parametrize("order", [(1, 2), (2, 1)], ids=str)
def test_a_second_half_behind_the_end_of_its_transaction(
    spark: SparkSession, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: tuple[int, int]
) -> None:
    """Markers count no rows, so that the first half is published without it. The transaction is one among others in its hour,
    of which no other hour knows."""
    feed = exports(tmp_path, settings, f"pairs_behind_{order[0]}", transactions=True)
    first, second = halves(100, (1, 10), (1, 11))
    around = [(50, 52), (60, 62), (99, 110), (120, 122), (130, 132)]
    markers = [(begin, end, sent("TRANSACTION_BEGIN", begin), sent("TRANSACTION_END", end)) for begin, end in around]
    messages = [one for at, _, begin, end in markers for one in (begin, *([first] if at == 99 else []), end)]
    feed.run(HOURS[0], THERE)
    for hour in order:
        feed.run(HOURS[hour], {1: messages, 2: [second]}[hour])
    assert (shown(feed), feed.held(monkeypatch)) == ({1: 11, 2: 20, 3: 30}, [])
    assert audit(feed.feed, settings).findings == []
