"""How long the plans of a large hour are, and how its log lies: exact, where times are not. What a plan names thirty times
Spark works out thirty times, and takes as long to plan: so was the screen of a table with a renamed column, of three million
characters."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import pytest
from pyarrow import parquet as pq
from pyspark.sql import SparkSession

from tidemark.feeds.loading import load_feed
from tidemark.lake.catalog import find_table
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
    before = set(plans(spark))
    run_large_hour(name, settings, tmp_path, monkeypatch)
    made = {number: plan for number, plan in plans(spark).items() if number not in before}
    assert len(made) > 20, "the plans of the hour are seen"
    assert max(map(len, made.values())) < LONGEST, {number: len(plan) for number, plan in made.items()}


@pytest.mark.full
def test_a_large_hour_is_logged_table_by_table(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each table is folded by itself: it would read all others' changes, too, as often as there are tables."""
    feed = run_large_hour("canal", settings, tmp_path, monkeypatch)
    log = find_table(settings, "tidemark", feed, "changes")
    assert log is not None and int(log.properties["write.parquet.row-group-size-bytes"]) < 16 << 20
    for file in log.scan().plan_files():
        tables = pq.read_table(file.file.file_path.removeprefix("file:"), columns=["table"])["table"].to_pylist()
        assert len([table for table, _ in groupby(tables)]) == len(set(tables)) > 3, tables


def run_large_hour(name: str, settings: Settings, out: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run an hour of a sample as if it were large; the feed's name."""
    monkeypatch.setattr(manifest, "_SMALL", 0)  # what a small hour is made of is held in memory
    sample = Sample(hours=1, events=100, seed=7)
    load_sample(name).generate(out, sample)
    (file,) = (out / "feeds").glob("*.yaml")
    feed = load_feed(file)
    run_hour(feed, sample.names[0], settings.model_copy(update={"exports": str(out / "exports")}))
    return feed.feed


def plans(spark: SparkSession) -> dict[int, str]:
    """By number of their execution, the physical plans that the session has run."""
    store = spark._jsparkSession.sharedState().statusStore()
    assert spark._jvm is not None
    executions = spark._jvm.scala.jdk.javaapi.CollectionConverters.asJava(store.executionsList())
    return {one.executionId(): one.physicalPlanDescription() for one in executions}
