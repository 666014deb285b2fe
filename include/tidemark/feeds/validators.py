"""What a feed file must hold beyond the kinds of its values: rules of single values, and rules across keys.

Rules of single values raise ``ValueError`` with what was expected; the models of :mod:`tidemark.feeds.model` use them. Rules
across keys read the file's plain content, so that they are also checked when another part of the file is wrong.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

from tidemark.containers import CONTAINERS
from tidemark.errors import ConfigError
from tidemark.feeds.notifiers import rules_of_alerts
from tidemark.feeds.problems import Found, nearest
from tidemark.feeds.strict_yaml import YamlPath
from tidemark.formats import FORMATS
from tidemark.hours import Hour
from tidemark.identifiers import RESERVED_SCHEMA, TIDEMARK, default_name, is_published_name

_WILD = re.compile(r"[*?\[]")
_TESTS = ("not_null", "min", "max", "isin", "pattern")


def feed_name(value: str) -> str:
    """A feed's name is part of paths, tables and DAG ids."""
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,62}", value):
        raise ValueError("a lower-case letter, then lower-case letters, digits and _ (at most 63)")
    return value


def topic_name(value: str) -> str:
    """A topic's name is a folder of the landing: Kafka's characters and those of Pub/Sub, no path."""
    if not re.fullmatch(r"[A-Za-z0-9._~+%-]{1,249}", value) or set(value) == {"."}:
        raise ValueError("a topic's name: letters, digits and . _ - ~ + % (at most 249)")
    return value


def published_name(value: str) -> str:
    """``schema.table``; the schema ``tidemark`` is the lake's own."""
    if value.lower().startswith(f"{RESERVED_SCHEMA}."):
        raise ValueError(f"another schema: `{RESERVED_SCHEMA}` is reserved for the lake's own tables")
    if not is_published_name(value):
        raise ValueError(
            "schema.table, each of small letters, digits, _ and $ (at most 128), not beginning with a digit or $"
        )
    return value


def first_hour(value: object) -> object:
    """A whole hour in UTC."""
    try:
        if isinstance(value, datetime):
            return Hour.of(value).start
        return Hour.parse(value).start if isinstance(value, str) else value
    except ConfigError as error:
        raise ValueError("a whole hour in UTC, like 2026-11-20T00:00:00Z") from error


def safe_age(value: timedelta) -> timedelta:
    """Iceberg refuses to call younger files orphaned."""
    if value < timedelta(days=1):
        raise ValueError("a day or more, like 3d")
    return value


def hourly_line(value: str) -> str:
    """A cron line of once an hour. An hour's export belongs to one run: on any other schedule hours are never read."""
    if not re.fullmatch(r"[1-5]?\d( \*){4}", value):
        raise ValueError("a minute of every hour, like `0 * * * *` or `15 * * * *`")
    return value


def module_and_class(value: str) -> str:
    """``module:ClassName``, each an identifier, so that it can name nothing outside the folder of checks."""
    if not re.fullmatch(r"[A-Za-z_]\w*:[A-Za-z_]\w*", value):
        raise ValueError("`module:ClassName`: a module in the folder of checks and a pandera model in it")
    return value


def path_template(value: str) -> str:
    """Where exports lie: which placeholders, which roots, and a pattern only in the last part."""
    folder, _, pattern = value.rpartition("/")
    wrong = _placeholder_mistakes(value)
    if "://" in value:
        bucket = re.fullmatch(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?", folder)
        if not bucket:
            wrong.append("a local path, or s3:// with a bucket's name and a path: s3://bucket/…")
        folder = (bucket[1] or "") if bucket else ""
    if value.startswith("~"):
        wrong.append("a path without `~`: absolute, or relative to TIDEMARK_EXPORTS")
    parts = folder.removeprefix("/").split("/") if folder.removeprefix("/") else []
    if any(part in ("", ".", "..") for part in parts):
        wrong.append("a path without empty parts, `.` or `..`")
    if not _WILD.search(pattern) or "**" in pattern:
        wrong.append("a path that ends in a pattern for the objects' names, like /* or /*.jsonl.gz")
    if any(_WILD.search(part) for part in parts):
        wrong.append("a pattern only in the last part: the folders before it are named by {topic}, {date}, {hour}")
    if "{date}" not in value or "{hour}" not in value:
        wrong.append("a path that names the hour: with {date} (2026-11-20) and {hour} (07)")
    if wrong:
        raise ValueError("; ".join(wrong))
    return value


def host_and_port(value: str) -> str:
    """Where a server is reached."""
    found = re.fullmatch(r"(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]):(\d{1,5})", value)
    if not found or not 0 < int(found[1]) < 65536:
        raise ValueError("a host and a port, like `broker-1.example.org:9092`")
    return value


def marker_name(value: str) -> str:
    """The name of one object; it may hold placeholders."""
    wrong = _placeholder_mistakes(value)
    if not value or "/" in value or value in (".", ".."):
        wrong.append("an object's name, without a path: it lies beside the objects of its hour")
    if wrong:
        raise ValueError("; ".join(wrong))
    return value


def _placeholder_mistakes(value: str) -> list[str]:
    rest = re.sub(r"\{(?:topic|date|hour)\}", "", value)
    known = "{" not in rest and "}" not in rest
    wrong = [] if known else ["no other placeholders than {topic}, {date} and {hour}"]
    return wrong if value.isprintable() else [*wrong, "a path without control characters"]


def rules_across_keys(data: dict[str, Any], file_stem: str) -> Iterator[Found]:
    """The rules that involve several keys of one file."""
    if isinstance(data.get("feed"), str) and data["feed"] != file_stem:
        yield Found(
            ("feed",), f"is {data['feed']!r}, but the file is {file_stem}.yaml", "the file's name", "rename one of them"
        )
    yield from _repeated(_texts(data.get("topics")), ("topics",))
    yield from _type_known(data, "container", CONTAINERS)
    yield from _type_known(data, "format", FORMATS)
    yield from _exports(data)
    yield from _published_twice(data)
    for messages in _messages_table(data):
        if messages not in _dict(data.get("tables")):
            yield from _default_published(("format", "messages"), messages)
    topics = _texts(data.get("topics"))
    for source, table in _dict(data.get("tables")).items():
        yield from _table(("tables", source), source, _dict(table), topics)
    yield from _fitting(data, topics)
    yield from rules_of_alerts(data)


def _fitting(data: dict[str, Any], topics: list[str]) -> Iterator[Found]:
    """What container, format and topics need of each other."""
    container, format_ = _dict(data.get("container")).get("type"), _dict(data.get("format"))
    if container == "raw" and format_.get("type") in FORMATS and format_["type"] != "ibm":
        yield Found(
            ("container", "type"), f"cannot carry messages of {format_['type']}: `raw` is IBM's records back to back",
            "another container, like `kafka_json` or `lines`", "see docs/containers.md",
        )  # fmt: skip
    markers = format_.get("transactions")
    if format_.get("type") == "debezium" and isinstance(markers, str) and markers not in topics:
        yield Found(
            ("format", "transactions"), f"holds {markers!r}", "one of the feed's topics",
            nearest(markers, topics) or "add it to `topics`",
        )  # fmt: skip

    if format_.get("type") == "debezium" and format_.get("connector") == "sqlserver":
        yield from _of_two_databases(topics)


def _of_two_databases(topics: list[str]) -> Iterator[Found]:
    """Topics (``<prefix>.<database>.<schema>.<table>``) of tables of one name, whose rows would be one table."""
    first: dict[str, str] = {}
    for i, topic in enumerate(topics):
        parts = topic.split(".")
        other = first.setdefault(".".join(parts[-2:]), topic) if len(parts) > 3 else topic
        if other != topic:
            name = ".".join(parts[-2:])
            problem = f"carries {name}, as {other} does: rows of two databases would be one table"
            yield Found(("topics", i), problem, "topics of one database", "make a feed for each database")


def published_names(data: dict[str, Any]) -> dict[str, str]:
    """Source's table → published name, of the tables that a file names: under `tables`, and for logical messages."""
    tables = _dict(data.get("tables"))
    messages = _messages_table(data)
    names = {source: _dict(tables.get(source)).get("name") or default_name(source) for source in [*tables, *messages]}
    return {source: name for source, name in names.items() if isinstance(name, str)}


def place_of(source: str, data: dict[str, Any]) -> YamlPath:
    """Where a file names a source's table."""
    return ("tables", source) if source in _dict(data.get("tables")) else ("format", "messages")


def _messages_table(data: dict[str, Any]) -> list[str]:
    """The table of Debezium's logical messages, where the feed publishes them."""
    format_ = _dict(data.get("format"))
    messages = format_.get("messages") if format_.get("type") == "debezium" else None
    return [messages] if isinstance(messages, str) else []


def _type_known(data: dict[str, Any], block: str, known: Iterable[str]) -> Iterator[Found]:
    written = _dict(data.get(block)).get("type")
    if isinstance(data.get(block), dict) and str(written) not in known:
        problem = f"holds {written!r}" if written is not None else "is missing"
        yield Found((block, "type"), problem, "one of " + ", ".join(known), nearest(str(written), known))


def _exports(data: dict[str, Any]) -> Iterator[Found]:
    exports = _dict(data.get("exports"))
    yield from _kafka(data, exports) if exports.get("kafka") is not None else ()
    path, marker = exports.get("path"), exports.get("marker", "_SUCCESS")
    if not isinstance(path, str):
        return
    if "{topic}" not in path and len(_texts(data.get("topics"))) > 1:
        yield Found(("exports", "path"), "is the same for every topic", "{topic} in it", "add it")
    yield from _of_two_topics(path, _texts(data.get("topics")))
    folder = str(PurePosixPath(path).parent)
    missing = [f"{{{name}}}" for name in ("date", "hour") if f"{{{name}}}" not in f"{folder}/{marker}"]
    if isinstance(marker, str) and missing and all(name in path for name in missing):
        fix = f"name the marker by the hour too, like `{{date}}-{{hour}}{marker}`, or make folders by hour"
        yield Found(
            ("exports", "marker"), "would be the same object for many hours", f"{', '.join(missing)} in it", fix
        )


def _of_two_topics(path: str, topics: list[str]) -> Iterator[Found]:
    """The first two topics of which one's objects, by their names, are the other's too. In folders by topic none are."""
    folder, _, pattern = path.rpartition("/")
    if "{topic}" in folder or "{topic}" not in pattern:
        return
    for topic in topics:
        name = pattern.replace("{topic}", topic).replace("*", "")
        other = next(
            (one for one in topics if fnmatchcase(name, pattern.replace("{topic}", one)) and one != topic), None
        )
        if other is not None:
            yield Found(
                ("exports", "path"), f"takes objects of {topic} for those of {other} too, like {name}",
                "names by which each object is of one topic",
                "have them written to folders by topic, or with a character behind the topic that no topic's name has",
            )  # fmt: skip
            return


def _kafka(data: dict[str, Any], exports: dict[str, Any]) -> Iterator[Found]:
    fixed = "`{type: kafka_json, base64: true}`, which is what is read from Kafka"
    if "container" in data and data["container"] != {"type": "kafka_json", "base64": True}:
        yield Found(("container",), "is fixed with `exports.kafka`", fixed, "remove it")
    if "marker" in exports:
        yield Found(("exports", "marker"), "is of `path`: a topic has no objects beside it", fix="remove it")


def _published_twice(data: dict[str, Any]) -> Iterator[Found]:
    first: dict[str, str] = {}
    for source, name in published_names(data).items():
        other = first.setdefault(name.lower(), source)
        if other != source:
            problem = f"is published as {name}, as is {other} (letter case does not count)"
            yield Found(place_of(source, data), problem, fix="give one of them another `name` under `tables`")


_SAME_WIDTH = "records of both look alike: keep the one that the feed's records have"


def _table(place: YamlPath, source: str, table: dict[str, Any], topics: list[str]) -> Iterator[Found]:
    if table.get("name") is None:
        yield from _default_published(place, source)
    topic = table.get("topic")
    if isinstance(topic, str) and topic not in topics:
        yield Found((*place, "topic"), f"holds {topic!r}", "one of the feed's topics", nearest(topic, topics))
    columns = list(_dict(table.get("columns")))
    yield from _column_names(columns, (*place, "columns"))
    earlier = table.get("earlier_columns")
    yield from _earlier(place, columns, earlier if isinstance(earlier, list) else [], _texts(table.get("key")))
    key = _texts(table.get("key"))
    yield from _repeated(key, (*place, "key"))
    yield from _unknown(key, columns, (*place, "key"))
    checks = table.get("checks")
    for i, check in enumerate(checks if isinstance(checks, list) else []):
        yield from _check((*place, "checks", i), _dict(check), columns)


def _default_published(place: YamlPath, source: str) -> Iterator[Found]:
    try:
        published_name(default_name(source))
    except ValueError as error:
        fix = f"give it a `name`, under tables.{source}" if place[0] == "format" else "give it a `name`"
        yield Found(place, f"cannot be published as {default_name(source)!r}", str(error), fix)


def _column_names(columns: list[str], place: YamlPath) -> Iterator[Found]:
    repeated = [name for name, times in Counter(column.lower() for column in columns).items() if times > 1]
    for name in repeated:
        yield Found(place, f"names {name!r} in several spellings", fix="keep one: case does not count")
    if TIDEMARK in (column.lower() for column in columns):
        yield Found(place, f"holds {TIDEMARK!r}", "another name: this one is reserved for Tidemark")


def _earlier(place: YamlPath, columns: list[str], lists: list[Any], key: list[str]) -> Iterator[Found]:
    """Earlier lists of columns: a record is matched to a list by the number of columns, so no two may have the same."""
    widths = {len(columns)}
    for i, listed in enumerate(lists):
        names, here = list(_dict(listed)), (*place, "earlier_columns", i)
        yield from _column_names(names, here)
        yield from _unknown(key, names, here, listed=False)
        if len(names) in widths:
            yield Found(here, f"has {len(names)} columns, as another list of the table has", fix=_SAME_WIDTH)
        widths.add(len(names))


def _check(place: YamlPath, check: dict[str, Any], columns: list[str]) -> Iterator[Found]:
    tests = [name for name in _TESTS if check.get(name) is not None and check.get(name) is not False]  # 0 tests
    column, unique = check.get("column"), _texts(check.get("unique"))
    if unique and (column is not None or tests):
        yield Found(place, "mixes `unique` with a check of one column", fix="write two checks")
    elif not unique and column is None:
        yield Found(place, "names no column", "`column`, or `unique` with a list of columns", "add `column:`")
    elif not unique and not tests:
        yield Found(place, "tests nothing", "one or more of " + ", ".join(_TESTS), "add one, or remove the check")
    low, high = check.get("min"), check.get("max")
    if isinstance(low, int | float) and isinstance(high, int | float) and low > high:
        yield Found((*place, "min"), f"is {low}, above max {high}", fix="swap them")
    if isinstance(column, str):
        yield from _unknown([column], columns, (*place, "column"), listed=False)
    if isinstance(pattern := check.get("pattern"), str) and (wrong := _wrong_pattern(pattern)):
        yield Found((*place, "pattern"), f"is no regular expression: {wrong}", fix="close it, or write \\ before it")
    yield from _repeated(unique, (*place, "unique"))
    yield from _unknown(unique, columns, (*place, "unique"))


def _wrong_pattern(pattern: str) -> str | None:
    """Why a pattern is none in Java: what Python says of brackets, in which the two agree."""
    try:
        with warnings.catch_warnings(action="ignore"):
            re.compile(pattern)
    except re.error as error:
        told = ("missing )", "unbalanced parenthesis", "unterminated character set", "nothing to repeat")
        return str(error) if error.msg.startswith(told) else None
    return None


def _unknown(names: list[str], columns: list[str], place: YamlPath, *, listed: bool = True) -> Iterator[Found]:
    """Names that are no column, where the file says which columns there are."""
    for i, name in enumerate(names):
        if columns and name not in columns:
            here = (*place, i) if listed else place
            yield Found(
                here, f"{name!r} is not a column of the table", "one of " + ", ".join(columns), nearest(name, columns)
            )


def _repeated(names: list[str], place: YamlPath) -> Iterator[Found]:
    for i, name in enumerate(names):
        if name in names[:i]:
            yield Found((*place, i), f"{name!r} is listed twice", fix="remove one")


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
