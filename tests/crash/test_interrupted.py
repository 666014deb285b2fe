"""Runs that end before they are done, and then the same command again: ``kill -9`` of Python and JVM at any moment, writes
that fail or whose answer is lost, a full disk. All are compared with one run that nothing happened to, which is why they
stand in one file. ``make crashes KILLS=200`` kills more often."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.crash import installation
from tests.crash.effects import effects
from tests.crash.installation import (
    FEED,
    HOURS,
    TABLES,
    Undisturbed,
    assert_same,
    make_small_exports,
    own_session,
    settings_of,
    shown,
    state,
)
from tidemark.feeds.loading import find_feed
from tidemark.ledger.publication_history import load_history
from tidemark.operations.audit import audit
from tidemark.pipeline.hour import run_hour
from tidemark.settings import Settings

pytestmark = pytest.mark.promise(6)

OWN_MOUNTS = ("unshare", "--user", "--map-root-user", "--mount")

KILLS = int(os.environ.get("TIDEMARK_KILLS", "50"))
#: Kills that one lake goes through before it is compared. A kill costs a start of Spark, a comparison two.
ON_ONE_LAKE = 10

#: Where a run of one hour dies: the hour, the effect, and before or after it. One table is published, another is not.
HALF_PUBLISHED = (0, "publish payroll.payslip", "before")
#: Where `make test-full` does, in the order it gets there.
BOUNDARIES = [
    (0, "write_new landing/.*", "after"),  # landed
    (0, "overwrite lake.tidemark.payroll.changes", "after"),  # decoded
    (0, "append lake.payroll.payslip.branch_.*", "after"),  # a table is folded, another is not
    (1, "state staged", "before"),  # branches and rows that no state knows of
    (1, "overwrite lake.tidemark.payroll.quarantine", "after"),  # checked, and nobody knows
    (2, "state validated", "after"),  # the point of no return
    (2, "parquet parquet/payroll/hr.position", "after"),  # a copy that no document names
    (2, "state published", "before"),  # all tables are published, and no state knows
    (3, "state published", "after"),  # and no receipt
    (0, "overwrite lake.tidemark.receipts", "after"),  # the next run, from the first hour on, has written it
]


class Died(BaseException):
    """Stands for the death of the process: what handles errors does not handle it."""


def test_ended_between_two_tables(spark: SparkSession, tmp_path: Path) -> None:
    """As a kill ends it, but in the process of the test, where no Spark needs to start."""
    make_small_exports(tmp_path)
    number, where, _ = HALF_PUBLISHED
    hour = HOURS[number]

    def dies(name: str, do: Callable[[], Any]) -> Any:
        if name == where:
            raise Died
        return do()

    died, whole = settings_of(tmp_path, "died"), settings_of(tmp_path, "whole")
    feed = find_feed(FEED, died)
    with own_session(spark):
        with effects(dies), pytest.raises(Died):
            run_hour(feed, hour, died)
        assert shown(died, "payroll.employee", None) != [], "one table is published"
        assert shown(died, "payroll.payslip", None) == [], "another is not"
        assert load_history(died, FEED).receipts == []
        run_hour(feed, hour, died)
    with own_session(spark):
        run_hour(feed, hour, whole)
    of_died, of_whole = (state(settings, (hour,), TABLES[:2]) for settings in (died, whole))
    assert_same(of_died, of_whole, where)


@pytest.mark.full
def test_killed_between_two_tables(spark: SparkSession, one_hour: Undisturbed) -> None:
    killed_at(spark, one_hour, [HALF_PUBLISHED])


@pytest.mark.full
def test_killed_at_the_boundaries_of_stages(spark: SparkSession, undisturbed: Undisturbed) -> None:
    killed_at(spark, undisturbed, BOUNDARIES)


def killed_at(spark: SparkSession, undisturbed: Undisturbed, boundaries: list[tuple[int, str, str]]) -> None:
    deaths = []
    for hour, pattern, when in boundaries:
        at = [e for e in undisturbed.effects if re.fullmatch(f"{HOURS[hour]} (?:{pattern})", e)]
        assert at, f"no effect of {HOURS[hour]} is like {pattern}"
        deaths.append({"at": at[-1], "when": when})
    assert survived(spark, undisturbed, f"boundaries_{len(deaths)}", deaths) == len(deaths)


@pytest.mark.long
@pytest.mark.timeout(120 * KILLS)
@pytest.mark.parametrize("half", [0, 1])  # for two processes, each with every other effect
def test_killed_anywhere(spark: SparkSession, undisturbed: Undisturbed, half: int) -> None:
    """At every effect once, in an order of chance, before one comes again."""
    chance, wanted, kills, lakes = random.Random(half), KILLS // 2, 0, 0
    left: list[int] = []
    while kills < wanted:
        if len(left) < ON_ONE_LAKE:
            left += chance.sample(every := range(half, len(undisturbed.effects), 2), len(every))
        places = sorted(set(left[: min(ON_ONE_LAKE, wanted - kills)]))
        left = left[len(places) :]
        deaths = [
            {"at": undisturbed.effects[i], "when": chance.choice(("before", "after", chance.uniform(0.0, 1.5)))}
            for i in places
        ]
        kills += survived(spark, undisturbed, f"lake{half}{lakes}", deaths)
        lakes += 1
        # About half of them die: an effect that an earlier run has had need not happen again.
        assert lakes <= 4 * wanted / ON_ONE_LAKE + 2, "too many runs ended before they could be killed"


def survived(spark: SparkSession, undisturbed: Undisturbed, lake: str, deaths: list[dict[str, Any]]) -> int:
    """Runs that die, one after the other, each beginning where the one before it died; then one that does not.
    Compares what came of it, and audits it; how many were killed."""
    settings, killed = settings_of(undisturbed.folder, lake), 0
    for number, death in enumerate(deaths):
        trace = undisturbed.folder / f"{lake}.{number}.trace"
        done = installation.run(settings, undisturbed.hours, trace, death)
        assert done.returncode in (-9, 0), f"{death}: {done.stderr[-8000:]}"
        killed += done.returncode == -9
        assert_readable(undisturbed, settings, death)
    done = installation.run(settings, undisturbed.hours, undisturbed.folder / f"{lake}.trace")
    assert done.returncode == 0, done.stderr[-8000:]
    assert_same(state(settings, undisturbed.hours), undisturbed.state, deaths)
    with own_session(spark):
        assert [str(finding) for finding in audit(find_feed(FEED, settings), settings).findings] == [], deaths
    return killed


def assert_readable(undisturbed: Undisturbed, settings: Settings, death: dict[str, Any]) -> None:
    """What half-done hours left is not seen: whole receipts, and tables as they are after one hour or another."""
    receipts = installation.receipts(settings)
    assert receipts == undisturbed.state["receipts"][: len(receipts)], death
    for table in TABLES:
        for receipt in receipts:
            cut = f"{table} at {receipt['hour']}"
            assert shown(settings, table, receipt["hour"]) == undisturbed.state[cut], (cut, death)
        possible = [[], *(tables[table] for tables in undisturbed.tables)]
        assert shown(settings, table, None) in possible, (table, death)


@pytest.mark.full
@pytest.mark.parametrize(
    ("each", "when"),
    [
        (18, "after"),
        pytest.param(1, "after", marks=pytest.mark.long),
        pytest.param(1, "before", marks=pytest.mark.long),
    ],
)
@pytest.mark.timeout(3600)
def test_writes_that_fail_are_made_good(undisturbed: Undisturbed, tmp_path: Path, each: int, when: str) -> None:
    """Before a write is done, or after it was and only its answer is lost."""
    settings = settings_of(undisturbed.folder, f"failing_{each}_{when}")
    failures, result = tmp_path / "failures.json", tmp_path / "result.json"
    wanted = [{"at": effect, "when": when} for effect in undisturbed.effects[::each]]
    failures.write_text(json.dumps(wanted))
    command = [sys.executable, "-m", "tests.crash.failing_run", FEED, str(failures), str(result), *HOURS]
    done = installation.start(settings, command)
    assert done.returncode == 0, done.stderr[-8000:]
    happened = json.loads(result.read_text())
    # What an attempt had done its successor need not do again: some failures never happen.
    assert len(happened) >= 0.7 * len(wanted), [one for one in wanted if one not in happened]
    assert_same(state(settings), undisturbed.state, happened)


def may_mount() -> bool:
    """Whether this user may have a file system of its own (Linux, unless its administrator forbade it)."""
    return bool(shutil.which("unshare")) and subprocess.run([*OWN_MOUNTS, "true"], capture_output=True).returncode == 0


@pytest.mark.full
@pytest.mark.skipif(not may_mount(), reason="no user namespaces on this machine: a full disk needs a disk to fill")
def test_a_disk_that_is_full_again_and_again(undisturbed: Undisturbed, tmp_path: Path) -> None:
    """When an hour begins, and at other moments."""
    settings, result = settings_of(undisturbed.folder, "tiny"), tmp_path / "result.json"
    command = [*OWN_MOUNTS, sys.executable, "-m", "tests.crash.full_disk_run", FEED, str(result), *HOURS]
    done = installation.start(settings, command)
    assert done.returncode == 0, done.stderr[-8000:]
    outcome = json.loads(result.read_text())
    assert len(outcome["failures"]) >= 8, outcome["failures"]
    assert_same(outcome["state"], json.loads(json.dumps(undisturbed.state)), outcome["failures"])
