"""How a published table follows a rename or a drop of columns that the stream states. Pure.

It concerns all rows, also those that no change touches: at the source, the column is renamed or dropped in every row. In
the ordinary case all that is published is older than the statement, and the table's columns are renamed in one step. A
statement that comes late, or that gives a column the name of another, has all rows folded again from the change log.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tidemark.tables.table_history import Definition


@dataclass(frozen=True)
class RenamePlan:
    """``renamed``: (old, new), in place. ``dropped``: columns whose stored values are deleted. ``rebuild``: all rows must
    be folded again instead. ``left``: columns that were renamed away. ``ids``: of the column renames, for the receipt."""

    renamed: tuple[tuple[str, str], ...] = ()
    dropped: tuple[str, ...] = ()
    rebuild: bool = False
    left: frozenset[str] = frozenset()
    ids: tuple[str, ...] = ()

    def applied(self, stored: Mapping[str, str]) -> dict[str, str]:
        """Stored columns and their types once they are renamed."""
        columns = dict(stored)
        for old, new in self.renamed:
            columns = {new if name == old else name: kind for name, kind in columns.items()}
        return columns


def plan_renames(
    definition: Definition, done: Collection[str], stored: Collection[str], highest: str | None, *, keyed: bool
) -> RenamePlan:
    """What must be done to a table for the column renames that are not ``done`` yet. ``stored``: its columns;
    ``highest``: the highest sort key it holds. A table without a key is a set of images: it is always rebuilt."""
    new = [rename for rename in definition.column_renames if rename.id not in done]
    ids = tuple(rename.id for rename in new)
    names = {name.lower(): name for name in stored}
    if not any(name in names for rename in new for pair in rename.names for name in _lower(pair)):
        return RenamePlan(ids=ids)
    left = frozenset(names[old.lower()] for rename in new for old, now in rename.names if now and old.lower() in names)
    if highest is not None and any(rename.position <= highest for rename in new):
        return RenamePlan(rebuild=True, left=left, ids=ids)
    renamed, dropped = [], []
    for rename in new:
        for old, now in rename.names:
            stored_name = names.get(old.lower())
            if stored_name is None:
                continue
            if now is None:
                dropped.append(stored_name)
            elif now.lower() in names and now.lower() != old.lower():
                return RenamePlan(rebuild=True, left=left, ids=ids)
            else:
                renamed.append((stored_name, now))
                names[now.lower()] = now
                if now.lower() != old.lower():
                    del names[old.lower()]
    dropped_now = tuple(dict(renamed).get(name, name) for name in dict.fromkeys(dropped))
    return RenamePlan(tuple(renamed), dropped_now if keyed else (), not keyed, frozenset(), ids)


def _lower(pair: tuple[str, str | None]) -> list[str]:
    return [name.lower() for name in pair if name is not None]
