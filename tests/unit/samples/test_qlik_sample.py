"""The generator's exports, read and folded in plain Python, are the truth it wrote beside them."""

from __future__ import annotations

import base64
import gzip
import json
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.unit.samples.truth import assert_same_rows, generated, truth_of
from tidemark.feeds.loading import load_feed
from tidemark_samples.exporting import Sample
from tidemark_samples.qlik import TABLES, generate

HOURS = ["2026-11-20T22", "2026-11-20T23", "2026-11-21T00"]
BY_TOPIC = {of.topic: table for table, of in TABLES.items()}

Change = dict[str, Any]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generated(generate, tmp_path_factory, HOURS, events=250)


def read(sample: Path) -> list[dict[str, Any]]:
    """Every record with its hour, in the order of objects."""
    records = []
    for path in sorted((sample / "exports").rglob("*.jsonl.gz")):
        day, hour = path.parts[-3:-1]
        for line in gzip.decompress(path.read_bytes()).splitlines():
            records.append(json.loads(line) | {"hour": f"{day[3:]}T{hour[3:]}"})
    return records


@pytest.fixture(scope="module")
def records(sample: Path) -> list[dict[str, Any]]:
    return read(sample)


def message_of(record: dict[str, Any]) -> dict[str, Any] | None:
    """The message's sections; None for what is no message."""
    try:
        value = json.loads(record["value"])
    except ValueError:
        return None
    value = value.get("message", value)
    if "headers_operation" in value:
        sections: dict[str, dict[str, Any]] = defaultdict(dict)
        for name, sent in value.items():
            section, _, column = name.partition("_")
            sections[section][column] = sent
        value = dict(sections)
    return value


@pytest.fixture(scope="module")
def ordinals(records: list[dict[str, Any]]) -> dict[str, dict[int, dict[str, int]]]:
    """Table → version → column → ordinal, of the metadata messages."""
    found: dict[str, dict[int, dict[str, int]]] = defaultdict(dict)
    for message in filter(None, map(message_of, records)):
        if "lineage" in message:
            lineage, columns = message["lineage"], message["tableStructure"]["tableColumns"]
            of = found[f"{lineage['schema']}.{lineage['table']}"]
            of[lineage["tableVersion"]] = {name: column["ordinal"] for name, column in columns.items()}
    return found


@pytest.fixture(scope="module")
def changes(records: list[dict[str, Any]], ordinals: dict[str, dict[int, dict[str, int]]]) -> list[Change]:
    found = []
    for record in records:
        message = message_of(record)
        if message is None or "lineage" in message or message["headers"]["operation"] == "UPSERT":
            continue
        headers = message["headers"]
        if headers["operation"] != "REFRESH" and len(headers["changeSequence"]) != 35:
            continue
        table = f"{headers['schema']}.{headers['table']}" if "table" in headers else BY_TOPIC[record["topic"]]
        versions = ordinals[table]
        own = next(columns for columns in versions.values() if set(columns) == set(message["data"]))
        mask = int(headers["columnMask"] or "F" * 99, 16)
        after = {name: value for name, value in message["data"].items() if mask >> (own[name] - 1) & 1}
        key = tuple(str(message["data"][name]) for name in TABLES[table].key)
        before = message.get("beforeData")
        found.append(
            {
                "table": table, "hour": record["hour"], "op": headers["operation"], "key": key, "after": after,
                "old": tuple(str(before[name]) for name in TABLES[table].key) if before else key,
                "absent": set(own) - set(after), "position": headers["changeSequence"] or "0",
                "tx": headers["transactionId"], "part": headers["transactionEventCounter"],
                "end": headers["transactionLastEvent"], "changed": int(headers["changeMask"] or "0", 16),
            }
        )  # fmt: skip
    return found


def state(changes: list[Change], hour: str) -> dict[str, dict[tuple[str, ...], dict[str, Any]]]:
    here = [change for change in changes if change["hour"] <= hour]
    transactions: dict[str, list[Change]] = defaultdict(list)
    for change in here:
        transactions[change["tx"]].append(change)
    whole = [
        change
        for tx, own in transactions.items()
        for change in own
        if not tx
        or (any(c["end"] for c in own) and len({c["part"] for c in own}) == max(c["part"] for c in own))
    ]  # fmt: skip
    tables: dict[str, dict[tuple[str, ...], dict[str, Any]]] = defaultdict(dict)
    seen = set()
    for change in sorted(whole, key=lambda c: c["position"]):
        if (identity := (change["table"], change["key"], change["position"])) in seen:
            continue
        seen.add(identity)
        stored = tables[change["table"]].pop(change["old"], {})
        if change["op"] != "DELETE":
            kept = {name: stored.get(name) for name in change["absent"]}
            tables[change["table"]][change["key"]] = kept | change["after"]
    return tables


def comparable(row: dict[str, Any], columns: dict[str, str]) -> dict[str, str | None]:
    """A message's row and a row of the truth, in one spelling."""

    def spelled(value: Any, written: str) -> str | None:
        if value is None:
            return None
        if written.startswith("BYTES"):
            return bytes.fromhex(value).hex() if len(value) == 16 else base64.b64decode(value).hex()
        if written.startswith("NUMERIC"):
            return str(Decimal(value))
        return str(value).replace(" ", "T") if written == "DATETIME" else str(value)

    return {name: spelled(row.get(name), written) for name, written in columns.items()}


@pytest.mark.parametrize("hour", HOURS)
def test_folded_changes_are_the_truth(changes: list[Change], sample: Path, hour: str) -> None:
    tables = state(changes, hour)
    for table, of in TABLES.items():
        expected = truth_of(sample, hour, table.lower())
        columns = of.at(2)
        got = [comparable(row, columns) for row in tables[table].values()]
        assert_same_rows(got, [comparable(row, columns) for row in expected])
        assert list(expected[0]) == list(of.at(2 if hour > HOURS[0] else 1)), "columns by the cut's metadata"


def test_the_sample_holds_what_it_promises(
    records: list[dict[str, Any]], changes: list[Change], ordinals: dict[str, Any], sample: Path
) -> None:
    """Otherwise the comparison with the truth proves little."""
    assert {change["op"] for change in changes} == {"REFRESH", "INSERT", "UPDATE", "DELETE"}
    updates = [change for change in changes if change["op"] == "UPDATE"]
    assert any(change["absent"] for change in updates) and any(change["key"] != change["old"] for change in updates)
    assert max(map(len, ordinals["CRM.PROFILE"].values())) > 64
    assert {table: len(versions) for table, versions in ordinals.items()} == {
        "CRM.ACCOUNTS": 2, "CRM.ORDERS": 2, "CRM.PROFILE": 1,
    }  # fmt: skip
    transactions = defaultdict(list)
    for change in changes:
        transactions[change["tx"]].append(change)
    assert any(len({c["table"] for c in own}) == 3 for own in transactions.values())
    assert any(len({c["hour"] for c in own}) > 1 for tx, own in transactions.items() if tx)
    assert [tx for tx, own in transactions.items() if tx and not any(c["end"] for c in own)], "one never ends"
    positions = [(change["table"], change["key"], change["position"]) for change in changes if change["tx"]]
    assert len(set(positions)) < len(positions), "redelivered"
    by_key = defaultdict(list)
    for table, key, position in positions:
        by_key[table, key].append(position)
    assert any(own != sorted(own) for own in by_key.values()), "out of order"
    deleted = {(c["table"], c["key"], c["position"]) for c in changes if c["op"] == "DELETE"}
    again = [c for c in changes if c["op"] == "INSERT" and any(d[:2] == (c["table"], c["key"]) for d in deleted)]
    assert again, "rows that come back"
    assert sum(record["topic"] == "crm.metadata" for record in records) == 5


def test_poison_is_in_the_second_hour(records: list[dict[str, Any]]) -> None:
    broken = [record for record in records if message_of(record) is None]
    assert len(broken) == 2 and {record["hour"] for record in broken} == {HOURS[1]}


def test_the_feed_file_is_good(sample: Path, tmp_path: Path) -> None:
    feed = load_feed(sample / "feeds" / "crm.yaml")
    assert set(feed.topics) == {"crm.metadata", *BY_TOPIC}
    generate(tmp_path, Sample(hours=1, events=40, seed=1, container="lines"))
    objects = sorted((tmp_path / "exports/crm.profile").rglob("*.gz"))
    line = gzip.decompress(objects[0].read_bytes()).splitlines()[0]
    assert json.loads(line)["headers_table"] == "PROFILE", "without topics messages name their table"
