"""Maintenance: what is no longer needed goes, and nothing that anybody can read changes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import Any, NoReturn

import pytest
from pyspark.sql import SparkSession

from tests.e2e.debezium_messages import COLUMNS, DEBEZIUM, HOURS, event, row
from tests.e2e.feed_pair import FeedPair
from tidemark.errors import ConfigError, ConflictError, SchemaError
from tidemark.hours import Hour
from tidemark.lake.catalog import find_table
from tidemark.ledger.state_store import load_state
from tidemark.ledger.system_tables import system_table
from tidemark.operations import maintenance
from tidemark.operations.audit import audit
from tidemark.operations.maintenance import Maintained, maintain
from tidemark.operations.read_table import read_snapshot
from tidemark.pipeline.hour import decode_stage, fold_stage, publish_stage
from tidemark.pipeline.land import land
from tidemark.settings import Settings
from tidemark.storage.feed_lock import FeedLock
from tidemark.tables.parquet_copies import newest_copies
from tidemark.tables.published_table import PublishedTable

pytestmark = pytest.mark.full

TABLES = {"tables": {"s.items": {"columns": COLUMNS}, "s.folders": {"columns": COLUMNS, "parquet": True}}}
NOTHING = Maintained(tombstones=0, cuts=0, branches=0, rewritten=0, orphans=0, folders=0, landed=0, indexed=0)
AT_ONCE = {"retention": {"tombstones": "0s", "cuts": "0s", "orphans": "1d"}}


def stray(folder: Path, name: str, days: int) -> Path:
    """A file of a certain age that nothing refers to."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(b"PAR1")
    at = time.time() - days * 86_400
    os.utime(path, (at, at))
    return path


def refs(settings: Settings, table: str) -> set[str]:
    found = find_table(settings, *table.split("."))
    assert found is not None
    return set(found.metadata.refs)


def test_what_is_old_goes_and_all_reads_the_same(tmp_path: Path, spark: SparkSession, settings: Settings) -> None:
    pair = FeedPair("m", tmp_path, spark, settings, **DEBEZIUM, **TABLES)
    feed, name = pair.feed(pair.fixed, **AT_ONCE), pair.fixed
    hours = {
        HOURS[0]: [event("c", n, row(n, n)) for n in range(1, 7)] + [event("c", 7, row(1, 1), table="folders")],
        HOURS[1]: [event("d", 12, None, key={"id": 2}), event("u", 13, row(1, 10))],
        HOURS[2]: [event("u", 20, row(1, 11)), event("u", 21, row(1, 2), table="folders")],
        HOURS[3]: [event("u", 30, row(3, 30))],
        HOURS[4]: [event("u", 40, row(4, 40)), event("u", 41, row(1, 3), table="folders")],
    }  # fmt: skip
    for hour, records in hours.items():
        pair.export(hour, records)
        land(feed, hour, settings)
        decode_stage(spark, feed, hour, settings)
    for hour in (HOURS[0], HOURS[1], HOURS[2]):
        pair.run(hour)
    fold_stage(spark, feed, HOURS[4], settings)  # overtaken: its branch is nobody's any more
    for hour in (HOURS[3], HOURS[4]):
        pair.run(hour)
    data = Path(settings.lake_root) / name / "items" / "data"
    landed = Path(settings.landing_root) / name / "t" / "dt=2026-11-20" / "hr=00"
    old = [stray(data, "old.parquet", 4), stray(landed / "v00001", "old.gz", 4)]
    young = [
        stray(data, "young.parquet", 0),
        stray(landed / "v00001", "young.gz", 0),
        stray(landed / "v00002", "next.gz", 4),
    ]
    kept = {table: pair.rows(name, table) for table in ("items", "folders")}
    assert not any(ref.startswith("audit_") for ref in refs(settings, f"{name}.items")), (
        "the next publication dropped it"
    )
    spark.sql(f"ALTER TABLE lake.{name}.items CREATE BRANCH audit_{name}_2026_11_20T04_4")  # its run wakes up

    usual = maintain(pair.feed(name), settings)
    assert usual == Maintained(
        tombstones=0,
        cuts=0,
        branches=usual.branches,
        rewritten=usual.rewritten,
        orphans=1,
        folders=0,
        landed=1,
        indexed=usual.indexed,
    )
    assert usual.branches >= 1 and usual.rewritten >= 5
    assert not any(path.exists() for path in old) and all(path.exists() for path in young)
    assert refs(settings, f"{name}.items") == {"main", *(Hour.parse(hour).tag for hour in hours)}
    was, _ = read_snapshot(settings, f"{name}.items", HOURS[0])
    assert sorted(was["n"].to_pylist()) == [1, 2, 3, 4, 5, 6]
    assert maintain(pair.feed(name), settings) == NOTHING

    done = maintain(feed, settings, now=datetime.now(UTC) + timedelta(days=2))
    assert (done.tombstones, done.cuts, done.folders) == (1, 8, 2)
    assert refs(settings, f"{name}.items") == {"main", Hour.parse(HOURS[4]).tag}
    assert spark.table(system_table(name, "tombstones")).isEmpty()
    snapshots = find_table(settings, name, "items")
    assert snapshots is not None and len(snapshots.metadata.snapshots) == 2, "main, and the newest cut"
    for table, rows in kept.items():
        assert pair.rows(name, table) == rows
    copies = newest_copies(settings, name)
    assert copies is not None and list(copies.tables) == [f"{name}.folders"]
    assert copies.sequence == load_state(settings, name).last_sequence
    with pytest.raises(ConfigError, match="has no cut of 2026-11-20T00"):
        read_snapshot(settings, f"{name}.folders", HOURS[0])
    assert maintain(feed, settings, now=datetime.now(UTC) + timedelta(days=2)) == NOTHING
    assert audit(feed, settings).findings == []
    assert audit(pair.feed(name), settings).findings == [], (
        "dropped cuts are not missed when they are kept for longer again"
    )

    # A delete whose tombstone is gone keeps its row deleted, and what is new to an old key comes in.
    pair.export(HOURS[5], [event("u", 8, row(2, 8)), event("c", 9, row(9, 9)), event("u", 50, row(5, 50))])
    pair.run(HOURS[5])
    pair.run_right([*hours, HOURS[5]])
    assert pair.rows(name, "items") == pair.rows(pair.right, "items")
    assert {r["id"] for r in pair.rows(name, "items")} == {1, 3, 4, 5, 6, 9}
    assert audit(feed, settings).findings == []


def _does_not_fit(*_: object) -> NoReturn:
    raise SchemaError("the log does not fit the feed file", fix="mend it")


def test_an_hour_in_the_making_is_left_alone(
    tmp_path: Path, spark: SparkSession, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = FeedPair("m_making", tmp_path, spark, settings, **DEBEZIUM, tables={"s.items": {"columns": COLUMNS}})
    feed, table = pair.feed(pair.fixed), f"{pair.fixed}.items"
    for number, hour in enumerate(HOURS[:6], 1):
        pair.export(hour, [event("c", number, row(number, number))])
        if hour != HOURS[5]:
            pair.run(hour)
    land(feed, HOURS[5], settings)
    decode_stage(spark, feed, HOURS[5], settings)
    fold_stage(spark, feed, HOURS[5], settings)
    branches = {name for name in refs(settings, table) if name.startswith("audit_")}
    assert branches
    with monkeypatch.context() as patch:
        patch.setattr(maintenance, "index_keys", _does_not_fit)
        assert maintain(feed, settings) == NOTHING
    assert maintain(feed, settings) == replace(NOTHING, indexed=6)
    assert branches <= refs(settings, table)
    # What an older release without the feed lock would do: put files together between an hour's tasks.
    assert maintenance._rewrite(spark, (pair.fixed, "items")) >= 5
    assert publish_stage(spark, feed, HOURS[5], settings).counts.applied == 1
    assert sorted(r["id"] for r in pair.rows(pair.fixed, "items")) == [1, 2, 3, 4, 5, 6]
    assert audit(feed, settings).findings == []


def test_a_running_hour_is_waited_for(
    tmp_path: Path, spark: SparkSession, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns that an hour has added and not yet published are removed by maintenance: it must not see them."""
    pair = FeedPair("m_beside", tmp_path, spark, settings, **DEBEZIUM, tables={"s.items": {"columns": COLUMNS}})
    feed = pair.feed(pair.fixed)
    pair.export(HOURS[0], [event("c", 1, row(1, 1))])
    pair.run(HOURS[0])
    pair.export(HOURS[1], [event("c", 2, row(2, 2) | {"nick": "two"})])
    beside = Thread(target=maintain, args=(feed, settings))
    evolve, waited = PublishedTable.evolve, []

    def evolve_and_meet(self: PublishedTable, *arguments: Any, **more: Any) -> None:
        evolve(self, *arguments, **more)
        beside.start()
        beside.join(timeout=15)
        waited.append(beside.is_alive())

    monkeypatch.setattr(PublishedTable, "evolve", evolve_and_meet)
    pair.run(HOURS[1])
    beside.join()
    assert [(r["id"], r["nick"]) for r in pair.rows(pair.fixed, "items")] == [(1, None), (2, "two")]
    assert waited == [True]


def test_a_run_that_lost_its_lock_stops(
    tmp_path: Path, spark: SparkSession, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost() -> None:
        raise ConflictError("another run took the feed lock over")

    @contextmanager
    def locked(settings: Settings, feed: str) -> Iterator[FeedLock]:
        yield FeedLock(lost)

    monkeypatch.setattr(maintenance, "locked", locked)
    begun: list[str] = []
    feed = FeedPair("m_lost", tmp_path, spark, settings, **DEBEZIUM, **TABLES).feed("m_lost")
    with pytest.raises(ConflictError):
        maintain(feed, settings, begun.append)
    assert begun == []


@pytest.mark.parametrize("age", ["1h", "23h"])
def test_no_age_is_safe_that_a_run_may_take(age: str, tmp_path: Path, spark: SparkSession, settings: Settings) -> None:
    pair = FeedPair("m_age", tmp_path, spark, settings, **DEBEZIUM, **TABLES)
    with pytest.raises(ValueError, match="a day or more"):
        pair.feed("m_age", retention={"orphans": age})
