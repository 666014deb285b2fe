"""What a publication does to one published table."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame

from tidemark.fold.few_keys import KeyValues


@dataclass(frozen=True, kw_only=True)
class StagedChange:
    """What a publication does to one table."""

    settled: DataFrame
    """SETTLED rows (:func:`tidemark.fold.contract.settled_type`)."""
    key: Sequence[str]
    """The key columns; empty: the table has no key."""
    only_new: bool
    """Nothing that is settled is in the table: it has just been made, or rows without a key are added."""
    truncated: str | None = None
    """Rows with a lower sort key are deleted; in a table without a key, all rows."""
    dropped: Sequence[str] = ()
    """Columns whose stored values are deleted."""
    joined: Collection[str] = ()
    """Columns of which a stored value may be newer than a settled row's, or not known to it; of the others every settled
    row has the newest."""
    late: bool = False
    """Whether rows are whole, and a settled one may be older than the stored one: the newer one stands."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Stored columns that have another name now, by their old one."""
    filled: Mapping[str, Column] = field(default_factory=dict)
    """Columns with the constant that all stored rows get in them."""
    filled_in: str = ""
    """The hour whose publication it is, where columns are filled: what gets a constant is a row that it writes."""
    key_values: KeyValues = field(default_factory=dict)
    """Of all settled rows, where they are few."""

    @property
    def names_now(self) -> dict[str, str | None]:
        """Stored columns that have another name now, or (None) hold nothing any more."""
        return {**self.renamed, **dict.fromkeys(self.dropped)}
