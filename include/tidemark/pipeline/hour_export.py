"""What an hour of a feed's exports is at its source: what there is, whether it is all there, and how it is copied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tidemark.ledger.manifest import OffsetRange
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
