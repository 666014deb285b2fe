"""Generated hours of a Canal feed come to the truth at every cut."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.e2e.generated import HOURS, differences, generated, run_all
from tidemark.books import load_published
from tidemark.samples import canal
from tidemark.settings import Settings


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, settings: Settings) -> Path:
    out = tmp_path_factory.mktemp("inventory")
    run_all(generated(canal, out, events=70, seed=5, poison=2), settings)
    return out


@pytest.mark.parametrize("hour", HOURS)
def test_every_cut_is_the_truth(out: Path, settings: Settings, hour: str) -> None:
    assert differences(out, hour, settings) == {}


def test_redelivered_messages_are_duplicates(out: Path, settings: Settings) -> None:
    receipts = load_published(settings, canal.FEED).receipts
    assert sum(receipt.counts.duplicate for receipt in receipts) > 0
    assert sum(receipt.quarantined for receipt in receipts) == 2


def test_the_order_of_hours_does_not_matter(
    spark: SparkSession, settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> None:
    out = tmp_path_factory.mktemp("inventory_any")
    run_all(generated(canal, out, "inventory_any", events=50, seed=8), settings, [HOURS[2], HOURS[0], HOURS[1]])
    assert differences(out, HOURS[2], settings, schema="inventory_any", now=True) == {}
