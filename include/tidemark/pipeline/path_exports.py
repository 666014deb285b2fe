"""Exports that lie as objects in folders by topic and hour: ``exports.path`` of a feed file."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from tidemark.errors import ExportError
from tidemark.feeds.model import Feed
from tidemark.hours import Hour
from tidemark.ledger.manifest import OffsetRange, counted_objects, load_manifests
from tidemark.pipeline.hour_export import HourExport, Readiness, TopicExport
from tidemark.settings import Settings
from tidemark.storage.contract import StoredObject
from tidemark.storage.objects import storage_of

_REMOVED = "it has landed, and the source has removed it since"


@dataclass(frozen=True, kw_only=True)
class _Folder(TopicExport):
    """What one topic's export of an hour holds at this moment. Its objects hold data only: a marker is not among them."""

    root: str
    """The folder that is there whether an hour has exports or not: TIDEMARK_EXPORTS, or what `exports.path` begins with."""
    pattern: str
    """The pattern of the objects' names, in which `exports.path` ends."""
    marker: str | None
    """Where the marker has to be; None: the feed has none."""
    marked: bool
    """Whether the marker is there."""


@dataclass(frozen=True)
class _Folders:
    """An hour of a feed's folders: see :class:`tidemark.pipeline.exports.HourExport`."""

    feed: Feed
    """The feed that reads the folders."""
    hour: Hour
    """The hour that is looked at."""
    settings: Settings
    """How storage is reached."""
    topics: list[_Folder]
    """Every topic of the feed, with what its folder holds."""

    @property
    def offsets(self) -> list[OffsetRange]:
        return []

    def readiness(self) -> Readiness:
        """With a marker: it is there for every topic. Without: nothing has changed for ``settle``, since the hour's end or
        the newest object.

        Without a marker a topic that has no object yet is waited for: by ``exports.missing: empty`` as long as that, by
        ``fail`` until ``wait`` after the end of the hour. From then on the hour is complete, without it.

        Where the root of exports is not there (a mount that is missing), nobody can tell whether there is an export.
        Of what has landed and was removed since nothing is waited for: there is nothing new.
        """
        exports = self.feed.exports
        for export in self.topics:
            if export.missing and "://" not in export.root and not Path(export.root).is_dir():
                why = f"there is no folder {export.root}: mount it, or mend TIDEMARK_EXPORTS or `exports.path`"
                return Readiness(False, why)
        if exports.marker is not None:
            unmarked = [export.marker for export in self.topics if not export.marked and not export.removed]
            if not unmarked:
                return self._ready("the marker is there for every topic")
            more = f" and {len(unmarked) - 1} more" if len(unmarked) > 1 else ""
            return Readiness(False, f"no marker yet at {unmarked[0]}{more}")
        now, end = _now(), self.hour.end
        absent = [export.topic for export in self.topics if export.missing]
        if absent and exports.missing == "fail" and now < end + exports.wait:
            return Readiness(False, f"no object yet of {', '.join(absent)}")
        newest = max([end, *(stored.modified for export in self.topics for stored in export.objects)])
        if now < newest + exports.settle:
            return Readiness(False, f"not yet {exports.settle} without a change: the last was at {newest:%FT%TZ}")
        return self._ready(f"nothing has changed since {newest:%FT%TZ}")

    def _ready(self, why: str) -> Readiness:
        removed = [export.topic for export in self.topics if export.removed]
        return Readiness(True, f"of {', '.join(removed)} there is nothing new to land: {_REMOVED}" if removed else why)

    def keep(self) -> bool:
        return True

    def notes(self) -> list[str]:
        """Which topics have objects in folders below their export's, where nothing is read."""
        notes = []
        for export in self.topics:
            if found := storage_of(export.place, self.settings).list_below(export.place, export.pattern):
                notes.append(
                    f"{export.topic}: {len(found)} objects in folders below the export's are not read, the first is "
                    f"{found[0]}: have them written to {export.place}/, or name their folder in `exports.path`"
                )
        return notes

    def fetch(self, topic: str, stored: StoredObject, folder: Path) -> StoredObject:
        return stored


def look_at_folders(feed: Feed, hour: Hour, settings: Settings, *, anew: bool = False) -> HourExport:
    """The export of every topic. Markers, and objects whose names begin with ``_`` or ``.``, are no data. ``anew``: see
    :func:`tidemark.pipeline.exports.look_at`. ExportError for an object of two topics."""
    topics = [_list_topic(feed, topic, hour, settings) for topic in feed.topics]
    _require_one_topic(feed, hour, topics)
    versions = [] if anew else load_manifests(settings, feed.feed, hour)
    if versions and versions[-1].landed:
        landed = {(one.topic, one.source, one.fingerprint) for one in counted_objects(versions)}
        topics = [_without_removed(feed, topic, landed) for topic in topics]
    return _Folders(feed, hour, settings, topics)


def _require_one_topic(feed: Feed, hour: Hour, topics: list[_Folder]) -> None:
    """Read twice, an object would count twice, and stand in for one of the other topic that is missing."""
    of: dict[str, str] = {}
    for topic, stored in ((export.topic, stored) for export in topics for stored in export.objects):
        if of.setdefault(stored.location, topic) != topic:
            raise ExportError(
                f"by `exports.path` it is an object of {of[stored.location]} and of {topic}",
                fix="have exports written to folders by topic, or named with a character behind the topic that no topic's "
                "name has, and say so in `exports.path`",
                feed=feed.feed,
                hour=hour,
                object=stored.location,
            )


def _without_removed(feed: Feed, topic: _Folder, landed: Collection[tuple[str, str, str]]) -> _Folder:
    """A topic of an hour that has landed, marked where the source has removed it. What has no marker and has not landed is an
    export that is being written; a topic of which nothing has landed may be new to the feed."""
    known = any(of == topic.topic for of, _, _ in landed)
    gone = (known and not topic.objects) or (topic.marker is not None and not topic.marked)
    new = any((topic.topic, stored.location, stored.fingerprint) not in landed for stored in topic.objects)
    removed = gone and not new and (known or feed.exports.missing == "empty")
    return replace(topic, missing=False, removed=True) if removed else topic


def _list_topic(feed: Feed, topic: str, hour: Hour, settings: Settings) -> _Folder:
    def fill_in(template: str) -> str:
        return template.format(topic=topic, date=hour.date, hour=hour.clock)

    path = feed.exports.path or ""
    relative = "://" not in path and not path.startswith("/")
    root = settings.location(settings.exports) if relative else path.partition("{")[0].rpartition("/")[0] or "/"
    folder, _, pattern = (f"{root}/{fill_in(path)}" if relative else fill_in(path)).rpartition("/")
    marker = None if feed.exports.marker is None else fill_in(feed.exports.marker)
    storage = storage_of(folder, settings)
    objects = [
        stored
        for stored in storage.list_objects(folder, pattern, root=root)
        if not stored.name.startswith(("_", ".")) and stored.name != marker
    ]
    marked = marker is not None and storage.find(f"{folder}/{marker}") is not None
    place = f"{folder}/{marker}" if marker else None
    return _Folder(
        topic=topic, place=folder, objects=objects, missing=not objects, root=root, pattern=pattern, marker=place,
        marked=marked,
    )  # fmt: skip


def _now() -> datetime:
    return datetime.now(UTC)
