"""Strict YAML for feed files: every value is read as it is written, or it is a mistake with its line.

Scalars follow YAML 1.2's core schema: ``no`` and ``2026-11-20`` are text, ``0001`` keeps its zeros, and keys are
always text (a column may be called ``null``). A key written twice is a mistake; the last one does not win silently.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

#: A value's path in a file: keys and list indexes from the top.
YamlPath = tuple[str | int, ...]

_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "null", "bool", "int", "float", "seq", "map")}


@dataclass
class Document:
    """A file's content, and what is wrong with its YAML."""

    value: Any = None
    """What the file holds; None: it is empty, or no YAML."""
    lines: dict[YamlPath, int] = field(default_factory=dict)
    """The line of each value by its path, counted from 1; of a value under a key, that of the key."""
    mistakes: list[tuple[YamlPath, str, str]] = field(default_factory=list)
    """What is wrong: the path, the problem, and how to fix it."""

    def line(self, path: YamlPath) -> int | None:
        """The line of a path, or of the nearest thing around it that exists."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path)


class _Loader(yaml.SafeLoader):
    """SafeLoader that knows the core schema's scalars only."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 (yaml's own name)


for _tag, _written, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", list("-+0123456789")),
    ("float", r"[-+]?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?", list("-+0123456789")),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_written})\Z"), _first)


def read_yaml(text: str) -> Document:
    """Read one document. Syntax errors are mistakes too (then ``value`` is None)."""
    document = Document()
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is not None:
            document.value = _build(loader, node, (), document, [])
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        what = ", ".join(part for part in (error.context, error.problem) if part)
        document.mistakes.append(((), f"not YAML: {what}{where}", "fix the file's syntax there; indent with spaces"))
        if mark:
            document.lines[()] = mark.line + 1
    except yaml.YAMLError as error:
        document.mistakes.append(((), f"not YAML: {error}", "save the file as UTF-8 text"))
    except RecursionError:
        document.mistakes.append(((), "not YAML that can be read: nested too deeply", "use fewer levels"))
    return document


def _build(loader: _Loader, node: yaml.Node, path: YamlPath, document: Document, around: list[yaml.Node]) -> Any:
    document.lines.setdefault(path, node.start_mark.line + 1)
    if any(node is outer for outer in around):
        document.mistakes.append((path, "an alias that contains itself", "write it out"))
        return None
    inside = [*around, node]
    if node.tag not in _TAGS:
        document.mistakes.append((path, f"has a tag, {node.tag}", "write plain or quoted values, without a !tag"))
        return None
    if isinstance(node, yaml.SequenceNode):
        return [_build(loader, item, (*path, i), document, inside) for i, item in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode):
        return _mapping(loader, node, path, document, inside)
    try:
        return loader.construct_object(node)
    except (ValueError, KeyError, IndexError) as error:  # a value under an explicit !!int, !!bool …
        document.mistakes.append((path, f"cannot be read: {error}", "write plain or quoted text"))
        return None


def _mapping(
    loader: _Loader, node: yaml.MappingNode, path: YamlPath, document: Document, inside: list[yaml.Node]
) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            document.mistakes.append((path, f"a key that is not text (line {line})", "write `name: value`"))
            continue
        key = str(key_node.value)
        here = (*path, key)
        if key in result:
            first = document.lines[here]
            document.mistakes.append(
                (here, f"written twice, on lines {first} and {line}", "keep one of the two, or join them")
            )
            continue
        document.lines[here] = line
        result[key] = _build(loader, value_node, here, document, inside)
    return result
