"""Hours of a generated CRM, by Qlik Replicate, through all stages: every cut is the truth."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidemark.feeds import Feed, load_feed
from tidemark.receipts import Receipt
from tidemark.run import run_hour
from tidemark.samples import qlik
from tidemark.settings import Settings
from tidemark.show import json_lines, read_snapshot

HOURS = ("2026-11-20T00", "2026-11-20T01", "2026-11-20T02")
POISON = 3


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("qlik")
    qlik.generate(out, hours=len(HOURS), events=120, seed=4, poison=POISON)
    return out


@pytest.fixture(scope="module")
def feed(sample: Path) -> Feed:
    """The generated feed, with tables of names of their own."""
    feed = load_feed(sample / "feeds" / "crm.yaml")
    tables = {
        name: table.model_copy(update={"name": f"qlik_e2e.{name.split('.')[1]}"}) for name, table in feed.tables.items()
    }
    exports = feed.exports.model_copy(update={"path": f"{sample}/exports/{feed.exports.path}"})
    return feed.model_copy(update={"feed": "qlik_e2e", "tables": tables, "exports": exports})


@pytest.fixture(scope="module")
def receipts(spark: SparkSession, feed: Feed, settings: Settings) -> dict[str, Receipt]:
    return {hour: run_hour(feed, hour, settings) for hour in HOURS}


@pytest.mark.parametrize("hour", HOURS)
def test_every_cut_is_the_truth(
    receipts: dict[str, Receipt], sample: Path, feed: Feed, settings: Settings, hour: str
) -> None:
    for source, table in feed.tables.items():
        lines = (sample / "truth" / hour / f"{source.lower()}.jsonl").read_text("utf-8").splitlines()
        assert table.name and lines
        rows, key = read_snapshot(settings, table.name, hour)
        assert [json.loads(line) for line in json_lines(rows, key)] == [json.loads(line) for line in lines], table.name


def test_every_record_is_accounted_for(receipts: dict[str, Receipt]) -> None:
    for hour, receipt in receipts.items():
        counts = receipt.counts
        parts = counts.applied + counts.duplicate + counts.superseded + receipt.control + receipt.held
        assert receipt.landed == parts + receipt.quarantined, hour
        assert receipt.quarantined == (POISON if hour == HOURS[1] else 0)
        assert counts.duplicate, "messages came again"
        assert receipt.held_transactions == 1, "the last one of each hour ends in the next"
