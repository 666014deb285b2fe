"""What MySQL leaves out of the binlog where `binlog_row_image` is not FULL, as Canal's own code writes it: `mysqlType` lists
the columns that the row has in the binlog, and `pkNames` those of the key among them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.debezium_messages import event, moved, row
from tests.e2e.one_table_feed import OneTableFeed, rows
from tidemark.hours import hours_between
from tidemark.ledger.quarantine import list_kept_back
from tidemark.ledger.receipts import Receipt
from tidemark.settings import Settings

pytestmark = pytest.mark.full
TYPES = {"id": "bigint(20)", "n": "int(11)", "note": "text"}
FULL = {"id": "1", "n": "1", "note": "long"}
HOURS = hours_between("2026-11-20T07", "2026-11-20T08")
Row = dict[str, str | None]


def message(number: int, op: str, row: Row, old: Row | None = None) -> str:
    millis = 1_795_132_800_000 + number
    value = {
        "data": [row], "old": None if old is None else [old], "database": "s", "table": "items", "type": op, "es": millis,
        "ts": millis, "id": number, "isDdl": False, "sql": "", "pkNames": ["id"] if "id" in row else None,
        "mysqlType": {name: TYPES[name] for name in row},
    }  # fmt: skip
    return json.dumps({"topic": "t", "partition": 0, "offset": number, "key": None, "value": json.dumps(value)})


def run(feed: OneTableFeed, *messages: str, hour: int = 0) -> Receipt:
    return feed(HOURS[hour], list(messages), format={"type": "canal"}, table={"columns": {}})


def warnings(receipt: Receipt) -> list[str]:
    (table,) = receipt.tables
    return [warning for warning in table.warnings if "do not list" in warning]


def test_a_column_that_an_update_leaves_out_is_told(settings: Settings, tmp_path: Path) -> None:
    feed = OneTableFeed("images_noblob", tmp_path, settings)
    assert warnings(run(feed, message(1, "INSERT", FULL), message(2, "UPDATE", FULL | {"n": "2"}, {"n": "1"}))) == []
    noblob = message(3, "UPDATE", {"id": "1", "n": "3"}, {"n": "2"})
    (warning,) = warnings(run(feed, message(4, "INSERT", FULL | {"id": "2"}), noblob, hour=1))
    assert warning.startswith("some messages of the hour do not list note, others do: it is null")
    assert rows(settings, feed) == [{"id": 1, "n": 3, "note": None}, {"id": 2, "n": 1, "note": "long"}]


def test_a_binlog_with_the_least_of_each_row(settings: Settings, tmp_path: Path) -> None:
    feed = OneTableFeed("images_minimal", tmp_path, settings)
    inserts = [message(n, "INSERT", FULL | {"id": str(n)}) for n in (1, 2)]
    assert warnings(run(feed, *inserts, message(3, "DELETE", {"id": "1"}))) == [], "a delete needs its key alone"
    default, update = message(4, "INSERT", {"id": "3", "n": "1"}), message(5, "UPDATE", {"n": "7"}, {})
    (warning,) = warnings(run(feed, default, update, message(6, "INSERT", FULL | {"id": "4"}), hour=1))
    assert "do not list note, others do" in warning
    (kept,) = list_kept_back(settings, feed.feed)
    assert kept["record"] == 2 and "the key (id) is missing" in kept["reason"]
    assert {row["id"]: row["note"] for row in rows(settings, feed)} == {2: "long", 3: None, 4: "long"}


def test_a_column_that_an_image_names_twice_goes_to_quarantine(settings: Settings, tmp_path: Path) -> None:
    """No connector writes it. Which of its values would count, checks and table might see otherwise."""
    feed, twice = OneTableFeed("images_twice", tmp_path, settings), '{"id": 2, "id": 3}'
    keyed = event("c", 2, row(2, 1)) | {"key": twice}
    (left, arrived), sent = moved(4, 1, 5, 4), event("c", 3, row(4, 1))
    sent["value"] = sent["value"].replace('"n": 1', '"n": 1, "n": -1')
    arrived["headers"][0]["value"] = '{"id": 1, "id": 9}'
    receipt = feed(HOURS[0], [event("c", 1, row(1, 1)), keyed, sent, left, arrived])
    assert (receipt.landed, receipt.counts.applied, receipt.quarantined) == (5, 3, 2)
    assert {kept["reason"] for kept in list_kept_back(settings, feed.feed)} == {"a column is named twice"}
    assert [found["id"] for found in rows(settings, feed)] == [5]
