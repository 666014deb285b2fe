"""The generator's exports, read in plain Python by the rules of the format, are the truth it wrote beside them."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.unit.samples.truth import assert_same_rows, generated, truth_of
from tidemark.hours import Hour, hours_between
from tidemark_samples.canal import TABLES, TOPIC, generate

HOURS = hours_between("2026-11-20T22", "2026-11-21T00")


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generated(generate, tmp_path_factory, HOURS)


def _records(sample: Path, hour: Hour) -> list[tuple[int, str]]:
    """Offsets and values of an hour, in the order of offsets, without what cannot be decoded."""
    folder = sample / "exports" / TOPIC / f"dt={hour.date}" / f"hr={hour.clock}"
    assert (folder / "_SUCCESS").exists()
    found = []
    for path in sorted(folder.glob("*.jsonl.gz")):
        for line in gzip.decompress(path.read_bytes()).splitlines():
            record = json.loads(line)
            if re.match(r'\{.*"ts":\d.*"type":"(?!UPSERT)\w+"\}$', record["value"], re.S):
                found.append((record["offset"], record["value"]))
    return sorted(found)


def _typed(value: str | None, kind: str) -> Any:
    if value is None:
        return None
    if kind.startswith(("decimal", "bigint(20) unsigned")):
        return value
    if kind == "blob":
        return base64.b64encode(value.encode("latin-1")).decode()
    if kind == "datetime(3)":
        day, clock = value.split(" ")
        return f"{day}T{clock}000" if not clock.endswith(".000") else f"{day}T{clock[:-4]}"
    return float(value) if kind == "double" else int(value) if "int" in kind else value


def _deliveries(sample: Path, cut: str) -> list[dict[str, Any]]:
    """The messages until a cut in the order of the binlog, each batch as it was delivered first: what comes again stands
    behind a gap of offsets."""
    batches: dict[tuple[int, int], list[tuple[int, str]]] = {}
    for hour in HOURS:
        for offset, value in _records(sample, hour) if hour <= cut else ():
            message = json.loads(value)
            batch = batches.setdefault((message["ts"], message["id"]), [])
            if not batch or batch[-1][0] == offset - 1 or value not in {known for _, known in batch}:
                batch.append((offset, value))
    return [json.loads(value) for _, batch in sorted(batches.items()) for _, value in batch]


def _state(sample: Path, cut: str) -> dict[str, list[dict[str, Any]]]:
    """Rows as a list of each table: a message takes its old images away and adds its new ones."""
    state: dict[str, list[dict[str, Any]]] = {table: [] for table in TABLES}
    for message in _deliveries(sample, cut):
        if message["type"] == "MHEARTBEAT":
            continue
        rows = state[f"{message['database']}.{message['table']}"]
        types = message["mysqlType"]
        for index, sent in enumerate(message["data"] or []):
            new = {name: _typed(v, types[name]) for name, v in sent.items()}
            old = new | {name: _typed(v, types[name]) for name, v in (message["old"] or [{}] * 99)[index].items()}
            if message["type"] != "INSERT":
                rows.remove(old)
            if message["type"] != "DELETE":
                rows.append(new)
        if message["type"] == "TRUNCATE":
            rows.clear()
        elif added := re.search(r"ADD COLUMN `(\w+)`", message["sql"]):
            for row in rows:
                row[added[1]] = None
        elif renamed := re.search(r"RENAME COLUMN (\w+) TO (\w+)", message["sql"]):
            for row in rows:
                row[renamed[2]] = row.pop(renamed[1])
    return state


@pytest.mark.parametrize("hour", HOURS)
def test_what_was_sent_comes_to_the_truth(sample: Path, hour: Hour) -> None:
    state = _state(sample, hour)
    for table in TABLES:
        assert_same_rows(state[table], truth_of(sample, hour, table))


def test_the_sample_holds_what_it_promises(sample: Path) -> None:
    values = [value for hour in HOURS for _, value in _records(sample, hour)]
    messages = [json.loads(value) for value in values]
    assert {m["type"] for m in messages} == {
        "INSERT", "UPDATE", "DELETE", "ALTER", "TRUNCATE", "CINDEX", "QUERY", "MHEARTBEAT",
    }  # fmt: skip
    assert len(values) > len(set(values)), "nothing is redelivered"
    assert {len(m["data"]) > 1 for m in messages if m["data"]} == {True, False}
    first = _deliveries(sample, HOURS[-1])
    equal = Counter(json.dumps(m) for m in first if m["data"])
    assert {json.loads(value)["type"] for value, times in equal.items() if times == 2} == {"INSERT", "UPDATE"}
    assert any(equal[json.dumps(m)] == 2 and m["pkNames"] is None for m in first), "no equal rows without a key"
    es = [m["es"] for m in first if m["data"]]
    assert es != sorted(es), "no statement took long"
    updates = [(m, i, old) for m in messages for i, old in enumerate(m["old"] or [])]
    assert any(set(old) & set(m["pkNames"] or []) for m, _, old in updates), "no key changes"
    assert any(m["pkNames"] is None for m, _, _ in updates), "no update of a table without a key"
