"""`tidemark explain`: every change of a row, what became of it, and which one gave each value."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.e2e.debezium_messages import HOURS, event, row
from tests.e2e.one_table_feed import OneTableFeed, rows
from tidemark.errors import ConfigError
from tidemark.operations.explain_row import explain_row, explanation_listing
from tidemark.settings import Settings

UNSENT = "__debezium_unavailable_value"


def test_a_row_that_moved_and_came_twice(
    spark: SparkSession, settings: Settings, run: OneTableFeed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = event("c", 41, row(9, 4, UNSENT))
    moved["headers"] = [{"key": "__debezium.oldkey", "value": json.dumps({"id": 1})}]
    first = event("c", 10, row(1, 1, "large"))
    run(HOURS[0], [first, event("c", 11, row(2, 2)), event("u", 20, row(1, 2, UNSENT))])
    run(HOURS[1], [
        first | {"offset": 99}, event("u", 30, row(1, "no number", UNSENT)), event("d", 41, None, key={"id": 1}), moved,
        event("u", 50, row(9, 5, UNSENT)),
    ])  # fmt: skip
    assert rows(settings, run) == [row(2, 2), row(9, 5, "large")]

    feeds = tmp_path / "feeds"
    feeds.mkdir()
    (feeds / f"{run.feed}.yaml").write_text(run.definition().model_dump_json(exclude_unset=True).replace("PT0S", "0s"))
    known = settings.model_copy(update={"feeds": feeds})

    found = explain_row(known, run.table, ["9"])
    assert found.given is not None
    assert {name: (one.hour, one.record) for name, one in found.given.items()} == {
        "id": (HOURS[1], 5), "n": (HOURS[1], 5), "big": (HOURS[0], 1),
    }  # fmt: skip
    told = [(one.op, one.key, one.came_from, one.fate.partition(":")[0]) for one in found.changes]
    old, new = '{"id":1}', '{"id":9}'
    assert told == [
        ("insert", old, None, "applied"), ("insert", old, None, "duplicate"), ("update", old, None, "applied"),
        ("update", old, None, "in quarantine"), ("insert", new, old, "applied"), ("update", new, None, "applied"),
    ]  # fmt: skip
    gone = explain_row(known, run.table, ["1"])
    assert gone.given is None and [one.op for one in gone.changes][-1] == "delete"

    then = explain_row(known, run.table, ["1"], HOURS[0])
    assert then.given is not None and {name: one.record for name, one in then.given.items()} == {
        "id": 3,
        "n": 3,
        "big": 1,
    }
    assert [one.fate for one in then.changes if one.hour == HOURS[0]] == ["applied", "applied"]
    assert {one.fate for one in then.changes if one.hour == HOURS[1]} == {"its hour is not published yet"}
    assert rows(settings, run, HOURS[0]) == [row(1, 2, "large"), row(2, 2)]
    with pytest.raises(ConfigError, match=f"hour {HOURS[2]} has no cut"):
        explain_row(known, run.table, ["1"], HOURS[2])

    listing = explanation_listing(run.table, ["9"], found, "big")
    assert [(one["big"], one["gives_the_row"]) for one in listing.objects] == [("large", "yes"), ("large", "")]
    assert [one["gives"] for one in found.objects] == [["big"], [], [], [], [], ["id", "n"]]
    with pytest.raises(ConfigError, match=f"the key of {run.table} is id"):
        explain_row(known, run.table, ["9", "9"])
    with pytest.raises(ConfigError, match=r"no key of .*: id \(bigint\)"):
        explain_row(known, run.table, ["nine"])
    with monkeypatch.context() as patch, pytest.raises(ConfigError, match="more than 2 changes speak of"):
        patch.setattr("tidemark.operations.explain_row._MOST_CHANGES", 2)
        explain_row(known, run.table, ["1"])
    with pytest.raises(ConfigError, match=f"did you mean `{run.table}`"):
        explain_row(known, run.table + "x", ["9"])
