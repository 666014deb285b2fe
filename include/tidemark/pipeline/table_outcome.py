"""What fold makes of one table's changes."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from tidemark.fold.few_keys import KeyValues
from tidemark.ledger.receipts import CopiesProgress, Counts


@dataclass(frozen=True)
class TableOutcome:
    """``settled``: SETTLED rows (:mod:`tidemark.fold.contract`), materialised, of which so many are ``written`` and
    ``deleted``. ``counts``: what became of the table's changes. ``warnings``: what the receipt says of them. ``joined``,
    ``key_values``, ``only_new``: see :class:`tidemark.tables.staged_change.StagedChange`. ``copies``: what later hours
    need to know of a table without a key."""

    settled: DataFrame
    written: int
    deleted: int
    counts: Counts
    joined: frozenset[str] = frozenset()
    key_values: KeyValues = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    only_new: bool = False
    copies: CopiesProgress | None = None
