"""A late hour costs what its keys cost: no row is folded again, and those that are written are of its keys alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.convergence import debezium
from tests.convergence.histories import ROOM
from tests.convergence.wire import Format, Sent
from tests.e2e.change_exports import Exports, change, unit
from tests.e2e.debezium_messages import HOURS, Event, event, row
from tests.e2e.one_table_feed import OneTableFeed, rows
from tidemark.fold import late_changes
from tidemark.operations.audit import audit
from tidemark.settings import Settings

pytestmark = pytest.mark.full

KEYS, TOUCHED = 200, 10
_UNSENT = frozenset({"big"})


def test_a_late_hour_alters_its_keys_alone_and_folds_nothing_again(
    spark: SparkSession, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_changes, "classify", None)  # the change log is not folded
    exports = Exports(Format("debezium", debezium, "kafka_json"), tmp_path, settings, "late_cost")
    first, newest = ([_write(at, key, op) for key in range(KEYS)] for at, op in ((1, "insert"), (3000, "update")))
    exports.run(HOURS[0], [one for sent in first for one in sent])
    exports.run(HOURS[2], [one for sent in newest for one in sent])
    between = [_write(1500, key, "update", whole=True) for key in range(TOUCHED)]
    receipt = exports.run(HOURS[1], [one for sent in between for one in sent])
    (table,) = receipt.tables
    assert (table.counts.applied, table.rows_written, table.rows_deleted) == (TOUCHED, TOUCHED, 0)
    shown = exports.rows("a")
    assert len(shown) == KEYS
    for key, (n, big) in shown.items():
        rests_on = 1500 if key < TOUCHED else 1
        assert (n, big) == ((3000 + key) * ROOM + 10, f"b{(rests_on + key) * ROOM + 10}")


def test_a_delete_is_of_its_key_to_the_microsecond(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    """Its row stays deleted, and keys that differ in no more have their own late changes."""
    table = {"columns": {"at": "timestamptz", "local": "timestamp(6)", "n": "int", "big": "text"}}
    gone = {"at": "2026-11-20T00:00:00.123456Z", "local": 1795132800123456}
    there = [gone | {"at": "2026-11-20T00:00:00.123Z"}, gone | {"local": 1795132800123000}]
    run = OneTableFeed("late_times", tmp_path, settings)

    def write(op: str, at: int, big: str) -> list[Event | str | bytes]:
        return [event(op, at + n, key | {"n": n, "big": big}, key=key) for n, key in enumerate([gone, *there])]

    run(HOURS[0], write("c", 1, "first"), table=table)
    run(HOURS[2], [event("d", 30, None, key=gone), *write("u", 30, "__debezium_unavailable_value")[1:]], table=table)
    run(HOURS[1], write("u", 20, "late"), table=table)
    assert sorted((one["n"], one["big"]) for one in rows(settings, run)) == [(1, "late"), (2, "late")]
    assert audit(run.definition(table=table), settings).findings == []


def _write(at: int, key: int, op: str, *, whole: bool = False) -> list[Sent]:
    return debezium.encode(
        unit(at + key, change("a", at + key, 10, op, key, frozenset() if whole or op == "insert" else _UNSENT),
             together=False)
    )  # fmt: skip


def test_a_table_under_another_name_knows_what_is_late_for_it(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    """The first hour under that name is late itself: what its rows come to is in the log."""
    run = OneTableFeed("late_named", tmp_path, settings)
    run(HOURS[0], [event("c", id_, row(id_, id_)) for id_ in (1, 2, 3)])
    run(HOURS[3], [event("d", 28, None, key={"id": 3}), event("u", 30, row(1, 30))])
    run.table = "late_named.items_2"
    named = {"table": {"name": run.table}}
    run(HOURS[2], [event("u", 20, row(2, 20))], **named)
    counts = run(HOURS[1], [event("u", n, row(id_, n)) for id_, n in ((1, 25), (3, 26), (2, 21))], **named).counts
    assert [(each["id"], each["n"]) for each in rows(settings, run)] == [(1, 30), (2, 21)]
    assert (counts.applied, counts.superseded) == (1, 2)
    assert [str(finding) for finding in audit(run.definition(**named), settings).findings] == []
