"""A change of a table says what it mentions, and nothing of what it does not."""

from __future__ import annotations

import dataclasses

import pytest

from tidemark.values.columns import ColumnType
from tidemark.values.table_changes import TableChange


def test_a_change_mentions_nothing_by_itself() -> None:
    change = TableChange()
    assert (change.columns, change.renamed, change.dropped, change.whole) == ({}, {}, frozenset(), False)
    assert change.key is None, "an empty key would say that the table has none"
    assert change != TableChange(key=())


def test_two_changes_share_nothing() -> None:
    assert TableChange().columns is not TableChange().columns
    assert TableChange().renamed is not TableChange().renamed


def test_a_change_stays_as_it_was_read() -> None:
    change = TableChange(columns={"id": ColumnType("int")}, key=("id",))
    assert change == TableChange(columns={"id": ColumnType("int")}, key=("id",))
    with pytest.raises(dataclasses.FrozenInstanceError):
        change.whole = True  # type: ignore[misc]
