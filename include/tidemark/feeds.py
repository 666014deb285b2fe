"""Feeds: one YAML file each, read into the models below.

The models are the reference of every key (``docs/feed-reference.md`` is generated from them). All mistakes of a file
are reported together (:func:`load_feed`), each with its path in the file, what was expected and a mend.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
)

from tidemark.containers import CONTAINERS, load_container
from tidemark.errors import ConfigError
from tidemark.feed_mistakes import Found, Mistake, nearest, path_text, translate
from tidemark.feed_rules import (
    cron_line,
    feed_name,
    first_hour,
    marker_name,
    module_and_class,
    path_template,
    published_name,
    published_names,
    rules_across_keys,
    safe_age,
    topic_name,
)
from tidemark.feed_yaml import Document, read_yaml
from tidemark.formats import FORMATS, load_format
from tidemark.settings import Settings

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def _duration(value: object) -> object:
    """``90s``, ``10m``, ``6h``, ``7d`` → timedelta."""
    if isinstance(value, timedelta):
        return value
    match = re.fullmatch(r"(\d{1,6})([smhd])", value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("a whole number and one of s, m, h, d, like 10m")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


Duration = Annotated[timedelta, BeforeValidator(_duration)]
Name = Annotated[str, AfterValidator(feed_name)]
PublishedName = Annotated[str, AfterValidator(published_name)]
Topic = Annotated[str, AfterValidator(topic_name)]
PathTemplate = Annotated[str, AfterValidator(path_template)]
MarkerName = Annotated[str, AfterValidator(marker_name)]
CronLine = Annotated[str, AfterValidator(cron_line)]
FirstHour = Annotated[datetime, BeforeValidator(first_hour)]
ModuleAndClass = Annotated[str, AfterValidator(module_and_class)]
#: ``true`` is no number, and text stays text: ``0001`` keeps its zeros.
Value = StrictInt | StrictFloat | StrictStr


class Model(BaseModel):
    """Unknown keys are mistakes; what is loaded does not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Exports(Model):
    """Where an hour's objects lie and when they are all there."""

    path: PathTemplate = Field(
        description="Path template over {topic}, {date} and {hour}, ending in a file pattern: "
        "`{topic}/dt={date}/hr={hour}/*`. Relative to TIDEMARK_EXPORTS, or absolute, or s3://bucket/…"
    )
    marker: MarkerName | None = Field(
        "_SUCCESS",
        description="The object beside the others that says the hour is complete; it may hold {topic}, {date} and "
        "{hour}. null: none.",
    )
    settle: Duration = Field(
        timedelta(minutes=10), description="Without a marker: complete when nothing has changed for this long."
    )
    wait: Duration = Field(
        timedelta(hours=6), description="How long `land` waits for an hour to be complete before it fails."
    )
    missing: Literal["fail", "empty"] = Field(
        "fail", description="An hour in which a topic has no object at all: fail, or an empty hour."
    )


class Check(Model):
    """One check of a table, with what a failure does."""

    consequence: Literal["stop", "quarantine", "warn"] = Field(
        "stop",
        description="stop: nothing of the hour is published. quarantine: the failing rows keep their last good "
        "version. warn: noted in the receipt.",
    )
    column: str | None = Field(None, description="The column checked. Not for `unique`.")
    not_null: bool = Field(False, description="No null.")
    min: Value | None = Field(None, description="Smallest value allowed.")
    max: Value | None = Field(None, description="Largest value allowed.")
    isin: list[StrictInt | StrictStr] | None = Field(None, min_length=1, description="The set of values allowed.")
    pattern: str | None = Field(None, description="A regular expression (Java's) found in every value.")
    unique: list[str] | None = Field(
        None, min_length=1, description="Columns that together are unique over the whole table."
    )


class Table(Model):
    """One table of a feed."""

    name: PublishedName | None = Field(
        None, description="The published schema.table. Default: the source's, in lower case."
    )
    topic: str | None = Field(None, description="The topic that carries it, where messages do not name their table.")
    key: list[str] | None = Field(
        None, description="The key columns, where the messages do not carry the key. []: the table has no key."
    )
    columns: dict[str, str] = Field(
        default_factory=dict,
        description="Columns in the source's order with the source's types, where the messages do not carry them: "
        "`balance: numeric(14,2)`.",
    )
    storage: Literal["iceberg", "parquet"] = Field("iceberg", description="What holds the snapshot.")
    checks: list[Check] = Field(default_factory=list, description="Checks with their consequences.")
    checks_module: ModuleAndClass | None = Field(
        None,
        description="`module:ClassName` of a pandera model in the checks folder, for checks that YAML cannot say.",
    )


class Quarantine(Model):
    """How many bad records an hour may hold before it stops."""

    limit: float = Field(0.01, ge=0, le=1, description="Share of the hour's records.")
    at_least: int = Field(10, ge=0, description="So many are always allowed.")


class Transactions(Model):
    """What happens to a transaction that does not complete."""

    alarm: Duration = Field(
        timedelta(hours=24),
        description="A transaction held for longer is overdue: `tidemark held` and the receipt say so.",
    )
    overdue: Literal["hold", "apply", "quarantine"] = Field(
        "hold", description="What happens to an overdue transaction."
    )


class Retention(Model):
    """What maintenance removes, and when."""

    tombstones: Duration = Field(
        timedelta(days=30),
        description="How long the place of a deleted key is kept at hand. An older change that comes later costs more "
        "then: its key is looked up in the change log.",
    )
    cuts: Duration | None = Field(
        None, description="How long the cut of an hour can be read back after it was published. null: for ever."
    )
    orphans: Annotated[Duration, AfterValidator(safe_age)] = Field(
        timedelta(days=3),
        description="The age from which on files that nothing refers to are removed; at least 1d. A run that takes "
        "longer than this would lose its files.",
    )


class Feed(Model):
    """One replication task or connector: its topics, tables, format and settings. One file, one DAG."""

    feed: Name = Field(description="The feed's name, the same as the file's: `shop` in shop.yaml.")
    description: str = Field(description="What this feed is, for the people who see its DAG.")
    owner: str = Field(description="Who answers for it.")
    tags: list[str] = Field(default_factory=list, description="Airflow tags.")
    start: FirstHour | None = Field(
        None,
        description="The first hour on schedule, like 2026-11-20T00:00:00Z. Default: only by trigger and backfill.",
    )
    schedule: CronLine | None = Field("0 * * * *", description="Cron line in UTC; null: only by trigger and backfill.")
    topics: list[Topic] = Field(min_length=1, description="The topics whose exports are read.")
    exports: Exports = Field(description="Where an hour's objects lie and when they are all there.")
    container: dict[str, Any] = Field(
        description="How an export wraps records: `type` and the container's own options."
    )
    format: dict[str, Any] = Field(description="What a record says: `type` and the format's own options.")
    tables: dict[str, Table] = Field(default_factory=dict, description="Tables by their source's schema.table.")
    undeclared: Literal["publish", "quarantine"] = Field(
        "publish",
        description="A table that messages carry and this file does not name: publish it, or quarantine its records.",
    )
    quarantine: Quarantine = Field(Quarantine(), description="How many bad records an hour may hold.")
    transactions: Transactions = Field(Transactions(), description="What happens to transactions that do not complete.")
    retention: Retention = Field(Retention(), description="What maintenance removes, and when.")
    retries: int = Field(
        3, ge=0, description="How often Airflow tries a task again after an error that can pass by itself."
    )

    def published(self, source_table: str) -> str:
        """The published ``schema.table`` of a source's table."""
        table = self.tables.get(source_table)
        return table.name if table and table.name else source_table.lower()

    @cached_property
    def container_options(self) -> BaseModel:
        """The container's ``Options``. Imports the container, and so Spark, on first use."""
        return _options(load_container(self.container["type"]), self.container)

    @cached_property
    def format_options(self) -> BaseModel:
        """The format's ``Options``. Imports the format, and so Spark, on first use."""
        return _options(load_format(self.format["type"]), self.format)


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
    known = sorted(path.stem for path in _files(folder))
    if name not in known:
        mend = nearest(name, known) or (f"it has: {', '.join(known)}" if known else "write its first feed file")
        raise ConfigError(f"there is no feed {name!r} in {folder}", mend=mend)
    return load_feed(folder / f"{name}.yaml", deep=deep)


def check_feeds(path: Path) -> list[Mistake]:
    """All mistakes of a feed file, or of every feed file of a folder, by file and line."""
    return _read_folder(path, deep=True)[1] if path.is_dir() else _read(path, deep=True).mistakes


@dataclass(frozen=True)
class _File:
    """A feed file as read: the feed, or its mistakes; and its plain content for rules across files."""

    path: Path
    data: dict[str, Any]
    document: Document
    mistakes: list[Mistake]
    feed: Feed | None

    def mistake(self, found: Found) -> Mistake:
        line = self.document.line(found.place)
        return Mistake(self.path, path_text(found.place), found.problem, found.expected, found.mend, line)


def _read(path: Path, deep: bool) -> _File:
    try:
        document = read_yaml(path.read_text("utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        document = Document(mistakes=[((), f"cannot be read: {error}", "give the path of a readable UTF-8 file")])
    data = document.value if isinstance(document.value, dict) else {}
    found = [Found(place, problem, None, mend) for place, problem, mend in document.mistakes]
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
    file = _File(path, data, document, [], None if found else feed)
    file.mistakes.extend(sorted(map(file.mistake, found), key=lambda mistake: mistake.line or 0))
    return file


def _read_folder(folder: Path, deep: bool) -> tuple[list[_File], list[Mistake]]:
    if not folder.is_dir():
        mend = "set TIDEMARK_FEEDS to the folder of feed files"
        return [], [Mistake(folder, "", "is not a folder", mend=mend)]
    files = [_read(path, deep) for path in _files(folder)]
    across: dict[Path, list[Mistake]] = {}
    published: dict[str, _File] = {}
    named: dict[str, _File] = {}
    for file in files:
        name = file.data.get("feed")
        if isinstance(name, str) and (other := named.setdefault(name, file)) is not file:
            found = Found(("feed",), f"{name!r} is also the name of the feed in {other.path.name}", mend="rename one")
            across.setdefault(file.path, []).append(file.mistake(found))
        for source, table in published_names(file.data).items():
            if (other := published.setdefault(table.lower(), file)) is not file:
                problem = f"is published as {table}, as is a table of {other.path.name}"
                found = Found(("tables", source), problem, mend="give one of them another `name`")
                across.setdefault(file.path, []).append(file.mistake(found))
    mistakes = [mistake for file in files for mistake in [*file.mistakes, *across.get(file.path, [])]]
    stray = [path for path in sorted(folder.glob("*.yml")) if not path.name.startswith(".")]
    return files, mistakes + [Mistake(path, "", "is not read", "a name in .yaml", "rename it") for path in stray]


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*.yaml")) if not path.name.startswith(".")]


def _deep_mistakes(data: dict[str, Any]) -> list[Found]:
    """What the container's and the format's own modules say of their blocks and of the declared column types."""
    found: list[Found] = []
    options: dict[str, BaseModel] = {}
    for block, known, load in (("container", CONTAINERS, load_container), ("format", FORMATS, load_format)):
        written = data.get(block)
        if not isinstance(written, dict) or written.get("type") not in known:
            continue
        module = load(written["type"])
        try:
            options[block] = _options(module, written)
        except ValidationError as error:
            found += translate(module.Options, error, written, (block,))
        if block == "format":  # types are told all the same when the block itself is wrong
            found += _column_mistakes(module, options.get(block, module.Options.model_construct()), data)
    if len(options) == 2:
        found += _differing(options["container"], options["format"])
    return found


def _differing(container: BaseModel, format_: BaseModel) -> Iterable[Found]:
    """A key that container and format share (a delimiter, a code page) says the same thing of the same bytes."""
    for key in type(container).model_fields.keys() & type(format_).model_fields.keys():
        one, other = getattr(container, key), getattr(format_, key)
        if one != other:
            problem = f"is {other!r}, but {one!r} under `container`"
            yield Found(("format", key), problem, mend="write the same value in both blocks")


def _column_mistakes(format_: ModuleType, options: BaseModel, data: dict[str, Any]) -> Iterable[Found]:
    tables = data.get("tables")
    for source, table in tables.items() if isinstance(tables, dict) else ():
        columns = table.get("columns") if isinstance(table, dict) else None
        for name, written in columns.items() if isinstance(columns, dict) else ():
            try:
                if isinstance(written, str):
                    format_.column_types({name: written}, options)
            except ValueError as error:
                yield Found(("tables", source, "columns", name), str(error), mend="write the source's type")


def _options(module: ModuleType, block: dict[str, Any]) -> BaseModel:
    own = {key: value for key, value in block.items() if key != "type"}
    return cast(BaseModel, module.Options.model_validate(own))


def _refusal(mistakes: list[Mistake]) -> ConfigError:
    count = "1 mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
    return ConfigError("\n".join([f"{count} in feed files", *map(str, mistakes)]))
