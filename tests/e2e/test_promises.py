"""The promises on small, made-up Debezium hours: what is poisoned, checked, repeated, late or hostile."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.e2e.debezium_messages import COLUMNS, HOURS, Event, event, row
from tests.e2e.one_table_feed import OneTableFeed, rows
from tidemark.cli import app
from tidemark.errors import CheckError, ConfigError, ExportError, QuarantineLimitError, SchemaError
from tidemark.lake.catalog import find_table, read_rows
from tidemark.operations.read_table import read_snapshot
from tidemark.settings import Settings
from tidemark.tables.parquet_copies import copies_folder, newest_copies


@pytest.mark.promise(1)
def test_a_poisoned_record_waits_byte_for_byte(run: OneTableFeed, settings: Settings) -> None:
    poison = b'{"topic":"t","value":"{\\"op\\":\xff'
    hostile = event("c", 3, row(9, 9), table="x`; DROP TABLE y; --/../")
    hostile_value = "many\n\x1b[31m" + "y" * 80
    ends_in_a_line = event("c", 5, row(8, 8), table="orders\n")
    of_the_lake = event("c", 6, row(7, 7), table="receipts")
    of_the_lake["value"] = of_the_lake["value"].replace('"schema": "s"', '"schema": "TideMark"')
    records = [
        event("c", 1, row(1, 1)),
        poison,
        hostile,
        event("c", 4, row(2, hostile_value)),
        ends_in_a_line,
        of_the_lake,
    ]
    receipt = run(HOURS[0], records)
    assert (receipt.landed, receipt.counts.applied, receipt.quarantined) == (6, 1, 5)
    assert rows(settings, run) == [row(1, 1)]
    with pytest.raises(ConfigError, match=f"did you mean `{run.table}`"):
        read_snapshot(settings, run.table.upper())
    kept = {r["record"]: r for r in read_rows(settings, "tidemark", run.feed, "quarantine")}
    assert kept[2]["raw"] == poison and "bytes that are not UTF-8" in kept[2]["reason"]
    assert all("cannot be published under this name" in kept[record]["reason"] for record in (3, 5, 6))
    shown = '"many␣␣[31m' + "y" * 50 + '…"'
    assert kept[4]["reason"] == f"not a value of its column's type: n (int): {shown}"


@pytest.mark.promise(5)
def test_too_many_bad_records_stop_the_hour(run: OneTableFeed, settings: Settings) -> None:
    run(HOURS[0], [event("c", 1, row(1, 1))])
    with pytest.raises(QuarantineLimitError, match="12 of 13 records"):
        run(HOURS[1], [event("u", 20, row(1, 2)), *["{" for _ in range(12)]])
    assert rows(settings, run) == [row(1, 1)]


@pytest.mark.promise(5)
def test_a_truncated_object_publishes_nothing(run: OneTableFeed, settings: Settings, tmp_path: Path) -> None:
    run(HOURS[0], [event("c", 1, row(1, 1))])
    folder = tmp_path / f"t/dt={HOURS[1].date}/hr={HOURS[1].clock}"
    folder.mkdir(parents=True)
    whole = gzip.compress(json.dumps(event("u", 2, row(1, 2))).encode() * 50)
    (folder / "part-0.jsonl.gz").write_bytes(whole[:-9])
    with pytest.raises(ExportError, match=r"part-0"):
        run(HOURS[1], [event("u", 3, row(1, 3))])
    assert rows(settings, run) == [row(1, 1)]


@pytest.mark.promise(6)
def test_the_same_hour_again_changes_nothing(run: OneTableFeed, settings: Settings) -> None:
    first = run(HOURS[0], [event("c", 1, row(1, 1)), event("c", 2, row(2, 2))])
    before = find_table(settings, *run.table.split("."))
    feed_again = run  # the second export object is a new version of the hour, with one change repeated
    second = feed_again(HOURS[0], [event("c", 2, row(2, 2)), event("u", 3, row(2, 3))])
    assert (first.sequence, second.sequence, second.manifest_version) == (1, 2, 2)
    assert (second.landed, second.counts.applied, second.counts.duplicate) == (4, 3, 1)
    assert rows(settings, run) == [row(1, 1), row(2, 3)]
    after = find_table(settings, *run.table.split("."))
    assert before is not None and after is not None
    assert before.metadata.current_snapshot_id != after.metadata.current_snapshot_id
    assert run(HOURS[0], None) == second
    again = find_table(settings, *run.table.split("."))
    assert again is not None and again.metadata.current_snapshot_id == after.metadata.current_snapshot_id


UNSENT = "__debezium_unavailable_value"


@pytest.mark.full
@pytest.mark.promise(2, 4)
def test_late_rows_come_to_the_same_table(run: OneTableFeed, settings: Settings) -> None:
    """A delete is not undone by the insert before it; a partial row is filled in; what is older loses."""
    gone = event("d", 30, None, key={"id": 1})
    run(
        HOURS[3],
        [gone, event("u", 31, row(2, 5, UNSENT)), event("c", 32, row(3, 3)), event("u", 33, row(5, 9, UNSENT))],
    )
    late = run(
        HOURS[1],
        [
            event("c", 10, row(1, 1)),
            event("c", 12, row(4, 4)),
            event("c", 13, row(5, 1, "old")),
            event("u", 21, row(3, 1)),
            event("c", 16, row(2, 1, "kept")),
            event("u", 20, row(2, 2, "newer")),
        ],
    )
    assert rows(settings, run) == [row(2, 5, "newer"), row(3, 3), row(4, 4), row(5, 9, "old")]
    assert (late.counts.applied, late.counts.superseded) == (4, 2)
    assert rows(settings, run, HOURS[3]) == [row(2, 5, None), row(3, 3), row(5, 9, None)], "the old cut stays as it was"


@pytest.mark.full
@pytest.mark.promise(2, 4)
def test_a_late_truncate_comes_to_the_same_table(run: OneTableFeed, settings: Settings) -> None:
    """A partial row is empty again where a truncate takes what it rested on; one comes again, another is older."""
    newest = event("t", 15, None)
    first = [event("c", 12, row(4, 4)), event("c", 13, row(5, 1, "old")), event("u", 31, row(5, 9, UNSENT))]
    run(HOURS[1], [event("t", 5, None), *first, event("c", 32, row(3, 3))])
    assert rows(settings, run) == [row(3, 3), row(4, 4), row(5, 9, "old")]
    late = run(HOURS[0], [newest, event("t", 5, None), event("t", 4, None), event("u", 9, row(3, 30))])
    assert rows(settings, run) == [row(3, 3), row(5, 9, None)]
    assert (late.counts.applied, late.counts.superseded, late.counts.duplicate) == (1, 2, 1)
    assert late.tables[0].warnings == []
    begun_again = run(HOURS[2], [event("c", 6, row(7, 7)), event("c", 7, row(8, 8))])
    (warning,) = begun_again.tables[0].warnings
    assert warning.startswith(
        "all 2 changes of the hour are older than what the table holds: if the source's positions"
    )
    assert rows(settings, run) == [row(3, 3), row(5, 9, None)]


@pytest.mark.full
@pytest.mark.promise(2, 4)
def test_late_hours_come_to_the_same_table(run: OneTableFeed, settings: Settings) -> None:
    """A delete is not undone by the insert before it; a partial row is filled in; an older truncate leaves the newer."""
    unavailable = "__debezium_unavailable_value"
    run(
        HOURS[3],
        [event("d", 30, None, key={"id": 1}), event("u", 31, row(2, 5, unavailable)), event("c", 32, row(3, 3))],
    )
    assert rows(settings, run) == [row(2, 5, None), row(3, 3)]
    run(HOURS[1], [event("c", 10, row(1, 1)), event("c", 11, row(2, 1, "kept")), event("c", 12, row(4, 4))])
    assert rows(settings, run) == [row(2, 5, "kept"), row(3, 3), row(4, 4)]
    late = run(HOURS[2], [event("u", 20, row(2, 2, "newer")), event("u", 21, row(3, 1))])
    assert rows(settings, run) == [row(2, 5, "newer"), row(3, 3), row(4, 4)]
    assert (late.counts.applied, late.counts.superseded) == (1, 1)
    run(HOURS[0], [event("t", 15, None)])
    assert rows(settings, run) == [row(2, 5, "newer"), row(3, 3)]
    assert rows(settings, run, HOURS[3]) == [row(2, 5, None), row(3, 3)]  # the old cut stays what it was


@pytest.mark.promise(4)
def test_a_key_change_carries_over_what_was_not_sent(run: OneTableFeed, settings: Settings) -> None:
    run(HOURS[0], [event("c", 1, row(1, 1, "large"))])
    moved = event("c", 5, row(2, 1, "__debezium_unavailable_value"))
    moved["headers"] = [{"key": "__debezium.oldkey", "value": '{"id":1}'}]
    deleted = event("d", 5, None, key={"id": 1})
    again = event("c", 9, row(3, 1, "__debezium_unavailable_value"))
    again["headers"] = [{"key": "__debezium.oldkey", "value": '{"id":2}'}]
    run(
        HOURS[1],
        [
            again,
            event("d", 9, None, key={"id": 2}),
            moved,
            deleted,
            event("u", 4, row(1, 2, "__debezium_unavailable_value")),
        ],
    )
    assert rows(settings, run) == [row(3, 1, "large")]


@pytest.mark.promise(5)
def test_checks_have_their_consequences(run: OneTableFeed, settings: Settings) -> None:
    """And a copy in a Parquet folder shows what is published, nothing else."""
    checks = [
        {"column": "n", "min": 0, "consequence": "stop"},
        {"column": "n", "max": 9, "consequence": "quarantine"},
        {"column": "big", "pattern": "^x", "consequence": "warn"},
        {"unique": ["id"]},
    ]
    table = {"columns": COLUMNS, "checks": checks, "parquet": True}
    run(HOURS[0], [event("c", 1, row(1, 1)), event("c", 2, row(2, 2))], table=table)
    receipt = run(HOURS[1], [event("u", 3, row(1, 10)), event("u", 4, row(2, 3, "y"))], table=table)
    assert rows(settings, run) == copied(settings, run) == [row(1, 1), row(2, 3, "y")]
    assert (receipt.counts.applied, receipt.quarantined) == (1, 1)
    assert [table.warnings for table in receipt.tables] == [["big matches ^x fails in 1 of 1 rows that were written"]]
    (checked,) = receipt.tables
    found = [(one.check, one.consequence, one.rows, one.failed, one.keys) for one in checked.checks]
    assert found == [
        ("n >= 0", "stop", 1, 0, []),
        ("n <= 9", "quarantine", 1, 0, []),
        ("big matches ^x", "warn", 1, 1, ['{"id":2}']),
    ]
    kept = read_rows(settings, "tidemark", run.feed, "quarantine")
    assert [one["reason"] for one in kept] == ["check failed: n <= 9"]
    with pytest.raises(CheckError, match="n >= 0"):
        run(HOURS[2], [event("u", 5, row(2, -1))], table=table)
    assert rows(settings, run) == copied(settings, run) == [row(1, 1), row(2, 3, "y")]
    assert rows(settings, run, HOURS[0]) == [row(1, 1), row(2, 2)]


@pytest.mark.promise(5)
def test_checked_columns_may_have_any_name(run: OneTableFeed) -> None:
    checks = [{"unique": ["count", "a.b"]}, {"column": "a.b", "not_null": True}]
    table = {"columns": {"id": "bigint", "count": "int", "a.b": "int"}, "checks": checks}
    run(HOURS[0], [event("c", n, {"id": n, "count": 1, "a.b": n}) for n in (1, 2)], table=table)
    with pytest.raises(CheckError, match=r"not unique: count, a\.b"):
        run(HOURS[1], [event("c", 3, {"id": 3, "count": 1, "a.b": 2})], table=table)
    with pytest.raises(CheckError, match=r"a\.b is not null"):
        run(HOURS[2], [event("c", 3, {"id": 3, "count": 1, "a.b": None})], table=table)


def copied(settings: Settings, run: OneTableFeed) -> list[Event]:
    """The rows of the table's copy in a Parquet folder."""
    copies = newest_copies(settings, run.feed)
    assert copies is not None
    folder = f"{copies_folder(settings, run.feed)}/{copies.tables[run.table]}"
    return sorted(pq.read_table(folder).to_pylist(), key=lambda one: one["id"])


@pytest.mark.promise(3)
def test_a_copy_that_was_off_for_an_hour_holds_what_that_hour_brought(run: OneTableFeed, settings: Settings) -> None:
    on = {"columns": COLUMNS, "parquet": True}
    run(HOURS[0], [event("c", 1, row(1, 1)), event("c", 2, row(2, 2))], table=on)
    run(HOURS[1], [event("u", 11, row(1, 11)), event("d", 12, None, key={"id": 2})], table={"columns": COLUMNS})
    run(HOURS[2], [], table=on)
    assert copied(settings, run) == rows(settings, run) == [row(1, 11)]


@pytest.mark.promise(5)
def test_a_module_of_checks_has_its_say(run: OneTableFeed, settings: Settings) -> None:
    folder = settings.path(settings.checks)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "items.py").write_text(
        "import pandera.pyspark as pa\n"
        "from pyspark.sql import types as T\n\n\n"
        "class Items(pa.DataFrameModel):\n"
        "    id: T.LongType() = pa.Field(ge=1)\n"
        "    n: T.IntegerType() = pa.Field(le=9, nullable=True, metadata={'consequence': 'quarantine'})\n"
    )
    table = {"checks_module": "items:Items"}
    receipt = run(
        HOURS[0], [event("c", 1, row(1, 1)), event("c", 2, row(2, 3)), event("c", 3, row(3, 10))], table=table
    )
    assert rows(settings, run) == [row(1, 1), row(2, 3)]
    assert receipt.quarantined == 1
    with pytest.raises(CheckError, match=r"id greater_than_or_equal_to\(1\)"):
        run(HOURS[1], [event("c", 5, row(0, 1))], table=table)
    with pytest.raises(ConfigError, match=r"no pandera.pyspark DataFrameModel of that name"):
        run(HOURS[1], None, table={"checks_module": "items:Nobody"})
    assert rows(settings, run) == [row(1, 1), row(2, 3)]


@pytest.mark.full
@pytest.mark.promise(2, 4)
def test_a_late_truncate_takes_back_what_newer_rows_rest_on(run: OneTableFeed, settings: Settings) -> None:
    run(HOURS[0], [event("c", 1, row(1, 1, "old")), event("c", 2, row(2, 2)), event("c", 3, row(3, 3))])
    run(HOURS[2], [event("u", 20, row(1, 9, "__debezium_unavailable_value")), event("c", 21, row(4, 4))])
    assert rows(settings, run)[0] == row(1, 9, "old")
    truncate = event("t", 10, None)
    receipt = run(HOURS[1], [truncate, event("u", 9, row(3, 30))])
    assert rows(settings, run) == [row(1, 9, None), row(4, 4)]
    assert (receipt.counts.applied, receipt.counts.superseded) == (1, 1)
    again = run(HOURS[3], [truncate, event("t", 5, None)])
    assert (again.counts.duplicate, again.counts.superseded, again.counts.applied) == (1, 1, 0)
    assert rows(settings, run) == [row(1, 9, None), row(4, 4)]


@pytest.mark.full
def test_an_unsafe_change_of_a_column_stops_the_feed(run: OneTableFeed, settings: Settings) -> None:
    run(HOURS[0], [event("c", 1, row(1, 1))])
    with pytest.raises(SchemaError, match="column n is int and would become string"):
        run(HOURS[1], [event("u", 2, row(1, 2))], table={"columns": {"id": "bigint", "n": "text", "big": "text"}})
    run(HOURS[1], [event("u", 3, {**row(1, 2), "more": "m"})])
    assert rows(settings, run)[0]["more"] == "m"


def test_the_command_line_shows_it(run: OneTableFeed, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    poison = b"{poison"
    run(HOURS[0], [event("c", 1, row(1, 1, "<b>\x1b[31m")), poison])
    monkeypatch.setenv("TIDEMARK_HOME", str(settings.home))

    def tidemark(*arguments: str) -> Any:
        return CliRunner().invoke(app, list(arguments))

    assert tidemark("show", run.table, "--json").output == '{"id": 1, "n": 1, "big": "<b>\\u001b[31m"}\n'
    assert "\x1b" not in tidemark("show", run.table).output
    receipts = tidemark("receipts", run.feed).output.splitlines()
    assert receipts[1].split("\t")[:5] == [run.feed, HOURS[0], "2", "0", "1"]
    listed = tidemark("quarantine", "list", run.feed).output.splitlines()[1].split("\t")
    object_, record = listed[2], listed[3].split(".")[0]
    assert tidemark("quarantine", "show", run.feed, object_, record).stdout_bytes == poison
    assert tidemark("held", run.feed).output == "transaction\tsince\tchanges\ttables\tmissing\n"
    objects = [json.loads(line) for line in tidemark("quarantine", "list", run.feed, "--json").output.splitlines()]
    assert [(one["object"], one["record"]) for one in objects] == [(object_, int(record))]
    (whole,) = (json.loads(line) for line in tidemark("receipts", run.feed, "--json").output.splitlines())
    assert (whole["hour"], whole["landed"], whole["tables"][0]["counts"]["applied"]) == (HOURS[0], 2, 1)
    assert tidemark("receipts", run.feed, "--since", HOURS[1]).output.splitlines() == receipts[:1]
    assert tidemark("tables", run.feed).output.splitlines()[1:] == [f"{run.feed}\t{run.table}\ts.items\t"]
    missing = tidemark("show", run.table, "--as-of", HOURS[5])
    assert isinstance(missing.exception, ConfigError) and "has no cut of" in str(missing.exception)
