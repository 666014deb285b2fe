"""The generator's exports, decoded and folded in plain Python, are the truth it wrote beside them."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from tests.unit.samples.truth import POISON, assert_same_rows, generated, truth_of
from tidemark.containers import raw
from tidemark.feeds.loading import load_feed
from tidemark.feeds.model import Feed
from tidemark.formats.ibm import decode as ibm
from tidemark_samples.exporting import Sample
from tidemark_samples.ibm import generate

HOURS = ["2026-11-20T22", "2026-11-20T23", "2026-11-21T00"]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generated(generate, tmp_path_factory, HOURS)


def _hour_of(path: str) -> str:
    day, hour = path.split("/dt=")[1].split("/")[:2]
    return f"{day}T{hour.removeprefix('hr=')}"


@pytest.fixture(scope="module")
def decoded(spark: SparkSession, sample: Path) -> list[Row]:
    feed = load_feed(sample / "feeds" / "payroll.yaml")
    objects = [str(path) for path in sorted(sample.rglob("*.del.gz"))]
    records = raw.read(spark, objects, feed.container_options)
    return _typed(ibm.decode(records, feed, feed.format_options), feed).collect()


def _typed(changes: DataFrame, feed: Feed) -> DataFrame:
    """`row`: the values of `after` in the table's types, as JSON."""
    row = F.lit(None)
    for name, table in feed.tables.items():
        types = ibm.column_types(table.columns, feed.format_options)
        encodings = {
            "plain": lambda text, spark, arg: text.try_cast(spark),
            "hex": lambda text, spark, arg: F.unhex(text),
        }
        values = []
        for column, type_ in types.items():
            encode = (encodings | ibm.ENCODINGS)[type_.encoding]
            value = encode(F.col("after")[column], type_.spark, type_.arg)
            values.append(_as_json(value, type_.spark).alias(column))
        row = F.when(
            F.col("source_table") == name, F.to_json(F.struct(*values), {"ignoreNullFields": "false"})
        ).otherwise(row)
    return changes.withColumn("row", row)


def _as_json(value: Column, spark: str) -> Column:
    if spark == "binary":
        return F.base64(value)
    if spark == "timestamp_ntz":  # to_json stops at milliseconds
        return F.replace(value.cast("string"), F.lit(" "), F.lit("T"))
    return value.cast("string") if spark.startswith("decimal") else value


def _state(rows: list[Row], hour: str) -> dict[str, dict[tuple[str, ...], dict[str, Any]]]:
    here = [row for row in rows if row.op != "bad" and _hour_of(row.object) <= hour]
    unique = {(row.position, row.source_table, json.dumps([row.op, row.after, row.before])): row for row in here}
    transactions = defaultdict(list)
    for row in unique.values():
        transactions[row.tx].append(row)
    whole = {
        tx
        for tx, changes in transactions.items()
        if any(c.tx_end for c in changes)
        and len({c.tx_part for c in changes if c.tx_part}) >= max(c.tx_ordinal or 0 for c in changes)
    }
    state: dict[str, dict[tuple[str, ...], dict[str, Any]]] = defaultdict(dict)
    for row in sorted((r for r in unique.values() if r.tx in whole), key=lambda r: r.position):
        table = state[row.source_table]
        stored = table.pop(tuple((row.prior_key or row.key).values()), {})
        if row.op != "delete":
            absent = {name: stored.get(name) for name in row.absent}
            table[tuple(row.key.values())] = json.loads(row.row) | absent
    return state


@pytest.mark.parametrize("hour", HOURS)
def test_folded_changes_are_the_truth(decoded: list[Row], sample: Path, hour: str) -> None:
    state = _state(decoded, hour)
    tables = [path.stem for path in (sample / "truth" / hour).glob("*.jsonl")]
    assert tables
    for table in tables:
        expected = truth_of(sample, hour, table)
        assert_same_rows(map(_comparable, state[table.upper()].values()), map(_comparable, expected))


def _comparable(row: dict[str, Any]) -> dict[str, Any]:
    """Timestamps without the zeros at the end of a fraction."""
    changed = row.get("CHANGED")
    return row | {"CHANGED": changed.rstrip("0").rstrip(".") if changed and "." in changed else changed}


def test_every_record_is_there_and_only_the_poisoned_are_bad(decoded: list[Row]) -> None:
    bad = [row for row in decoded if row.op == "bad"]
    assert len(bad) == POISON
    assert {_hour_of(row.object) for row in bad} == {HOURS[1]}
    assert sorted(row.problem.split(":")[0].split(" is ")[0] for row in bad) == [
        "a string", "a typographic quotation mark stands where the string delimiter \" belongs",
        "it does not begin with the header of a change-data record", "table HR.UNHEARD_OF",
    ]  # fmt: skip


def test_messages_of_a_transaction_lie_side_by_side(tmp_path: Path) -> None:
    """As Q Capture puts them: nothing else comes before its last one, numbered 0000. Also over the end of an hour."""
    generate(tmp_path, Sample(hours=3, events=400, seed=5, container="kafka_json", poison=POISON))
    objects = sorted(path for path in tmp_path.rglob("part-*") if path.is_file())
    values = [json.loads(line)["value"] for path in objects for line in _lines_of(path)]
    open_, seen, of_several = None, set(), 0
    for value in values:
        fields = value.split(",")
        message = (fields[8], fields[11]) if len(fields) > 11 else None
        if message is None or not message[1].isdigit() or (open_ is None and message in seen):
            assert open_ is None, f"{value[:80]} stands inside of {open_}"
            continue
        assert open_ in (None, message[0]), f"{message} stands inside of {open_}"
        seen.add(message)
        of_several += open_ is None and message[1] == "0001"
        open_ = None if message[1] == "0000" else message[0]
    assert of_several > 20, "few transactions are of several messages"


def _lines_of(path: Path) -> list[str]:
    return (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode().splitlines()


def test_the_sample_holds_what_it_promises(decoded: list[Row]) -> None:
    """Otherwise the comparison with the truth proves little."""
    good = [row for row in decoded if row.op != "bad"]
    assert {row.op for row in good} == {"insert", "update", "delete"}
    assert any(row.prior_key for row in good)
    assert {note.split(" column")[0] for row in good for note in row.notes} == {
        "hexadecimal of the source's bytes,",
        "character data not sent,",
    }
    of_part: dict[str, set[str]] = defaultdict(set)
    for row in good:
        of_part[row.tx].add(_hour_of(row.object))
    assert any(len(hours) > 1 for hours in of_part.values())
    assert len({len(row.tx) for row in good}) == 2
    assert len({row.tx.split("@")[0] for row in good}) < len({row.tx for row in good}), "no identifier comes again"
    assert len({row.position for row in good}) < len(good), "nothing is redelivered"
