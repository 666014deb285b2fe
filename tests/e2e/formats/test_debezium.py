"""Recorded Debezium events, all three connectors: the published tables are the source database's final tables.

Variant A goes through its hours out of order: the tables must not know.
"""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from tests.e2e.debezium_truth import KEYS, SAMPLES, comparable, findings, truth
from tidemark.feeds.loading import load_feed
from tidemark.ledger.receipts import Receipt
from tidemark.operations.read_table import json_lines, read_snapshot
from tidemark.pipeline.hour import run_hour
from tidemark.settings import Settings

pytestmark = [pytest.mark.full, pytest.mark.promise(1, 3)]

DAY = "2026-11-20"
TYPES = {
    "customers": {
        "id": "bigint", "email": "text", "name": "text", "balance": "numeric(14,2)", "rate": "numeric",
        "score": "double precision", "ratio": "real", "is_active": "boolean", "created_at": "timestamptz",
        "updated_at": "timestamp(6)", "seen_at": "timestamp(3)", "birth": "date", "ext_id": "uuid", "avatar": "bytea",
        "phones": "text[]", "prefs": "jsonb", "loyalty": "int", "nickname": "text",
    },
    "orders": {
        "id": "bigint", "customer_id": "bigint", "status": "enum", "total": "numeric(12,2)", "qty": "smallint",
        "placed_at": "timestamptz", "slot_time": "time", "note": "varchar(200)",
    },
    "order_items": {
        "order_id": "bigint", "line_no": "int", "sku": "text", "qty": "int", "price": "numeric(10,4)",
        "gift": "boolean",
    },
    "documents": {
        "doc_id": "uuid", "title": "text", "body": "text", "meta": "jsonb", "blob": "bytea", "tags": "text[]",
        "nums": "bigint[]", "version": "int", "updated_at": "timestamptz",
    },
    "accounts": {"id": "int", "ccy": "char(3)", "amount": "numeric(20,6)", "memo": "text", "opened": "date"},
    "audit_log": {"at": "timestamptz", "actor": "text", "action": "text", "detail": "jsonb"},
}  # fmt: skip
HOURS = {"A": "5 0 3 1 4 2", "B": "0 1 2 3 4 5", "C": "0 1 2 3 4 5"}


def write_feed(folder: Path, variant: str) -> Path:
    """The variant's feed: types declared but where messages carry them (B); its transaction topic where it has one."""
    name = f"recorded_{variant.lower()}"
    transactions = {} if variant == "A" else {"transactions": "srv.transaction"}
    feed = {
        "feed": name,
        "description": "Recorded events.",
        "owner": "tests",
        "topics": sorted(p.name for p in (SAMPLES / "exports" / variant).iterdir()),
        "exports": {
            "path": f"{SAMPLES}/exports/{variant}/{{topic}}/dt={{date}}/hr={{hour}}/*",
            "marker": None, "settle": "0s", "missing": "empty",
        },
        "container": {"type": "kafka_json"},
        "format": {"type": "debezium", "decimals": "precise" if variant == "B" else "string", **transactions},
        "tables": {
            f"shop.{table}": {"name": f"{name}.{table}", **({} if variant == "B" else {"columns": columns})}
            for table, columns in TYPES.items()
        },
    }  # fmt: skip
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(feed, sort_keys=False))
    return path


@pytest.fixture(scope="module", params=["A", "B", "C"])
def recorded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, settings: Settings
) -> tuple[str, list[Receipt]]:
    """(variant, receipts in the order they were run)."""
    variant = request.param
    feed = load_feed(write_feed(tmp_path_factory.mktemp("feed"), variant))
    receipts = [run_hour(feed, f"{DAY}T{int(hour):02d}", settings) for hour in HOURS[variant].split()]
    return variant, receipts


def shown(settings: Settings, table: str, as_of: str | None = None) -> list[dict[str, object]]:
    rows, key = read_snapshot(settings, table, as_of)
    return [json.loads(line, parse_float=Decimal) for line in json_lines(rows, key)]


def test_the_tables_are_the_database_s(recorded: tuple[str, list[Receipt]], settings: Settings) -> None:
    variant, _ = recorded
    for table in KEYS:
        found = findings(shown(settings, f"recorded_{variant.lower()}.{table}"), variant, table)
        assert not found, f"{table}: {len(found)} differences, {found[:5]}"


def test_the_table_without_a_key_is_the_database_s(recorded: tuple[str, list[Receipt]], settings: Settings) -> None:
    variant, _ = recorded

    def counted(rows: list[dict[str, object]]) -> Counter[str]:
        return Counter(json.dumps(row, default=str, sort_keys=True) for row in rows)

    have = counted([comparable(row) for row in shown(settings, f"recorded_{variant.lower()}.audit_log")])
    assert have == counted(truth("audit_log"))


def test_every_record_is_accounted_for(recorded: tuple[str, list[Receipt]]) -> None:
    variant, receipts = recorded
    landed = {"A": 4021, "B": 4931, "C": 4686}[variant]  # lines of the recorded files
    assert sum(receipt.landed for receipt in receipts) == landed
    for receipt in receipts:
        receipt.balance()
        assert receipt.quarantined == 0


def test_a_transaction_cut_by_the_hour_shows_whole_or_not_at_all(
    recorded: tuple[str, list[Receipt]], settings: Settings
) -> None:
    """Where the connector names transactions, each hour's end cuts one: its rows wait for the next hour."""
    variant, receipts = recorded
    if variant == "A":
        assert all(receipt.held == 0 for receipt in receipts)  # this connector names no transactions
        return
    assert receipts[0].held > 0 and receipts[-1].held == 0
    assert receipts[1].counts.released_applied == receipts[0].held
    for table in ("customers", "orders"):
        before = shown(settings, f"recorded_{variant.lower()}.{table}", f"{DAY}T00")
        after = shown(settings, f"recorded_{variant.lower()}.{table}", f"{DAY}T01")
        assert before != after
