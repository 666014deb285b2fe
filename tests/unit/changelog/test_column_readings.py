"""Types that come late: what a published column may be declared as, and what stops it."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from tidemark.changelog.column_readings import untyped_warning
from tidemark.changelog.resolve import PublishedReadings, shape_of
from tidemark.changelog.table_history import Definition
from tidemark.errors import SchemaError
from tidemark.feeds.model import Feed
from tidemark.fold.typed_rows import TableShape
from tidemark.ledger.change_stats import TableStats
from tidemark.values.columns import ColumnType, Reading

MICRO_TIME = ("int64", "io.debezium.time.MicroTime")
Published = dict[str, tuple[str, Reading]]


def shaped(
    columns: dict[str, str] | None = None,
    *,
    published: Published | None = None,
    messages: dict[str, tuple[str, str | None]] | None = None,
    stand: bool = False,
    unsaid: int = 0,
    **options: Any,
) -> TableShape:
    """The shape of s.t in an hour whose messages name id and c. ``published``: column → its type and how it was read.
    ``unsaid``: how many of its rows come without a message schema."""
    feed = Feed.model_validate(
        {
            "feed": "f", "description": "-", "owner": "-", "topics": ["t"], "exports": {"path": "{topic}/{date}/{hour}/*"},
            "container": {"type": "kafka_json"}, "format": {"type": "debezium", **options},
            "tables": {"s.t": {"columns": columns or {}}},
        }
    )  # fmt: skip
    fields = [{"field": name, "type": kind, "name": semantic} for name, (kind, semantic) in (messages or {}).items()]
    schemas = [(json.dumps({"fields": [{"field": "after", "fields": fields}]}), 0)] if fields else []
    stats = TableStats(
        table="s.t", sources=["s.t"], landed=1, keyed=1, keys=["1\x1fid"], columns=["2\x1fid\x1fc"], schemas=schemas,
        unsaid=unsaid,
    )  # fmt: skip
    stored = {name: kind for name, (kind, _) in (published or {}).items()}
    before = PublishedReadings({name: reading for name, (_, reading) in (published or {}).items()}, stand)
    return shape_of(feed, stats, Definition(), stored, ["id"] if stored else [], None, before)


def published_as(shape: TableShape) -> Published:
    """What is published of a shape."""
    return {name: (kind.spark, shape.readings[name]) for name, kind in shape.columns.items()}


UNTYPED = published_as(shaped())


@pytest.mark.parametrize(
    "declared",
    ["time", "bigint", "numeric(12,2)", "numeric", "timestamptz", "timestamp", "text[]", "date", "bytea", "point"],
)
def test_a_type_that_is_declared_after_an_untyped_hour_stops_the_table(declared: str) -> None:
    assert UNTYPED["c"] == ("string", Reading(ColumnType("string"), "nobody"))
    with pytest.raises(SchemaError) as stopped:
        shaped({"c": declared}, published=UNTYPED)
    said = str(stopped.value)
    assert f"feed f, table s.t: column c is string, as it was sent, and would become {declared}:" in said
    assert "another `name`" in said
    assert shaped({"c": declared}, published=UNTYPED, stand=True).columns["c"] == ColumnType("string"), "it can be read"
    # A release that noted no readings published it: what is a text column cannot be ignored either.
    if declared not in ("time", "numeric"):
        with pytest.raises(SchemaError, match=r"column c is string, as it was sent"):
            shaped({"c": declared}, published={"id": UNTYPED["id"], "c": ("string", None)})  # type: ignore[dict-item]


@pytest.mark.parametrize("declared", ["text", "jsonb"])
def test_a_declared_type_that_is_text_as_sent_changes_nothing(declared: str) -> None:
    shape = shaped({"c": declared}, published=UNTYPED, decimals="string")
    assert shape.columns["c"] == ColumnType("string")


def test_messages_that_begin_to_tell_types_stop_a_column_of_another_notation() -> None:
    with pytest.raises(
        SchemaError, match=r"column c is string, as it was sent, and would become string \(time_micros\)"
    ):
        shaped(published=UNTYPED, messages={"c": MICRO_TIME})
    with pytest.raises(SchemaError, match="column c is string, as it was sent, and would become text"):
        shaped({"c": "text"}, published=UNTYPED, messages={"c": MICRO_TIME})
    declared = published_as(shaped({"c": "text"}))
    with pytest.raises(SchemaError, match="column c is string, and would become text"):
        shaped({"c": "text"}, published=declared, messages={"c": MICRO_TIME})
    plain = shaped(published=UNTYPED, messages={"c": ("int64", None)})
    assert plain.columns["c"] == ColumnType("string"), "a number has the same text"


def test_a_reading_stays_when_nothing_says_it_any_more() -> None:
    """A declaration that was taken out of the feed file, or messages that come without schemas from some hour on."""
    told = {
        "by the feed file": shaped({"c": "date"}),
        "by messages": shaped(messages={"c": ("int32", "io.debezium.time.Date")}),
    }
    for how, shape in told.items():
        assert shaped(published=published_as(shape)).columns["c"] == ColumnType("date", "epoch_days"), how
    of_messages = published_as(shaped(messages={"c": MICRO_TIME}))
    assert shaped(published=of_messages).columns["c"] == ColumnType("string", "time_micros")
    assert shaped({"c": "time"}, published=of_messages).columns["c"] == ColumnType("string", "time_micros")


def test_a_declared_reading_does_not_become_another() -> None:
    micros, precise = shaped({"c": "timestamp"}), shaped({"c": "numeric(10,0)"})
    for before, declared, said in (
        (micros, shaped, "timestamp_ntz (epoch_micros), and would become timestamp_ntz (epoch_millis)"),
        (
            precise,
            partial(shaped, decimals="string"),
            "decimal(10,0) (unscaled_decimal), and would become decimal(10,0)",
        ),
    ):
        with pytest.raises(SchemaError) as stopped:
            declared({"c": "timestamp(3)" if before is micros else "numeric(10,0)"}, published=published_as(before))
        assert f"column c is {said}: the same type" in str(stopped.value)
        assert "another `name`" not in str(stopped.value) and "a new feed" in str(stopped.value)
    with pytest.raises(SchemaError, match=r"column c is string \(time_micros\), and would become text"):
        shaped({"c": "text"}, published=published_as(shaped({"c": "time"})))
    widened = shaped({"c": "numeric(14,2)"}, published=published_as(shaped({"c": "numeric(12,2)"})))
    assert widened.columns["c"] == ColumnType("decimal(14,2)", "unscaled_decimal", "2"), "wider in place"
    narrower = shaped({"c": "integer"}, published=published_as(shaped({"c": "bigint"})))
    assert narrower.columns["c"] == ColumnType("bigint"), "it stays as wide as it was"


def test_what_messages_say_may_be_written_in_another_way() -> None:
    """Each message says how it is written; a text column of theirs takes all that comes."""
    text = published_as(shaped(messages={"c": ("string", None)}))
    assert (
        shaped(published=text, messages={"c": ("int32", "io.debezium.time.Date")}).columns["c"].encoding == "rewritten"
    )
    times = published_as(shaped(messages={"c": MICRO_TIME}))
    assert shaped(published=times, messages={"c": ("int64", "io.debezium.time.NanoTime")}).columns["c"] == ColumnType(
        "string", "time_nanos"
    )


def test_messages_without_schemas_beside_others_are_written_as_the_feed_file_says() -> None:
    days = ("int32", "io.debezium.time.Date")
    alike = shaped({"c": "date"}, messages={"c": days}, unsaid=1)
    assert (alike.columns["c"], alike.rewrites) == (ColumnType("date", "epoch_days"), {})
    other = {"messages": {"c": ("int64", "io.debezium.time.Timestamp")}}
    shape = shaped({"c": "timestamp"}, **other, unsaid=1)
    assert shape.columns["c"] == ColumnType("timestamp_ntz", "rewritten")
    ways = {kind["c"].encoding for kind in shape.rewrites.values()}
    assert (ways, shape.rewrites[None]["c"].encoding) == ({"epoch_millis", "epoch_micros"}, "epoch_micros")
    assert shaped({"c": "timestamp"}, **other).rewrites == {}, "there are none"
    assert shaped(**other, unsaid=1).columns["c"].encoding == "epoch_millis", "nobody says how they are written"


def test_bytes_that_a_message_calls_a_text_are_read_as_they_are_declared() -> None:
    """As `binary.handling.mode` has them written: hexadecimal digits, or base64."""
    for mode in ("hex", "base64"):
        shape = shaped({"c": "bytea"}, messages={"c": ("string", None)}, binary=mode)
        assert (shape.columns["c"], shape.rewrites) == (ColumnType("binary", mode), {})
        alone = shaped({"c": "bytea"}, published=published_as(shape), binary=mode)
        assert alone.columns["c"] == ColumnType("binary", mode), "also where messages come without schemas"
        of_bytes = shaped({"c": "bytea"}, messages={"c": ("bytes", None)}, binary=mode)
        assert of_bytes.columns["c"] == ColumnType("binary", "base64"), "a message that says bytes writes base64"
    assert shaped({"c": "text"}, messages={"c": ("string", None)}, binary="hex").columns["c"] == ColumnType("string")


def test_a_column_of_whole_numbers_holds_what_messages_count() -> None:
    """MySQL's TIME of more than a day, and a date as its days: the declared type counts."""
    for semantic in ("io.debezium.time.MicroTime", "io.debezium.time.Date"):
        shape = shaped({"c": "bigint"}, messages={"c": ("int64", semantic)})
        assert shape.columns["c"] == ColumnType("bigint"), semantic
        assert shape.rewrites == {}
        again = shaped({"c": "bigint"}, published=published_as(shape))
        assert again.columns["c"] == ColumnType("bigint"), "also where messages come without schemas"
    of_text = shaped({"c": "text"}, messages={"c": MICRO_TIME})
    assert of_text.columns["c"] == ColumnType("string", "time_micros"), "as a clock shows it"


def test_the_warning_names_what_to_declare() -> None:
    said = untyped_warning("s.t", ["b", "a"])
    assert said.startswith(
        "no type is known of a, b: published as text, as sent. Declare them under tables.s.t.columns"
    )
    assert "c19 and 5 more: " in untyped_warning("s.t", [f"c{n:02}" for n in range(25)])


def test_an_hour_of_statements_alone_leaves_readings_as_they_are() -> None:
    """Messages said how they write the column, and the feed file what it is. A truncate says neither."""
    declared = {"c": "varchar(20)"}
    published = published_as(shaped(declared, messages={"c": MICRO_TIME}))
    assert published["c"][1].by == "source"
    assert published_as(shaped(declared, published=published)) == published
    # A row without its message schema is written as the feed file says.
    with pytest.raises(SchemaError, match="column c is "):
        shaped(declared, published=published, unsaid=1)
