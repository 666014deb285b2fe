"""How a published table follows what the stream states of its columns: renames, drops, values of added ones. Pure.

It concerns all rows, also those that no change touches: at the source, the column is renamed, dropped or filled in every
row. In the ordinary case all that is published is older than the statement, and the table follows it in one step. A
statement that comes late, or that gives a column the name of another, has all rows folded again from the change log.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tidemark.changelog.table_history import ColumnRename, Definition


@dataclass(frozen=True, kw_only=True)
class RenamePlan:
    """What must be done to a table for the column renames that it does not follow yet."""

    renamed: tuple[tuple[str, str], ...] = ()
    """(old, new) of columns that are renamed in place, in their order."""
    dropped: tuple[str, ...] = ()
    """Columns whose stored values are deleted, by their names after the renames."""
    rebuild: bool = False
    """Whether all rows must be folded again."""
    left: frozenset[str] = frozenset()
    """Stored columns that were renamed away and are not renamed in place: all rows are folded again."""
    ids: tuple[str, ...] = ()
    """Of the column renames, and of the filled columns, that the table follows then. The receipt holds them: they are done
    once."""
    filled: tuple[tuple[str, str], ...] = ()
    """New columns, with the text that stored rows have in them."""

    @property
    def alters_rows(self) -> bool:
        """Whether stored rows are altered by it."""
        return bool(self.renamed or self.dropped or self.filled)

    @property
    def names_now(self) -> dict[str, str]:
        """The columns that are renamed in place, and their names now."""
        now: dict[str, str] = {}
        for old, new in self.renamed:
            first = next((name for name, found in now.items() if found == old), old)
            now[first] = new
        return now

    def applied(self, stored: Mapping[str, str]) -> dict[str, str]:
        """Stored columns and their types once they are renamed."""
        columns = dict(stored)
        for old, new in self.renamed:
            columns = {new if name == old else name: kind for name, kind in columns.items()}
        return columns


@dataclass(frozen=True, kw_only=True)
class _Fill:
    """A column that was added with a value for rows of before."""

    position: str
    """Where it was added, in the source's order."""
    column: str
    """The name under which it was added."""
    text: str
    """The value, as messages write it."""
    id: str
    """Stands in a receipt once rows of before were given the value."""
    now: str | None
    """Its name now. None: it was dropped since."""


def plan_renames(
    definition: Definition, done: Collection[str], stored: Collection[str], highest: str | None, *, keyed: bool,
    told: Collection[str] = frozenset(),
) -> RenamePlan:  # fmt: skip
    """What must be done to a table for the column renames that are not ``done`` yet. ``stored``: its columns;
    ``highest``: the highest sort key it holds. A table without a key is a set of images: it is always rebuilt. ``told``:
    in lower case, the columns of which it is known what they are; others are filled once it is."""
    fills = [f for f in _fills(definition) if f.id not in done and (f.now is None or f.now.lower() in told)]
    plan = _plan_names(
        [r for r in definition.column_renames if r.names and r.id not in done], stored, highest, keyed=keyed
    )
    plan = replace(plan, ids=plan.ids + tuple(fill.id for fill in fills))
    needed = [fill for fill in fills if fill.now is not None] if stored else []
    if not needed or plan.rebuild:
        return plan
    names = {name.lower() for name in (*stored, *(new for _, new in plan.renamed))}
    if not keyed or any(
        fill.now != fill.column or fill.column.lower() in names or (highest is not None and fill.position <= highest)
        for fill in needed
    ):
        left = frozenset(old for old, new in plan.renamed if old.lower() != new.lower())
        return RenamePlan(rebuild=True, left=left, ids=plan.ids)
    return replace(plan, filled=tuple((fill.column, fill.text) for fill in needed))


def _fills(definition: Definition) -> list[_Fill]:
    return [
        _Fill(
            position=rename.position,
            column=column,
            text=text,
            id=rename.fill_id(column),
            now=definition.name_now(column, number),
        )
        for number, rename in enumerate(definition.column_renames, 1)
        for column, text in rename.filled
    ]


def _plan_names(
    new: Sequence[ColumnRename], stored: Collection[str], highest: str | None, *, keyed: bool
) -> RenamePlan:
    """What must be done for renames and drops."""
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
            if rename.again:  # rows of before the first time are through with it, and others are not
                return RenamePlan(rebuild=True, left=left, ids=ids)
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
    return RenamePlan(
        renamed=tuple(renamed), dropped=dropped_now if keyed else (), rebuild=not keyed, left=frozenset(), ids=ids
    )


def _lower(pair: tuple[str, str | None]) -> list[str]:
    return [name.lower() for name in pair if name is not None]
