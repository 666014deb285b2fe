"""Exports as Qlik Replicate would leave them on Kafka, from a small made-up CRM, and the resulting tables.

Everything follows from the seed: the same arguments give the same bytes. The stream contains what real ones do: a full
load, then transactions over several topics, some across hours and one that never ends; updates that do not carry every
column; LOBs; key changes, deletes and rows that come back; redelivery (V+1, V, V+1); objects that overlap in order;
metadata messages, and columns added in mid-stream.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from tidemark_samples.drawing import Key, KeyedRows, Row, draw_sizes
from tidemark_samples.exporting import Message, Sample, write_export, write_feed, write_truth
from tidemark_samples.qlik_wire import TABLES, dumps, enveloped, in_json, mask, metadata, of_full_load, schema_id

FEED = "crm"
METADATA_TOPIC = "crm.metadata"


_TEXTS = ("", "plain", 'she said "no"', "two\nlines", "Zoë Ångström", "日本語", "back\\slash", "null", "0", " ")


@dataclass(frozen=True, kw_only=True)
class _Change:
    """A change of a row."""

    table: str
    """The name of the table at the source: schema.table."""
    version: int
    """Which columns the table has then: 1 before the DDL, 2 after it."""
    before: Row | None
    """The row before the change; None: an insert."""
    after: Row | None
    """The row after the change; None: a delete."""
    unsent: frozenset[str] = frozenset()
    """Columns of which the message says that it does not carry them."""


@dataclass(frozen=True)
class _Transaction:
    """A transaction of the source."""

    number: int
    """Its number in commit order, from which its id is made."""
    committed: datetime
    """When it was committed, in naive UTC."""
    first: int
    """The counter in the first change's sequence."""
    changes: list[_Change]
    """Its changes, in their order."""


@dataclass(frozen=True)
class _Sent:
    """A message, and when it arrives."""

    arrived: datetime
    """When it arrives, in naive UTC."""
    topic: str
    """The topic's name."""
    value: bytes
    """The bytes of its value."""


def generate(out: Path, sample: Sample) -> None:
    """Write ``exports/``, ``feeds/crm.yaml`` and ``truth/<hour>/<schema.table>.jsonl`` into a folder.

    ``sample.events`` is about how many messages an hour holds. ``truth`` is the state of every table at every
    hour's cut: the transactions that are complete by then; the last one of the last hour never is. ``container``:
    one that keeps records apart (not raw); of `lines` messages name their table.
    """
    start, container = sample.start, sample.container or "kafka_json"
    source = _Source(
        random.Random(sample.seed), start, start + timedelta(hours=sample.hours // 2, minutes=30), container
    )
    loaded = source.full_load(max(2, sample.events // 12))
    transactions = [transaction for hour in range(sample.hours) for transaction in source.hour(hour, sample.events)]
    messages = [source.messages(transaction) for transaction in transactions]
    changes = [sent for of_transaction in messages for sent in of_transaction]
    sent = source.metadata() + loaded + changes + source.again_later(changes)
    poisoned = min(1, sample.hours - 1)
    sent += [source.poisoned(number, poisoned) for number in range(sample.poison)]
    source.export(out / "exports", sample.names, sorted(sent, key=lambda message: message.arrived))
    for hour, name in enumerate(sample.names):
        cut = start + timedelta(hours=hour + 1)
        done = [t for t, sent_of in zip(transactions, messages, strict=True) if sent_of[-1].arrived < cut]
        state = _state(source.loaded, done)
        for table, rows in state.items():
            empty = dict.fromkeys(TABLES[table].at(2 if source.ddl < cut else 1))
            state[table] = {key: empty | row for key, row in rows.items()}
        ordered = {table.lower(): [rows[key] for key in sorted(rows)] for table, rows in state.items()}
        write_truth(out / "truth", name, ordered)
    write_feed(out / "feeds", _feed(container))


class _Source:
    """The source database: its rows, and the transactions that change them, in commit order."""

    def __init__(self, chance: random.Random, start: datetime, ddl: datetime, container: str) -> None:
        self.random, self.start, self.ddl, self.container = chance, start, ddl, container
        self.rows = {table: KeyedRows() for table in TABLES}
        self.deleted: dict[str, dict[Key, None]] = {table: {} for table in TABLES}  # in the order of their deletes
        self.loaded: dict[str, dict[Key, Row]] = {table: {} for table in TABLES}
        self.sequence = 0
        self.committed = 0

    def full_load(self, rows: int) -> list[_Sent]:
        """Some rows of every table, in the first minutes."""
        sent = []
        for table, of in TABLES.items():
            for number in range(rows):
                row = self._row(table, 1)
                key = _key(table, row)
                self.rows[table][key] = self.loaded[table][key] = row
                arrived = self.start + timedelta(seconds=10, milliseconds=number)
                sent.append(_Sent(arrived, of.topic, self._value(table, 1, row, None, of_full_load())))
        return sent

    def hour(self, hour: int, events: int) -> Iterator[_Transaction]:
        """The transactions committed in an hour. The last ends in the hour after."""
        pick = self.random
        sizes = draw_sizes(
            events - 12, lambda: pick.choices((1, pick.randint(2, 6), pick.randint(12, 20)), (6, 3, 1))[0]
        )
        seconds = sorted(self.random.uniform(120, 3400) for _ in sizes)
        for size, second in zip([*sizes, 12], [*seconds, 3590.0], strict=True):
            committed = self.start + timedelta(hours=hour, seconds=second)
            self.committed += 1
            version = 2 if committed >= self.ddl else 1
            changes = [self._change(version) for _ in range(size)]
            yield _Transaction(self.committed, committed, self.sequence + 1, changes)
            self.sequence += size + self.random.randint(0, 5)

    def messages(self, transaction: _Transaction) -> list[_Sent]:
        """A message for each change. Those of a long transaction come in three parts."""
        size = len(transaction.changes)
        third = -(-size // 3) if size >= 12 else size
        digits = transaction.committed.strftime("%Y%m%d%H%M%S%f")[:16]
        sent = []
        for index, change in enumerate(transaction.changes):
            headers = {
                "operation": "INSERT" if change.before is None else "DELETE" if change.after is None else "UPDATE",
                "changeSequence": f"{digits}{transaction.first + index:019}",
                "timestamp": transaction.committed.isoformat(timespec="milliseconds"),
                "streamPosition": f"00000000.{transaction.first:08x}.00000001.0000.02.0000:{index}.1.16",
                "transactionId": f"{transaction.number:032X}",
                **_masks(change),
                "transactionEventCounter": index + 1,
                "transactionLastEvent": index + 1 == size,
            }
            arrived = transaction.committed + timedelta(seconds=1 + 45 * (index // third), milliseconds=index)
            image = change.after or change.before or {}
            data = {name: None if name in change.unsent else value for name, value in image.items()}
            value = self._value(change.table, change.version, data, change.before if change.after else None, headers)
            sent.append(_Sent(arrived, TABLES[change.table].topic, value))
        return sent

    def again_later(self, messages: list[_Sent]) -> list[_Sent]:
        """Some messages a second time, later or in the next hour."""
        return [
            replace(message, arrived=message.arrived + timedelta(seconds=self.random.choice((1, 300, 3600))))
            for message in self.random.sample(messages, len(messages) // 25)
        ]

    def metadata(self) -> list[_Sent]:
        """The metadata of each table, and again after the DDL; those of one table also on its own topic."""
        sent = []
        for table, of in TABLES.items():
            for version, at in ((1, self.start), (2, self.ddl)):
                if version > 1 and not of.added:
                    continue
                # The replication server writes it a little after the first changes it describes.
                written = at + timedelta(seconds=5)
                value = dumps(enveloped(metadata(table, version, written), "MD"))
                sent.append(_Sent(written, METADATA_TOPIC, value))
                if of.shape == "bare":
                    sent.append(_Sent(written, of.topic, value))
        return sent

    def poisoned(self, number: int, hour: int) -> _Sent:
        """A record that cannot be decoded: cut short, without its position, of an unknown operation, or no message."""
        row = dict.fromkeys(TABLES["CRM.ORDERS"].columns) | {"ACCOUNT_ID": -1 - number, "NO": 1}
        headers = of_full_load() | {"operation": "INSERT", "schema": "CRM", "table": "ORDERS"}
        whole = {"data": row, "beforeData": None, "headers": headers | {"changeSequence": "2026112"}}
        kinds = (
            dumps(whole)[:60],
            dumps(whole),
            dumps(whole | {"headers": headers | {"operation": "UPSERT"}}),
            b"a line of a log file that strayed in",
        )
        arrived = self.start + timedelta(hours=hour, minutes=7, seconds=number)
        return _Sent(arrived, "crm.orders", kinds[number % len(kinds)])

    def export(self, exports: Path, hours: Sequence[str], sent: list[_Sent]) -> None:
        """Hours of every topic in two or three objects, in no order; some messages come V+1, V, V+1."""
        for topic in _topics():
            offset = 0
            for hour, name in enumerate(hours):
                begin = self.start + timedelta(hours=hour)
                own = [m for m in sent if m.topic == topic and begin <= m.arrived < begin + timedelta(hours=1)]
                for _ in range(len(own) // 30):
                    at = self.random.randrange(len(own) - 1)
                    own[at : at + 2] = [own[at + 1], own[at], own[at + 1]]
                objects: list[list[Message]] = [[] for _ in range(self.random.randint(2, 3))]
                for message in own:
                    record = Message(
                        topic=topic, partition=0, offset=offset, sent_at=message.arrived, key=None, value=message.value
                    )
                    self.random.choice(objects).append(record)
                    offset += 1
                write_export(exports, topic, name, objects, self.container)

    def _change(self, version: int) -> _Change:
        table = self.random.choice(list(TABLES))
        rows, key_columns = self.rows[table], TABLES[table].key
        if len(rows) < 8 or self.random.random() < 0.2:
            after = self._row(table, version)
            if self.deleted[table] and self.random.random() < 0.5:
                after |= dict(zip(key_columns, self.deleted[table].popitem()[0], strict=True))
            rows[_key(table, after)] = after
            return _Change(table=table, version=version, before=None, after=after)
        key = rows.draw(self.random)
        before = dict.fromkeys(TABLES[table].at(version)) | rows.pop(key)
        if self.random.random() < 0.12:
            self.deleted[table][key] = None
            return _Change(table=table, version=version, before=before, after=None)
        types = TABLES[table].at(version)
        changed = {name for name in before if self.random.random() < 0.3} - set(key_columns)
        fresh = {name: self._of_type(types[name]) for name in types if name in changed}
        if self.random.random() < 0.08:
            changed |= set(key_columns)
            fresh |= self._free_key(table)
        after = before | fresh
        rows[_key(table, after)] = after
        kept = [name for name in before if name not in changed and name not in key_columns]
        unsent = self.random.sample(kept, self.random.randint(0, len(kept))) if self.random.random() < 0.4 else []
        return _Change(table=table, version=version, before=before, after=after, unsent=frozenset(unsent))

    def _row(self, table: str, version: int) -> Row:
        return {n: self._of_type(kind) for n, kind in TABLES[table].at(version).items()} | self._free_key(table)

    def _free_key(self, table: str) -> Row:
        """The columns of a key that no row has, or had."""
        while True:
            row = {name: self.random.randrange(1, 10**6) for name in TABLES[table].key}
            if _key(table, row) not in self.rows[table] and _key(table, row) not in self.deleted[table]:
                return row

    def _of_type(self, written: str) -> Any:
        pick = self.random
        if pick.random() < 0.15:
            return None
        if written.startswith("NUMERIC"):
            precision, scale = written[8:-1].split(",")
            return Decimal(pick.randrange(-(10 ** int(precision)) + 1, 10 ** int(precision))).scaleb(-int(scale))
        values: dict[str, Callable[[], Any]] = {
            "INT8": lambda: pick.randint(-(2**60), 2**60), "INT4": lambda: pick.randint(-(2**30), 2**30),
            "BOOLEAN": lambda: pick.random() < 0.5, "REAL8": lambda: round(pick.uniform(-1, 1), 6),
            "BYTES(8)": lambda: pick.randbytes(8), "DATE": lambda: date(1990, 1, 1) + timedelta(pick.randrange(12000)),
            "DATETIME": lambda: datetime(2020, 1, 1) + timedelta(microseconds=pick.randrange(10**14)),
        }  # fmt: skip
        return values.get(written, lambda: pick.choice(_TEXTS))()

    def _value(self, table: str, version: int, data: Row, before: Row | None, headers: dict[str, Any]) -> bytes:
        of = TABLES[table]
        if of.named or self.container == "lines":
            schema, name = table.split(".")
            headers = headers | {"schema": schema, "table": name}
        # One endpoint writes numbers as numbers, another as text.
        data, old = in_json(data, of.shape == "bare"), None if before is None else in_json(before, of.shape == "bare")
        if of.shape == "flat":
            fields = {f"headers_{key}": value for key, value in headers.items()}
            fields |= {f"data_{name}": value for name, value in data.items()}
            return dumps(fields | {f"beforeData_{name}": value for name, value in (old or {}).items()})
        message = {"data": data, "beforeData": old, "headers": headers}
        return dumps(enveloped(message, "DT", schema_id(table, version)) if of.shape == "envelope" else message)


def _state(loaded: dict[str, dict[Key, Row]], transactions: list[_Transaction]) -> dict[str, dict[Key, Row]]:
    """The tables after the full load and these transactions, in commit order."""
    state = {table: dict(rows) for table, rows in loaded.items()}
    for change in (change for transaction in transactions for change in transaction.changes):
        rows = state[change.table]
        if change.before:
            rows.pop(_key(change.table, change.before), None)
        if change.after:
            rows[_key(change.table, change.after)] = change.after
    return state


def _key(table: str, row: Row) -> Key:
    return tuple(row[name] for name in TABLES[table].key)


def _masks(change: _Change) -> dict[str, str]:
    """LOBs never count as changed. A delete sends its key, and may send nothing else."""
    columns = TABLES[change.table].at(change.version)
    sent = set(columns) - change.unsent
    if change.after is None:
        changed = set(TABLES[change.table].key)
    else:
        before = change.before or {}
        changed = {name for name in columns if not change.before or before[name] != change.after[name]}
        changed = {name for name in changed if not columns[name].endswith("LOB")}
    return {
        "changeMask": mask(change.table, change.version, changed),
        "columnMask": mask(change.table, change.version, sent),
    }


def _topics() -> list[str]:
    return [METADATA_TOPIC, *(table.topic for table in TABLES.values())]


def _feed(container: str) -> dict[str, Any]:
    return {
        "feed": FEED,
        "description": "Accounts, orders and profiles of the CRM, by Qlik Replicate",
        "owner": "crm-data",
        "topics": _topics(),
        "exports": {"path": "{topic}/dt={date}/hr={hour}/*"},
        "container": {"type": container},
        "format": {"type": "qlik"},
        "undeclared": "quarantine",
        "tables": {table: {"topic": of.topic} for table, of in TABLES.items()},
    }
