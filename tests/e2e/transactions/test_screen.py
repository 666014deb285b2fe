"""A bad value waits with its transaction, whatever writes its row before or after it, in the same hour or in another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.e2e.debezium_messages import COLUMNS, HOURS, Event
from tests.e2e.feed_pair import FeedPair
from tests.e2e.transaction_exports import DEBEZIUM, export, ids, transaction
from tidemark.ledger.quarantine import list_kept_back
from tidemark.operations.audit import audit
from tidemark.settings import Settings

pytestmark = pytest.mark.promise(1, 2, 3)

TOO_MUCH, TOO_LONG = 50, 5_000_000_000
UNSENT = "__debezium_unavailable_value"
TABLES = {
    "s.items": {"columns": COLUMNS, "checks": [{"column": "n", "max": 9, "consequence": "quarantine"}]},
    "s.others": {"columns": COLUMNS},
}  # fmt: skip


def without_big(sent: list[Event]) -> list[Event]:
    """The changes as updates that do not send the column ``big``."""
    for one in sent:
        value = json.loads(one["value"])
        if value.get("after"):
            value["after"]["big"] = UNSENT
            one["value"] = json.dumps(value)
    return sent


def update(number: int, id_: int, n: int, other: int | None = None, *, partial: bool = False) -> list[Event]:
    """A transaction that updates a row of items, and inserts one of others."""
    others = [("c", "others", other, other)] if other else []
    sent = transaction(number, ("u", "items", id_, n), *others)
    return without_big(sent[:1]) + sent[1:] if partial else sent


BEFORE = transaction(1, *(("c", "items", id_, 0) for id_ in (1, 2, 3, 4)))
BAD = [
    *update(2, 1, TOO_LONG, 1), *update(3, 2, TOO_MUCH, 2),
    *update(4, 3, TOO_LONG, 3, partial=True), *update(5, 4, TOO_MUCH, 4, partial=True),
]  # fmt: skip
GOOD = [*update(6, 1, 1), *update(7, 2, 2, 9), *update(8, 3, 3, partial=True), *update(9, 4, 4, partial=True)]


@pytest.mark.parametrize(
    ("name", "hours", "order"),
    [
        pytest.param("one", [[*BEFORE, *BAD, *GOOD]], [0], marks=pytest.mark.full),
        pytest.param("two", [[*BEFORE, *BAD], GOOD], [0, 1], marks=pytest.mark.full),
        ("late", [BAD, [*BEFORE, *GOOD]], [1, 0]),
        pytest.param("between", [BEFORE, BAD, GOOD], [2, 1, 0], marks=pytest.mark.full),
    ],
)
@pytest.mark.parametrize("bad", ["hold", pytest.param("split", marks=pytest.mark.full)])
def test_it_does_not_matter_into_which_hours_the_changes_fall(
    spark: SparkSession,
    settings: Settings,
    tmp_path: Path,
    name: str,
    hours: list[list[Event]],
    order: list[int],
    bad: str,
) -> None:
    usual: dict[str, Any] = {**DEBEZIUM, "tables": TABLES, "transactions": {"bad": bad}}
    pair = FeedPair(f"screen_{name}_{bad}", tmp_path, spark, settings, **usual)
    for hour, sent in zip(HOURS, hours, strict=False):
        export(pair, hour, sent)
    for number in order:
        pair.run(HOURS[number])
    assert ids(pair, "items") == {1: 1, 2: 2, 3: 3, 4: 4}
    assert ids(pair, "others") == ({9: 9} if bad == "hold" else {1: 1, 2: 2, 3: 3, 4: 4, 9: 9})
    kept = {
        (r["table"].split(".")[1], json.loads(r["change"])["key"]["id"]) for r in list_kept_back(settings, pair.fixed)
    }
    refused = {("items", str(id_)) for id_ in (1, 2, 3, 4)}
    assert kept == (refused | {("others", str(id_)) for id_ in (1, 2, 3, 4)} if bad == "hold" else refused)
    assert [str(finding) for finding in audit(pair.feed(pair.fixed), settings).findings] == []
