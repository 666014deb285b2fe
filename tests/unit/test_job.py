"""The frame of a Spark job: what ends with which exit code, and what it says."""

from __future__ import annotations

import pytest

from tidemark.errors import CheckError, ConflictError
from tidemark.job import Exit, main


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CheckError("17 rows without a price", feed="shop", table="shop.orders"), Exit.TERMINAL),
        (ConflictError("somebody else was faster"), Exit.TRANSIENT),
        (ZeroDivisionError("division by zero"), Exit.CRASHED),
    ],
)
def test_the_kind_of_error_is_the_exit_code(error: Exception, code: Exit, capsys: pytest.CaptureFixture[str]) -> None:
    def work(feed: str, hour: str) -> None:
        raise error

    assert main("publish", work, ["shop", "2026-11-20T07"]) == code
    last = capsys.readouterr().err.rpartition("tidemark: stage publish failed: ")[2]
    assert str(error) in last


def test_work_gets_feed_and_hour(capsys: pytest.CaptureFixture[str]) -> None:
    got: list[tuple[str, str]] = []
    assert main("decode", lambda feed, hour: got.append((feed, hour)), ["shop", "2026-11-20T07:00:00Z"]) == Exit.OK
    assert got == [("shop", "2026-11-20T07")]
    assert capsys.readouterr().err == ""


def test_an_argument_that_is_no_hour_is_not_worked_on() -> None:
    def work(feed: str, hour: str) -> None:
        raise AssertionError("not reached")

    assert main("decode", work, ["shop", "2026-11-20T07:30"]) == Exit.TERMINAL
