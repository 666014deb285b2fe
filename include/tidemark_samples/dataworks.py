"""Exports as a DataWorks whole-database task would leave them, from a small made-up mall, and the resulting tables.

Everything follows from the seed: the same arguments give the same bytes. The stream contains what real ones do: several
databases in one topic, tables with a key and with a row id, updates in one message and in pairs, transactions over the
end of an hour, one rolled back and one that never ends, key changes, rows that come again after their delete, a
truncate, a column added and one renamed, heartbeats, redelivered messages and objects out of order.
"""

from __future__ import annotations

import base64
import copy
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from tidemark_samples.drawing import Key, KeyedRows, Row, draw_sizes
from tidemark_samples.exporting import Sample, write_feed
from tidemark_samples.history import Effect, History, Step, redelivered, write_hours

FEED = "mall"
TOPIC = "dataworks.mall"
_ROW_ID = "#alibaba_rds_row_id#"

#: database.table → its columns with the types of the messages, and its key.
TABLES: dict[str, tuple[dict[str, str], list[str]]] = {
    "mall_shop.customers": (
        {"id": "LONG", "name": "STRING", "vip": "BOOLEAN", "score": "DOUBLE", "photo": "BYTES", "joined": "DATE"},
        ["id"],
    ),
    "mall_shop.orders": (
        {"id": "LONG", "customer": "LONG", "total": "STRING", "note": "STRING", "placed": "DATE"}, ["id"],
    ),
    "mall_stock.levels": ({"sku": "STRING", "store": "LONG", "pieces": "LONG", "counted": "DATE"}, ["sku", "store"]),
    "mall_audit.events": ({"actor": "STRING", "action": "STRING", _ROW_ID: "LONG"}, [_ROW_ID]),
}  # fmt: skip
_ORDERS, _EVENTS = "mall_shop.orders", "mall_audit.events"

_TEXTS = ("", "plain", 'she said "no"', "two\nlines", "Zoë Ångström", "日本語", "back\\slash", "null", " blanks ", "{}")


def generate(out: Path, sample: Sample) -> None:
    """Write ``exports/``, ``feeds/mall.yaml`` and ``truth/<hour>/<database.table>.jsonl`` into a folder.

    ``sample.events`` is about how many row changes an hour holds. ``truth`` is the state of every table at every
    hour's cut: the transactions and pairs that are whole by then; the last one of the last hour never is.
    """
    container = sample.container or "kafka_json"
    source = _Source(random.Random(sample.seed), sample.start)
    steps = [step for hour in range(sample.hours) for step in source.hour(hour, sample.hours, sample.events)]
    again = redelivered(steps, source.random, 0.06)
    keys = {table: key for table, (_, key) in TABLES.items()}
    poison = [_poisoned(number, source) for number in range(sample.poison)]
    history = History(topic=TOPIC, tables=keys, steps=steps, again=again, poison=poison)
    write_hours(out, sample.names, history, source.random, container)
    write_feed(out / "feeds", _feed(container))


class _Source:
    """The databases: their rows, and what the task sends of what happens to them, in its order."""

    def __init__(self, chance: random.Random, start: datetime) -> None:
        self.random, self.start = chance, start
        self.columns = {table: dict(columns) for table, (columns, _) in TABLES.items()}
        self.rows = {table: KeyedRows() for table in TABLES}
        self.deleted: dict[str, list[Row]] = {table: [] for table in TABLES}
        self.sequence = int((start - datetime(1970, 1, 1)).total_seconds()) * 10**9

    def hour(self, hour: int, hours: int, events: int) -> Iterator[Step]:
        """The steps that begin in an hour; the last one ends in the next hour."""
        begin = self.start + timedelta(hours=hour)
        sizes = draw_sizes(events - 8, lambda: self.random.choices((1, self.random.randint(2, 9)), (1, 1))[0])
        moments = sorted(self.random.uniform(1, 3500) for _ in sizes)
        special = self._special(hour, hours)
        for number, (size, second) in enumerate(zip(sizes, moments, strict=True)):
            now = begin + timedelta(seconds=second)
            if number % 9 == 4:
                yield Step([(now, _message("MHEARTBEAT", None, now))])
            # spread over the hour; never the last, since a transaction that never ends needs another after it
            for make_steps in special[number * len(special) // len(sizes) : (number + 1) * len(special) // len(sizes)]:
                yield from make_steps(now)
            yield self._transaction(now, size) if size > 1 else self._single(now)
        over = begin + timedelta(seconds=3598)
        if hour % 2 == 0 or hour == hours - 1:
            yield self._transaction(over, 7, seconds=1.0)
        else:
            if not self.rows[_ORDERS]:
                yield self._inserted(_ORDERS, over)
            yield self._split(over)

    def _special(self, hour: int, hours: int) -> list[Any]:
        """Steps that happen once: in the first hour, the second, the third, or in the last one there is."""
        by_hour: list[list[Any]] = [
            [self._irrelevant_statements],
            [self._never_ends, self._column_added, self._rolled_back],
            [self._truncate, self._column_renamed],
        ]
        if hour == hours - 1:
            return [make_steps for later in by_hour[hour:] for make_steps in later]
        return by_hour[hour] if hour < len(by_hour) else []

    def _next(self) -> str:
        self.sequence += self.random.randint(1, 3)
        return str(self.sequence)

    def _transaction(self, now: datetime, size: int, *, seconds: float = 0.01) -> Step:
        """Marked rows, ``seconds`` between each two messages."""
        moments = (now + timedelta(seconds=seconds * i) for i in range(3 * size + 2))
        sent = [(now, _message("TRANSACTION_BEGIN", self._next(), next(moments)))]
        effects: list[Effect] = []
        for _ in range(size):
            messages, done = self._change(now)
            sent += [(next(moments), value) for value in messages]
            effects += done
        at = next(moments)
        return Step([*sent, (at, _message("TRANSACTION_END", self._next(), at))], effects)

    def _single(self, now: datetime) -> Step:
        messages, effects = self._change(now)
        return Step([(now, value) for value in messages], effects)

    def _split(self, now: datetime) -> Step:
        """An update in two messages, the second of which comes in the next hour."""
        table = _ORDERS
        key = self.rows[table].draw(self.random)
        (first, second), effects = self._update(table, key, now, paired=True)
        return Step([(now, first), (now + timedelta(seconds=5), second)], effects)

    def _undone(self, now: datetime, size: int) -> Step:
        rows = copy.deepcopy(self.rows)
        step = self._transaction(now, size)
        self.rows = rows
        return step

    def _never_ends(self, now: datetime) -> Iterator[Step]:
        yield Step(self._undone(now, 3).sent[:-1], counts=False)
        yield self._transaction(now + timedelta(milliseconds=500), 2)

    def _rolled_back(self, now: datetime) -> Iterator[Step]:
        at, _ = (step := self._undone(now, 3)).sent[-1]
        yield Step([*step.sent[:-1], (at, _message("XAROLLBACK", self._next(), at))], counts=False)
        sent = self._transaction(now + timedelta(milliseconds=500), 2)
        at = sent.over
        yield Step([*sent.sent[:-1], (at, _message("XACOMMIT", self._next(), at))], sent.effects)

    def _irrelevant_statements(self, now: datetime) -> Iterator[Step]:
        """Statements that concern neither rows nor columns."""
        for op, text in (("CINDEX", "CREATE INDEX i ON orders (customer)"), ("QUERY", "GRANT SELECT ON orders TO bi")):
            yield Step([(now, self._statement(op, _ORDERS, text, now))])
        yield Step([(now, _message("GTID", None, now))])

    def _column_added(self, now: datetime) -> Iterator[Step]:
        text = "ALTER TABLE `orders` ADD COLUMN `coupon` varchar(40) NULL COMMENT 'code, if any' AFTER `total`"
        yield self._altered(text, Effect(table=_ORDERS, added="coupon"), now)
        self.columns[_ORDERS]["coupon"] = "STRING"

    def _column_renamed(self, now: datetime) -> Iterator[Step]:
        text = "ALTER TABLE `orders` CHANGE COLUMN `note` `remark` varchar(200)"
        yield self._altered(text, Effect(table=_ORDERS, renamed=("note", "remark")), now)
        columns = self.columns[_ORDERS]
        self.columns[_ORDERS] = {"remark" if name == "note" else name: kind for name, kind in columns.items()}
        self.deleted[_ORDERS].clear()

    def _altered(self, text: str, effect: Effect, now: datetime) -> Step:
        step = Step([(now, self._statement("ALTER", effect.table, text, now))], [effect])
        effect.apply(self.rows)
        return step

    def _truncate(self, now: datetime) -> Iterator[Step]:
        self.rows[_EVENTS].clear()
        sent = self._statement("TRUNCATE", _EVENTS, "TRUNCATE TABLE events", now)
        yield Step([(now, sent)], [Effect(table=_EVENTS)])

    def _change(self, now: datetime) -> tuple[list[bytes], list[Effect]]:
        """One row operation: its messages and what it does."""
        pick = self.random
        table = pick.choice(list(self.columns))
        rows = self.rows[table]
        if len(rows) < 6 or pick.random() < 0.25:
            step = self._inserted(table, now)
            return [value for _, value in step.sent], step.effects
        key = rows.draw(pick)
        if pick.random() < 0.15:
            row = rows.pop(key)
            self.deleted[table].append(row)
            return [self._row("DELETE", table, row, None, now)], [Effect(table=table, key=key)]
        return self._update(table, key, now, paired=pick.random() < 0.4)

    def _inserted(self, table: str, now: datetime) -> Step:
        row = self._new_row(table, now)
        key = _key(table, row)
        self.rows[table][key] = row
        effect = Effect(table=table, key=key, row=dict(row))
        return Step([(now, self._row("INSERT", table, None, row, now))], [effect])

    def _update(self, table: str, key: Key, now: datetime, *, paired: bool) -> tuple[list[bytes], list[Effect]]:
        before = self.rows[table].pop(key)
        fresh = self._new_row(table, now)
        moves = self.random.random() < 0.15 and table != _EVENTS
        kept = set() if moves else set(TABLES[table][1])
        changed = {name for name in before if self.random.random() < 0.5} - kept | (set(TABLES[table][1]) - kept)
        after = {name: fresh[name] if name in changed else before[name] for name in before}
        self.rows[table][_key(table, after)] = after
        stored = Effect(table=table, key=_key(table, after), row=dict(after))
        effects = [Effect(table=table, key=key), stored]
        if not paired:
            return [self._row("UPDATE_AFTER", table, before, after, now)], effects
        sequence = self._next()
        halves = (("UPDATE_BEFOR", before, None), ("UPDATE_AFTER", None, after))
        return [self._row(op, table, old, new, now, sequence) for op, old, new in halves], effects

    def _new_row(self, table: str, now: datetime) -> Row:
        """A row that is not there; sometimes one that was deleted before, under its old key."""
        old, pick = self.deleted[table], self.random
        again = pick.choice(old) if old and pick.random() < 0.3 else None
        if again and _key(table, again) in self.rows[table]:
            again = None  # it has come again
        while True:
            row = {name: self._value(name, kind, now) for name, kind in self.columns[table].items()}
            if again:
                row |= {name: again[name] for name in TABLES[table][1]}
            if _key(table, row) not in self.rows[table]:
                return row

    def _value(self, name: str, kind: str, now: datetime) -> Any:
        pick = self.random
        keys: dict[str, Callable[[], Any]] = {
            "id": lambda: pick.randrange(10**15), "store": lambda: pick.randint(1, 9),
            _ROW_ID: lambda: pick.randrange(10**6), "sku": lambda: f"{pick.choice('ABC')}-{pick.randrange(10**6):06}",
        }  # fmt: skip
        if name in keys:
            return keys[name]()
        if pick.random() < 0.1:
            return None
        if name == "total":
            return Decimal(pick.randrange(-(10**4), 10**9)).scaleb(-2)
        values: dict[str, Callable[[], Any]] = {
            "LONG": lambda: pick.choice((pick.randrange(1000), 2**53 + pick.randrange(9), -(2**63))),
            "STRING": lambda: pick.choice(_TEXTS), "BOOLEAN": lambda: pick.random() < 0.5,
            "DOUBLE": lambda: round(pick.uniform(-9, 9), 4), "BYTES": lambda: pick.randbytes(6),
            "DATE": lambda: now.replace(microsecond=now.microsecond // 1000 * 1000, tzinfo=UTC),
        }  # fmt: skip
        return values[kind]()

    def _row(
        self, op: str, table: str, before: Row | None, after: Row | None, now: datetime, sequence: str | None = None
    ) -> bytes:
        content = _Content(table=table, columns=self.columns[table], before=before, after=after)
        return _message(op, sequence or self._next(), now, content)

    def _statement(self, op: str, table: str, text: str, now: datetime) -> bytes:
        return _message(op, self._next(), now, _Content(table=table, text=text))


def _key(table: str, row: Row) -> Key:
    return tuple(row[name] for name in TABLES[table][1])


def _sent(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return round((value - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(milliseconds=1))
    return str(value) if isinstance(value, Decimal) else value


@dataclass(frozen=True, kw_only=True)
class _Content:
    """What a message says, of a row or of a statement."""

    table: str
    """The name of the table at the source: database.table."""
    columns: dict[str, str] | None = None
    """The columns as the message lists them, with their types; None in a statement."""
    before: Row | None = None
    """The row's image before the change; None: the message has none."""
    after: Row | None = None
    """The row's image after the change; None: the message has none."""
    text: str | None = None
    """The statement; None in a message of a row."""


def _message(op: str, sequence: str | None, now: datetime, of: _Content | None = None) -> bytes:
    columns, before, after, text = (of.columns, of.before, of.after, of.text) if of else (None, None, None, None)
    at = round((now - datetime(1970, 1, 1)) / timedelta(milliseconds=1))
    database, short = of.table.split(".") if of else ("", "")
    key = TABLES[of.table][1] if of and columns else None
    content = {
        "schema": {
            "dataColumn": [{"name": name, "type": kind} for name, kind in columns.items()] if columns else None,
            "primaryKey": None if key == [_ROW_ID] else key,
            "source": {"dbType": "MySQL", "dbName": database, "tableName": short} if of else None,
        },
        "payload": {
            "before": None if before is None else {"dataColumn": {name: _sent(v) for name, v in before.items()}},
            "after": None if after is None else {"dataColumn": {name: _sent(v) for name, v in after.items()}},
            "sequenceId": sequence,
            "timestamp": {"eventTime": at // 1000 * 1000, "systemTime": at, "checkpointTime": at // 1000 * 1000},
            "op": op,
            "ddl": {"text": text, "ddlMeta": base64.b64encode(b"not read").decode()} if text else None,
        },
        "version": "0.0.1",
    }  # fmt: skip
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def _poisoned(number: int, source: _Source) -> bytes:
    """A record that cannot be decoded: cut short, of an unknown op, without its position, or no message."""
    columns, row = TABLES["mall_stock.levels"][0], {"sku": "poison", "store": -1 - number}
    now, content = source.start, _Content(table="mall_stock.levels", columns=columns, after=row)
    kinds = (
        _message("INSERT", "1", now, content)[:-40],
        _message("UPSERT", "2", now, content),
        _message("INSERT", None, now, content),
        b"a line of a log file that strayed in",
    )
    return kinds[number % len(kinds)]


def _feed(container: str) -> dict[str, Any]:
    return {
        "feed": FEED,
        "description": "Shop, stock and audit trail of the mall, by a DataWorks whole-database task",
        "owner": "mall-data",
        "topics": [TOPIC],
        "exports": {"path": "{topic}/dt={date}/hr={hour}/*"},
        "container": {"type": container},
        "format": {"type": "dataworks"},
        "tables": {_ORDERS: {"columns": {"total": "decimal(12,2)"}}},
    }
