"""Hours of a feed whose tasks run between each other's, as they do in Airflow's pool when a task is tried again later."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidemark.feeds.loading import load_feed
from tidemark.feeds.model import Feed
from tidemark.hours import hours_between
from tidemark.ledger.publication_history import load_history
from tidemark.ledger.receipts import Receipt
from tidemark.ledger.state_store import load_state
from tidemark.ledger.system_tables import published_rows
from tidemark.operations.read_table import json_lines, read_snapshot
from tidemark.pipeline import hour as run
from tidemark.pipeline.land import land
from tidemark.settings import Settings
from tidemark.tables.published_table import PublishedTable
from tidemark_samples import ibm
from tidemark_samples.exporting import Sample

# The tests publish the hours of one feed, one after the other: in one process (see tests/conftest.py).
pytestmark = [pytest.mark.full, pytest.mark.promise(5, 6)]

HOURS = hours_between("2026-11-20T00", "2026-11-20T03")


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("interleaved")
    ibm.generate(out, Sample(hours=len(HOURS), events=60, seed=5, poison=1))
    return out


@pytest.fixture(scope="module")
def feed(sample: Path, spark: SparkSession, settings: Settings) -> Feed:
    """All hours landed and decoded."""
    feed = feed_of(sample, "interleaved")
    for hour in HOURS:
        land(feed, hour, settings)
        run.decode_stage(spark, feed, hour, settings)
    return feed


def feed_of(sample: Path, name: str) -> Feed:
    """The generated feed under a name and with tables of its own."""
    feed = load_feed(sample / "feeds" / "payroll.yaml")
    tables = {
        source: table.model_copy(update={"name": f"{name}.{source.split('.')[1].lower()}"})
        for source, table in feed.tables.items()
    }
    exports = feed.exports.model_copy(update={"path": f"{sample}/exports/{feed.exports.path}"})
    return feed.model_copy(update={"feed": name, "tables": tables, "exports": exports})


def assert_cut(sample: Path, feed: Feed, hour: str, settings: Settings, truth_of: str = "") -> None:
    for source, table in feed.tables.items():
        truth = (sample / "truth" / (truth_of or hour) / f"{source.lower()}.jsonl").read_text().splitlines()
        assert table.name
        rows, key = read_snapshot(settings, table.name, hour)
        assert [json.loads(line) for line in json_lines(rows, key)] == [json.loads(line) for line in truth], table.name


def test_an_hour_that_another_overtook_is_folded_again(
    spark: SparkSession, sample: Path, feed: Feed, settings: Settings
) -> None:
    first, second = HOURS[:2]
    run.fold_stage(spark, feed, first, settings)
    run.fold_stage(spark, feed, second, settings)
    receipts = [run.publish_stage(spark, feed, hour, settings) for hour in (first, second)]
    assert receipts[0].sequence < receipts[1].sequence
    assert_cut(sample, feed, first, settings)
    assert_cut(sample, feed, second, settings)


def test_a_publication_that_died_is_finished_before_the_next_hour(
    spark: SparkSession, sample: Path, feed: Feed, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    third, fourth = HOURS[2:]

    def dies(*_: object) -> Receipt:
        raise RuntimeError("the machine died")

    run.fold_stage(spark, feed, third, settings)
    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr(run, "publish", dies)
        run.publish_stage(spark, feed, third, settings)
    run.fold_stage(spark, feed, fourth, settings)
    assert load_history(settings, feed.feed).hours[-1] == third
    run.publish_stage(spark, feed, fourth, settings)
    assert_cut(sample, feed, third, settings)
    assert_cut(sample, feed, fourth, settings)


@pytest.mark.parametrize("dies_in", ["another hour's rows", "its own branches"])
def test_a_pending_publication_is_discarded_once_another_run_touches_it(
    spark: SparkSession, sample: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch, dies_in: str
) -> None:
    """Two runs, one of which dies: what the other one folded before is not there any more as it was."""
    first, second = HOURS[:2]
    feed = feed_of(sample, f"touched_{dies_in.split()[0]}".replace("'", ""))
    for hour in (first, second):
        land(feed, hour, settings)
        run.decode_stage(spark, feed, hour, settings)
    run.fold_stage(spark, feed, first, settings)

    def dies(*_: object) -> None:
        raise RuntimeError("the machine died")

    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        if dies_in == "its own branches":
            patch.setattr(PublishedTable, "_name_publication", dies)  # a new branch, as yet without the hour
            run.fold_stage(spark, feed, first, settings)
        else:
            patch.setattr("tidemark.pipeline.fold._stage_hour", dies)
            run.fold_stage(spark, feed, second, settings)
    run.publish_stage(spark, feed, first, settings)
    assert_cut(sample, feed, first, settings)
    published = load_state(settings, feed.feed)
    for name in ("tombstones", "quarantine"):
        hours = {row.hour for row in published_rows(spark, feed.feed, name, published).collect()}
        assert hours <= {first}, name
    run.publish_stage(spark, feed, second, settings)
    assert_cut(sample, feed, second, settings)


@pytest.mark.parametrize("before", ["fold", "publish"])
def test_what_lands_between_two_stages_is_part_of_the_hour(
    spark: SparkSession, settings: Settings, tmp_path: Path, before: str
) -> None:
    """Another run landed more of the hour and is behind this one. Only decoding shows how many records there are."""
    hour, later = HOURS[:2]
    ibm.generate(tmp_path, Sample(hours=2, events=60, seed=5))
    feed = feed_of(tmp_path, f"meanwhile_{before}")
    land(feed, hour, settings)
    run.decode_stage(spark, feed, hour, settings)
    if before == "publish":
        run.fold_stage(spark, feed, hour, settings)
    folder = tmp_path / "exports" / "db2.payroll" / f"dt={hour.date}"
    (folder / f"hr={later.clock}" / "part-00000.del.gz").rename(folder / f"hr={hour.clock}" / "part-00001.del.gz")
    manifest = land(feed, hour, settings)
    assert (manifest.version, [landed.records for landed in manifest.objects]) == (2, [None, None])
    if before == "fold":
        run.fold_stage(spark, feed, hour, settings)
    receipt = run.publish_stage(spark, feed, hour, settings)
    assert receipt.manifest_version == 2
    assert_cut(tmp_path, feed, hour, settings, truth_of=later)
    run.decode_stage(spark, feed, hour, settings)  # the other run gets the feed lock: nothing is left to do
    assert run.publish_stage(spark, feed, hour, settings).sequence == receipt.sequence


def test_every_row_of_a_system_table_is_of_its_own_hour(spark: SparkSession, feed: Feed, settings: Settings) -> None:
    hour_of = {receipt.sequence: receipt.hour for receipt in load_history(settings, feed.feed).receipts}
    rows = (
        published_rows(spark, feed.feed, "tombstones", load_state(settings, feed.feed))
        .select("sequence", "hour")
        .distinct()
        .collect()
    )
    assert rows
    assert [(row.sequence, row.hour) for row in rows if hour_of[row.sequence] != row.hour] == []
