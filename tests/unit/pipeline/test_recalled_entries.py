"""Which entries of a record a replay takes up, of which others are published."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tidemark.pipeline.decode import not_emptied

pytestmark = pytest.mark.promise(6)

KEPT = "object string, record int, entry int, source_table string"


def test_a_dropped_database_has_its_entries_by_their_tables(spark: SparkSession) -> None:
    """Whatever their numbers are by today's feed file; they take those that are free."""
    kept = [
        ("o", 1, 0, "s.m"), ("o", 2, 0, "s.m"), ("o", 3, 1, "s.m"), ("o", 4, 0, "s.a"), ("o", 4, 1, "s.m"),
        ("p", 1, 0, "s.m"), ("p", 1, 2, "s.x"),
    ]  # fmt: skip
    decoded = {
        ("o", 1): ["s.m", "s.x", None],  # the new table sorts behind the one that is emptied
        ("o", 2): ["s.a", "s.m", None],  # before it
        ("o", 3): ["s.a", "s.m", None],  # the same feed file, and `s.a` was taken too
        ("o", 4): ["s.m", None],  # a table is named no more
        ("p", 1): ["s.a", "s.m", "s.n", "s.x", "s.y", None],
    }
    rows = [(*place, n, table) for place, tables in decoded.items() for n, table in enumerate(tables)]
    found = not_emptied(spark.createDataFrame(rows, KEPT), spark.createDataFrame(kept, KEPT))
    assert found.columns == ["object", "record", "entry", "source_table"]
    assert sorted(map(tuple, found.collect()), key=str) == sorted(
        [
            ("o", 1, 1, "s.x"), ("o", 1, 2, None), ("o", 2, 1, "s.a"), ("o", 2, 2, None), ("o", 3, 0, "s.a"),
            ("o", 3, 2, None), ("o", 4, 2, None), ("p", 1, 1, "s.a"), ("p", 1, 3, "s.n"), ("p", 1, 4, "s.y"),
            ("p", 1, 5, None),
        ], key=str,
    )  # fmt: skip
