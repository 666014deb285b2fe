"""Reloads that an operator names: a table's load begins in this hour, and what stood before it is gone.

As a replay, a reload is a new version of the hour's manifest that brings no object. From there on the hour goes the
ordinary way through all stages, whoever runs it. It may be named before the hour has landed: such a version says so, and the
hour's export is still to come.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import UTC, datetime

from tidemark.errors import ConfigError, ConflictError
from tidemark.feeds.model import Feed
from tidemark.feeds.problems import nearest
from tidemark.formats import load_format
from tidemark.formats.contract import TellsTableChanges, TiesTransactions
from tidemark.hours import Hour
from tidemark.lake.lake_marker import open_lake
from tidemark.ledger.manifest import Manifest, load_manifests, named_reloads, save_manifest
from tidemark.ledger.state_store import load_state
from tidemark.settings import Settings

#: In place of a table's name: all tables of the feed.
ALL = "*"
#: What may be said behind a table's name, in brackets: the source's positions begin again with the load (a new cluster,
#: another server); the source's table is empty, so that no row of a load will come.
BEGIN_AGAIN, EMPTY = "positions begin again", "empty"
_WORDS = f"(?:{BEGIN_AGAIN}|{EMPTY})"
_DECLARED = re.compile(rf"(.+?)(?: \(({_WORDS}(?:, {_WORDS})?)\))?", re.DOTALL)


def name_reloads(
    feed: Feed, tables: list[str], hour: str, settings: Settings, *, revoke: bool = False
) -> tuple[list[str], bool]:
    """Name tables (as the source or as published, what is said of them behind; none: all of the feed's) whose reload begins
    in an hour, or take that back (none: all that the hour names). The source's tables that the hour names now, and whether it
    has to be run again: it is published, and as if they were not named so. The same again writes nothing.

    ConfigError for a table that the feed does not have, or whose positions cannot begin again."""
    hour = Hour.parse(hour)
    open_lake(settings)
    named = sorted({_named(feed, table, settings) for table in tables}) or [ALL]
    for _ in range(3):  # again when another run wrote the version meanwhile
        versions = load_manifests(settings, feed.feed, hour)
        before = named_reloads(versions) or []
        others = [name for name in before if bare(name) not in {*map(bare, named)}]
        now = _without(before, named, feed, hour) if revoke else sorted({*others, *named})
        if now == before:
            break
        newest = versions[-1] if versions else Manifest(
            feed=feed.feed, hour=hour, version=0, objects=[], created_at=datetime.now(UTC), landed=False
        )  # fmt: skip
        version = {"version": newest.version + 1, "created_at": datetime.now(UTC), "reloads": now}
        if save_manifest(settings, newest.model_copy(update=version)):
            break
    else:
        raise ConflictError(
            "other runs land or replay this hour at the same time", fix="name it again when they have ended",
            feed=feed.feed, hour=hour,
        )  # fmt: skip
    state = load_state(settings, feed.feed)
    return now, state.has(hour) and state.named_reloads.get(hour, []) != now


def declaration(table: str, words: Collection[str]) -> str:
    """A table's name with what is said of its reload, :data:`BEGIN_AGAIN` or :data:`EMPTY` or both."""
    return f"{table} ({', '.join(sorted(words))})" if words else table


def parse_declaration(name: str) -> tuple[str, set[str]]:
    """The name of a table, and what is said of its reload."""
    found = _DECLARED.fullmatch(name)
    assert found is not None, "every text with a character is a name"
    return found[1], set(found[2].split(", ")) if found[2] else set()


def bare(name: str) -> str:
    """The name of a table without what is said of its reload."""
    return parse_declaration(name)[0]


def may_begin_again(feed: Feed) -> bool:
    """Whether positions of the feed's source can begin again: nothing but rows is put in order by them."""
    return not isinstance(load_format(feed.format["type"]), TellsTableChanges | TiesTransactions)


def _named(feed: Feed, table: str, settings: Settings) -> str:
    name, words = parse_declaration(table)
    if BEGIN_AGAIN in words and not may_begin_again(feed):
        raise ConfigError(
            f"positions of the format {feed.format['type']} cannot begin again: they also say which statement, metadata or "
            "marker each row stands behind",
            fix="take a new load into a new feed", feed=feed.feed,
        )  # fmt: skip
    return declaration(source_of(feed, name, settings), words)


def source_of(feed: Feed, table: str, settings: Settings) -> str:
    """The source's name of a table, which is given by that name or by its published one; or ``*``. ConfigError: no table
    of the feed has it."""
    if table == ALL:
        return ALL
    published = {source: source for source in feed.tables}
    published |= {feed.published_name(source): source for source in feed.tables}
    for name, progress in load_state(settings, feed.feed).tables.items():
        for source in progress.sources:
            published |= {name: source, source: source}
    if table in published:
        return published[table]
    known = sorted(published)
    fix = nearest(table, known) or (f"it has: {', '.join(known)}" if known else "run an hour of the feed first")
    raise ConfigError(f"the feed {feed.feed} has no table {table!r}", fix=fix, feed=feed.feed)


def _without(before: list[str], revoked: list[str], feed: Feed, hour: Hour) -> list[str]:
    """What an hour names without those that are taken back."""
    revoked = [bare(name) for name in revoked]
    if revoked == [ALL]:
        return []
    if absent := sorted({*revoked} - {*map(bare, before)}):
        here = (
            f"it names {', '.join('all tables' if name == ALL else name for name in before)}"
            if before
            else "it names none"
        )
        fix = (
            "take all of them back by giving no table, then name the others again" if ALL in map(bare, before) else None
        )
        raise ConfigError(
            f"the hour names no reload of {', '.join(absent)}: {here}", fix=fix, feed=feed.feed, hour=hour
        )
    return [name for name in before if bare(name) not in revoked]
