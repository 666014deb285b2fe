"""Log lines: what they look like, where they go, and what never gets into one."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest
import structlog

from tidemark import logs
from tidemark.logs import configure, get_logger, log_context, log_stage
from tidemark.settings import Settings

log = get_logger()


@pytest.fixture(autouse=True)
def unconfigured(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test begins as somebody else's process does, and leaves the logger as it was."""
    logger = logging.getLogger("tidemark")
    before = logger.handlers, logger.level, logger.propagate, list(logs._render)
    for name in ("TIDEMARK_LOG_FORMAT", "TIDEMARK_LOG_LEVEL"):
        monkeypatch.delenv(name, raising=False)
    logger.handlers, logger.propagate = [], True
    logger.setLevel(logging.NOTSET)
    logs._render[:] = [logs._plain]
    yield
    logger.handlers, logger.propagate = before[0], before[2]
    logger.setLevel(before[1])
    logs._render[:] = before[3]


def test_a_line_for_people_names_feed_hour_stage_and_counts(capsys: pytest.CaptureFixture[str]) -> None:
    configure(Settings())
    with log_stage("land", "landed", feed="shop", hour="2026-11-20T07") as line:
        line["objects"] = 2
    printed = capsys.readouterr()
    assert printed.out == ""
    date, time, *rest = printed.err.split()
    assert (len(date), len(time)) == (10, 8)
    assert " ".join(rest) == "[info ] landed feed=shop hour=2026-11-20T07 stage=land objects=2 seconds=0.0"


def test_a_line_for_machines_is_one_json_object(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_LOG_FORMAT", "json")
    configure(Settings())
    with log_context(feed="shop"):
        log.warning("quarantined", records=2, reason="they cannot be decoded")
    (text,) = capsys.readouterr().err.splitlines()
    line = json.loads(text)
    assert line.pop("time").endswith("Z")
    assert line == {
        "event": "quarantined", "level": "warning", "feed": "shop", "records": 2, "reason": "they cannot be decoded"
    }  # fmt: skip


@pytest.mark.parametrize(("given", "least", "written"), [("", "info", 2), ("", "warning", 1), ("ERROR", "info", 0)])
def test_the_level_that_is_set_wins_over_the_usual_one(
    given: str, least: str, written: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if given:
        monkeypatch.setenv("TIDEMARK_LOG_LEVEL", given)
    configure(Settings(), least=least)
    log.debug("no")
    log.info("landed")
    log.warning("quarantined")
    assert len(capsys.readouterr().err.splitlines()) == written


def test_contexts_nest_and_end(capsys: pytest.CaptureFixture[str]) -> None:
    configure(Settings(log_format="json"))
    with log_context(feed="shop", hour="2026-11-20T07"):
        with log_stage("fold", "folded", table="shop.orders"), log_context(hour="2026-11-20T06"):
            log.info("inside")
        log.info("outside")
    log.info("beyond")
    inside, folded, outside, beyond = map(json.loads, capsys.readouterr().err.splitlines())
    assert (inside["hour"], inside["table"], inside["stage"]) == ("2026-11-20T06", "shop.orders", "fold")
    assert (folded["hour"], folded["table"]) == ("2026-11-20T07", "shop.orders")
    assert outside["feed"] == "shop" and "table" not in outside and "stage" not in outside
    assert "feed" not in beyond


def test_a_stage_that_fails_leaves_the_word_to_its_error(capsys: pytest.CaptureFixture[str]) -> None:
    configure(Settings())
    with pytest.raises(ZeroDivisionError), log_stage("land", "landed", feed="shop"):
        raise ZeroDivisionError
    log.info("after")
    (line,) = capsys.readouterr().err.splitlines()
    assert "after" in line and "shop" not in line


def test_a_name_ends_no_line_and_moves_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    configure(Settings())
    log.info("added columns", table="shop.or\nders\x1b[2J", columns={"a\nb": "int"})
    text = capsys.readouterr().err
    assert len(text.splitlines()) == 1 and "\x1b" not in text


def test_in_another_process_lines_are_plain_text_in_its_own_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"), log_context(feed="shop", hour="2026-11-20T07", stage="land"):
        log.info("landed", objects=2, share="100 %s")
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("tidemark", "INFO")
    assert record.getMessage() == "landed feed=shop hour=2026-11-20T07 stage=land objects=2 share='100 %s'"


def test_another_process_keeps_its_own_configuration_of_structlog(capsys: pytest.CaptureFixture[str]) -> None:
    before = structlog.get_config()
    configure(Settings(log_format="json"))
    log.info("landed")
    assert structlog.get_config() == before


def test_logging_imports_neither_spark_nor_airflow() -> None:
    look = (
        "import sys, tidemark.logs; print([m for m in ('pyspark', 'airflow', 'pandera', 'boto3') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
