"""The audit does not share the fold: a lake that a wrong one made is found, also by the release that made it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column
from pyspark.sql import functions as F

from tests.e2e.debezium_messages import HOURS, Event, event
from tests.e2e.one_table_feed import OneTableFeed, rows
from tidemark.fold import fold_rows, typed_rows
from tidemark.operations.audit import audit
from tidemark.settings import Settings
from tidemark.tables import iceberg_merge

pytestmark = [pytest.mark.full, pytest.mark.promise(5)]

UNSENT = "__debezium_unavailable_value"
PART: Event = event("u", 20, {"id": 1, "n": 2, "big": UNSENT})
HISTORY: list[Event] = [
    event("c", 10, {"id": 1, "n": 1, "big": "x"}),
    PART,
    event("c", 11, {"id": 2, "n": 2, "big": "x"}),
]


def _newest_alone(steps: Column) -> Column:
    last = F.element_at(steps, -1)
    nothing = F.create_map().cast("map<string, string>")
    return F.struct(
        last["after"].alias("after"),
        last["absent"].alias("absent"),
        nothing.alias("newer"),
    )


def _sent_wins(name: str, sent: str) -> str:
    return sent


def _whole(shape: Any) -> Column:
    return F.coalesce("after", F.create_map().cast("map<string, string>"))


#: Which part is wrong, and how; and the hours by which it shows, as they run.
WRONG: dict[str, tuple[Any, str, Callable[..., Any], list[tuple[int, list[Event]]]]] = {
    "the newest change alone is taken": (fold_rows, "fold_steps", _newest_alone, [(0, HISTORY)]),
    "what comes late wins": (iceberg_merge, "joined_value", _sent_wins, [(1, [PART]), (0, [HISTORY[0], HISTORY[2]])]),
    "a column that left comes back": (
        typed_rows, "_completed", _whole,
        [(1, [event("u", 20, {"id": 1, "big": UNSENT})]), (0, [HISTORY[0], HISTORY[2]])],
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", WRONG)
def test_a_lake_of_a_wrong_fold_is_found(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch, mistake: str
) -> None:
    module, name, wrong, hours = WRONG[mistake]
    run = OneTableFeed(f"wrong{list(WRONG).index(mistake)}", tmp_path / "exports", settings)
    monkeypatch.setattr(module, name, wrong)
    for number, events in hours:
        run(HOURS[number], list(events))
    findings = audit(run.definition(), settings).findings
    assert [(finding.kind, finding.where) for finding in findings] == [("table", run.table)], rows(settings, run)
    assert '1 rows with other values by the change log, like the one of key {"id":1}' in findings[0].found


def test_a_row_is_found_that_is_right_and_would_be_joined_wrongly(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its values are those of the source, and an older change that comes late would alter them."""
    run = OneTableFeed("noted", tmp_path / "exports", settings)
    monkeypatch.setattr(iceberg_merge, "joined_stamp", lambda: "s.tidemark")
    run(HOURS[0], [HISTORY[0], HISTORY[2]])
    run(HOURS[1], [PART])
    wanted = [{"id": 1, "n": 2, "big": "x"}, {"id": 2, "n": 2, "big": "x"}]
    assert sorted(rows(settings, run), key=lambda row: row["id"]) == wanted
    (finding,) = audit(run.definition(), settings).findings
    assert finding.found.startswith(
        '1 rows with another base_sort_key, absent or newer by the change log, like the one of key {"id":1}'
    )
