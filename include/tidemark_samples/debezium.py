"""Exports as two Debezium PostgreSQL connectors would leave them, from a small made-up shop, and the resulting tables.

Everything follows from the seed. The connector `web` is a 3.x without message schemas, `depot` a 1.9 with them. The
streams contain what real ones do: a snapshot, transactions that interleave in the log and some that straddle an hour,
transactions without a captured row, tombstones, key changes, values that were not in the log, equal rows of a table
without a key, truncates, logical messages, heartbeats, and runs delivered again under new offsets, from the middle of
a transaction too. The objects of a topic's hour are in no order.
"""

from __future__ import annotations

import base64
import copy
import json
import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tidemark_samples.debezium_rows import LARGE, TABLES, Change, State, apply, made_row, shown
from tidemark_samples.debezium_wire import (
    UNAVAILABLE,
    Sent,
    key_schema,
    millis,
    objects,
    poisoned,
    records,
    renumber,
    value_schema,
    wire,
)
from tidemark_samples.drawing import KeyedRows, Row, draw_sizes
from tidemark_samples.exporting import Sample, write_export, write_feed, write_truth

FEED = "store"

#: Containers that keep no offsets: equal rows at one position of the log look like a redelivery there.
_NO_OFFSETS = ("lines", "pubsub")
#: Containers that keep neither keys nor headers: a key change does not name the old row there.
_NO_KEYS = ("lines",)


@dataclass(kw_only=True)
class _RowEvent:
    """A change of a row, before it is a message."""

    table: str
    """The name of the table at the source: schema.table."""
    op: str
    """The connector's word for it: c, u, d, or r of a row of the snapshot."""
    row: Row
    """The row that the message's key is taken from."""
    before: Row | None = None
    """The image before the change, as the connector writes it; None: it sends none."""
    after: Row | None = None
    """The image after the change, as the connector writes it; None: it sends none."""
    headers: tuple[tuple[str, Row], ...] = ()
    """The headers of a key change: which key the row had, or has now."""
    snapshot: str = "false"
    """What the message says of the snapshot; `false` behind it."""


@dataclass
class _Transaction:
    """A transaction of the source, or the snapshot."""

    last_sent: datetime
    """When its last message was sent."""
    changes: list[Change] = field(default_factory=list)
    """What it does to the tables, in its order."""


def generate(out: Path, sample: Sample) -> None:
    """Write ``exports/``, ``feeds/store.yaml`` and ``truth/<hour>/<schema.table>.jsonl`` into a folder.

    ``sample.events`` is about how many row events an hour holds. ``truth`` is the state of every table at every
    hour's cut: the transactions that are complete by then; the last one of each hour ends in the hour after.
    """
    start, container = sample.start, sample.container or "kafka_json"
    chance = random.Random(sample.seed)
    connectors = [_Connector(prefix, chance, start, container) for prefix in TABLES]
    sent: list[Sent] = []
    for connector in connectors:
        for hour in range(sample.hours):
            connector.work(start + timedelta(hours=hour), sample.events // len(connectors))
        sent += connector.sent_again(2 * sample.hours)
    sent += poisoned("web.store.customers", sample.poison, start + timedelta(hours=min(1, sample.hours - 1)))
    messages = records(sorted(sent, key=lambda one: one.at), start + timedelta(hours=sample.hours))
    for hour, name in enumerate(sample.names):
        cut = start + timedelta(hours=hour + 1)
        for topic in _topics():
            here = [m for m in messages if m.topic == topic and cut - timedelta(hours=1) <= m.sent_at < cut]
            write_export(out / "exports", topic, name, objects(here, chance), container)
        tables = {table: rows for connector in connectors for table, rows in connector.state_at(cut).items()}
        write_truth(out / "truth", name, tables)
    write_feed(out / "feeds", _feed(container))


class _Connector:
    """A source database and its connector: rows, transactions in commit order, and all messages in the order sent."""

    def __init__(self, prefix: str, chance: random.Random, start: datetime, container: str) -> None:
        self.equal_rows = container not in _NO_OFFSETS
        self.old_keys = container not in _NO_KEYS
        self.prefix, self.tables, self.random = prefix, TABLES[prefix], chance
        self.modern, self.schemas = prefix == "web", prefix == "depot"
        self.schemas_of = {
            table: self._schemas(table, columns, {name: columns[name] for name in key})
            for table, (columns, key) in self.tables.items()
        }
        self.rows = {table: KeyedRows() for table in self.tables}
        self.transactions: list[_Transaction] = []
        self.sent: list[Sent] = []
        self.lsn, self.number, self.made = 22_000_000, 700, 0
        self.commit: int | None = None
        self._snapshot(start + timedelta(seconds=1))
        self.snapshot_size = len(self.sent)

    def work(self, hour: datetime, events: int) -> None:
        """One hour of transactions. The last is sent half in this hour and half in the next."""
        sizes = draw_sizes(
            events - 8, lambda: self.random.choices((0, 1, self.random.randint(2, 5), 9), (1, 6, 4, 1))[0]
        )
        seconds = sorted(self.random.uniform(10, 3500) for _ in sizes)
        for size, second in zip(sizes, seconds, strict=True):
            self._transaction(hour + timedelta(seconds=second), size, timedelta(milliseconds=1))
        self._sent("heartbeat", {"ts_ms": millis(hour)}, hour + timedelta(seconds=3550))
        self._transaction(hour + timedelta(seconds=3599), 8, timedelta(milliseconds=300))

    def state_at(self, cut: datetime) -> dict[str, list[Row]]:
        """The tables after the transactions that were sent whole before the cut, rows by key."""
        state: State = {table: {} for table in self.tables}
        for transaction in self.transactions:
            if transaction.last_sent < cut:
                for change in transaction.changes:
                    apply(state[change.table], change)
        return {table: [row for key in sorted(rows) for row in shown(rows[key])] for table, rows in state.items()}

    def sent_again(self, times: int) -> list[Sent]:
        """All messages, and some runs of them again: right behind their end, as after a restart."""
        stream = list(self.sent)
        ends = sorted(self.random.sample(range(self.snapshot_size + 1, len(stream)), times), reverse=True)
        for end in ends:
            first = max(self.snapshot_size, end - self.random.randint(5, 60))
            run = [copy.deepcopy(one) for one in stream[first:end]]
            if not self.modern:
                renumber(run)
            for one in run:
                one.at = stream[end - 1].at
                if one.body and "ts_ms" in one.body:
                    one.body["ts_ms"] += 12_345
            stream[end:end] = run
        return stream

    def _sent(self, topic: str, body: dict[str, Any] | None, at: datetime, **more: Any) -> Sent:
        name = f"__debezium-heartbeat.{self.prefix}" if topic == "heartbeat" else f"{self.prefix}.{topic}"
        one = Sent(topic=name, at=at, body=body, **more)
        self.sent.append(one)
        return one

    def _source(self, table: str, at: datetime, **more: Any) -> dict[str, Any]:
        schema, _, name = table.rpartition(".")
        sequence = json.dumps([None if self.commit is None else str(self.commit), str(self.lsn)], separators=(",", ":"))
        return {
            "version": "3.6.3.Final" if self.modern else "1.9.7.Final", "connector": "postgresql",
            "name": self.prefix, "ts_ms": millis(at), "snapshot": "false", "db": "postgres", "sequence": sequence,
            "schema": schema, "table": name, "txId": self.number, "lsn": self.lsn, "xmin": None, **more,
        }  # fmt: skip

    def _snapshot(self, at: datetime) -> None:
        """The rows of the tables before the stream: one position in the log, no transaction."""
        transaction = _Transaction(at)
        for table, (_, key) in self.tables.items():
            for _ in range(6):
                row = self._row(table)
                for _ in range(1 if key or not self.equal_rows else 2):
                    self._apply(transaction, self._added(table, row))
                    snapshot = "first" if self.modern else "true"
                    image = self._image(table, row)
                    self._row_event(_RowEvent(table=table, op="r", row=row, after=image, snapshot=snapshot), at)
        self.transactions.append(transaction)

    def _transaction(self, at: datetime, size: int, pace: timedelta) -> None:
        self.number += 1
        first = len(self.sent)
        transaction = _Transaction(at)
        name = f"{self.number}:{self.lsn}" if self.modern else str(self.number)
        self._sent("transaction", {"status": "BEGIN", "id": name, "event_count": None, "ts_ms": millis(at)}, at)
        # Transactions interleave in the log: the first changes of this one may be before the last commit.
        self.lsn -= self.random.choice((0, 0, 16, 400)) if self.commit else 0
        while (counted := self._counted(first)) < size:
            self._change(transaction, at, counted)
        self.commit = self.lsn = max(self.lsn, self.commit or 0) + self.random.randint(1, 50) * 8
        events = [one.body for one in self.sent[first + 1 :] if one.body and one.body["source"]["txId"] is not None]
        for order, body in enumerate(events, 1):
            body["transaction"] = {"id": name, "total_order": order, "data_collection_order": order}
        end = {"status": "END", "id": name, "event_count": self._counted(first), "ts_ms": millis(at)}
        self._sent("transaction", end, at)
        for i, one in enumerate(self.sent[first:]):
            one.at = at + i * pace
        transaction.last_sent = self.sent[-1].at
        self.transactions.append(transaction)

    def _counted(self, first: int) -> int:
        """How many events the transaction has. A message outside of it does not count."""
        events = (one.body for one in self.sent[first:] if one.body and "op" in one.body)
        return sum(body["source"]["txId"] is not None for body in events)

    def _change(self, transaction: _Transaction, at: datetime, counted: int) -> None:
        table = self.random.choice(list(self.tables))
        _, key = self.tables[table]
        rows = self.rows[table]
        what = self.random.random()
        self.lsn += 8 * self.random.randint(1, 30)
        if counted == 0 and what < 0.03:
            self._message(at)
        elif counted == 0 and what < 0.05:
            self._truncate(transaction, table, at)
        elif len(rows) < 4 or what < 0.35:
            row = self._row(table)
            # Rows that one COPY writes together share their position in the log, and without a key they can be equal.
            for _ in range(1 if key or not self.equal_rows else self.random.choice((1, 1, 3))):
                self._apply(transaction, self._added(table, row))
                self._row_event(_RowEvent(table=table, op="c", row=row, after=self._image(table, row)), at)
        elif key:
            self._change_keyed(transaction, table, at, what)
        else:
            self._change_keyless(transaction, table, at, what)

    def _change_keyed(self, transaction: _Transaction, table: str, at: datetime, what: float) -> None:
        old_key = self.rows[table].draw(self.random)
        old = self.rows[table][old_key]
        if what < 0.5:
            self._apply(transaction, Change(table, old_key, None))
            self._delete(table, old, at)
            return
        fresh = self._row(table)
        _, key = self.tables[table]
        moves = what < 0.6
        kept = set(key) if not moves else set()
        row = {name: fresh[name] if self.random.random() < 0.5 or name in key else old[name] for name in old}
        row |= {name: old[name] for name in kept}
        image = self._image(table, row)
        for name in LARGE & row.keys():
            if row[name] == old[name] and row[name] is not None and (self.old_keys or not moves):
                filler = UNAVAILABLE.encode() if isinstance(row[name], bytes) else UNAVAILABLE
                image[name] = wire("", filler, schemas=self.schemas)
        if moves:
            self._apply(transaction, Change(table, old_key, None))
            old_names, new_names = self._key(table, old), self._key(table, row)
            self._delete(table, old, at, (("__debezium.newkey", new_names),))
            self._apply(transaction, self._added(table, row))
            headers = (("__debezium.oldkey", old_names),)
            self._row_event(_RowEvent(table=table, op="c", row=row, after=image, headers=headers), at)
        else:
            self._apply(transaction, self._added(table, row))
            self._row_event(_RowEvent(table=table, op="u", row=row, after=image), at)

    def _change_keyless(self, transaction: _Transaction, table: str, at: datetime, what: float) -> None:
        old = shown(self.rows[table][self.rows[table].draw(self.random)])[0]
        self._apply(transaction, Change(table, None, old, copies=-1))
        before = self._image(table, old)
        if what < 0.6:
            self._row_event(_RowEvent(table=table, op="d", row=old, before=before), at)
            self._sent(table, None, at)
        else:
            row = self._row(table)
            self._apply(transaction, self._added(table, row))
            after = self._image(table, row)
            self._row_event(_RowEvent(table=table, op="u", row=row, before=before, after=after), at)

    def _delete(self, table: str, row: Row, at: datetime, headers: tuple[Any, ...] = ()) -> None:
        before = dict.fromkeys(row) | self._key(table, row)
        deleted = self._row_event(_RowEvent(table=table, op="d", row=row, before=before, headers=headers), at)
        self._sent(table, None, at, key=deleted.key, schemas=deleted.schemas)

    def _truncate(self, transaction: _Transaction, table: str, at: datetime) -> None:
        self._apply(transaction, Change(table, None, None))
        self._sent(table, self._event(self._source(table, at), "t", at), at, schemas=self.schemas_of[table])

    def _message(self, at: datetime) -> None:
        """A logical message; one outside of any transaction has no txId."""
        number = self.random.choice((self.number, None)) if self.modern else None
        content = base64.b64encode("für später".encode()).decode()
        body = self._event(self._source("", at, txId=number), "m", at) | {
            "message": {"prefix": "app", "content": content}
        }
        names = {"prefix": "text"}
        self._sent("message", body, at, key={"prefix": "app"}, schemas=self._schemas("message", names, names))

    def _event(self, source: dict[str, Any], op: str, at: datetime) -> dict[str, Any]:
        return {"source": source, "transaction": None, "op": op, "ts_ms": millis(at) + 250}

    def _row_event(self, event: _RowEvent, at: datetime) -> Sent:
        source = self._source(event.table, at, snapshot=event.snapshot)
        body = {"before": event.before, "after": event.after} | self._event(source, event.op, at)
        key = self._key(event.table, event.row) or None
        return self._sent(event.table, body, at, key=key, schemas=self.schemas_of[event.table], headers=event.headers)

    def _schemas(
        self, name: str, columns: dict[str, str], key: dict[str, str]
    ) -> tuple[dict[str, Any], dict[str, Any]] | None:
        named = f"{self.prefix}.{name}"
        return (key_schema(named, key), value_schema(named, columns)) if self.schemas else None

    def _key(self, table: str, row: Row) -> Row:
        columns, key = self.tables[table]
        return {name: wire(columns[name], row[name], schemas=self.schemas) for name in key}

    def _image(self, table: str, row: Row) -> Row:
        return {n: wire(kind, row[n], schemas=self.schemas) for n, kind in self.tables[table][0].items()}

    def _added(self, table: str, row: Row) -> Change:
        key = self.tables[table][1]
        return Change(table, tuple(row[name] for name in key) if key else None, row)

    def _apply(self, transaction: _Transaction, change: Change) -> None:
        transaction.changes.append(change)
        apply(self.rows[change.table], change)

    def _row(self, table: str) -> Row:
        self.made += 1
        return made_row(self.random, *self.tables[table], self.made)


def _topics() -> list[str]:
    of_tables = [f"{prefix}.{table}" for prefix, tables in TABLES.items() for table in tables]
    return of_tables + [
        name for p in TABLES for name in (f"{p}.transaction", f"{p}.message", f"__debezium-heartbeat.{p}")
    ]


def _feed(container: str) -> dict[str, Any]:
    declared: dict[str, dict[str, Any]] = {table: {"columns": columns} for table, (columns, _) in TABLES["web"].items()}
    for tables in TABLES.values():
        for table, (_, key) in tables.items():
            of_table = declared.setdefault(table, {})  # depot's messages tell their columns
            if container in _NO_KEYS:
                of_table["key"] = list(key)
    return {
        "feed": FEED,
        "description": "Shop and depot, from PostgreSQL by two Debezium connectors",
        "owner": "store-data",
        "topics": _topics(),
        "exports": {"path": "{topic}/dt={date}/hr={hour}/*", "missing": "empty"},
        "container": {"type": container},
        "format": {
            "type": "debezium",
            "decimals": "string",
            "transactions": [f"{prefix}.transaction" for prefix in TABLES],
        },
        "tables": declared,
    }
