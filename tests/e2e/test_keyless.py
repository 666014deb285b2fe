"""A table without a key: the same message right behind itself is one row, another message with the same row is one more."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.convergence import debezium, ibm, qlik
from tests.convergence.histories import KEYLESS, ROOM
from tests.convergence.oracle import Change
from tests.convergence.wire import Format
from tests.e2e.change_exports import HOURS, Exports, unit
from tidemark.operations.read_table import read_snapshot
from tidemark.settings import Settings

pytestmark = pytest.mark.promise(2)

#: Without Canal: there two equal messages of one batch are two changes.
FORMATS = tuple(Format(encoder.__name__.rpartition(".")[2], encoder, "kafka_json") for encoder in (debezium, ibm, qlik))
ROW = frozenset({("id", 1), ("n", 1), ("s", "same"), ("big", None)})


@pytest.mark.parametrize(
    "format_",
    [pytest.param(one, id=one.name, marks=() if one.name == "debezium" else pytest.mark.full) for one in FORMATS],
)
def test_a_message_that_comes_again_at_once_counts_once(
    spark: SparkSession, settings: Settings, tmp_path: Path, format_: Format
) -> None:
    exports = Exports(format_, tmp_path, settings, f"twice_{format_.name}")
    one, other = (
        format_.encoder.encode(unit(at, Change(KEYLESS, at * ROOM + 10, "insert", sent=ROW))) for at in (1, 1001)
    )
    twice = [sent for sent in one for _ in range(2)]
    receipt = exports.run(HOURS[0], [*twice, *other])
    rows, _ = read_snapshot(settings, f"{exports.name}.{KEYLESS}", HOURS[0])
    assert [row["id"] for row in rows.to_pylist()] == [1, 1]
    assert (receipt.counts.applied, receipt.counts.duplicate) == (2, 1)
