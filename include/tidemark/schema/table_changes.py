"""Changes of tables, from metadata messages and DDL statements, in one form for all formats. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidemark.schema.columns import ColumnType


@dataclass(frozen=True)
class TableChange:
    """A change of a table's columns or key, in force from one position in its order on.

    ``columns``: added or retyped; with ``whole``, all columns of the table. ``key``: the key's columns (empty: the table
    has none), or None where the key is not mentioned. ``renamed``: old name → new name. ``dropped``: deleted at the
    source; the published column stays. ``filled``: columns that are added, with the value (as messages write it) that all
    rows have which were there before; ``unfilled``: those of which this value is not known, and why.
    """

    columns: Mapping[str, ColumnType] = field(default_factory=dict)
    key: tuple[str, ...] | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()
    whole: bool = False
    filled: Mapping[str, str] = field(default_factory=dict)
    unfilled: Mapping[str, str] = field(default_factory=dict)
