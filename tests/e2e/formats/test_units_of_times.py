"""Times that are counted in another unit than the feed file says."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.e2e.debezium_messages import HOURS, event
from tests.e2e.one_table_feed import OneTableFeed
from tidemark.settings import Settings

#: 2026-11-20, in milliseconds.
_MILLIS = 1795132800000


@pytest.mark.full
@pytest.mark.promise(5)
@pytest.mark.parametrize(("times", "unit"), [(None, "microseconds"), ("nanoseconds", "nanoseconds")])
def test_times_of_which_all_are_of_the_first_weeks_of_1970_are_told(
    spark: SparkSession, settings: Settings, tmp_path: Path, times: str | None, unit: str
) -> None:
    """Another `time.precision.mode`, or another precision of the column: each value is one of both units."""
    run = OneTableFeed(f"times_in_{unit}", tmp_path, settings)
    declared = {
        "table": {"columns": {"id": "bigint", "at": "timestamp"}},
        "format": {"type": "debezium", "times": times},
    }
    now = 1_000 * _MILLIS if unit == "microseconds" else 1_000_000 * _MILLIS

    def warnings(hour: int, *values: int | None) -> list[str]:
        events = [event("c", 10 * (hour + 1) + n, {"id": 10 * hour + n, "at": at}) for n, at in enumerate(values)]
        return run(HOURS[hour], events, **declared).tables[0].warnings

    (told,) = warnings(0, _MILLIS, _MILLIS + 1, None)
    assert told.startswith(f"column at: all 2 values of the hour are of the first weeks of 1970, read as {unit}")
    assert warnings(1, _MILLIS, now, None) == [], "one is of another time"
    assert warnings(2, 0, 0, None) == [], "the very beginning, which stands for no time"


@pytest.mark.full
@pytest.mark.promise(5)
def test_times_of_day_of_which_all_are_of_its_first_seconds_are_told(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    run = OneTableFeed("clocks", tmp_path, settings)
    declared = {"table": {"columns": {"id": "bigint", "at": "time"}}, "format": {"type": "debezium"}}
    noon, in_micros = 43_200_000, 43_200_000_000
    events = [event("c", n, {"id": n, "at": at}) for n, at in enumerate((noon, noon + 1, None), 1)]
    (told,) = run(HOURS[0], events, **declared).tables[0].warnings
    assert told.startswith(
        "column at: all 2 values of the hour are of the first 87 seconds of a day, read as microseconds"
    )
    events = [event("c", 10 + n, {"id": 10 + n, "at": at}) for n, at in enumerate((noon, in_micros))]
    assert run(HOURS[1], events, **declared).tables[0].warnings == [], "one is of another time"
    assert run(HOURS[2], [event("c", 20, {"id": 20, "at": 0})], **declared).tables[0].warnings == [], "midnight"
