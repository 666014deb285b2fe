"""Changes of tables, from metadata messages and DDL statements, in one form for all formats. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidemark.values.columns import ColumnType

#: A table as a statement names it: database (empty: the statement names none) and name.
TableName = tuple[str, str]


class TableRenamed(ValueError):
    """A statement that gives ``tables`` (database or nothing, and name) other names: those of before and behind it."""

    def __init__(self, reason: str, tables: Sequence[TableName]) -> None:
        super().__init__(reason)
        self.tables = tuple(tables)


@dataclass(frozen=True)
class TableChange:
    """A change of a table's columns or key, in force from one position in its order on.

    ``columns``: added or retyped; with ``whole``, all columns of the table. ``key``: the key's columns (empty: the table
    has none), or None where the key is not mentioned. ``renamed``: old name → new name; of these ``guarded``: old names that
    the table may not have (IF EXISTS). ``dropped``: deleted at the
    source; the published column stays. ``filled``: columns that are added, with the value (as messages write it) that all
    rows have which were there before; ``unfilled``: those of which this value is not known, and why. ``created``: the
    table is made here, whatever it has been. ``swapped``: a changed copy takes the place of a table; the copy and the table,
    each as database (empty: that of the message) and name.
    """

    columns: Mapping[str, ColumnType] = field(default_factory=dict)
    key: tuple[str, ...] | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    guarded: frozenset[str] = frozenset()
    dropped: frozenset[str] = frozenset()
    whole: bool = False
    filled: Mapping[str, str] = field(default_factory=dict)
    unfilled: Mapping[str, str] = field(default_factory=dict)
    created: bool = False
    swapped: tuple[TableName, TableName] | None = None
