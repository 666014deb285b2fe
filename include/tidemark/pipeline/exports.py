"""An hour of a feed's exports at its source: what there is, whether it is all there, and how it is copied.

A source is an :class:`HourExport`: objects in folders (:mod:`tidemark.pipeline.path_exports`), or Kafka itself
(:mod:`tidemark.pipeline.kafka_exports`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tidemark.errors import NotReadyError
from tidemark.feeds.model import Feed
from tidemark.hours import Hour
from tidemark.ledger.manifest import OffsetRange
from tidemark.settings import Settings
from tidemark.storage.contract import StoredObject


@dataclass(frozen=True, kw_only=True)
class TopicExport:
    """What the source holds of one topic for an hour."""

    topic: str
    """The topic's name."""
    place: str
    """Where it is at the source: a folder, or `kafka:` and the topic."""
    objects: list[StoredObject]
    """The objects that hold its records."""
    missing: bool
    """Whether not even an empty export of it is there."""
    removed: bool = False
    """Whether it has landed, and the source has removed it, or its marker, since: what is left of it has landed too."""


@dataclass(frozen=True)
class Readiness:
    """Whether an hour's export is complete."""

    ready: bool
    """Whether it is."""
    why: str
    """Why it is or is not, for a person."""


class HourExport(Protocol):
    """One look at an hour's export. It does not change; for what came later look again."""

    @property
    def topics(self) -> Sequence[TopicExport]:
        """Every topic of the feed."""

    @property
    def offsets(self) -> list[OffsetRange]:
        """The offsets that the hour is made of; [] where a source has none."""

    def readiness(self) -> Readiness:
        """Whether the hour can land as it was seen."""

    def keep(self) -> bool:
        """Called when the hour is complete, before anything is copied: what it is made of stays so. False: another run has
        decided otherwise meanwhile; look again."""

    def notes(self) -> list[str]:
        """What a person should know of the export, for the receipt. May list the source."""

    def fetch(self, topic: str, stored: StoredObject, folder: Path) -> StoredObject:
        """An object whose bytes can be read: the one of the source, or a copy of it in a folder for passing files."""


def look_at(feed: Feed, hour: str, settings: Settings, *, anew: bool = False) -> HourExport:
    """The hour's export as it is now. ``anew``: what has landed does not make up for what the source lacks."""
    if feed.exports.kafka is not None:
        from tidemark.pipeline.kafka_exports import look_at_topics  # its client is loaded by those who need it

        return look_at_topics(feed, Hour.parse(hour), settings)
    from tidemark.pipeline.path_exports import look_at_folders

    return look_at_folders(feed, Hour.parse(hour), settings, anew=anew)


def is_complete(feed: Feed, hour: str, settings: Settings) -> Readiness:
    """Whether an hour can land now. Lists the source; reads nothing."""
    return look_at(feed, hour, settings).readiness()


def require_complete(export: HourExport) -> None:
    """NotReadyError when the hour cannot land yet."""
    found = export.readiness()
    if not found.ready:
        fix = "wait for the exporter; what counts as complete is under `exports` in the feed file"
        raise NotReadyError(f"the export is not complete: {found.why}", fix=fix)
