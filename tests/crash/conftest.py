"""A run that nothing happens to: what every other must come to."""

from __future__ import annotations

import json

import pytest

from tests.crash import installation
from tests.crash.installation import Undisturbed, settings_of, state


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    folder = tmp_path_factory.mktemp("crash")
    installation.make_exports(folder)
    settings, trace = settings_of(folder, "undisturbed"), folder / "undisturbed.trace"
    done = installation.run(settings, trace)
    assert done.returncode == 0, done.stderr[-8000:]
    tables = [json.loads(line) for line in trace.with_suffix(".tables").read_text().splitlines()]
    return Undisturbed(folder, trace.read_text().splitlines(), tables, state(settings))
