"""A mistake in a feed file: where it is, what is wrong, what was expected and how to fix it."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tidemark.feeds.strict_yaml import YamlPath


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """One mistake of a feed file, as a person is told of it."""

    file: Path
    """The feed file; or the folder of feed files, where it is the folder's."""
    path: str
    """Where it is in the file, like ``tables.shop.customers.checks[0].min``; empty: it is of the whole file."""
    problem: str
    """What is wrong, a phrase that goes on behind the path: ``is missing``."""
    expected: str | None = None
    """What may stand there; None: the problem says it."""
    fix: str | None = None
    """What to do; None: nothing is known that helps."""
    line: int | None = None
    """The line in the file, counted from 1; None: it is of no line."""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else str(self.file)
        text = f"{where}: {self.path}: {self.problem}" if self.path else f"{where}: {self.problem}"
        for word, part in (("Expected", self.expected), ("To fix", self.fix)):
            text += f"\n  {word}: {part}" if part else ""
        return text


@dataclass(frozen=True)
class Found:
    """A mistake before it has a file and a line."""

    place: YamlPath
    """Where it is in the file: keys and list indexes from the top; empty: it is of the whole file."""
    problem: str
    """What is wrong, as in :class:`Mistake`."""
    expected: str | None = None
    """What may stand there; None: the problem says it."""
    fix: str | None = None
    """What to do; None: nothing is known that helps."""


def path_text(place: YamlPath) -> str:
    """``("tables", "shop.customers", "checks", 0)`` as ``tables.shop.customers.checks[0]``."""
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def nearest(word: str, known: Iterable[str]) -> str | None:
    """``did you mean `x`?`` for the nearest known word, if one is near."""
    by_lower = {name.lower(): name for name in known}
    close = get_close_matches(word.lower(), by_lower, n=1)
    return f"did you mean `{by_lower[close[0]]}`?" if close else None


def translate(model: type[BaseModel], error: ValidationError, data: Any, under: YamlPath = ()) -> list[Found]:
    """Pydantic's errors in a file's own terms. ``under`` is where ``model`` stands in the file.

    Each member of a union reports an error of its own: they are joined into one mistake with every kind that is allowed.
    """
    found: dict[YamlPath, Found] = {}
    for details in error.errors(include_url=False):
        place = _place(details, data)
        one = _found(model, details, place, under)
        other = found.get(place)
        if other and other.expected and one.expected and one.expected not in other.expected:
            one = Found(one.place, other.problem, f"{other.expected}, or {one.expected}", other.fix)
        found[place] = one
    return list(found.values())


def _place(details: ErrorDetails, data: Any) -> YamlPath:
    """The error's place without the names of union members, which pydantic appends to it."""
    place: YamlPath = ()
    for part in details["loc"]:
        inside = isinstance(data, dict) and part in data
        inside = inside or (isinstance(data, list) and isinstance(part, int) and part < len(data))
        if not inside:
            return (*place, part) if details["type"] == "missing" else place
        place, data = (*place, part), data[part]
    return place


def _found(model: type[BaseModel], details: ErrorDetails, place: YamlPath, under: YamlPath) -> Found:
    kind, context = details["type"], details.get("ctx", {})
    here = (*under, *place)
    if kind == "missing":
        field = model_at(model, place[:-1]).model_fields[str(place[-1])]
        return Found(here, "is missing", field.description, f"add `{place[-1]}:`")
    if kind == "extra_forbidden":
        known = list(model_at(model, place[:-1]).model_fields)
        guess = nearest(str(place[-1]), known) or "remove it"
        return Found(
            here, "is not a key that is known here", "one of " + ", ".join(known) if known else "no key", guess
        )
    expected = details["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    if kind in ("dict_type", "model_type"):
        expected = "keys and values; {} for none"
    if kind == "value_error" and isinstance(details["input"], dict):  # a rule over the whole block
        return Found(here, expected)
    written = _shortened(details["input"])
    if kind == "literal_error":
        allowed = [word.strip("'") for word in context["expected"].replace(" or ", ", ").split(", ")]
        return Found(here, f"holds {written}", "one of " + ", ".join(allowed), nearest(str(details["input"]), allowed))
    return Found(here, f"holds {written}", expected)


def _shortened(value: Any) -> str:
    if value is None:
        return "nothing"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


def model_at(model: type[BaseModel], place: YamlPath) -> type[BaseModel]:
    """The model that describes a place in a file."""
    current: Any = model
    for part in place:
        if isinstance(current, type) and issubclass(current, BaseModel):
            current = current.model_fields[str(part)].annotation
        else:  # an entry of a list or mapping
            current = typing.get_args(current)[-1]
        current = next((inner for inner in models_in(current)), current) if _is_union(current) else current
    return typing.cast(type[BaseModel], current)


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models named in an annotation: those of ``dict[str, Table]``, ``list[Check]``, ``Exports | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from models_in(argument)


def _is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (typing.Union, types.UnionType)
