"""The format of what a lake stores: one number for all of it. This release works on its own format and on no other.

``FORMAT`` grows by one with a release that stores anything in another way. A lake carries the number in
``<lake>/_lake.json``, an Iceberg table in its property ``tidemark.format``, a JSON document (receipt, manifest, pending
publication, list of Parquet copies) in its field ``format``. What is newer than this release is refused before anything
is written. Format 1 is the first, so nothing is older.

A table or document without a number has format 0 and is refused: every release writes the number, so no release wrote
it. To take it for format 1 would be a guess.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, Field
from pydantic_core import from_json

from tidemark import __version__
from tidemark.errors import StoredFormatError

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
        fix=newer,
        table=table,
        object=object,
    )
