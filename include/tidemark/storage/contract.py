"""One small interface over local files and ``s3://``: list, read, write once, copy with proof.

What goes wrong comes out as :class:`TransientError` (trying again can help) or :class:`TerminalError`, with the
object's name. A read or copy that meets other bytes than the listing saw is a :class:`ConflictError`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import BinaryIO

#: From this size on an object is copied and uploaded in parts of this size, several at once.
PART_BYTES = 16 * 2**20

#: What to do about a storage that does not keep conditions. Without them, two runs of one feed could both go on from the same
#: state.
CONDITIONAL_WRITES = (
    "put lake and landing (TIDEMARK_LAKE, TIDEMARK_LANDING) on a storage with conditional writes: files, S3, or most servers "
    "like it"
)

#: So many objects are looked at in folders below a folder: the folder may be that of all hours.
MOST_LOOKED_AT = 10_000


def is_below(name: str, pattern: str) -> bool:
    """Whether an object's name, from a folder on, is one that :meth:`Storage.list_below` gives."""
    *folders, last = name.split("/")
    shown = all(part and not part.startswith(("_", ".")) for part in (*folders, last))
    return bool(folders) and shown and fnmatchcase(last, pattern)


@dataclass(frozen=True, kw_only=True)
class StoredObject:
    """One object, as it was when it was listed."""

    location: str
    """Where it is: an absolute path, or ``s3://bucket/key``; of offsets that are read from Kafka, ``kafka:topic/…``."""
    name: str
    """Its name in its folder."""
    size: int
    """How many bytes it has; 0 for offsets that are read from Kafka, whose length shows when they are fetched."""
    fingerprint: str
    """Changes whenever the content may have: the ETag, or size and times of a local file."""
    modified: datetime
    """When it was last written, by its storage's clock; of offsets that are read from Kafka, when their hour ends."""


class Storage(ABC):
    """Files or objects. Locations are absolute: a path, or ``s3://bucket/key``."""

    @abstractmethod
    def list_objects(self, folder: str, pattern: str = "*", *, root: str | None = None) -> list[StoredObject]:
        """The objects directly in a folder whose names match, by name; [] when there is no such folder.

        ExportError for a name that leads out of ``root`` (default: the folder): ``..``, or a symbolic link.
        """

    def list_names(self, folder: str, pattern: str = "*") -> list[str]:
        """The names of these objects, sorted, of a folder that nobody else writes to: the objects are not looked at."""
        return [found.name for found in self.list_objects(folder, pattern)]

    @abstractmethod
    def list_below(self, folder: str, pattern: str = "*") -> list[str]:
        """Where objects lie whose names match, in the folders below a folder, among the first :data:`MOST_LOOKED_AT`.

        Empty ones are left out, and those with a name or a folder that begins with ``_`` or ``.``: exporters leave such.
        """

    @abstractmethod
    def find(self, location: str) -> StoredObject | None:
        """The object, or None where there is none."""

    @abstractmethod
    def open(self, stored: StoredObject) -> AbstractContextManager[BinaryIO]:
        """Its bytes as a stream. On S3 a ConflictError when it is no longer the object that was listed."""

    @abstractmethod
    def read_text(self, location: str) -> str:
        """A small object's text."""

    @abstractmethod
    def write_text(self, location: str, text: str) -> None:
        """Write a small object, over one that is there. Readers see the old or the new text, whole."""

    @abstractmethod
    def write_new(self, location: str, text: str) -> bool:
        """Write a small object only where none is. False: there is one already. Of several writers at once one wins."""

    @abstractmethod
    def remove(self, location: str) -> None:
        """Remove a small object; nothing where there is none."""

    @abstractmethod
    def copy_from(self, source: Storage, stored: StoredObject, target: str, sha256: str) -> None:
        """Copy an object here, byte for byte. It appears whole or not at all.

        ConflictError when what was copied is not what ``sha256`` says, or no longer the object that was listed.
        """
