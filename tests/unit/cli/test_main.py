"""The entry point of the command: whatever goes wrong ends in one message."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tidemark import cli
from tidemark.errors import SchemaError
from tidemark.logs import log_context

SECRET = "plugh"


@pytest.fixture(autouse=True)
def logger_as_before() -> Iterator[None]:
    logger = logging.getLogger("tidemark")
    before = logger.handlers, logger.level, logger.propagate
    yield
    logger.handlers, logger.propagate = before[0], before[2]
    logger.setLevel(before[1])


def ended_by(error: Exception, monkeypatch: pytest.MonkeyPatch) -> int | str | None:
    def app() -> None:
        with log_context(feed="shop", hour="2026-11-20T07", stage="compact"):
            raise error

    monkeypatch.setattr(cli, "app", app)
    with pytest.raises(SystemExit) as raised:
        cli.main()
    return raised.value.code


@pytest.mark.parametrize("arguments", [["--help"], ["receipts"]])
def test_a_wrong_setting_is_one_message(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_LOG_FORMAT", SECRET)
    done = subprocess.run(
        [sys.executable, "-c", "from tidemark.cli import main; main()", *arguments],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: TIDEMARK_LOG_FORMAT: Input should be 'console' or 'json'\n  To fix: ")
    assert len(done.stderr.splitlines()) == 2 and SECRET not in done.stderr


def test_an_error_of_ours_is_its_own_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended_by(SchemaError("the column is gone", table="shop.orders"), monkeypatch) == 1
    assert capsys.readouterr().err == "Error: table shop.orders: the column is gone\n"


def test_a_crash_ends_in_a_sentence_and_quotes_no_value(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended_by(ValueError(f"{SECRET} is no number"), monkeypatch) == 1
    printed = capsys.readouterr().err
    assert printed.splitlines()[-1] == (
        "Error: feed shop, hour 2026-11-20T07, stage compact: an unforeseen error, ValueError; the log line `crashed` "
        "above shows where it came from"
    )
    assert f"{__file__}:" in printed and " in app\n" in printed
    assert SECRET not in printed
