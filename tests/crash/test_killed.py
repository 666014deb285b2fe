"""``kill -9`` of Python and JVM at any moment; then the same command again. ``make crashes KILLS=200`` kills more often."""

from __future__ import annotations

import os
import random
import re
from typing import Any

import pytest

from tests.crash import installation
from tests.crash.installation import FEED, HOURS, TABLES, Undisturbed, assert_same, settings_of, shown, state
from tidemark.ledger.publication_history import load_history
from tidemark.settings import Settings

pytestmark = pytest.mark.promise(6)

KILLS = int(os.environ.get("TIDEMARK_KILLS", "50"))
#: Kills that one lake goes through before it is compared. A kill costs a start of Spark, a comparison two.
ON_ONE_LAKE = 10

#: Where `make test` kills a run: the hour, the effect, and before or after it. One table is published, another is not.
HALF_PUBLISHED = (0, "fast_forward payroll.payslip", "before")
#: Where `make test-full` does, in the order it gets there.
BOUNDARIES = [
    (0, "write_new landing/.*", "after"),  # landed
    (0, "overwrite lake.tidemark.payroll.changes", "after"),  # decoded
    (0, "append lake.payroll.payslip.branch_.*", "after"),  # a table is compacted, another is not
    (1, "write_text _pending/payroll.json", "before"),  # branches and rows without a pending publication
    (1, "overwrite lake.tidemark.payroll.quarantine", "after"),  # checked, and nobody knows
    (2, "write_text _pending/payroll.json validated", "after"),  # the point of no return
    (2, "write_text snapshots/hr.position/_cuts/.*", "after"),  # a cut, and not yet the newest
    (2, "append lake.tidemark.receipts", "before"),  # all is published but for the receipt
    (3, "append lake.tidemark.receipts", "after"),  # nobody heard that it went well
]


def test_killed_between_two_tables(one_hour: Undisturbed) -> None:
    killed_at(one_hour, [HALF_PUBLISHED])


@pytest.mark.full
def test_killed_at_the_boundaries_of_stages(undisturbed: Undisturbed) -> None:
    killed_at(undisturbed, BOUNDARIES)


def killed_at(undisturbed: Undisturbed, boundaries: list[tuple[int, str, str]]) -> None:
    deaths = []
    for hour, pattern, when in boundaries:
        at = [e for e in undisturbed.effects if re.fullmatch(f"{HOURS[hour]} (?:{pattern})", e)]
        assert at, f"no effect of {HOURS[hour]} is like {pattern}"
        deaths.append({"at": at[-1], "when": when})
    assert survived(undisturbed, f"boundaries_{len(deaths)}", deaths) == len(deaths)


@pytest.mark.long
@pytest.mark.timeout(120 * KILLS)
def test_killed_anywhere(undisturbed: Undisturbed) -> None:
    chance, kills, lakes = random.Random(KILLS), 0, 0
    while kills < KILLS:
        places = sorted(chance.sample(range(len(undisturbed.effects)), min(ON_ONE_LAKE, KILLS - kills)))
        deaths = [
            {"at": undisturbed.effects[i], "when": chance.choice(("before", "after", chance.uniform(0.0, 1.5)))}
            for i in places
        ]
        kills, lakes = kills + survived(undisturbed, f"lake{lakes}", deaths), lakes + 1
        assert lakes <= 2 * KILLS / ON_ONE_LAKE + 2, "too many runs ended before they could be killed"


def survived(undisturbed: Undisturbed, lake: str, deaths: list[dict[str, Any]]) -> int:
    """Runs that die, one after the other, each beginning where the one before it died; then one that does not.
    Compares what came of it; how many were killed."""
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
    return killed


def assert_readable(undisturbed: Undisturbed, settings: Settings, death: dict[str, Any]) -> None:
    """What half-done hours left is not seen: whole receipts, and tables as they are after one hour or another."""
    receipts = [r.model_dump(mode="json", exclude={"published_at"}) for r in load_history(settings, FEED).receipts]
    assert receipts == undisturbed.state["receipts"][: len(receipts)], death
    for table in TABLES:
        for receipt in receipts:
            cut = f"{table} at {receipt['hour']}"
            assert shown(settings, table, receipt["hour"]) == undisturbed.state[cut], (cut, death)
        possible = [[], *(tables[table] for tables in undisturbed.tables)]
        assert shown(settings, table, None) in possible, (table, death)
