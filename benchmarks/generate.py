"""The benchmark's workload: Debezium events of one table as Kafka records, as a Kafka Connect sink writes them.

Two hours of the topic ``bench.shop.orders``: a base hour of inserts (the table that is already there) and the measured
hour: 30 % inserts, 60 % updates and 10 % deletes in transactions of eight rows. Some keys are hot, every fifth pair of
transactions interleaves (so that LSNs go back), 1 % of the events is delivered a second time in runs of 200 under new
offsets, 1 % lacks its large text (``__debezium_unavailable_value``), every delete has its tombstone.

The same parameters give the same bytes. What comes out is kept and not made again.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

TOPIC = "bench.shop.orders"
OBJECTS = 8  # one per partition, as a sink with one file per partition and hour writes them
ABSENT = "__debezium_unavailable_value"
TRANSACTION = 8  # rows
REPLAY = 200  # events delivered again in one go
BASE, MEASURED = "00", "01"
DATE = "2026-11-20"
START = 1_795_132_800_000  # that day, in epoch milliseconds
LSN = 22_392_528

WORDS = [
    *("order", "parcel", "paid", "refund", "naïve", "Ωmega", "zero\u200bwidth", "€uro", "日本語", "\U0001f600", "it's"),
    *('"quoted"', "back\\slash", "tab\there", "line\nbreak", "null", "a,b;c", "{json}", "%s", "O'Brien", "gift"),
    *("fragile", "express", "doorstep", "neighbour", "invoice"),
]


@dataclass(frozen=True)
class Workload:
    """Parameters of the generator: ``events`` of the measured hour (tombstones come on top), ``base`` rows before."""

    events: int = 1_000_000
    base: int = 300_000
    seed: int = 7

    @property
    def name(self) -> str:
        return f"events-{self.events}-base-{self.base}-seed-{self.seed}"


@dataclass(frozen=True)
class Exports:
    """Where the workload lies: ``root/<plain|gzip>/<topic>/dt=…/hr=…/part-*``, and what its final table must hold."""

    root: Path
    truth: dict[str, int]

    def objects(self, hour: str, codec: str) -> list[str]:
        folder = self.root / codec / TOPIC / f"dt={DATE}" / f"hr={hour}"
        return sorted(str(path) for path in folder.iterdir())


def exports(workload: Workload, cache: Path) -> Exports:
    """The exports of a workload, from the cache or made now."""
    root = cache / workload.name
    if not (root / "truth.json").exists():
        shutil.rmtree(root, ignore_errors=True)
        _write(workload, root)
    return Exports(root, json.loads((root / "truth.json").read_text()))


def _write(workload: Workload, root: Path) -> None:
    rng = np.random.default_rng(workload.seed)
    history = _History(workload, rng)
    paths = []
    for hour, (first, last) in {BASE: (0, workload.base), MEASURED: (workload.base, history.size)}.items():
        folder = root / "plain" / TOPIC / f"dt={DATE}" / f"hr={hour}"
        folder.mkdir(parents=True)
        (root / "gzip" / folder.relative_to(root / "plain")).mkdir(parents=True)
        files = [(folder / f"part-{part:05d}.jsonl").open("w", encoding="utf-8") for part in range(OBJECTS)]
        for part, line in history.records(first, last, replays=hour == MEASURED):
            files[part].write(line)
        for file in files:
            file.close()
            paths.append(Path(file.name))
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(_compress, paths, [root] * len(paths)))
    (root / "workload.json").write_text(json.dumps(asdict(workload)))
    (root / "truth.json").write_text(json.dumps(history.truth()))


def _compress(path: Path, root: Path) -> None:
    target = root / "gzip" / f"{path.relative_to(root / 'plain')}.gz"
    with path.open("rb") as source, gzip.GzipFile(target, "wb", compresslevel=1, mtime=0) as sink:
        shutil.copyfileobj(source, sink, 1 << 20)


def _escaped(text: str) -> str:
    """The text inside a JSON string that itself is inside a JSON string, as a Connect sink writes a value."""
    once = json.dumps(text, ensure_ascii=False)[1:-1]
    return json.dumps(once, ensure_ascii=False)[1:-1]


class _History:
    """What happened to the table, in commit order: all columns of all events as arrays."""

    def __init__(self, workload: Workload, rng: np.random.Generator) -> None:
        self.size = size = workload.base + workload.events
        self.base = workload.base
        self.rng = rng
        self.ids, self.ops = self._operations(workload, rng)
        self.lsn, self.committed = self._log_positions(size)
        self.texts = [" ".join(rng.choice(WORDS, rng.integers(2, 6))) for _ in range(4_000)]
        self.notes = [" ".join(rng.choice(WORDS, rng.integers(30, 90))) for _ in range(4_000)]
        self.cents = rng.integers(0, 10**9, size).tolist()
        self.rates = rng.integers(-1, 300_000, size).tolist()  # -1: null
        self.customers = rng.integers(1, 50_000, size).tolist()
        self.quantities = rng.integers(1, 500, size).tolist()
        self.gifts = rng.integers(0, 2, size).tolist()
        self.micros = rng.integers(0, 86_400 * 10**6, size).tolist()
        self.days = rng.integers(-1, 30_000, size).tolist()  # -1: null
        self.text = rng.integers(0, len(self.texts), size).tolist()
        self.note = rng.integers(-1, len(self.notes), size)  # -1: null
        partial = (self.ops == "u") & (rng.random(size) < 0.01 / 0.6)
        self.note = np.where(partial, -2, self.note).tolist()  # -2: not sent
        self.ids, self.ops = self.ids.tolist(), self.ops.tolist()

    @staticmethod
    def _operations(workload: Workload, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Ids and ops: updates and deletes meet rows that are there; a tenth of the rows takes half of the updates."""
        living = list(range(1, workload.base + 1))
        ids, next_id = list(living), workload.base + 1
        ops = np.concatenate(
            [np.full(workload.base, "c"), rng.choice(["c", "u", "d"], workload.events, p=[0.3, 0.6, 0.1])]
        )
        picks = (rng.random(workload.events) ** 3.3).tolist()
        for op, pick in zip(ops[workload.base :].tolist(), picks, strict=True):
            if op == "c":
                ids.append(next_id)
                living.append(next_id)
                next_id += 1
                continue
            place = int(pick * len(living))
            ids.append(living[place])
            if op == "d":
                living[place] = living[-1]
                living.pop()
        return np.array(ids), ops

    @staticmethod
    def _log_positions(size: int) -> tuple[list[int], list[int]]:
        """LSN of each event, and of the last commit before its transaction. Some neighbours interleave in the log."""
        slot = np.arange(size)
        pair, within = slot // (2 * TRANSACTION), slot % (2 * TRANSACTION)
        woven = (within % TRANSACTION) * 2 + within // TRANSACTION
        lsn = LSN + 200 * np.where(pair % 5 == 0, pair * 2 * TRANSACTION + woven, slot)
        ends = np.minimum(np.arange(TRANSACTION - 1, size + TRANSACTION - 1, TRANSACTION), size - 1)
        commits = np.concatenate([[LSN - 200], np.maximum.accumulate(lsn[ends]) + 100])
        return lsn.tolist(), commits[slot // TRANSACTION].tolist()

    def records(self, first: int, last: int, replays: bool) -> Iterator[tuple[int, str]]:
        """Partition and line of each record of the events from first to last."""
        offsets = [0 if first == 0 else 10_000_000] * OBJECTS
        sent = START + (0 if first == 0 else 3_600_000)
        texts, notes = [_escaped(text) for text in self.texts], [_escaped(note) for note in self.notes]
        for start in range(first, last, REPLAY * 100):
            stop = min(start + REPLAY * 100, last)
            runs = [range(start, stop)] + ([range(stop - REPLAY, stop)] if replays and stop - start > REPLAY else [])
            for again, run in enumerate(runs):
                for event in run:
                    part = self.ids[event] % OBJECTS
                    when = sent + (event - first) * 3_599_000 // (last - first) + 7 * again
                    for line in self._lines(event, part, offsets[part], when, texts, notes):
                        yield part, line
                        offsets[part] += 1

    def _lines(
        self, event: int, part: int, offset: int, when: int, texts: list[str], notes: list[str]
    ) -> Iterator[str]:
        row, op = self.ids[event], self.ops[event]
        before, after = "null", "null"
        if op == "d":
            before = (
                f'{{\\"id\\":{row},\\"customer_id\\":0,\\"status\\":\\"\\",\\"total\\":\\"0.00\\",\\"tax_rate\\":null,'
                f'\\"quantity\\":0,\\"is_gift\\":false,\\"placed_at\\":\\"1970-01-01T00:00:00Z\\",\\"updated_at\\":0,'
                f'\\"ship_on\\":null,\\"contact\\":null,\\"note\\":null}}'
            )
        else:
            after = self._image(event, texts, notes)
        lsn, committed = self.lsn[event], self.committed[event]
        head = f'{{"topic":"{TOPIC}","partition":{part},"offset":'
        key = f'"timestamp":{when},"key":"{{\\"id\\":{row}}}","value":'
        yield (
            f'{head}{offset},{key}"{{\\"before\\":{before},\\"after\\":{after},'
            f'\\"source\\":{{\\"version\\":\\"3.6.3.Final\\",\\"connector\\":\\"postgresql\\",\\"name\\":\\"bench\\",'
            f'\\"ts_ms\\":{when - 900},\\"snapshot\\":\\"false\\",\\"db\\":\\"shop\\",'
            f'\\"sequence\\":\\"[\\\\\\"{committed}\\\\\\",\\\\\\"{lsn}\\\\\\"]\\",\\"ts_us\\":{when - 900}123,'
            f'\\"ts_ns\\":{when - 900}123000,\\"schema\\":\\"shop\\",\\"table\\":\\"orders\\",'
            f'\\"txId\\":{731 + event // TRANSACTION},\\"lsn\\":{lsn},\\"xmin\\":null,\\"origin\\":null,'
            f'\\"origin_lsn\\":null}},\\"transaction\\":null,\\"op\\":\\"{op}\\",\\"ts_ms\\":{when},'
            f'\\"ts_us\\":{when}456,\\"ts_ns\\":{when}456789}}","headers":{HEADERS}}}\n'
        )
        if op == "d":
            yield f'{head}{offset + 1},{key}null,"headers":null}}\n'

    def _image(self, event: int, texts: list[str], notes: list[str]) -> str:
        rate, day, micros, note = self.rates[event], self.days[event], self.micros[event], self.note[event]
        seconds, fraction = divmod(micros, 10**6)
        clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        fraction_text = f".{fraction:06d}".rstrip("0") if fraction else ""
        return (
            f'{{\\"id\\":{self.ids[event]},\\"customer_id\\":{self.customers[event]},'
            f'\\"status\\":\\"{STATUS[event % 5]}\\",\\"total\\":\\"{self._total(event)}\\",'
            f'\\"tax_rate\\":{NULL if rate < 0 else f"{QUOTE}{rate / 10_000:.4f}{QUOTE}"},'
            f'\\"quantity\\":{self.quantities[event]},\\"is_gift\\":{"true" if self.gifts[event] else "false"},'
            f'\\"placed_at\\":\\"{DATE}T{clock}{fraction_text}Z\\",'
            f'\\"updated_at\\":{START * 1000 + micros},\\"ship_on\\":{NULL if day < 0 else day},'
            f'\\"contact\\":\\"{texts[self.text[event]]}\\",'
            f'\\"note\\":{NULL if note == -1 else f"{QUOTE}{ABSENT if note == -2 else notes[note]}{QUOTE}"}}}'
        )

    def _total(self, event: int) -> str:
        return f"{self.cents[event] // 100}.{self.cents[event] % 100:02d}"

    def truth(self) -> dict[str, int]:
        """Sums over the table after the measured hour, with absent notes kept from the event that last sent one."""
        last: dict[int, int] = {}
        note: dict[int, int] = {}
        for event, (row, op) in enumerate(zip(self.ids, self.ops, strict=True)):
            if op == "d":
                del last[row], note[row]
                continue
            last[row] = event
            if self.note[event] != -2:
                note[row] = self.note[event]
        return {
            "rows": len(last),
            "ids": sum(last),
            "cents": sum(self.cents[event] for event in last.values()),
            "quantities": sum(self.quantities[event] for event in last.values()),
            "contact_length": sum(len(self.texts[self.text[event]]) for event in last.values()),
            "note_length": sum(len(self.notes[index]) for index in note.values() if index >= 0),
        }


NULL, QUOTE = "null", '\\"'
STATUS = ("new", "paid", "shipped", "cancelled", 'it\'s \\\\\\"odd\\\\\\"')
HEADERS = json.dumps(
    [
        {"key": f"__debezium.context.{name}", "value": json.dumps(value)}
        for name, value in {
            "connectorLogicalName": "bench",
            "taskId": "0",
            "connectorName": "postgresql",
            "runId": "01a1fd67-1719-7f6f-9241-0667115d2bde",
        }.items()
    ],
    separators=(",", ":"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=Workload.events, help="events of the measured hour")
    parser.add_argument("--base", type=int, default=Workload.base, help="rows of the table before it")
    parser.add_argument("--seed", type=int, default=Workload.seed)
    parser.add_argument("--cache", type=Path, default=Path(".tidemark/bench"))
    options = parser.parse_args()
    started = time.monotonic()
    made = exports(Workload(options.events, options.base, options.seed), options.cache)
    print(f"{made.root}: {made.truth} ({time.monotonic() - started:.0f} s)")  # noqa: T201


if __name__ == "__main__":
    main()
