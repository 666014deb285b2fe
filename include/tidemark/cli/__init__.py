"""The ``tidemark`` command. Tables and progress on a terminal, plain text when piped; what it does is logged."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, NoReturn

import typer

from tidemark import __version__
from tidemark.cli import installation, reading, work
from tidemark.cli.console import err, escape, shows_progress
from tidemark.crash import report_crash
from tidemark.errors import TidemarkError
from tidemark.logs import configure, get_logger
from tidemark.settings import Settings, unread_variables

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Verified lakehouse tables out of hourly exports of change-data topics.",
)
feeds_app = typer.Typer(no_args_is_help=True, help="Feed files.")
quarantine_app = typer.Typer(no_args_is_help=True, help="Records and changes that were kept back, with the reason.")
app.add_typer(feeds_app, name="feeds")
app.add_typer(quarantine_app, name="quarantine")


def add_command(group: typer.Typer, command: Callable[..., None], name: str | None = None) -> None:
    """Add a command to a group. Its help is its docstring, each paragraph on a line of its own: a terminal breaks it where it
    ends."""
    paragraphs = (command.__doc__ or "").split("\n\n")
    group.command(name, help="\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs))(command)


for command in (
    work.run, work.land, work.reload, reading.status, reading.tables, reading.show, reading.explain, reading.tx,
    reading.receipts, reading.audit, work.maintain, reading.held,
    installation.sample, installation.doctor,
):  # fmt: skip
    add_command(app, command)
add_command(feeds_app, installation.feeds_check, "check")
add_command(feeds_app, installation.feeds_list, "list")
add_command(quarantine_app, reading.quarantine_list, "list")
add_command(quarantine_app, reading.quarantine_show, "show")
add_command(quarantine_app, work.quarantine_replay, "replay")


def _print_version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"tidemark {__version__}\n")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version, and end.")
    ] = False,
) -> None:
    """Verified lakehouse tables out of hourly exports of change-data topics."""


def main() -> None:
    """Entry point: every error is one message and exit 1, not a traceback."""
    try:
        # Where progress tells what happens, only what is out of the ordinary is worth a line beside it.
        configure(Settings(), least="warning" if shows_progress() else "info")
        if told := unread_variables():
            get_logger().warning(told)
        app()
    except TidemarkError as error:
        _end(str(error))
    except Exception as error:
        _end(report_crash(error))


def _end(why: str) -> NoReturn:
    err.print(f"[bold red]Error:[/] {escape(why)}" if err.is_terminal else f"Error: {why}", markup=err.is_terminal)
    raise SystemExit(1)
