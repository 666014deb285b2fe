"""Decimals that are written otherwise than the feed file says."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.e2e.debezium_messages import HOURS, event, row
from tests.e2e.one_table_feed import OneTableFeed
from tidemark.settings import Settings


@pytest.mark.full
@pytest.mark.promise(5)
def test_plain_numbers_where_bytes_are_expected_are_told(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    """Four digits are base64 of another number: nothing but the column as a whole shows it."""
    run = OneTableFeed("plain_numbers", tmp_path, settings)
    columns = {
        "table": {"columns": {"id": "bigint", "n": "numeric(10,0)", "big": "text"}},
        "format": {"type": "debezium"},
    }
    plain = run(HOURS[0], [event("c", 10, row(1, "1234")), event("c", 11, row(2, "5678"))], **columns)
    (warning,) = plain.tables[0].warnings
    assert warning.startswith("column n: all 2 values of the hour are written as plain numbers")
    written = base64.b64encode((77).to_bytes(1, "big")).decode()
    mixed = run(HOURS[1], [event("c", 20, row(3, "1234")), event("c", 21, row(4, written))], **columns)
    assert mixed.tables[0].warnings == []
    refused = run(HOURS[2], [event("c", 30, row(5, "12.5"))], **columns)
    assert refused.quarantined == 1 and "column n" in refused.tables[0].warnings[0]
