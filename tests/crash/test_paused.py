"""A run that stands still before one of its writes, while another takes its lock over and goes on with the feed: an hour
later it wakes up, and does that write. Each write of an hour in turn; which there are, a run of the hour tells.

The other run has a session of Spark of its own, and is of the same process: what it must not share is set apart here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from tests.crash.effects import effects
from tests.crash.installation import FEED, own_session, settings_of, shown
from tests.e2e.debezium_messages import DEBEZIUM, event
from tidemark.errors import TidemarkError
from tidemark.feeds.loading import find_feed
from tidemark.feeds.model import Feed
from tidemark.hours import Hour
from tidemark.ledger import state_store
from tidemark.ledger.feed_state import hours_from
from tidemark.ledger.publication_history import load_history
from tidemark.ledger.state_store import load_state
from tidemark.operations.audit import audit
from tidemark.pipeline import hour as stages
from tidemark.pipeline.hour import run_hour
from tidemark.settings import Settings
from tidemark.storage.feed_lock import FeedLock

pytestmark = pytest.mark.promise(1, 5, 6)

TABLES = ("payroll.employee", "payroll.payslip")
FIRST = Hour("2026-11-20T00")
#: Two writes for which all others stand in the first tier: past the point of no return, and of a table's columns.
SOME = ("publish payroll.payslip", "add columns payroll.employee")


def make_exports(folder: Path, hours: int) -> None:
    """Hours with all that an hour writes: new rows, changes of older ones, a delete, a column that was not there before, a
    record that cannot be decoded."""
    for number in range(hours):
        hour, at = FIRST.plus(number), number * 100
        topic = folder / f"exports/t/dt={hour.date}/hr={hour.clock}"
        topic.mkdir(parents=True)
        events = []
        for table in ("employee", "payslip"):
            new = {"id": number, "n": number, f"c{number}": "x"}
            events += [event("c", at + 1, new, table=table), event("u", at + 2, {"id": 0, "n": number}, table=table)]
            if number > 1:
                events.append(event("d", at + 3, None, key={"id": number - 1}, table=table))
        lines = [json.dumps(one) for one in events]
        (topic / "part.jsonl").write_text("\n".join([*lines, '{"topic": "t", "value": "{"}']) + "\n")
    feed = {
        "feed": FEED, "description": "d", "owner": "o", "topics": ["t"], **DEBEZIUM, "container": {"type": "kafka_json"},
        "exports": {"path": "{topic}/dt={date}/hr={hour}/*", "marker": None, "settle": "0s", "missing": "empty"},
        "quarantine": {"limit": 0.5}, "tables": {f"s.{name.split('.')[1]}": {"name": name} for name in TABLES},
    }  # fmt: skip
    (folder / "feeds").mkdir()
    (folder / "feeds" / f"{FEED}.yaml").write_text(yaml.safe_dump(feed))


@contextmanager
def taken_over(spark: SparkSession) -> Iterator[None]:
    """What runs here is another process, which believes that the one before it has died."""

    @contextmanager
    def free(*_: Any) -> Iterator[FeedLock]:
        yield FeedLock()

    with pytest.MonkeyPatch.context() as patch, own_session(spark):
        patch.setattr(stages, "feed_lock", free)
        patch.setattr(state_store, "_RUN", "another")
        yield


def paused(
    spark: SparkSession, feed: Feed, hour: Hour, settings: Settings, at: int | str, other: Hour | None
) -> list[str]:
    """Run an hour, and in the middle of it another run, of the hour ``other``: before the write of this number, or name.
    The names of the writes."""
    seen: list[str] = []

    def around(name: str, do: Callable[[], Any]) -> Any:
        seen.append(name)
        if other is not None and at in (len(seen) - 1, name) and not woken:
            woken.append(name)
            with taken_over(spark):
                run_hour(feed, other, settings)
        return do()

    woken: list[str] = []
    with own_session(spark), effects(around):
        try:
            run_hour(feed, hour, settings)
        except TidemarkError as error:
            assert woken, error
    assert bool(woken) == (other is not None)
    return seen


def held(settings: Settings, table: str, at: Hour | None) -> list[dict[str, Any]]:
    """What a table holds, now or at a cut. Of values alone: the cut of an hour that came late also has the columns that are
    younger than it."""
    rows = (json.loads(line) for line in shown(settings, table, at))
    return sorted(({name: value for name, value in row.items() if value is not None} for row in rows), key=str)


def wanted(number: int) -> list[dict[str, Any]]:
    """What each table holds after so many hours and the first, by what :func:`make_exports` writes."""
    rows = [{"id": "0", "n": str(number)}]
    if number:
        rows.append({"id": str(number), "n": str(number), f"c{number}": "x"})
    return sorted(rows, key=str)


@dataclass(frozen=True)
class Tried:
    """An installation whose first two hours are published, the names of the writes of the second, and its exports."""

    folder: Path
    settings: Settings
    feed: Feed
    writes: list[str]


@pytest.fixture(scope="module")
def tried(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Tried:
    folder = tmp_path_factory.mktemp("paused")
    make_exports(folder, 120)
    settings = settings_of(folder, "tried")
    feed = find_feed(FEED, settings)
    for number in range(2):
        writes = paused(spark, feed, FIRST.plus(number), settings, at=-1, other=None)
    return Tried(folder, settings, feed, writes)


@pytest.mark.parametrize("step", [1, 2], ids=["the same hour", "another hour"])
def test_what_a_run_writes_that_was_overtaken_counts_for_nobody(spark: SparkSession, tried: Tried, step: int) -> None:
    newest = load_state(tried.settings, FEED).newest_hour
    assert newest is not None
    before, hour, other, stop = hours_from(FIRST, newest), newest.plus(1), newest.plus(step), SOME[step - 1]
    assert stop in tried.writes, tried.writes
    paused(spark, tried.feed, hour, tried.settings, stop, other)
    last = hours_from(FIRST, other)
    want = wanted(last)
    if step > 1:  # the hour itself, which deletes that row, is not published
        want = sorted([*want, *wanted(before)[1:]], key=str)
    for table in TABLES:
        assert held(tried.settings, table, None) == want
    receipts = [receipt.hour for receipt in load_history(tried.settings, FEED).receipts]
    assert (receipts.count(other), receipts[-1]) == (1, other)


@pytest.mark.full
@pytest.mark.parametrize("step", [1, 2], ids=["the same hour", "another hour"])
@pytest.mark.parametrize("half", [0, 1], ids=["even", "odd"])  # for two processes, each with every other write
def test_before_each_of_its_writes(spark: SparkSession, tried: Tried, step: int, half: int) -> None:
    """Hours of which each is paused before another write, while a run of the same hour, or of the next one, goes on;
    against what their exports say, and the audit. Cuts are amended: one that is kept shows what was known of its hour when
    it was published, and the next one may come first."""
    feed = tried.feed.model_copy(update={"cuts": "amend"})
    settings = settings_of(tried.folder, f"all_{step}_{half}")
    with own_session(spark):
        run_hour(feed, FIRST, settings)
    last = 0
    for number in range(half, len(tried.writes), 2):
        hour = FIRST.plus(last + 1)
        paused(spark, feed, hour, settings, number, hour.plus(step - 1))
        with own_session(spark):
            run_hour(feed, hour, settings)
        last += step
        assert not load_state(settings, FEED).next, (hour, tried.writes[number])
    for table in TABLES:
        assert held(settings, table, None) == wanted(last), table
        for number in range(last + 1):
            assert held(settings, table, FIRST.plus(number)) == wanted(number), (table, number)
    with own_session(spark):
        assert [str(finding) for finding in audit(feed, settings).findings] == []
