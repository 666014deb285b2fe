"""A plan: one feed whose exports hold many histories, its hours run in some order, and what each run must leave.

Messages travel as exports do: into other hours than their neighbours', twice, into objects in any order; some never
come. Hours are run in any order; some exports change after they were run, and their hours are run again.
"""

from __future__ import annotations

import os
import random
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from tests.convergence.histories import CHECKED, KEYLESS, KEYS, LONGEST, SPREAD, Deed, History, Unit
from tests.convergence.oracle import Account, Change, Message, Source, account
from tests.convergence.wire import Format, Sent, transactions
from tidemark_samples.exporting import Message as Record
from tidemark_samples.exporting import write_export

HOURS = tuple(f"2026-11-20T{hour:02}" for hour in range(4))


@dataclass(frozen=True)
class Publication:
    """An hour's export as it is at some time: ``version`` 2 is the one that changed."""

    hour: int
    version: int

    def __str__(self) -> str:
        return f"{HOURS[self.hour]} v{self.version}"


@dataclass(frozen=True)
class Size:
    """How many hours a plan has, how many of them are run again, and the tables whose changes it delivers."""

    hours: int
    again: int
    tables: tuple[str, ...]

    def of(self, history: History) -> History:
        """What a history says of these tables: those of a history know nothing of each other."""
        units = (
            replace(unit, deeds=tuple(deed for deed in unit.deeds if self._has(deed)), stood=self._rows(unit.stood),
                    chunk=self._rows(unit.chunk), mended=tuple(deed for deed in unit.mended if self._has(deed)))
            for unit in history.units
        )  # fmt: skip
        return replace(history, units=tuple(unit for unit in units if unit.deeds))

    def _has(self, deed: Deed) -> bool:
        return deed[0].table in self.tables

    def _rows(self, read: tuple[Change, ...]) -> tuple[Change, ...]:
        return tuple(row for row in read if row.table in self.tables)


WHOLE = Size(len(HOURS), 2, (*KEYS, KEYLESS))


@dataclass(frozen=True)
class Delivery:
    """A message in an export. ``unit``: where it is from; None: from no history."""

    sent: Sent
    at: Publication
    unit: Unit | None


#: An export's object: its records, and what each says.
Object = tuple[tuple[Record, Message], ...]


class DeliveryPlan:
    """``order``: the publications as they are run, those of the ``size``. ``source``: what the oracle needs to know. By every
    other seed, of a transaction only what is bad waits."""

    def __init__(
        self, format_: Format, histories: Sequence[History], of_seed: int, exports: Path, size: Size = WHOLE
    ) -> None:
        self.format, self.exports, self.size = format_, exports, size
        self.random = random.Random(f"{format_.name} {of_seed}")
        by_delivery = format_.name == "ibm_kafka"
        self.source = Source(keyless={KEYLESS}, checked=CHECKED, by_delivery=by_delivery, splits=of_seed % 2 == 0)
        self.order = self._order()
        units = sorted((unit for history in histories for unit in size.of(history).units), key=lambda unit: unit.number)
        encoded = [(unit, format_.encoder.encode(unit)) for unit in units]
        for unit, sent in encoded:
            self.source.transactions |= transactions(sent, taken_back=unit.ending == "rollback")
        self.again: list[Delivery] = []
        self.deliveries = list(self._streamed(encoded) if format_.stream else self._scattered(encoded))
        for sent in getattr(format_.encoder, "every_hour", list)():
            self.deliveries += [Delivery(sent, Publication(hour, 1), None) for hour in range(self.size.hours)]
        self.deliveries += self.again
        if not format_.by_offset:
            self._shuffle()
        self.objects = self._objects()
        # An export that is the same again is no publication.
        self.order = [at for at in self.order if at.version == 1 or self.delivered(at)]

    def _order(self) -> list[Publication]:
        """Hours in any order; some of them come to be run again, changed, some time after they were run."""
        order = [Publication(hour, 1) for hour in self.random.sample(range(self.size.hours), self.size.hours)]
        for first in self.random.sample(order, self.size.again):
            at = self.random.randint(order.index(first) + 1, len(order))
            order.insert(at, Publication(first.hour, 2))
        return order

    def _shuffle(self) -> None:
        """Bring all deliveries into any order, but those that their topic keeps in order."""
        in_turn = [delivery for delivery in self.deliveries if delivery.sent.in_turn]
        self.random.shuffle(self.deliveries)
        in_order = iter(in_turn)
        self.deliveries = [next(in_order) if one.sent.in_turn else one for one in self.deliveries]

    def _scattered(self, encoded: list[tuple[Unit, list[Sent]]]) -> Iterator[Delivery]:
        in_turn = [(unit, one) for unit, sent in encoded for one in sent if one.in_turn and not one.tight]
        hours = iter(self._cut(in_turn))
        for unit, sent in encoded:
            going, mended = [one for one in sent if one.topic], self._mended(unit)
            fates = [unit.fates[index % len(unit.fates)] for index in range(len(going))]
            homes = [self._home(unit, fate) for fate in fates]
            if self.format.in_order:
                homes.sort(key=self.order.index)
            for one, fate, home in zip(going, fates, homes, strict=True):
                if one.in_turn:
                    yield Delivery(one, homes[0] if one.tight else Publication(next(hours), 1), unit)
                    continue
                for at in [home, *self._again(home, fate)]:
                    yield Delivery(one, at, unit)
                if (copy := mended.get(one.says.name)) is not None and copy.says != one.says:
                    yield Delivery(copy, self._mended_at(home, fate), unit)

    def _cut(self, stream: list[tuple[Unit, Sent]]) -> list[int]:
        """The hours of messages that come in order. What cuts them is within a unit, where one can be cut."""
        within = [at for at in range(1, len(stream)) if stream[at - 1][0] is stream[at][0]]
        cuts = sorted(self.random.sample(within, min(len(within), self.size.hours - 1)))
        return [bisect_right(cuts, at) for at in range(len(stream))]

    def _home(self, unit: Unit, fate: int) -> Publication:
        """Where a message comes first: mostly in the order of the source, sometimes in the next hour or any."""
        usual = unit.number // SPREAD * self.size.hours // LONGEST
        kind, number = fate % 20, fate // 20 % self.size.hours
        hour = usual if kind < 11 or kind > 15 else min(usual + 1, self.size.hours - 1) if kind < 14 else number
        changed = Publication(hour, 2)
        return changed if changed in self.order and (kind + number) % 4 == 0 else Publication(hour, 1)

    def _again(self, home: Publication, fate: int) -> list[Publication]:
        kind, number = fate % 20, fate // 20 % self.size.hours
        later = self.order[self.order.index(home) :]
        other = later[number % len(later)] if self.format.in_order else self.order[number]
        return {16: [other], 17: [other], 18: [home], 19: [home, other]}.get(kind, [])

    def _mended(self, unit: Unit) -> dict[str, Sent]:
        """By its name, each message of the unit without what is bad, where it comes once more. Of formats with transactions:
        elsewhere nothing waits with it."""
        together = self.format.encoder.TRAITS.transactions and not self.source.by_delivery
        if not unit.mended or not together or unit.fates[-1] % 3 == 0:
            return {}
        return {one.says.name: one for one in self.format.encoder.encode(replace(unit, deeds=unit.mended))}

    def _mended_at(self, home: Publication, fate: int) -> Publication:
        """Where such a message comes: in the hour of the other one, before it or behind it."""
        at = self.order[self.order.index(home) :] if self.format.in_order else self.order
        return at[fate % len(at)]

    def _streamed(self, encoded: list[tuple[Unit, list[Sent]]]) -> Iterator[Delivery]:
        """Hours cut the stream, within a unit too. What comes again, or with a changed export, is a whole unit."""
        repeatable = getattr(self.format.encoder, "repeatable", lambda unit: True)
        stream = [(unit, one) for unit, sent in encoded for one in sent if one.topic]
        cuts = [len(stream) * (hour + 1) // self.size.hours for hour in range(self.size.hours)]
        cuts = [cut + (cut < len(stream) and stream[cut][1].tight) for cut in cuts]
        # Nothing tells that rows are of a transaction which has no end, in an hour run before the one that holds its begin.
        for hour, cut in enumerate(cuts[:-1]):
            inside = stream[cut - 1][0] is stream[cut][0] and stream[cut][0].ending == "never"
            if inside and self.order.index(Publication(hour + 1, 1)) < self.order.index(Publication(hour, 1)):
                cuts[hour] = next(at for at in range(cut, len(stream)) if stream[at][0] is not stream[cut][0])
        hours = [next(hour for hour, cut in enumerate(cuts) if index < cut) for index in range(len(stream))]
        # A verdict that takes back what an hour before began must be the first to end something in its hour.
        torn = {
            hour
            for hour, cut in enumerate(cuts[:-1], 1)
            if stream[cut - 1][0] is stream[cut][0] and stream[cut][0].ending == "rollback"
        }
        of_unit: dict[int, list[tuple[Sent, int]]] = defaultdict(list)
        for (unit, one), hour in zip(stream, hours, strict=True):
            of_unit[unit.number].append((one, hour))
        for unit, _ in encoded:
            mine, fate = of_unit[unit.number], unit.fates[0]
            split = len({hour for _, hour in mine}) > 1
            late = not split and fate % 5 == 0
            for one, hour in mine:
                changed = Publication(hour, 2)
                yield Delivery(one, changed if late and changed in self.order else Publication(hour, 1), unit)
            if fate % 20 > 15 and mine and repeatable(unit):
                again = min(mine[-1][1] + fate // 20 % 3, self.size.hours - 1)
                # Rows by themselves that come again before the markers around them have come, in an hour that is run first,
                # may be part of what an hour before left open: nothing tells.
                first = self.order.index(Publication(again, 1)) < self.order.index(Publication(mine[0][1], 1))
                alone = self.format.encoder.TRAITS.transactions and not unit.together
                for one, _ in mine if again not in torn and not (first and alone) else ():
                    self.again.append(Delivery(self._copied(unit, one), Publication(again, 1), unit))

    def _copied(self, unit: Unit, one: Sent) -> Sent:
        """A message of a unit that comes again whole: where markers tie it together, as a transaction of its own."""
        if not unit.together or one.says.tx is None:
            return one
        tx = f"{one.says.tx}.again"
        known = self.source.transactions[one.says.tx]
        parts = frozenset(f"{name}.again" for name in known.parts)
        taken_back = known.taken_back and f"{known.taken_back}.again"
        self.source.transactions[tx] = replace(known, parts=parts, taken_back=taken_back, repeats=one.says.tx)
        return replace(one, says=replace(one.says, name=f"{one.says.name}.again", tx=tx))

    def _objects(self) -> dict[tuple[str, Publication], list[Object]]:
        """What lies where, per topic and publication: an hour's second version holds all objects of its first, one of
        them with more in it or a new one beside them."""
        objects: dict[tuple[str, Publication], list[Object]] = {}
        for topic in self.format.encoder.TOPICS:
            offset = 0
            for hour in range(self.size.hours):
                lists: list[Object] = [(), ()]
                for at in (Publication(hour, 1), Publication(hour, 2)):
                    mine = [d.sent for d in self.deliveries if d.at == at and d.sent.topic == topic]
                    new = [(_record(one, topic, offset + index), one.says) for index, one in enumerate(mine)]
                    offset += len(new)
                    if at.version == 1:
                        at_random = [self.random.randrange(2) for _ in new]
                        lists = [tuple(r for r, of in zip(new, at_random, strict=True) if of == n) for n in range(2)]
                        lists = lists if self.format.by_offset else [_apart(records) for records in lists]
                    elif new and hour % 2 == 0:
                        lists = [(*lists[0], *new), *lists[1:]]
                    else:
                        lists = [*lists, tuple(new)]
                    objects[topic, at] = lists
        return objects

    def land(self, at: Publication) -> None:
        """Write the hour's export as it is now."""
        for topic in self.format.encoder.TOPICS:
            lists = [[record for record, _ in records] for records in self.objects[topic, at] if records]
            write_export(self.exports, topic, HOURS[at.hour], lists, self.format.container)

    def delivered(self, at: Publication) -> list[Message]:
        """What lands with a publication: an object that has more in it than it had lands again, whole."""
        found: list[Message] = []
        for topic in self.format.encoder.TOPICS:
            before = self.objects[topic, Publication(at.hour, 1)] if at.version > 1 else []
            for records in self.objects[topic, at]:
                if records not in before:
                    found += [says for _, says in records]
        return found

    def landed(self, published: Sequence[Publication]) -> list[Message]:
        """All that has landed with some publications."""
        return [message for at in published for message in self.delivered(at)]

    def accounts(self, published: Sequence[Publication]) -> Account:
        """What the receipt of the newest of some publications must say."""
        newest, total = published[-1], Account()
        for index, at in enumerate(published):
            if at.hour == newest.hour:
                before = self.landed(published[:index])
                total += account(self.source, self.delivered(at), [*before, *self.delivered(at)], before)
        return total

    def story(self, history: int) -> str:
        """A history for a person who looks for what went wrong."""
        lines = []
        for delivery in sorted(
            (d for d in self.deliveries if d.unit and d.unit.number % SPREAD == history),
            key=lambda d: (d.unit.number if d.unit else 0, d.sent.says.name),
        ):
            says = delivery.sent.says
            changes = "; ".join(
                f"{c.table} {c.op} {c.key} @{c.position} sent {sorted(map(str, dict(c.sent).items()))}"
                + (f" absent {sorted(c.absent)}" if c.absent else "")
                + (f" from {c.prior}" if c.prior else "")
                + (f" takes {sorted(map(str, c.taken))}" if c.taken else "")
                for c in says.changes
            )
            lines.append(f"  {delivery.at}  {says.name} tx {says.tx}: {changes or 'no change'}")
        return os.linesep.join(lines)


def _apart(records: Object) -> Object:
    """Where nothing tells offsets, a row of a table without a key that comes right behind itself is another, equal one, and a
    message that is mended right behind the other one goes on with it: what comes again lies where no neighbour is a copy."""
    found: list[tuple[Record, Message]] = []
    for record, says in records:
        at = len(found)
        keyless = any(change.table == KEYLESS for change in says.changes)
        if found and found[-1][1].name == says.name and (found[-1][1] != says or keyless):
            around = [None, *(other.name for _, other in found), None]
            at = next((place for place in range(at) if says.name not in around[place : place + 2]), at)
        found.insert(at, (record, says))
    return tuple(found)


def _record(one: Sent, topic: str, offset: int) -> Record:
    offset = one.offset if one.offset is not None else offset
    return Record(
        topic=topic, partition=offset % 2 if one.spread else 0, offset=offset, sent_at=datetime(2026, 11, 20),
        key=one.key, value=one.value, headers=one.headers,
    )  # fmt: skip
