"""How the command line prints: tables and progress on a terminal, plain text when piped."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING, Annotated, ParamSpec

import typer
from rich import box, markup
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from tidemark.operations.listing import Listing

out = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
err = Console(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())

#: As wide as any table may be.
_UNBOUNDED = 10_000

FeedName = Annotated[str, typer.Argument(help="The feed's name.")]
OneHour = Annotated[str | None, typer.Option(help="An hour in UTC, like 2026-11-20T07.")]
LastHour = Annotated[str | None, typer.Option(help="The last hour, included. Default: only the first.")]


AsJson = Annotated[bool, typer.Option("--json", help="For programs: a JSON object per line.")]


P = ParamSpec("P")


def shows_progress() -> bool:
    """Whether somebody sees both what a command prints and what it says beside it, one below the other."""
    return out.is_terminal and err.is_terminal


@contextmanager
def progress(what: str, *, silent: bool = False) -> Iterator[Callable[[str], None]]:
    """Says what is being done while it is, on a terminal; nothing in a pipe, nor where it is to be ``silent``. What it gives
    adds how far it is: ``shop 2026-11-20T07: decode``."""
    if silent or not shows_progress():
        yield lambda stage: None
        return
    with err.status(escape(what)) as status:
        yield lambda stage: status.update(escape(f"{what}: {stage}"))


class _HidesPandas(MetaPathFinder):
    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not looked for here", name=name)


def without_pandas(command: Callable[P, None]) -> Callable[P, None]:
    """A command during which nothing imports pandas: PyArrow does with its first value, to know one of pandas' objects when
    it sees one, and that takes longer than a listing does. What truly needs pandas later imports it then."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        sys.meta_path.insert(0, finder := _HidesPandas())
        try:
            command(*args, **kwargs)
        finally:
            sys.meta_path.remove(finder)

    return run


def print_listing(listing: Listing, *, as_json: bool = False) -> None:
    """A listing of :mod:`tidemark.operations.listing`."""
    if as_json:
        print_objects(listing.objects)
    else:
        print_table(listing.title, listing.head, listing.cells)


def print_objects(objects: Iterable[Mapping[str, object]]) -> None:
    """A JSON object per line."""
    for one in objects:
        sys.stdout.write(json.dumps(one, ensure_ascii=False) + "\n")


def print_table(title: str, head: list[str], cells: list[list[str]]) -> None:
    """A table on a terminal; tab-separated lines when piped."""
    if not out.is_terminal:
        for row in [head, *cells]:
            sys.stdout.write("\t".join(cell.replace("\t", " ").replace("\n", " ") for cell in row) + "\n")
        return
    table, idle = _table(title, head, cells), []
    if out.measure(table, options=out.options.update(width=_UNBOUNDED)).maximum > out.width:
        idle = [name for name, *column in zip(head, *cells, strict=True) if cells and set(column) <= {"", "0"}]
        kept = [number for number, name in enumerate(head) if name not in idle]
        table = _table(title, [head[n] for n in kept], [[row[n] for n in kept] for row in cells])
    out.print(table)
    if idle:
        out.print(f"left out, for they hold nothing or 0: {', '.join(idle)}", markup=False)


def _table(title: str, head: list[str], cells: list[list[str]]) -> Table:
    table = Table(title=escape(title), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(head):
        numeric = all(row[number].lstrip("-").isdigit() for row in cells) and bool(cells)
        table.add_column(escape(name), justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        table.add_row(*(escape(cell) for cell in row))
    return table


def escape(text: str) -> str:
    """Values from messages are no markup and no terminal commands."""
    return markup.escape(plain(text))


def plain(text: str) -> str:
    """Text without characters that move a terminal's cursor."""
    return "".join(c if c.isprintable() or c == "\n" else "�" for c in text)
