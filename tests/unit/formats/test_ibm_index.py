"""The index of IBM's records where the container shows messages: counted within each message, without moving a row."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.unit.formats.ibm_messages import TABLES, feed, record
from tidemark.containers.contract import RECORDS
from tidemark.formats.ibm import decode as ibm

FEED = feed({"type": "kafka_json"}, TABLES)
VALUES = ',,,,1,"x","y",1.00'


def counted(names: list[str | None]) -> list[int]:
    """In plain words: a record's number since the last one that begins another message; one without a name begins none."""
    found, last, begin = [], None, 0
    for number, name in enumerate(names):
        if name is not None and name != last:
            last, begin = name, number
        found.append(number - begin)
    return found


def entry(name: str | None) -> str:
    return "stray" if name is None else record("ISRT", VALUES, unit=f"0000:0000:0000:0000:{name}")


def decoded(spark: SparkSession, messages: list[list[str | None]]) -> DataFrame:
    values = ["\n".join(map(entry, names)).encode() for names in messages]
    rows = [("o", number, None, "t", 0, number, None, None, value, [], None) for number, value in enumerate(values, 1)]
    return ibm.decode(spark.createDataFrame(rows, RECORDS), FEED, FEED.format_options)


def test_each_record_is_counted_in_its_message(spark: SparkSession) -> None:
    chance = random.Random(4)
    messages = [chance.choices(["0001", "0002", None], k=chance.randrange(1, 9)) for _ in range(200)]
    messages += [["0001"] * 40, [None, None, "0001", None, "0001"], ["0001", "0002", "0001"], [None]]
    rows = decoded(spark, messages).orderBy("record", "entry").collect()
    found: list[list[int | None]] = [[] for _ in messages]
    for row in rows:
        assert row.entry == len(found[row.record - 1])
        found[row.record - 1].append(row.position and int(row.position.split(".")[2]))
    for names, indexes in zip(messages, found, strict=True):
        wanted = [None if name is None else at for name, at in zip(names, counted(names), strict=True)]
        assert indexes == wanted, names


@pytest.mark.parametrize("moving", ["Exchange", "Sort", "Window"])
def test_no_row_moves_for_it(spark: SparkSession, moving: str) -> None:
    """A message of many records would go through a shuffle once for each of them, with all of its bytes."""
    plan = decoded(spark, [["0001"]])._jdf.queryExecution().executedPlan().toString()
    assert "Generate" in plan and moving not in plan
