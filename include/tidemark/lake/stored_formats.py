"""The format of what a lake stores: one number for all of it. This release works on its own format and on no other.

``FORMAT`` grows by one with a release that stores anything in another way. A lake carries the number in
``<lake>/_lake.json``, an Iceberg table in its property ``tidemark.format``, a JSON document (receipt, manifest, pending
publication, pointer of a Parquet table) in its field ``format``. What is newer than this release is refused before
anything is written; what is older is refused until `tidemark migrate` has brought it up to date.

A table or document without a number has format 0 and is refused: every release writes the number, so no release wrote
it. To take it for format 1 would be a guess.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json

from tidemark import __version__
from tidemark.errors import StoredFormatError, TerminalError
from tidemark.settings import Settings
from tidemark.storage.objects import storage_of
from tidemark.storage.retry import retry

#: The format that this release writes and reads. CHANGELOG.md says what each format is.
FORMAT = 1
#: The property of an Iceberg table that holds the format of the table.
TABLE_FORMAT = "tidemark.format"


def current_format() -> int:
    """The format that this release writes."""
    return FORMAT


class StoredDocument(BaseModel):
    """A JSON document that the lake keeps. Read it with :func:`parse_document`."""

    format: int = Field(default_factory=current_format, description="The format of what the lake stores.")


D = TypeVar("D", bound=StoredDocument)


def parse_document(kind: type[D], text: str, location: str | None = None) -> D:
    """The document that a text holds. ``location``: the object that the text was read from.

    StoredFormatError when the document's format is not this release's; ValueError when the text is damaged.
    """
    fields = from_json(text)
    if isinstance(fields, dict):
        check_format(fields.get("format", 0), object=location)
    return kind.model_validate(fields)


def check_table(value: str | None, table: str) -> None:
    """StoredFormatError unless a table of ours has this release's format. ``value``: of its property TABLE_FORMAT."""
    check_format(int(value) if value and value.isdecimal() else None, table=table)


def check_format(found: Any, *, table: str | None = None, object: str | None = None, made_by: str = "") -> None:
    """StoredFormatError unless ``found`` is the format of this release. ``made_by``: the release that wrote it."""
    if found == FORMAT:
        return
    if not isinstance(found, int) or found < 1:
        raise StoredFormatError(
            "it does not say which format it has, so no release of Tidemark wrote it as it is",
            fix="restore it from a backup",
            table=table,
            object=object,
        )
    newer = f"install Tidemark {made_by} or newer" if made_by else "install a newer Tidemark"
    raise StoredFormatError(
        f"its stored format is {found}; this is Tidemark {__version__}, which works on format {FORMAT}",
        fix=newer if found > FORMAT else "run `tidemark migrate`",
        table=table,
        object=object,
    )


class LakeMarker(BaseModel):
    """What ``_lake.json`` says. ``made_by``: the release that made the lake, or brought it to this format.
    ``migrating_from``: the format that parts of the lake may still have, for its migration has not ended."""

    model_config = ConfigDict(extra="ignore")

    format: int
    made_by: str
    migrating_from: int | None = None


@retry
def open_lake(settings: Settings) -> None:
    """Called before anything is written to the lake: refuse a lake of another format, and mark a new one.

    Two processes that open a new lake at once agree: one writes the marker, and both read it.
    """
    if read_marker(settings) is None:
        location = _location(settings)
        marker = LakeMarker(format=FORMAT, made_by=__version__)
        storage_of(location, settings).write_new(location, _text(marker))
    check_lake(settings)


@retry
def check_lake(settings: Settings) -> None:
    """StoredFormatError for a lake that has another format than this release's. A lake that is not made yet is fine."""
    marker = read_marker(settings)
    if marker is None:
        return
    location = _location(settings)
    check_format(marker.format, object=location, made_by=marker.made_by)
    if marker.migrating_from is not None:
        raise StoredFormatError(
            f"the lake's migration from format {marker.migrating_from} to {marker.format} has not ended",
            fix="wait for the `tidemark migrate` that runs, or run it again",
            object=location,
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
    """Have the lake say another format. Only a migration does so."""
    location = _location(settings)
    storage_of(location, settings).write_text(location, _text(marker))


_DAMAGED = "restore it from a backup; the property tidemark.format of the lake's tables says which format it must name"


def _text(marker: LakeMarker) -> str:
    return marker.model_dump_json(exclude_none=True) + "\n"


def _location(settings: Settings) -> str:
    return f"{settings.lake_root}/_lake.json"
