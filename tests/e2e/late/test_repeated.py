"""A change that is published already and comes again."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.e2e.debezium_messages import HOURS, event, row
from tests.e2e.one_table_feed import OneTableFeed, rows
from tidemark.operations.audit import audit
from tidemark.settings import Settings


@pytest.mark.full
@pytest.mark.promise(1)
def test_other_content_at_a_known_place_is_told(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    """What was published first stands; a change that comes again as it was is a duplicate and nothing more."""
    run = OneTableFeed("told", tmp_path, settings)
    run(HOURS[0], [event("c", 10 + id_, row(id_, 1)) for id_ in range(3)])
    again = run(HOURS[1], [event("c", 11, row(1, 1)), event("c", 10, row(0, 2)), event("c", 12, row(2, 9, None))])
    (table,) = again.tables
    assert table.counts.duplicate == 3
    (warning,) = table.warnings
    assert warning.startswith("2 changes that are published already came again with other content")
    assert "record 2 of told/t/dt=2026-11-20/hr=01/" in warning and "record 1 of told/t/dt=2026-11-20/hr=00/" in warning
    assert [one["n"] for one in rows(settings, run)] == [1, 1, 1]
    assert not run(HOURS[2], [event("c", 10, row(0, 1)), event("d", 13, None, key={"id": 1})]).tables[0].warnings


@pytest.mark.full
@pytest.mark.promise(1)
def test_different_changes_at_one_place_of_an_hour_are_told(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    """Positions that do not tell changes apart would lose them, without a word."""
    run = OneTableFeed("one_place", tmp_path, settings)
    begun = run(HOURS[0], [event("c", 10, row(0, 1)), event("c", 11, row(1, 1)), event("c", 11, row(1, 1))])
    assert (begun.tables[0].counts.duplicate, begun.tables[0].warnings) == (1, [])
    twice = [event("u", 20, row(0, 2)), event("u", 21, row(1, 2)), event("u", 20, row(0, 3)), event("u", 21, row(1, 2))]
    (table,) = run(HOURS[1], twice).tables
    assert (table.counts.applied, table.counts.duplicate) == (2, 2)
    (warning,) = table.warnings
    assert warning.startswith("places of the source's order with different changes of one key: 1.")
    assert "record 1 of one_place/t/dt=2026-11-20/hr=01/" in warning and "and record 3 of" in warning
    assert [one["n"] for one in rows(settings, run)] == [2, 2]


@pytest.mark.full
@pytest.mark.promise(2, 6)
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("other", ["a", "z"])
def test_what_was_published_first_stands_where_rows_are_folded_again(
    spark: SparkSession, settings: Settings, tmp_path: Path, other: str, first: int
) -> None:
    """In a table that is built anew from the change log, in cuts, and for the audit."""
    run = OneTableFeed(f"first_{other}{first}", tmp_path, settings)
    run(HOURS[first], [event("c", 1, row(1, 1, "m")), event("c", 2, row(2, 2))])
    run(HOURS[1 - first], [event("c", 1, row(1, 1, other))])
    assert rows(settings, run)[0]["big"] == "m"
    assert not audit(run.definition(), settings).findings
    run.table += "_2"
    run(HOURS[2], [event("u", 10, row(2, 3))])
    assert rows(settings, run)[0]["big"] == "m"
    assert not audit(run.definition(), settings).findings
