"""A Canal topic of several partitions (`partitionHash`): statements go to the first, rows of the same batch and
millisecond to any, and offsets of two partitions say nothing of each other."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tidemark.feeds.model import Feed
from tidemark.hours import hours_between
from tidemark.operations.audit import audit
from tidemark.operations.read_table import json_lines, read_snapshot
from tidemark.pipeline.hour import run_hour
from tidemark.settings import Settings

pytestmark = [pytest.mark.full, pytest.mark.promise(2)]
HOURS = hours_between("2026-11-20T00", "2026-11-20T01")
EPOCH = 1_795_132_800_000
NAME, TITLE = (("id", "name"), ("id", "title"))


def record(table: str, kind: str, moment: int, offset: int, said: tuple[str, ...] | str, *values: str) -> str:
    """A row with the columns ``said``, in the second partition; or the statement, in the first one."""
    value: dict[str, Any] = {
        "database": "s", "table": table, "type": kind, "es": EPOCH, "ts": EPOCH + moment, "id": 1 + moment, "sql": "",
        "data": None, "old": None,
    }  # fmt: skip
    if isinstance(said, str):
        value |= {"isDdl": True, "sql": said, "mysqlType": None, "pkNames": None}
    else:
        types = {name: "int(11)" if name == "id" else "varchar(40)" for name in said}
        value |= {"isDdl": False, "mysqlType": types, "pkNames": ["id"], "data": [dict(zip(said, values, strict=True))]}
    partition = 0 if isinstance(said, str) else 1
    return json.dumps({"topic": "t", "partition": partition, "offset": offset, "key": None, "value": json.dumps(value)})


#: By hour. The rows of the second one are of the moment of their table's statement.
EXPORTS = [
    [
        record("renamed", "INSERT", 1, 1, NAME, "1", "a"), record("lost", "INSERT", 1, 2, NAME, "1", "a"),
        record("emptied", "INSERT", 1, 3, NAME, "1", "a"), record("sole", "INSERT", 1, 4, NAME, "1", "a"),
    ],
    [
        record("renamed", "INSERT", 2, 5002, NAME, "2", "b"),
        record("renamed", "ALTER", 2, 900, "ALTER TABLE renamed CHANGE name title varchar(40)"),
        record("renamed", "INSERT", 2, 13, TITLE, "3", "c"),
        record("lost", "ALTER", 3, 901, "ALTER TABLE lost DROP name"),
        record("lost", "INSERT", 3, 5003, NAME, "2", "b"), record("lost", "INSERT", 3, 14, ("id",), "3"),
        record("emptied", "TRUNCATE", 4, 902, "TRUNCATE TABLE emptied"),
        record("emptied", "INSERT", 4, 15, NAME, "2", "b"),
        record("sole", "TRUNCATE", 5, 903, "TRUNCATE TABLE sole"), record("sole", "INSERT", 6, 16, NAME, "2", "b"),
    ],
]  # fmt: skip


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_rows_and_statements_of_one_moment(tmp_path: Path, settings: Settings, order: tuple[int, ...]) -> None:
    name = "canal_partitions_" + "".join(map(str, order))
    for hour, lines in zip(HOURS, EXPORTS, strict=True):
        folder = tmp_path / f"t/dt={hour.date}/hr={hour.clock}"
        folder.mkdir(parents=True)
        (folder / "part.jsonl.gz").write_bytes(gzip.compress("".join(line + "\n" for line in lines).encode()))
    feed = Feed.model_validate(
        {
            "feed": name, "description": "d", "owner": "o", "topics": ["t"], "format": {"type": "canal"},
            "exports": {"path": f"{tmp_path}/{{topic}}/dt={{date}}/hr={{hour}}/*", "marker": None, "settle": "0s"},
            "container": {"type": "kafka_json"},
            "tables": {f"s.{t}": {"name": f"{name}.{t}"} for t in ("renamed", "lost", "emptied", "sole")},
        }
    )  # fmt: skip
    receipts = {hour: run_hour(feed, HOURS[hour], settings) for hour in order}

    def rows(table: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in json_lines(*read_snapshot(settings, f"{name}.{table}", None))]

    assert [(row["id"], row["title"]) for row in rows("renamed")] == [(1, "a"), (2, "b"), (3, "c")]
    assert all(row.get("name") is None for row in (*rows("renamed"), *rows("lost")))
    assert [row["id"] for row in rows("lost")] == [1, 2, 3]
    doubts = {
        table.table.split(".")[1] for table in receipts[1].tables for text in table.warnings if "the truncate" in text
    }
    assert doubts == {"emptied"}, "nothing tells on which side of it the row stands"
    assert [row["id"] for row in rows("sole")] == [2]
    assert [str(finding) for finding in audit(feed, settings).findings] == []
