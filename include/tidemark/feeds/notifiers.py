"""The notifiers of a feed's `alerts`: what their names and arguments may be, and whether the classes are there.

A notifier is a class that Airflow calls with a context: a provider's, or one's own. Here it is a name; it is imported when
there is something to tell.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from datetime import timedelta
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tidemark.feeds.problems import Found, nearest
from tidemark.feeds.strict_yaml import YamlPath

#: What can be told.
EVENTS = ("late", "failed", "quarantined")

#: What a message has: the names after ``tidemark.`` in the templates of a notifier's arguments.
MESSAGE_PARTS = ("event", "feed", "hour", "subject", "message", "html", "problem", "fix", "link", "page")

_SECRET = re.compile(r"passw|secret|token|api_?key|credential|private_?key", re.IGNORECASE)
_PART = re.compile(r"\btidemark\.(\w+)")


def class_path(value: str) -> str:
    """``package.module.ClassName``."""
    if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", value):
        raise ValueError("the path of a notifier's class, like airflow.providers.smtp.notifications.smtp.SmtpNotifier")
    return value


def some_time(value: timedelta) -> timedelta:
    """More than no time."""
    if not value:
        raise ValueError("longer than nothing, like 3h")
    return value


def rules_of_alerts(data: dict[str, Any]) -> Iterator[Found]:
    """The rules that involve several keys of `alerts`, and the arguments of notifiers."""
    alerts = data.get("alerts")
    if not isinstance(alerts, dict):
        return
    told: list[tuple[YamlPath, dict[str, Any]]] = [
        (("alerts", "tell", i), entry) for i, entry in enumerate(_list(alerts.get("tell"))) if isinstance(entry, dict)
    ]
    late = [(*place, "events") for place, entry in told if "late" in _list(entry.get("events"))]
    after = alerts.get("late_after")
    if after is not None and not late:
        yield Found(("alerts", "late_after"), "is told to nobody", "an entry of `tell` with `events: [late]`")
    if after is None:
        yield from (Found(place, "holds late, but nothing says when", fix="add `late_after: 3h`") for place in late)
    elif not data.get("start") or data.get("schedule", True) is None:
        problem = "is never reached: only runs on schedule can be late, and this feed has none"
        yield Found(
            ("alerts", "late_after"), problem, "a feed with `start` and `schedule`", "remove it, or add `start:`"
        )
    for place, entry in told:
        yield from _arguments((*place, "arguments"), entry.get("arguments"))


def _arguments(place: YamlPath, value: Any) -> Iterator[Found]:
    """Secrets by their names, and parts that no message has, at any depth."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if _SECRET.search(str(key)):
                expected = "no secret: the feed file is no place for one"
                yield Found((*place, key), "looks like a secret", expected, "name one of Airflow's connections")
            else:
                yield from _arguments((*place, key), inner)
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from _arguments((*place, i), inner)
    elif isinstance(value, str):
        for name in (name for name in _PART.findall(value) if "{" in value and name not in MESSAGE_PARTS):
            expected = "one of " + ", ".join(f"tidemark.{part}" for part in MESSAGE_PARTS)
            yield Found(place, f"holds tidemark.{name}", expected, nearest(name, MESSAGE_PARTS))


def missing_notifiers(data: dict[str, Any]) -> Iterator[Found]:
    """Notifiers whose module or class is not there. Nothing is imported for it: that would run the module."""
    alerts = data.get("alerts")
    for i, entry in enumerate(_list(alerts.get("tell")) if isinstance(alerts, dict) else ()):
        named = entry.get("notifier") if isinstance(entry, dict) else None
        module, dot, name = named.rpartition(".") if isinstance(named, str) else ("", "", "")
        if not dot:
            continue
        place, found = ("alerts", "tell", i, "notifier"), _find_module(module)
        if found is None:
            expected = "a module that is installed, or in Airflow's folder of plugins"
            yield Found(place, f"names the module {module}, which is not there", expected)
        elif (known := _names_in(found)) is not None and name not in known:
            yield Found(place, f"names {name}, which is not in {found}", "a class there", nearest(name, sorted(known)))


def _find_module(name: str) -> Path | None:
    """A module's file, by the folders of its packages; None: there is none. Airflow's folder of plugins is searched too: its
    processes have it on their path."""
    top, *inside = name.split(".")
    plugins = os.environ.get("AIRFLOW__CORE__PLUGINS_FOLDER")
    # Of a name without a dot the finders only say where it is.
    spec = find_spec(top) or (PathFinder.find_spec(top, [plugins]) if plugins else None)
    if spec is None or not inside:
        return Path(spec.origin) if spec is not None and spec.origin else None
    folders = [Path(folder, *inside[:-1]) for folder in spec.submodule_search_locations or ()]
    files = (
        file
        for folder in folders
        for last in (f"{inside[-1]}/__init__.py", f"{inside[-1]}.*")
        for file in folder.glob(last)
    )
    return next(files, None)


def _names_in(module: Path) -> set[str] | None:
    """The names that a module's text gives to anything, at whatever depth; None where the text does not tell them all."""
    try:
        tree = ast.parse(module.read_text("utf-8"))
    except (OSError, SyntaxError, ValueError):
        return None
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name)
    return None if names & {"*", "__getattr__"} else names


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
