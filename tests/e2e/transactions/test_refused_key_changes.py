"""What waits takes the whole of its change with it: a row keeps its last good version under its last good key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.e2e.debezium_messages import HOURS, Event, event, row
from tests.e2e.feed_pair import FeedPair
from tidemark.ledger.quarantine import list_kept_back
from tidemark.operations.audit import audit
from tidemark.settings import Settings

pytestmark = pytest.mark.promise(1, 3, 5)

TOO_MUCH, TOO_LONG = 50, 5_000_000_000
COLUMNS = {"id": "bigint", "n": "int", "big": "text"}


def tables(most: int, n: str = "int") -> dict[str, Any]:
    table = {"columns": {**COLUMNS, "n": n}, "checks": [{"column": "n", "max": most, "consequence": "quarantine"}]}
    return {
        "tables": {
            "s.items": table, "s.folders": {**table, "storage": "parquet"}, "s.emptied": table,
            "s.emptied_folders": {**table, "storage": "parquet"},
        }
    }  # fmt: skip


def moved(lsn: int, old: int, new: Any, n: int, table: str) -> list[Event]:
    """A key change as the connector sends it."""
    arrived = event("c", lsn, row(new, n, f"moved from {old}"), table=table)
    arrived["headers"] = [{"key": "__debezium.oldkey", "value": json.dumps({"id": old})}]
    return [event("d", lsn, None, key={"id": old}, table=table), arrived]


@pytest.mark.parametrize(
    "hours", [pytest.param(1, id="one hour"), pytest.param(2, id="two hours", marks=pytest.mark.full)]
)
def test_a_row_stays_where_it_was_last_good(
    spark: SparkSession, settings: Settings, tmp_path: Path, hours: int
) -> None:
    debezium = {"format": {"type": "debezium", "decimals": "string"}}
    pair = FeedPair(f"refused_{hours}", tmp_path, spark, settings, **debezium, **tables(9), quarantine={"limit": 1})
    keyed, emptied = ("items", "folders"), ("emptied", "emptied_folders")
    there = [event("c", lsn, row(lsn, lsn), table=table) for table in keyed for lsn in (1, 2, 3, 4)]
    there += [event("c", lsn, row(lsn, lsn), table=table) for table in emptied for lsn in (1, 2)]
    changes = [
        one
        for table in keyed
        for one in (
            *moved(20, 1, 11, TOO_LONG, table),  # the new row cannot be read
            *moved(21, 2, 12, TOO_MUCH, table),  # the new row fails a check
            *moved(22, 3, 13, 4, table),
            *moved(23, 4, "none", 4, table),  # the new key cannot be read
        )
    ]
    for table in emptied:
        changes += [event("t", 30, None, table=table), event("c", 31, row(1, TOO_MUCH), table=table)]
        changes.append(event("c", 32, row(5, 5), table=table))
    if hours == 1:
        pair.export(HOURS[0], [*there, *changes])
        pair.run(HOURS[0])
    else:
        pair.export(HOURS[0], there)
        pair.run(HOURS[0])
        pair.export(HOURS[1], changes)
        pair.run(HOURS[1])
    last = HOURS[hours - 1]
    for table, storage in zip(keyed, ("iceberg", "parquet"), strict=True):
        shown = {r["id"]: r["n"] for r in pair.rows(pair.fixed, table, storage)}
        assert shown == {1: 1, 2: 2, 4: 4, 13: 4}, table
    for table, storage in zip(emptied, ("iceberg", "parquet"), strict=True):
        assert {r["id"]: r["n"] for r in pair.rows(pair.fixed, table, storage)} == {5: 5}, table
    assert not audit(pair.feed(pair.fixed), settings).findings
    value = f'not a value of its column\'s type: n (int): "{TOO_LONG}"'
    key = "the key (id) is missing or cannot be read"
    other = "the other half of its key change is refused: "
    reasons = {r["reason"] for r in list_kept_back(settings, pair.fixed) if r["table"].endswith("items")}
    assert reasons == {
        value, other + value, key, other + key, "check failed: n <= 9", other + "check failed: n <= 9",
    }  # fmt: skip

    right = tables(TOO_MUCH, "bigint")
    right = {"tables": {name: {**t, "checks": [{"column": "n", "max": TOO_LONG, "consequence": "quarantine"}]}
                        for name, t in right["tables"].items()}}  # fmt: skip
    pair.run_right(HOURS[:hours], **right)
    pair.replay(last, **right)
    pair.same("items", "emptied")
    pair.same("folders", "emptied_folders", storage="parquet")
    assert {r["reason"] for r in list_kept_back(settings, pair.fixed)} == {key, other + key}
