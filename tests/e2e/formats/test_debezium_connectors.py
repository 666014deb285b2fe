"""What is particular to a connector of Debezium's, over hours: messages as its own tests say that it sends them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.e2e.debezium_messages import HOURS, Event, end, event, part
from tests.e2e.one_table_feed import OneTableFeed, rows
from tidemark.settings import Settings

pytestmark = [pytest.mark.full]


def of_sql_server(op: str, number: int, row: Event, before: Event | None = None) -> Event:
    record = event(op, number, row)
    lsn = f"00000027:00000758:{number:04x}"
    value: dict[str, Any] = json.loads(record["value"]) | {"before": before}
    value["source"] |= {"commit_lsn": lsn, "change_lsn": lsn, "event_serial_no": 1}
    return record | {"value": json.dumps(value)}


@pytest.mark.promise(4)
def test_a_large_column_that_an_update_of_sql_server_leaves_keeps_its_value(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    """The change table has null in both images for it; one that is made null has its value in the image before."""
    run = OneTableFeed("large", tmp_path, settings)
    declared = {
        "format": {"type": "debezium", "connector": "sqlserver"},
        "table": {"columns": {"id": "bigint", "n": "int", "big": "text", "doc": "text"}},
    }
    nothing = {"big": None, "doc": None}
    run(HOURS[1], [
        of_sql_server("u", 3, {"id": 1, "n": 11} | nothing, {"id": 1, "n": 1} | nothing),
        of_sql_server("u", 4, {"id": 2, "n": 22} | nothing, {"id": 2, "n": 2, "big": "b", "doc": None}),
        of_sql_server("u", 5, {"id": 3, "n": 33} | nothing, {"id": 3, "n": 3} | nothing),
    ], **declared)  # fmt: skip
    run(HOURS[0], [
        of_sql_server("c", 1, {"id": 1, "n": 1, "big": "a", "doc": "x"}),
        of_sql_server("c", 2, {"id": 2, "n": 2, "big": "b", "doc": "y"}),
        of_sql_server("c", 2, {"id": 3, "n": 3} | nothing),
    ], **declared)  # fmt: skip
    assert sorted(rows(settings, run), key=lambda row: row["id"]) == [
        {"id": 1, "n": 11, "big": "a", "doc": "x"}, {"id": 2, "n": 22, "big": None, "doc": "y"}, {"id": 3, "n": 33} | nothing,
    ]  # fmt: skip


def of_oracle(op: str, number: int, row: Event, **source: Any) -> Event:
    """Without a key, as a table without one has it: an image for each side that the operation has."""
    record = event(op, number, row)
    value: dict[str, Any] = json.loads(record["value"])
    value |= {"before": {**row, "n": 1}} if op == "u" else {"before": row, "after": None} if op == "d" else {}
    value["source"] |= {"txId": "0a00", "scn": "100", "commit_scn": "105", "ssn": 0, **source}
    return record | {"key": None, "value": json.dumps(value)}


@pytest.mark.promise(1, 2)
@pytest.mark.parametrize("numbered", [True, False], ids=["numbered", "by their record alone"])
def test_equal_rows_of_one_redo_record_of_oracle_are_a_row_each(
    spark: SparkSession, settings: Settings, tmp_path: Path, numbered: bool
) -> None:
    """An array's insert or delete is one record; LogMiner's number of a row in it is not sent, the transaction's is by newer
    connectors."""
    run = OneTableFeed(f"array_{numbered}".lower(), tmp_path, settings)
    declared = {
        "format": {"type": "debezium", "connector": "oracle"},
        "table": {"columns": {"id": "bigint", "n": "int"}},
    }
    one = {"id": 1, "n": 1}

    def of_array(op: str, number: int, n: int, record: int) -> Event:
        more = {"txSeq": number} if numbered else {}
        return of_oracle(op, number, {"id": 1, "n": n}, scn=str(record), rs_id=f"0x0c.0b.{record}", **more)

    there = [of_array("c", number, 1, 100) for number in (1, 2, 3, 4, 5)]
    changed = [of_array("u", number, 2, 101) for number in (6, 7)]
    gone = [of_array("d", number, 1, 102) for number in (8, 9)]
    again = [event | {"offset": 10 + number} for number, event in enumerate([*there, *changed, *gone])]
    run(HOURS[0], there, **declared)
    run(HOURS[1], [*changed, *gone, *again], **declared)
    assert rows(settings, run, HOURS[0]) == [one] * 5
    assert rows(settings, run) == [one, {"id": 1, "n": 2}, {"id": 1, "n": 2}]


@pytest.mark.promise(2, 3)
def test_changes_of_one_row_in_a_transaction_by_openlogreplicator(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    """All of them have the SCN of the commit: transaction metadata tell their order."""
    run = OneTableFeed("replicator", tmp_path, settings)
    declared = {
        "format": {"type": "debezium", "connector": "oracle", "transactions": "t"},
        "table": {"columns": {"id": "bigint", "n": "int"}},
    }  # fmt: skip

    def change(op: str, number: int, id_: int, n: int) -> Event:
        record = of_oracle(op, number, {"id": id_, "n": n}, scn="105", commit_scn=None, txId="7")
        return part(record | {"key": json.dumps({"id": id_})}, "7", number)

    sent = [
        change("c", 1, 1, 1),
        change("u", 2, 1, 2),
        change("u", 3, 1, 3),
        change("c", 4, 2, 1),
        change("u", 5, 2, 2),
    ]
    receipt = run(HOURS[0], [*sent, change("d", 6, 2, 2), end("7", 6) | {"topic": "t"}], **declared)
    assert (rows(settings, run), receipt.held_transactions) == ([{"id": 1, "n": 3}], 0)
