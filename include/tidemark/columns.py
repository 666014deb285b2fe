"""How the text of a column in a message becomes a value of the table.

Formats describe columns in their source's types; they come out as a :class:`ColumnType`: the Spark type of the
published column, and the encoding of its text in messages (a name in :data:`ENCODINGS`, in
:mod:`tidemark.columns_spark` as expressions).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ColumnType:
    """``spark``: type name as in SQL (``decimal(14,2)``). ``encoding``: how messages write it. ``arg``: its parameter."""

    spark: str
    encoding: str = "plain"
    arg: str | None = None
