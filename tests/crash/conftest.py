"""Runs that nothing happens to: what every other must come to."""

from __future__ import annotations

import pytest

from tests.crash.installation import HOURS, Undisturbed, run_undisturbed


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return run_undisturbed(tmp_path_factory.mktemp("crash"), HOURS)


@pytest.fixture(scope="session")
def one_hour(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return run_undisturbed(tmp_path_factory.mktemp("crash_one"), HOURS[:1])
