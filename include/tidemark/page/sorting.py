"""The order of a table's rows, as the address says it: ``?sort=TABLE.COLUMN``, or ``?sort=-TABLE.COLUMN`` for the reverse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, get_args
from urllib.parse import urlencode

from pydantic import BaseModel

from tidemark.operations.feed_health import Health

T = TypeVar("T", bound=BaseModel | Mapping[str, Any])

#: Words that have an order of their own, in the column ``health``.
_RANKS = {word: rank for rank, word in enumerate(get_args(Health))}


class Sorting:
    """What an address asks for. ``query``: all of its parameters. What is no column of any table changes nothing."""

    def __init__(self, query: Mapping[str, str]) -> None:
        self._others = {name: value for name, value in query.items() if name != "sort"}
        asked = query.get("sort", "")
        self._down = asked.startswith("-")
        self._table, _, self._column = asked.removeprefix("-").partition(".")

    def concerns(self, table: str) -> bool:
        """Whether the address names this table."""
        return self._table == table

    def rows(self, table: str, rows: Sequence[T]) -> list[T]:
        """The rows of a table in the order that is asked for; those without a value are last."""
        if not self.concerns(table) or not all(self._column in _names(row) for row in rows):
            return list(rows)
        values = [(row[self._column] if isinstance(row, Mapping) else getattr(row, self._column), row) for row in rows]
        there = [pair for pair in values if pair[0] not in (None, "")]
        ranks = _RANKS if self._column == "health" else {}
        there.sort(key=lambda pair: _place(pair[0], ranks), reverse=self._down)
        return [row for _, row in there] + [row for value, row in values if value in (None, "")]

    def direction(self, table: str, column: str) -> str | None:
        """The value of ``aria-sort``; None: the table is not sorted by this column."""
        if (self._table, self._column) != (table, column):
            return None
        return "descending" if self._down else "ascending"

    def link(self, table: str, column: str) -> str:
        """The address of the same view, sorted by this column; a second time, the other way round."""
        turned = "-" if self.direction(table, column) == "ascending" else ""
        return "?" + urlencode(self._others | {"sort": f"{turned}{table}.{column}"}) + f"#{table}"


def _names(row: BaseModel | Mapping[str, Any]) -> set[str]:
    return set(row) if isinstance(row, Mapping) else set(type(row).model_fields)


def _place(value: Any, ranks: Mapping[str, int]) -> tuple[int, float, str]:
    """Numbers before texts, and both in their own order."""
    if isinstance(value, int | float):
        return 0, value, ""
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return 1, ranks.get(text, len(ranks)), text.lower()
