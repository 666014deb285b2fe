"""Generated hours of two Debezium connectors in one feed, exported as Avro: at every cut the tables are the truth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidemark.feeds.loading import load_feed
from tidemark.feeds.model import Table
from tidemark.ledger.receipts import Receipt
from tidemark.operations.read_table import json_lines, read_snapshot
from tidemark.pipeline.hour import run_hour
from tidemark.settings import Settings
from tidemark_samples import debezium
from tidemark_samples.exporting import Sample

pytestmark = [pytest.mark.full, pytest.mark.promise(1, 3)]

HOURS = ("2026-11-20T00", "2026-11-20T01", "2026-11-20T02")
POISON = 5


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("store")
    debezium.generate(out, Sample(hours=len(HOURS), events=160, seed=4, poison=POISON, container="connect_avro"))
    return out


@pytest.fixture(scope="module")
def receipts(sample: Path, spark: SparkSession, settings: Settings) -> list[Receipt]:
    feed = load_feed(sample / "feeds" / "store.yaml")
    assert all(table.name is None for table in feed.tables.values())
    named = {table: Table(name=f"sampled_{table}") for table in debezium.TABLES["depot"]}
    tables = {table: had.model_copy(update={"name": f"sampled_{table}"}) for table, had in feed.tables.items()}
    exports = feed.exports.model_copy(update={"path": f"{sample}/exports/{feed.exports.path}"})
    feed = feed.model_copy(update={"feed": "sampled_store", "tables": named | tables, "exports": exports})
    return [run_hour(feed, hour, settings) for hour in HOURS]


def _lines(rows: list[dict[str, Any]]) -> list[str]:
    return [json.dumps(row, sort_keys=True, ensure_ascii=False) for row in rows]


@pytest.mark.parametrize("hour", HOURS)
def test_every_cut_is_the_truth(receipts: list[Receipt], sample: Path, settings: Settings, hour: str) -> None:
    for path in sorted((sample / "truth" / hour).glob("*.jsonl")):
        expected = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        assert expected, f"{path} holds no row: the sample proves nothing"
        rows, key = read_snapshot(settings, f"sampled_{path.stem}", hour)
        got = [json.loads(line) for line in json_lines(rows, key)]
        assert _lines(got) == _lines(expected), path.name


def test_every_message_is_accounted_for(receipts: list[Receipt]) -> None:
    for receipt in receipts:
        receipt.balance()
    assert [receipt.bad for receipt in receipts] == [0, POISON, 0]
    assert all(receipt.held for receipt in receipts), "every hour's end cuts a transaction"
    assert sum(table.counts.duplicate for receipt in receipts for table in receipt.tables) > 20
