"""How a published table follows a rename or a drop of columns that the stream tells. Pure.

Rows that no change touches are meant too: at the source, the column is another one, or gone, in all rows. In the
ordinary case all that is published is older than the statement, and one step does it. One that comes late, or gives a
column the name of another, has all rows folded again from the change log.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tidemark.tables.table_history import Definition


@dataclass(frozen=True)
class RenamePlan:
    """``renamed``: (old, new), in place. ``dropped``: columns whose stored values go. ``rebuild``: neither will do.
    ``left``: columns that were renamed away. ``ids``: what a receipt says of it."""

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
    told: Definition, done: Collection[str], stored: Collection[str], highest: str | None, *, keyed: bool
) -> RenamePlan:
    """What must be done to a table for the reshapes that are not ``done`` yet. ``stored``: its columns; ``highest``:
    the newest place it holds. A table without a key is a set of images: it is always written anew."""
    new = [reshape for reshape in told.column_renames if reshape.id not in done]
    ids = tuple(reshape.id for reshape in new)
    names = {name.lower(): name for name in stored}
    if not any(name in names for reshape in new for pair in reshape.names for name in _lower(pair)):
        return RenamePlan(ids=ids)
    left = frozenset(
        names[old.lower()] for reshape in new for old, now in reshape.names if now and old.lower() in names
    )
    if highest is not None and any(reshape.position <= highest for reshape in new):
        return RenamePlan(rebuild=True, left=left, ids=ids)
    renamed, dropped = [], []
    for reshape in new:
        for old, now in reshape.names:
            stands = names.get(old.lower())
            if stands is None:
                continue
            if now is None:
                dropped.append(stands)
            elif now.lower() in names and now.lower() != old.lower():
                return RenamePlan(rebuild=True, left=left, ids=ids)
            else:
                renamed.append((stands, now))
                names[now.lower()] = now
                if now.lower() != old.lower():
                    del names[old.lower()]
    dropped_now = tuple(dict(renamed).get(name, name) for name in dict.fromkeys(dropped))
    return RenamePlan(tuple(renamed), dropped_now if keyed else (), not keyed, frozenset(), ids)


def _lower(pair: tuple[str, str | None]) -> list[str]:
    return [name.lower() for name in pair if name is not None]
