"""Decimals that are written otherwise than the feed file says."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.e2e.debezium_messages import HOURS, Event, event, row
from tests.e2e.one_table_feed import OneTableFeed, rows
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


def of_bytes(op: str, number: int, row: Event, keyed: bool) -> Event:
    """A message with its schema, in which n is the bytes of a decimal."""
    record = event(op, number, row)
    kind = {
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "2", "connect.decimal.precision": "9"},
    }
    kinds = {"id": {"type": "int64"}, "n": kind, "big": {"type": "string"}}
    image = {"type": "struct", "fields": [one | {"field": name} for name, one in kinds.items()]}
    schema = {"type": "struct", "fields": [image | {"field": name} for name in ("before", "after")]}
    value: dict[str, Any] = json.loads(record["value"])
    value |= {"before": row, "after": None} if op == "d" else {}
    return record | {"key": record["key"] if keyed else None, "value": json.dumps({"schema": schema, "payload": value})}


@pytest.mark.full
@pytest.mark.promise(2)
@pytest.mark.parametrize("keyed", [True, False], ids=["key", "no key"])
@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1)], ids=["in order", "late"])
def test_texts_of_before_schemas_were_sent_stay_texts(
    spark: SparkSession, settings: Settings, tmp_path: Path, order: tuple[int, ...], keyed: bool
) -> None:
    """A connector that wrote texts, without schemas, writes bytes, with schemas, from the middle of an hour on."""
    run = OneTableFeed(f"then_bytes_{order[1]}_{keyed}".lower(), tmp_path, settings)
    declared = {
        "table": {
            "columns": {"id": "bigint", "n": "numeric(9,2)", "big": "text"},
            "key": ["id"] if keyed else [],
        },
        "format": {"type": "debezium", "decimals": "string"},
    }

    def text(op: str, number: int, row: Event) -> Event:
        record = event(op, number, row)
        return record if keyed else record | {"key": None}

    def number(value: int) -> str:
        return base64.b64encode(value.to_bytes(3, "big").lstrip(b"\0")).decode()

    hours = [
        [text("c", 10, row(1, "1234")), text("c", 11, row(2, "12.34")), text("c", 12, row(9, "5678"))],
        [text("c", 20, row(3, "5678")), of_bytes("c", 21, row(4, number(1234)), keyed)],
        [of_bytes("d", 30, row(9, number(567800)), keyed), of_bytes("d", 31, row(2, number(1234)), keyed)],
    ]
    for at in order:
        assert run(HOURS[at], hours[at], **declared).quarantined == 0
    assert rows(settings, run) == [row(1, "1234.00"), row(3, "5678.00"), row(4, "12.34")]
