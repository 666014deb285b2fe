"""Backfills of two feeds at once, by Airflow's command line and a real scheduler: an hour in the middle fails, workers
die with all they had started, and what failed is run again after it was fixed."""

from __future__ import annotations

import gzip
import json
import os
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import yaml

from tests.postgres import postgres
from tests.scheduler.stack import STAGES, Stack, kill, kill_alone, retry
from tidemark.hours import Hour, hours_between
from tidemark.ledger.publication_history import load_history
from tidemark.operations.read_table import json_lines, read_snapshot
from tidemark_samples import canal, ibm
from tidemark_samples.exporting import Sample

pytestmark = [pytest.mark.full, pytest.mark.promise(6)]

#: The feeds, and the schemas that each publishes into.
FEEDS = {"payroll": ("payroll", "hr"), "inventory": ("inventory", "inventory_log")}
FIRST = "2026-11-20T00"
LONG = int(os.environ.get("TIDEMARK_BACKFILL_HOURS", "48"))
#: Seconds an hour of a feed may take on a busy machine.
AN_HOUR = 90


@pytest.fixture
def stack(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stack]:
    """An Airflow whose own database is SQLite, as on a laptop, or PostgreSQL."""
    with ExitStack() as ending:
        server = ending.enter_context(postgres("airflow")) if request.param == "postgresql" else None
        made = Stack(tmp_path, server.url("airflow") if server else "")
        ending.callback(made.stop)
        yield made


@pytest.mark.parametrize(
    ("stack", "hours", "deaths"),
    [
        ("sqlite", 3, ["fold"]),
        # most hours follow the one before, and then the job that decodes them does all the rest
        pytest.param("sqlite", LONG, ["decode"] * max(1, LONG // 6), marks=pytest.mark.long, id=f"sqlite-{LONG}"),
        pytest.param("postgresql", 3, STAGES, marks=pytest.mark.long),
    ],
    indirect=["stack"],
)
@pytest.mark.timeout(2 * LONG * AN_HOUR)
def test_backfills_with_a_failing_hour_come_to_the_truth_once_it_is_fixed(
    stack: Stack, hours: int, deaths: Sequence[str]
) -> None:
    names = hours_between(FIRST, Hour.parse(FIRST).plus(hours - 1))
    broken = names[hours // 2]
    for generator in (ibm, canal):
        generator.generate(stack.folder, Sample(hours=hours, events=30, seed=4, container="kafka_json"))
    fix = spoil(stack.folder, broken)
    stack.start()
    with workers_die(stack, deaths) as died:
        for feed in FEEDS:
            stack.backfill(feed, names, "--reprocess-behavior", "none", "--max-active-runs", "2")
        wait_for(stack, hours)
    assert [stage for stage, _, _ in died] == list(deaths)

    before = {feed: stack.runs(feed) for feed in FEEDS}
    for feed, failing in zip(FEEDS, ("land", "validate_publish"), strict=True):
        states = {hour: run["state"] for hour, run in before[feed].items()}
        assert states == {hour: "failed" if hour == broken else "success" for hour in names}, died
        failed = stack.tasks(feed, before[feed][broken])[failing]
        assert (failed["state"], failed["try_number"]) == ("failed", 1)  # no retry fixes an export
        assert load_history(stack.settings, feed).hours == [hour for hour in names if hour != broken]

    fix()
    for feed in FEEDS:
        stack.backfill(feed, names, "--reprocess-behavior", "failed", "--max-active-runs", "2")
    wait_for(stack, hours)
    for feed in FEEDS:
        runs = stack.runs(feed)
        assert {hour: run["state"] for hour, run in runs.items()} == dict.fromkeys(names, "success")
        again = {hour for hour, run in runs.items() if run["start_date"] != before[feed][hour]["start_date"]}
        assert again == {broken}
        assert_receipts(stack, feed, names)
        assert_tables(stack, feed, names)


def spoil(folder: Path, hour: Hour) -> Callable[[], None]:
    """Make the hour fail: payroll's export is cut off, inventory's holds more garbage than its feed allows. Returns
    what fixes it: the export as it should be, and a feed file that allows for the garbage."""
    place = f"dt={hour.date}/hr={hour.clock}"
    payroll = next(folder.glob(f"exports/db2.payroll/{place}/part-*"))
    inventory = next(part for part in sorted(folder.glob(f"exports/*/{place}/part-*")) if part != payroll)
    file = folder / "feeds/inventory.yaml"
    whole = payroll.read_bytes()
    payroll.write_bytes(whole[: len(whole) // 2])
    inventory.write_bytes(inventory.read_bytes() + gzip.compress(b"{\n" * 30))

    def fix() -> None:
        payroll.write_bytes(whole)
        file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | {"quarantine": {"at_least": 30}}))

    return fix


@contextmanager
def workers_die(stack: Stack, deaths: Sequence[str]) -> Iterator[list[tuple[str, str, str]]]:
    """Meanwhile a worker is killed in each of these stages, of one feed after the other: with the Spark driver it waits
    for or, every second time, alone, so that nobody waits for the driver any more. (stage, feed, hour) of each."""
    died: list[tuple[str, str, str]] = []
    ended, chance = threading.Event(), random.Random(1)

    def watch() -> None:
        while len(died) < len(deaths) and not ended.wait(0.2):
            stage, feed = deaths[len(died)], tuple(FEEDS)[len(died) % 2]
            if found := stack.worker_of(stage, feed):
                ended.wait(chance.uniform(0, 6))  # a driver takes a few seconds to start and a few to work
                (kill if len(died) % 2 == 0 else kill_alone)(found[0])
                died.append((stage, feed, found[1]))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield died
    finally:
        ended.set()
        watcher.join()


def wait_for(stack: Stack, hours: int) -> None:
    """Until every run has ended and Airflow takes both backfills for completed."""

    def ended() -> bool:
        backfills = [one for feed in FEEDS for one in stack.call(f"backfills?dag_id=ingest_{feed}")["backfills"]]
        states = [run["state"] for feed in FEEDS for run in stack.runs(feed).values()]
        over = states.count("success") + states.count("failed")
        return over == len(FEEDS) * hours and all(one["completed_at"] for one in backfills)

    retry(ended, 120 + len(FEEDS) * hours * AN_HOUR, "the backfills have not ended")


def assert_receipts(stack: Stack, feed: str, names: list[str]) -> None:
    """One receipt an hour, and every record of the export in one of them."""
    receipts = load_history(stack.settings, feed).receipts
    assert sorted(receipt.hour for receipt in receipts) == names
    sequences = [receipt.sequence for receipt in receipts]
    assert sequences == sorted({*sequences}), "attempts that failed have numbers of their own"
    topics = yaml.safe_load((stack.folder / f"feeds/{feed}.yaml").read_text())["topics"]
    for receipt in receipts:
        receipt.balance()
        place = f"dt={receipt.hour.date}/hr={receipt.hour.clock}"
        parts = [part for topic in topics for part in stack.folder.glob(f"exports/{topic}/{place}/part-*")]
        assert receipt.landed == sum(len(gzip.decompress(part.read_bytes()).splitlines()) for part in parts)


def assert_tables(stack: Stack, feed: str, names: list[str]) -> None:
    """The truth of the last hour, in whatever order the hours were published; and the truth of an hour at its cut, if
    all hours before it were published by then and none after it."""
    published = [receipt.hour for receipt in load_history(stack.settings, feed).receipts]
    in_order = [hour for number, hour in enumerate(names, 1) if sorted(published[:number]) == names[:number]]
    cuts = [(hour, hour) for hour in in_order if hour == published[names.index(hour)]]
    for cut, hour in [*cuts, (None, names[-1])]:
        truths = [
            truth for truth in (stack.folder / "truth" / hour).iterdir() if truth.stem.split(".")[0] in FEEDS[feed]
        ]
        assert truths
        for truth in truths:
            rows, key = read_snapshot(stack.settings, truth.stem, cut)
            got, want = list(json_lines(rows, key)), truth.read_text().splitlines()
            if not key:  # copies of rows, in no order
                got, want = sorted(got), sorted(want)
            same = [json.loads(line) for line in got] == [json.loads(line) for line in want]
            assert same, f"{truth.stem} at {cut or 'the end'}"
