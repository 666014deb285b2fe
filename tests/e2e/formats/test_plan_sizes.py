"""How long the plans of an hour are: exact, where times are not. What a plan names thirty times Spark works out thirty times,
and takes as long to plan: so was the screen of a table with a renamed column, of three million characters."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidemark.feeds.loading import load_feed
from tidemark.ledger import manifest
from tidemark.pipeline.hour import run_hour
from tidemark.settings import Settings
from tidemark_samples import load_sample
from tidemark_samples.exporting import Sample

#: Characters of the longest plan.
LONGEST = 125_000


@pytest.mark.parametrize("name", ["canal", pytest.param("dataworks", marks=pytest.mark.full)])
def test_no_plan_of_a_large_hour_repeats_what_a_change_is_made_of(
    spark: SparkSession, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The samples rename columns (Canal), and have transactions that only the markers of all hours name (DataWorks). Both are
    worked out for each change, before it is judged."""
    monkeypatch.setattr(manifest, "_SMALL", 0)  # what a small hour is made of is held in memory
    sample = Sample(hours=1, events=100, seed=7)
    load_sample(name).generate(tmp_path, sample)
    (file,) = (tmp_path / "feeds").glob("*.yaml")
    before = set(plans(spark))
    run_hour(load_feed(file), sample.names[0], settings.model_copy(update={"exports": str(tmp_path / "exports")}))
    made = {number: plan for number, plan in plans(spark).items() if number not in before}
    assert len(made) > 20, "the plans of the hour are seen"
    assert max(map(len, made.values())) < LONGEST, {number: len(plan) for number, plan in made.items()}


def plans(spark: SparkSession) -> dict[int, str]:
    """By number of their execution, the physical plans that the session has run."""
    store = spark._jsparkSession.sharedState().statusStore()
    assert spark._jvm is not None
    executions = spark._jvm.scala.jdk.javaapi.CollectionConverters.asJava(store.executionsList())
    return {one.executionId(): one.physicalPlanDescription() for one in executions}
