"""The pointers of a table in Parquet folders: which folder readers see now, and which at an hour's cut.

``<lake>/snapshots/<table>/latest`` and ``…/_cuts/<hour>.json`` name a folder of the table; ``_key.json`` its key. Needs
no Spark: reports, audit and maintenance read the same pointers as the pipeline writes.
"""

from __future__ import annotations

from tidemark.hours import Hour
from tidemark.lake.stored_formats import StoredDocument, parse_document
from tidemark.settings import Settings
from tidemark.storage.objects import storage_of

_LATEST, _CUTS, _KEY = "latest", "_cuts", "_key.json"


class _Pointer(StoredDocument):
    """The folder, relative to the table's root, of the publication that made the cut of an hour."""

    hour: str
    folder: str


class _Key(StoredDocument):
    """The key columns."""

    columns: list[str]


class ParquetPointers:
    """Of one published table. ``root``: the folder that holds all of it."""

    def __init__(self, table: str, settings: Settings) -> None:
        self.root = f"{snapshots_folder(settings)}/{table}"
        self._storage = storage_of(self.root, settings)

    def latest(self) -> str | None:
        """The folder readers see now, whole path; None before the first publication."""
        return self._target(_LATEST)

    def at_cut(self, hour: str) -> str | None:
        """The folder of an hour's cut; None where it has none."""
        return self._target(cut_pointer(hour))

    def cuts(self) -> list[str]:
        """The hours that have a cut, oldest first."""
        return [stored.name.removesuffix(".json") for stored in self._storage.list_objects(f"{self.root}/{_CUTS}")]

    def publish(self, hour: Hour, folder: str) -> None:
        """Have readers see a folder (relative to ``root``), which a publication of the hour made. Again changes nothing."""
        self._storage.write_text(f"{self.root}/{_LATEST}", _Pointer(hour=hour, folder=folder).model_dump_json())

    def write_cut(self, hour: Hour, folder: str) -> None:
        """Have the hour's cut lead to a folder (relative to ``root``)."""
        pointer = _Pointer(hour=hour, folder=folder).model_dump_json()
        self._storage.write_text(f"{self.root}/{cut_pointer(hour)}", pointer)

    def tag(self, hour: Hour) -> None:
        """The cut of an hour that did not touch the table: what readers see now."""
        if self._storage.find(f"{self.root}/{_LATEST}") is not None:
            now = self._storage.read_text(f"{self.root}/{_LATEST}")
            self._storage.write_text(f"{self.root}/{cut_pointer(hour)}", now)

    def key(self) -> list[str]:
        """The key columns, as when the table was first staged."""
        location = f"{self.root}/{_KEY}"
        if self._storage.find(location) is None:
            return []
        return parse_document(_Key, self._storage.read_text(location), location).columns

    def write_key(self, key: tuple[str, ...]) -> None:
        """Note the key columns."""
        self._storage.write_text(f"{self.root}/{_KEY}", _Key(columns=list(key)).model_dump_json())

    def is_whole(self, folder: str) -> bool:
        """Whether Spark finished writing a folder."""
        return self._storage.find(f"{folder}/_SUCCESS") is not None

    def target(self, pointer: str) -> str:
        """The folder, relative to ``root``, that a pointer (a path relative to ``root``) leads to."""
        location = f"{self.root}/{pointer}"
        return parse_document(_Pointer, self._storage.read_text(location), location).folder

    def _target(self, pointer: str) -> str | None:
        if self._storage.find(f"{self.root}/{pointer}") is None:
            return None
        return f"{self.root}/{self.target(pointer)}"


def snapshots_folder(settings: Settings) -> str:
    """The folder of all tables in Parquet folders."""
    return f"{settings.lake_root}/snapshots"


def cut_pointer(hour: str) -> str:
    """The pointer of an hour's cut, relative to the table's root."""
    return f"{_CUTS}/{hour}.json"


def is_pointer(path: str) -> bool:
    """Whether a path relative to the table's root is a pointer."""
    return path == _LATEST or path.startswith(f"{_CUTS}/")


def is_document(path: str) -> bool:
    """Whether a path relative to the table's root is one of the JSON documents beside the table's folders."""
    return path == _KEY or is_pointer(path)
