"""From texts to typed rows and back to what a snapshot takes; and that every seam has the shape of the contract."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tests.convergence.oracle import Change
from tests.unit.fold.histories import KEY_TYPE, ROW_TYPE, SHAPE, Delivered, frame, log_rows
from tidemark.fold import keyless
from tidemark.fold.colliding_keys import colliding_keys
from tidemark.fold.contract import COUNTED, folded_type, rows_type, settled_type
from tidemark.fold.fold_rows import fold
from tidemark.fold.key_changes import with_ancestors
from tidemark.fold.typed_rows import TableShape, key_is_whole, keyed_rows, settle
from tidemark.values.columns import ColumnType
from tidemark.values.encodings import ENCODINGS, REWRITTEN

HOUR = "2026-11-20T07"
WHOLE = frozenset({("id", 1), ("a", "x"), ("b", "y"), ("c", "z")})


def shape_of(rows: DataFrame | T.StructType) -> list[tuple[str, str]]:
    """Names and types, in order; whether null is possible does not matter."""
    fields = rows if isinstance(rows, T.StructType) else rows.schema
    return [(field.name, field.dataType.simpleString()) for field in fields]


def test_every_seam_has_the_shape_of_the_contract(spark: SparkSession) -> None:
    logged = log_rows(spark, [Delivered(Change("t", 1, "insert", (1,), WHOLE))])
    for expand in (False, True):
        rows = keyed_rows(logged, SHAPE, expand=expand)
        assert shape_of(rows) == shape_of(rows_type(KEY_TYPE))
    assert shape_of(
        with_ancestors(rows, rows.select("key").distinct(), colliding_keys(rows, F.lit(False)), SHAPE)
    ) == shape_of(rows_type(KEY_TYPE))
    counted = [(name, "bigint") for name in ("unreadable", *COUNTED)]
    counted[0] = ("unreadable", "string")
    for partial in (False, True):
        folded = fold(rows, partial=partial)
        assert shape_of(folded) == shape_of(folded_type(KEY_TYPE))
        settled = settle(folded, SHAPE, HOUR)
        assert shape_of(settled) == [*shape_of(settled_type(KEY_TYPE, ROW_TYPE)), *counted]
    copy = T.StructType([T.StructField("copy", T.StringType())])
    effective = keyless.effective(logged, None)
    present = keyless.present_copies(keyless.added_copies(effective), keyless.copies(effective))
    settled = keyless.settle_copies(present, SHAPE, HOUR)
    assert shape_of(settled) == [*shape_of(settled_type(copy, ROW_TYPE)), ("unreadable", "string")]


def test_an_update_of_the_key_becomes_a_delete_and_an_insert(spark: SparkSession) -> None:
    logged = frame(
        spark,
        [
            {"op": "update", "position": "5", "key": {"id": "2"}, "prior_key": {"id": "1"}, "after": {"id": "2"},
             "landed_this_hour": True},
            {"op": "update", "position": "6", "key": {"id": "2"}, "after": {"id": "2", "a": "x"}, "absent": ["b"],
             "landed_this_hour": True},
            {"op": "delete", "position": "7", "key": {"id": "2"}, "landed_this_hour": False},
        ],
    )  # fmt: skip
    found = keyed_rows(logged, SHAPE, expand=True).orderBy("sort_key").collect()
    listed = [(row.sort_key, row.op, row.key["id"], row.prior and row.prior["id"], row.counts) for row in found]
    assert listed == [
        ("5#0", "delete", 1, None, False),
        ("5#1", "insert", 2, 1, True),
        ("6#2", "update", 2, None, True),
        ("7#0", "delete", 2, None, True),
    ]
    said = {"id": "2", "a": "x", "c": None}  # c is neither sent nor lacked: the source's table did not have it
    assert [(row.after, row.absent) for row in found[2:]] == [(said, ["b"]), ({}, [])]


def test_a_key_is_whole_when_each_column_can_be_read(spark: SparkSession) -> None:
    keys = [{"id": "1"}, {"id": "one"}, {"id": None}, {"no": "1"}, None]
    rows = [{"op": "insert", "position": str(at), "key": key} for at, key in enumerate(keys)]
    found = keyed_rows(frame(spark, rows), SHAPE, expand=False).select("position", key_is_whole(SHAPE).alias("whole"))
    assert [row.whole for row in found.orderBy("position").collect()] == [True, False, False, False, False]


def test_what_cannot_be_read_is_named_and_what_is_stored_is_kept(spark: SparkSession) -> None:
    shape = TableShape(
        key=("id",),
        columns={"id": ColumnType("int"), "n": ColumnType("int"), "d": ColumnType("date")},
        encodings=ENCODINGS,
    )
    rows = [
        {"op": "insert", "key": {"id": "1"}, "after": {"id": "1", "n": "5", "d": "2026-11-20"}},
        {"op": "insert", "key": {"id": "2"}, "after": {"id": "2", "n": "five", "d": "never"}},
        {"op": "insert", "key": {"id": "3"}, "after": {"id": "3", "n": None, "d": "2026-11-20"}},
        {"op": "delete", "key": {"id": "4"}, "after": {"n": "five"}},
        {"op": "update", "key": {"id": "5"}, "after": {"id": "5", "n": "5"}, "absent": ["d"]},
        {"op": "insert", "key": {"id": "6"}, "after": {"id": "6", "n": "5"}, "absent": ["d"]},
    ]
    logged = frame(spark, [{**row, "position": "1", "landed_this_hour": True} for row in rows])
    folded = fold(keyed_rows(logged, shape, expand=False), partial=True)
    both = settle(folded, shape, HOUR).withColumn("all_known", F.lit(False)).unionByName(
        settle(folded, shape, HOUR, whole=True).withColumn("all_known", F.lit(True))
    )  # fmt: skip
    collected = both.collect()
    found = {row.key["id"]: row for row in collected if not row.all_known}
    assert {key: row.unreadable for key, row in found.items() if row.unreadable} == {2: "n, d"}
    assert found[1].row["n"] == 5
    assert found[3].row["n"] is None
    assert [key for key, row in found.items() if row.deleted] == [4]
    unknown = [key for key, row in found.items() if row.tidemark["base_sort_key"] is None]
    assert unknown == [5], "an insert begins the row"
    assert found[5].tidemark["newer"] == {"n": found[5].tidemark["sort_key"]}
    assert found[4].tidemark["absent"] == ["n", "d"], "of a deleted row nothing is known"
    assert all(row.joins for row in found.values())
    assert found[5].tidemark["absent"] == ["d"]
    assert found[5].tidemark["hour"] == HOUR
    assert found[5].tidemark["base_sort_key"] is None
    assert not any(row.joins for row in collected if row.all_known)


def test_columns_that_messages_write_in_two_ways_come_to_one_value(spark: SparkSession) -> None:
    ways = {"days": {"d": ColumnType("date", "epoch_days")}, "text": {"d": ColumnType("date")}}
    columns = {"id": ColumnType("int"), "d": ColumnType("date", REWRITTEN)}
    shape = TableShape(key=("id",), columns=columns, encodings=ENCODINGS, rewrites=ways)
    texts = [("1", "days", "20412"), ("2", "text", "2025-11-20"), ("3", "days", "2025-11-20")]
    logged = frame(
        spark,
        [
            {"op": "insert", "position": "1", "key": {"id": key}, "after": {"id": key, "d": text},
             "message_schema": schema, "landed_this_hour": True}
            for key, schema, text in texts
        ],
    )  # fmt: skip
    settled = settle(fold(keyed_rows(logged, shape, expand=False), partial=True), shape, HOUR).collect()
    found = {row.key["id"]: (row.row["d"] and row.row["d"].isoformat(), row.unreadable) for row in settled}
    assert found == {1: ("2025-11-20", ""), 2: ("2025-11-20", ""), 3: (None, "d")}


def test_times_within_arrays_and_structs_keep_their_digits_in_one_notation(spark: SparkSession) -> None:
    kinds = {
        "local": ColumnType("array<timestamp_ntz>", "json"), "zoned": ColumnType("struct<at: timestamp>", "json"),
    }  # fmt: skip
    texts = {"local": '["2026-11-20T00:00:00.123456"]', "zoned": '{"at":"2026-11-20T00:00:00.123456Z"}'}
    rewritten = {name: ColumnType(kind.spark, REWRITTEN) for name, kind in kinds.items()}
    shape = TableShape(key=(), columns=rewritten, encodings=ENCODINGS, rewrites={"of a message": kinds})
    image = F.create_map(*(F.lit(part) for pair in texts.items() for part in pair))
    rows = spark.range(1).select(F.lit("of a message").alias("message_schema"), image.alias("image"))
    written = rows.withColumn("image", shape.in_one_notation(F.col("image")))
    read = written.select(*(shape.value(name, F.col("image")[name]).cast("string").alias(name) for name in kinds))
    assert read.collect()[0].asDict() == {
        "local": "[2026-11-20 00:00:00.123456]", "zoned": "{2026-11-20 00:00:00.123456}",
    }  # fmt: skip
    by_value = replace(shape, columns=kinds, rewrites={}).by_value(F.col("image"))
    assert rows.select(by_value.alias("image")).collect()[0].image == texts


@pytest.mark.parametrize(
    ("encoding", "whole", "finer"),
    [
        ("plain", "2026-11-20 01:02:03.1234560", "2026-11-20 01:02:03.1234567"),
        ("epoch_nanos", "1795136523123456000", "1795136523123456007"),
    ],
)
def test_a_key_with_more_digits_than_its_type_is_no_key(
    spark: SparkSession, encoding: str, whole: str, finer: str
) -> None:
    """SQL Server's datetime2(7), Db2's TIMESTAMP(12), nanoseconds: two rows would become one."""
    columns = {"at": ColumnType("timestamp_ntz", encoding), "seen": ColumnType("timestamp_ntz", encoding)}
    shape = TableShape(key=("at",), columns=columns, encodings=ENCODINGS)
    rows = spark.createDataFrame([(text,) for text in (whole, finer)], "text string")
    found = rows.select(*(shape.value(name, F.col("text")).isNotNull() for name in columns)).collect()
    assert [tuple(row) for row in found] == [(True, True), (False, True)]
