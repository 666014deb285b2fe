"""The entry point of the command: whatever goes wrong ends in one message."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidemark import __version__, cli
from tidemark.errors import ConfigError, SchemaError
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
        with log_context(feed="shop", hour="2026-11-20T07", stage="fold"):
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


@pytest.fixture
def two_feeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation with two feed files, one of them wrong, that has published nothing."""
    for name, topics in (("shop", "[shop]"), ("payroll", "3")):
        (tmp_path / f"{name}.yaml").write_text(
            f"feed: {name}\ndescription: d\nowner: o\ntopics: {topics}\ncontainer: {{type: kafka_json}}\n"
            "format: {type: debezium}\nexports: {path: '{topic}/{date}/{hour}/*'}\n"
        )
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path))
    monkeypatch.setenv("TIDEMARK_FEEDS", str(tmp_path))


@pytest.mark.parametrize(
    "command",
    [
        ["receipts"],
        ["held"],
        ["quarantine", "list"],
        ["quarantine", "show"],
        ["status"],
        ["tables"],
        ["audit"],
        ["maintain"],
    ],
)
@pytest.mark.parametrize(("name", "fix"), [("shpo", "did you mean `shop`?"), ("x", "payroll, shop")])
def test_no_command_takes_a_feed_that_is_not_there(two_feeds: None, command: list[str], name: str, fix: str) -> None:
    more = ["an object", "1"] if command[-1] == "show" else []
    done = CliRunner().invoke(cli.app, [*command, name, *more])
    assert isinstance(done.exception, ConfigError) and done.output == ""
    assert f"there is no feed '{name}'" in str(done.exception) and fix in str(done.exception)


def test_feeds_are_listed_and_said_how_they_are(two_feeds: None) -> None:
    listed = CliRunner().invoke(cli.app, ["feeds", "list", "--json"])
    assert [json.loads(line)["feed"] for line in listed.output.splitlines()] == ["payroll", "shop"]
    done = CliRunner().invoke(cli.app, ["status"])
    assert done.exit_code == 1
    assert [line.split("\t")[:2] for line in done.output.splitlines()[1:]] == [
        ["stopped", "payroll"],
        ["never ran", "shop"],
    ]
    assert done.output.splitlines()[1].endswith("1 mistake in feed files: `tidemark feeds check`")
    assert CliRunner().invoke(cli.app, ["status", "shop"]).exit_code == 0


@pytest.mark.parametrize(("folder", "problem"), [("nowhere", "there is no folder"), ("empty", "no feed file is in")])
def test_nothing_is_well_where_no_feeds_are(
    folder: str, problem: str, two_feeds: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("TIDEMARK_FEEDS", folder)
    done = CliRunner().invoke(cli.app, ["status"])
    assert isinstance(done.exception, ConfigError) and done.exit_code == 1
    assert done.exception.problem == f"{problem} {tmp_path / folder}"
    assert "set TIDEMARK_FEEDS" in (done.exception.fix or "")


@pytest.mark.parametrize(
    "command", [["feeds", "list"], ["run", "shop", "--hour", "2026-11-20T00"], ["explain", "a.b", "1"]]
)
def test_a_folder_of_feeds_that_is_not_there_is_named(
    command: list[str], two_feeds: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_FEEDS", "nowhere")
    done = CliRunner().invoke(cli.app, command)
    assert isinstance(done.exception, ConfigError) and "set TIDEMARK_FEEDS" in (done.exception.fix or "")


def test_a_variable_that_nothing_reads_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A lake would begin in the default folder, and no command would say why."""
    monkeypatch.setattr(cli, "app", lambda: None)
    cli.main()
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("TIDEMARK_LAKES", "s3://bucket/lake")
    cli.main()
    assert "TIDEMARK_LAKES: no setting, nothing reads it; TIDEMARK_LAKE is one" in capsys.readouterr().err


def test_the_version_is_printed() -> None:
    assert CliRunner().invoke(cli.app, ["--version"]).output == f"tidemark {__version__}\n"


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
        "Error: feed shop, hour 2026-11-20T07, stage fold: an unforeseen error, ValueError; the log line `crashed` "
        "above shows where it came from, and with TIDEMARK_DEBUG=1 what it said"
    )
    assert f"{__file__}:" in printed and " in app\n" in printed
    assert SECRET not in printed


@pytest.mark.parametrize("arguments", [["reload"], ["quarantine", "replay"]], ids=str)
def test_help_is_broken_where_the_terminal_ends(arguments: list[str]) -> None:
    told = CliRunner().invoke(cli.app, [*arguments, "--help"], env={"COLUMNS": "80"}).output
    about = [line.strip() for line in told.partition("╭")[0].splitlines() if line.strip()]
    assert about[-1].endswith("Again changes nothing.") and len(about[-1]) > len("Again changes nothing."), about
