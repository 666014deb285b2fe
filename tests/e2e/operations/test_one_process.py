"""The job that decodes an hour goes on to its end, where nothing forbids it."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.e2e.debezium_messages import HOURS, event, row
from tests.e2e.one_table_feed import OneTableFeed, rows
from tidemark.hours import Hour
from tidemark.ledger import feed_state, manifest
from tidemark.ledger.publication_history import load_history
from tidemark.ledger.reloads import name_reloads
from tidemark.ledger.state_store import load_state
from tidemark.pipeline import hour as stages
from tidemark.pipeline.land import land
from tidemark.settings import Settings
from tidemark.storage.feed_lock import feed_lock

CHECK = {"column": "n", "min": 0, "consequence": "stop"}


@pytest.mark.full
def test_an_hour_that_is_next_is_published_by_the_job_that_decodes_it(
    run: OneTableFeed, settings: Settings, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def published(hour: Hour, *events: object) -> bool:
        feed = run.export(hour, list(events), table={"checks": [CHECK]})
        land(feed, hour, settings)
        monkeypatch.setattr(stages, "find_feed", lambda *_: feed)
        stages.decode_and_go_on(spark, run.feed, hour, settings)
        return load_state(settings, run.feed).has(hour)

    first, second = event("c", 1, row(1, 1)), event("u", 2, row(1, 2))
    land(run.export(HOURS[0], [first], table={"checks": [CHECK]}), HOURS[0], settings)
    assert not published(HOURS[1], second), "an older hour has landed"
    assert published(HOURS[0], first)
    assert published(HOURS[1], second)
    assert rows(settings, run) == [row(1, 2)]
    good = event("u", 3, row(1, 3))
    with feed_lock(settings, run.feed):
        assert not published(HOURS[2], good), "another run is at work"
    monkeypatch.setattr(feed_state, "_FEW_ROWS", 0)
    with monkeypatch.context() as patched:
        patched.setattr(manifest, "_LARGE", 0)
        assert not published(HOURS[2], good), "large hours have their stages' tasks"
    assert not published(HOURS[3], event("u", 4, row(1, 4))), "an hour is missing before it"
    assert published(HOURS[2], good)
    assert not published(HOURS[4], event("u", 5, row(1, -1))), "its check stops it, in the stage's own task"
    assert rows(settings, run) == [row(1, 4)], "of the hour 3, which had landed"
    assert list(load_state(settings, run.feed).rows.values()) == [1], "three versions of one row"


@pytest.mark.full
def test_it_goes_on_with_the_hours_behind_it_that_have_landed(
    run: OneTableFeed, settings: Settings, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def landed(number: int, value: int) -> None:
        land(run.export(HOURS[number], [event("c", number + 1, row(number, value))]), HOURS[number], settings)

    def published_by_job_of(number: int, **feed: object) -> list[Hour]:
        monkeypatch.setattr(stages, "find_feed", lambda *_: run.definition(**feed))
        stages.decode_and_go_on(spark, run.feed, HOURS[number], settings)
        return [receipt.hour for receipt in load_history(settings, run.feed).receipts]

    checked = {"table": {"checks": [CHECK]}}
    for number in (2, 1, 0, 4, 5):
        landed(number, number)
    name_reloads(run.definition(), ["*"], HOURS[3], settings)
    assert published_by_job_of(0, **checked) == HOURS[:3], "of the hour 3 only a reload is named"
    landed(3, -1)
    assert published_by_job_of(3, **checked) == HOURS[:3], "its check stops it, and so all behind it"
    with monkeypatch.context() as patched:
        patched.setattr(stages, "MOST_IN_A_ROW", 1)
        assert published_by_job_of(3) == HOURS[:4]
    assert rows(settings, run) == [row(number, -1 if number == 3 else number) for number in range(4)]
    monkeypatch.setattr(feed_state, "_FEW_ROWS", 0)
    assert published_by_job_of(4) == HOURS[:5], "the hour 5 is not small any more, and not decoded"


@pytest.mark.full
@pytest.mark.promise(5)
def test_each_hour_is_published_by_the_feed_file_as_it_is_then(
    run: OneTableFeed, settings: Settings, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check is added while the job that decodes the first hour is at work."""
    checked = run.definition(table={"checks": [CHECK | {"consequence": "quarantine"}]})
    files = iter([run.definition(), run.definition(), checked, checked])
    monkeypatch.setattr(stages, "find_feed", lambda *_: next(files))
    for hour, value in ((HOURS[0], -1), (HOURS[1], -2)):
        land(run.export(hour, [event("c", 1 - value, row(-value, value))]), hour, settings)
    stages.decode_and_go_on(spark, run.feed, HOURS[0], settings)
    assert [receipt.quarantined for receipt in load_history(settings, run.feed).receipts] == [0, 1]
    assert rows(settings, run) == [row(1, -1)]
