"""What fold makes of one table's changes."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from tidemark.fold.few_keys import KeyValues
from tidemark.ledger.receipts import CopiesProgress, Counts


@dataclass(frozen=True, kw_only=True)
class TableOutcome:
    """What fold makes of one table's changes."""

    settled: DataFrame
    """SETTLED rows (:func:`tidemark.fold.contract.settled_type`), materialised."""
    written: int
    """How many of the rows are written."""
    deleted: int
    """How many of the rows are deleted."""
    counts: Counts
    """What became of the table's changes."""
    joined: frozenset[str] = frozenset()
    """Columns of which a stored value may be newer than a row's, or not known to it."""
    key_values: KeyValues = field(default_factory=dict)
    """The values of the rows' keys; empty: they are not listed."""
    warnings: list[str] = field(default_factory=list)
    """What the receipt says of the changes, for a person."""
    only_new: bool = False
    """Whether nothing of the rows is in the table: rows without a key are added."""
    copies: CopiesProgress | None = None
    """What later hours need to know of a table without a key; None: the table has a key."""
