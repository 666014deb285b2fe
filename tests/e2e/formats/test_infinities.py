"""PostgreSQL's infinite dates and timestamps, as the connector writes them: in quarantine, null, or text, as the feed says;
with message schemas and without."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidemark.feeds.model import Feed
from tidemark.ledger.change_log import changes_table
from tidemark.operations.read_table import json_lines, read_snapshot
from tidemark.pipeline.hour import run_hour
from tidemark.settings import Settings
from tidemark_samples.exporting import Message, write_export

pytestmark = pytest.mark.full

HOUR = "2026-11-20T00"
#: Column → its type, that of a message schema, and an infinite and a finite value.
TYPES: dict[str, tuple[str, str, str, Any, Any]] = {
    "d": ("date", "int32", "io.debezium.time.Date", -2147472692, 20777),
    "micros": ("timestamp", "int64", "io.debezium.time.MicroTimestamp", -9223372036832400000, 1795133749539000),
    "millis": ("timestamp(3)", "int64", "io.debezium.time.Timestamp", 9223372036825200, 1795133749539),
    "zoned": ("timestamptz", "string", "io.debezium.time.ZonedTimestamp", "infinity", "2026-11-20T00:15:49.539Z"),
}
AT = "2026-11-20T00:15:49.539000"
FINITE = {
    "id": 2,
    "d": "2026-11-20",
    "micros": AT,
    "millis": AT,
    "zoned": f"{AT}+00:00",
    "word": "infinity",
    "n": 9223372036825200,
}
NULLS = {"id": 1, "d": None, "micros": None, "millis": None, "zoned": None, "word": "infinity", "n": 9223372036825200}


def message(number: int, table: str, row: dict[str, Any], *, schemas: bool) -> Message:
    lsn = 10 * number + 10
    source = {"name": "p", "ts_ms": 1, "schema": "s", "table": table, "lsn": lsn, "sequence": f'["{lsn - 1}","{lsn}"]'}
    value: dict[str, Any] = {"before": None, "after": row, "op": "c", "source": source}
    if schemas:
        fields = [{"field": name, "type": kind, "name": semantic} for name, (_, kind, semantic, *_) in TYPES.items()]
        fields += [
            {"field": "id", "type": "int64"},
            {"field": "word", "type": "string"},
            {"field": "n", "type": "int64"},
        ]
        others = [
            {"field": "op", "type": "string"},
            {"field": "source", "fields": [{"field": "word", "name": TYPES["zoned"][2]}]},
        ]
        value = {"schema": {"fields": [{"field": "after", "fields": fields}, *others]}, "payload": value}
    key = json.dumps({"id": row["id"]}).encode()
    return Message(
        topic="t", partition=0, offset=number, sent_at=datetime(2026, 11, 20), key=key, value=json.dumps(value).encode()
    )


def rows() -> list[dict[str, Any]]:
    """The first infinite in every column, the second in none; beside them a text and a number that look so."""
    more = {"word": "infinity", "n": 9223372036825200}
    infinite, finite = ({name: kind[at] for name, kind in TYPES.items()} for at in (3, 4))
    return [{"id": 1} | infinite | more, {"id": 2} | finite | more]


def feed_of(out: Path, name: str, tables: dict[str, dict[str, str]], **options: Any) -> Feed:
    return Feed.model_validate(
        {
            "feed": name, "description": "d", "owner": "o", "topics": ["t"],
            "exports": {"path": f"{out}/{{topic}}/dt={{date}}/hr={{hour}}/*"},
            "container": {"type": "kafka_json"}, "format": {"type": "debezium", **options},
            "tables": {
                f"s.{table}": {"name": f"{name}.{table}", "columns": columns} for table, columns in tables.items()
            },
        }
    )  # fmt: skip


def shown(settings: Settings, table: str) -> list[dict[str, Any]]:
    found, key = read_snapshot(settings, table)
    return [
        {name: value for name, value in json.loads(line).items() if name != "_tidemark"}
        for line in json_lines(found, key)
    ]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """An hour of four tables: declared and told by messages, with types and, of these columns, as text."""
    sent = [
        message(4 * number + at, table, row, schemas=table.startswith("told"))
        for number, row in enumerate(rows())
        for at, table in enumerate(("declared", "told", "told_text"))
    ]
    write_export(tmp_path, "t", HOUR, [sent], "kafka_json")
    return tmp_path


DECLARED = {"id": "bigint"} | {name: kind[0] for name, kind in TYPES.items()} | {"word": "text", "n": "bigint"}
TABLES = {"declared": DECLARED, "told": {}, "told_text": dict.fromkeys(TYPES, "text")}


def test_infinite_times_are_null_with_a_note_where_the_feed_says_so(
    spark: SparkSession, settings: Settings, out: Path
) -> None:
    receipt = run_hour(feed_of(out, "infinite_null", TABLES, infinities="null"), HOUR, settings)
    assert (receipt.counts.applied, receipt.quarantined) == (6, 0)
    for table in ("declared", "told"):
        assert shown(settings, f"infinite_null.{table}") == [NULLS, FINITE], table
    log = spark.table(changes_table("infinite_null")).where("notes is not null")
    noted = {row.source_table: sorted(row.notes) for row in log.select("source_table", "notes").collect()}
    assert noted == dict.fromkeys(
        ("s.declared", "s.told"), sorted(f"{name} is infinite: published as null" for name in TYPES)
    )
    text = {name: row[name] for row in shown(settings, "infinite_null.told_text") if row["id"] == 1 for name in TYPES}
    assert text == {"d": "infinity", "micros": "-infinity", "millis": "infinity", "zoned": "infinity"}


def test_infinite_times_wait_in_quarantine(spark: SparkSession, settings: Settings, out: Path) -> None:
    receipt = run_hour(feed_of(out, "infinite_kept", TABLES), HOUR, settings)
    assert (receipt.counts.applied, receipt.quarantined) == (4, 2)
    for table in ("declared", "told"):
        assert shown(settings, f"infinite_kept.{table}") == [FINITE], table
    assert [row["d"] for row in shown(settings, "infinite_kept.told_text")] == ["infinity", "2026-11-20"]
