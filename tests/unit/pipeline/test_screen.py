"""Each change is judged by itself, on what it sent."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidemark.feeds.model import Table
from tidemark.fold.typed_rows import TableShape
from tidemark.ledger.image_names import image_names
from tidemark.pipeline.checks import quarantine_checks
from tidemark.pipeline.screen import judge_change
from tidemark.settings import Settings
from tidemark.values.columns import ColumnType
from tidemark.values.encodings import ENCODINGS

pytestmark = pytest.mark.promise(2, 3)

COLUMNS = {"id": "bigint", "n": "int", "day": "date", "note": "string"}
CHECKS = [
    {"column": "n", "min": 0, "max": 9, "consequence": "quarantine"},
    {"column": "day", "not_null": True, "consequence": "quarantine"},
    {"column": "note", "pattern": "^x", "consequence": "quarantine"},
    {"column": "note", "max": 9, "consequence": "quarantine"},  # cannot be made on text: validate says so
    {"column": "gone", "max": 9, "consequence": "quarantine"},  # and that there is no such column
    {"column": "n", "max": 5, "consequence": "warn"},
]  # fmt: skip
LOG_ROW = (
    "op string, key map<string, string>, prior_key map<string, string>, after map<string, string>, "
    "absent array<string>, message_schema string, after_names string"
)
KEY, UNREADABLE, CHECK = (
    "the key (id) is missing or cannot be read; if a part of it is null, have the source name a key without nulls",
    "not a value of its column's type: ", "check failed: ",
)  # fmt: skip
GOOD = {"id": "1", "n": "5", "day": "2026-11-20", "note": "x"}
CASES: dict[str, tuple[dict[str, Any], str | None]] = {
    "all good": ({"after": GOOD}, None),
    "nulls are values": ({"after": {"id": "1", "n": None, "day": "2026-11-20", "note": None}}, None),
    "no int": ({"after": GOOD | {"n": "none"}}, UNREADABLE + 'n (int): "none"'),
    "two at once": (
        {"after": GOOD | {"n": "5000000000", "day": "soon"}},
        UNREADABLE + 'day (date): "soon"; n (int): "5000000000"',
    ),
    "hostile text": ({"after": GOOD | {"n": "a\nb" + "c" * 80}}, UNREADABLE + f'n (int): "a␣b{"c" * 57}…"'),
    "a check": ({"after": GOOD | {"n": "10"}}, CHECK + "n <= 9"),
    "two checks": ({"after": GOOD | {"n": "-1", "note": "y"}}, CHECK + "n >= 0; note matches ^x"),
    "what cannot be read is said first": ({"after": GOOD | {"n": "10", "day": "soon"}}, UNREADABLE + 'day (date): "soon"'),
    "an insert leaves null what it does not send": (
        {"after": {"id": "1", "n": "5"}, "absent": ["day", "note"]}, CHECK + "day is not null",
    ),
    "a column that the message does not know was not there": ({"after": {"id": "1", "n": "5"}}, None),
    "a value that a statement behind it gives it": (
        {"after": {"id": "1", "n": "10", "day": None, "note": "x"}, "after_names": "2\x1fid\x1fnote"}, None,
    ),
    "the new half of a key change leaves it as it is": (
        {"prior_key": {"id": "0"}, "after": {"id": "1", "n": "5"}, "absent": ["day", "note"]}, None,
    ),
    "a null that it sends is one": (
        {"prior_key": {"id": "0"}, "after": {"id": "1", "n": "5", "day": None}, "absent": ["note"]},
        CHECK + "day is not null",
    ),
    "an update leaves it as it is": ({"op": "update", "after": {"id": "1", "n": "5"}, "absent": ["day", "note"]}, None),
    "an update that sends it": (
        {"op": "update", "after": {"id": "1", "n": "10"}, "absent": ["day"]}, CHECK + "n <= 9",
    ),
    "a delete brings no row": ({"op": "delete", "after": None}, None),
    "a delete's image does not count": ({"op": "delete", "after": GOOD | {"n": "10", "day": "soon"}}, None),
    "a delete of no row": ({"op": "delete", "key": {"id": "none"}, "after": None}, KEY),
    "no key": ({"key": None, "after": GOOD}, KEY),
    "half a key": ({"key": {"id": None}, "after": GOOD}, KEY),
    "a key that is none": ({"key": {"id": "none"}, "after": GOOD | {"id": "none", "n": "10"}}, KEY),
    "a key to move from that is none": ({"op": "update", "prior_key": {"id": "none"}, "after": GOOD}, KEY),
    "a good move": ({"op": "update", "prior_key": {"id": "0"}, "after": GOOD}, None),
    "an insert's old key is its delete's": ({"prior_key": {"id": "none"}, "after": GOOD}, None),
    "a truncate": ({"op": "truncate", "key": None, "after": None}, None),
}  # fmt: skip


@pytest.fixture(scope="module")
def checks(settings: Settings) -> Any:
    return quarantine_checks("s.t", Table.model_validate({"checks": CHECKS}), COLUMNS, settings)


def judged(spark: SparkSession, shape: TableShape, checks: Any, changes: list[dict[str, Any]]) -> list[str | None]:
    usual = {"op": "insert", "key": {"id": "1"}, "prior_key": None, "absent": None, "message_schema": "v1"}
    names = [part.split()[0] for part in LOG_ROW.replace("<string, string>", "").split(", ")]
    listed = [tuple((usual | change).get(name) for name in names) for change in changes]
    _, sent = image_names()
    rows = spark.createDataFrame(listed, LOG_ROW).withColumn("after_names", F.coalesce("after_names", sent))
    return [row.reason for row in rows.select(judge_change(shape, checks).alias("reason")).collect()]


def test_a_change_is_judged_on_what_it_sent(spark: SparkSession, checks: Any) -> None:
    shape = TableShape(
        key=("id",), columns={name: ColumnType(kind) for name, kind in COLUMNS.items()}, encodings=ENCODINGS
    )
    found = judged(spark, shape, checks, [change for change, _ in CASES.values()])
    assert dict(zip(CASES, found, strict=True)) == {name: reason for name, (_, reason) in CASES.items()}


def test_a_table_without_a_key_needs_none(spark: SparkSession, checks: Any) -> None:
    shape = TableShape(key=(), columns={name: ColumnType(kind) for name, kind in COLUMNS.items()}, encodings=ENCODINGS)
    changes = [{"key": None, "after": after} for after in (GOOD, GOOD | {"n": "none"}, GOOD | {"n": "10"})]
    assert judged(spark, shape, checks, changes) == [None, UNREADABLE + 'n (int): "none"', CHECK + "n <= 9"]
    assert judged(spark, TableShape(key=(), columns={}, encodings=ENCODINGS), {}, changes) == [None] * 3


def test_a_text_is_judged_as_its_message_writes_it_and_shown_as_it_was_sent(spark: SparkSession) -> None:
    """Milliseconds in one message schema, text in another."""
    kinds = {"v1": {"at": ColumnType("timestamp", "epoch_millis")}, "v2": {"at": ColumnType("timestamp")}}
    columns = {"id": ColumnType("bigint"), "at": ColumnType("timestamp", "rewritten")}
    shape = TableShape(key=("id",), columns=columns, encodings=ENCODINGS, rewrites=kinds)
    sent = [("v1", "1795132800000"), ("v2", "1795132800000"), ("v2", "2026-11-20 00:00:00"), ("v1", "soon")]
    changes = [{"message_schema": schema, "after": {"id": "1", "at": text}} for schema, text in sent]
    found = judged(spark, shape, {}, changes)
    assert [reason and reason.rsplit(" ", 1)[1] for reason in found] == [None, '"1795132800000"', None, '"soon"']


def test_what_a_verdict_costs_does_not_go_by_the_columns(spark: SparkSession) -> None:
    """Of hundreds of columns a change sends few. One that looked for each was the slowest part of such an hour, and Spark's
    compiler took all memory for it."""
    kinds = ("int", "date", "decimal(14,2)", "timestamp", "string")
    rows, sizes = spark.createDataFrame([], LOG_ROW.replace("absent", "object string, record int, absent")), []
    for columns in (60, 600):
        named = {f"c{number}": ColumnType(kinds[number % len(kinds)]) for number in range(columns)}
        shape = TableShape(key=("id",), columns={"id": ColumnType("int")} | named, encodings=ENCODINGS)
        plan = rows.select(judge_change(shape, {}))._jdf.queryExecution().optimizedPlan()
        sizes.append(plan.expressions().apply(0).treeString().count("\n"))
    assert sizes[0] == sizes[1] > 50
