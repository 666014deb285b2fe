"""How a listing looks on a terminal: no value is broken in its middle."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import typer
import yaml
from rich.console import Console

from tidemark.cli import console, installation

HEAD = ["health", "newest hour", "held", "object", "why"]
OBJECT = "shop/topic/dt=2026-11-20/hr=00/v00001/part.gz"
WHY = "1 in quarantine: `tidemark quarantine list shop`, and a long sentence that tells more of it"
ROW = ["waiting", "2026-11-20T01", "0", OBJECT, WHY]


def printed(monkeypatch: pytest.MonkeyPatch, width: int, head: list[str], cells: list[list[str]]) -> list[str]:
    written = io.StringIO()
    monkeypatch.setattr(
        console, "out", Console(file=written, force_terminal=True, width=width, color_system=None, soft_wrap=True)
    )
    console.print_table("Feeds", head, cells)
    return [line.rstrip() for line in written.getvalue().splitlines()]


def test_a_text_is_wrapped_beside_values_that_stand_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(monkeypatch, 120, HEAD, [ROW])
    assert [line for line in lines if OBJECT in line and "2026-11-20T01" in line]
    words = " ".join(" ".join(line[75:].split()) for line in lines[2:])
    assert WHY in words.replace("─", "").replace("  ", " ")


def test_a_row_that_does_not_fit_is_a_paragraph_with_names(monkeypatch: pytest.MonkeyPatch) -> None:
    assert printed(monkeypatch, 80, HEAD, [ROW, ["good", "", "0", "", ""]]) == [
        "Feeds",
        "health waiting  newest hour 2026-11-20T01",
        f"  object {OBJECT}",
        f"  why {WHY}",
        "health good",
        "left out, for they hold nothing or 0: held",
    ]


def test_what_holds_nothing_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert printed(monkeypatch, 80, HEAD, []) == ["Feeds", "  none"]


def test_values_are_no_markup_and_no_commands_of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for width in (20, 80):
        shown = "\n".join(printed(monkeypatch, width, ["[b]a", "b"], [["[red]\x1b[2J", "x" * 18]]))
        assert "[red]�[2J" in shown and "[b]a" in shown and "\x1b[2J" not in shown


def test_a_command_to_copy_is_not_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    monkeypatch.setattr(console.out, "_file", written)
    monkeypatch.setattr(console.out, "_force_terminal", True)
    monkeypatch.setattr(console.out, "_width", 40)
    installation.sample(
        "canal", tmp_path, hours=1, events=20, first_hour="2026-11-20T00", container=None, poison=0, seed=1
    )
    (command,) = (line for line in written.getvalue().splitlines() if "tidemark run" in line)
    assert command.strip().startswith("TIDEMARK_HOME=") and command.endswith("--hour 2026-11-20T00")


def test_a_folder_without_feed_files_is_not_called_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    installation.feeds_check(tmp_path)
    assert capsys.readouterr().out == f"{tmp_path}: no feed file is there\n"


_DDL = "rows that come or go with no change of their own"
_SKIPPED = "changes that the connector cannot read, where `event.processing.failure.handling.mode`"
_MADE = "the values of generated columns"
_PART = "that a snapshot read a part of a table without a key"
_ORDER = "the order of changes, where the connector is older than 2.5"
_LARGE = "that an update makes a `text`"
_ANEW = "that a connector before 3.6.1 starts again"


@pytest.mark.parametrize(
    ("format_", "told"),
    [
        (
            {"type": "debezium"},
            ["TRUNCATE", _DDL, _SKIPPED, "a key that the database checks", "that a snapshot read a part", _MADE],
        ),
        (
            {"type": "debezium", "transactions": "t"},
            ["TRUNCATE", _DDL, _SKIPPED, "a key that the database checks", "that a snapshot read a part", _MADE, _ANEW],
        ),
        ({"type": "debezium", "connector": "db2", "transactions": "t"}, ["TRUNCATE", _DDL, _SKIPPED, _PART]),
        (
            {"type": "debezium", "connector": "mysql"},
            ["TRUNCATE", _DDL, _SKIPPED, "rows that MySQL", "transactions that", "updates of", _PART],
        ),
        (
            {"type": "debezium", "connector": "sqlserver"},
            ["TRUNCATE", _DDL, _SKIPPED, "the order of two changes", _LARGE, _PART],
        ),
        (
            {"type": "debezium", "connector": "oracle"},
            [
                "TRUNCATE",
                _DDL,
                _SKIPPED,
                "a key that the database checks",
                "two changes",
                _ORDER,
                "values of Oracle's CLOB",
                _PART,
            ],
        ),
        ({"type": "debezium", "connector": "db2"}, ["TRUNCATE", _DDL, _SKIPPED, _PART]),
        ({"type": "qlik"}, ["TRUNCATE", "a key that the source checks", "that a row's key changed"]),
        ({"type": "canal"}, ["columns", "documents", "rows that MySQL", "statements on other topics"]),
        ({"type": "ibm"}, ["columns that an update", "values of before"]),
        ({"type": "dataworks", "transactions": False}, []),
    ],
    ids=str,
)
def test_what_no_message_shows_is_said_of_each_feed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], format_: dict[str, str], told: list[str]
) -> None:
    path = tmp_path / "crm.yaml"
    feed = {
        "feed": "crm", "description": "d", "owner": "o", "topics": ["t"], "exports": {"path": "{topic}/{date}/{hour}/*"},
        "container": {"type": "kafka_json"}, "format": format_,
    }  # fmt: skip
    path.write_text(yaml.safe_dump(feed))
    installation.feeds_check(path)
    first, *others = " ".join(capsys.readouterr().out.split()).split(" crm: ")
    assert first.startswith(f"{path}: no mistakes") and ("No message shows" in first) == bool(told)
    assert len(others) == len(told)
    for sentence, begins in zip(others, told, strict=True):
        assert sentence.startswith(begins) and sentence.endswith(".")
    path.write_text(yaml.safe_dump(feed | {"owners": "o"}))
    with pytest.raises(typer.Exit):
        installation.feeds_check(tmp_path)
    assert "No message shows" not in capsys.readouterr().out
