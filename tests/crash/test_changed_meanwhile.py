"""A run died, and before it was run again its export or its feed file changed."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.e2e.debezium_messages import HOURS, event, row
from tests.e2e.one_table_feed import OneTableFeed, rows
from tidemark.errors import ConflictError
from tidemark.ledger import hour_run
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.publication_history import load_history
from tidemark.ledger.quarantine import list_kept_back
from tidemark.ledger.state_store import load_state
from tidemark.settings import Settings

pytestmark = [pytest.mark.full, pytest.mark.promise(5, 6)]


class Died(Exception):
    """Stands for the death of the whole process."""


def test_what_landed_after_a_publication_had_begun_is_published_too(
    run: OneTableFeed,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def dies(*_: Any) -> None:
        raise Died

    with monkeypatch.context() as patch, pytest.raises(Died):
        patch.setattr("tidemark.pipeline.hour.publish", dies)
        run(HOURS[0], [event("c", 1, row(1, 1))])
    again = run(HOURS[0], [event("c", 2, row(2, 2)), event("u", 3, row(1, 3))])
    assert (again.manifest_version, again.landed, again.counts.applied) == (2, 3, 3)
    assert [r.manifest_version for r in load_history(settings, run.feed).receipts] == [1, 2]
    assert rows(settings, run) == [row(1, 3), row(2, 2)]
    assert rows(settings, run, HOURS[0]) == [row(1, 1)], "the cut stays as the first publication made it"


@pytest.mark.parametrize("dies_at", ["the tables", "the state"])
def test_rows_that_a_check_held_back_are_let_go_when_it_is_fixed(
    run: OneTableFeed,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    dies_at: str,
) -> None:
    name = f"c_{dies_at.split()[1]}"
    run.table = f"{name}.items"

    def feed(largest: int) -> dict[str, Any]:
        check = {"column": "n", "max": largest, "consequence": "quarantine"}
        return {"feed": name, "table": {"name": run.table, "checks": [check]}}

    saved = hour_run.save_state

    def dies_before(settings: Settings, state: FeedState) -> FeedState:
        if state.attempt.validated:
            raise Died
        return saved(settings, state)

    def dies(*_: Any, **__: Any) -> None:
        raise Died

    run(HOURS[0], [event("c", 1, row(1, 1)), event("c", 2, row(2, 2))], **feed(9))
    with monkeypatch.context() as patch, pytest.raises(Died):
        if dies_at == "the state":
            patch.setattr(hour_run, "save_state", dies_before)
        else:
            patch.setattr("tidemark.pipeline.fold.write_system_rows", dies)
        run(HOURS[1], [event("u", 20, row(1, 10)), event("u", 21, row(2, 3))], **feed(9))
    assert rows(settings, run) == [row(1, 1), row(2, 2)]
    receipt = run(HOURS[1], None, **feed(20))
    assert (receipt.counts.applied, receipt.quarantined) == (2, 0)
    assert rows(settings, run) == [row(1, 10), row(2, 3)]
    assert list_kept_back(settings, name) == []
    run(HOURS[2], [event("u", 15, row(1, 5))], **feed(20))  # late: it is older than what was let go
    assert rows(settings, run) == [row(1, 10), row(2, 3)]


@pytest.mark.parametrize("next_hour", [False, True], ids=["its own run", "another hour's"])
def test_a_publication_that_cannot_be_published_is_set_aside(
    run: OneTableFeed, settings: Settings, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, next_hour: bool
) -> None:
    """Somebody has written to the table since it was staged."""

    def dies(*_: Any) -> None:
        raise Died

    run.feed, run.table = f"aside_{next_hour:d}", f"aside_{next_hour:d}.items"
    run(HOURS[0], [event("c", 1, row(1, 1))])
    with monkeypatch.context() as patch, pytest.raises(Died):
        patch.setattr("tidemark.pipeline.hour.publish", dies)
        run(HOURS[1], [event("c", 2, row(2, 2))])
    spark.table(f"lake.{run.table}").limit(0).writeTo(f"lake.{run.table}").append()
    if not next_hour:
        with pytest.raises(ConflictError, match="somebody has written to the table"):
            run(HOURS[1], None)
    else:
        run(HOURS[2], [event("c", 3, row(3, 3))])
        assert rows(settings, run) == [row(1, 1), row(3, 3)], "its hour is not published yet"
    assert load_state(settings, run.feed).next is None
    assert run(HOURS[1], None).counts.applied == 1
    assert rows(settings, run) == [row(1, 1), row(2, 2), *([row(3, 3)] if next_hour else [])]
    assert load_state(settings, run.feed).unpublished == [2]


def test_the_next_hour_takes_away_what_a_run_that_died_has_made_of_other_tables(
    run: OneTableFeed, settings: Settings, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had added a column to one table and made another, and the next hour has a change of neither."""

    def dies(*_: Any) -> None:
        raise Died

    run(HOURS[0], [event("c", 1, row(1, 1))])
    with monkeypatch.context() as patch, pytest.raises(Died):
        patch.setattr("tidemark.pipeline.hour.validate", dies)
        run(HOURS[1], [event("c", 2, row(2, 2) | {"more": "x"}), event("c", 3, row(1, 1), table="left_over")])
    assert "more" in spark.table(f"lake.{run.table}").columns and spark.catalog.tableExists("lake.s.left_over")
    run(HOURS[2], [event("c", 4, row(1, 1), table="beside")])
    assert spark.table(f"lake.{run.table}").columns == ["id", "n", "big", "_tidemark"]
    assert not spark.catalog.tableExists("lake.s.left_over")
    assert run(HOURS[1], None).counts.applied == 2
    assert rows(settings, run) == [row(1, 1) | {"more": None}, row(2, 2) | {"more": "x"}]
