"""What an hour reads of the change log: its own entries, however long the feed has run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.schema_change_messages import HOURS, Change, Installation, Statement
from tidemark.settings import Settings

V1 = {"id": "int", "name": "text"}
CREATED = "CREATE TABLE items (id int PRIMARY KEY, name varchar(40))"
STATED = {"canal": CREATED, "dataworks": CREATED, "qlik": ""}
DECLARED = {"columns": {"id": "integer", "name": "varchar(40)"}, "key": ["id"]}


@pytest.mark.parametrize(
    "format_",
    ["canal", *(pytest.param(one, marks=pytest.mark.full) for one in ("dataworks", "qlik", "plain_debezium", "ibm"))],
)
def test_an_hour_in_order_opens_no_file_of_the_log_of_hours_before(
    tmp_path: Path, settings: Settings, format_: str
) -> None:
    """But of those in which the source states something about its tables."""
    tables = {"s.items": {} if format_ in STATED else DECLARED}
    made = Installation(format_, f"before_{format_}", tmp_path, settings, tables)

    def row(id_: int, name: str) -> dict[str, object]:
        return {"id": id_, "name": name}

    stated = [Statement(1, V1, STATED[format_], kind="CREATE")] if format_ in STATED else []
    hours = [
        [*stated, *(Change("c", id_, V1, row(id_, "a")) for id_ in (2, 3, 4))],
        [Change("c", 11, V1, row(11, "b")), Change("u", 12, V1, row(2, "b"), row(2, "a"))],
        [Change("d", 13, V1, row(3, "a"))],
        [
            Change("c", 21, V1, row(21, "c")),
            Change("u", 22, V1, row(2, "c"), row(2, "b")),
            Change("u", 23, V1, row(4, "c"), row(4, "a")),
            Change("d", 24, V1, row(11, "b")),
        ],
    ]
    for hour, entries in enumerate(hours):
        made.export(hour, entries)
    for hour in range(3):
        made.run(hour)
    hidden = 0
    for hour in (1, 2) if stated else (0, 1, 2):
        for file in Path(settings.lake_root).rglob(f"{made.name}/changes/data/hour={HOURS[hour]}/*.parquet"):
            file.rename(file.with_suffix(".hidden"))
            hidden += 1
    assert hidden >= 2
    made.run(3)
    assert {r["id"]: r["name"] for r in made.rows()} == {2: "c", 4: "c", 21: "c"}
