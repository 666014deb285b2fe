"""Which transaction a record is of that cannot be decoded, by what stands next to it in the stream."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidemark.pipeline.undecodable import _between

COLUMNS = (
    "op string, tx string, tx_end boolean, position string, topic string, partition int, offset bigint, object string, "
    "record bigint, entry int, problem string"
)
BEGIN, ROW, END = ("control", "x", False), ("insert", "x", None), ("control", "x", True)
ALONE, PAIRED, HEARTBEAT = ("insert", None, None), ("insert", "pair:t:1", None), ("control", None, None)
OTHER, BEFORE, UNPLACED = ("insert", "y", None), ("control", "w", True), ("bad", None, None)

#: What stands in the stream, and the transactions that the undecodable record in it is taken to be of.
STREAMS: dict[str, tuple[list[tuple[Any, ...]], set[str]]] = {
    "between rows": ([BEGIN, ROW, UNPLACED, ROW, END], {"x"}),
    "behind the begin": ([BEGIN, UNPLACED, END], {"x"}),
    "behind the end": ([BEGIN, ROW, END, UNPLACED, ALONE], set()),
    "between two transactions": ([BEFORE, UNPLACED, BEGIN, ROW], set()),
    "an hour ends before it": ([UNPLACED, ROW, END], {"x"}),
    "an hour ends behind it": ([BEGIN, ROW, UNPLACED], {"x"}),
    "beside others that say nothing": ([BEGIN, HEARTBEAT, UNPLACED, HEARTBEAT, UNPLACED, ALONE], {"x"}),
    "in a topic without markers": ([ROW, UNPLACED, OTHER], {"x", "y"}),
    "beside what is in none": ([ALONE, UNPLACED, PAIRED], set()),
}


@pytest.mark.promise(3)
@pytest.mark.parametrize("offsets", [True, False], ids=["offsets", "objects"])
def test_its_neighbours_say_where_it_stands(spark: SparkSession, offsets: bool) -> None:
    """Each stream is a partition of the topic, in two objects; without offsets it is one object."""
    entries = []
    for number, (name, (stream, _)) in enumerate(STREAMS.items()):
        for at, (op, tx, ends) in enumerate(stream):
            place = ("t", number, at, f"{name}{at % 2}") if offsets else ("t", None, None, name)
            entries.append((op, tx, ends, None if op == "bad" else f"{at}", *place, at, 0, name))
    found = _between(spark.createDataFrame(entries, COLUMNS)).collect()
    told = {name: {row.tx for row in found if row.why.endswith(f": {name}")} for name in STREAMS}
    assert told == {name: wanted for name, (_, wanted) in STREAMS.items()}
    assert "a record that stands in it cannot be decoded (record 2 of between rows" in {
        row.why.partition("): ")[0].rstrip("01") for row in found
    }  # fmt: skip
