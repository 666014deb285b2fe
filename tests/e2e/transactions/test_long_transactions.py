"""DataWorks' transactions over hours, and what comes again of them: whole or not at all, in any order of hours."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.convergence import dataworks
from tests.convergence.dataworks import TOPICS, _message
from tests.convergence.oracle import Message
from tests.convergence.wire import Format, Sent
from tests.e2e.change_exports import HOURS, Exports
from tidemark.errors import ConfigError
from tidemark.ledger.quarantine import hours_in_quarantine, list_kept_back
from tidemark.operations.audit import audit
from tidemark.operations.read_table import json_lines, read_snapshot
from tidemark.pipeline.hour import replay_hour
from tidemark.settings import Settings

pytestmark = pytest.mark.promise(3)

FORMAT = Format("dataworks", dataworks, "kafka_json", stream=True)


def sent(op: str, number: int, id_: int | None = None) -> Sent:
    image = None if id_ is None else {"id": id_, "n": number, "s": "x", "big": "y"}
    before, after = (image, None) if op == "DELETE" else (None, image)
    return Sent(Message(f"{op} {number}"), TOPICS[0], _message(op, number, "a" if image else None, before, after))


def row(number: int) -> Sent:
    return sent("INSERT", number, number)


def begin(number: int) -> Sent:
    return sent("TRANSACTION_BEGIN", number)


def end(number: int, op: str = "TRANSACTION_END") -> Sent:
    return sent(op, number)


EARLY = [begin(20), row(25), end(30)]
EARLIER = [begin(100), row(105), end(110)]


def long(verdict: str) -> list[list[Sent]]:
    """The hours of a transaction from 200 to 300."""
    return [
        [*EARLIER, row(150), begin(200), row(205)],
        # no marker of its own; what was whole before comes again, with its markers and without its begin
        [row(105), end(110), row(225), sent("DELETE", 226, 150)],
        [row(255), end(300, verdict), row(310)],
    ]


def wanted(landed: Collection[int], verdict: str) -> set[int]:
    """What hours 0, 1, 2 that have landed come to. Without the begin nothing shows that the middle is part of anything."""
    found = ({105, 150} if 0 in landed else set()) | ({310} if 2 in landed else set())
    committed = {0, 2} <= set(landed) and verdict == "TRANSACTION_END"
    if 1 in landed and (0 not in landed or committed):
        found = found - {150} | {225}
    return found | ({205, 255} if committed else set())


def ids(exports: Exports, hour: str | None = None) -> set[int]:
    try:
        rows, key = read_snapshot(exports.settings, f"{exports.name}.a", hour)
    except ConfigError:
        return set()
    return {json.loads(line)["id"] for line in json_lines(rows, key)}


def run_all(exports: Exports, order: tuple[int, ...], verdict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hours = long(verdict)
    for count, hour in enumerate(order, 1):
        exports.run(HOURS[hour], hours[hour])
        landed = order[:count]
        assert ids(exports) == wanted(landed, verdict), (landed, verdict)
        then = [other for other in landed if other <= hour]
        assert ids(exports, HOURS[hour]) == wanted(then, verdict), (landed, verdict, "the cut")
    assert exports.held(monkeypatch) == [], order


def fold_again(exports: Exports, order: tuple[int, ...], verdict: str) -> None:
    """An hour more, with keys that are folded again, from the log."""
    exports.run(HOURS[3], [sent("DELETE", 309, 105), row(320)])
    assert ids(exports) == wanted(order, verdict) - {105} | {320}, order


@pytest.mark.full
def test_the_middle_of_a_transaction_has_no_marker_of_its_own(
    spark: SparkSession, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for all that, and shows with the rest."""
    exports = Exports(FORMAT, tmp_path, settings, "middle")
    run_all(exports, (0, 1, 2), "TRANSACTION_END", monkeypatch)


#: Each order once. The middle hour has no marker: that it comes last or first is the hard case of a commit.
ORDERS = [
    *((order, "TRANSACTION_END") for order in ((0, 1, 2), (0, 2, 1), (1, 2, 0))),
    *((order, "XAROLLBACK") for order in ((1, 0, 2), (2, 0, 1), (2, 1, 0))),
]


@pytest.mark.full
@pytest.mark.parametrize(
    ("order", "verdict"), [pytest.param(*one, id=f"{''.join(map(str, one[0]))} {one[1]}") for one in ORDERS]
)
def test_a_transaction_over_three_hours(
    spark: SparkSession,
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    order: tuple[int, ...],
    verdict: str,
) -> None:
    """In every order, and in every table of the way: what has landed says what shows."""
    name = f"long_{''.join(map(str, order))}_{verdict[0].lower()}"
    exports = Exports(FORMAT, tmp_path, settings, name)
    run_all(exports, order, verdict, monkeypatch)
    fold_again(exports, order, verdict)
    assert audit(exports.feed, settings).findings == []


@pytest.mark.full
def test_what_comes_again_is_no_transaction_of_its_own(
    spark: SparkSession, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exports = Exports(FORMAT, tmp_path, settings, "again")
    exports.run(HOURS[0], [*EARLIER, begin(160), row(165), end(170), begin(200), row(205)])
    # the end of what went on, and a tail: without its begin it is a duplicate
    exports.run(HOURS[1], [row(165), end(170), row(207), end(210), row(220), begin(240), row(245), end(250)])
    assert exports.held(monkeypatch) == []
    assert ids(exports) == {105, 165, 205, 207, 220, 245}
    # a head comes again: its begin is not that of the end which is next in this hour
    exports.run(HOURS[2], [begin(300), row(305)])
    receipt = exports.run(HOURS[3], [begin(240), row(245), row(307), end(310), row(320)])
    assert receipt.counts.duplicate == 1
    assert exports.held(monkeypatch) == []
    assert ids(exports) == {105, 165, 205, 207, 220, 245, 305, 307, 320}
    assert audit(exports.feed, settings).findings == []


@pytest.mark.full
def test_the_cut_of_a_late_middle_shows_nothing_of_it(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    """The cut before it, made when nothing showed what the hour's rows are part of, does."""
    exports = Exports(FORMAT, tmp_path, settings, "late_middle")
    first, middle, last = long("TRANSACTION_END")
    exports.run(HOURS[1], middle)
    exports.run(HOURS[3], last)
    exports.run(HOURS[0], first)
    assert ids(exports) == {105, 205, 225, 255, 310}
    exports.run(HOURS[2], [row(240)])
    assert ids(exports, HOURS[2]) == {105, 150}
    assert ids(exports) == {105, 205, 225, 240, 255, 310}
    assert audit(exports.feed, settings).findings == []


@pytest.mark.full
def test_rows_before_an_end_wait_for_its_begin_whatever_was_open_before(
    spark: SparkSession, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last hour comes before the middle one. A transaction that is in both shows that the end behind it is not that of
    what the first hour left open; but its markers are neither the first nor the last ones of the hour."""
    exports, whole = Exports(FORMAT, tmp_path, settings, "whose_end"), [begin(200), row(205), end(210)]
    exports.run(HOURS[0], [*EARLY, row(50), begin(100), row(105)])
    exports.run(HOURS[2], [*EARLY, *whole, row(310), sent("DELETE", 311, 50), end(320), begin(500), row(505), end(510)])
    assert ids(exports) == {25, 50, 205, 505}
    exports.run(HOURS[1], [end(110), *whole, begin(300), row(305)])
    assert ids(exports) == {25, 105, 205, 305, 310, 505} and exports.held(monkeypatch) == []
    assert audit(exports.feed, settings).findings == []


@pytest.mark.full
@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (2, 1, 0)], ids=lambda order: "".join(map(str, order)))
def test_a_row_that_comes_again_is_not_in_the_transaction_before_it(
    spark: SparkSession, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: tuple[int, ...]
) -> None:
    """Whatever an hour shows of a transaction to others, it shows where that ends: in front, where the exporter began anew,
    in the middle, where the source lost the end, and at the end."""
    exports = Exports(FORMAT, tmp_path, settings, f"outside_{''.join(map(str, order))}")
    front = [end(110), begin(200), row(205), begin(200), row(205), end(210), row(220)]
    lost = [begin(230), row(235), begin(240), row(245), end(250), row(260)]
    last = [begin(280), row(285), end(290), row(295), begin(300), row(305), end(310), begin(400), row(405)]
    hours = [
        [*EARLY, begin(100), row(105)],
        [*front, *lost, *last],
        # without any marker of what is around them
        [row(220), row(260), row(295), end(410), row(420)],
    ]
    for hour in order:
        exports.run(HOURS[hour], hours[hour])
    waits = ["tx:17951328000000000230", HOURS[1], "1", f"{exports.name}.a", "its end and 1 of 2 parts"]
    assert exports.held(monkeypatch) == [waits]
    assert ids(exports) == {25, 105, 205, 220, 245, 260, 285, 295, 305, 405, 420}
    assert audit(exports.feed, settings).findings == []


@pytest.mark.full
@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0)], ids=lambda order: "".join(map(str, order)))
def test_what_showed_before_its_transaction_did_waits_with_a_change_of_it_that_is_refused(
    spark: SparkSession, settings: Settings, tmp_path: Path, order: tuple[int, ...]
) -> None:
    """The hour in the middle has no marker: its rows show where it is run first, but for the one that fails a check."""
    name = f"refused_{order[0]}"
    check = {"column": "n", "isin": [105, 150, 205, 225, 255], "consequence": "quarantine"}
    table = {"name": f"{name}.a", "checks": [check]}
    keys = {"tables": {"c.a": table}, "quarantine": {"limit": 1.0}}
    exports, (first, _, _) = Exports(FORMAT, tmp_path, settings, name, **keys), long("TRANSACTION_END")
    hours = [first, [row(225), row(226)], [row(255), end(300)]]
    for hour in order:
        exports.run(HOURS[hour], hours[hour])
    assert ids(exports) == {105, 150}
    assert audit(exports.feed, settings).findings == []
    mended = Exports(FORMAT, tmp_path, settings, name, tables={"c.a": {"name": f"{name}.a"}})
    for hour in hours_in_quarantine(settings, name):
        replay_hour(mended.feed, hour, settings)
    assert ids(exports) == {105, 150, 205, 225, 226, 255}
    assert audit(mended.feed, settings).findings == []


@pytest.mark.full
@pytest.mark.parametrize("order", [(0, 2, 1), (2, 0, 1)], ids=lambda order: "".join(map(str, order)))
def test_a_transaction_that_ends_earlier_than_it_seemed_is_judged_anew(
    spark: SparkSession, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: tuple[int, ...]
) -> None:
    """The hour in the middle holds the end of one and the begin of the next: without it both are one."""
    exports, back = Exports(FORMAT, tmp_path, settings, f"earlier_{order[0]}"), "XAROLLBACK"
    hours = [
        [
            row(11),
            row(12),
            begin(100),
            sent("DELETE", 105, 11),
            row(106),
            begin(200),
            sent("DELETE", 205, 12),
            row(206),
        ],
        [end(110), begin(120), end(210, back), begin(220)],
        [row(125), end(130, back), row(225), end(230)],
    ]
    for hour in order:
        exports.run(HOURS[hour], hours[hour])
    assert ids(exports) == {12, 106, 225} and exports.held(monkeypatch) == []
    assert ids(exports, HOURS[1]) == {12, 106}
    assert audit(exports.feed, settings).findings == []


@pytest.mark.full
@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1)], ids=lambda order: "".join(map(str, order)))
def test_what_proves_to_be_of_no_refused_transaction_leaves_quarantine(
    spark: SparkSession, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: tuple[int, ...]
) -> None:
    """Without the hour in the middle all that follows a begin is of one transaction: of the first a change is refused. The
    second never ended, and is held."""
    name = f"not_of_it_{order[1]}"
    check = {"column": "n", "isin": [115, 125, 205, 225], "consequence": "quarantine"}
    keys = {"tables": {"c.a": {"name": f"{name}.a", "checks": [check]}}, "quarantine": {"limit": 1.0}}
    exports = Exports(FORMAT, tmp_path, settings, name, **keys)
    hours = [
        [begin(100), row(105), begin(200), row(205)],
        [end(110), begin(120), begin(220)],
        [row(115), row(125), end(130), row(225), end(230)],
    ]
    for hour in order:
        exports.run(HOURS[hour], hours[hour])
    assert ids(exports) == {115, 125, 225}
    assert [line[0] for line in exports.held(monkeypatch)] == ["tx:17951328000000000200"]
    kept = [(line["hour"][-2:], line["stage"]) for line in list_kept_back(settings, name)]
    assert kept == [("00", "screen")]
    assert audit(exports.feed, settings).findings == []
