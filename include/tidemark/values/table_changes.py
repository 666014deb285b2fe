"""Changes of tables, from metadata messages and DDL statements, in one form for all formats. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidemark.values.columns import ColumnType

#: A table as a statement names it: database (empty: the statement names none) and name.
TableName = tuple[str, str]


class UnsentRows(ValueError):
    """A statement that adds or takes away rows of a table, which messages do not send."""


class TableRenamed(UnsentRows):
    """A statement that gives ``tables`` (database or nothing, and name) other names: those of before and behind it."""

    def __init__(self, reason: str, tables: Sequence[TableName]) -> None:
        super().__init__(reason)
        self.tables = tuple(tables)


@dataclass(frozen=True, kw_only=True)
class TableChange:
    """A change of a table's columns or key, in force from one position in its order on."""

    columns: Mapping[str, ColumnType] = field(default_factory=dict)
    """The columns that are added or retyped; with ``whole``, all columns of the table."""
    key: tuple[str, ...] | None = None
    """The key's columns. Empty: the table has none. None: the key is not mentioned."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Old name → new name."""
    guarded: frozenset[str] = frozenset()
    """Old names among the renamed ones that the table may not have (IF EXISTS)."""
    if_missing: frozenset[str] = frozenset()
    """Columns that are added only where the table lacks them (IF NOT EXISTS): else nothing happens to them."""
    dropped: frozenset[str] = frozenset()
    """Columns that are deleted at the source. The published column stays."""
    whole: bool = False
    """Whether ``columns`` lists all columns of the table: those that it lacks are gone."""
    filled: Mapping[str, str] = field(default_factory=dict)
    """Columns that are added, with the value that all rows have which were there before, as messages write it."""
    unfilled: Mapping[str, str] = field(default_factory=dict)
    """Columns that are added with such a value that is not known, and why."""
    known_by: str | None = None
    """What a statement is known by that its source may send again at another position. None: its position tells it."""
    created: bool = False
    """The table is made here, whatever it has been."""
    swapped: tuple[TableName, TableName] | None = None
    """A changed copy takes the place of a table: the copy, and the table. None: no such thing happens."""
