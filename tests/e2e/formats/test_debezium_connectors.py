"""What is particular to a connector of Debezium's, over hours: messages as its own tests say that it sends them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.e2e.debezium_messages import HOURS, Event, event
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
