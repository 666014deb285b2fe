"""Every write of every hour fails: before it is done, or after it was and only its answer is lost. Then it is run again."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.crash import installation
from tests.crash.installation import FEED, HOURS, Undisturbed, assert_same, settings_of, state

pytestmark = [pytest.mark.full, pytest.mark.promise(6)]


@pytest.mark.parametrize(
    ("each", "when"),
    [(9, "after"), pytest.param(1, "after", marks=pytest.mark.long), pytest.param(1, "before", marks=pytest.mark.long)],
)
@pytest.mark.timeout(3600)
def test_writes_that_fail_are_made_good(undisturbed: Undisturbed, tmp_path: Path, each: int, when: str) -> None:
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
