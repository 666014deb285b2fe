"""Where the objects of a feed's hour lie at the source, and whether they are all there."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from tidemark.errors import NotReadyError
from tidemark.feeds.model import Feed
from tidemark.hours import Hour
from tidemark.settings import Settings
from tidemark.storage.contract import StoredObject
from tidemark.storage.objects import storage_of


@dataclass(frozen=True)
class TopicExport:
    """What one topic's export of an hour holds at this moment: data objects only, and the marker if it is there."""

    topic: str
    folder: str
    pattern: str  # of the objects' names
    objects: list[StoredObject]
    marker: str | None  # where the marker has to be; None: the feed has none
    marked: bool


@dataclass(frozen=True)
class Readiness:
    """Whether an hour's export is complete, and why it is or is not, for a person."""

    ready: bool
    why: str


def list_exports(feed: Feed, hour: str, settings: Settings) -> list[TopicExport]:
    """The export of every topic. Markers, and objects whose names begin with ``_`` or ``.``, are no data."""
    return [_list_topic(feed, topic, Hour.parse(hour), settings) for topic in feed.topics]


def notes_below(exports: list[TopicExport], settings: Settings) -> list[str]:
    """For a person: which topics have objects in folders below their export's, where nothing is read. Lists the source."""
    notes = []
    for export in exports:
        if found := storage_of(export.folder, settings).list_below(export.folder, export.pattern):
            notes.append(
                f"{export.topic}: {len(found)} objects in folders below the export's are not read, the first is {found[0]}: "
                f"have them written to {export.folder}/, or name their folder in `exports.path`"
            )
    return notes


def readiness(feed: Feed, hour: str, exports: list[TopicExport]) -> Readiness:
    """With a marker: it is there for every topic. Without: there are objects, and none is younger than ``settle``.

    Without a marker a topic that has no object yet is waited for: by ``exports.missing: empty`` until ``settle`` after
    the other topics' newest object (or the end of the hour, if there is none), by ``fail`` until ``wait`` after the end
    of the hour. From then on the hour is complete, without it.
    """
    if feed.exports.marker is not None:
        unmarked = [export.marker for export in exports if not export.marked]
        if not unmarked:
            return Readiness(True, "the marker is there for every topic")
        more = f" and {len(unmarked) - 1} more" if len(unmarked) > 1 else ""
        return Readiness(False, f"no marker yet at {unmarked[0]}{more}")
    now, end = _now(), Hour.parse(hour).end
    absent = [export.topic for export in exports if not export.objects]
    if absent and feed.exports.missing == "fail" and now < end + feed.exports.wait:
        return Readiness(False, f"no object yet of {', '.join(absent)}")
    newest = max((stored.modified for export in exports for stored in export.objects), default=end)
    if now < newest + feed.exports.settle:
        return Readiness(False, f"not yet {feed.exports.settle} without a change: the last was at {newest:%FT%TZ}")
    return Readiness(True, f"nothing has changed since {newest:%FT%TZ}")


def is_complete(feed: Feed, hour: str, settings: Settings) -> Readiness:
    """Whether an hour can land now. Lists the source; reads nothing."""
    return readiness(feed, hour, list_exports(feed, hour, settings))


def require_complete(feed: Feed, hour: str, exports: list[TopicExport]) -> None:
    """NotReadyError when the hour cannot land yet."""
    found = readiness(feed, hour, exports)
    if not found.ready:
        fix = "wait for the exporter; what counts as complete is under `exports` in the feed file"
        raise NotReadyError(f"the export is not complete: {found.why}", fix=fix)


def _list_topic(feed: Feed, topic: str, hour: Hour, settings: Settings) -> TopicExport:
    def fill_in(template: str) -> str:
        return template.format(topic=topic, date=hour.date, hour=hour.clock)

    path = feed.exports.path
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
    return TopicExport(topic, folder, pattern, objects, f"{folder}/{marker}" if marker else None, marked)


def _now() -> datetime:
    return datetime.now(UTC)
