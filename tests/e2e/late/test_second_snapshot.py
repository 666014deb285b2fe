"""A connector that takes a snapshot in the middle of a table's life: what it read stands where it was taken, and so does the
transaction that was in flight then. In whatever order hours are run, the tables are the source's."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidemark.errors import SchemaError
from tidemark.feeds.model import Feed
from tidemark.ledger.receipts import Receipt
from tidemark.ledger.reloads import name_reloads
from tidemark.operations.audit import audit
from tidemark.operations.read_table import read_snapshot
from tidemark.pipeline import fold
from tidemark.pipeline.hour import replay_hour, run_hour
from tidemark.pipeline.hour_changes import HourChanges
from tidemark.pipeline.screen import open_logged
from tidemark.settings import Settings
from tidemark_samples.exporting import Message, write_export

pytestmark = pytest.mark.promise(1, 2)

TOPICS = ("srv.s.keyed", "srv.s.bare")
HOURS = [f"2026-11-20T{hour:02}" for hour in range(5)]


class Stream:
    """What a connector sends, by hour: table ``keyed`` (key id) and table ``bare`` (no key)."""

    def __init__(self) -> None:
        self.hours: list[list[tuple[str, str | None, dict[str, Any]]]] = [[] for _ in HOURS]
        self.commit: int | None = None
        self.transaction = 0
        self.restarted: int | None = None
        self.sent_at = {"ts_ms": 1000}

    def snapshot(
        self, hour: int, lsn: int, marked: bool, keyed: dict[int, str], bare: list[str], *, crashes: bool = False
    ) -> None:
        """All rows, read at an LSN. ``marked``: as connectors of 2.0 and later mark the ends of tables."""
        rows = [("keyed", id_, value) for id_, value in keyed.items()] + [("bare", None, value) for value in bare]
        for at, (table, id_, value) in enumerate(rows):
            last_of_table = at + 1 == len(rows) or rows[at + 1][0] != table
            marker = (
                "last" if at + 1 == len(rows) else "last_in_data_collection" if last_of_table and marked else "true"
            )
            self._send(hour, table, "r", lsn, {"id": id_, "v": value}, marker)
        self.commit, self.transaction = None, lsn

    def restart(self, lsn: int) -> None:
        """The connector starts again in the first transaction after a snapshot, and goes on behind this event of it."""
        self.commit = self.restarted = lsn
        self.sent_at = {"ts_ms": 9000}

    def change(
        self, hour: int, table: str, op: str, lsn: int, after: dict[str, Any] | None, before: Any = None
    ) -> None:
        self._send(hour, table, op, lsn, after, "false", before)

    def _send(
        self, hour: int, table: str, op: str, lsn: int, after: dict[str, Any] | None, marker: str, before: Any = None
    ) -> None:
        commit = None if op == "r" or self.commit is None else str(self.commit)
        # Of the first transaction after a snapshot it stays, whatever the connector says of the commit before it.
        transaction = self.transaction if self.commit in (None, self.restarted) else self.commit
        source = {
            "schema": "s", "table": table, "lsn": lsn, "txId": transaction, "ts_ms": 1000, "name": "srv", "snapshot": marker,
            "sequence": json.dumps([commit, str(lsn)]),
        }  # fmt: skip
        key = json.dumps({"id": (after or before)["id"]}) if table == "keyed" else None
        event = {
            "op": op,
            "before": before if table == "bare" or op == "d" else None,
            "after": after,
            "source": source,
        } | self.sent_at
        self.hours[hour].append((f"srv.s.{table}", key, event))

    def write(self, exports: Path) -> None:
        offsets: Counter[str] = Counter()
        for hour, sent in zip(HOURS, self.hours, strict=True):
            for topic in TOPICS:
                mine = []
                for _, key, event in (one for one in sent if one[0] == topic):
                    offsets[topic] += 1
                    value = json.dumps(event).encode()
                    mine.append(
                        Message(
                            topic=topic,
                            partition=0,
                            offset=offsets[topic],
                            sent_at=datetime(2026, 11, 20),
                            key=key and key.encode(),
                            value=value,
                        )
                    )
                write_export(exports, topic, hour, [mine] if mine else [], "kafka_json")


def told(marked: bool, hours: tuple[int, ...] = (0, 1, 2, 3, 4)) -> Stream:
    """Two snapshots. Between them the connector is away: row 2 is deleted, row 5 inserted, row 1 changed and one ``b`` goes
    unseen. A transaction is in flight while the second one is taken, begun before it: it changes row 1 and adds a ``d``.

    ``hours``: in which each of the five parts of this comes."""
    begins, goes_on, again, in_flight, ends = hours
    stream = Stream()
    stream.snapshot(begins, 1000, marked, {1: "a", 2: "b", 3: "c"}, ["a", "b", "b"])
    stream.change(begins, "keyed", "u", 1010, {"id": 3, "v": "c1"})
    stream.commit = 1090
    stream.change(goes_on, "keyed", "u", 1100, {"id": 1, "v": "a1"})
    stream.change(goes_on, "bare", "c", 1110, {"id": None, "v": "c"})
    stream.commit = 1190
    stream.change(goes_on, "keyed", "c", 1200, {"id": 4, "v": "d"})
    stream.snapshot(again, 2000, marked, {1: "a2"}, ["z"], crashes=True)  # and starts again
    stream.snapshot(again, 2100, marked, {1: "a3", 3: "c1", 4: "d", 5: "e"}, ["a", "b", "c"])
    stream.change(in_flight, "keyed", "u", 1150, {"id": 1, "v": "a4"})
    stream.change(in_flight, "bare", "c", 1160, {"id": None, "v": "d"})
    stream.change(in_flight, "keyed", "u", 2110, {"id": 3, "v": "c2"})
    stream.commit = 2190
    stream.change(ends, "keyed", "d", 2200, None, {"id": 4, "v": None})
    stream.change(ends, "bare", "d", 2210, None, {"id": None, "v": "a"})
    return stream


KEYED = {1: "a4", 3: "c2", 5: "e"}
BARE = ["b", "c", "d"]


def shown(settings: Settings, table: str, hour: str | None = None) -> list[tuple[Any, str]]:
    """The rows as of an hour's cut, or as they are now."""
    rows, _ = read_snapshot(settings, table, hour)
    return sorted((row["id"], row["v"]) for row in rows.to_pylist())


def feed_of(out: Path, name: str) -> Feed:
    return Feed.model_validate({
        "feed": name, "description": "d", "owner": "o", "topics": list(TOPICS),
        "exports": {"path": f"{out}/{{topic}}/dt={{date}}/hr={{hour}}/*", "missing": "empty"},
        "container": {"type": "kafka_json"}, "format": {"type": "debezium"},
        "tables": {
            f"s.{table}": {"name": f"{name}.{table}", "columns": {"id": "bigint", "v": "text"}}
            for table in ("keyed", "bare")
        },
    })  # fmt: skip


def run(stream: Stream, out: Path, settings: Settings, name: str, order: list[int]) -> list[Receipt]:
    stream.write(out)
    return [run_hour(feed_of(out, name), HOURS[hour], settings) for hour in order]


ORDERS = [list(order) for order in itertools.permutations(range(5))]
BACKWARDS = [4, 3, 2, 1, 0]
CHOSEN = [[0, 1, 2, 3, 4], BACKWARDS, [0, 1, 3, 4, 2], random.Random(7).choice(ORDERS)]


@pytest.mark.full
@pytest.mark.parametrize(
    ("marked", "order"),
    [
        pytest.param(marked, order, id=f"ends are {'' if marked else 'not '}marked-{''.join(map(str, order))}")
        for marked in (True, False)
        for order in (CHOSEN if marked else [BACKWARDS])
    ],
)
def test_a_second_snapshot_stands_where_it_was_taken(
    spark: SparkSession, settings: Settings, tmp_path: Path, order: list[int], marked: bool
) -> None:
    name = f"second_{marked}_{''.join(map(str, order))}".lower()
    # Where nothing says that a table was read to its end, a row that was deleted unseen stays.
    stands(told(marked), tmp_path, settings, name, order, KEYED if marked else KEYED | {2: "b"})


@pytest.mark.full
def test_a_second_snapshot_stands_where_it_was_taken_between_two_hours(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    stands(told(True, (0, 0, 1, 2, 2)), tmp_path, settings, "second_between", [0, 1, 2], KEYED)


def stands(stream: Stream, out: Path, settings: Settings, name: str, order: list[int], keyed: dict[int, str]) -> None:
    """The hours in an order come to these rows of the table with a key and to those of the other, all accounted for."""
    for receipt in run(stream, out, settings, name, order):
        receipt.balance()
        assert receipt.quarantined == 0
    assert shown(settings, f"{name}.keyed") == sorted(keyed.items())
    assert [value for _, value in sorted(shown(settings, f"{name}.bare"), key=str)] == BARE
    found = audit(feed_of(out, name), settings).findings
    assert [str(difference) for difference in found] == []


def refused_end(out: Path, name: str) -> tuple[Feed, Feed]:
    """The second snapshot of ``keyed``, in hour 1, ends in a row whose value fails a check: the feed as it is, and with the
    check. Row 2 was deleted unseen."""
    stream = Stream()
    stream.snapshot(0, 1000, True, {1: "a", 2: "b", 3: "c"}, [])
    stream.snapshot(1, 2000, True, {1: "a1", 3: "bad"}, [])
    stream.commit = 2090
    stream.change(1, "bare", "c", 2095, {"id": None, "v": "a"})
    stream.change(2, "keyed", "u", 2100, {"id": 1, "v": "a2"})
    stream.write(out)
    usual = feed_of(out, name)
    check = {"column": "v", "isin": ["a", "b", "c", "a1", "a2"], "consequence": "quarantine"}
    keyed = usual.tables["s.keyed"].model_dump() | {"checks": [check]}
    changed = {"quarantine": {"limit": 1.0}, "on_table_stop": "table", "tables": {**usual.tables, "s.keyed": keyed}}
    return usual, Feed.model_validate(usual.model_dump() | changed)


@pytest.mark.full
@pytest.mark.parametrize("order", [[0, 1, 2], [1, 0, 2]], ids=["in order", "the snapshot first"])
def test_a_snapshot_ends_though_its_last_row_is_refused(
    spark: SparkSession, settings: Settings, tmp_path: Path, order: list[int]
) -> None:
    """Row 3 waits in quarantine, and is the source's once it is let through."""
    usual, checked = refused_end(tmp_path, f"refused_{order[0]}")
    keyed = f"{usual.feed}.keyed"
    for hour in order:
        run_hour(checked, HOURS[hour], settings)
    assert shown(settings, keyed) == [(1, "a2")]
    assert audit(checked, settings).findings == []
    replay_hour(usual, HOURS[1], settings)
    assert shown(settings, keyed) == [(1, "a2"), (3, "bad")]
    assert audit(usual, settings).findings == []


@pytest.mark.full
def test_a_snapshot_ends_in_a_refused_row_though_another_table_stops_behind_the_screen(
    spark: SparkSession, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes are taken out of the hour twice; the end is among the first."""
    usual, checked = refused_end(tmp_path, "refused_stopped")
    run_hour(checked, HOURS[0], settings)

    def stop_bare(hour: HourChanges) -> HourChanges:
        return replace(open_logged(hour), stopped={f"{usual.feed}.bare": "as the log has it, it cannot go on"})

    with monkeypatch.context() as patched:
        patched.setattr(fold, "open_logged", stop_bare)
        receipt = run_hour(checked, HOURS[1], settings)
    assert list(receipt.stopped) == [f"{usual.feed}.bare"]
    assert shown(settings, f"{usual.feed}.keyed") == [(1, "a1")]


@pytest.mark.full
@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0]], ids=["in order", "newest first"])
def test_the_first_transaction_after_a_snapshot_goes_on_behind_a_restart(
    spark: SparkSession, settings: Settings, tmp_path: Path, order: list[int]
) -> None:
    """It was in flight while the snapshot was read. What was not flushed comes again, and names one of its own events as the
    commit before it."""
    stream = Stream()
    stream.snapshot(0, 1000, True, {1: "a", 2: "b", 3: "c"}, ["a", "b"])
    stream.change(0, "keyed", "u", 980, {"id": 1, "v": "a1"})
    stream.change(0, "bare", "c", 984, {"id": None, "v": "c"})
    stream.change(0, "keyed", "c", 1010, {"id": 4, "v": "d"})
    stream.restart(980)
    stream.change(1, "bare", "c", 984, {"id": None, "v": "c"})  # again
    stream.change(1, "keyed", "c", 1010, {"id": 4, "v": "d"})
    stream.change(1, "keyed", "u", 988, {"id": 2, "v": "b1"})
    stream.change(1, "keyed", "u", 1020, {"id": 4, "v": "d1"})
    stream.change(1, "keyed", "d", 1030, None, {"id": 3, "v": None})
    stream.change(1, "bare", "d", 1040, None, {"id": None, "v": "a"})
    stream.commit = 1090
    stream.change(2, "keyed", "u", 1100, {"id": 1, "v": "a2"})
    stream.change(2, "bare", "c", 1110, {"id": None, "v": "d"})
    stands(stream, tmp_path, settings, f"restart_{order[0]}", order, {1: "a2", 2: "b1", 4: "d1"})


@pytest.mark.full
@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [0, 2, 4, 3, 1]], ids=["in order", "out of it"])
def test_a_second_snapshot_whose_ends_are_not_marked_is_named_by_an_operator(
    spark: SparkSession, settings: Settings, tmp_path: Path, order: list[int]
) -> None:
    name = f"named_{''.join(map(str, order))}"
    name_reloads(feed_of(tmp_path, name), [f"{name}.keyed"], HOURS[2], settings)
    run(told(False), tmp_path, settings, name, order)
    assert shown(settings, f"{name}.keyed") == sorted(KEYED.items())
    assert [value for _, value in sorted(shown(settings, f"{name}.bare"), key=str)] == BARE
    assert [str(difference) for difference in audit(feed_of(tmp_path, name), settings).findings] == []


@pytest.mark.full
@pytest.mark.parametrize("order", [[0, 1], [1, 0]], ids=["in order", "the snapshot first"])
def test_a_second_snapshot_that_no_row_ends_is_told(
    spark: SparkSession, settings: Settings, tmp_path: Path, order: list[int]
) -> None:
    """Row 2 was deleted unseen, and stays: nothing says that it is gone but the warning."""
    name = f"untold_{order[0]}"
    first, second = run(told(False, (0, 0, 1, 1, 1)), tmp_path, settings, name, order)
    warned = {table.table: "".join(table.warnings) for table in second.tables}
    assert f"`tidemark reload {name} {name}.keyed --hour 2026-11-20T01`" in warned[f"{name}.keyed"]
    assert "snapshot" not in warned[f"{name}.bare"], "its rows are replaced"
    assert not any("snapshot" in text for table in first.tables for text in table.warnings)
    assert shown(settings, f"{name}.keyed") == sorted((KEYED | {2: "b"}).items())


def test_an_update_that_names_no_row_stops_its_table(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    stream = Stream()
    stream.change(0, "bare", "c", 1010, {"id": 1, "v": "a"})
    stream.change(1, "bare", "u", 1110, {"id": 1, "v": "b"})
    with pytest.raises(SchemaError, match="1 updates and deletes come without the row as it was before"):
        run(stream, tmp_path, settings, "untied", [0, 1])
    assert shown(settings, "untied.bare", HOURS[0]) == [(1, "a")]


def read_at_one_place(place: dict[str, Any], minute: int, values: list[int], whole: bool) -> list[Message]:
    """Messages of a snapshot of a table without a key. ``whole``: it comes to its end."""
    messages = []
    for at, value in enumerate(values):
        marker = "first" if not at else "last" if whole and at + 1 == len(values) else "true"
        read_at = 1_795_132_800_000 + minute * 60_000
        source = place | {
            "version": "3.6.3.Final",
            "name": "srv",
            "table": "bare",
            "snapshot": marker,
            "ts_ms": read_at,
        }
        event = {"op": "r", "before": None, "after": {"id": value, "v": "x"}, "source": source, "ts_ms": read_at + at}
        sent_at, number = datetime(2026, 11, 20), 100 * minute + at
        messages.append(
            Message(
                topic="srv.s.bare",
                partition=0,
                offset=number,
                sent_at=sent_at,
                key=None,
                value=json.dumps(event).encode(),
            )
        )
    return messages


#: Connector → what `source` says of the place of a snapshot.
PLACES: dict[str, dict[str, Any]] = {
    "mysql": {"db": "s", "file": "log.000003", "pos": 154, "row": 0},
    "sqlserver": {"schema": "s", "commit_lsn": "00000027:00000758:0005"},
    "postgresql": {"schema": "s", "lsn": 9000, "sequence": '[null,"9000"]'},
}


@pytest.mark.parametrize(
    ("connector", "order"),
    [
        ("mysql", [0, 1, 2]),
        pytest.param("mysql", [2, 1, 0], marks=pytest.mark.full),
        pytest.param("sqlserver", [1, 2, 0], marks=pytest.mark.full),
        pytest.param("postgresql", [0, 1, 2], marks=pytest.mark.full),
    ],
)
def test_a_table_that_stood_still_is_read_again(
    spark: SparkSession, settings: Settings, tmp_path: Path, connector: str, order: list[int]
) -> None:
    """By a connector that crashed in its first snapshot, and by one that takes a snapshot each time it is started: the table
    is the same, and so is the place in the log."""
    name = f"still_{connector}_{''.join(map(str, order))}"
    feed = Feed.model_validate(
        feed_of(tmp_path, name).model_dump() | {"format": {"type": "debezium", "connector": connector}}
    )
    reads = [([7, 7, 8], False), ([7, 7, 8, 9], True), ([8, 7, 9, 7], True)]
    for minute, (hour, (values, whole)) in enumerate(zip(HOURS, reads, strict=False)):
        write_export(tmp_path, "srv.s.keyed", hour, [], "kafka_json")
        sent = read_at_one_place(PLACES[connector], minute, values, whole)
        write_export(tmp_path, "srv.s.bare", hour, [sent], "kafka_json")
    receipts = [run_hour(feed, HOURS[hour], settings) for hour in order]
    assert [id_ for id_, _ in shown(settings, f"{name}.bare")] == [7, 7, 8, 9]
    assert not any(table.warnings for receipt in receipts for table in receipt.tables)
    assert audit(feed, settings).findings == []
