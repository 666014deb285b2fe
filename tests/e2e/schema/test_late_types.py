"""Types that are declared after hours without: a warning, a stop that hides nothing, and the table under another name."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.e2e.debezium_messages import COLUMNS, DEBEZIUM, event, line, row
from tests.e2e.feed_pair import FeedPair
from tidemark.errors import SchemaError
from tidemark.feeds.model import Feed
from tidemark.hours import hours_between
from tidemark.ledger.publication_history import load_history
from tidemark.operations.audit import audit
from tidemark.operations.read_table import json_lines, read_snapshot
from tidemark.pipeline.hour import run_hour
from tidemark.settings import Settings
from tidemark_samples.exporting import Message, write_export

pytestmark = pytest.mark.promise(5)

HOURS = hours_between("2026-11-20T00", "2026-11-20T04")
UNSENT = "__debezium_unavailable_value"
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


@pytest.mark.promise(1)
def test_rows_of_before_that_are_no_value_of_a_late_type_stop_the_table(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    """With a key and without one. A row that has a value since, or is gone, stops nothing; its cut tells of it."""
    pair = FeedPair("late_unread", tmp_path, spark, settings, **DEBEZIUM, on_table_stop="table")
    items, lines = f"{pair.fixed}.items", f"{pair.fixed}.lines"

    def tables(kind: str, more: str = "") -> dict[str, Any]:
        columns = {**COLUMNS, "n": kind}
        return {"tables": {
            "s.items": {"name": items + more, "columns": columns},
            "s.lines": {"name": lines + more, "columns": {"id": "bigint", "n": kind}},
        }}  # fmt: skip

    pair.export(HOURS[0], [
        event("c", 1, row(1, "1")), event("c", 2, row(2, "n/a")), event("c", 3, row(3, "n/a")), event("u", 4, row(3, "3")),
        event("c", 5, row(4, "n/a")), event("d", 6, None, key={"id": 4}), line(7, "1"), line(8, "n/a"), line(9, "n/a"),
        line(10, "n/a", "d"),
    ])  # fmt: skip
    pair.export(HOURS[1], [event("u", 11, row(1, "11", UNSENT)), line(12, "12")])
    pair.export(HOURS[2], [event("u", 20, row(2, "2")), line(21, "n/a", "d")])
    pair.export(HOURS[3], [event("u", 30, row(2, "22", UNSENT)), line(31, "31")])
    pair.export(HOURS[4], [event("c", 40, row(5, "5")), line(41, "41")])
    pair.run(HOURS[0], **tables("text"))

    stopped = pair.run(HOURS[3], **tables("int", "_2")).stopped
    assert list(stopped) == [f"{items}_2", f"{lines}_2"]
    for table, record in ((items, 2), (lines, 9)):
        assert stopped[f"{table}_2"].startswith(
            "column n: 1 row of before would be read as int, and cannot be: the text is no such value; the first is in "
            f"record {record} of {pair.fixed}/t/"
        ), stopped
    assert pair.run(HOURS[3], **tables("text")).stopped == pair.run(HOURS[2], **tables("text")).stopped == {}
    assert pair.run(HOURS[4], **tables("int", "_2")).stopped == {}
    late = pair.run(HOURS[1], **tables("int", "_2"))
    assert [note for note in late.notes if "without a value" in note] == [
        f"the cut of {HOURS[1]} shows rows of {table}_2 without a value of n (1): what they held then is no value of the "
        "type that the table has now" for table in (items, lines)
    ]  # fmt: skip
    assert {one["id"]: one["n"] for one in pair.rows(pair.fixed, "items_2")} == {1: 11, 2: 22, 3: 3, 5: 5}
    assert sorted(one["n"] for one in pair.rows(pair.fixed, "lines_2")) == [1, 12, 31, 41]
    assert audit(pair.feed(pair.fixed, **tables("int", "_2")), settings).findings == []


def test_another_name_does_not_have_values_read_in_another_way(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    """The connector's decimal.handling.mode changes: `1234` is bytes in base64 too, of another number."""
    pair = FeedPair("late_reading", tmp_path, spark, settings)
    items = {"columns": {"id": "bigint", "n": "numeric(10,0)", "big": "text"}}
    pair.export(HOURS[0], [event("c", 1, row(1, "1234"))])
    pair.export(HOURS[1], [event("c", 2, row(2, "BNI="))])
    pair.run(HOURS[0], **DEBEZIUM, tables={"s.items": items})
    for name in ("items", "items_2"):
        with pytest.raises(
            SchemaError, match=r"column n is decimal\(10,0\), and would become decimal\(10,0\) \(unscaled"
        ):
            pair.run(
                HOURS[1], format={"type": "debezium"}, tables={"s.items": items | {"name": f"{pair.fixed}.{name}"}}
            )
