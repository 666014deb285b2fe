"""Truncates: what the newest truncate of a table removes, and how truncates are counted."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tidemark.fold.truncates import under_truncate
from tidemark.ledger.receipts import Counts

#: (position, op, landed_this_hour)
Row = tuple[str, str, bool]
A, B, C = ("10", "insert", True), ("30", "insert", True), ("30", "insert", False)
OLD, NEW = ("20", "truncate", True), ("25", "truncate", True)


@pytest.mark.parametrize(
    ("rows", "truncated", "known", "left", "counts"),
    [
        ([A, B], None, [], ["10", "30"], Counts()),
        ([A, B, OLD], "20", [], ["30"], Counts(applied=1, superseded=1)),
        ([A, B, OLD, NEW], "25", [], ["30"], Counts(applied=1, superseded=2)),
        ([A, OLD, OLD], "20", [], [], Counts(applied=1, duplicate=1, superseded=1)),
        ([A, B, OLD], "20", ["20"], ["30"], Counts(duplicate=1, superseded=1)),
        ([B, OLD, NEW], "25", ["20", "25"], ["30"], Counts(duplicate=2)),
        ([B, OLD, NEW], "25", ["20"], ["30"], Counts(applied=1, duplicate=1)),
        ([A, B], "20", [], ["30"], Counts(superseded=1)),
        ([("10", "insert", False), ("20", "truncate", False), C], "20", [], ["30"],
         Counts(released_applied=1, released_superseded=1)),
        ([OLD, ("20", "truncate", False)], "20", ["20"], [], Counts(duplicate=1, released_duplicate=1)),
    ],
)  # fmt: skip
def test_the_newest_truncate_supersedes_all_before_it(
    spark: SparkSession, rows: list[Row], truncated: str | None, known: list[str], left: list[str], counts: Counts
) -> None:
    log_rows = spark.createDataFrame(rows, "position string, op string, landed_this_hour boolean")
    found = under_truncate(log_rows, truncated, known)
    assert sorted(row.position for row in found.rows.collect()) == left
    assert found.counts == counts
    if truncated is not None:
        landed = found.counts.applied + found.counts.duplicate + found.counts.superseded
        released = found.counts.released_applied + found.counts.released_duplicate + found.counts.released_superseded
        assert landed + released + len(left) == len(rows), "every row is counted or left"
