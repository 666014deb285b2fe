"""What the made-up sources draw by chance: in the same time per change, however many changes an hour has."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

Row = dict[str, Any]
Key = tuple[Any, ...]


class KeyedRows(MutableMapping[Key, Row]):
    """A table's rows by key, as their keys came, one of which can be drawn without a look at the others."""

    def __init__(self) -> None:
        self._rows: dict[Key, Row] = {}
        self._keys: list[Key] = []
        #: When each of the keys came, and that by key.
        self._ages: list[int] = []
        self._age_of: dict[Key, int] = {}

    def __getitem__(self, key: Key) -> Row:
        return self._rows[key]

    def __setitem__(self, key: Key, row: Row) -> None:
        if key not in self._rows:
            self._age_of[key] = self._ages[-1] + 1 if self._ages else 0
            self._ages.append(self._age_of[key])
            self._keys.append(key)
        self._rows[key] = row

    def __delitem__(self, key: Key) -> None:
        del self._rows[key]
        place = bisect_left(self._ages, self._age_of.pop(key))
        del self._keys[place], self._ages[place]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def draw(self, chance: random.Random) -> Key:
        """The key of one of the rows."""
        return chance.choice(self._keys)

    def draw_several(self, chance: random.Random, number: int) -> list[Key]:
        """The keys of that many different rows; of all where there are fewer."""
        return chance.sample(self._keys, min(number, len(self._keys)))


def draw_sizes(changes: int, draw: Callable[[], int]) -> list[int]:
    """The sizes of transactions, one ``draw`` after the other, that have so many changes together, or a few more."""
    sizes: list[int] = []
    while changes > 0:
        sizes.append(draw())
        changes -= sizes[-1]
    return sizes
