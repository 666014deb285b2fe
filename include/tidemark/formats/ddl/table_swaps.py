"""The renames by which tools change a table without locking it: its changed copy takes its place. Pure.

Each makes a *ghost* of the table, changes the ghost's columns, copies the rows, and exchanges the two in one RENAME
TABLE. The rows are the same rows as before.

- gh-ost: ``t`` to ``_t_del`` (or ``_t_<timestamp>_del``), ``_t_gho`` to ``t`` (GetGhostTableName and GetOldTableName in
  https://github.com/github/gh-ost/blob/master/go/base/context.go); long names are cut to MySQL's 64 characters
- pt-online-schema-change: ``t`` to ``_t_old``, ``_t_new`` to ``t``, with up to ten underscores where a name is taken
  (https://docs.percona.com/percona-toolkit/pt-online-schema-change.html)
- DMS of Alibaba Cloud: ``t`` to ``tp_<task>_del_t``, ``tp_<task>_ogt_t`` to ``t``
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tidemark.values.table_changes import TableName

_LONGEST = 64
_PAIRS = [
    (r"_(?P<t>.+)_gho", r"_(?P<t>.+?)(_\d{14})?_(del|ght|ghr)"),
    (r"_{1,10}(?P<t>.+)_new", r"_{1,10}(?P<t>.+)_old"),
    (r"tp_(?P<task>\d+)_ogt_(?P<t>.+)", r"tp_(?P<task>\d+)_del_(?P<t>.+)"),
]


def ghost_of(renames: Sequence[tuple[TableName, TableName]]) -> TableName | None:
    """The ghost that takes a table's place by these renames (old, new), in their order; None where they are no such
    swap."""
    if len(renames) != 2:
        return None
    (table, old), (ghost, now) = renames
    if now != table or {table[0], old[0], ghost[0]} != {table[0]}:
        return None
    return ghost if any(_fits(table[1], ghost[1], old[1], *pair) for pair in _PAIRS) else None


def _fits(table: str, ghost: str, old: str, ghost_pattern: str, old_pattern: str) -> bool:
    found = [re.fullmatch(ghost_pattern, ghost), re.fullmatch(old_pattern, old)]
    tasks = {match.groupdict().get("task") for match in found if match}
    return len(tasks) == 1 and all(
        # greedy underscores of a name that begins with some
        match and (match["t"] == table.lstrip("_") or _is(match["t"], table, whole))
        for match, whole in zip(found, (ghost, old), strict=True)
    )


def _is(part: str, table: str, whole: str) -> bool:
    """Whether the part of a name is the table's, which is cut where the whole name is as long as may be."""
    return part == table or (len(whole) == _LONGEST and table.startswith(part))
