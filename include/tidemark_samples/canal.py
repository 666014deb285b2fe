"""Exports as Canal would leave them, from a small made-up inventory in MySQL, and the resulting tables.

Everything follows from the seed: the same arguments give the same bytes. The stream contains what real ones do: two
databases in one topic, several rows to a message, several messages of one batch in one moment, key changes, rows that
come again after their delete, a table without a key, a truncate, a column added and one renamed, redelivered messages
and objects out of order.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from tidemark_samples.drawing import Key, KeyedRows, Row, draw_sizes
from tidemark_samples.exporting import Sample, write_feed
from tidemark_samples.history import Effect, History, Step, redelivered, write_hours

FEED = "inventory"
TOPIC = "canal.inventory"

#: database.table → its columns with MySQL's types, and its key (none: a table without one).
TABLES: dict[str, tuple[dict[str, str], list[str]]] = {
    "inventory.item": (
        {
            "id": "bigint(20)", "name": "varchar(60)", "price": "decimal(12,2)", "photo": "blob", "made": "date",
            "changed": "datetime(3)", "note": "varchar(200)",
        },
        ["id"],
    ),
    "inventory.shelf": ({"hall": "char(2)", "number": "int(11)", "load": "double", "items": "int(10) unsigned"},
                        ["hall", "number"]),
    "inventory_log.moves": ({"what": "varchar(20)", "pieces": "int(11)"}, []),
    "inventory_log.scans": ({"id": "bigint(20) unsigned", "text": "text", "broken": "tinyint(1)"}, ["id"]),
}  # fmt: skip
_ITEM, _MOVES, _SCANS = "inventory.item", "inventory_log.moves", "inventory_log.scans"

_TEXTS = ("", "plain", 'she said "no"', "two\nlines", "Zoë Ångström", "日本語", "back\\slash", "null", " blanks ", "{}")


def generate(out: Path, sample: Sample) -> None:
    """Write ``exports/``, ``feeds/inventory.yaml`` and ``truth/<hour>/<database.table>.jsonl`` into a folder.

    ``sample.events`` is about how many rows change in an hour. ``truth`` is the state of every table at every
    hour's cut.
    """
    container = sample.container or "kafka_json"
    # Only offsets tell the messages of one batch and moment apart.
    source = _Source(random.Random(sample.seed), sample.start, same_moment=container == "kafka_json")
    steps = [step for hour in range(sample.hours) for step in source.hour(hour, sample.hours, sample.events)]
    again = [_told_apart(step) for step in redelivered(steps, source.random, 0.06)]
    keys = {table: key for table, (_, key) in TABLES.items()}
    poison = [_poisoned(number) for number in range(sample.poison)]
    history = History(topic=TOPIC, tables=keys, steps=steps, again=again, poison=poison)
    write_hours(out, sample.names, history, source.random, container)
    write_feed(out / "feeds", _feed(container))


class _Source:
    """The server: its rows, and what Canal sends of what happens to them, in its order."""

    def __init__(self, chance: random.Random, start: datetime, *, same_moment: bool) -> None:
        self.random, self.start, self.same_moment = chance, start, same_moment
        self.columns = {table: dict(columns) for table, (columns, _) in TABLES.items()}
        self.rows = {table: KeyedRows() for table in TABLES}
        self.deleted: dict[str, list[Row]] = {table: [] for table in TABLES}
        self.batch = self.copies = 0

    def hour(self, hour: int, hours: int, events: int) -> Iterator[Step]:
        """The steps of an hour."""
        begin = self.start + timedelta(hours=hour)
        sizes = draw_sizes(events, lambda: self.random.choices((1, self.random.randint(2, 6)), (3, 1))[0])
        moments = sorted(self.random.uniform(1, 3590) for _ in sizes)
        special = self._special(hour, hours)
        for number, (size, second) in enumerate(zip(sizes, moments, strict=True)):
            now = begin + timedelta(seconds=second)
            for make_steps in special[number * len(special) // len(sizes) : (number + 1) * len(special) // len(sizes)]:
                yield from make_steps(now)
            yield self._change(now, size)

    def _special(self, hour: int, hours: int) -> list[Any]:
        """Steps that happen once: in the first hour, the second, the third, or in the last one there is."""
        by_hour: list[list[Any]] = [
            [self._irrelevant_statements, self._there_and_back, self._out_and_in, *[self._equal_rows] * (hours > 1)],
            [self._column_added, self._there_and_back, self._out_and_in],
            [self._truncate, self._column_renamed],
        ]
        if hour == hours - 1:
            return [make_steps for later in by_hour[hour:] for make_steps in later]
        return by_hour[hour] if hour < len(by_hour) else []

    def _irrelevant_statements(self, now: datetime) -> Iterator[Step]:
        """Statements that concern neither rows nor columns."""
        for type_, text in (("CINDEX", "CREATE INDEX i ON item (name)"), ("QUERY", "ANALYZE TABLE item")):
            yield Step([(now, self._statement(type_, _ITEM, text, now))])

    def _there_and_back(self, now: datetime) -> Iterator[Step]:
        """A row changed, changed back and changed again by one batch, in one millisecond: the first and the last of the
        messages are equal."""
        if not self.same_moment:
            return
        if not self.rows[_ITEM]:
            yield self._inserted(_ITEM, now)
        key = self.rows[_ITEM].draw(self.random)
        before = self.rows[_ITEM][key]
        after = before | {"price": Decimal(self.random.randrange(10**6)).scaleb(-2), "name": "there and back"}
        self.rows[_ITEM][key] = after
        pairs = [(before, after), (after, before), (before, after)]
        effect = Effect(table=_ITEM, key=key, row=dict(after))
        yield self._batch([("UPDATE", _ITEM, pair) for pair in pairs], [effect], now)

    def _out_and_in(self, now: datetime) -> Iterator[Step]:
        """A row inserted, deleted and inserted by one batch, in one millisecond."""
        if not self.same_moment:
            return
        row = self._new_row(_ITEM, now, again=False)
        key = self._key_of(_ITEM, row, None)
        self.rows[_ITEM][key] = row
        changes = [("INSERT", _ITEM, (None, row)), ("DELETE", _ITEM, (row, None)), ("INSERT", _ITEM, (None, row))]
        yield self._batch(changes, [Effect(table=_ITEM, key=key, row=dict(row))], now)

    def _equal_rows(self, now: datetime) -> Iterator[Step]:
        """Two equal rows of a table without a key, inserted by two messages of one batch and millisecond."""
        if not self.same_moment:
            return
        row = self._new_row(_MOVES, now, again=False)
        keys = [self._key_of(_MOVES, row, None) for _ in range(2)]
        for key in keys:
            self.rows[_MOVES][key] = dict(row)
        effects = [Effect(table=_MOVES, key=key, row=dict(row)) for key in keys]
        yield self._batch([("INSERT", _MOVES, (None, row))] * 2, effects, now)

    def _batch(
        self, changes: list[tuple[str, str, tuple[Row | None, Row | None]]], effects: list[Effect], now: datetime
    ) -> Step:
        """Messages of one batch and millisecond, a row each."""
        sent = [
            (now, self._rows(kind, table, [pair], now, next_batch=number == 0))
            for number, (kind, table, pair) in enumerate(changes)
        ]
        return Step(sent, effects)

    def _inserted(self, table: str, now: datetime) -> Step:
        row = self._new_row(table, now, again=False)
        key = self._key_of(table, row, None)
        self.rows[table][key] = row
        effect = Effect(table=table, key=key, row=dict(row))
        return Step([(now, self._rows("INSERT", table, [(None, row)], now))], [effect])

    def _column_added(self, now: datetime) -> Iterator[Step]:
        text = "ALTER TABLE `inventory`.`item` ADD COLUMN `weight` decimal(8,3) DEFAULT NULL AFTER `price`"
        yield self._altered(text, Effect(table=_ITEM, added="weight"), now)
        self.columns[_ITEM]["weight"] = "decimal(8,3)"

    def _column_renamed(self, now: datetime) -> Iterator[Step]:
        yield self._altered(
            "ALTER TABLE item RENAME COLUMN note TO remark", Effect(table=_ITEM, renamed=("note", "remark")), now
        )
        columns = self.columns[_ITEM]
        self.columns[_ITEM] = {"remark" if name == "note" else name: kind for name, kind in columns.items()}

    def _altered(self, text: str, effect: Effect, now: datetime) -> Step:
        step = Step([(now, self._statement("ALTER", effect.table, text, now))], [effect])
        effect.apply(self.rows)
        return step

    def _truncate(self, now: datetime) -> Iterator[Step]:
        self.rows[_SCANS].clear()
        yield Step([(now, self._statement("TRUNCATE", _SCANS, "TRUNCATE TABLE scans", now))], [Effect(table=_SCANS)])

    def _change(self, now: datetime, size: int) -> Step:
        """One statement's rows, in one message."""
        pick = self.random
        table = pick.choice(list(self.columns))
        rows = self.rows[table]
        kind = pick.choices(("INSERT", "UPDATE", "DELETE"), (3, 5, 2))[0] if len(rows) > 8 else "INSERT"
        pairs: list[tuple[Row | None, Row | None]] = []
        effects: list[Effect] = []
        keys: list[Key | None] = [None] * size
        if kind != "INSERT":
            keys = list(rows.draw_several(pick, size))
        for key in keys:
            before = rows.pop(key) if key is not None else None
            after = None
            if kind == "DELETE" and before is not None:
                self.deleted[table].append(before)
            else:
                fresh = self._new_row(table, now, again=kind == "INSERT")
                # among several rows it could meet what the same statement has just written
                moves = len(keys) == 1 and pick.random() < 0.2
                kept = set() if moves else set(TABLES[table][1])
                changed = {name for name in fresh if pick.random() < 0.5} - kept | (set(TABLES[table][1]) - kept)
                after = fresh if before is None else {n: fresh[n] if n in changed else v for n, v in before.items()}
            if key is not None:
                effects.append(Effect(table=table, key=key))
            if after is not None:
                stored_key = self._key_of(table, after, key)
                rows[stored_key] = after
                effects.append(Effect(table=table, key=stored_key, row=dict(after)))
            pairs.append((before, after))
        # A statement that took long began before others that are in the log already.
        took = timedelta(seconds=pick.choice((30, 600))) if pick.random() < 0.2 else timedelta(0)
        return Step([(now, self._rows(kind, table, pairs, now, took=took))], effects)

    def _key_of(self, table: str, row: Row, key: Key | None) -> Key:
        """The key under which a row is stored; a number of its own in a table without a key."""
        if names := TABLES[table][1]:
            return tuple(row[name] for name in names)
        self.copies += key is None
        return key or (self.copies,)

    def _new_row(self, table: str, now: datetime, *, again: bool) -> Row:
        """A row that is not there; sometimes one that was deleted before, under its old key."""
        key, pick, old = TABLES[table][1], self.random, self.deleted[table]
        found = pick.choice(old) if again and key and old and pick.random() < 0.3 else None
        if found and tuple(found[name] for name in key) in self.rows[table]:
            found = None  # it has come again
        while True:
            row = {name: self._value(name, kind, now) for name, kind in self.columns[table].items()}
            if found:
                row |= {name: found[name] for name in key}
            if not key or tuple(row[name] for name in key) not in self.rows[table]:
                return row

    def _value(self, name: str, kind: str, now: datetime) -> Any:
        pick = self.random
        keys: dict[str, Callable[[], Any]] = {
            "hall": lambda: pick.choice(("A1", "B2", "ß9")), "number": lambda: pick.randrange(10**5),
            "pieces": lambda: pick.randint(1, 3), "what": lambda: pick.choice(("in", "out")),
        }  # fmt: skip
        if name == "id":
            # above what a signed 64-bit number holds
            return Decimal(2**63 + pick.randrange(10**6)) if "unsigned" in kind else pick.randrange(10**12)
        if name in keys:
            return keys[name]()
        if pick.random() < 0.1:
            return None
        values: dict[str, Callable[[], Any]] = {
            "decimal(12,2)": lambda: Decimal(pick.randrange(-(10**4), 10**10)).scaleb(-2),
            "decimal(8,3)": lambda: Decimal(pick.randrange(10**8)).scaleb(-3), "blob": lambda: pick.randbytes(8),
            "date": lambda: date(2000, 1, 1) + timedelta(pick.randrange(9000)),
            "double": lambda: round(pick.uniform(-9, 9), 4),
            "datetime(3)": lambda: now.replace(microsecond=now.microsecond // 1000 * 1000),
            "int(10) unsigned": lambda: pick.randrange(2**32), "tinyint(1)": lambda: pick.randint(0, 1),
        }  # fmt: skip
        return values.get(kind, lambda: pick.choice(_TEXTS))()

    def _rows(
        self,
        type_: str,
        table: str,
        pairs: list[tuple[Row | None, Row | None]],
        now: datetime,
        *,
        next_batch: bool = True,
        took: timedelta = timedelta(0),
    ) -> bytes:
        images = [after if after is not None else before or {} for before, after in pairs]
        data = [{name: _text(value) for name, value in image.items()} for image in images]
        old = [
            {name: _text(value) for name, value in (before or {}).items() if value != (after or {}).get(name)}
            for before, after in pairs
        ]
        key = TABLES[table][1]
        self.batch += next_batch
        return _message(
            type_, table, now, self.batch, data=data, old=old if type_ == "UPDATE" else None, pkNames=key or None,
            mysqlType=self.columns[table], es=_millis(now - took) // 1000 * 1000,
        )  # fmt: skip

    def _statement(self, type_: str, table: str, text: str, now: datetime) -> bytes:
        self.batch += 1
        return _message(type_, table, now, self.batch, isDdl=True, sql=text)


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S.") + f"{value.microsecond // 1000:03}"
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def _message(type_: str, table: str, now: datetime, batch: int, **more: Any) -> bytes:
    database, short = table.split(".")
    at = _millis(now)
    content = {
        "data": None, "database": database, "es": at // 1000 * 1000, "id": batch, "isDdl": False, "mysqlType": None,
        "old": None, "pkNames": None, "sql": "", "sqlType": None, "table": short, "ts": at + 40, "type": type_,
    }  # fmt: skip
    return json.dumps(content | more, ensure_ascii=False, separators=(",", ":")).encode()


def _millis(at: datetime) -> int:
    return round((at - datetime(1970, 1, 1)) / timedelta(milliseconds=1))


def _told_apart(again: Step) -> Step:
    """A redelivery with a heartbeat before it: equal rows without a key are another delivery's where something lies
    between the two."""
    at = again.sent[0][0]
    return Step([(at, _message("MHEARTBEAT", "inventory.", at, 0)), *again.sent])


def _poisoned(number: int) -> bytes:
    """A record that cannot be decoded: cut short, of an unknown type, without its position, or no message."""
    row = {"data": [{"id": str(-1 - number)}], "pkNames": ["id"]}
    whole = _message("INSERT", _SCANS, datetime(2026, 1, 1), number + 1, **row)
    kinds = (
        whole[: len(whole) // 2],
        whole.replace(b'"INSERT"', b'"UPSERT"'),
        _message("INSERT", _SCANS, datetime(2026, 1, 1), number + 1, ts="soon", **row),
        b"a line of a log file that strayed in",
    )
    return kinds[number % len(kinds)]


def _feed(container: str) -> dict[str, Any]:
    return {
        "feed": FEED,
        "description": "The inventory and its log, from MySQL by Canal",
        "owner": "inventory-data",
        "topics": [TOPIC],
        "exports": {"path": "{topic}/dt={date}/hr={hour}/*"},
        "container": {"type": container},
        "format": {"type": "canal"},
    }
