"""Random histories of a source: what happened to a few keys of its own, whatever the format that will tell of it.

Tables: ``a`` (key id), ``b`` (key id, no), ``d`` (key id; the one whose columns change), ``t0`` … (key id; the ones that
are truncated), ``m`` (no key). The ids of
a history are its own, ``number * 100 + …``, so that many histories can share one feed. So are its places in the
source's order: unit ``i`` of history ``h`` stands at ``i * SPREAD + h``, and those of all histories interleave.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.convergence.oracle import BROKEN, Change, Image, Key, Row, Value, rows

#: More than there are ever histories in one feed.
SPREAD = 1000
#: The number of the history that tells of a table's columns.
COLUMNS_OF = 0
#: Positions within a unit.
ROOM = 100
LONGEST = 7  # units of a history
#: One history in this number truncates tables, in its first units: that takes the rows of all others with it.
_TRUNCATING, _UNTIL = 3, 3
KEYS = {"a": ("id",), "b": ("id", "no"), "d": ("id",), "t0": ("id",), "t1": ("id",)}
KEYLESS = "m"
#: The tables whose ``n`` may not be below zero: by their check, the changes that say so go to quarantine.
CHECKED = ("a", "t0", KEYLESS)
#: The tables of which snapshots show rows: those that no other history truncates.
SNAPSHOTTED = ("a", "b", "d")
#: The table whose columns change, what it can have beside those of all tables, and what of it at first.
ALTERED, POOL, FIRST = "d", ("u", "v", "x", "y", "z"), ("x", "y")


@dataclass(frozen=True)
class Traits:
    """What a format can say. ``absent``: the sets of columns that a change may leave out. ``loads``: whether rows are
    read again, and where such a reading stands: ``here`` in the order, or ``first``, before all of it. ``split_moves``:
    whether a key change is two messages, which come in any hours where no transaction ties them. ``alters``: what
    becomes of the columns of a table: they are added (``fill``: with a default), dropped, renamed, swapped; ``lists``:
    all that is said of it is which columns there are. ``snapshots``: whether rows are read as they stand, while the log
    goes on. ``broken``: whether there are records that cannot be decoded, and say where they stand."""

    absent: tuple[frozenset[str], ...]
    partial_inserts: bool = False
    transactions: bool = True
    rollbacks: bool = False
    truncates: bool = True
    keyless: bool = True
    loads: str | None = None
    split_moves: bool = False
    alters: tuple[str, ...] = ()
    lists: bool = False
    snapshots: bool = False
    broken: bool = False


#: What the source did as one: a change, or the delete and the insert of a key change.
Deed = tuple[Change, ...]


@dataclass(frozen=True)
class Unit:
    """Deeds that the source committed together, if ``together``. ``ending``: commit, rollback or never. ``choices``: for
    encoders, which form to take where there are several. ``fates``: how its messages travel. ``stood``: the rows that the
    source held before it, as inserts; ``chunk``: those of them that an incremental snapshot sends right before it.
    ``mended``: its deeds without what is bad; empty: nothing is."""

    number: int
    deeds: tuple[Deed, ...]
    together: bool
    ending: str
    choices: tuple[int, ...]
    fates: tuple[int, ...]
    stood: tuple[Change, ...] = ()
    chunk: tuple[Change, ...] = ()
    mended: tuple[Deed, ...] = ()

    def choice(self, index: int, options: int) -> int:
        return self.choices[index % len(self.choices)] % options


@dataclass(frozen=True)
class History:
    number: int
    units: tuple[Unit, ...]


_STEPS = (
    "write", "write", "part", "part", "part", "drop", "move", "move", "swap", "cycle", "shift", "onto", "load", "truncate",
)  # fmt: skip
#: What a number below so many makes of the value of ``n`` that a step sends: none of its type, one that fails the table's
#: check, or one of which nothing can be read, nor of its record.
_UNREADABLE, _FAILING, _BROKEN, _FAULTS = 0, 1, 2, 25
#: Rows that move onto keys that are taken: the steps' moves, as places in the list of keys that they were given (one,
#: other and the third), and whether the key that was moved onto last is deleted afterwards.
_COLLISIONS = {
    "swap": ((0, 1), (1, 0)),
    "cycle": ((0, 1), (1, 2), (2, 0)),
    "shift": ((0, 1), (1, 2)),
    "onto": ((0, 1), (1, None)),
}
_step = st.tuples(
    st.sampled_from(_STEPS), st.sampled_from("aaabbbtttmm"), st.integers(0, 2), st.integers(0, 2), st.integers(0, 3),
    st.booleans(),
)  # fmt: skip
_unit = st.tuples(
    st.lists(_step, min_size=1, max_size=4),
    st.integers(0, 9),
    st.tuples(*[st.integers(0, 11)] * 4),
    st.tuples(*[st.integers(0, 99)] * 6),
)
_history = st.lists(_unit, min_size=3, max_size=LONGEST)


def draw_histories(can: Traits, count: int, of_seed: int) -> list[History]:
    """So many histories, after that of the columns of a table, if they can change. The same seed gives the same ones."""
    found: list[History] = []
    alterations = _draw_alterations(can, Random(of_seed)) if can.alters else []

    @seed(of_seed)
    @settings(
        max_examples=count, phases=[Phase.generate], database=None, deadline=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(_history)
    def collect(drawn: list[tuple]) -> None:
        if len(found) < count:
            found.append(_told(can, len(found) + 1, drawn, [unit.deeds[0][0] for unit in alterations]))

    collect()
    return [History(COLUMNS_OF, tuple(alterations)), *found] if alterations else found


def _draw_alterations(can: Traits, random: Random) -> list[Unit]:
    """Alterations of a table, before the units of all histories that have the same place in theirs."""
    units, columns, seen = [], FIRST, {frozenset(FIRST)}
    while len(units) < LONGEST - 1:
        number = (len(units) + 1) * SPREAD
        at = number * ROOM + 1
        one, *others = random.sample(columns, len(columns))
        new = random.choice([name for name in POOL if name not in columns] or [one])
        steps: dict[str, tuple[tuple[str | None, str | None], ...]] = {}
        if new != one:
            steps |= {"add": ((None, new),), "fill": ((None, new),), "rename": ((one, new),)}
        if others:
            steps |= {"drop": ((one, None),), "swap": ((one, others[0]), (others[0], one))}
        kind = random.choice([name for name in can.alters if name in steps])
        now = _altered(columns, steps[kind])
        if can.lists and frozenset(now) in seen:
            continue
        columns, names = now, steps[kind]
        seen.add(frozenset(now))
        if can.lists:
            names = tuple((None, name) if name in columns else (name, None) for name in POOL)
        change = Change(ALTERED, at, "alter", names=names, fill=f"new{at}" if kind == "fill" else None)
        fates = tuple(random.randrange(100) for _ in range(6))
        units.append(Unit(number, ((replace(change, columns=columns),),), False, "commit", (0,), fates))
    return units


def _altered(columns: Sequence[str], names: Sequence[tuple[str | None, str | None]]) -> tuple[str, ...]:
    now = dict(names)
    kept = (now.get(column, column) for column in columns)
    added = (new for old, new in names if old is None)
    return tuple(name for name in (*kept, *added) if name is not None)


def _told(can: Traits, number: int, drawn: list[tuple], alterations: Sequence[Change]) -> History:
    writer = _Writer(can, number, alterations)
    return History(number, tuple(writer.unit(index, *parts) for index, parts in enumerate(drawn)))


def spoilt(change: Change, fault: int) -> Change:
    """The change with a value of ``n`` that a table cannot hold, or may not; or the same, where it sends none."""
    sent = dict(change.sent)
    if sent.get("n") is None or fault not in (_UNREADABLE, _FAILING, _BROKEN):
        return change
    if fault == _FAILING and change.table not in CHECKED:  # it would be another good value, and so its mended copy
        return change
    bad: Value = {_UNREADABLE: "none", _BROKEN: BROKEN}.get(fault, -1 - change.position)
    return replace(change, sent=frozenset((sent | {"n": bad}).items()))


def _whole(row: Row) -> dict[str, Value]:
    """All values of a source's row. Those that it had before the history began are all the same."""
    return dict(row.values) | dict.fromkeys(row.absent, "old")


@dataclass
class _Writer:
    """The source: which keys it has, so that it does what a database could. A key that it was never seen to write may
    have been there before the stream began."""

    can: Traits
    number: int
    alterations: Sequence[Change] = ()
    stands: dict[tuple[str, Key], bool] = field(default_factory=dict)
    copies: Counter[Image] = field(default_factory=Counter)
    committed: list[Change] = field(default_factory=list)

    def unit(self, index: int, steps: list, kind: int, choices: tuple[int, ...], fates: tuple[int, ...]) -> Unit:
        number = index * SPREAD + self.number
        together = self.can.transactions and (len(steps) > 1 or kind > 4)
        ending = "commit"
        if together and kind == 9:
            ending = "never"
        elif together and kind == 8 and self.can.rollbacks:
            ending = "rollback"
        saved = dict(self.stands), Counter(self.copies)
        stood = self._stood(number) if self.can.snapshots else ()
        chunk = self._chunk(number, stood, choices)
        both = [
            tuple(
                tuple(replace(change, transaction=number if together and change.position else None) for change in deed)
                for deed in forms
            )
            for at, step in enumerate(steps)
            for forms in self._deed(
                number * ROOM + 4 * at + 10, together, *step, fault=(fates[at % len(fates)] + 11 * at) % _FAULTS
            )
        ]
        deeds, mended = (tuple(forms[which] for forms in both) for which in range(2))
        if ending != "commit":
            # What is not there in the end may be written again, so that other changes meet the same keys.
            self.stands, self.copies = saved
        else:
            self.committed += [change for deed in deeds for change in deed]
        mended = mended if mended != deeds else ()
        return Unit(number, deeds, together, ending, choices, fates, stood, chunk, mended)

    def _stood(self, number: int) -> tuple[Change, ...]:
        """The source's rows as they are before a unit, with every value that they have there."""
        found: list[Change] = []
        for table in SNAPSHOTTED:
            own = [change for change in self.committed if change.table == table]
            altered = [c for c in self.alterations if c.position < number * ROOM] if own and table == ALTERED else []
            for key, row in sorted(rows([*altered, *own]).items()):
                at = number * ROOM + 1 + len(found)
                found.append(Change(table, at, "insert", key, frozenset(_whole(row).items())))
        return tuple(found)

    def _chunk(self, number: int, stood: Sequence[Change], choices: tuple[int, ...]) -> tuple[Change, ...]:
        """The rows of a table that were not changed while the window of their chunk was open."""
        tables = sorted({change.table for change in stood})
        if not tables:
            return ()
        table, opened = tables[choices[2] % len(tables)], (number - choices[3] % 3 * SPREAD) * ROOM
        changed = {change.key for change in self.committed if change.table == table and change.position > opened}
        return tuple(change for change in stood if change.table == table and change.key not in changed)

    def _deed(
        self, at: int, together: bool, what: str, table: str, one: int, other: int, lacks: int, null: bool, fault: int
    ) -> Iterator[tuple[Deed, Deed]]:
        """Each deed as it is sent, and as it should be."""
        deed: Deed
        for deed in self._good_deed(at, together, what, table, one, other, lacks, null):
            if fault == _BROKEN and not (self.can.broken and len(deed) == 1):  # of one half nothing says whose it is
                yield deed, deed
            elif together or len(deed) == 1 or not self.can.split_moves:
                yield (*deed[:-1], spoilt(deed[-1], fault)), deed
            else:
                yield deed, deed

    def _good_deed(
        self, at: int, together: bool, what: str, table: str, one: int, other: int, lacks: int, null: bool
    ) -> Iterator[Deed]:
        if table == "m" and self.can.keyless:
            yield (self._copy(at, what, one, other),)
            return
        if table == "t":
            table = f"t{self.number % 2}" if self.can.truncates else "a"
        table = "b" if table == "m" else table
        if table == "a" and self.alterations and self.number % 2:
            table = ALTERED
        key, to = self._key(table, one), self._key(table, other)
        absent = self.can.absent[lacks % len(self.can.absent)]
        there, was = self.stands.get((table, key), True), (table, key) in self.stands
        early = at < _UNTIL * SPREAD * ROOM
        if what == "truncate" and table.startswith("t") and self.number % _TRUNCATING == 0 and early:
            self.stands = {name: name[0] != table and stood for name, stood in self.stands.items()}
            yield (Change(table, at, "truncate"),)
        elif what == "load" and self.can.loads and there:
            offset = at if self.can.loads == "here" else 0
            self.stands[table, key] = True
            yield (self._written(table, offset, "insert", key, frozenset(), null and offset > 0),)
        elif what in _COLLISIONS and together and one != other and self._can_collide(what, table, one, other):
            yield from self._collision(at, what, table, one, other, absent)
        elif not there or (what == "write" and not was):
            self.stands[table, key] = True
            yield (self._written(table, at, "insert", key, absent if self.can.partial_inserts else frozenset(), null),)
        elif what == "drop":
            self.stands[table, key] = False
            yield (Change(table, at, "delete", key),)
        elif what == "move" and not self.stands.get((table, to), False) and key != to:
            self.stands[table, key], self.stands[table, to] = False, True
            deleted = Change(table, at, "delete", key)
            yield deleted, self._written(table, at, "insert", to, absent, null, key)
        else:
            self.stands[table, key] = True
            yield (self._written(table, at, "update", key, absent if what == "part" else frozenset(), null),)

    def _can_collide(self, what: str, table: str, one: int, other: int) -> bool:
        """Whether the keys that are to be moved onto are seen to be taken, and those that must be free are."""
        keys = [self._key(table, which) for which in (one, other, 3 - one - other)]
        taken = {place for move in _COLLISIONS[what] for place in move[:1]}
        free = {move[1] for move in _COLLISIONS[what] if move[1] is not None} - taken
        return all(self.stands.get((table, keys[place]), False) for place in taken) and not any(
            self.stands.get((table, keys[place]), False) for place in free
        )

    def _collision(
        self, at: int, what: str, table: str, one: int, other: int, absent: frozenset[str]
    ) -> Iterator[Deed]:
        keys = [self._key(table, which) for which in (one, other, 3 - one - other)]
        moves = _COLLISIONS[what]
        for index, (from_, to) in enumerate(moves):
            deleted = Change(table, at + index, "delete", keys[from_])
            if to is None:
                yield (deleted,)
            else:
                yield deleted, self._written(table, at + index, "insert", keys[to], absent, False, keys[from_])
        for from_, _ in moves:
            self.stands[table, keys[from_]] = False
        for _, to in moves:
            if to is not None:
                self.stands[table, keys[to]] = True

    def _copy(self, at: int, what: str, one: int, other: int) -> Change:
        """A copy of one of a few rows comes, goes, or becomes one of another."""
        new, old = self._image(one), self._image(other)
        have = self.copies[old] > 0
        if what in ("drop", "truncate") and have:
            self.copies[old] -= 1
            return Change(KEYLESS, at, "delete", taken=old)
        self.copies[new] += 1
        if what in ("part", "move") and have:
            self.copies[old] -= 1
            return Change(KEYLESS, at, "update", sent=new, taken=old)
        return Change(KEYLESS, at, "insert", sent=new)

    def _image(self, which: int) -> Image:
        return frozenset({("id", self.number * 100 + which), ("n", which), ("s", "same"), ("big", None)})

    def _columns(self, at: int) -> Sequence[str]:
        return next((change.columns for change in reversed(self.alterations) if change.position < at), FIRST)

    def _key(self, table: str, which: int) -> Key:
        return (self.number * 100 + which, 7)[: len(KEYS[table])]

    def _written(
        self, table: str, at: int, op: str, key: Key, absent: frozenset[str], null: bool, prior: Key | None = None
    ) -> Change:
        values: dict[str, Value] = {"n": at, "s": None if null else f"s{at}", "big": f'big, "{at}"\n'}
        if table == ALTERED:
            own = self._columns(at)
            values |= {name: f"{name}{at}" for name in own}
            absent |= {own[at // 4 % len(own)]} if absent and own else frozenset()
        sent = dict(zip(KEYS[table], key, strict=True)) | {n: v for n, v in values.items() if n not in absent}
        return Change(table, at, op, key, frozenset(sent.items()), absent, prior)
