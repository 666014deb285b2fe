"""What every storage of snapshots offers to the pipeline: one published table, whatever holds it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pyspark.sql import Column, DataFrame

from tidemark.hours import Hour
from tidemark.merge.few_keys import KeyValues


@dataclass(frozen=True, kw_only=True)
class StagedChange:
    """What a publication does to one table.

    ``settled``: SETTLED rows (:func:`tidemark.merge.contract.settled_type`). ``key``: the key columns; empty: the table
    has no key. ``truncated``: rows with a lower sort key are deleted; in a table without a key, all rows. ``dropped``:
    columns whose stored values are deleted. ``filled``: columns with the constant that all stored rows get in them.
    ``joined``: columns of which a stored value may be newer than a settled row's, or not known to it; of the others every
    settled row has the newest. ``late``: whether rows are whole, and a settled one may be
    older than the stored one: the newer one stands. ``renamed``: stored columns that have another name now, by their old one.
    ``first``: the table has just been made. ``key_values``: of all settled rows, where they are few.
    """

    settled: DataFrame
    key: Sequence[str]
    first: bool
    truncated: str | None = None
    dropped: Sequence[str] = ()
    joined: Collection[str] = ()
    late: bool = False
    renamed: Mapping[str, str] = field(default_factory=dict)
    filled: Mapping[str, Column] = field(default_factory=dict)
    key_values: KeyValues = field(default_factory=dict)

    @property
    def names_now(self) -> dict[str, str | None]:
        """Stored columns that have another name now, or (None) hold nothing any more."""
        return {**self.renamed, **dict.fromkeys(self.dropped)}


class Snapshot(Protocol):
    """One published table. A *publication* is written beside it, unseen, and becomes the table when it is published."""

    @property
    def table(self) -> str:
        """The published ``schema.table``."""

    def columns(self) -> dict[str, str]:
        """Source columns and their Spark types; empty before there is a table."""

    def key(self) -> list[str]:
        """The key columns, as when the table was made; empty: it has no key."""

    def evolve(self, columns: dict[str, str], key: tuple[str, ...], renamed: Sequence[tuple[str, str]] = ()) -> None:
        """Make the table, or rename, add and widen columns. ``columns``: all, in order. SchemaError for an unsafe one."""

    def discard(self) -> None:
        """Undo what was evolved for an hour that was not published."""

    def read(self) -> DataFrame:
        """What readers see now."""

    def stage(self, publication: str, change: StagedChange) -> None:
        """Write a publication beside the table: the table with the change merged into it."""

    def staged(self, publication: str) -> DataFrame:
        """The table as compact staged it."""

    def check(self, hour: Hour, publication: str) -> None:
        """ConflictError where the staged publication cannot become the table any more."""

    def publish(self, hour: Hour, publication: str, *, cut: bool = True, retired: Sequence[str] = ()) -> None:
        """Make the staged publication the table, without ``retired`` columns, which nothing holds any more, and with the
        hour's cut unless ``cut`` is false. Done before: does nothing again."""

    def tag(self, hour: Hour) -> None:
        """Give the table as it is the cut of an hour that did not touch it."""

    def has_cut(self, hour: Hour) -> bool:
        """Whether there is a cut of the hour that :meth:`cut` can go on from."""

    def cut(self, hour: Hour, publication: str, base: Hour | None, change: StagedChange | None) -> None:
        """Make an hour's cut apart from the table: the cut of ``base`` (None: an empty table) with the change merged into
        it (None: as it is). ``base`` may be the hour itself: its cut is made again. Made before by the publication: makes
        it again, the same, or leaves it."""
