"""Writes ``docs/feed-reference.md``: every key of a feed file, from the models that read it.

Run ``make docs`` after a change of a model; a test fails while the file is out of date.
"""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tidemark.containers import CONTAINERS, load_container
from tidemark.feeds.model import Feed
from tidemark.feeds.problems import models_in
from tidemark.formats import FORMATS, load_format

PAGE = Path("docs/feed-reference.md")

_INTRODUCTION = """\
# Every key of a feed file

One YAML file per feed in `include/feeds/` (or the folder that `TIDEMARK_FEEDS` names), named like the feed.
`tidemark feeds check` reports every mistake at once. Unknown keys and keys written twice are mistakes. Text needs no
quotes unless it could be read as a number, `true`, `false` or `null`: `no` and `2026-11-20` are text, `0001` keeps
its zeros.

This page is generated from the models: `make docs`.
"""
#: Key, type, default, meaning.
Row = tuple[str, str, str, str]

_HEAD = "| key | type | default | meaning |\n|---|---|---|---|\n"
_WORDS: dict[Any, str] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    Path: "path",
    timedelta: "duration",
    datetime: "time",
    Any: "anything",
    type(None): "null",
}
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def feed_reference() -> str:
    """The page as Markdown."""
    page = _INTRODUCTION + "\n## The feed\n\n" + markdown_table(_rows(Feed))
    for title, block, registry, load in (
        ("Containers", "container", CONTAINERS, load_container),
        ("Formats", "format", FORMATS, load_format),
    ):
        page += f"\n## {title}: the keys of `{block}`\n"
        for name in sorted(registry):
            module = load(name)
            page += f"\n### `type: {name}`\n\n{_first_paragraph(module.__doc__)}\n\n"
            page += (
                markdown_table(_rows(module.Options)) if module.Options.model_fields else "No keys besides `type`.\n"
            )
    return page


def markdown_table(rows: Iterable[Row]) -> str:
    """The rows under the heads of their columns."""
    return _HEAD + "".join(f"| {' | '.join(map(_cell, row))} |\n" for row in rows)


def describe_key(key: str, field: FieldInfo) -> Row:
    """The row of a key: the key, its type, its default and its meaning."""
    return f"`{key}`", _kind(field.annotation), _default(field), field.description or ""


def _rows(model: type[BaseModel], above: str = "") -> Iterator[Row]:
    """A row for each key of a model and of the models inside it."""
    for name, field in model.model_fields.items():
        path = f"{above}{name}"
        inner = next(models_in(field.annotation), None)
        yield describe_key(path, field)
        if inner is not None:
            between = {"list": "[].", "dict": ".<name>."}
            yield from _rows(inner, path + between.get(getattr(field.annotation, "__name__", ""), "."))


def _kind(annotation: Any) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _kind(arguments[0])
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(_kind(argument) for argument in arguments))
    if origin is typing.Literal:
        return ", ".join(f"`{word}`" for word in arguments)
    if origin in (list, tuple):
        kind = _kind(arguments[0])
        return f"list of ({kind})" if " or " in kind else f"list of {kind}"
    if origin is dict:
        return f"mapping of names to {_kind(arguments[1])}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "keys below"
    return _WORDS.get(annotation, str(annotation))


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "**required**"
    value = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, BaseModel):
        return "as below"
    if isinstance(value, timedelta):
        seconds = int(value.total_seconds())
        return next(f"`{seconds // size}{unit}`" for size, unit in _UNITS if seconds % size == 0)
    if isinstance(value, bool) or value is None:
        return {True: "`true`", False: "`false`", None: "null"}[value]
    if value in ([], {}, (), ""):
        return "none"
    return f"`{value!r}`" if isinstance(value, str) and value.strip() != value else f"`{value}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _first_paragraph(text: str | None) -> str:
    return " ".join((text or "").split("\n\n")[0].replace("``", "`").split())


def write_page(page: Path, text: str) -> None:
    """Write a page below the current folder, and say so."""
    page.parent.mkdir(exist_ok=True)
    page.write_text(text, "utf-8")
    sys.stdout.write(f"wrote {page}\n")


if __name__ == "__main__":
    write_page(PAGE, feed_reference())
