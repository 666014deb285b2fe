"""Types that are declared after hours without: a warning, a stop that hides nothing, and the table under another name."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidemark.errors import SchemaError
from tidemark.feeds.model import Feed
from tidemark.ledger.publication_history import load_history
from tidemark.operations.audit import audit
from tidemark.operations.read_table import json_lines, read_snapshot
from tidemark.pipeline.hour import run_hour
from tidemark.settings import Settings
from tidemark_samples.exporting import Message, write_export

pytestmark = pytest.mark.promise(5)

HOURS = ["2026-11-20T00", "2026-11-20T01"]
TYPES = {
    "id": "bigint", "slot": "time", "n": "bigint", "price": "numeric(12,2)", "at": "timestamptz", "tags": "text[]",
    "born": "date", "word": "text",
}  # fmt: skip
SENT: list[dict[str, Any]] = [
    {"id": 1, "slot": 3600000000, "n": 5, "price": "1.50", "at": "2026-11-20T00:15:49Z", "tags": ["a"], "born": 20777,
     "word": "x"},
    {"id": 2, "slot": 7200000001, "n": 6, "price": "2.50", "at": "2026-11-20T01:15:49Z", "tags": [], "born": 20778,
     "word": "y"},
]  # fmt: skip
SHOWN = [
    {"id": 1, "slot": "01:00:00", "n": 5, "price": "1.50", "at": "2026-11-20T00:15:49+00:00", "tags": ["a"],
     "born": "2026-11-20", "word": "x"},
    {"id": 2, "slot": "02:00:00.000001", "n": 6, "price": "2.50", "at": "2026-11-20T01:15:49+00:00", "tags": [],
     "born": "2026-11-21", "word": "y"},
]  # fmt: skip


def feed_of(out: Path, **table: Any) -> Feed:
    return Feed.model_validate(
        {
            "feed": "late_types", "description": "d", "owner": "o", "topics": ["t"],
            "exports": {"path": f"{out}/{{topic}}/dt={{date}}/hr={{hour}}/*"},
            "container": {"type": "kafka_json"}, "format": {"type": "debezium", "decimals": "string"},
            "tables": {"s.t": {"name": "late_types.t", **table}},
        }
    )  # fmt: skip


def write(out: Path, number: int) -> None:
    """The hour's message: one row."""
    row, lsn = SENT[number], 10 * number + 10
    source = {"name": "p", "ts_ms": 1, "schema": "s", "table": "t", "lsn": lsn, "sequence": f'["{lsn - 1}","{lsn}"]'}
    value = json.dumps({"before": None, "after": row, "op": "c", "source": source}).encode()
    key = json.dumps({"id": row["id"]}).encode()
    sent = Message(topic="t", partition=0, offset=number, sent_at=datetime(2026, 11, 20), key=key, value=value)
    write_export(out, "t", HOURS[number], [[sent]], "kafka_json")


def shown(settings: Settings, table: str) -> list[dict[str, Any]]:
    rows, key = read_snapshot(settings, table)
    return [
        {name: value for name, value in json.loads(line).items() if name != "_tidemark"}
        for line in json_lines(rows, key)
    ]


@pytest.mark.full
def test_types_that_are_declared_after_an_untyped_hour(
    spark: SparkSession, settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(2):
        write(tmp_path, number)
    untyped, typed = feed_of(tmp_path), feed_of(tmp_path, columns=TYPES)
    (warning,) = run_hour(untyped, HOURS[0], settings).tables[0].warnings
    assert warning.startswith(
        "no type is known of at, born, id, n, price, slot, tags, word: published as text, as sent."
    )
    assert "tables.s.t.columns" in warning
    before = shown(settings, "late_types.t")
    assert (before[0]["slot"], before[0]["born"]) == ("3600000000", "20777")

    for _ in range(2):
        with pytest.raises(
            SchemaError, match=r"table late_types\.t: column \w+ is string, as it was sent, and would become"
        ):
            run_hour(typed, HOURS[1], settings)
        assert len(load_history(settings, "late_types").receipts) == 1
        assert shown(settings, "late_types.t") == before, "readers stay on the last good hour"
        assert audit(typed, settings).findings == [], "what is published is right by what it was published with"

    run_hour(feed_of(tmp_path, columns=TYPES | {"checked": "text"}, name="late_types.t2"), HOURS[1], settings)
    renamed = feed_of(tmp_path, columns=TYPES | {"checked": "text"}, name="late_types.t2")
    assert shown(settings, "late_types.t2") == [row | {"checked": None} for row in SHOWN], "built from the change log"
    assert audit(renamed, settings).findings == []
