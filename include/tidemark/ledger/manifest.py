"""Manifests: what landed for an hour of a feed, object by object. A manifest is written once and never replaced.

``<landing>/<feed>/_manifests/<hour>/v00001.json``; a changed source gives ``v00002.json`` beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from tidemark.errors import ExportError, TidemarkError
from tidemark.hours import Hour
from tidemark.lake.stored_formats import StoredDocument, parse_document
from tidemark.settings import Settings
from tidemark.storage.landing_layout import (
    feed_manifests_folder,
    manifest_name,
    manifests_folder,
    named_version,
    version_of,
)
from tidemark.storage.objects import storage_of


class LandedObject(BaseModel):
    """One object as it landed: exactly the bytes of ``sha256``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str = Field(description="Where it is, relative to the landing's root.")
    topic: str = Field(description="The topic that its records are of.")
    source: str = Field(description="Where it came from: the exporter's own path or s3:// location.")
    fingerprint: str = Field(
        description="The source's ETag, or size and times: while it is the same, so are the bytes."
    )
    bytes: int = Field(description="How many bytes it has, as it lies.")
    sha256: str = Field(description="The SHA-256 of these bytes, in hexadecimal.")
    records: int | None = Field(description="How many records it holds; null: only decoding can tell.")
    plain: bool = Field(
        False,
        description="Landing saw that all its bytes are UTF-8, and that its keys, values and header values are text: decode "
        "does not look again.",
    )
    contained_by: str = Field(
        "",
        description="A hash of the feed file's `container` by which landing saw `records` and `plain`: they count while the "
        "file says the same.",
    )

    @property
    def version(self) -> int:
        """The version of the hour's export that it came with, from its folder ``…/v00002/…``."""
        return version_of(self.path)


class OffsetRange(BaseModel):
    """The offsets of one partition that an hour is made of."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    topic: str = Field(description="The topic that the partition is of.")
    partition: int = Field(description="The partition's number.")
    first: int = Field(description="The first offset.")
    end: int = Field(description="The offset behind the last. The same as the first: the range is empty.")


#: Bytes of an hour's objects, as they landed, below which it counts as small, and from which it counts as large.
_SMALL, _LARGE = 8 << 20, 256 << 20


class Manifest(StoredDocument):
    """One version of what landed for an hour."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    feed: str = Field(description="The feed's name.")
    hour: Hour = Field(description="The hour that landed.")
    version: int = Field(description="The number of this version of the hour's export, from 1.")
    objects: list[LandedObject] = Field(
        description="What the export consisted of when this version landed, also what had landed before."
    )
    created_at: datetime = Field(description="When this version was written.")
    landed: bool = Field(
        True,
        description="Whether the hour has landed by this version. false: an operator has named reloads before it did.",
    )
    recalls: int = Field(
        0,
        description="Not 0: what the hour's publications up to this sequence number put in quarantine is decoded again.",
    )

    reloads: list[str] | None = Field(
        None,
        description="The source's tables that an operator has reloaded from this hour on; `*`: all of the feed's. null: this "
        "version says nothing about it.",
    )

    withdrawn: list[str] = Field(
        [],
        description="Paths of objects of earlier versions that do not count: they were not published when the hour landed "
        "anew.",
    )
    offsets: list[OffsetRange] = Field(
        [], description="Of a feed that reads Kafka: what was read, empty ranges too. [] for other feeds."
    )
    notes: list[str] = Field([], description="What a person should know of the export, for the receipt.")

    @property
    def empty(self) -> bool:
        """Whether nothing was exported in the hour."""
        return not self.objects

    @property
    def small(self) -> bool:
        """Whether planning and code generation cost such an hour more time than its rows do."""
        return self.bytes < _SMALL

    @property
    def large(self) -> bool:
        """Whether its stages take so long that it costs little to start Spark for each of them."""
        return self.bytes >= _LARGE

    @property
    def bytes(self) -> int:
        """Of its objects, as they lie."""
        return sum(landed.bytes for landed in self.objects)


def load_manifests(settings: Settings, feed: str, hour: str) -> list[Manifest]:
    """All versions of an hour's manifest, oldest first; [] when nothing is said of the hour. Where only reloads have been
    named so far, the newest says that the hour has not landed."""
    folder = _folder(settings, feed, hour)
    storage = storage_of(folder, settings)
    manifests = []
    for stored in storage.list_objects(folder, "v*.json"):
        try:
            manifests.append(parse_document(Manifest, storage.read_text(stored.location), stored.location))
        except ValueError as error:  # not UTF-8, no JSON, or no manifest
            fix = "restore it from a backup; the objects it lists are still in the landing"
            raise ExportError(
                f"the manifest is damaged: {error}", feed=feed, hour=hour, object=stored.location, fix=fix
            ) from error
        except TidemarkError as error:
            error.feed, error.hour = feed, hour
            raise
    return sorted(manifests, key=lambda manifest: manifest.version)


def newest_version(settings: Settings, feed: str, hour: str) -> int:
    """The newest version of an hour's manifest, by its name: none is read. 0: nothing is said of the hour."""
    folder = _folder(settings, feed, hour)
    return max(map(named_version, storage_of(folder, settings).list_names(folder, "v*.json")), default=0)


def has_landed(settings: Settings, feed: str, hour: str) -> bool:
    """Whether an hour has landed: a reload may have been named for it before."""
    manifests = load_manifests(settings, feed, hour)
    return bool(manifests) and manifests[-1].landed


def first_landed(settings: Settings, feed: str) -> Hour | None:
    """The oldest hour of a feed that has landed; None: none has."""
    folder = f"{settings.landing_root}/{feed_manifests_folder(feed)}"
    hours = dict.fromkeys(path.split("/")[-2] for path in storage_of(folder, settings).list_below(folder, "v*.json"))
    return next((Hour.parse(hour) for hour in hours if has_landed(settings, feed, hour)), None)


def load_manifest(settings: Settings, feed: str, hour: str) -> Manifest:
    """The newest version of an hour's manifest: the export as it was when it landed last."""
    return _landed_versions(settings, feed, hour)[-1]


def all_objects(settings: Settings, feed: str, hour: str) -> Manifest:
    """What decode reads: the newest manifest with the objects of *all* versions, so that nothing that landed is lost.

    An object that the source replaced or removed after it landed is still among them (:func:`counted_objects`); so is what
    any version recalls.
    What is reloaded is what the newest version that speaks of it says.
    """
    versions = _landed_versions(settings, feed, hour)
    recalls = max(version.recalls for version in versions)
    return versions[-1].model_copy(
        update={"objects": counted_objects(versions), "recalls": recalls, "reloads": named_reloads(versions)}
    )


def named_reloads(versions: Sequence[Manifest]) -> list[str] | None:
    """What the newest of an hour's versions that speaks of reloads says; None: none does."""
    return next((version.reloads for version in reversed(versions) if version.reloads is not None), None)


def counted_objects(versions: Sequence[Manifest]) -> list[LandedObject]:
    """The objects of all versions of an hour, by path, but for those that a version withdrew."""
    withdrawn = {path for version in versions for path in version.withdrawn}
    landed = {object_.path: object_ for version in versions for object_ in version.objects}
    return [landed[path] for path in sorted(landed.keys() - withdrawn)]


def save_manifest(settings: Settings, manifest: Manifest) -> bool:
    """Write a new version. False: this version is already there, written by another run."""
    location = f"{_folder(settings, manifest.feed, manifest.hour)}/{manifest_name(manifest.version)}"
    return storage_of(location, settings).write_new(location, manifest.model_dump_json(indent=1) + "\n")


def _landed_versions(settings: Settings, feed: str, hour: str) -> list[Manifest]:
    manifests = load_manifests(settings, feed, hour)
    if not manifests or not manifests[-1].landed:
        fix = f"`tidemark run {feed} --hour {hour}` lands and runs it"
        raise ExportError("the hour has not landed", feed=feed, hour=hour, fix=fix)
    return manifests


def _folder(settings: Settings, feed: str, hour: str) -> str:
    return f"{settings.landing_root}/{manifests_folder(feed, Hour.parse(hour))}"
