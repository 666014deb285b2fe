"""What the tables should be: a second opinion in plain Python, that shares no code with the library.

The source's changes are done over again, one after the other, in the source's own order: what a table holds is what is
left at the end. How a change came (in which object, hour or order, and how often) does not appear here but in one
place: a transaction takes part when all of its messages are there.

- A change is known by what it says. Delivered again, it is the same change.
- An insert starts the row again. A delete ends it. A truncate ends all rows that were before it.
- An update sets the columns it sends. A column it does not send stays what it was; where there was no row, nobody
  knows the column: it is *absent*, and shown as null.
- A key change is the delete of the old key and the insert of the new one, at one position. Columns that the insert does
  not send are those that the row had under its old key.
- Within a transaction rows may move onto keys that are taken: the key then has several rows. A delete or a key change
  takes away the one that its image before shows, else the one that was there first; an update changes the one that its
  image shows, else the newest. When the transaction ends, the newest is the key's row.
- A change is bad when it sends a value that is none of its column's type, or that fails the table's check. It takes no
  part, and nothing that belongs to it does: its whole transaction, unless the source ``splits``, and the other half of its
  key change. Unless its message is there without what is bad, too: then that one counts.
- An alteration renames, drops or adds columns of all rows that were before it; one that is added has its default there,
  where the row has not got it already. An update that does not name a column which the table still has sets it to null;
  a column that the table had not when a row was written is null in it, also where no alteration tells that it came since.
- In a table without a key each insert adds a copy of its row, each delete takes one away, an update does both. What is
  taken away is an equal row that was there; else one that is equal in the columns that both have, for these may have changed;
  else it is owed, and is the next that comes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

Value = int | str | None
#: As the value of ``n``: the record of the change cannot be decoded.
BROKEN = "broken"
Key = tuple[int, ...]
#: Columns and values of a row, in any order.
Image = frozenset[tuple[str, Value]]


@dataclass(frozen=True)
class Change:
    """``op``: insert, update, delete, truncate or alter. ``sent``: the columns that were sent, those of the key too.
    ``absent``: columns the table has and that were not. ``prior``: on the insert of a key change, the old key.
    ``taken``: in a table without a key, the row that goes; else what is sent of the row before. ``transaction``: the
    changes of one number were committed together. ``names``: of an alteration, the columns' old and new names, None for
    one that is added or dropped; ``fill``: the default of those that are added; ``columns``: those of before or after that
    are not always there."""

    table: str
    position: int
    op: str
    key: Key = ()
    sent: Image = frozenset()
    absent: frozenset[str] = frozenset()
    prior: Key | None = None
    taken: Image | None = None
    transaction: int | None = None
    names: tuple[tuple[str | None, str | None], ...] = ()
    fill: Value = None
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Message:
    """What is delivered as one: ``changes`` (none: a marker, a tombstone), written as this number of ``entries``. ``tx``: the
    transaction it is part of; None: its changes stand alone. ``name``: of this message, whatever its copies.
    ``described_by``: the name of the message without which it cannot be read."""

    name: str
    changes: tuple[Change, ...] = ()
    tx: str | None = None
    entries: int = 1
    described_by: str | None = None


@dataclass(frozen=True)
class Transaction:
    """``parts``: the names of all messages without which it is not complete. ``taken_back``: the name of the message by
    which the source takes it back: then nothing of it counts, and once that is there nothing of it is waited for.
    ``again``: the same changes in other messages; all of one of these are as good. ``repeats``: the transaction that this
    one is, sent once more."""

    parts: frozenset[str]
    taken_back: str | None = None
    again: tuple[frozenset[str], ...] = ()
    repeats: str | None = None


@dataclass(frozen=True)
class Row:
    """A row as it is published: every column it has, null where nobody knows it; and which those are."""

    values: Mapping[str, Value]
    absent: frozenset[str] = frozenset()


#: Rows by key; in a table without one, copies by image.
Rows = dict[Key, Row]
Copies = Counter[Image]


@dataclass
class Source:
    """``keyless``: tables without a key. ``checked``: tables in which ``n`` may not be below zero. ``transactions`` by
    name. ``by_delivery``: a transaction that waits for what is bad in it does so whatever comes of it again. ``splits``: of
    a transaction only what is bad waits."""

    keyless: Collection[str] = ()
    checked: Collection[str] = ()
    by_delivery: bool = False
    splits: bool = False
    transactions: dict[str, Transaction] = field(default_factory=dict)

    def complete(self, tx: str, landed: Collection[str]) -> bool:
        """Whether a transaction is whole, by the names of the messages that landed."""
        known = self.transactions[tx]
        return any(parts and parts <= set(landed) for parts in (known.parts, *known.again))

    def counted(self, landed: Iterable[Message]) -> set[Change]:
        """The changes that are part of the tables."""
        messages = list(landed)
        names = {message.name for message in messages}
        whole = {
            name
            for name in {message.tx for message in messages if message.tx is not None}
            if self.complete(name, names) and self.transactions[name].taken_back is None
        }
        bad = self.bad_places(messages)
        if not self.splits:
            whole -= {tx for tx, _ in bad}
        return {
            change
            for message in messages
            if message.tx in whole or (message.tx is None and self.is_described(message, names))
            for change in message.changes
            if not self.waits(change, message, bad)
        }

    def is_described(self, message: Message, landed: Collection[str]) -> bool:
        """Whether a message can be read."""
        return message.described_by is None or message.described_by in landed

    def is_bad(self, change: Change) -> bool:
        """Whether a change sends what no table can hold, or what its table may not."""
        n = dict(change.sent).get("n")
        return isinstance(n, str) or (change.table in self.checked and n is not None and n < 0)

    def waits(self, change: Change, message: Message, bad: Collection[tuple[str, int]]) -> bool:
        """Whether a change is bad, or its other half is. ``bad``: the places of what is, in transactions."""
        if message.tx is not None:
            return self.is_bad(change) or (message.tx, change.position) in bad
        return any(self.is_bad(one) for one in message.changes if one.position == change.position)

    def bad_places(self, landed: Iterable[Message]) -> set[tuple[str, int]]:
        """The transactions, and in them the positions, at which a message is bad each time that it came."""
        found: dict[tuple[str, int, str], bool] = {}
        for m in landed:
            for position in {change.position for change in m.changes} if m.tx is not None else ():
                bad = any(self.is_bad(change) for change in m.changes if change.position == position)
                found[m.tx, position, m.name] = found.get((m.tx, position, m.name), True) and bad
        return {(tx, position) for (tx, position, _), bad in found.items() if bad}

    def first(self, tx: str) -> str:
        """The transaction, or the one that it repeats."""
        return self.transactions[tx].repeats or tx

    def bad_and_whole(self, landed: Collection[Message]) -> set[str]:
        """The transactions of which a change is bad, and that are whole, each as the one that it repeats."""
        names = {message.name for message in landed}
        return {self.first(tx) for tx, _ in self.bad_places(landed) if self.complete(tx, names)}

    def undecodable(self, landed: Iterable[Message]) -> set[str]:
        """The transactions with a message that could not be decoded each time that it came."""
        broken: dict[tuple[str, str], bool] = {}
        for m in landed:
            if m.tx is not None:
                broken[m.tx, m.name] = broken.get((m.tx, m.name), True) and any(map(is_broken, m.changes))
        return {tx for (tx, _), each_time in broken.items() if each_time}

    def refused(self, landed: Iterable[Message]) -> set[Change]:
        """The changes that are bad themselves, and can be decoded, once their transactions are whole. Nothing is judged of a
        transaction that waits whole for a record that cannot be decoded."""
        messages = list(landed)
        names = {message.name for message in messages}
        unjudged = set() if self.splits else self.undecodable(messages)
        return {
            change
            for message in messages
            if (message.tx is None and self.is_described(message, names))
            or (
                message.tx is not None
                and message.tx not in unjudged
                and (self.transactions[message.tx].taken_back not in names and self.complete(message.tx, names))
            )
            for change in message.changes
            if self.is_bad(change) and not is_broken(change)
        }

    def tables(self, landed: Iterable[Message]) -> dict[str, Rows | Copies]:
        """Every table that a counted change speaks of, after everything that landed is published."""
        of_table: dict[str, list[Change]] = defaultdict(list)
        for change in self.counted(landed):
            of_table[change.table].append(change)
        return {
            table: copies(changes) if table in self.keyless else rows(changes) for table, changes in of_table.items()
        }


def is_broken(change: Change) -> bool:
    """Whether the record of a change cannot be decoded."""
    return dict(change.sent).get("n") == BROKEN


def rows(changes: Iterable[Change]) -> Rows:
    """Changes of a table with a key, in any order → its rows."""
    stored: dict[Key, list[Row]] = defaultdict(list)
    transaction = None
    for _, deed in groupby(sorted(changes, key=_in_order), key=lambda change: change.position):
        together = list(deed)
        if together[0].transaction is None or together[0].transaction != transaction:
            _end_transaction(stored)
        transaction = together[0].transaction
        _apply(stored, together)
    _end_transaction(stored)
    return {key: present[0] for key, present in stored.items() if present}


def _end_transaction(stored: dict[Key, list[Row]]) -> None:
    for key, present in stored.items():
        stored[key] = present[-1:]


def _apply(stored: dict[Key, list[Row]], deed: Sequence[Change]) -> None:
    """Changes at one position: a change, or the delete and the insert of one or more key changes."""
    # What an unsent column comes from stands under the old key, whether the delete of it has landed or not.
    priors = (change.prior for change in deed if change.prior is not None)
    left = {key: present[-1] for key in priors if (present := stored.get(key))}
    for change in deed:
        present = stored[change.key]
        if change.op == "truncate":
            stored.clear()
        elif change.op == "alter":
            stored.update({key: [_altered(row, change) for row in rows] for key, rows in stored.items()})
        elif change.op == "delete":
            if present:
                left[change.key] = present.pop(_most_like(change.taken, present))
        elif change.op == "insert":
            arrived = change.prior is not None and change.prior != change.key
            new = _written(change, left.get(change.prior) if change.prior is not None else None)
            stored[change.key] = [*present, new] if arrived else [new]
        elif present:
            which = len(present) - 1 - _most_like(change.taken, present[::-1])
            present[which] = _written(change, present[which])
        else:
            present.append(_written(change, None))


def _altered(row: Row, change: Change) -> Row:
    """The row with its columns as they are after an alteration."""
    now = {old: new for old, new in change.names if old is not None}
    taken = {new for old, new in now.items() if new is not None and new != old}
    kept = {name: now.get(name, name) for name in row.values if name in now or name not in taken}
    values = {new: row.values[name] for name, new in kept.items() if new is not None}
    added = {new: change.fill for old, new in change.names if old is None and new is not None}
    return Row(added | values, frozenset(new for name, new in kept.items() if new is not None and name in row.absent))


def _most_like(before: Image | None, present: Sequence[Row]) -> int:
    """Which row an image before shows: the first of those that have most of its values."""
    alike = [sum(row.values.get(name, ...) == value for name, value in before or ()) for row in present]
    return alike.index(max(alike))


def _in_order(change: Change) -> tuple[int, int]:
    # The two halves of a key change share a position.
    return change.position, ("alter", "truncate", "delete", "insert", "update").index(change.op)


def _written(change: Change, old: Row | None) -> Row:
    """The row that a change leaves, where ``old`` is what its unsent columns come from."""
    known = {name for name in change.absent if old is not None and name not in old.absent}
    # A column that the row of before neither has nor lacks was none of its table's: nothing stood there.
    unsent = {name: old.values.get(name) if old is not None and name in known else None for name in change.absent}
    return Row(unsent | dict(change.sent), change.absent - known)


def copies(changes: Iterable[Change], order: Callable[[Image], Any] = repr) -> Copies:
    """Changes of a table without a key → how often it holds which row. ``order``: see :func:`counted_copies`."""
    listed = list(changes)
    emptied = max((change.position for change in listed if change.op == "truncate"), default=-1)
    return +counted_copies((one for one in listed if one.op != "truncate" and one.position > emptied), order)


def counted_copies(changes: Iterable[Change], order: Callable[[Image], Any] = repr) -> Copies:
    """The same, those that are owed below zero. What is taken away meets a copy that was added before it: of its own image,
    else of one that differs in columns without a value, else of one that has the same in all columns that both have; else the
    first that comes behind it. ``order``: which of several that are as good comes first."""
    held: Copies = Counter()
    for _, _, image, sign in sorted(steps_of(changes), key=lambda step: (*step[:2], order(step[2]))):
        found = ((_likeness(image, other), order(other), other) for other, number in held.items() if number * sign < 0)
        met = sorted((one for one in found if one[0] is not None), key=lambda one: one[:2])
        held[met[0][-1] if met else image] += sign
    return held


def steps_of(changes: Iterable[Change]) -> Iterator[tuple[int, int, Image, int]]:
    """(position, place among what stands there, image, 1 for a copy that is added and -1 for one that is taken away)."""
    for change in changes:
        if change.op in ("insert", "update"):
            puts_back = change.taken is not None and with_value(change.taken) == with_value(change.sent)
            yield change.position, 2 if puts_back else 0, change.sent, 1
        if change.taken is not None:
            yield change.position, 1, change.taken, -1


def with_value(image: Image) -> Image:
    """The columns that have a value."""
    return frozenset((name, value) for name, value in image if value is not None)


def _likeness(one: Image, other: Image) -> int | None:
    """How near two images are, 0 the nearest; None: they are of different rows."""
    if one == other:
        return 0
    if with_value(one) == with_value(other):
        return 1
    first, second = dict(one), dict(other)
    return 2 if all(first[name] == second[name] for name in first.keys() & second.keys()) else None


@dataclass(frozen=True)
class Account:
    """What the receipt of an hour says that does not depend on the order in which hours are run, ``held``, and
    ``quarantined``."""

    landed: int = 0
    split: int = 0
    control: int = 0
    held: int = 0
    quarantined: int = 0

    def __add__(self, other: Account) -> Account:
        return Account(
            self.landed + other.landed, self.split + other.split, self.control + other.control, self.held + other.held,
            self.quarantined + other.quarantined,
        )  # fmt: skip


def account(
    source: Source, delivered: Iterable[Message], landed: Sequence[Message], before: Sequence[Message]
) -> Account:
    """The account of what was ``delivered`` in an hour, when everything that has ``landed`` (with it) is published, and
    ``before`` was. ``by_delivery``, what comes again of a transaction that was bad then is held."""
    names, bad = {message.name for message in landed}, source.bad_places(landed)
    bad_transactions = set() if source.splits else {tx for tx, _ in bad}
    bad_before = source.bad_and_whole(before) if source.by_delivery and not source.splits else set()
    total = Account()
    for message in delivered:
        entries, tx = message.entries, message.tx
        counted = Account(landed=1, split=entries - 1)
        taken_back = tx is not None and source.transactions[tx].taken_back in names
        if tx is None:
            held = not source.is_described(message, names)
        else:
            held = not source.complete(tx, names) or source.first(tx) in bad_before
        if any(map(is_broken, message.changes)):
            counted += Account(quarantined=entries)
        elif taken_back or all(change.op == "alter" for change in message.changes):
            counted += Account(control=entries)
        elif held:
            counted += Account(held=entries)
        elif tx in bad_transactions:
            counted += Account(quarantined=entries)
        else:
            waiting = {change.position for change in message.changes if source.waits(change, message, bad)}
            counted += Account(quarantined=len(waiting))
        total += counted
    return total
