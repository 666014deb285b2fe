"""Reading feed files: every mistake of every file is reported together, each with its path, what was expected and a fix."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from tidemark.containers import CONTAINERS, load_container
from tidemark.errors import ConfigError
from tidemark.feeds.model import Feed, block_options
from tidemark.feeds.notifiers import missing_notifiers
from tidemark.feeds.problems import Found, Mistake, nearest, path_text, translate
from tidemark.feeds.strict_yaml import Document, YamlPath, read_yaml
from tidemark.feeds.validators import place_of, published_names, rules_across_keys
from tidemark.formats import FORMATS, load_format
from tidemark.settings import Settings

if TYPE_CHECKING:  # importing it would import Spark
    from tidemark.formats.contract import Format


_SET_FEEDS = "set TIDEMARK_FEEDS to the folder of feed files"


def load_feed(path: Path, *, deep: bool = True) -> Feed:
    """Read one feed file.

    ``deep`` also holds the ``container`` and ``format`` blocks and the declared column types against the modules they
    name, which import Spark; DAG files load with ``deep=False``. ConfigError lists *all* mistakes of the file.
    """
    file = _read(path, deep)
    if file.feed is None:
        raise _refusal(file.mistakes)
    return file.feed


def load_feeds(folder: Path, *, deep: bool = True) -> dict[str, Feed]:
    """All feeds of a folder by name, in the order of names. ConfigError lists all mistakes of all files."""
    files, mistakes = _read_folder(folder, deep)
    if mistakes:
        raise _refusal(mistakes)
    return {file.feed.feed: file.feed for file in files if file.feed}


def find_feed(name: str, settings: Settings, *, deep: bool = True) -> Feed:
    """The feed of this name in the installation's folder of feeds."""
    folder = settings.path(settings.feeds)
    known = feed_names(folder)
    if name not in known:
        fix = nearest(name, known) or (f"it has: {', '.join(known)}" if known else "write its first feed file")
        raise ConfigError(f"there is no feed {name!r} in {folder}", fix=fix)
    return load_feed(folder / f"{name}.yaml", deep=deep)


def feed_names(folder: Path) -> list[str]:
    """The names of the feeds that have a file in the folder. ConfigError where there is no such folder."""
    if not folder.is_dir():
        raise ConfigError(f"there is no folder {folder}", fix=_SET_FEEDS)
    return sorted(path.stem for path in _files(folder))


def check_feeds(path: Path, checks: Path) -> list[Mistake]:
    """All mistakes of a feed file, or of every feed file of a folder, by file and line. ``checks``: the folder of the modules
    that they may name under `checks_module`."""
    if path.is_dir():
        files, mistakes = _read_folder(path, deep=True)
    else:
        files = [_read(path, deep=True)]
        mistakes = files[0].mistakes
    missing = (
        (file, found)
        for file in files
        for found in (*_missing_modules(file.data, checks), *missing_notifiers(file.data))
    )
    return mistakes + [file.mistake(found) for file, found in missing]


def source_gaps(path: Path) -> dict[str, list[str]]:
    """By feed of a file, or of every file of a folder, what its format knows that no message will show
    (:class:`tidemark.formats.contract.KnowsGaps`). ConfigError for a file with mistakes."""
    from tidemark.formats.contract import KnowsGaps

    found = {}
    for file in _files(path) if path.is_dir() else [path]:
        feed = load_feed(file)
        format_ = load_format(feed.format["type"])
        if isinstance(format_, KnowsGaps):
            found[feed.feed] = format_.gaps(feed.format_options)
    return found


def _missing_modules(data: dict[str, Any], checks: Path) -> Iterable[Found]:
    """Modules with checks, and classes in them, that are not there. They are not imported: that would run them."""
    tables = data.get("tables")
    for source, table in tables.items() if isinstance(tables, dict) else ():
        named = table.get("checks_module") if isinstance(table, dict) else None
        if not isinstance(named, str) or ":" not in named:
            continue
        module, _, model = named.partition(":")
        place, path = ("tables", source, "checks_module"), checks / f"{module}.py"
        if not path.is_file():
            known = [file.stem for file in checks.glob("*.py")]
            yield Found(place, f"names {module}.py, which is not in {checks}", "a module there", nearest(module, known))
            continue
        try:
            classes = [
                node.name for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.ClassDef)
            ]
        except (SyntaxError, UnicodeDecodeError) as error:
            yield Found(place, f"names {path}, which is no Python module: {error}")
            continue
        if model not in classes:
            yield Found(
                place, f"names the class {model}, which is not in {path}", "a class there", nearest(model, classes)
            )


@dataclass(frozen=True, kw_only=True)
class _File:
    """A feed file as it was read."""

    path: Path
    """Where the file is."""
    data: dict[str, Any]
    """Its plain content, for rules across keys and files; empty: it is no mapping."""
    document: Document
    """The same with its lines."""
    mistakes: list[Mistake]
    """What is wrong with it by itself, in the order of its lines."""
    feed: Feed | None
    """The feed; None: there are mistakes."""

    def mistake(self, found: Found) -> Mistake:
        line = self.document.line(found.place)
        return Mistake(
            file=self.path,
            path=path_text(found.place),
            problem=found.problem,
            expected=found.expected,
            fix=found.fix,
            line=line,
        )


def _read(path: Path, deep: bool) -> _File:
    try:
        document = read_yaml(path.read_text("utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        document = Document(mistakes=[((), f"cannot be read: {error}", "give the path of a readable UTF-8 file")])
    data = document.value if isinstance(document.value, dict) else {}
    found = [Found(place, problem, None, fix) for place, problem, fix in document.mistakes]
    if not found and data is not document.value:
        found = [Found((), "holds no feed", "keys and values, beginning with `feed:`", "see docs/feed-reference.md")]
    feed: Feed | None = None
    if document.value is data:
        try:
            feed = Feed.model_validate(data)
        except ValidationError as error:
            found += translate(Feed, error, data)
        found += rules_across_keys(data, path.stem)
        found += _deep_mistakes(data) if deep else []
    file = _File(path=path, data=data, document=document, mistakes=[], feed=None if found else feed)
    file.mistakes.extend(sorted(map(file.mistake, found), key=lambda mistake: mistake.line or 0))
    return file


def _read_folder(folder: Path, deep: bool) -> tuple[list[_File], list[Mistake]]:
    if not folder.is_dir():
        return [], [Mistake(file=folder, path="", problem="is not a folder", fix=_SET_FEEDS)]
    files = [_read(path, deep) for path in _files(folder)]
    across: dict[Path, list[Mistake]] = {}
    published: dict[str, _File] = {}
    named: dict[str, _File] = {}
    for file in files:
        name = file.data.get("feed")
        if isinstance(name, str) and (other := named.setdefault(name, file)) is not file:
            found = Found(("feed",), f"{name!r} is also the name of the feed in {other.path.name}", fix="rename one")
            across.setdefault(file.path, []).append(file.mistake(found))
        for source, table in published_names(file.data).items():
            if (other := published.setdefault(table.lower(), file)) is not file:
                problem = f"is published as {table}, as is a table of {other.path.name}"
                found = Found(
                    place_of(source, file.data), problem, fix="give one of them another `name` under `tables`"
                )
                across.setdefault(file.path, []).append(file.mistake(found))
    mistakes = [mistake for file in files for mistake in [*file.mistakes, *across.get(file.path, [])]]
    stray = [path for path in sorted(folder.glob("*.yml")) if not path.name.startswith(".")]
    return files, mistakes + [
        Mistake(file=path, path="", problem="is not read", expected="a name in .yaml", fix="rename it")
        for path in stray
    ]


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*.yaml")) if not path.name.startswith(".")]


def _deep_mistakes(data: dict[str, Any]) -> list[Found]:
    """Mistakes that the container's and the format's own modules find in their blocks and in the declared column types."""
    found: list[Found] = []
    options: dict[str, BaseModel] = {}
    for block, known, load in (("container", CONTAINERS, load_container), ("format", FORMATS, load_format)):
        written = data.get(block)
        if not isinstance(written, dict) or written.get("type") not in known:
            continue
        model = load(written["type"]).Options
        try:
            options[block] = block_options(model, written)
        except ValidationError as error:
            found += translate(model, error, written, (block,))
        if block == "format":  # mistakes in types are reported also when the block itself is wrong
            format_ = load_format(written["type"])
            found += _column_mistakes(format_, options.get(block, model.model_construct()), data)
    if len(options) == 2:
        found += _differing(options["container"], options["format"])
        found += _rows_without_a_name(data)
    return found


def _rows_without_a_name(data: dict[str, Any]) -> Iterable[Found]:
    """Tables whose rows nothing names: Debezium's messages name a row in their key, which `lines` does not keep. Without
    it an update would add a row, and a delete take none away."""
    tables = data.get("tables")
    if (data["container"]["type"], data["format"]["type"]) != ("lines", "debezium") or not isinstance(tables, dict):
        return
    for source, table in tables.items():
        if not isinstance(table, dict) or table.get("key") is None:
            yield Found(
                ("tables", source),
                "names no `key`, and container `lines` does not keep the keys of messages",
                "the table's key columns; [] for a table without a key that has REPLICA IDENTITY FULL",
                "add `key: [id]`, with the table's own columns, or export whole records (container `kafka_json`)",
            )


def _differing(container: BaseModel, format_: BaseModel) -> Iterable[Found]:
    """A key that container and format share (a delimiter, a code page) has one value in both."""
    for key in type(container).model_fields.keys() & type(format_).model_fields.keys():
        one, other = getattr(container, key), getattr(format_, key)
        if one != other:
            problem = f"is {other!r}, but {one!r} under `container`"
            yield Found(("format", key), problem, fix="write the same value in both blocks")


def _column_mistakes(format_: Format, options: BaseModel, data: dict[str, Any]) -> Iterable[Found]:
    tables = data.get("tables")
    for source, table in tables.items() if isinstance(tables, dict) else ():
        table = table if isinstance(table, dict) else {}
        earlier = table.get("earlier_columns")
        lists: list[tuple[YamlPath, Any]] = [(("columns",), table.get("columns"))]
        lists += [(("earlier_columns", i), e) for i, e in enumerate(earlier if isinstance(earlier, list) else [])]
        for place, columns in lists:
            for name, written in columns.items() if isinstance(columns, dict) else ():
                try:
                    kinds = format_.column_types({name: written}, options) if isinstance(written, str) else {}
                except ValueError as error:
                    yield Found(("tables", source, *place, name), str(error), fix="write the source's type")
                else:
                    if place == ("columns",) and name in kinds:
                        yield from _bound_mistakes(source, table, name, kinds[name].spark)


def _bound_mistakes(source: str, table: dict[str, Any], column: str, kind: str) -> Iterable[Found]:
    """Bounds and values of a column's checks that no value of its type can be compared with."""
    checks = table.get("checks")
    for i, check in enumerate(checks if isinstance(checks, list) else []):
        if not isinstance(check, dict) or check.get("column") != column:
            continue
        for bound in ("min", "max"):
            if (value := check.get(bound)) is not None and (expected := _expected_bound(kind, value)):
                problem = f"is {value!r}, and {column} is of type {kind}"
                yield Found(("tables", source, "checks", i, bound), problem, expected)
        listed = check.get("isin")
        for j, value in enumerate(listed if isinstance(listed, list) else []):
            if expected := _expected_member(kind, value):
                problem = f"is {value!r}, and {column} is of type {kind}"
                yield Found(("tables", source, "checks", i, "isin", j), problem, expected)


_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


def _expected_bound(kind: str, value: object) -> str | None:
    """What a bound has to be; None: it is that."""
    if kind.partition("(")[0] in _NUMBERS:
        return None if isinstance(value, int | float) else "a number"
    if kind in ("date", "timestamp", "timestamp_ntz"):
        try:
            datetime.fromisoformat(str(value))
        except ValueError:
            return "a date or a time, like 2026-11-20 or 2026-11-20 07:00:00"
        return None
    return "no bound: only numbers, dates and times have an order"


def _expected_member(kind: str, value: object) -> str | None:
    """What a value of a list has to be; None: it is that."""
    if kind in ("date", "timestamp", "timestamp_ntz"):
        return _expected_bound(kind, value)
    if kind == "boolean":
        return None if str(value).lower() in ("true", "false") else "'true' or 'false'"
    if kind == "string":
        return None if isinstance(value, str) else "a text: write it in quotes"
    if kind.partition("(")[0] not in _NUMBERS or isinstance(value, int):
        return None
    try:
        float(str(value))
    except ValueError:
        return "a number"
    return None


def _refusal(mistakes: list[Mistake]) -> ConfigError:
    count = "1 mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
    return ConfigError("\n".join([f"{count} in feed files", *map(str, mistakes)]))
