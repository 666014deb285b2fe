"""What the generators draw from: a dictionary that also gives one of its rows without a look at the others."""

from __future__ import annotations

import random
from collections import Counter

from tidemark_samples.drawing import KeyedRows, draw_sizes


def test_rows_are_those_of_a_dictionary_whatever_is_done_with_them() -> None:
    chance, rows, wanted = random.Random(1), KeyedRows(), {}
    for step in range(3000):
        key = (chance.randrange(60),)
        if chance.random() < 0.5:
            rows[key] = wanted[key] = {"n": step}
        else:
            assert rows.pop(key, None) == wanted.pop(key, None)
        assert dict(rows) == wanted and len(rows) == len(wanted)
        assert not wanted or rows.draw(chance) in wanted
    assert set(rows.draw_several(chance, 10**6)) == set(wanted)
    assert len(set(rows.draw_several(chance, 5))) == 5
    rows.clear()
    assert not rows and rows.draw_several(chance, 3) == []


def test_each_row_is_drawn_as_often_as_another() -> None:
    chance, rows = random.Random(2), KeyedRows()
    for number in range(20):
        rows[number,] = {}
    for number in range(0, 20, 2):
        del rows[number,]
    drawn = Counter(rows.draw(chance) for _ in range(10_000))
    assert set(drawn) == set(rows)
    assert all(800 < count < 1200 for count in drawn.values()), drawn


def test_sizes_have_so_many_changes_together_or_a_few_more() -> None:
    chance = random.Random(3)
    sizes = draw_sizes(500, lambda: chance.randint(0, 9))
    assert 500 <= sum(sizes) < 509
    assert sum(sizes[:-1]) < 500
    assert draw_sizes(-8, lambda: 1) == []
