"""The frame of a Spark job: what ends with which exit code, and what it says."""

from __future__ import annotations

import pytest

from tidemark.errors import CheckError, ConflictError
from tidemark.orchestration.job_exit import Exit, main


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CheckError("17 rows without a price", feed="shop", table="shop.orders"), Exit.TERMINAL),
        (ConflictError("somebody else was faster"), Exit.TRANSIENT),
    ],
)
def test_the_kind_of_error_is_the_exit_code(error: Exception, code: Exit, capsys: pytest.CaptureFixture[str]) -> None:
    def work(feed: str, hour: str) -> None:
        raise error

    assert main("publish", work, ["shop", "2026-11-20T07"]) == code
    last = capsys.readouterr().err.rpartition("tidemark: stage publish failed: ")[2]
    assert str(error) in last


def test_a_crash_ends_in_a_sentence_without_the_errors_text(capsys: pytest.CaptureFixture[str]) -> None:
    def work(feed: str, hour: str) -> None:
        raise ValueError("plugh is no number")

    assert main("publish", work, ["shop", "2026-11-20T07"]) == Exit.CRASHED
    printed = capsys.readouterr().err
    assert printed.splitlines()[-1] == (
        "tidemark: stage publish failed: feed shop, hour 2026-11-20T07, stage publish: an unforeseen error, ValueError; "
        "the log line `crashed` above shows where it came from, and with TIDEMARK_DEBUG=1 what it said"
    )
    assert f"{__file__}:{work.__code__.co_firstlineno + 1} in work" in printed
    assert "plugh" not in printed


def test_what_storage_or_the_cluster_did_not_answer_may_pass(capsys: pytest.CaptureFixture[str]) -> None:
    def work(feed: str, hour: str) -> None:
        try:
            raise ConnectionResetError("plugh")
        except OSError as error:
            raise RuntimeError("plugh") from error

    assert main("publish", work, ["shop", "2026-11-20T07"]) == Exit.TRANSIENT
    assert "an unforeseen error, RuntimeError" in capsys.readouterr().err


def test_a_wrong_setting_is_not_tried_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(feed: str, hour: str) -> None:
        raise AssertionError("not reached")

    monkeypatch.setenv("TIDEMARK_LOG_FORMAT", "plugh")
    assert main("publish", work, ["shop", "2026-11-20T07"]) == Exit.TERMINAL
    printed = capsys.readouterr().err
    assert printed.startswith("tidemark: stage publish failed: TIDEMARK_LOG_FORMAT: ") and "plugh" not in printed


def test_work_gets_feed_and_hour(capsys: pytest.CaptureFixture[str]) -> None:
    got: list[tuple[str, str]] = []
    assert main("decode", lambda feed, hour: got.append((feed, hour)), ["shop", "2026-11-20T07:00:00Z"]) == Exit.OK
    assert got == [("shop", "2026-11-20T07")]
    assert capsys.readouterr().err == ""


def test_an_argument_that_is_no_hour_is_not_worked_on() -> None:
    def work(feed: str, hour: str) -> None:
        raise AssertionError("not reached")

    assert main("decode", work, ["shop", "2026-11-20T07:30"]) == Exit.TERMINAL


def test_a_job_of_several_hours_takes_so_many(capsys: pytest.CaptureFixture[str]) -> None:
    got: list[tuple[str, ...]] = []

    def work(*given: str) -> None:
        got.append(given)

    for hours in ([], ["2026-11-20T07"], ["2026-11-20T07", "2026-11-20T09"]):
        assert main("replay", work, ["shop", *hours], least=0, most=2) == Exit.OK
    assert [len(given) for given in got] == [1, 2, 3]
    for arguments, most in ((["shop"], 1), (["shop", "2026-11-20T07", "2026-11-20T08"], 1)):
        with pytest.raises(SystemExit):
            main("decode", work, arguments, most=most)
    assert len(got) == 3
    assert "HOUR" in capsys.readouterr().err
