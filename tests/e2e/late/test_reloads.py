"""A source that loads its tables anew, as an operator names it: the load's rows replace the table at their place in the
order. In whatever order hours are run, and whenever the reload is named, the tables are the source's."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tests.convergence import canal, ibm
from tests.convergence.wire import Format
from tests.e2e.change_exports import Exports, change, unit
from tests.e2e.debezium_messages import COLUMNS, DEBEZIUM, event, row
from tests.e2e.feed_pair import FeedPair
from tidemark.cli import app
from tidemark.feeds.model import Feed
from tidemark.ledger.receipts import Receipt
from tidemark.ledger.reloads import name_reloads
from tidemark.operations.audit import audit
from tidemark.operations.read_table import read_snapshot
from tidemark.pipeline.hour import run_hour
from tidemark.settings import Settings
from tidemark_samples.exporting import Message, write_export

pytestmark = pytest.mark.promise(2)

HOURS = [f"2026-11-20T{hour:02}" for hour in range(6)]
RELOADED = HOURS[2]
TABLES = {"CRM.KEYED": "keyed", "CRM.BARE": "bare", "CRM.OTHER": "other"}


def sequence(number: int) -> str:
    return f"2026112001020300{number:019d}"


class Task:
    """What a Qlik task sends, by hour. ``key`` has one, ``bare`` has none, ``other`` is never loaded again."""

    def __init__(self) -> None:
        self.hours: list[list[tuple[str, bytes]]] = [[] for _ in HOURS]

    def load(self, hour: int, table: str, *rows: tuple[int, str | None]) -> None:
        for id_, value in rows:
            self._send(hour, table, {"operation": "REFRESH", "changeSequence": "", "timestamp": ""}, (id_, value))

    def change(self, hour: int, table: str, operation: str, at: int, row: tuple[int, str | None], **more: Any) -> None:
        headers = {"operation": operation, "changeSequence": sequence(at), "timestamp": "2026-11-20T01:02:03.000"}
        self._send(hour, table, headers, row, **more)

    def _send(
        self, hour: int, table: str, headers: dict[str, str], row: tuple[int, str | None], before: Any = None,
        mask: str | None = None,
    ) -> None:  # fmt: skip
        body = {"data": {"ID": row[0], "V": row[1]}, "beforeData": before, "headers": headers | {"columnMask": mask}}
        self.hours[hour].append((f"crm.{table}", json.dumps(body).encode()))

    def write(self, exports: Path) -> None:
        offset = 0
        for hour, sent in zip(HOURS, self.hours, strict=True):
            for table in TABLES.values():
                mine = []
                for topic, value in (one for one in sent if one[0] == f"crm.{table}"):
                    offset += 1
                    at = datetime(2026, 11, 20)
                    mine.append(Message(topic=topic, partition=0, offset=offset, sent_at=at, key=None, value=value))
                write_export(exports, f"crm.{table}", hour, [mine] if mine else [], "kafka_json")


def told() -> Task:
    """A first load in hour 0, changes, and a second load in hours 2 and 3. Between them the task stood still: row 2 was
    deleted, row 5 inserted and row 1 changed, and nothing of it was sent. Hour 2 has changes before the load and after its
    begin; an old change comes again in hour 4."""
    task = Task()
    task.load(0, "keyed", (1, "a"), (2, "b"), (3, "c"))
    task.load(0, "bare", (0, "a"), (0, "b"), (0, "b"))
    task.load(0, "other", (1, "o"))
    task.change(1, "keyed", "UPDATE", 10, (1, "a1"))
    task.change(1, "keyed", "INSERT", 11, (4, "d"))
    task.change(1, "bare", "INSERT", 12, (0, "c"))
    task.change(1, "other", "INSERT", 13, (2, "p"))
    task.change(2, "keyed", "UPDATE", 20, (2, "b2"))  # before the load
    task.change(2, "keyed", "INSERT", 21, (6, "f"))  # deleted, unseen
    task.load(2, "keyed", (1, "a2"), (3, "c"))
    task.load(2, "bare", (0, "z"), (0, "z"))
    task.change(2, "other", "UPDATE", 22, (2, "p1"))
    task.load(3, "keyed", (4, "d"), (5, "e"))
    task.load(3, "bare", (0, "y"))
    task.change(3, "keyed", "UPDATE", 30, (1, None), mask="01")
    task.change(3, "keyed", "UPDATE", 31, (3, "c3"))
    task.change(3, "bare", "DELETE", 32, (0, "z"))
    task.change(4, "keyed", "UPDATE", 20, (2, "b2"))  # sent again
    task.change(4, "keyed", "DELETE", 40, (4, None))
    task.change(5, "bare", "INSERT", 50, (0, "x"))
    task.change(5, "keyed", "INSERT", 51, (2, "b5"))
    return task


def told_in_two_hours() -> Task:
    """The same in two hours: the second has the whole of the second load, with changes before and after it."""
    task = Task()
    task.load(0, "keyed", (1, "a"), (2, "b"), (3, "c"))
    task.load(0, "bare", (0, "a"), (0, "b"), (0, "b"))
    task.load(0, "other", (1, "o"))
    task.change(0, "keyed", "UPDATE", 10, (1, "a1"))
    task.change(0, "bare", "INSERT", 12, (0, "c"))
    task.change(2, "keyed", "UPDATE", 20, (2, "b2"))  # before the load
    task.change(2, "keyed", "INSERT", 21, (6, "f"))  # deleted, unseen
    task.load(2, "keyed", (1, "a2"), (3, "c"), (4, "d"))
    task.load(2, "bare", (0, "z"), (0, "z"), (0, "y"))
    task.change(2, "keyed", "UPDATE", 30, (1, None), mask="01")
    task.change(2, "keyed", "UPDATE", 31, (3, "c3"))
    task.change(2, "bare", "DELETE", 32, (0, "z"))
    return task


SHOWN_AFTER_TWO = {"keyed": [(1, "a2"), (3, "c3"), (4, "d")], "bare": [(0, "y"), (0, "z")], "other": [(1, "o")]}
SHOWN = {
    "keyed": [(1, "a2"), (2, "b5"), (3, "c3"), (5, "e")],
    "bare": [(0, "x"), (0, "y"), (0, "z")],
    "other": [(1, "o"), (2, "p1")],
}


def feed_of(out: Path, name: str, **more: Any) -> dict[str, Any]:
    return {
        "feed": name, "description": "d", "owner": "o", "topics": [f"crm.{table}" for table in TABLES.values()],
        "exports": {"path": f"{out}/{{topic}}/dt={{date}}/hr={{hour}}/*", "missing": "empty"},
        "container": {"type": "kafka_json"}, "format": {"type": "qlik"},
        "tables": {
            source: {
                "name": f"{name}.{table}", "topic": f"crm.{table}", "key": [] if table == "bare" else ["ID"],
                "columns": {"ID": "INT8", "V": "STRING(9)"}, **more,
            }
            for source, table in TABLES.items()
        },
    }  # fmt: skip


def shown(settings: Settings, name: str, hour: str | None = None) -> dict[str, list[tuple[int, str]]]:
    """The rows of all tables as of an hour's cut, or as they are now."""
    found = {}
    for table in TABLES.values():
        rows, _ = read_snapshot(settings, f"{name}.{table}", hour)
        found[table] = sorted((row["ID"], row["V"]) for row in rows.to_pylist())
    return found


class Lake:
    def __init__(self, out: Path, settings: Settings, name: str, task: Task | None = None, **more: Any) -> None:
        (task or told()).write(out)
        self.name, self.settings, self.feed = name, settings, Feed.model_validate(feed_of(out, name, **more))

    def run(self, *hours: int) -> list[Receipt]:
        receipts = [run_hour(self.feed, HOURS[hour], self.settings) for hour in hours]
        for receipt in receipts:
            receipt.balance()
            assert receipt.quarantined == 0
        return receipts

    def name_reload(self, *tables: str, revoke: bool = False) -> bool:
        """Whether the hour has to be run again."""
        return name_reloads(self.feed, list(tables), RELOADED, self.settings, revoke=revoke)[1]

    def check(self) -> None:
        assert shown(self.settings, self.name) == SHOWN
        assert [str(difference) for difference in audit(self.feed, self.settings).findings] == []


NAMED = ["CRM.KEYED", "CRM.BARE"]
ORDERS = {
    "in order": ([0, 1, 2, 3, 4, 5], True),
    "named afterwards": ([0, 1, 2, 3, 4, 5], False),
    "newest first": ([5, 4, 3, 2, 1, 0], True),
    "an older hour late": ([0, 2, 3, 1, 4, 5], True),
    "the load's second hour first": ([0, 1, 3, 2, 5, 4], True),
}


def test_a_load_replaces_the_table(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    lake = Lake(tmp_path, settings, "reload", told_in_two_hours())
    assert not lake.name_reload(*NAMED)
    again = lake.run(0, 2, 2)[-1]
    assert f"{lake.name}.keyed was reloaded in this hour: what was sent before its load is gone" in again.notes
    assert not lake.name_reload(*NAMED), "named before: nothing to do"
    assert shown(settings, lake.name, HOURS[0])["keyed"] == [(1, "a1"), (2, "b"), (3, "c")]
    assert shown(settings, lake.name) == SHOWN_AFTER_TWO


@pytest.mark.parametrize(
    "which",
    [
        *(pytest.param(name, marks=pytest.mark.full) for name in ("in order", "an older hour late")),
        *(
            pytest.param(name, marks=pytest.mark.long)
            for name in ("newest first", "named afterwards", "the load's second hour first")
        ),
    ],
)
def test_a_load_replaces_the_table_at_its_place(
    spark: SparkSession, settings: Settings, tmp_path: Path, which: str
) -> None:
    order, at_first = ORDERS[which]
    lake = Lake(tmp_path, settings, f"reload_{list(ORDERS).index(which)}")
    if at_first:
        assert not lake.name_reload(*NAMED)
    lake.run(*order)
    if not at_first:
        assert lake.name_reload(*NAMED)
        lake.run(2)
    lake.check()
    assert not lake.name_reload(*NAMED), "named before: nothing to do"
    again = lake.run(2, 1)[0]
    assert f"{lake.name}.keyed was reloaded in this hour: what was sent before its load is gone" in again.notes
    lake.check()
    if which == "in order":
        assert shown(settings, lake.name, HOURS[1])["keyed"] == [(1, "a1"), (2, "b"), (3, "c"), (4, "d")]
        assert shown(settings, lake.name, HOURS[2]) == {
            "keyed": [(1, "a2"), (3, "c")], "bare": [(0, "z"), (0, "z")], "other": [(1, "o"), (2, "p1")]
        }  # fmt: skip


@pytest.mark.parametrize(
    "order", [(2, 0, 1), pytest.param((0, 1, 2), marks=pytest.mark.full)], ids=["late", "in order"]
)
def test_of_a_row_that_is_loaded_more_than_once_the_last_counts(
    spark: SparkSession, settings: Settings, tmp_path: Path, order: tuple[int, ...]
) -> None:
    """Whether in one hour or in several, where no reload is named and within one that is."""
    task = Task()
    for table in ("keyed", "other"):
        task.load(0, table, *((id_, "once") for id_ in range(30)))
        task.load(0, table, *((id_, "twice") for id_ in range(30)))
        task.change(1, table, "UPDATE", 10, (2, "changed"))
        task.load(2, table, (1, "three times"), (2, "three times"), (3, "three times"))
        task.load(2, table, (3, "four times"))
    task.load(0, "bare", (0, "a"), (0, "a"))
    task.load(2, "bare", (0, "a"))
    lake = Lake(tmp_path, settings, f"reload_often_{order[0]}", task)
    assert not lake.name_reload("CRM.OTHER")
    notes = lake.run(*order)[order.index(2)].notes
    twice = dict.fromkeys(range(30), "twice")
    found = shown(settings, lake.name)
    assert dict(found["keyed"]) == twice | {1: "three times", 2: "changed", 3: "four times"}
    assert dict(found["other"]) == {1: "three times", 2: "three times", 3: "four times"}
    assert found["bare"] == 3 * [(0, "a")], "without a key each row counts"
    assert not any("other content" in note for note in notes)
    assert [str(difference) for difference in audit(lake.feed, settings).findings] == []


@pytest.mark.full
def test_the_cut_of_a_late_hour_knows_only_the_reloads_up_to_it(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    lake = Lake(tmp_path, settings, "reload_cuts")
    lake.name_reload(*NAMED)
    lake.run(0, 4, 2, 1, 3, 5)
    lake.check()
    assert shown(settings, lake.name, HOURS[2])["keyed"] == [(1, "a2"), (3, "c")]
    assert shown(settings, lake.name, HOURS[1])["keyed"] == [(1, "a1"), (2, "b"), (3, "c"), (4, "d")]
    assert shown(settings, lake.name, HOURS[3]) == {
        "keyed": [(1, "a2"), (3, "c3"), (4, "d"), (5, "e")], "bare": [(0, "y"), (0, "z")], "other": SHOWN["other"],
    }  # fmt: skip


@pytest.mark.full
def test_all_tables_of_the_feed(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    """A table of which no row of a load has come stays as it is."""
    lake = Lake(tmp_path, settings, "reload_all")
    lake.name_reload()
    lake.run(0, 1, 2, 3, 4, 5)
    lake.check()


@pytest.mark.full
def test_a_reload_that_is_taken_back(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    lake, plain = Lake(tmp_path, settings, "reload_back"), Lake(tmp_path, settings, "reload_never")
    plain.run(0, 1, 2, 3, 4, 5)
    lake.name_reload(*NAMED)
    lake.run(0, 1, 2, 3, 4, 5)
    assert lake.name_reload(revoke=True)
    lake.run(2)
    assert shown(settings, lake.name) == shown(settings, plain.name) != SHOWN
    assert [str(difference) for difference in audit(lake.feed, settings).findings] == []
    assert lake.name_reload(*NAMED)
    lake.run(2)
    lake.check()


@pytest.mark.full
def test_a_table_without_a_load_is_not_emptied(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    lake = Lake(tmp_path, settings, "reload_none")
    lake.name_reload("CRM.OTHER")
    receipts = lake.run(0, 1, 2)
    assert "the reload of reload_none.other has not begun: no row of its load has landed yet" in receipts[2].notes
    assert shown(settings, lake.name)["other"] == [(1, "o"), (2, "p1")]


@pytest.mark.full
def test_a_load_that_no_message_shows_hides_an_older_hour_that_comes_late(
    spark: SparkSession, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that a load writes are inserts like any other: the reload begins with the first row of the hour."""
    exports = Exports(Format("ibm", ibm, "raw"), tmp_path, settings, "reload_unseen")
    before, load = (
        ibm.encode(unit(at, *(change("a", at, id_, "insert", id_) for id_ in ids), together=False))
        for at, ids in ((10, (1, 2, 3)), (20, (1, 4)))
    )
    assert named(exports, "a", monkeypatch).endswith("it counts when the hour is run, and in every later run\n")
    for hour, sent in ((HOURS[2], load), (HOURS[0], before)):
        assert exports.run(hour, sent).quarantined == 0
    assert exports.rows("a") == {1: (2001, "b2001"), 4: (2004, "b2004")}
    assert [str(difference) for difference in audit(exports.feed, settings).findings] == []
    assert "`tidemark run reload_unseen --hour 2026-11-20T02` applies it" in named(exports, "b", monkeypatch)


def named(exports: Exports, table: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the command says that names the reload of a table."""
    monkeypatch.setenv("TIDEMARK_HOME", str(exports.settings.home))
    monkeypatch.setenv("TIDEMARK_FEEDS", str(exports.out / "feeds"))
    return CliRunner().invoke(app, ["reload", exports.name, f"{exports.name}.{table}", "--hour", RELOADED]).output


@pytest.mark.parametrize(
    ("format_", "order"),
    [
        pytest.param(Format("ibm", ibm, "raw"), (0, 1, 2, 3), marks=pytest.mark.long),
        pytest.param(Format("ibm", ibm, "raw"), (0, 2, 3, 1), marks=pytest.mark.full),
        pytest.param(Format("canal", canal, "kafka_json"), (3, 2, 1, 0), marks=pytest.mark.full),
    ],
    ids=["ibm in order", "ibm late", "canal newest first"],
)  # fmt: skip
def test_a_load_that_no_message_shows_and_what_comes_again_with_it(
    spark: SparkSession, settings: Settings, tmp_path: Path, format_: Format, order: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Rows that a load writes are inserts like any other: the reload begins with the first row of the hour. Row 2 was
    deleted unseen; what an hour before the load says of it comes again with the load."""
    name = f"reload_{format_.name}_{''.join(map(str, order))}"
    exports = Exports(format_, tmp_path, settings, name)
    again = [change(table, 20, 1, "update", 2) for table in ("a", "b")]
    hours = [
        [change(table, 10, id_, "insert", id_) for table in ("a", "b") for id_ in (1, 2, 3)],
        again,
        [change(table, 30, id_, "insert", id_) for table in ("a", "b") for id_ in (1, 4)],
        [replace(change(table, 40, 1, "delete", 4), sent=frozenset()) for table in ("a", "b")],
    ]
    sent = [format_.encoder.encode(unit(10 * (at + 1), *of_hour, together=False)) for at, of_hour in enumerate(hours)]
    sent[2] = sent[1] + sent[2]
    assert named(exports, "a", monkeypatch).endswith("it counts when the hour is run, and in every later run\n")
    for hour in order:
        assert exports.run(HOURS[hour], sent[hour]).quarantined == 0
    others = {1: 3001, 2: 2001, 3: 1003}
    assert {id_: n for id_, (n, _) in exports.rows("a").items()} == {1: 3001}
    assert {id_: n for id_, (n, _) in exports.rows("b").items()} == others, "it was not named"
    assert f"`tidemark run {name} --hour {HOURS[2]}` applies it" in named(exports, "b", monkeypatch)
    run_hour(exports.feed, HOURS[2], settings)
    assert exports.rows("b") == exports.rows("a") == {1: (3001, "b3001")}
    assert [str(difference) for difference in audit(exports.feed, settings).findings] == []
    if order == (0, 1, 2, 3):
        shown = CliRunner().invoke(app, ["show", f"{name}.a", "--as-of", HOURS[2]])
        assert "reloaded in this hour: what was sent before its load is gone" in shown.stderr


def read(lsn: int, *ids: int, table: str = "items", snapshot: str = "true") -> list[dict[str, Any]]:
    """Rows that a snapshot reads; ``n`` is its place."""
    records = []
    for number, id_ in enumerate(ids):
        record = event("r", lsn, row(id_, lsn), table=table)
        value = json.loads(record["value"])
        value["source"] |= {"snapshot": snapshot}
        records.append(record | {"offset": lsn + number, "value": json.dumps(value)})
    return records


def items_of(type_: str) -> dict[str, Any]:
    """``type_``: of ``n``; a text cannot take the place of a number."""
    return {
        "on_table_stop": "table",
        "quarantine": {"limit": 1.0},
        "tables": {"s.items": {"columns": {**COLUMNS, "n": type_}}},
    }


@pytest.mark.full
@pytest.mark.parametrize("named_for", [1, 2, None], ids=["in the stopped hour", "behind it", "taken back"])
def test_a_stopped_table_is_reloaded_once_what_waits_of_it_is_published(
    spark: SparkSession, settings: Settings, tmp_path: Path, named_for: int | None
) -> None:
    pair = FeedPair(f"reload_stopped_{named_for or 0}", tmp_path, spark, settings, **DEBEZIUM)
    load, later = [*read(20, 1, 4), event("u", 25, row(4, 25))], [event("c", 30, row(5, 30))]
    updated = [event("u", 10, row(1, 10))]
    sent = [[event("c", id_, row(id_, id_)) for id_ in (1, 2, 3)]]
    sent += {1: [load], 2: [updated, load], None: [load, later]}[named_for]
    for hour, records in zip(HOURS, sent, strict=False):
        pair.export(hour, records)
    stopped, mended = items_of("text"), items_of("bigint")
    feed = pair.feed(pair.fixed, **mended)

    def items() -> dict[int, int]:
        return {record["id"]: record["n"] for record in pair.rows(pair.fixed, "items")}

    reloaded = {1: 20, 4: 25}
    before, after = ({1: 1, 2: 2, 3: 3}, reloaded) if named_for else (reloaded, {1: 20, 2: 2, 3: 3, 4: 25, 5: 30})
    pair.run(HOURS[0], **items_of("int"))
    if named_for != 1:
        if named_for is None:
            name_reloads(feed, ["s.items"], HOURS[1], settings)
            assert pair.run(HOURS[1], **items_of("int")).stopped == {}
        assert pair.run(HOURS[1 if named_for else 2], **stopped).stopped
    name_reloads(feed, ["s.items"] if named_for else [], HOURS[named_for or 1], settings, revoke=named_for is None)
    receipt = pair.run(HOURS[named_for or 1], **(stopped if named_for == 1 else mended))
    assert list(receipt.stopped) == [f"{pair.fixed}.items"]
    assert ("was reloaded" in str(receipt.notes)) == (named_for is None) and "has not begun" not in str(receipt.notes)
    assert items() == before
    if named_for == 2:
        pair.replay(HOURS[1], **mended)
        assert items() == {1: 10, 2: 2, 3: 3}, "no row of the load has left the quarantine"
    receipt = pair.run(HOURS[named_for or 2], **mended)
    assert items() == after
    if named_for:
        assert f"{pair.fixed}.items was reloaded in this hour: what was sent before its load is gone" in receipt.notes
    assert [str(finding) for finding in audit(feed, settings).findings] == []


@pytest.mark.full
def test_a_part_of_a_table_that_is_read_long_after_a_reload_of_all_empties_nothing(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    tables = {"tables": {"s.items": {"columns": COLUMNS}, "s.others": {"columns": COLUMNS}}}
    pair = FeedPair("reload_part", tmp_path, spark, settings, **DEBEZIUM, **tables)
    sent = [event("c", 1, row(1, 1)), *(event("c", 1 + id_, row(id_, id_), table="others") for id_ in (1, 2))]
    part = read(40, 2, table="others", snapshot="incremental")
    for hour, records in zip(HOURS, (sent, read(20, 1, 5), part, read(60, 2, 3, table="others")), strict=False):
        pair.export(hour, records)
    pair.run(HOURS[0])
    name_reloads(pair.feed(pair.fixed), [], HOURS[1], settings)
    assert f"not begun of {pair.fixed}.others" in pair.run(HOURS[1]).notes[-1]
    pair.run(HOURS[2])
    assert {record["id"]: record["n"] for record in pair.rows(pair.fixed, "others")} == {1: 1, 2: 40}
    pair.run(HOURS[3])
    assert {record["id"]: record["n"] for record in pair.rows(pair.fixed, "others")} == {2: 60, 3: 60}
    assert {record["id"]: record["n"] for record in pair.rows(pair.fixed, "items")} == {1: 20, 5: 20}
    assert [str(finding) for finding in audit(pair.feed(pair.fixed), settings).findings] == []
