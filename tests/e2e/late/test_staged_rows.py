"""What fold gives to a snapshot has exactly the SETTLED type, whichever way its rows were made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from tests.e2e.debezium_messages import COLUMNS, DEBEZIUM, HOURS, event, line, row
from tests.e2e.feed_pair import FeedPair
from tidemark.fold.contract import settled_type
from tidemark.settings import Settings
from tidemark.tables.published_table import PublishedTable
from tidemark.tables.staged_change import StagedChange

pytestmark = pytest.mark.full

TABLES = {
    "s.items": {"columns": COLUMNS},
    "s.lines": {"columns": {"id": "bigint", "n": "int"}, "key": []},
}
# Types, not their names: Spark reads names only where it runs.
ROW = T.StructType().add("id", T.LongType()).add("n", T.IntegerType()).add("big", T.StringType())
LINE = T.StructType().add("id", T.LongType()).add("n", T.IntegerType())
KEYED = settled_type(T.StructType().add("id", T.LongType()), ROW)
KEYLESS = settled_type(T.StructType().add("copy", T.StringType()), LINE)


def shape_of(rows: T.StructType) -> list[tuple[str, str]]:
    """Names and types, in order; whether null is possible does not matter."""
    return [(field.name, field.dataType.simpleString()) for field in rows]


def test_every_staged_change_is_settled(
    tmp_path: Path, spark: SparkSession, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged: dict[str, list[T.StructType]] = {}

    def noted(stage: Callable[..., None]) -> Callable[..., None]:
        def note(self: Any, publication: str, change: StagedChange) -> None:
            staged.setdefault(self.table, []).append(change.settled.schema)
            stage(self, publication, change)

        return note

    monkeypatch.setattr(PublishedTable, "stage", noted(PublishedTable.stage))
    pair = FeedPair("staged", tmp_path, spark, settings, **DEBEZIUM, tables=TABLES)
    pair.export(HOURS[0], [event("c", 10, row(1, 1)), line(12, 7)])
    # Of items: a late change, one that cannot be read, and a delete.
    pair.export(HOURS[1], [event("u", 5, row(1, 2)), event("c", 20, row(3, 5_000_000_000)), event("c", 21, row(4, 4)),
                           line(23, 7, "d"), line(24, 8)])  # fmt: skip
    pair.export(HOURS[2], [event("d", 30, None, key={"id": 4})])
    for hour in HOURS[:3]:
        pair.run(hour)
    name = pair.fixed
    assert {table: len(schemas) for table, schemas in staged.items()} == {f"{name}.items": 3, f"{name}.lines": 2}
    for table, schemas in staged.items():
        expected = KEYLESS if table.endswith("lines") else KEYED
        for schema in schemas:
            assert shape_of(schema) == shape_of(expected), table
