"""Exports of one table as Qlik Replicate sends it, with as many columns as one likes, of which an update sends some.

An hour of the topic ``<name>.rows``, Kafka records in JSON lines, one event in fifty an insert with all columns, the others
updates of any row that send the key and some columns, each update others. Transactions of ten, each in one object. What the
table must hold is worked out while it is written. The same parameters give the same bytes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random

from tidemark_samples.drawing import Row
from tidemark_samples.exporting import write_feed, write_truth
from tidemark_samples.qlik_wire import dumps, enveloped, in_json, table_columns

HOUR = "2026-11-20T00"
OBJECTS = 8
_TYPES = ("INT4", "WSTRING(20)", "NUMERIC(14,2)", "DATETIME")
_START, _ID, _TRANSACTION, _INSERTED = datetime(2026, 11, 20), "7C1F", 10, 50
#: Values of each column.
_VALUES = 211


@dataclass(frozen=True)
class WideTable:
    """``columns``: beside the key. ``sent``: how many of them an update sends."""

    name: str
    columns: int
    sent: int

    def write(self, root: Path, events: int = 0, size: int = 0) -> int:
        """Exports, feed file and truth of so many events, or of so many bytes, whichever is more, to whole transactions,
        unless they are there; the exports' bytes."""
        folder = root / f"exports/{self.name}.rows/dt=2026-11-20/hr=00"
        if not (root / "feeds").exists():
            shutil.rmtree(root, ignore_errors=True)
            folder.mkdir(parents=True)
            history = _History(self)
            files = [(folder / f"part-{part:05d}.jsonl").open("w", encoding="ascii") for part in range(OBJECTS)]
            written = files[0].write(history.metadata())
            while history.events < events or written < size:
                written += sum(files[part].write(line) for part, line in history.transaction())
            for file in files:
                file.close()
            write_truth(root / "truth", HOUR, {f"{self.name}.rows": history.rows_now()})
            write_feed(root / "feeds", self._feed())
        return sum(path.stat().st_size for path in folder.iterdir())

    def _feed(self) -> Row:
        return {
            "feed": self.name, "description": "The benchmark's workload, one table of Qlik Replicate's.",
            "owner": "benchmarks", "topics": [f"{self.name}.rows"], "container": {"type": "kafka_json"},
            "exports": {"path": "{topic}/dt={date}/hr={hour}/*", "marker": None, "settle": "0s"},
            "format": {"type": "qlik"}, "tables": {f"{self.name}.rows": {"topic": f"{self.name}.rows"}},
        }  # fmt: skip


class _History:
    """What happens to the table. Columns are numbers, and values places in the list of their type's."""

    def __init__(self, of: WideTable) -> None:
        self.of, self.events, self._random = of, 0, Random(7)
        self._names = [f"C{number:03d}" for number in range(of.columns)]
        self._values = [[_value(written, self._random) for _ in range(_VALUES)] for written in _TYPES]
        self._cells = [
            [_inside_json(dumps(in_json({name: value}, as_text=False))[1:-1]) for value in self._of(number)]
            for number, name in enumerate(self._names)
        ]
        self._bits = [2 << number for number in range(of.columns)]  # the first is the key's
        self._rows: list[list[int]] = []
        self._offsets = [1] * OBJECTS  # behind the metadata

    def metadata(self) -> str:
        """The record that says what the columns are."""
        columns = {"ID": "INT8"} | {name: _TYPES[n % len(_TYPES)] for n, name in enumerate(self._names)}
        lineage = {
            "server": "replicate", "task": "wide", "schema": self.of.name, "table": "rows", "tableVersion": 1,
            "timestamp": _START.isoformat(timespec="milliseconds"),
        }  # fmt: skip
        structure = {"tableColumns": table_columns(columns, ["ID"])}
        said = {"schemaId": _ID, "lineage": lineage, "tableStructure": structure, "dataSchema": None}
        return self._record(0, 0, _inside_json(dumps(enveloped(said, "MD"))))

    def transaction(self) -> Iterator[tuple[int, str]]:
        """Part and record of each change of the next transaction."""
        part, columns = self.events // _TRANSACTION % OBJECTS, range(self.of.columns)
        for number in range(1, _TRANSACTION + 1):
            event = self.events
            self.events += 1
            if event % _INSERTED == 0:
                key, sent, operation = len(self._rows), list(columns), "INSERT"
                self._rows.append([0] * self.of.columns)
            else:
                key, operation = self._random.randrange(len(self._rows)), "UPDATE"
                sent = sorted(self._random.sample(columns, self.of.sent))
            row = self._rows[key]
            for column in sent:
                row[column] = (31 * event + 7 * column) % _VALUES
            data = ",".join([self._cells[column][row[column]] for column in sent])
            mask = f"{1 + sum([self._bits[column] for column in sent]):0{2 * -(-(self.of.columns + 1) // 8)}X}"
            yield part, self._record(part, self._offsets[part], _MESSAGE.format(
                key=key, data=data, operation=operation, event=event, mask=mask, transaction=event // _TRANSACTION,
                number=number, last="true" if number == _TRANSACTION else "false",
            ))  # fmt: skip
            self._offsets[part] += 1

    def rows_now(self) -> Iterator[Row]:
        """The table after all of it."""
        lists = [self._of(column) for column in range(self.of.columns)]
        for key, row in enumerate(self._rows):
            yield {"ID": key} | {n: of[place] for n, of, place in zip(self._names, lists, row, strict=True)}

    def _of(self, column: int) -> list[object]:
        return self._values[column % len(_TYPES)]

    def _record(self, part: int, offset: int, value: str) -> str:
        return (
            f'{{"topic":"{self.of.name}.rows","partition":{part},"offset":{offset},"timestamp":1795132860000,"key":null,'
            f'"value":"{value}","headers":[]}}\n'
        )


def _inside_json(message: bytes) -> str:
    """ASCII without backslashes as the inside of a string of JSON."""
    return message.decode().replace('"', '\\"')


#: The value of a change's record. Its placeholders are filled with what needs no further escape.
_MESSAGE = (
    _inside_json(
        dumps(
            enveloped(
                {
                    "data": "<data>", "beforeData": None,
                    "headers": {
                        "operation": "<operation>", "changeSequence": "2026112000010000<event:019d>",
                        "timestamp": "2026-11-20T00:01:00.000", "streamPosition": "00000000.<event:08x>.00000001",
                        "transactionId": "<transaction:032X>", "changeMask": "<mask>", "columnMask": "<mask>",
                        "transactionEventCounter": "<number>", "transactionLastEvent": "<last>",
                    },
                },
                "DT", _ID,
            )
        )
    )
    .replace("{", "{{").replace("}", "}}")
    .replace('\\"<data>\\"', '{{\\"ID\\":<key>,<data>}}').replace('\\"<number>\\"', "<number>")
    .replace('\\"<last>\\"', "<last>").replace("<", "{").replace(">", "}")
)  # fmt: skip


def _value(written: str, chance: Random) -> object:
    values = {
        "INT4": chance.randrange(2**31), "WSTRING(20)": f"text {chance.randrange(10**9)}",
        "NUMERIC(14,2)": Decimal(chance.randrange(10**9)).scaleb(-2),
        "DATETIME": datetime(2020, 1, 1) + timedelta(seconds=chance.randrange(10**8)),
    }  # fmt: skip
    return values[written]
