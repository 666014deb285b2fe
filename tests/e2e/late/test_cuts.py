"""Cuts: an hour's cut shows nothing that landed in a later hour, and stays as it was cited, in whatever order hours run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tests.e2e.debezium_messages import COLUMNS, HOURS, TRANSACTIONS, end, event, part, row
from tests.e2e.feed_pair import FeedPair
from tests.e2e.qlik_messages import in_kafka
from tests.e2e.qlik_messages import qlik as message_of
from tests.unit.formats.qlik_messages import metadata
from tidemark.cli import app
from tidemark.errors import CheckError, ConfigError
from tidemark.operations.audit import audit
from tidemark.operations.read_table import came_after_cut, json_lines, read_snapshot
from tidemark.operations.reports import newest_receipts
from tidemark.pipeline import hour as run
from tidemark.pipeline import late_cuts
from tidemark.pipeline.late_hour import LateHour
from tidemark.settings import Settings

pytestmark = [pytest.mark.promise(2, 6)]

ABSENT = "__debezium_unavailable_value"
LATE = {"s.items": {"columns": COLUMNS}, "s.lines": {"columns": {"id": "bigint", "n": "int"}, "key": []}}  # fmt: skip


def cut(settings: Settings, table: str, hour: str | None = None) -> list[dict[str, Any]] | None:
    """The rows of a table at an hour's cut, or now; None where there is no such cut."""
    try:
        rows, key = read_snapshot(settings, table, hour)
    except ConfigError:
        return None
    return [json.loads(line) for line in json_lines(rows, key)]


def line(lsn: int, n: int) -> dict[str, Any]:
    return event("c", lsn, {"id": 1, "n": n}, table="lines") | {"key": None}


@pytest.mark.full
def test_an_hour_that_comes_again_leaves_the_cuts_as_they_were(
    tmp_path: Path, spark: SparkSession, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = {"s.items": {"columns": COLUMNS}}
    pair = FeedPair("cut_again", tmp_path, spark, settings, format={"type": "debezium"}, tables=tables)
    items = f"{pair.fixed}.items"
    pair.export(HOURS[0], [event("c", 1, row(1, 1)), event("c", 2, row(2, 2))])
    pair.export(HOURS[1], [event("u", 10, row(1, 5)), event("d", 11, None, key={"id": 2})])
    first = pair.run(HOURS[0])
    pair.run(HOURS[1])
    cited = {hour: cut(settings, items, hour) for hour in HOURS[:2]}
    assert cited == {HOURS[0]: [row(1, 1), row(2, 2)], HOURS[1]: [row(1, 5)]}
    pair.export(HOURS[0], [event("c", 1, row(1, 1)), event("c", 3, row(3, 3))])
    again = pair.run(HOURS[0])
    assert (again.sequence, again.cut_by, again.counts.duplicate) == (3, first.sequence, 1)
    assert {hour: cut(settings, items, hour) for hour in HOURS[:2]} == cited
    assert cut(settings, items) == [row(1, 5), row(3, 3)]
    assert [came_after_cut(settings, items, hour) for hour in HOURS[:2]] == [[HOURS[0]], [HOURS[0]]]
    said = [receipt.notes for receipt in newest_receipts(settings, pair.fixed)]
    assert said == [["its cut: 1 hour came later (2026-11-20T00)"]] * 2
    monkeypatch.setenv("TIDEMARK_HOME", str(settings.home))
    shown = CliRunner().invoke(app, ["show", items, "--as-of", HOURS[1]])
    assert f"{items}: 1 hour came later (2026-11-20T00); the cut stays as it was made" in shown.output
    assert [str(finding) for finding in audit(pair.feed(pair.fixed), settings).findings] == []


@pytest.mark.full
def test_after_an_hour_that_runs_again_twice_the_next_cut_has_all_of_it(
    tmp_path: Path, spark: SparkSession, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = {"s.items": {"columns": COLUMNS}, "s.others": {"columns": COLUMNS}}
    pair = FeedPair("cut_again_twice", tmp_path, spark, settings, format={"type": "debezium"}, tables=tables)
    items, others = f"{pair.fixed}.items", f"{pair.fixed}.others"
    pair.export(HOURS[0], [event("c", 1, row(1, 1)), event("c", 2, row(2, 2))])
    pair.export(HOURS[1], [event("u", 10, row(1, 5)), event("d", 11, None, key={"id": 2})])
    first = pair.run(HOURS[0])
    pair.run(HOURS[1])
    cited = {hour: cut(settings, items, hour) for hour in HOURS[:2]}
    assert cited == {HOURS[0]: [row(1, 1), row(2, 2)], HOURS[1]: [row(1, 5)]}
    pair.export(HOURS[0], [event("c", 1, row(1, 1))])  # nothing in it is new
    assert pair.run(HOURS[0]).counts.duplicate == 1
    pair.export(HOURS[0], [event("c", 3, row(3, 3)), event("c", 4, row(4, 4), table="others")])
    again = pair.run(HOURS[0])
    assert (again.sequence, again.cut_by) == (4, first.sequence)
    assert {hour: cut(settings, items, hour) for hour in HOURS[:2]} == cited
    assert cut(settings, items) == [row(1, 5), row(3, 3)]
    assert cut(settings, others, HOURS[0]) is None, "the table was not there when the cut was made"
    assert [came_after_cut(settings, items, hour) for hour in HOURS[:2]] == [[HOURS[0]], [HOURS[0]]]
    said = [receipt.notes for receipt in newest_receipts(settings, pair.fixed)]
    assert said == [["its cut: 1 hour came later (2026-11-20T00)"]] * 2
    monkeypatch.setenv("TIDEMARK_HOME", str(settings.home))
    shown = CliRunner().invoke(app, ["show", items, "--as-of", HOURS[1]])
    assert f"{items}: 1 hour came later (2026-11-20T00); the cut stays as it was made" in shown.output
    pair.export(HOURS[2], [])
    pair.run(HOURS[2])
    assert came_after_cut(settings, items, HOURS[2]) == []
    assert cut(settings, items, HOURS[2]) == [row(1, 5), row(3, 3)]
    assert cut(settings, others, HOURS[2]) == [row(4, 4)]
    assert [str(finding) for finding in audit(pair.feed(pair.fixed), settings).findings] == []


def test_an_hour_that_first_runs_late_gets_a_cut_of_its_own(
    tmp_path: Path, spark: SparkSession, settings: Settings
) -> None:
    """The cut before it and its own changes: no row, delete or truncate of a later hour."""
    tables = {"s.items": {"columns": COLUMNS}}
    pair = FeedPair("cut_late", tmp_path, spark, settings, format={"type": "debezium"}, tables=tables)
    hours = [
        [event("c", n, row(n, n, f"b{n}")) for n in (1, 2, 3)],
        [event("u", 1000, row(1, 10, ABSENT)), event("d", 1001, None, key={"id": 2}), event("c", 1002, row(4, 4))],
        [event("u", 2000, row(1, 20, "late")), event("d", 2001, None, key={"id": 3}), event("t", 2002, None),
         event("c", 2003, row(9, 9))],
    ]  # fmt: skip
    for hour, records in zip(HOURS, hours, strict=False):
        pair.export(hour, records)
    for number in (0, 2, 1):
        pair.run(HOURS[number])
    at_0 = [row(n, n, f"b{n}") for n in (1, 2, 3)]
    at_1 = [row(1, 10, "b1"), row(3, 3, "b3"), row(4, 4)]
    name = f"{pair.fixed}.items"
    assert [cut(settings, name, hour) for hour in HOURS[:3]] == [at_0, at_1, [row(9, 9)]]
    assert cut(settings, name) == [row(9, 9)]
    assert [str(finding) for finding in audit(pair.feed(pair.fixed), settings).findings] == []


@pytest.mark.parametrize("cuts", ["keep", pytest.param("amend", marks=pytest.mark.full)])
def test_what_only_the_cut_of_a_late_hour_shows_meets_the_checks(
    tmp_path: Path, spark: SparkSession, settings: Settings, cuts: str
) -> None:
    """The hour stops as it would in order. A row of before that fails is not the hour's, and a value that an update does not
    send is not judged again."""
    checks: list[dict[str, Any]] = [
        {"column": "n", "max": 9},
        {"column": "big", "pattern": "^b", "consequence": "warn"},
    ]
    tables = {"s.items": {"columns": COLUMNS, "checks": checks}}
    pair = FeedPair(f"cut_checked_{cuts}", tmp_path, spark, settings, format={"type": "debezium"}, tables=tables)
    unchecked, items = {"s.items": {"columns": COLUMNS}}, f"{pair.fixed}.items"
    pair.export(
        HOURS[0], [event("c", 1, row(1, 1, "b1")), event("c", 2, row(2, 70, "b2")), event("c", 3, row(3, 3, "b3"))]
    )
    pair.export(HOURS[1], [event("u", 10, row(1, 50, "b")), event("u", 11, row(3, 4, ABSENT))])
    pair.export(HOURS[2], [event("u", 20, row(n, 2, "b")) for n in (1, 2, 3)])
    pair.run(HOURS[0], tables=unchecked)
    pair.run(HOURS[2], cuts=cuts)
    shown = cut(settings, items)
    with pytest.raises(
        CheckError, match=f"hour {HOURS[1]}: .*{items}: the cut of {HOURS[1]} shows 1 rows that fail n <= 9"
    ):
        pair.run(HOURS[1], cuts=cuts)
    assert cut(settings, items) == shown and cut(settings, items, HOURS[1]) is None
    checks[0]["max"] = 50
    receipt = pair.run(HOURS[1], cuts=cuts)
    assert not [note for note in receipt.notes if "that fail" in note]
    assert cut(settings, items, HOURS[1]) == [row(1, 50, "b"), row(2, 70, "b2"), row(3, 4, "b3")]
    pair.export(HOURS[1], [event("u", 12, row(3, 60, "x"))])
    if cuts == "keep":  # the cut stays as it was cited, and nothing of this shows
        assert not [note for note in pair.run(HOURS[1], cuts=cuts).notes if "that fail" in note]
    else:
        with pytest.raises(CheckError, match="shows 1 rows that fail n <= 50"):
            pair.run(HOURS[1], cuts=cuts)
        checks[0]["consequence"] = "warn"
        notes = pair.run(HOURS[1], cuts=cuts).notes
        assert [note for note in notes if "that fail" in note] == [
            f"{items}: the cut of {HOURS[1]} shows 1 rows that fail {check}" for check in ("n <= 50", "big matches ^b")
        ]


@pytest.mark.full
def test_a_late_hour_that_is_finished_under_another_name_has_its_cut(
    tmp_path: Path, spark: SparkSession, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its run died when it was validated, and then the feed file gave the table another name. So does a table that the hour
    does not touch."""
    tables = {"s.items": {"columns": COLUMNS}, "s.others": {"columns": COLUMNS}}
    pair = FeedPair("cut_named", tmp_path, spark, settings, format={"type": "debezium"}, tables=tables)
    for hour, lsn in ((HOURS[0], 1), (HOURS[1], 10), (HOURS[2], 20)):
        others = [] if lsn == 10 else [event("c", lsn + 1, row(lsn, lsn), table="others")]
        pair.export(hour, [event("c", lsn, row(lsn, lsn)), *others])
    pair.run(HOURS[0])
    pair.run(HOURS[2])

    def dies(*_: object) -> None:
        raise RuntimeError("the machine died")

    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr(run, "publish", dies)
        pair.run(HOURS[1])
    names = {source: {**table, "name": f"{pair.fixed}.new_{source[2:]}"} for source, table in tables.items()}
    pair.run(HOURS[1], tables=names)
    assert cut(settings, f"{pair.fixed}.items", HOURS[1]) == [row(1, 1), row(10, 10)]
    assert cut(settings, f"{pair.fixed}.others", HOURS[1]) == [row(1, 1)]
    assert cut(settings, f"{pair.fixed}.items") == [row(1, 1), row(10, 10), row(20, 20)]


@pytest.mark.full
def test_of_two_late_hours_each_gets_a_cut_of_its_own(tmp_path: Path, spark: SparkSession, settings: Settings) -> None:
    """In tables of every kind, and with no end of a transaction of a later hour; the newer of the two keeps its cut as it
    was cited."""
    pair = FeedPair("cut_late_two", tmp_path, spark, settings, **TRANSACTIONS, tables=LATE)
    hours: dict[str, list[dict[str, Any]]] = {hour: [] for hour in HOURS[:4]}
    hours[HOURS[0]] += [event("c", n, row(n, n, f"b{n}")) for n in (1, 2, 3)]
    hours[HOURS[1]] += [
        event("u", 1000, row(1, 10, ABSENT)), event("d", 1001, None, key={"id": 2}),
        event("c", 1002, row(4, 4)),
        part(event("c", 1003, row(7, 7)), "9", 1),
    ]  # fmt: skip
    hours[HOURS[2]] += [
        event("u", 2000, row(1, 20, "late")), event("d", 2001, None, key={"id": 3}),
        event("c", 2002, row(2, 22)),
    ]  # fmt: skip
    hours[HOURS[3]] += [event("t", 3000, None), event("c", 3001, row(9, 9))]
    hours[HOURS[0]].append(line(501, 1))
    hours[HOURS[1]].append(line(1501, 2))
    hours[HOURS[2]].append(line(2501, 3))
    for hour, records in hours.items():
        pair.export(hour, records)
        pair.export(hour, [end("9", 1)] if hour == HOURS[2] else [], "tx")
    at_0 = [row(n, n, f"b{n}") for n in (1, 2, 3)]
    at_1 = [row(1, 10, "b1"), row(3, 3, "b3"), row(4, 4)]
    at_2 = [row(1, 20, "late"), row(2, 22)]  # as it was cited: hour 1 came after it
    at_3 = [row(9, 9)]
    for hour in (HOURS[0], HOURS[3], HOURS[2], HOURS[1]):
        pair.run(hour)
    wanted = {HOURS[0]: at_0, HOURS[1]: at_1, HOURS[2]: at_2, HOURS[3]: at_3}
    name = f"{pair.fixed}.items"
    assert {hour: cut(settings, name, hour) for hour in wanted} == wanted
    assert cut(settings, name) == at_3
    lines = {hour: cut(settings, f"{pair.fixed}.lines", hour) or [] for hour in wanted}
    assert [[one["n"] for one in lines[hour]] for hour in wanted] == [[1], [1, 2], [1, 3], [1]]
    assert [str(finding) for finding in audit(pair.feed(pair.fixed), settings).findings] == []


@pytest.mark.full
def test_hours_run_backwards_have_the_cuts_of_hours_run_in_order(
    tmp_path: Path, spark: SparkSession, settings: Settings
) -> None:
    pair = FeedPair("cut_backwards", tmp_path, spark, settings, format={"type": "debezium"}, tables=LATE)
    for number, hour in enumerate(HOURS[:3]):
        at = 1000 * number
        pair.export(hour, [event("c", at + 1, row(number, 1)), event("u", at + 2, row(0, at)), line(at + 9, number)])
    for hour in reversed(HOURS[:3]):
        pair.run(hour)
    pair.run_right(HOURS[:3])
    for hour in HOURS[:3]:
        for table in ("items", "lines"):
            own = [c for c in cut(settings, f"{pair.fixed}.{table}", hour) or [] if c]
            assert own, (hour, table)
    shown = {hour: cut(settings, f"{pair.fixed}.items", hour) for hour in HOURS[:3]}
    assert shown[HOURS[0]] == cut(settings, f"{pair.right}.items", HOURS[0])
    assert shown[HOURS[1]] == [row(0, 1000), row(1, 1)], "without the hour before, which had not come"
    assert shown[HOURS[2]] == [row(0, 2000), row(2, 1)]


@pytest.mark.full
def test_a_late_cut_shows_what_was_released_since_the_cut_before_it(
    tmp_path: Path, spark: SparkSession, settings: Settings
) -> None:
    """A row that waited for metadata, and a transaction that the policy applied: nothing more comes of either."""
    usual = {"tables": {"CRM.ACCOUNTS": {"topic": "t"}}, "transactions": {"tables_outside": True}}
    pair = FeedPair("cut_released", tmp_path, spark, settings, format={"type": "qlik"}, **usual)
    columns = {"ID": "INT8", "NAME": "STRING(30)"}
    first = in_kafka(metadata("CRM.ACCOUNTS", columns, ["ID"], schema_id="A"))
    second = in_kafka(metadata("CRM.ACCOUNTS", {**columns, "X": "INT4"}, ["ID"], schema_id="B", version=2))

    def insert(id_: int, **of: Any) -> dict[str, Any]:
        return message_of(id_, "INSERT", {"ID": id_, "NAME": "A"}, "03", **of)

    waits = message_of(1, "INSERT", {"ID": 1, "NAME": "A", "X": 5}, "07")
    value = json.loads(waits["value"])
    value["headers"]["schemaId"] = "B"
    waits["value"] = json.dumps(value)
    hours = ([first, insert(9)], [waits, insert(2, last=False)], [second], [insert(3)], [insert(4)])
    for hour, records in zip(HOURS[:5], hours, strict=True):
        pair.export(hour, records)
    for number in (0, 1, 4, 2, 3):
        pair.run(HOURS[number])
    table = f"{pair.fixed}.accounts"
    shown = [[one["ID"] for one in cut(settings, table, hour) or []] for hour in HOURS[:5]]
    assert shown == [[9], [9], [1, 2, 9], [1, 2, 3, 9], [2, 4, 9]]
    assert [one["ID"] for one in cut(settings, table) or []] == [1, 2, 3, 4, 9]
    assert [str(finding) for finding in audit(pair.feed(pair.fixed), settings).findings] == []


@pytest.mark.full
@pytest.mark.parametrize("cuts", ["keep", "amend"])
def test_what_the_policy_publishes_is_in_no_cut_before_its_hour(
    tmp_path: Path, spark: SparkSession, settings: Settings, cuts: str
) -> None:
    """Nothing more comes of a transaction; it is overdue, and applied, in the fourth hour."""
    usual = {"tables": {"s.items": {"columns": COLUMNS}}, "transactions": {"alarm": "1h", "overdue": "apply"}}
    pair = FeedPair(f"cut_overdue_{cuts}", tmp_path, spark, settings, **TRANSACTIONS, **usual, cuts=cuts)
    pair.export(HOURS[0], [event("c", 1, row(1, 1))])
    pair.export(HOURS[1], [part(event("c", 10, row(5, 5)), "10", 1), event("c", 11, row(2, 2))])
    pair.export(HOURS[2], [event("c", 20, row(3, 3))])
    pair.export(HOURS[3], [event("c", 30, row(4, 4))])
    for number in (0, 1, 3, 2):
        pair.run(HOURS[number])

    def shown() -> list[list[int]]:
        return [[one["id"] for one in cut(settings, f"{pair.fixed}.items", hour) or []] for hour in HOURS[:4]]

    last = [1, 2, 3, 4, 5] if cuts == "amend" else [1, 2, 4, 5]
    assert shown() == [[1], [1, 2], [1, 2, 3], last]
    pair.export(HOURS[0], [event("c", 2, row(9, 9))])
    pair.run(HOURS[0])
    more = [9] if cuts == "amend" else []
    assert shown() == [[1, *more], [1, 2, *more], [1, 2, 3, *more], [*last, *more]]
    assert [str(finding) for finding in audit(pair.feed(pair.fixed), settings).findings] == []


@pytest.mark.full
def test_a_late_cut_of_a_table_all_of_which_came_later_is_empty(
    tmp_path: Path, spark: SparkSession, settings: Settings
) -> None:
    """The end of its transaction comes with another version of an hour of before, whose cut is made."""
    tables = {"s.items": {"columns": COLUMNS}, "s.others": {"columns": COLUMNS}}
    pair = FeedPair("cut_of_nothing", tmp_path, spark, settings, **TRANSACTIONS, tables=tables)
    pair.export(HOURS[0], [event("c", 10, row(2, 2), table="others")])
    pair.export(HOURS[2], [part(event("c", 20, row(1, 1)), "7", 1)])
    for number in (2, 0):
        pair.run(HOURS[number])
    pair.export(HOURS[0], [end("7", 1)], topic="tx")
    for number in (0, 1):
        pair.run(HOURS[number])
    shown = [cut(settings, f"{pair.fixed}.items", hour) for hour in (HOURS[1], None)]
    assert shown == [[], [row(1, 1)]]
    assert [str(finding) for finding in audit(pair.feed(pair.fixed), settings).findings] == []


@pytest.mark.full
@pytest.mark.parametrize("order", [(3, 1, 2, 0), (2, 0, 3, 1)])
def test_amended_cuts_are_those_of_hours_run_in_order(
    tmp_path: Path, spark: SparkSession, settings: Settings, order: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a truncate, a key change, a transaction over hours and an hour that comes again; a run that is killed between two
    cuts is finished by the next."""
    pair = FeedPair(f"cut_amend_{order[0]}", tmp_path, spark, settings, **TRANSACTIONS, tables=LATE, cuts="amend")
    for hour, records in history().items():
        pair.export(hour, records)
        pair.export(hour, [end("9", 2), end("109", 2)] if hour == HOURS[2] else [], "tx")
    pair.run_right(HOURS[:4])
    for number in order[:-1]:
        pair.run(HOURS[number])
    last = HOURS[order[-1]]
    if last == HOURS[0]:
        made = late_cuts._make

        def dies(cut: LateHour) -> list[str]:
            if cut.hour == HOURS[2]:
                raise KeyboardInterrupt
            return made(cut)

        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(late_cuts, "_make", dies)
            pair.run(last)
    receipt = pair.run(last)
    later = [hour for hour in HOURS[:4] if hour > last]
    assert receipt.amended == later and f"cuts made again: {', '.join(later)}" in receipt.notes

    def same(hours: list[str]) -> None:
        for table in ("items", "lines"):
            for hour in hours:
                shown = [cut(settings, f"{name}.{table}", hour) or [] for name in (pair.fixed, pair.right)]
                assert shown[0] == shown[1], (table, hour)
            assert cut(settings, f"{pair.fixed}.{table}") == cut(settings, f"{pair.right}.{table}")
            assert [came_after_cut(settings, f"{pair.fixed}.{table}", hour) for hour in hours] == [[]] * len(hours)

    same(HOURS[:4])
    assert [note for one in newest_receipts(settings, pair.fixed) for note in one.notes if "came later" in note] == []
    # An hour comes again, with more: its own cut too.
    more = [event("c", 1900, row(40, 40)), line(1902, 40)]
    pair.export(HOURS[1], more)
    again = pair.run(HOURS[1])
    assert again.amended == HOURS[1:4]
    shown = [row(40, 40) in (cut(settings, f"{pair.fixed}.items", hour) or []) for hour in HOURS[:4]]
    assert shown == [False, True, True, False], "the truncate comes after it"
    assert [str(finding) for finding in audit(pair.feed(pair.fixed), settings).findings] == []


def history() -> dict[str, list[dict[str, Any]]]:
    """Four hours of two tables."""
    hours: dict[str, list[dict[str, Any]]] = {hour: [] for hour in HOURS[:4]}
    moved = {"id": 3}, {"id": 30}
    hours[HOURS[0]] += [event("c", n, row(n, n, f"b{n}")) for n in (1, 2, 3)]
    hours[HOURS[0]].append(part(event("c", 9, row(6, 6)), "9", 1))
    hours[HOURS[1]] += [
        event("u", 1000, row(1, 10, ABSENT)), event("d", 1001, None, key={"id": 2}),
        event("d", 1002, None, key=moved[0]),
        event("c", 1002, row(30, 30, ABSENT))
        | {"headers": [{"key": "__debezium.oldkey", "value": json.dumps(moved[0])}]},
    ]  # fmt: skip
    hours[HOURS[2]] += [
        part(event("c", 2000, row(7, 7)), "9", 2),
        event("u", 2001, row(30, 31, ABSENT)), event("c", 2002, row(2, 22)),
    ]  # fmt: skip
    hours[HOURS[3]] += [event("t", 3000, None), event("c", 3001, row(9, 9))]
    for number, hour in enumerate(hours):
        hours[hour].append(line(1000 * number + 501, number))
    return hours
