"""What every storage of snapshots offers to the stages: one published table, whatever holds it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from pyspark.sql import DataFrame


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

    def retire(self, columns: list[str]) -> None:
        """Remove columns that nothing holds any more. Done before: does nothing."""

    def read(self) -> DataFrame:
        """What readers see now."""

    def stage(
        self, settled: DataFrame, key: list[str], truncated: str | None, publication: str, *, first: bool,
        kept_columns: Collection[str], dropped: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """Write a publication beside the table: SETTLED rows (:data:`tidemark.merge.contract.SETTLED`) merged into it.

        Rows older than ``truncated`` go, and values of ``dropped`` columns. ``first``: the table has just been made.
        ``kept_columns``: columns that some row keeps as they are stored.
        """

    def staged(self, publication: str) -> DataFrame:
        """The table as compact staged it, also after :meth:`revert`."""

    def revert(self, keys: DataFrame, key: list[str], publication: str, *, dropped: Sequence[str] = ()) -> None:
        """Give the keys' rows of a staged publication back their published version, but for ``dropped`` columns."""

    def publish(self, hour: str, publication: str, *, reverted: bool) -> None:
        """Make the staged publication the table, with the hour's cut. Done before: does nothing again."""

    def tag(self, hour: str) -> None:
        """Give the table as it is the cut of an hour that did not touch it."""
