"""Spoilt messages: none stops decoding, none is lost, and each that is refused says why."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from pyspark.sql import Row, SparkSession

from tests.unit.formats.spoilt_messages import messages_of, records_of, spoilt
from tidemark.feeds.loading import load_feed
from tidemark.formats import load_format
from tidemark_samples import load_sample
from tidemark_samples.exporting import Sample

COUNT = 12_000
ROWS = {"insert", "update", "delete", "truncate"}


@pytest.fixture(scope="module", params=["canal", "dataworks"])
def decoded(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    out, sample = tmp_path_factory.mktemp("fuzz"), load_sample(request.param)
    sample.generate(out, Sample(hours=3, events=120, seed=7, poison=4))
    values = spoilt(messages_of(out / "exports"), COUNT, seed=20261120)
    (out / "landed").mkdir()
    records = records_of(spark, out / "landed", sample.TOPIC, values)
    feed = load_feed(out / "feeds" / f"{sample.FEED}.yaml")
    return load_format(request.param).decode(records, feed, feed.format_options).collect()


def test_every_record_is_there(decoded: list[Row]) -> None:
    entries: dict[tuple[str, int], list[int]] = {}
    for row in decoded:
        entries.setdefault((row.object, row.record), []).append(row.entry)
    assert len(entries) == COUNT
    assert all(sorted(found) == list(range(len(found))) for found in entries.values())


def test_what_is_refused_says_why_and_is_whole(decoded: list[Row]) -> None:
    for row in decoded:
        assert (row.op == "bad") == bool(row.problem and row.problem.strip())
        if row.op == "bad":
            assert row.raw is not None


def test_what_is_not_refused_can_be_placed(decoded: list[Row]) -> None:
    placed = [row for row in decoded if row.op in ROWS | {"schema"}]
    # What is refused may know its place too: it holds the transaction there.
    assert len({len(row.position) for row in decoded if row.op in ROWS | {"schema", "bad"} and row.position}) == 1
    assert all(row.position for row in placed)
    assert all(row.source_table and "." in row.source_table for row in placed)
    for row in placed:
        if row.op in ("insert", "update"):
            assert row.after
            assert not set(row.absent or []) & set(row.after)
        if row.op == "delete":
            assert row.before
        if row.op == "schema":
            assert json.loads(row.message_schema)["text"].strip()
        assert row.key is None or all(name for name in row.key)


def test_the_spoilt_messages_are_of_every_kind(decoded: list[Row]) -> None:
    """Otherwise the tests above prove little."""
    ops = Counter(row.op for row in decoded)
    assert set(ops) == ROWS | {"schema", "control", "bad"}
    assert 0.2 < ops["bad"] / len(decoded) < 0.9
    assert len({row.problem.split(":")[0] for row in decoded if row.op == "bad"}) > 10
