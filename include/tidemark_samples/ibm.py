"""Exports as Q Replication would leave them, from a small made-up payroll in Db2, and the resulting tables.

Everything follows from the seed: the same arguments give the same bytes. The stream contains what real ones do:
transactions of one message and of several, interleaved and across hours, redelivered messages, key changes, nulls
beside empty strings, delimiters and line feeds inside strings, invalid character data in both forms, and a source that
is upgraded half-way, so that transaction identifiers and LSNs become longer.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from tidemark.formats.ibm.types import family
from tidemark_samples.drawing import Key, KeyedRows, Row, draw_sizes
from tidemark_samples.exporting import Message, Sample, write_export, write_feed, write_truth

FEED = "payroll"
TOPIC = "db2.payroll"

#: The source's tables: columns in column-id order, and the columns of the key.
TABLES: dict[str, tuple[dict[str, str], list[str]]] = {
    "PAYROLL.EMPLOYEE": (
        {
            "EMPNO": "CHAR(6)", "FIRSTNME": "VARCHAR(30)", "LASTNAME": "VARCHAR(40)", "JOB": "CHAR(10)",
            "HIREDATE": "DATE", "SALARY": "DECIMAL(9,2)", "BONUS": "DECFLOAT(34)", "RESUME": "CLOB(1M)",
            "CHANGED": "TIMESTAMP(6)",
        },
        ["EMPNO"],
    ),
    "PAYROLL.PAYSLIP": (
        {
            "EMPNO": "CHAR(6)", "PERIOD": "INTEGER", "GROSS": "DECIMAL(11,2)", "NET": "DECIMAL(11,2)",
            "PAID_ON": "DATE", "PAID_AT": "TIME", "REMARK": "VARCHAR(200)",
        },
        ["EMPNO", "PERIOD"],
    ),
    "HR.POSITION": (
        {
            "POSNO": "INTEGER", "TITLE": "VARCHAR(60)", "GRADE": "SMALLINT", "LOAD": "DOUBLE", "BUDGET": "BIGINT",
            "BADGE": "CHAR(8) FOR BIT DATA", "DUTIES": "VARCHAR(200)",
        },
        ["POSNO"],
    ),
}  # fmt: skip
_FAMILIES = {table: {name: family(kind) for name, kind in columns.items()} for table, (columns, _) in TABLES.items()}

_TEXTS = (
    "", "plain", "a,b,,c", 'she said "no"', '"', "two\nlines", "\n\n", "Zoë Ångström", "日本語", "100 % 'sure'; ok",
    " blanks ", 'looks like\n10,"IBM","2026030","182318000005","X"', "back\\slash", "tab\there", "-", ",",
)  # fmt: skip
_NAMES = ("Ada", "Björn", "Chloé", "Dmitri", "Édith", "Fatima", "Grace", "Hiro", "O'Neil", "Łukasz")


@dataclass(frozen=True)
class _Change:
    """A change of a row."""

    table: str
    """The name of the table at the source: schema.table."""
    before: Row | None
    """The row before the change; None: an insert."""
    after: Row | None
    """The row after the change; None: a delete."""
    invalid: str | None = None
    """HEX or NULL: the form of the identifier that says that character data are invalid; None: they are not."""

    @property
    def operation(self) -> str:
        return "ISRT" if self.before is None else "DLET" if self.after is None else "REPL"

    def not_sent(self) -> set[str]:
        """Columns whose value the stream does not carry."""
        lost = {None: (), "HEX": ("lob",), "NULL": ("lob", "character")}[self.invalid]
        return {name for name, kind in _FAMILIES[self.table].items() if kind in lost}


@dataclass(frozen=True, kw_only=True)
class _Transaction:
    """A transaction of the source."""

    unit: str
    """Its identifier, in groups of four digits. It is used again after a while."""
    lsn: str
    """The LSN of its commit, in groups of four digits."""
    committed: datetime
    """When it was committed, in naive UTC."""
    segments: list[list[_Change]]
    """Its changes, a list for each of its messages."""
    pause: timedelta = timedelta()
    """The time between two of its messages."""


@dataclass(frozen=True, kw_only=True)
class _Message:
    """A message, which carries a segment of a transaction."""

    put: datetime
    """When Q Capture put it, which is told in its records."""
    arrived: datetime
    """When it arrives, which decides its hour."""
    transaction: _Transaction
    """The transaction of which it is a part."""
    segment: int
    """Which of the transaction's segments it carries, from 0."""
    again: bool = False
    """Whether it has come before."""

    @property
    def turn(self) -> datetime:
        """What orders the messages of an hour: those of a transaction lie side by side, as Q Capture puts them."""
        return self.arrived if self.again else self.transaction.committed

    @property
    def follows(self) -> bool:
        """Whether another message of its transaction lies right before it."""
        return self.segment > 0 and not self.again

    def encoded(self) -> bytes:
        last = self.segment == len(self.transaction.segments) - 1
        changes = self.transaction.segments[self.segment]
        stamps = (self.put + timedelta(microseconds=250 * i) for i in range(len(changes)))
        number = "0000" if last else f"{self.segment + 1:04}"
        return b"".join(_record(c, self.transaction, put, number) for c, put in zip(changes, stamps, strict=True))


def generate(out: Path, sample: Sample) -> None:
    """Write ``exports/``, ``feeds/payroll.yaml`` and ``truth/<hour>/<schema.table>.jsonl`` into a folder.

    ``sample.events`` is about how many change-data records an hour holds. ``truth`` is the state of every table at
    every hour's cut: the transactions that are complete by then; the last one of the last hour never is. ``poison``
    records in the second hour cannot be decoded; they belong to transactions of their own. In the container `raw`
    an hour's messages lie back to back; in any other each is a record.
    """
    start, container = sample.start, sample.container or "raw"
    source = _Source(random.Random(sample.seed))
    transactions = [t for hour in range(sample.hours) for t in source.hour(start, hour, sample.hours, sample.events)]
    messages = [m for transaction in transactions for m in _messages(transaction)]
    exported: list[list[_Message]] = [[] for _ in sample.names]
    for message in messages + source.redelivered(messages):
        hour = int((message.arrived - start) / timedelta(hours=1))
        if hour < sample.hours:
            exported[hour].append(message)
    offset = 0
    for hour, name in enumerate(sample.names):
        stream = [(m.arrived, m.encoded(), m.follows) for m in sorted(exported[hour], key=lambda m: m.turn)]
        if hour == min(1, sample.hours - 1):
            for number in range(sample.poison):
                place = source.random.randrange(len(stream) + 1)
                while place < len(stream) and stream[place][2]:
                    place += 1
                stream.insert(place, (start + timedelta(hours=hour), _poisoned(number, start), False))
        records = [
            Message(topic=TOPIC, partition=0, offset=offset + i, sent_at=at, key=None, value=value)
            for i, (at, value, _) in enumerate(stream)
        ]
        offset += len(records)
        write_export(out / "exports", TOPIC, name, [records], container)
        state = _state_at(transactions, start + timedelta(hours=hour + 1))
        tables = {table.lower(): [_published(rows[key]) for key in sorted(rows)] for table, rows in state.items()}
        write_truth(out / "truth", name, tables)
    write_feed(out / "feeds", _feed(container))


class _Source:
    """The source database: its rows, and the transactions that change them, in commit order."""

    def __init__(self, chance: random.Random) -> None:
        self.random = chance
        self.rows = {table: KeyedRows() for table in TABLES}
        self.commits = 0

    def hour(self, start: datetime, hour: int, hours: int, events: int) -> Iterator[_Transaction]:
        """The transactions committed in an hour. The last is of several messages and ends in the hour after."""
        pick, last = self.random, 3590.0
        sizes = draw_sizes(
            events - 12, lambda: pick.choices((1, pick.randint(2, 5), pick.randint(12, 24)), (6, 3, 1))[0]
        )
        sizes.append(12)
        seconds = sorted(self.random.uniform(0, 3400) for _ in sizes[:-1])
        for size, second in zip(sizes, [*seconds, last], strict=True):
            committed = start + timedelta(hours=hour, seconds=second)
            pause = timedelta(seconds=45) if second == last else timedelta(milliseconds=5)
            yield self._transaction(committed, size, pause, upgraded=2 * hour >= hours)

    def redelivered(self, messages: list[_Message]) -> list[_Message]:
        """Some messages a second time: at once, later, or in the next hour; as they were, or put again."""
        again = []
        for message in self.random.sample(messages, len(messages) // 20):
            arrived = message.arrived + timedelta(seconds=self.random.choice((0, 1, 300, 3600)))
            put = self.random.choice((message.put, arrived))
            again.append(replace(message, arrived=arrived, put=put, again=True))
        return again

    def _transaction(self, committed: datetime, size: int, pause: timedelta, *, upgraded: bool) -> _Transaction:
        self.commits += self.random.randint(1, 9)
        # Identifiers are used again after a while; LSNs never. Both are longer after the upgrade.
        unit = f"{(self.commits % 300) << 16:0{24 if upgraded else 20}x}"
        lsn = f"{self.commits << 48:032x}" if upgraded else f"{self.commits << 16:020x}"
        changes = [self._change(committed) for _ in range(size)]
        third = -(-size // 3) if size >= 12 else size
        segments = [changes[i : i + third] for i in range(0, size, third)]
        return _Transaction(unit=_groups(unit), lsn=_groups(lsn), committed=committed, segments=segments, pause=pause)

    def _change(self, now: datetime) -> _Change:
        table = self.random.choice(list(TABLES))
        rows = self.rows[table]
        if len(rows) < 10 or self.random.random() < 0.2:
            after = self._row(table, now)
            rows[_key(table, after)] = after
            return _Change(table, None, after, self._invalid(table))
        key = rows.draw(self.random)
        before = rows.pop(key)
        if self.random.random() < 0.12:
            return _Change(table, before, None)
        fresh = self._row(table, now)
        moves = self.random.random() < 0.08
        kept = set(TABLES[table][1]) if not moves else set()
        changed = {name for name in before if self.random.random() < 0.5} - kept | (set(TABLES[table][1]) - kept)
        after = {name: fresh[name] if name in changed else before[name] for name in before}
        rows[_key(table, after)] = after
        return _Change(table, before, after, None if moves else self._invalid(table))

    def _invalid(self, table: str) -> str | None:
        # The other tables have keys of characters, which the NULL form does not send.
        forms = ("HEX", "NULL") if table == "HR.POSITION" else ("HEX",)
        return self.random.choice(forms) if self.random.random() < 0.08 else None

    def _row(self, table: str, now: datetime) -> Row:
        pick, rows = self.random, self.rows[table]
        while True:
            row = {name: self._value(name, written, now) for name, written in TABLES[table][0].items()}
            row |= {"EMPNO": f"{pick.randrange(10**6):06}"} if "EMPNO" in row else {"POSNO": pick.randrange(10**6)}
            if _key(table, row) not in rows:
                return row

    def _value(self, name: str, written: str, now: datetime) -> Any:
        pick = self.random
        if name not in ("PERIOD", "LASTNAME") and pick.random() < 0.1:
            return None
        values: dict[str, Callable[[], Any]] = {
            "FIRSTNME": lambda: pick.choice(_NAMES),
            "LASTNAME": lambda: pick.choice(_NAMES) + pick.choice(("", "-Smith", "son")),
            "JOB": lambda: pick.choice(("MANAGER", "CLERK", "ANALYST", "")).ljust(10),
            "PERIOD": lambda: 202600 + pick.randint(1, 12), "BADGE": lambda: pick.randbytes(8),
            "BONUS": lambda: Decimal(pick.choice(("0", "1234.5678901234567890123456789", "-0.1", "1E+30"))),
            "LOAD": lambda: round(pick.uniform(-1, 1), 6), "GRADE": lambda: pick.randint(-5, 20),
            "BUDGET": lambda: pick.randint(-(2**60), 2**60), "PAID_ON": now.date,
            "HIREDATE": lambda: date(1980, 1, 1) + timedelta(pick.randrange(16000)),
            "PAID_AT": lambda: now.time().replace(microsecond=0), "CHANGED": lambda: now,
        }  # fmt: skip
        if "DECIMAL" in written:
            return Decimal(pick.randrange(-(10**6), 10**8)).scaleb(-2)
        return values.get(name, lambda: pick.choice(_TEXTS))()


def _key(table: str, row: Row) -> Key:
    return tuple(row[name] for name in TABLES[table][1])


def _groups(digits: str) -> str:
    return ":".join(digits[i : i + 4] for i in range(0, len(digits), 4))


def _messages(transaction: _Transaction) -> Iterator[_Message]:
    for segment in range(len(transaction.segments)):
        put = transaction.committed + segment * transaction.pause
        yield _Message(put=put, arrived=put, transaction=transaction, segment=segment)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _field(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return _quoted(value.hex().upper())
    if isinstance(value, datetime):
        return _quoted(value.strftime("%Y-%m-%d-%H.%M.%S.%f"))
    if isinstance(value, time):
        return _quoted(value.strftime("%H.%M.%S"))
    return str(value) if isinstance(value, int | float | Decimal) else _quoted(str(value))


def _sent(change: _Change, row: Row | None) -> list[str]:
    columns = TABLES[change.table][0]
    if row is None:
        return [""] * len(columns)
    shown = dict.fromkeys(change.not_sent()) if change.invalid else {}
    if change.invalid == "HEX":
        shown |= {
            name: row[name].encode()
            for name in columns
            if _FAMILIES[change.table][name] == "character" and row[name] is not None
        }
    return [_field((row | shown)[name]) for name in columns]


def _record(change: _Change, transaction: _Transaction, put: datetime, segment: str) -> bytes:
    owner, table = change.table.split(".")
    first = 1 + min((i for i, kind in enumerate(_FAMILIES[change.table].values()) if kind == "character"), default=0)
    identifier = f"IBM-INVALID-COLUMN-{first:03}A-{change.invalid}" if change.invalid else "IBM"
    header = [
        "10", _quoted(identifier), put.strftime('"%Y%j"'), put.strftime('"%H%M%S%f"'), _quoted(owner), _quoted(table),
        _quoted(change.operation), _quoted(transaction.unit), _quoted(transaction.lsn),
        transaction.committed.strftime('"%Y-%m-%d-%H.%M.%S"'), '"ASNQC910"', segment,
    ]  # fmt: skip
    return ",".join([*header, *_sent(change, change.before), *_sent(change, change.after)]).encode() + b"\n"


def _poisoned(number: int, start: datetime) -> bytes:
    """A record that cannot be decoded: cut short, with a typographic quote, of an unknown table, or no record."""
    put = start + timedelta(hours=1, minutes=7, seconds=number)
    transaction = _Transaction(
        unit=_groups(f"{number + 1:024x}"), lsn=_groups(f"{number + 1:032x}"), committed=put, segments=[]
    )
    row: Row = dict.fromkeys(TABLES["HR.POSITION"][0]) | {"POSNO": -1 - number, "TITLE": "poisoned"}
    whole = _record(_Change("HR.POSITION", None, row), transaction, put, "0000")
    kinds = (
        whole[: whole.index(b"poisoned") + 4] + b"\n",
        whole.replace(b'"poisoned"', '"poisoned”'.encode()),
        whole.replace(b'"POSITION"', b'"UNHEARD_OF"'),
        b"a line of a log file that strayed in\n",
    )
    return kinds[number % len(kinds)]


def _state_at(transactions: list[_Transaction], cut: datetime) -> dict[str, dict[Key, Row]]:
    """The tables after every transaction whose messages were all put before the cut, in commit order."""
    state: dict[str, dict[Key, Row]] = {table: {} for table in TABLES}
    for transaction in transactions:
        if max(m.put for m in _messages(transaction)) >= cut:
            continue
        for change in (change for segment in transaction.segments for change in segment):
            rows = state[change.table]
            stored = rows.pop(_key(change.table, change.before), None) if change.before else None
            if change.after:
                kept = {name: (stored or {}).get(name) for name in change.not_sent()}
                rows[_key(change.table, change.after)] = change.after | kept
    return state


def _published(row: Row) -> Row:
    """A row as its table holds it: DECFLOAT is text, to the digit as sent."""
    return {name: str(value) if name == "BONUS" and value is not None else value for name, value in row.items()}


def _feed(container: str) -> dict[str, Any]:
    return {
        "feed": FEED,
        "description": "Payroll and positions, from Db2 by Q Replication",
        "owner": "payroll-data",
        "topics": [TOPIC],
        "exports": {"path": f"{{topic}}/dt={{date}}/hr={{hour}}/{'*.del.gz' if container == 'raw' else '*'}"},
        "container": {"type": container},
        "format": {"type": "ibm", "source_code_page": "utf-8"},
        "undeclared": "quarantine",
        "tables": {table: {"key": key, "columns": columns} for table, (columns, key) in TABLES.items()},
    }
