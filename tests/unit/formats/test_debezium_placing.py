"""Where the transaction stands that was in flight while a snapshot was taken, in topics of several partitions."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidemark.formats.debezium.placing import place

COLUMNS = (
    "name string, hour string, topic string, partition int, offset long, position string, op string, kind string, "
    "tx string, tx_part string"
)
FIRST_HOUR, SECOND_HOUR, THIRD_HOUR = (f"2026-11-20T0{hour}" for hour in range(3))


def at(*lsns: int) -> str:
    return ".".join(f"{lsn:020d}" for lsn in lsns)


def logged(spark: SparkSession, *rows: tuple[str, str, int, int | None, int], topic: str = "t") -> DataFrame:
    """Log rows: (name, hour, partition, offset, LSN). Those named ``read`` are of a snapshot, the others of the first
    transaction after one."""
    return spark.createDataFrame(
        [
            (name, hour, topic, partition, offset, at(lsn, lsn) if name == "read" else at(lsn, lsn, lsn), "insert",
             "r" if name == "read" else "c", None, None)
            for name, hour, partition, offset, lsn in rows
        ],
        COLUMNS,
    )  # fmt: skip


def places(rows: DataFrame) -> dict[str, str]:
    return {
        row.name: row.position for row in place(rows, rows).where("kind = 'c'").select("name", "position").collect()
    }


@pytest.mark.promise(1, 2)
def test_what_was_in_flight_is_behind_the_snapshot_in_whichever_partition_it_lands(spark: SparkSession) -> None:
    """The snapshot ends what its table held before: a row that it does not have, and that stood before it, would be gone."""
    rows = logged(
        spark,
        ("read", FIRST_HOUR, 0, 1, 1000), ("read", FIRST_HOUR, 1, 1, 1000),
        ("read", SECOND_HOUR, 0, 2, 2000), ("changed", SECOND_HOUR, 0, 3, 1150),
        ("beside an older one alone", SECOND_HOUR, 1, 2, 1151), ("beside none", THIRD_HOUR, 2, 1, 1152),
        ("above it", SECOND_HOUR, 2, 2, 2100), ("of before", FIRST_HOUR, 1, 0, 1160),
    )  # fmt: skip
    assert places(rows) == {
        "changed": at(2000, 2000, 1150), "beside an older one alone": at(2000, 2000, 1151),
        "beside none": at(2000, 2000, 1152), "above it": at(2100, 2100, 2100), "of before": at(1160, 1160, 1160),
    }  # fmt: skip


def test_a_snapshot_that_is_read_behind_it_is_not_the_one(spark: SparkSession) -> None:
    """Its rows of the same partition show it, or it landed later; nor is one of another topic, and none without offsets."""
    of_others = logged(spark, ("read", FIRST_HOUR, 0, 1, 9000), topic="other")
    rows = logged(
        spark,
        ("read", FIRST_HOUR, 0, 1, 1000), ("changed", FIRST_HOUR, 0, 2, 900), ("read", FIRST_HOUR, 0, 3, 2000),
        ("beside it", FIRST_HOUR, 1, 2, 901), ("read", FIRST_HOUR, 1, 3, 2000), ("read", SECOND_HOUR, 0, 9, 3000),
        ("without", FIRST_HOUR, 0, None, 902),
    )  # fmt: skip
    assert places(rows.unionByName(of_others)) == {
        "changed": at(1000, 1000, 900), "beside it": at(1000, 1000, 901), "without": at(902, 902, 902),
    }  # fmt: skip


@pytest.mark.promise(2)
def test_what_is_sent_on_after_a_restart_is_of_the_same_transaction(spark: SparkSession) -> None:
    """It names an event of its own transaction, or the snapshot, as the commit before it."""
    events = {
        "first": (at(120, 120, 120), "7", "u"), "last before": (at(128, 128, 128), "7", "c"),
        "sent again": (at(120, 128), "7", "c"), "sent on": (at(120, 136), "7", "u"),
        "in the log before": (at(100, 90), "7", "d"), "of another": (at(120, 140), "8", "u"),
        "behind its commit": (at(200, 136), "7", "u"),
        "behind the snapshot": (at(100, 110), None, "u"), "read": (at(100, 100), None, "r"),
    }  # fmt: skip
    rows = spark.createDataFrame(
        [
            (name, FIRST_HOUR, "t", 0, 2 - (kind == "r"), position, "insert" if kind in "cr" else "update", kind, None, tx)
            for name, (position, tx, kind) in events.items()
        ],
        COLUMNS,
    )  # fmt: skip
    assert {row.name: row.position for row in place(rows, rows).collect()} == {
        "first": at(120, 120, 120), "last before": at(128, 128, 128), "sent again": at(128, 128, 128),
        "sent on": at(136, 136, 136), "in the log before": at(100, 100, 90), "of another": at(120, 140),
        "behind its commit": at(200, 136), "behind the snapshot": at(110, 110, 110), "read": at(100, 100),
    }  # fmt: skip
