"""What waits with a change that is refused."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidemark.pipeline.breaking_changes import other_halves

COLUMNS = (
    "record bigint, table string, position string, op string, key map<string, string>, prior_key map<string, string>"
)
CHANGES: list[tuple[Any, ...]] = [
    # updates of two changes: under another key, the same, and one whose old key is in another hour
    (1, "t", "1", "delete", {"id": "1"}, None), (2, "t", "1", "insert", {"id": "2"}, {"id": "1"}),
    (3, "t", "2", "delete", {"id": "3"}, None), (4, "t", "2", "insert", {"id": "3"}, None),
    (5, "t", "3", "delete", {"id": "4"}, None), (6, "t", "3", "insert", {"id": "4"}, {}),
    # redelivered, by then without its first half
    (7, "t", "1", "insert", {"id": "2"}, {}),
    # others: at the same position, in another table, without a key
    (8, "t", "1", "delete", {"id": "9"}, None), (9, "u", "1", "delete", {"id": "1"}, None),
    (10, "t", "3", "insert", None, None), (11, "t", "3", "update", {"id": "4"}, None),
]  # fmt: skip


@pytest.mark.promise(3)
@pytest.mark.parametrize(("refused", "wanted"), [(2, {1}), (1, {2, 7}), (3, {4}), (4, {3}), (5, {6}), (6, {5})])
def test_the_other_half_of_an_update_waits_with_it(spark: SparkSession, refused: int, wanted: set[int]) -> None:
    rows = spark.createDataFrame(CHANGES, COLUMNS)
    own = rows.where(f"record = {refused}").selectExpr("*", "'screen' AS stage", "'why' AS reason")
    found = other_halves(rows, own).collect()
    assert {row.record for row in found} == wanted
    assert {(row.stage, row.reason) for row in found} == {
        ("screen", "the other half of its key change is refused: why")
    }  # fmt: skip
    assert len(found) == len(wanted)
