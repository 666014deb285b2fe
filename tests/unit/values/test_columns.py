"""Columns of several lists in one order, and the type of a column."""

from __future__ import annotations

from itertools import pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.values.columns import ColumnType, add_in_order

NAMES = st.lists(st.sampled_from("abcdefgh"), unique=True)


@pytest.mark.parametrize(
    ("listed", "names", "together"),
    [
        ("", "ba", "ba"),
        ("ac", "abc", "abc"),
        ("bc", "abc", "abc"),
        ("ab", "abc", "abc"),
        ("ab", "xy", "abxy"),  # nothing in common: to the end
        ("acd", "abd", "abcd"),  # b and c follow a: the first by name comes first
        ("abd", "acd", "abcd"),
        ("ab", "ba", "ab"),  # an order that contradicts changes nothing
        ("abz", "azc", "abzc"),
    ],
)
def test_a_column_comes_after_the_one_that_it_follows(listed: str, names: str, together: str) -> None:
    order = list(listed)
    add_in_order(order, list(names))
    assert "".join(order) == together


@given(listed=NAMES, names=NAMES)
def test_every_column_is_listed_once_and_those_that_were_keep_their_order(listed: list[str], names: list[str]) -> None:
    order = list(listed)
    add_in_order(order, names)
    assert sorted(order) == sorted({*listed, *names})
    assert [name for name in order if name in listed] == listed
    for before, name in pairwise(names):
        if name not in listed:
            assert order.index(before) < order.index(name)
    again = list(order)
    add_in_order(again, names)
    assert again == order


@given(added=st.lists(st.sampled_from("bcdef"), unique=True, max_size=4), at=st.integers(0, 2))
def test_the_order_in_which_lists_come_does_not_matter_for_columns_of_one_place(added: list[str], at: int) -> None:
    """Each message knows the common columns and one more, at the same place."""
    common = ["a", "m", "z"]
    orders = set()
    for lists in permutations(added):
        order = list(common)
        for name in lists:
            add_in_order(order, [*common[: at + 1], name, *common[at + 1 :]])
        orders.add("".join(order))
    assert len(orders) == 1


def test_types_are_the_same_by_what_they_say() -> None:
    assert ColumnType("int") == ColumnType("int", "plain", None)
    assert len({ColumnType("int"), ColumnType("int"), ColumnType("int", "hex"), ColumnType("int", "hex", "x")}) == 3
