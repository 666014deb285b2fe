"""Spoilt change-data records of IBM: none is lost, none ends the job, and each that is no record says why."""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from tests.unit.formats import mutations
from tidemark.feeds.loading import load_feed
from tidemark.formats.ibm import decode as ibm
from tidemark_samples.exporting import Sample
from tidemark_samples.ibm import generate

#: Spoilt records: a few in the first tier, more in the second.
NUMBERS = [1_500, pytest.param(10_500, marks=pytest.mark.full)]
OBJECTS = 3
EVERY_TYPE = {
    "a": "INTEGER", "b": "DECIMAL(9,2)", "c": "DATE", "d": "TIME", "e": "TIMESTAMP(6)", "f": "TIMESTAMP(12)",
    "g": "DOUBLE", "h": "CHAR(2) FOR BIT DATA", "i": "BLOB(1K)", "j": "BOOLEAN", "k": "DECFLOAT(34)",
    "l": "TIMESTAMP WITH TIME ZONE", "m": "XML", "n": "BIGINT",
}  # fmt: skip


def _value_spoilt(whole: bytes, pick: random.Random) -> bytes:
    record = json.loads(whole)
    record["value"] = mutations.spoil_bytes(record["value"].encode(), pick).decode("utf-8", "replace")
    return json.dumps(record).encode()


def _field_spoilt(whole: bytes, pick: random.Random) -> bytes:
    """One field between column delimiters replaced: a header field as likely as a value."""
    record = json.loads(whole)
    fields = record["value"].split(",")
    value = pick.choice(mutations.VALUES)
    fields[pick.randrange(len(fields))] = pick.choice(("{}", '"{}"')).format("" if value is None else value)
    record["value"] = ",".join(fields)
    return json.dumps(record).encode()


@pytest.fixture(scope="module", params=NUMBERS)
def number(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory: pytest.TempPathFactory, number: int) -> tuple[Path, list[list[bytes]]]:
    out = tmp_path_factory.mktemp("fuzz")
    generate(out, Sample(hours=1, events=150, seed=2, container="kafka_json"))
    whole = [line for path in out.rglob("part-*") for line in gzip.decompress(path.read_bytes()).splitlines()]
    how = (_value_spoilt, _value_spoilt, _field_spoilt, _field_spoilt, mutations.spoil_json, mutations.spoil_bytes)
    lines = mutations.lines(sorted(whole), number, random.Random(13), how)
    return out, [lines[i::OBJECTS] for i in range(OBJECTS)]


@pytest.fixture(scope="module")
def decoded(spark: SparkSession, spoilt: tuple[Path, list[list[bytes]]]) -> list[Row]:
    out, objects = spoilt
    feed_file = out / "feeds" / "payroll.yaml"
    kinds = ibm.column_types(EVERY_TYPE, load_feed(feed_file).format_options).values()
    return mutations.decode_objects(spark, feed_file, objects, kinds)


def test_every_record_is_there_and_whole(
    decoded: list[Row], spoilt: tuple[Path, list[list[bytes]]], number: int
) -> None:
    assert sum(map(len, spoilt[1])) == number
    found = {(int(row.object[-1]), row.record): bytes(row.raw) for row in decoded}
    assert found == {(i, record): line for i, lines in enumerate(spoilt[1]) for record, line in enumerate(lines, 1)}


def test_entries_of_a_record_are_numbered_without_gaps(decoded: list[Row]) -> None:
    entries = defaultdict(list)
    for row in decoded:
        entries[row.object, row.record].append(row.entry)
    assert all(sorted(numbers) == list(range(len(numbers))) for numbers in entries.values())


def test_a_bad_record_has_a_problem_and_a_row_has_a_position(decoded: list[Row], number: int) -> None:
    for row in decoded:
        assert (row.op == "bad") == bool(row.problem)
        assert row.op in ("bad", "control") or row.position
    ops = Counter(row.op for row in decoded)
    assert ops["bad"] > number / 10, "nothing was spoilt"
    assert min(ops[op] for op in ("insert", "update", "delete")) > 10, "all was spoilt"
    assert len({row.problem.split(":")[0].split(" ")[0] for row in decoded if row.problem}) >= 5
