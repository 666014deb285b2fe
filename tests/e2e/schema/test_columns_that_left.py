"""A column that messages neither send nor name as unsent is no column of the source's table any more: rows have none of it,
whatever else they lack, and into whichever hours their changes fall."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.debezium_messages import HOURS, Event, event
from tests.e2e.one_table_feed import OneTableFeed, rows
from tidemark.operations.audit import audit
from tidemark.settings import Settings

pytestmark = [pytest.mark.full, pytest.mark.promise(2)]

UNSENT = "__debezium_unavailable_value"
#: n leaves the table between 10 and 20, and comes back behind 30.
CHANGES: list[Event] = [
    event("c", 10, {"id": 1, "n": 1, "big": "x"}),
    event("c", 11, {"id": 2, "n": 2, "big": "x"}),
    event("u", 20, {"id": 1, "big": UNSENT}),
    event("u", 30, {"id": 2, "big": "y"}),
    event("c", 31, {"id": 3, "n": 3, "big": "x"}),
    event("u", 40, {"id": 2, "n": 4, "big": UNSENT}),
]
TRUTH = [
    {"id": 1, "n": None, "big": "x"}, {"id": 2, "n": 4, "big": "y"}, {"id": 3, "n": 3, "big": "x"},
]  # fmt: skip


@pytest.mark.parametrize("declared", [{}, {"columns": {"id": "bigint"}}], ids=["declared", "undeclared"])
def test_a_column_that_left_is_null_in_whichever_hours(
    tmp_path: Path, settings: Settings, declared: dict[str, Any]
) -> None:
    """Undeclared, a late hour may bring the column to rows that are newer than it."""
    cases = {"together": [CHANGES], "apart": [CHANGES[:2], CHANGES[2:4], CHANGES[4:]]}
    truth = [row | {"n": row["n"] if declared == {} or row["n"] is None else str(row["n"])} for row in TRUTH]
    found = {}
    for name, hours in cases.items():
        for number, order in enumerate(permutations(range(len(hours)))):
            feed_name = f"{name}{number}{len(declared)}"
            run = OneTableFeed(feed_name, tmp_path / feed_name, settings)
            for at in order:
                run(HOURS[at], list(hours[at]), table=declared)
            findings = audit(run.definition(table=declared), settings).findings
            found[name, order] = rows(settings, run), findings
    assert found == dict.fromkeys(found, (truth, []))
