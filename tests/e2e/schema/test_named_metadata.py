"""Qlik's rows name the metadata that describe them. What the feed file declares describes those of before the first
metadata, and a row is of the table that its metadata describe, wherever its time puts it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.e2e.debezium_messages import HOURS
from tests.e2e.feed_pair import FeedPair
from tests.unit.formats.qlik_messages import enveloped, headers, message, metadata
from tidemark.feeds.model import Feed
from tidemark.operations.audit import audit
from tidemark.operations.read_table import json_lines, read_snapshot
from tidemark.pipeline.hour import run_hour
from tidemark.settings import Settings

pytestmark = [pytest.mark.full, pytest.mark.promise(2)]

COLUMNS = {"ID": "INT4", "N": "INT4", "BIG": "NCLOB"}
DECLARED = {"key": ["ID"], "columns": COLUMNS}
ORDERS = [[0], [0, 1], [1, 0]]
Record = dict[str, Any]


def described(columns: dict[str, str], named: str, timestamp: str, version: int) -> Record:
    content = metadata("s.items", columns, ["ID"], version=version, schema_id=named, timestamp=timestamp)
    return _record(enveloped(content, "MD", named), version)


def sent(
    number: int, operation: str, data: Record, mask: str, named: str, time: str, before: Record | None = None
) -> Record:
    given = headers(
        operation, changeSequence=f"{time}{number:019d}", transactionId=f"{number:032d}", columnMask=mask,
        changeMask=mask if operation == "UPDATE" else None,
    )  # fmt: skip
    return _record(enveloped(message(data, given, before), "DT", named), 10 + number)


def _record(value: Record, offset: int) -> Record:
    return {"topic": "t", "partition": 0, "offset": offset, "timestamp": 1795143600000, "key": None,
            "value": json.dumps(value), "headers": []}  # fmt: skip


def published(settings: Settings, feed: str) -> list[Record]:
    return [json.loads(line) for line in json_lines(*read_snapshot(settings, f"{feed}.items"))]


@pytest.fixture
def run(tmp_path: Path, spark: SparkSession, settings: Settings, request: pytest.FixtureRequest) -> Any:
    """Runs hours in an order; the first of them alone: all in one. The feed."""

    def of(hours: Sequence[list[Record]], order: list[int], **table: Any) -> Feed:
        name = f"{request.node.originalname[5:25]}_{''.join(map(str, order))}_{len(order)}"
        tables = {"s.items": {"topic": "t", **table}}
        pair = FeedPair(
            name, tmp_path, spark, settings, format={"type": "qlik"}, tables=tables, quarantine={"limit": 1}
        )
        parts = hours if len(order) > 1 else [[record for hour in hours for record in hour]]
        for hour, records in zip(HOURS, parts, strict=False):
            pair.export(str(hour), records)
        for number in order:
            run_hour(pair.feed(name), HOURS[number], settings)
        return pair.feed(name)

    return of


@pytest.mark.parametrize("order", [*ORDERS, [0, 1, 2]], ids=["one hour", "in order", "later first", "and again"])
def test_declared_columns_describe_what_came_before_the_first_metadata(
    run: Any, settings: Settings, order: list[int]
) -> None:
    """The first metadata are long gone, so the columns are declared. Then a column is added, and its metadata come."""
    update = sent(3, "UPDATE", {"ID": 1, "N": 11, "BIG": None}, "03", "A", "2026112001020300", {"ID": 1, "N": 1})
    hours = [
        [
            sent(1, "INSERT", {"ID": 1, "N": 1, "BIG": "one"}, "07", "A", "2026112001020300"),
            sent(2, "INSERT", {"ID": 2, "N": 2, "BIG": "two"}, "07", "A", "2026112001020300"),
            update,
        ],
        [
            described(COLUMNS | {"EXTRA": "INT4"}, "B", "2026-11-20T02:00:00.000", 2),
            sent(4, "UPDATE", {"ID": 2, "N": 22, "EXTRA": 5}, "0B", "B", "2026112002000100", {"ID": 2, "N": 2}),
        ],
        [update | {"offset": 900}],
    ][: max(len(order), 2)]
    feed = run(hours, order, **DECLARED)
    assert published(settings, feed.feed) == [
        {"ID": 1, "N": 11, "BIG": "one", "EXTRA": None}, {"ID": 2, "N": 22, "BIG": "two", "EXTRA": 5},
    ]  # fmt: skip
    assert audit(feed, settings).findings == []


@pytest.mark.parametrize("order", ORDERS, ids=["one hour", "in order", "later first"])
def test_a_row_is_of_the_table_that_its_metadata_describe(run: Any, settings: Settings, order: list[int]) -> None:
    """The task is half a minute behind: metadata have its server's time, rows the source's. A column is dropped and comes
    back within that time."""
    hours = [
        [
            described(COLUMNS, "A", "2026-11-20T00:00:00.000", 1),
            sent(1, "INSERT", {"ID": 1, "N": 1, "BIG": "one"}, "07", "A", "2026112001000000"),
        ],
        [
            described({"ID": "INT4", "N": "INT4"}, "B", "2026-11-20T01:00:31.000", 2),
            sent(2, "INSERT", {"ID": 2, "N": 2}, "03", "B", "2026112001000100"),
            described(COLUMNS, "C", "2026-11-20T01:00:31.500", 3),
            sent(3, "INSERT", {"ID": 3, "N": 3, "BIG": "three"}, "07", "C", "2026112001000300"),
            sent(4, "UPDATE", {"ID": 2, "N": 2, "BIG": "two"}, "07", "C", "2026112001000400", {"ID": 2, "N": 2}),
            sent(5, "INSERT", {"ID": 5, "N": 5, "BIG": "five"}, "07", "C", "2026112001010000"),
        ],
    ]
    feed = run(hours, order)
    assert [(row["ID"], row["N"], row["BIG"]) for row in published(settings, feed.feed)] == [
        (1, 1, None), (2, 2, "two"), (3, 3, "three"), (5, 5, "five"),
    ]  # fmt: skip
    assert audit(feed, settings).findings == []


@pytest.mark.parametrize("order", [[0], [0, 1, 2], [0, 2, 1], [2, 1, 0]], ids=str)
def test_metadata_that_come_behind_their_rows_place_them_anew(run: Any, settings: Settings, order: list[int]) -> None:
    """The same, from a metadata topic of its own: an hour ends between rows and what they name."""
    hours = [
        [
            described(COLUMNS, "A", "2026-11-20T00:00:00.000", 1),
            sent(1, "INSERT", {"ID": 1, "N": 1, "BIG": "one"}, "07", "A", "2026112001000000"),
        ],
        [
            described({"ID": "INT4", "N": "INT4"}, "B", "2026-11-20T01:00:31.000", 2),
            sent(2, "INSERT", {"ID": 2, "N": 2}, "03", "B", "2026112001000100"),
            sent(3, "INSERT", {"ID": 3, "N": 3, "BIG": "three"}, "07", "C", "2026112001000300"),
        ],
        [described(COLUMNS, "C", "2026-11-20T01:00:31.500", 3)],
    ]
    feed = run(hours, order)
    assert [(row["ID"], row["N"], row["BIG"]) for row in published(settings, feed.feed)] == [
        (1, 1, None), (2, 2, None), (3, 3, "three"),
    ]  # fmt: skip
    assert audit(feed, settings).findings == []
