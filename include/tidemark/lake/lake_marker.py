"""The lake's marker, ``<lake>/_lake.json``: which format the lake has, and which catalog is its own.

A lake is files and a catalog, and each is of no use without the other. The marker holds an id that the first hour also
writes into the catalog, as a property of the namespace ``tidemark``. Whoever opens the lake compares the two: where a
catalog was moved away, or its address mistyped, a new lake would begin in silence, and maintenance would take the files
of the old one for orphans.
"""

from __future__ import annotations

import uuid

from pydantic import BaseModel, ConfigDict, ValidationError

from tidemark import __version__
from tidemark.errors import ConfigError, TerminalError
from tidemark.lake.catalog import lake_of_catalog
from tidemark.lake.stored_formats import check_format, current_format
from tidemark.settings import Settings
from tidemark.storage.conditional_writes import require_conditional_writes
from tidemark.storage.objects import storage_of
from tidemark.storage.retry import retry


class LakeMarker(BaseModel):
    """What ``_lake.json`` says."""

    model_config = ConfigDict(extra="ignore")

    format: int
    """The format of what the lake stores (:mod:`tidemark.lake.stored_formats`)."""
    made_by: str
    """The release that made the lake."""
    id: str
    """The lake's own, which its catalog knows too."""
    in_catalog: bool = False
    """Whether the catalog has been told the id: not before the first hour makes a table."""


@retry
def open_lake(settings: Settings) -> None:
    """Called before anything is written to the lake: refuse what :func:`check_lake` refuses, and mark a new lake,
    whose storage, and its landing's, has conditional writes.

    Two processes that open a new lake at once agree: one writes the marker, and both read it.
    """
    check_lake(settings)
    if read_marker(settings) is None:
        for root in (settings.lake_root, *([settings.landing_root] if settings.landing else [])):
            require_conditional_writes(root, settings)
        location = _location(settings)
        marker = LakeMarker(format=current_format(), made_by=__version__, id=uuid.uuid4().hex)
        storage_of(location, settings).write_new(location, _text(marker))
        check_lake(settings)


@retry
def check_lake(settings: Settings) -> None:
    """StoredFormatError for a lake that has another format than this release's, ConfigError for a lake and a catalog
    that do not belong together. A lake that is not made yet is fine."""
    marker = read_marker(settings)
    if marker is not None:
        check_format(marker.format, object=_location(settings), made_by=marker.made_by)
    _check_catalog(marker, settings)


def _check_catalog(marker: LakeMarker | None, settings: Settings) -> None:
    known = lake_of_catalog(settings)
    if known is None and (marker is None or not marker.in_catalog):
        return
    if known is None:
        raise ConfigError(
            f"the catalog {settings.shown_catalog} does not know this lake",
            fix="set TIDEMARK_CATALOG_URI to the catalog that the lake was made with, or restore that from a backup; "
            "to begin a new lake, set TIDEMARK_LAKE to another place",
            object=_location(settings),
        )
    if marker is None or marker.id != known:
        raise ConfigError(
            f"the catalog {settings.shown_catalog} belongs to another lake",
            fix=f"set TIDEMARK_LAKE to the lake whose _lake.json has the id {known}, or restore that from a backup; "
            "to begin a new lake, set TIDEMARK_CATALOG_URI to another catalog",
            object=_location(settings),
        )


def read_marker(settings: Settings) -> LakeMarker | None:
    """What ``_lake.json`` says; None where no release has used the lake yet."""
    location = _location(settings)
    storage = storage_of(location, settings)
    if storage.find(location) is None:
        return None
    try:
        return LakeMarker.model_validate_json(storage.read_text(location))
    except (ValidationError, UnicodeDecodeError) as error:
        raise TerminalError(f"the lake's marker is damaged: {error}", object=location, fix=_DAMAGED) from error


def write_marker(settings: Settings, marker: LakeMarker) -> None:
    """Write what ``_lake.json`` says anew."""
    location = _location(settings)
    storage_of(location, settings).write_text(location, _text(marker))


_DAMAGED = "restore it from a backup; the property tidemark.format of the lake's tables says which format it must name"


def _text(marker: LakeMarker) -> str:
    return marker.model_dump_json(exclude_none=True) + "\n"


def _location(settings: Settings) -> str:
    return f"{settings.lake_root}/_lake.json"
