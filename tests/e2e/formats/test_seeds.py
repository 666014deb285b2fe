"""For every format: generated hours of many seeds, out of all containers in turn, are the truth at every cut."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.contract.pairs import EXCUSED
from tests.e2e.generated import HOURS, findings, generated, run_all
from tidemark.containers import CONTAINERS
from tidemark.formats import FORMATS
from tidemark.settings import Settings
from tidemark_samples import load_sample

SEEDS = range(int(os.environ.get("TIDEMARK_SEEDS", "10")))


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("format_name", FORMATS)
def test_the_generated_truth_is_shown(
    spark: SparkSession, settings: Settings, tmp_path: Path, format_name: str, seed: int
) -> None:
    fitting = [name for name in CONTAINERS if (format_name, name) not in EXCUSED]
    container = fitting[seed % len(fitting)]
    schema = f"seed_{format_name}_{seed}"
    feed = generated(load_sample(format_name), tmp_path, schema, events=60, seed=100 + seed, container=container)
    run_all(feed, settings)
    found = {hour: findings(tmp_path, hour, settings, schema=schema) for hour in HOURS}
    assert found == {hour: {} for hour in HOURS}, f"{format_name} in {container}, seed {seed}"
