"""Spoilt messages of Debezium: none is lost, none ends the job, and each that is no event says why."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from tests.unit.formats import mutations
from tidemark.feeds.loading import load_feed
from tidemark.formats.debezium import decode as debezium
from tidemark.values import encodings
from tidemark.values.columns import ColumnType
from tidemark_samples.debezium import generate
from tidemark_samples.exporting import Sample

ENCODINGS = {**encodings.ENCODINGS, **debezium.ENCODINGS}
NUMBER = 12_000
OBJECTS = 4


def _value_spoilt(how: object) -> object:
    """A record whose value alone is spoilt."""

    def spoil(whole: bytes, pick: random.Random) -> bytes:
        record = json.loads(whole)
        if record["value"] is not None:
            record["value"] = how(record["value"].encode(), pick).decode("utf-8", "replace")  # type: ignore[operator]
        return json.dumps(record).encode()

    return spoil


SPOIL = (
    _value_spoilt(mutations.spoil_json),
    _value_spoilt(mutations.spoil_json),
    _value_spoilt(mutations.spoil_bytes),
    mutations.spoil_json,
    mutations.spoil_bytes,
)


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[bytes]]:
    """The sample's folder, and its records as lines."""
    out = tmp_path_factory.mktemp("fuzz")
    generate(out, Sample(hours=1, events=150, seed=2))
    lines = [line for path in out.rglob("part-*") for line in gzip.decompress(path.read_bytes()).splitlines()]
    return out, sorted(lines)


@pytest.fixture(scope="module")
def spoilt(messages: tuple[Path, list[bytes]]) -> list[list[bytes]]:
    lines = mutations.lines(messages[1], NUMBER, random.Random(11), SPOIL)
    return [lines[i::OBJECTS] for i in range(OBJECTS)]


@pytest.fixture(scope="module")
def decoded(spark: SparkSession, messages: tuple[Path, list[bytes]], spoilt: list[list[bytes]]) -> list[Row]:
    feed_file = messages[0] / "feeds" / "store.yaml"
    kinds = {kind for table in load_feed(feed_file).tables.values() for kind in _types(table.columns)}
    return mutations.decode_objects(spark, feed_file, spoilt, kinds | _types(EVERY_TYPE))


EVERY_TYPE = {
    "a": "numeric(12,4)", "b": "numeric", "c": "bytea", "d": "date", "e": "timestamp(3)", "f": "timestamp", "g": "time",
    "h": "time(3)", "i": "real", "j": "double precision", "k": "integer", "l": "boolean", "m": "text[]",
    "n": "numeric(50,3)", "o": "bit(12)", "p": "varbit", "q": "numeric(12,4)[]", "r": "timestamp[]", "s": "point",
}  # fmt: skip


def _types(columns: dict[str, str]) -> set[ColumnType]:
    precise = debezium.column_types(columns, debezium.Options())
    return {*precise.values(), *debezium.column_types(columns, debezium.Options(decimals="string")).values()}


def test_every_record_is_there_and_whole(decoded: list[Row], spoilt: list[list[bytes]]) -> None:
    assert sum(map(len, spoilt)) == NUMBER
    found = {(int(row.object[-1]), row.record): row for row in decoded if row.entry == 0}
    assert len(found) == len(decoded)
    landed = {(i, number): line for i, lines in enumerate(spoilt) for number, line in enumerate(lines, 1)}
    assert found.keys() == landed.keys()
    # The bytes of a change of a table that the feed knows are not carried on: nobody can ask for them any more.
    carried = {record: bytes(row.raw) for record, row in found.items() if row.raw is not None}
    assert carried == {record: landed[record] for record in carried}
    assert {record for record, row in found.items() if row.op == "bad"} <= carried.keys()


def test_a_bad_record_has_a_problem_and_a_row_has_a_position(decoded: list[Row]) -> None:
    for row in decoded:
        assert (row.op == "bad") == bool(row.problem)
        assert row.op in ("bad", "control") or row.position
    ops = Counter(row.op for row in decoded)
    assert ops["bad"] > NUMBER / 10, "nothing was spoilt"
    assert min(ops[op] for op in ("insert", "update", "delete", "truncate", "control")) > 10, "all was spoilt"
    assert len({row.problem.split(":")[0] for row in decoded if row.problem}) >= 10


def test_spoilt_message_schemas_give_types_or_nothing(messages: tuple[Path, list[bytes]]) -> None:
    values = [json.loads(line)["value"] for line in messages[1] if "depot.stock" in line.decode()[:60]]
    schemas = sorted({json.dumps(json.loads(value)["schema"]) for value in values if value})
    assert schemas
    pick = random.Random(3)
    for _ in range(10_000):
        spoilt = pick.choice((mutations.spoil_json, mutations.spoil_json, mutations.spoil_bytes))(
            pick.choice(schemas).encode(), pick
        )
        for name, kind in debezium.message_types(spoilt.decode("utf-8", "replace"), debezium.Options()).items():
            assert isinstance(name, str)
            if match := re.search(r"decimal\((\d+),(\d+)\)", kind.spark):
                assert 1 <= int(match[1]) <= 38 and 0 <= int(match[2]) <= int(match[1])
            else:
                assert re.fullmatch(r"[a-z_<>0-9(),:]+", kind.spark)
            assert kind.encoding in ENCODINGS
