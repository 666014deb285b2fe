"""What a stream says of its tables: metadata messages and DDL statements, in one form for all formats. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidemark.schema.columns import ColumnType


@dataclass(frozen=True)
class TableChange:
    """What holds for a table from one place in its order on.

    ``columns``: added or retyped; with ``whole``, all there are. ``key``: the key's columns (empty: none), or None
    where this says nothing of it. ``renamed``: old name → new name. ``dropped``: gone at the source; the published
    column stays.
    """

    columns: Mapping[str, ColumnType] = field(default_factory=dict)
    key: tuple[str, ...] | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()
    whole: bool = False
