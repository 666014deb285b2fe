"""Generated hours of a DataWorks feed come to the truth at every cut."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.e2e.generated import HOURS, differences, generated, run_all
from tidemark.books import load_published
from tidemark.lake import changes_table
from tidemark.samples import dataworks
from tidemark.settings import Settings


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, settings: Settings) -> Path:
    out = tmp_path_factory.mktemp("mall")
    run_all(generated(dataworks, out, events=70, seed=5, poison=2), settings)
    return out


@pytest.mark.parametrize("hour", HOURS)
def test_every_cut_is_the_truth(out: Path, settings: Settings, hour: str) -> None:
    assert differences(out, hour, settings) == {}


def test_what_waits_and_what_was_taken_back(out: Path, spark: SparkSession, settings: Settings) -> None:
    """The account tells one transaction that never ends, one that goes on behind the last hour, and one taken back."""
    receipts = {receipt.hour: receipt for receipt in load_published(settings, dataworks.FEED).receipts}
    assert [receipts[hour].held_transactions for hour in HOURS] == [1, 2, 2]
    log = spark.table(changes_table(dataworks.FEED))
    waits = {row.tx for row in log.where("tx like 'tx:over:%'").select("tx").distinct().collect()}
    assert waits == {"tx:over:2026-11-20T01", "tx:over:2026-11-20T03"}
    assert log.where(F.col("tx_rollback")).count() == 1
    assert sum(receipt.quarantined for receipt in receipts.values()) == 2


def test_the_order_of_hours_does_not_matter(
    spark: SparkSession, settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> None:
    out = tmp_path_factory.mktemp("mall_any")
    run_all(generated(dataworks, out, "mall_any", events=50, seed=8), settings, [HOURS[2], HOURS[0], HOURS[1]])
    assert differences(out, HOURS[2], settings, schema="mall_any", now=True) == {}
