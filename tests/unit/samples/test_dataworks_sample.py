"""The generator's exports, read in plain Python by the rules of the format, are the truth it wrote beside them."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.unit.samples.truth import assert_same_rows, generated, truth_of
from tidemark.hours import Hour, hours_between
from tidemark_samples.dataworks import TABLES, TOPIC, generate

HOURS = hours_between("2026-11-20T22", "2026-11-21T01")


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generated(generate, tmp_path_factory, HOURS)


def _messages(sample: Path, hour: Hour) -> list[dict[str, Any]]:
    """Messages that can be decoded, with the hour they came in."""
    found = []
    folder = sample / "exports" / TOPIC / f"dt={hour.date}" / f"hr={hour.clock}"
    assert (folder / "_SUCCESS").exists()
    for path in sorted(folder.glob("*.jsonl.gz")):
        for line in gzip.decompress(path.read_bytes()).splitlines():
            value = json.loads(line)["value"]
            if not re.match(r'\{.*"version":"0\.0\.1"\}$', value, re.S):
                continue
            message = json.loads(value)
            placed = message["payload"]["sequenceId"] is not None or message["payload"]["op"] in ("MHEARTBEAT", "GTID")
            if message["payload"]["op"] != "UPSERT" and placed:
                found.append(message | {"hour": hour, "value": value})
    return found


def _typed(value: Any, kind: str) -> Any:
    if value is None:
        return None
    if kind == "DATE":
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=value)).isoformat()
    if kind == "BYTES":
        return base64.b64encode(base64.b64decode(value)).decode()
    return value


def _state(sample: Path, cut: str) -> dict[str, list[dict[str, Any]]]:
    """All messages up to a cut, walked in their order."""
    seen = {m["value"]: m for hour in HOURS if hour <= cut for m in _messages(sample, hour)}
    ordered = sorted(
        (m for m in seen.values() if m["payload"]["sequenceId"]),
        key=lambda m: (int(m["payload"]["sequenceId"]), m["payload"]["op"] == "UPDATE_AFTER"),
    )
    state: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = {table: {} for table in TABLES}
    open_: list[dict[str, Any]] | None = None
    pair: dict[str, Any] | None = None
    for message in ordered:
        op = message["payload"]["op"]
        if op == "TRANSACTION_BEGIN":
            open_ = []  # one that is open still never ended
        elif op in ("TRANSACTION_END", "XACOMMIT"):
            assert open_ is not None
            for one in open_:
                _apply(state, one)
            open_ = None
        elif op == "XAROLLBACK":
            open_ = None
        elif open_ is not None:
            open_.append(message)
        elif op == "UPDATE_BEFOR":
            pair = message
        elif op == "UPDATE_AFTER" and message["payload"]["before"] is None:
            assert pair and pair["payload"]["sequenceId"] == message["payload"]["sequenceId"]
            _apply(state, pair)
            _apply(state, message)
        else:
            _apply(state, message)
    return {table: list(rows.values()) for table, rows in state.items()}


def _apply(state: dict[str, dict[tuple[Any, ...], dict[str, Any]]], message: dict[str, Any]) -> None:
    payload, source = message["payload"], message["schema"]["source"]
    table = f"{source['dbName']}.{source['tableName']}"
    rows = state[table]
    names = message["schema"]["primaryKey"] or ["#alibaba_rds_row_id#"]
    types = {c["name"]: c["type"] for c in message["schema"]["dataColumn"] or []}
    images = {
        side: {n: _typed(v, types[n]) for n, v in payload[side]["dataColumn"].items()}
        for side in ("before", "after")
        if payload[side]
    }
    text = (payload["ddl"] or {}).get("text", "")
    if payload["op"] == "TRUNCATE":
        rows.clear()
    elif added := re.search(r"ADD COLUMN `(\w+)`", text):
        for row in rows.values():
            row[added[1]] = None
    elif renamed := re.search(r"CHANGE COLUMN `(\w+)` `(\w+)`", text):
        for row in rows.values():
            row[renamed[2]] = row.pop(renamed[1])
    if "before" in images:
        rows.pop(tuple(images["before"][name] for name in names), None)
    if "after" in images:
        rows[tuple(images["after"][name] for name in names)] = images["after"]


@pytest.mark.parametrize("hour", HOURS)
def test_what_was_sent_comes_to_the_truth(sample: Path, hour: Hour) -> None:
    state = _state(sample, hour)
    for table in TABLES:
        assert_same_rows(state[table], truth_of(sample, hour, table))


def test_the_sample_holds_what_it_promises(sample: Path) -> None:
    by_hour = {hour: _messages(sample, hour) for hour in HOURS}
    ops = Counter(m["payload"]["op"] for messages in by_hour.values() for m in messages)
    assert {
        "INSERT", "UPDATE_BEFOR", "UPDATE_AFTER", "DELETE", "TRANSACTION_BEGIN", "TRANSACTION_END", "XACOMMIT",
        "XAROLLBACK", "ALTER", "TRUNCATE", "CINDEX", "QUERY", "GTID", "MHEARTBEAT",
    } == set(ops)  # fmt: skip
    assert ops["TRANSACTION_BEGIN"] > ops["TRANSACTION_END"] + ops["XACOMMIT"] + ops["XAROLLBACK"]
    halves: dict[str, set[str]] = {}
    for hour, messages in by_hour.items():
        for m in messages:
            if m["payload"]["op"] == "UPDATE_BEFOR" or (
                m["payload"]["op"] == "UPDATE_AFTER" and not m["payload"]["before"]
            ):
                halves.setdefault(m["payload"]["sequenceId"], set()).add(hour)
    assert any(len(hours) > 1 for hours in halves.values()), "no pair is split by an hour"
    combined = [m for ms in by_hour.values() for m in ms if m["payload"]["before"] and m["payload"]["after"]]
    keyed = [m for m in combined if m["schema"]["primaryKey"]]
    assert any(_key(m, "before") != _key(m, "after") for m in keyed), "no key changes"
    values = [m["value"] for ms in by_hour.values() for m in ms]
    assert len(values) > len(set(values)), "nothing is redelivered"
    assert {m["schema"]["primaryKey"] is None for m in combined} == {True, False}


def _key(message: dict[str, Any], side: str) -> list[Any]:
    return [message["payload"][side]["dataColumn"][name] for name in message["schema"]["primaryKey"]]
