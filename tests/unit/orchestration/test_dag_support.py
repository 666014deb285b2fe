"""What the DAG files need besides Airflow."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from tidemark.errors import ConfigError
from tidemark.orchestration.dag_support import hour_of_run, reloads_of_run, replay_arguments

AT_7 = datetime(2026, 11, 20, 7, tzinfo=UTC)


@pytest.mark.parametrize(
    ("run_type", "asked", "start", "logical", "hour"),
    [
        ("scheduled", None, AT_7, AT_7, "2026-11-20T07"),
        ("backfill", "", AT_7, AT_7, "2026-11-20T07"),
        ("scheduled", None, AT_7.replace(minute=15), AT_7.replace(minute=15), "2026-11-20T07"),
        ("manual", "2026-11-20T05", AT_7, AT_7, "2026-11-20T05"),
        ("manual", "2026-11-20T05", None, None, "2026-11-20T05"),
        ("manual", None, AT_7.replace(hour=6), AT_7, "2026-11-20T07"),
        ("manual", None, AT_7, AT_7.replace(hour=8, minute=59), "2026-11-20T08"),
        ("manual", None, AT_7, datetime(2026, 11, 20, 15, tzinfo=ZoneInfo("Asia/Shanghai")), "2026-11-20T07"),
    ],
    ids=["schedule", "backfill", "schedule past the hour", "by hand", "by hand, no date", "logical date",
         "within an hour", "another zone"],
)  # fmt: skip
def test_the_hour_of_a_run(
    run_type: str, asked: str | None, start: datetime | None, logical: datetime | None, hour: str
) -> None:
    assert hour_of_run(run_type, asked, start, logical) == hour


def test_a_run_without_an_hour_and_a_date_is_refused_although_it_has_an_interval() -> None:
    with pytest.raises(ConfigError, match="does not say which hour") as refused:
        hour_of_run("manual", None, AT_7, None)
    assert '{"hour": "2026-11-20T07"}' in str(refused.value)


def test_the_runs_of_a_backfill_are_not_all_for_one_hour() -> None:
    with pytest.raises(ConfigError, match="every run of this backfill would be for the hour 2026-11-20T05"):
        hour_of_run("backfill", "2026-11-20T05", AT_7, AT_7)


def test_the_hours_of_a_replay() -> None:
    assert replay_arguments(None, "") == []
    assert replay_arguments("2026-11-20T05:00", None) == ["2026-11-20T05"]
    assert replay_arguments("2026-11-20T05", "2026-11-20T07") == ["2026-11-20T05", "2026-11-20T07"]
    for first, last in ((None, "2026-11-20T05"), ("2026-11-20T05", "2026-11-20T04"), ("today", None)):
        with pytest.raises(ConfigError):
            replay_arguments(first, last)


def test_a_reload_is_begun_by_hand_alone() -> None:
    assert reloads_of_run("manual", ["shop.orders", " ", " * "]) == ["shop.orders", "*"]
    assert reloads_of_run("backfill", None) == reloads_of_run("scheduled", []) == []
    assert reloads_of_run("operator_triggered", ["shop.orders"]) == ["shop.orders"], (
        "one run, of the hour that it names"
    )
    for run_type in ("backfill", "scheduled"):
        with pytest.raises(ConfigError, match=rf"this run \({run_type}\) cannot begin a reload"):
            reloads_of_run(run_type, ["shop.orders"])
