"""Audit: a lake that is whole has no difference, and each way of damaging it is found, and located."""

# ruff: noqa: S608 - the statements are the tests' own
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tests.e2e.debezium_messages import COLUMNS, DEBEZIUM, HOURS, TRANSACTIONS, end, event, line, part, row
from tests.e2e.feed_pair import FeedPair
from tests.e2e.one_table_feed import OneTableFeed
from tidemark.cli import app
from tidemark.errors import CheckError, ConfigError
from tidemark.feeds.model import Feed
from tidemark.ledger.manifest import load_manifest
from tidemark.ledger.quarantine import list_kept_back
from tidemark.ledger.state_store import load_state
from tidemark.operations.audit import audit
from tidemark.settings import Settings
from tidemark.tables.parquet_copies import copies_folder, document_name, newest_copies

pytestmark = [pytest.mark.full, pytest.mark.promise(1)]

NAME = "au_fixed"
ITEMS, LINES, FOLDERS = f"{NAME}.items", f"{NAME}.lines", f"{NAME}.folders"
CHECK = {"column": "big", "pattern": "^[a-z]", "consequence": "quarantine"}
TABLES = {
    "s.items": {"columns": COLUMNS, "checks": [CHECK]},
    "s.lines": {"columns": {"id": "bigint", "n": "int"}, "key": []},
    "s.folders": {"columns": COLUMNS, "parquet": True},
}


@pytest.fixture(scope="module")
def feed(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, settings: Settings) -> Feed:
    """Three hours with all there is: tables of three kinds, quarantine of every stage, a held transaction, a replay."""
    pair = FeedPair("au", tmp_path_factory.mktemp("audit"), spark, settings, **TRANSACTIONS, tables=TABLES)
    folder = event("c", 3, row(1, 1), table="folders")
    hours = {
        HOURS[0]: [event("c", 1, row(1, 1)), event("c", 2, row(2, 2, "big")), folder, line(4, 7), line(5, 7), b"{", b"\xff"],
        HOURS[1]: [event("c", 10, row(6, 6, "6")), event("c", 11, row(3, 5_000_000_000)), event("d", 12, None, key={"id": 2}),
                   line(13, 7, "d"), line(14, 8), event("u", 15, row(1, 5), table="folders")],
        HOURS[2]: [part(event("c", 20, row(5, 5)), "5", 1), event("u", 21, row(1, 7)), event("c", 1, row(1, 1))],
    }  # fmt: skip
    for hour, records in hours.items():
        pair.export(hour, records)
        pair.export(hour, [end("9", 2)] if hour == HOURS[2] else [], "tx")
        pair.run(hour)
    wider = {**TABLES["s.items"], "columns": {**COLUMNS, "n": "bigint"}}
    pair.replay(HOURS[1], tables={**TABLES, "s.items": wider})
    return pair.feed(NAME, tables={**TABLES, "s.items": wider})


def test_the_state_tells_what_is_in_quarantine(feed: Feed, settings: Settings) -> None:
    """After a replay too: what a glance shows is what the quarantine holds."""
    state, kept = load_state(settings, feed.feed), Counter(row["hour"] for row in list_kept_back(settings, feed.feed))
    assert state.in_quarantine == kept and kept.total() > 0
    assert state.recent == {HOURS[0]: 7, HOURS[1]: 6, HOURS[2]: 4}


def test_a_lake_that_is_whole_has_no_difference(feed: Feed, settings: Settings) -> None:
    found = audit(feed, settings)
    assert [str(difference) for difference in found.findings] == []
    assert found.hours == {HOURS[0]: 7, HOURS[1]: 6, HOURS[2]: 4}
    assert audit(feed, settings, HOURS[1], HOURS[1]).hours == {HOURS[1]: 6}
    with pytest.raises(ConfigError, match=f"no hour from {HOURS[4]} on is published") as refused:
        audit(feed, settings, HOURS[4])
    assert refused.value.fix == f"name hours from {HOURS[0]} to {HOURS[2]}, where its published ones are"
    with pytest.raises(ConfigError, match="no hour from 2026-11-19T00 to 2026-11-19T05 is published"):
        audit(feed, settings, "2026-11-19T00", "2026-11-19T05")
    with pytest.raises(ConfigError, match="the last hour 2026-11-20T00 is before the first, 2026-11-20T02"):
        audit(feed, settings, HOURS[2], HOURS[0])


def test_a_replay_that_a_check_stops_has_damaged_nothing(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    """What it decoded anew is of the hour's records still: nothing is to be restored from a backup."""
    tables = {"s.items": {"columns": {**COLUMNS, "n": "int"}}}
    pair = FeedPair("au_stop", tmp_path, spark, settings, **DEBEZIUM, quarantine={"limit": 1}, tables=tables)
    spoilt = event("c", 3, row(3, 3))
    spoilt["value"] = spoilt["value"].replace('"op": "c"', '"op": "?"')
    pair.export(HOURS[0], [event("c", 1, row(1, 1)), event("c", 2, row(2, 5_000_000_000)), spoilt])
    pair.run(HOURS[0])
    checks = [{"column": "n", "max": 9, "consequence": "stop"}]
    with pytest.raises(CheckError):
        pair.replay(HOURS[0], tables={"s.items": {"columns": {**COLUMNS, "n": "bigint"}, "checks": checks}})
    found = [str(finding).splitlines()[0] for finding in audit(pair.feed(pair.fixed), settings).findings]
    assert found == [f"manifest, hour {HOURS[0]}, version 2: is not published"]
    pair.run(HOURS[0])
    assert audit(pair.feed(pair.fixed), settings).findings == []


def test_a_name_that_was_given_to_another_of_the_sources_tables(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    """The rows of the first stay under it. What would be its own name is another feed's."""
    run, another = (OneTableFeed(f"au_{name}", tmp_path / name, settings) for name in ("name", "other"))

    def named(source: str, table: str) -> dict[str, Any]:
        return {"tables": {source: {"name": table, "columns": COLUMNS}}}

    first = event("c", 1, row(1, 1), table="au_first")
    run(HOURS[0], [first], **named("s.au_first", run.table))
    now = named("s.au_second", run.table)
    run(HOURS[1], [event("u", 2, row(1, 2), table="au_second")], **now)
    another(HOURS[0], [first], **named("s.au_first", "s.au_first"))
    assert audit(run.definition(**now), settings).findings == []


class Lake:
    """Damages, each undone afterwards."""

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        self.spark, self.settings = spark, settings

    @contextmanager
    def sql(self, table: str, statement: str) -> Iterator[None]:
        """A statement on a table of the lake."""
        name = ".".join(f"`{part}`" for part in ("lake", *table.split(".")))
        before = self.spark.sql(f"SELECT snapshot_id FROM {name}.refs WHERE name = 'main'").first()
        assert before is not None
        self.spark.sql(statement.format(name))
        yield
        self.spark.sql(f"CALL lake.system.set_current_snapshot(table => '{table}', snapshot_id => {before[0]})")

    @contextmanager
    def tag(self, table: str, hour: str, change: str) -> Iterator[None]:
        tag = "hour_" + hour.replace("-", "_")
        name = ".".join(f"`{part}`" for part in ("lake", *table.split(".")))
        was = self.spark.sql(f"SELECT snapshot_id FROM {name}.refs WHERE name = '{tag}'").first()
        first = self.spark.sql(f"SELECT snapshot_id FROM {name}.snapshots ORDER BY committed_at").first()
        assert was is not None and first is not None
        self.spark.sql(f"ALTER TABLE {name} {change.format(tag=tag, first=first[0])}")
        yield
        self.spark.sql(f"ALTER TABLE {name} CREATE OR REPLACE TAG {tag} AS OF VERSION {was[0]}")

    @contextmanager
    def file(self, location: str, damage: Callable[[bytes], bytes | None]) -> Iterator[None]:
        path = Path(location)
        was = path.read_bytes()
        now = damage(was)
        path.unlink() if now is None else path.write_bytes(now)
        yield
        path.write_bytes(was)

    def landed(self, hour: str, records: int) -> str:
        """A landed object of the hour with this number of records."""
        objects = load_manifest(self.settings, NAME, hour).objects
        return next(f"{self.settings.landing_root}/{o.path}" for o in objects if o.records == records)

    def copy_of(self, table: str) -> str:
        """What says that the newest copy of a table in a Parquet folder is whole."""
        copies = newest_copies(self.settings, NAME)
        assert copies is not None
        return f"{copies_folder(self.settings, NAME)}/{copies.tables[table]}/_SUCCESS"

    def file_of_copy(self, table: str) -> str:
        """The largest file of the newest copy of a table."""
        parts = Path(self.copy_of(table)).parent.glob("part-*")
        return str(max(parts, key=lambda part: part.stat().st_size))


def flipped(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


def manifest(settings: Settings, hour: str) -> str:
    return f"{settings.landing_root}/{NAME}/_manifests/{hour}/v00001.json"


CHANGES, RECEIPTS = f"tidemark.{NAME}.changes", "tidemark.receipts"
OF_FEED = f"WHERE feed = '{NAME}' AND"
DAMAGES: dict[str, tuple[Callable[[Lake], Any], list[tuple[str, str, str]]]] = {
    "an object altered": (
        lambda lake: lake.file(lake.landed(HOURS[1], 6), flipped), [("object", HOURS[1], "")],
    ),
    "an object cut off": (
        lambda lake: lake.file(lake.landed(HOURS[0], 7), lambda was: was[:-3]), [("object", HOURS[0], "bytes, its manifest")],
    ),
    "an object removed": (
        lambda lake: lake.file(lake.landed(HOURS[2], 3), lambda _: None), [("object", HOURS[2], "is missing")],
    ),
    "a manifest removed": (
        lambda lake: lake.file(manifest(lake.settings, HOURS[0]), lambda _: None), [("manifest", HOURS[0], "is missing")],
    ),
    "a manifest altered": (
        lambda lake: lake.file(
            manifest(lake.settings, HOURS[0]), lambda was: was.replace(b'"records": 7', b'"records": 8')
        ),
        [("manifest", HOURS[0], "holds 7 records, its manifest says 8")],
    ),
    "a manifest that says less of the bytes": (
        lambda lake: lake.file(
            manifest(lake.settings, HOURS[0]), lambda was: was.replace(b'"plain": false', b'"plain": true')
        ),
        [("manifest", HOURS[0], "holds what its manifest says it does not")],
    ),
    "entries of the log deleted": (
        lambda lake: lake.sql(CHANGES, f"DELETE FROM {{}} WHERE hour = '{HOURS[2]}' AND position IS NOT NULL"),
        [("change log", HOURS[2], "landed 1, the receipt says 4"), ("table", ITEMS, "with another sort key"),
         ("change log", f"{HOURS[2]}, object", "has 0 of its 3 records")],
    ),
    "a value in the log altered": (
        lambda lake: lake.sql(
            CHANGES,
            "UPDATE {} SET after = map('id', '1', 'n', '8', 'big', 'x') " f"WHERE hour = '{HOURS[2]}' AND op = 'update'",
        ),
        [("table", ITEMS, "1 rows with other values by the change log, like the one of key {\"id\":1}")],
    ),
    "a receipt altered": (
        lambda lake: lake.sql(RECEIPTS, 'UPDATE {} SET receipt = replace(receipt, \'"landed":7\', \'"landed":8\') '
                                        f"{OF_FEED} sequence = 1"),
        [("receipt", f"receipt 1 of {HOURS[0]}", "landed 7, in its text 8"), ("receipt", "receipt 1", "does not balance"),
         ("records", HOURS[0], "hold 7, the receipt says 8"), ("change log", HOURS[0], "landed 7, the receipt says 8")],
    ),
    "a receipt unreadable": (
        lambda lake: lake.sql(RECEIPTS, f"UPDATE {{}} SET receipt = '{{{{' {OF_FEED} sequence = 3"),
        [("receipt", f"receipt 3 of {HOURS[2]}", "cannot be read"), ("receipt", "publication 3", "has no receipt")],
    ),
    "a receipt removed": (
        lambda lake: lake.sql(RECEIPTS, f"DELETE FROM {{}} {OF_FEED} sequence = 1"),
        [("receipt", "publication 1", "has no receipt"), ("cut", "", "has no receipt")],
    ),
    "a row deleted": (
        lambda lake: lake.sql(ITEMS, "DELETE FROM {} WHERE id = 3"),
        [("table", ITEMS, '1 rows missing by the change log, like the one of key {"id":3}')],
    ),
    "a row altered": (
        lambda lake: lake.sql(ITEMS, "UPDATE {} SET big = 'y' WHERE id = 1"),
        [("table", ITEMS, '1 rows with other values by the change log, like the one of key {"id":1}')],
    ),
    "a row added": (
        lambda lake: lake.sql(ITEMS, "INSERT INTO {} SELECT 77, n, big, _tidemark FROM {} WHERE id = 1".replace("{}", "{0}")),
        [("table", ITEMS, '1 rows too many by the change log, like the one of key {"id":77}')],
    ),
    "a copy of a row without a key deleted": (
        lambda lake: lake.sql(LINES, "DELETE FROM {} WHERE n = 8"), [("table", LINES, "1 rows missing")],
    ),
    "a table taken back": (
        lambda lake: lake.sql(
            ITEMS, f"CALL lake.system.set_current_snapshot(table => '{ITEMS}', ref => 'hour_2026_11_20T00')"
        ),
        [("table", ITEMS, "readers see au_fixed_2026_11_20T00_1"), ("table", ITEMS, "with another sort key")],
    ),
    "a tag removed": (
        lambda lake: lake.tag(ITEMS, HOURS[0], "DROP TAG {tag}"), [("cut", HOURS[0], "hour_2026_11_20T00 is missing")],
    ),
    "a tag moved": (
        lambda lake: lake.tag(ITEMS, HOURS[2], "CREATE OR REPLACE TAG {tag} AS OF VERSION {first}"),
        [("cut", HOURS[2], "not to publication 3")],
    ),
    "a copy not written to its end": (
        lambda lake: lake.file(lake.copy_of(FOLDERS), lambda _: None), [("copy", FOLDERS, "is missing or not whole")],
    ),
    "a file of a copy removed": (
        lambda lake: lake.file(lake.file_of_copy(FOLDERS), lambda _: None), [("copy", FOLDERS, "lacks")],
    ),
    "a file of a copy altered": (
        lambda lake: lake.file(lake.file_of_copy(FOLDERS), lambda was: b"x" * len(was)),
        [("copy", FOLDERS, "cannot be read")],
    ),
    "the newest document of copies removed": (
        lambda lake: lake.file(f"{copies_folder(lake.settings, NAME)}/{document_name(4)}", lambda _: None),
        [("copy", f"parquet/{NAME}", "the newest is of publication 3, the last one is 4")],
    ),
    "a row written twice": (
        lambda lake: lake.sql(ITEMS, "INSERT INTO {0} SELECT * FROM {0} LIMIT 1"),
        [("table", ITEMS, "2 rows of one key, where one should be by the change log")],
    ),
    "tombstones removed": (
        lambda lake: lake.sql(f"tidemark.{NAME}.tombstones", "DELETE FROM {} WHERE key = '{{\"id\":2}}'"),
        [("table", ITEMS, '1 deletes have no tombstone, like that of key {"id":2}')],
    ),
    "rows of the quarantine removed": (
        lambda lake: lake.sql(f"tidemark.{NAME}.quarantine", "DELETE FROM {} WHERE sequence = 1"),
        [("quarantine", f"{HOURS[0]}, undecodable", "0 in quarantine, the receipt says 2")],
    ),
    "rows that a check refused removed": (
        lambda lake: lake.sql(f"tidemark.{NAME}.quarantine", "DELETE FROM {} WHERE stage = 'screen'"),
        [("quarantine", f"{HOURS[1]}, {ITEMS}", "0 in quarantine")],
    ),
    "a held transaction forgotten": (
        lambda lake: lake.sql(f"tidemark.{NAME}.held", "DELETE FROM {} WHERE sequence > 3"),
        [("held", HOURS[1], "0 transactions are listed as held, the receipt says 2")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_each_damage_is_found_with_its_place(feed: Feed, spark: SparkSession, settings: Settings, damage: str) -> None:
    harm, expected = DAMAGES[damage]
    with harm(Lake(spark, settings)):
        found = [(d.kind, d.where, d.found) for d in audit(feed, settings).findings]
    for kind, where, what in expected:
        assert any((kind == k and where in w and what in f) for k, w, f in found), (kind, where, what, found)


def test_the_command_line_says_what_to_do(
    feed: Feed, spark: SparkSession, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import yaml

    definition = feed.model_dump(mode="json", exclude_defaults=True) | {
        "container": feed.container,
        "format": feed.format,
    }
    definition["exports"]["settle"] = "0s"
    (tmp_path / f"{NAME}.yaml").write_text(yaml.safe_dump(definition))
    for name, value in {"HOME": settings.home, "FEEDS": tmp_path, "JARS": settings.jars}.items():
        monkeypatch.setenv(f"TIDEMARK_{name}", str(value))

    def tidemark() -> Any:
        return CliRunner().invoke(app, ["audit", NAME, "--from", HOURS[0], "--to", HOURS[1]])

    good = tidemark()
    assert good.exit_code == 0
    assert good.output.splitlines()[-2:] == [
        f"{NAME} {HOURS[0]}: 7 records landed, agrees", f"{NAME} {HOURS[1]}: 6 records landed, agrees",
    ]  # fmt: skip
    lake = Lake(spark, settings)
    with lake.file(lake.landed(HOURS[1], 6), lambda _: None):
        bad = tidemark()
    assert bad.exit_code == 1
    assert f"{NAME} {HOURS[1]}: 6 records landed, see below" in bad.output
    assert "is missing\n  To fix: restore it from a backup or from its source, /" in bad.output
    assert bad.output.splitlines()[-1] == "1 difference"
