"""A disk that is full, when an hour begins and at other moments."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash import installation
from tests.crash.installation import FEED, HOURS, Undisturbed, assert_same, settings_of

pytestmark = [pytest.mark.full, pytest.mark.promise(6)]

OWN_MOUNTS = ("unshare", "--user", "--map-root-user", "--mount")


def may_mount() -> bool:
    """Whether this user may have a file system of its own (Linux, unless its administrator forbade it)."""
    return bool(shutil.which("unshare")) and subprocess.run([*OWN_MOUNTS, "true"], capture_output=True).returncode == 0


@pytest.mark.skipif(not may_mount(), reason="no user namespaces on this machine: a full disk needs a disk to fill")
def test_a_disk_that_is_full_again_and_again(undisturbed: Undisturbed, tmp_path: Path) -> None:
    settings, result = settings_of(undisturbed.folder, "tiny"), tmp_path / "result.json"
    command = [*OWN_MOUNTS, sys.executable, "-m", "tests.crash.full_disk_run", FEED, str(result), *HOURS]
    done = installation.start(settings, command)
    assert done.returncode == 0, done.stderr[-8000:]
    outcome = json.loads(result.read_text())
    assert len(outcome["failures"]) >= 8, outcome["failures"]
    assert_same(outcome["state"], json.loads(json.dumps(undisturbed.state)), outcome["failures"])
