"""Reloads that an operator names: a table's load begins in this hour, and what stood before it is gone.

As a replay, a reload is a new version of the hour's manifest that brings no object. From there on the hour goes the
ordinary way through all stages, whoever runs it. It may be named before the hour has landed.
"""

from __future__ import annotations

from datetime import UTC, datetime

from tidemark.errors import ConfigError, ConflictError
from tidemark.feeds.model import Feed
from tidemark.feeds.problems import nearest
from tidemark.hours import Hour
from tidemark.lake.lake_marker import open_lake
from tidemark.ledger.manifest import Manifest, all_objects, load_manifests, save_manifest
from tidemark.ledger.state_store import load_state
from tidemark.settings import Settings

#: In place of a table's name: all tables of the feed.
ALL = "*"


def name_reloads(
    feed: Feed, tables: list[str], hour: str, settings: Settings, *, revoke: bool = False
) -> tuple[list[str], bool]:
    """Name tables (as the source or as published; none: all of the feed's) whose reload begins in an hour, or take that
    back (none: all that the hour names). The source's tables that the hour names now, and whether it has to be run again:
    it is published, and as if they were not named so. The same again writes nothing.

    ConfigError for a table that the feed does not have."""
    hour = Hour.parse(hour)
    open_lake(settings)
    named = sorted({source_of(feed, table, settings) for table in tables}) or [ALL]
    for _ in range(3):  # again when another run wrote the version meanwhile
        versions = load_manifests(settings, feed.feed, hour)
        before = (all_objects(settings, feed.feed, hour).reloads or []) if versions else []
        now = _without(before, named, feed, hour) if revoke else sorted({*before, *named})
        if now == before:
            break
        newest = versions[-1] if versions else Manifest(
            feed=feed.feed, hour=hour, version=0, objects=[], created_at=datetime.now(UTC)
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
    if revoked == [ALL]:
        return []
    if absent := sorted({*revoked} - {*before}):
        here = (
            f"it names {', '.join('all tables' if name == ALL else name for name in before)}"
            if before
            else "it names none"
        )
        fix = "take all of them back by giving no table, then name the others again" if ALL in before else None
        raise ConfigError(
            f"the hour names no reload of {', '.join(absent)}: {here}", fix=fix, feed=feed.feed, hour=hour
        )
    return [name for name in before if name not in revoked]
