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
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from tidemark.operations.listing import Listing

# A line is as long as it is: what wraps it is the terminal, so that a command in it can be copied.
out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)

#: A text of several words is not squeezed into less.
_TEXT = 24

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
    """A table on a terminal, or a paragraph for each row where its values would not stand whole beside each other;
    tab-separated lines when piped."""
    if not out.is_terminal:
        for row in [head, *cells]:
            sys.stdout.write("\t".join(cell.replace("\t", " ").replace("\n", " ") for cell in row) + "\n")
        return
    out.print(escape(title), style="bold")
    idle: list[str] = []
    if not _fits(head, cells):
        idle = [name for name, *column in zip(head, *cells, strict=True) if cells and set(column) <= {"", "0"}]
        kept = [number for number, name in enumerate(head) if name not in idle]
        head, cells = [head[n] for n in kept], [[row[n] for n in kept] for row in cells]
    if not cells:
        out.print("  none")
    elif _fits(head, cells):
        out.print(_table(head, cells), soft_wrap=False)
    else:
        _print_paragraphs(head, cells)
    if idle:
        out.print(f"left out, for they hold nothing or 0: {', '.join(idle)}", markup=False)


def _fits(head: list[str], cells: list[list[str]]) -> bool:
    narrowest = [_narrowest(name, column) for name, *column in zip(head, *cells, strict=True)]
    return sum(narrowest) + 3 * len(narrowest) <= out.width


def _narrowest(name: str, column: list[str]) -> int:
    """How wide a column must be: a value stands whole; a text of several words may be wrapped, as a name is."""
    words = max(cell_len(word) for text in (name, *column) for word in (text.split() or [""]))
    return max(words, min(_TEXT, max(map(cell_len, column), default=0)))


def _table(head: list[str], cells: list[list[str]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(head):
        column = [row[number] for row in cells]
        numeric = all(cell.lstrip("-").isdigit() for cell in column)
        narrowest, is_text = _narrowest(name, column), any(" " in cell for cell in column)
        table.add_column(
            escape(name if cell_len(name) <= narrowest else name.replace(" ", "\n")),
            justify="right" if numeric else "left", overflow="fold", min_width=narrowest, no_wrap=not is_text,
        )  # fmt: skip
    for row in cells:
        table.add_row(*(escape(cell) for cell in row))
    return table


def _print_paragraphs(head: list[str], cells: list[list[str]]) -> None:
    """Each row with its names, but for what is empty. Only a value that is longer than a line is broken, by the terminal."""
    for row in cells:
        line = Text()
        for name, cell in zip(head, row, strict=True):
            if cell == "":
                continue
            pair = Text.assemble((plain(name), "dim"), " ", (plain(cell), "" if line else "bold"))
            if line and line.cell_len + pair.cell_len + 2 > out.width:
                out.print(line)
                line = Text("  ").append(pair)
            else:
                line = Text.assemble(line, "  ", pair) if line else pair
        out.print(line)


def escape(text: str) -> str:
    """Values from messages are no markup and no terminal commands."""
    return markup.escape(plain(text))


def plain(text: str) -> str:
    """Text without characters that move a terminal's cursor."""
    return "".join(c if c.isprintable() or c == "\n" else "�" for c in text)
