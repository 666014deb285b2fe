"""Broken messages: whatever stands in a record, it is counted, and what cannot be read says why. One Spark job a format.

Mutations of good messages, seeded: cut, bytes changed, doubled, swapped or taken out, JSON values replaced by others.
"""

from __future__ import annotations

import copy
import gzip
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.unit.formats.qlik_messages import avro, avro_envelope, data_schema, feed, full_load, headers, metadata
from tidemark.containers import lines
from tidemark.containers.contract import RECORDS
from tidemark.feeds.loading import load_feed
from tidemark.feeds.model import Feed
from tidemark.formats.contract import SchemaEntry
from tidemark.formats.qlik import decode as qlik
from tidemark_samples.exporting import Sample
from tidemark_samples.qlik import generate

#: Mutated messages: some in the first tier, more in the second.
MUTATIONS = [2_000, pytest.param(10_000, marks=pytest.mark.full)]
STRANGE = (
    None, "", "x", 0, -1, 1.5, 10**40, True, [], {}, [1], {"a": None}, "F" * 70, "\x00", "NaN", "é" * 9, "9" * 35,
    "UPDATE", "2026-11-20T99:99:99", "0000-00-00 00:00:00", {"a": {"b": [{}]}},
)  # fmt: skip
ROWS = ("insert", "update", "delete", "truncate")


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    if isinstance(value, dict):
        found += [place for name in value for place in places(value[name], (*path, name))]
    return found


def in_json(message: Any, pick: random.Random) -> bytes:
    """A value replaced, taken out, or put under another name."""
    message = copy.deepcopy(message)
    path = pick.choice(places(message))
    parent = message
    for name in path[:-1]:
        parent = parent[name]
    value = parent.pop(path[-1])
    kind = pick.randrange(3)
    if kind == 0:
        parent[path[-1]] = pick.choice(STRANGE)
    elif kind == 1:
        parent[pick.choice(("data", "headers", "operation", "message", "lineage", "tableStructure", "table"))] = value
    return json.dumps(message, ensure_ascii=pick.random() < 0.5).encode()


def in_bytes(value: bytes, pick: random.Random) -> bytes:
    changed = bytearray(value)
    for _ in range(pick.randint(1, 4)):
        if not changed:
            break
        at, kind = pick.randrange(len(changed)), pick.randrange(5)
        if kind == 0:
            del changed[at:]
        elif kind == 1:
            changed[at] = pick.randrange(256)
        elif kind == 2:
            changed[at:at] = changed[at : at + pick.randrange(20)]
        elif kind == 3:
            del changed[at : at + pick.randrange(1, 9)]
        else:
            changed[at] ^= 1 << pick.randrange(8)
    return bytes(changed)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("fuzz")
    generate(out, Sample(hours=1, events=300, seed=8, container="lines"))
    return out


@pytest.fixture(scope="module", params=MUTATIONS)
def mutated(request: pytest.FixtureRequest, sample: Path) -> list[bytes]:
    good = [line for path in sorted(sample.rglob("*.gz")) for line in gzip.decompress(path.read_bytes()).splitlines()]
    parsed = [json.loads(line) for line in good]
    pick = random.Random(20)
    made = [in_json(pick.choice(parsed), pick) for _ in range(request.param // 2)]
    made += [in_bytes(pick.choice(good), pick) for _ in range(request.param // 2)]
    return [value.replace(b"\n", b" ") for value in made]


def judge(decoded: DataFrame, of: Feed, records: Counter[tuple[str, int]]) -> Counter[str]:
    """Counts by op, when every record is there and every row is what the contract says; then binds them."""
    kept = decoded.localCheckpoint()
    unknown = ~F.col("op").isin(*ROWS, "schema", "control", "bad")
    odd = kept.where(
        unknown
        | ((F.col("op") == "bad") != F.coalesce(F.length("problem") > 0, F.lit(False)))
        | (F.col("op").isin(*ROWS, "schema") & (F.col("position").isNull() | F.col("source_table").isNull()))
        | (F.length("position") != 35)
        | ((F.col("op") == "schema") & F.col("message_schema").isNull())
        | (F.col("op").isin(*ROWS) & F.col("unbound").isNull())
        | (F.col("tx").isNotNull() & (F.col("tx_part").isNull() | F.col("tx_end").isNull()))
    )
    assert odd.collect() == []
    rows = kept.select("object", "record", "op", "source_table", "position", "message_schema").collect()
    assert Counter((row["object"], row["record"]) for row in rows) == records
    schemas = [SchemaEntry(r.source_table, r.position, r.message_schema) for r in rows if r.op == "schema"]
    for schema in schemas:
        try:
            qlik.table_change(schema.text, of.format_options)
        except ValueError as error:
            assert str(error), "for a person"
    bound = qlik.bind(kept.where(F.col("op").isin(*ROWS)), schemas, of, of.format_options)
    wrong = bound.where(F.col("problem").isNull() & (F.exists(F.map_values("key"), lambda value: value.isNull())))
    assert wrong.collect() == [], "a key without a value and without a problem"
    assert bound.where(F.col("problem") == "").collect() == []
    return Counter(row["op"] for row in rows)


def test_json(spark: SparkSession, sample: Path, mutated: list[bytes], tmp_path: Path) -> None:
    objects = []
    for number in range(4):
        path = tmp_path / f"part-{number}.jsonl"
        path.write_bytes(b"".join(value + b"\n" for value in mutated[number::4]))
        objects.append(str(path))
    of = load_feed(sample / "feeds" / "crm.yaml")
    counts = Counter({(path, i): 1 for n, path in enumerate(objects) for i in range(1, len(mutated[n::4]) + 1)})
    decoded = qlik.decode(lines.read(spark, objects, lines.Options()), of, of.format_options)
    ops = judge(decoded, of, counts)
    assert sum(ops.values()) == len(mutated)
    assert min(ops["bad"], ops["insert"], ops["update"], ops["delete"], ops["schema"]) > 10, ops


def test_avro(spark: SparkSession) -> None:
    columns = {"ID": "long", "NAME": "string"}
    schema = data_schema(columns)
    rows = [{"ID": i, "NAME": "n" * i} for i in range(70)]
    good = [
        json.dumps(metadata("CRM.T", {"ID": "INT8", "NAME": "STRING(9)"}, ["ID"], schema_id="S",
                            data_schema=json.dumps(schema))).encode()
    ]  # fmt: skip
    for row in rows:
        for sent in (headers(changeMask=b"\x02", columnMask=b"\x03"), full_load(), headers("DELETE")):
            body = avro(schema, {"data": row, "beforeData": row, "headers": sent})
            good += [body, avro_envelope(body, schema_id="S")]
    pick = random.Random(21)
    values = [good[0], *(in_bytes(pick.choice(good), pick) for _ in range(2000))]
    records = [("o", i, value, "accounts", 0, i, None, None, value, None, None) for i, value in enumerate(values, 1)]
    of = feed({"CRM.T": {"topic": "accounts"}}, messages="avro")
    decoded = qlik.decode(spark.createDataFrame(records, RECORDS), of, of.format_options)
    ops = judge(decoded, of, Counter({("o", i): 1 for i in range(1, len(values) + 1)}))
    assert min(ops["bad"], ops["insert"], ops["update"], ops["delete"]) > 10, ops
