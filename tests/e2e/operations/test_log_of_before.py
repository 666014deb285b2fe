"""What an hour reads of the change log: its own entries, however long the feed has run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.e2e import debezium_messages as messages
from tests.e2e.debezium_messages import COLUMNS, event, row
from tests.e2e.feed_pair import FeedPair
from tests.e2e.schema_change_messages import HOURS, Change, Installation, Statement
from tests.e2e.transaction_exports import DEBEZIUM, export, ids, transaction
from tidemark.ledger.reloads import name_reloads
from tidemark.operations.read_table import json_lines, read_snapshot
from tidemark.settings import Settings

V1 = {"id": "int", "name": "text"}
CREATED = "CREATE TABLE items (id int PRIMARY KEY, name varchar(40))"
STATED = {"canal": CREATED, "dataworks": CREATED, "qlik": ""}
DECLARED = {"columns": {"id": "integer", "name": "varchar(40)"}, "key": ["id"]}


def hide_log(settings: Settings, feed: str, hours: Sequence[str]) -> None:
    """Make the log's files of these hours such that whoever opens one fails."""
    for hour in hours:
        files = list(Path(settings.lake_root).rglob(f"{feed}/changes/data/hour={hour}/*.parquet"))
        assert files
        for file in files:
            file.rename(file.with_suffix(".hidden"))


@pytest.mark.parametrize(
    "format_",
    ["canal", *(pytest.param(one, marks=pytest.mark.full) for one in ("dataworks", "qlik", "plain_debezium", "ibm"))],
)
def test_an_hour_in_order_opens_no_file_of_the_log_of_hours_before(
    tmp_path: Path, settings: Settings, format_: str
) -> None:
    """But of those in which the source states something about its tables."""
    tables = {"s.items": {} if format_ in STATED else DECLARED}
    made = Installation(format_, f"before_{format_}", tmp_path, settings, tables)

    def named(id_: int, name: str) -> dict[str, object]:
        return {"id": id_, "name": name}

    stated = [Statement(1, V1, STATED[format_], kind="CREATE")] if format_ in STATED else []
    hours = [
        [*stated, *(Change("c", id_, V1, named(id_, "a")) for id_ in (2, 3, 4))],
        [Change("c", 11, V1, named(11, "b")), Change("u", 12, V1, named(2, "b"), named(2, "a"))],
        [Change("d", 13, V1, named(3, "a"))],
        [
            Change("c", 21, V1, named(21, "c")),
            Change("u", 22, V1, named(2, "c"), named(2, "b")),
            Change("u", 23, V1, named(4, "c"), named(4, "a")),
            Change("d", 24, V1, named(11, "b")),
        ],
    ]
    for hour, entries in enumerate(hours):
        made.export(hour, entries)
    for hour in range(3):
        made.run(hour)
    hide_log(settings, made.name, HOURS[1:3] if stated else HOURS[:3])
    made.run(3)
    assert {r["id"]: r["name"] for r in made.rows()} == {2: "c", 4: "c", 21: "c"}


@pytest.mark.full
@pytest.mark.parametrize("again", [False, True])
def test_an_hour_opens_the_log_from_where_its_transactions_began(
    spark: SparkSession, settings: Settings, tmp_path: Path, again: bool
) -> None:
    """Be it of one that was held, or of one that comes again."""
    tables = {f"s.{name}": {"columns": COLUMNS} for name in ("items", "others")}
    pair = FeedPair(f"before_again_{again}".lower(), tmp_path, spark, settings, **DEBEZIUM, tables=tables)
    held = transaction(4, ("c", "items", 4, 4), ("u", "others", 1, 4))
    last = transaction(3, ("c", "items", 3, 3), ("u", "others", 2, 3))
    hours = [
        transaction(1, ("c", "items", 1, 1), ("c", "others", 1, 1), ("c", "others", 2, 1)),
        transaction(2, ("u", "items", 1, 2)),
        [*last, *held[:1]],
        [*(last if again else []), *held[1:], *transaction(5, ("u", "items", 3, 5), ("d", "others", 2, 0))],
    ]
    for hour, sent in zip(HOURS[:4], hours, strict=True):
        export(pair, hour, sent)
    for hour in HOURS[:3]:
        pair.run(hour)
    hide_log(settings, pair.fixed, HOURS[:2])
    assert pair.run(HOURS[3]).held == 0
    assert (ids(pair, "items"), ids(pair, "others")) == ({1: 2, 3: 5, 4: 4}, {1: 4})


@pytest.mark.full
def test_an_hour_behind_a_reload_opens_no_file_of_the_log_of_hours_before(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    tables = {f"s.{name}": {"columns": COLUMNS} for name in ("items", "others")}
    pair = FeedPair("before_reload", tmp_path, spark, settings, **messages.DEBEZIUM, tables=tables)
    hours = [
        [event("c", 1, row(1, 1)), event("c", 2, row(1, 1), table="others")],
        [event("c", 11, row(2, 2))],
        [event("c", 21, row(3, 3)), event("c", 22, row(4, 4), table="others")],
        [event("u", 31, row(1, 9)), event("d", 32, None, key={"id": 2}), event("u", 33, row(4, 9), table="others")],
    ]
    for hour, sent in zip(HOURS, hours, strict=False):
        pair.export(hour, sent)
    pair.run(HOURS[0])
    name_reloads(pair.feed(pair.fixed), ["s.others (empty)"], HOURS[1], settings)
    pair.run(HOURS[1])
    pair.run(HOURS[2])
    hide_log(settings, pair.fixed, HOURS[:3])
    pair.run(HOURS[3])
    assert (ids(pair, "items"), ids(pair, "others")) == ({1: 9, 3: 3}, {4: 9})


@pytest.mark.full
@pytest.mark.parametrize("format_", ["canal", "plain_debezium", "qlik", "ibm"])
def test_a_late_hour_opens_no_file_of_the_log_of_hours_before(tmp_path: Path, settings: Settings, format_: str) -> None:
    """Neither for the tables nor for its own cut, which goes on from the one before: but the hours from its own on."""
    tables = {"s.items": {} if format_ in STATED else DECLARED}
    made = Installation(format_, f"late_{format_}", tmp_path, settings, tables)

    def named(id_: int, name: str) -> dict[str, object]:
        return {"id": id_, "name": name}

    stated = [Statement(1, V1, STATED[format_], kind="CREATE")] if format_ in STATED else []
    hours = [
        [*stated, Change("c", 2, V1, named(2, "a"))],
        [Change("c", 11, V1, named(3, "a")), Change("c", 12, V1, named(4, "a")), Change("c", 13, V1, named(5, "a"))],
        [Change("u", 21, V1, named(2, "b"), named(2, "a"))],
        [
            Change("c", 31, V1, named(6, "c")),
            Change("u", 32, V1, named(3, "c"), named(3, "a")),
            Change("u", 33, V1, named(4, "c"), named(4, "a")),
            Change("d", 34, V1, named(2, "b")),
        ],
        [Change("u", 41, V1, named(3, "d"), named(3, "c")), Change("d", 42, V1, named(5, "a"))],
    ]
    for hour, entries in enumerate(hours):
        made.export(hour, entries)
    for hour in (0, 1, 2, 4):
        made.run(hour)
    hide_log(settings, made.name, HOURS[1:3] if stated else HOURS[:3])
    made.run(3)
    assert {r["id"]: r["name"] for r in made.rows()} == {3: "d", 4: "c", 6: "c"}
    assert {r["id"]: r["name"] for r in made.rows(as_of=3)} == {3: "c", 4: "c", 5: "a", 6: "c"}


@pytest.mark.full
def test_a_late_hour_of_transactions_opens_no_file_of_the_log_of_hours_before(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    """But of those in which transactions began that it goes on with, and of tables that a snapshot began where that ended."""
    tables = {f"s.{name}": {"columns": COLUMNS} for name in ("items", "others")}
    pair = FeedPair("late_transactions", tmp_path, spark, settings, **DEBEZIUM, tables=tables)
    snapshot = [event("r", 50, row(id_, 0), table=table) for table in ("items", "others") for id_ in range(1, 6)]
    for one in snapshot:
        value = json.loads(one["value"])
        value["source"] |= {
            "sequence": json.dumps([None, "50"]),
            "snapshot": "true" if one is not snapshot[-1] else "last",
        }
        one["value"] = json.dumps(value)
    goes_on = transaction(3, ("u", "items", 2, 3), ("u", "others", 2, 3), ("u", "items", 3, 3))
    ends_later = transaction(5, ("u", "items", 4, 5), ("u", "others", 4, 5))
    hours = [
        snapshot,
        [*transaction(1, ("u", "items", 1, 1)), *transaction(2, ("c", "others", 6, 2))],
        goes_on[:1],
        [*goes_on[1:], *transaction(4, ("u", "items", 1, 4), ("d", "others", 5, 0)), *ends_later[:1]],
        [*ends_later[1:], *transaction(6, ("u", "items", 1, 6), ("u", "others", 6, 6))],
    ]
    for hour, sent in zip(HOURS[:5], hours, strict=True):
        export(pair, hour, sent)
    for hour in (*HOURS[:3], HOURS[4]):
        pair.run(hour)
    hide_log(settings, pair.fixed, HOURS[1:2])
    pair.run(HOURS[3])
    items, others = {1: 6, 2: 3, 3: 3, 4: 5, 5: 0}, {1: 0, 2: 3, 3: 0, 4: 5, 6: 6}
    assert (ids(pair, "items"), ids(pair, "others")) == (items, others)
    of_cut = [read_snapshot(settings, f"{pair.fixed}.{table}", HOURS[3]) for table in ("items", "others")]
    cut = [{r["id"]: r["n"] for r in map(json.loads, json_lines(rows, key))} for rows, key in of_cut]
    assert cut == [items | {1: 4, 4: 0}, others | {4: 0, 6: 2}], "what only the later hour completes is not in the cut"
