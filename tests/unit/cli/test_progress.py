"""What a command says while it works: on a terminal only, and every one that may take long."""

from __future__ import annotations

import ast
import io
import time
from pathlib import Path

import pytest
from rich.console import Console

from tidemark import cli
from tidemark.cli import console

#: These answer at once (see test_listings.py).
AT_ONCE = {"status", "tables", "receipts", "held", "quarantine_list", "feeds_list"}


def on(monkeypatch: pytest.MonkeyPatch, *, out: bool, err: bool) -> io.StringIO:
    """What is written to standard error, with either stream a terminal or not."""
    written = io.StringIO()
    monkeypatch.setattr(console, "out", Console(file=io.StringIO(), force_terminal=out))
    monkeypatch.setattr(console, "err", Console(file=written, force_terminal=err, width=80, _environ={"TERM": "xterm"}))
    return written


def says(written: io.StringIO, text: str) -> bool:
    """Whether it is said within seconds: a thread of its own draws it."""
    end = time.monotonic() + 10
    while text not in written.getvalue() and time.monotonic() < end:
        time.sleep(0.01)
    return text in written.getvalue()


def test_a_terminal_is_told_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    written = on(monkeypatch, out=True, err=True)
    with console.progress("shop 2026-11-20T07") as stage:
        assert says(written, "shop 2026-11-20T07")
        stage("decode [red]\x1b[2J")
        assert says(written, "shop 2026-11-20T07: decode [red]")
    assert "\x1b[2J" not in written.getvalue()


@pytest.mark.parametrize(("out", "err", "silent"), [(False, True, False), (True, False, False), (True, True, True)])
def test_nothing_is_said_in_a_pipe_or_to_a_program(
    monkeypatch: pytest.MonkeyPatch, out: bool, err: bool, silent: bool
) -> None:
    written = on(monkeypatch, out=out, err=err)
    with console.progress("shop", silent=silent) as stage:
        stage("decode")
    assert written.getvalue() == ""


def test_every_command_that_may_take_long_says_so() -> None:
    commands, told = set(), set()
    for module in ("reading", "work", "installation"):
        for node in ast.parse((Path(cli.__file__).parent / f"{module}.py").read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                commands.add(node.name)
                calls = (one.func for one in ast.walk(node) if isinstance(one, ast.Call))
                if any(isinstance(called, ast.Name) and called.id == "progress" for called in calls):
                    told.add(node.name)
    assert commands - told == AT_ONCE
