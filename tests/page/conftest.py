"""A browser, and Airflow's API server on a lake that was written for the page."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright

from tests.page.written_lake import WrittenLake, write_lake
from tests.scheduler.stack import PROJECT, Stack

#: Milliseconds that the browser and the server have for a step, on a machine that is busy with other tests.
_PATIENCE = 120_000
expect.set_options(timeout=_PATIENCE)
_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium as it is installed on the machine."""
    found = os.environ.get("TIDEMARK_TEST_BROWSER") or next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        missing = (
            f"no browser: none of {', '.join(_NAMES)} is on PATH. Install one, or name it in TIDEMARK_TEST_BROWSER."
        )
        # `make test-page` is asked for these tests: it does not pass without them.
        (pytest.fail if os.environ.get("TIDEMARK_TEST_PART") == "page" else pytest.skip)(missing)
    with sync_playwright() as playwright:
        # Its own sandbox does not work for root, nor in most containers.
        opened = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def stack(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The API server, with the administrator and somebody who may only look. Asks for the browser first: it is quick."""
    found = Stack(tmp_path_factory.mktemp("page"))
    found.environment["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS"] = "admin:admin,ada:viewer"
    start = "import services; services.start(('api-server',))"
    found.environment["PYTHONPATH"] += os.pathsep + str(PROJECT / "scripts")
    found.run("python", "-c", start)
    yield found
    found.stop()


@pytest.fixture(scope="session")
def lake(stack: Stack) -> WrittenLake:
    written = write_lake(stack.settings)
    stack.run("airflow", "dags", "reserialize")
    return written


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the tests leave pictures of what they saw, for people."""
    named = os.environ.get("TIDEMARK_TEST_PICTURES")
    folder = Path(named) if named else tmp_path_factory.mktemp("pictures")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def contexts(browser: Browser, stack: Stack) -> Iterator[Callable[..., BrowserContext]]:
    """Makes a window of somebody who is not logged in. A dialog in it, and an error of a script, fail the test."""
    opened: list[BrowserContext] = []
    wrong: list[str] = []

    def make(**options: object) -> BrowserContext:
        context = browser.new_context(base_url=f"http://127.0.0.1:{stack.port}", **options)  # type: ignore[arg-type]
        context.set_default_timeout(_PATIENCE)
        context.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
        context.on("weberror", lambda error: wrong.append(str(error.error)))
        opened.append(context)
        return context

    yield make
    for context in opened:
        context.close()
    assert wrong == []
