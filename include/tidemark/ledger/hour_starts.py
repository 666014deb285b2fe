"""At which offsets an hour begins in each partition of a feed that reads Kafka. What is decided stays so.

``<landing>/<feed>/_offsets/<hour>/v00001.json``. An hour is all from its start to the start of the next, so that every
offset is of one hour, in whichever order hours land, and again. A later version only adds topics.
"""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from tidemark.errors import ExportError
from tidemark.hours import Hour
from tidemark.lake.stored_formats import StoredDocument, parse_document
from tidemark.settings import Settings
from tidemark.storage.landing_layout import hour_starts_folder, manifest_name
from tidemark.storage.objects import storage_of

#: In the place of a topic's id: the brokers knew no such topic. The hour begins at offset 0 of the topic that is made later,
#: whatever the times of its records, for the hours before have landed without it.
NOT_THERE = ""


class TopicStart(BaseModel):
    """Where an hour begins in a topic."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(
        description="Kafka's id of the topic: another topic of the same name has another. Empty: there was no topic."
    )
    offsets: dict[int, int] = Field(
        description="The first offset by partition. A partition that was made later is not here: the hour begins at its 0."
    )
    notes: list[str] = Field([], description="What a person should know of how it was decided.")


class HourStart(StoredDocument):
    """Where an hour begins in the topics of a feed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    feed: str = Field(description="The feed's name.")
    hour: Hour = Field(description="The hour that begins there.")
    version: int = Field(description="The number of this version, from 1. A later one only adds topics.")
    topics: dict[str, TopicStart] = Field(description="By topic, its first offsets.")
    created_at: datetime = Field(description="When this version was written.")


def load_hour_start(settings: Settings, feed: str, hour: Hour) -> HourStart | None:
    """Where an hour begins; None when nothing is decided."""
    folder = _folder(settings, feed, hour)
    storage = storage_of(folder, settings)
    names = storage.list_names(folder, "v*.json")
    if not names:
        return None
    location = f"{folder}/{names[-1]}"
    try:
        return parse_document(HourStart, storage.read_text(location), location)
    except ValueError as error:
        fix = "restore it from a backup: the hours' manifests name the same offsets"
        raise ExportError(f"is damaged: {error}", feed=feed, hour=hour, object=location, fix=fix) from error


def save_hour_start(settings: Settings, start: HourStart) -> bool:
    """Write a new version. False: this version is already there, written by another run."""
    location = f"{_folder(settings, start.feed, start.hour)}/{manifest_name(start.version)}"
    return storage_of(location, settings).write_new(location, start.model_dump_json(indent=1) + "\n")


def _folder(settings: Settings, feed: str, hour: Hour) -> str:
    return f"{settings.landing_root}/{hour_starts_folder(feed, hour)}"
