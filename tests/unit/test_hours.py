from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.errors import ConfigError
from tidemark.hours import format_hour, hours_between, parse_hour, tag_of

HOURS = st.datetimes(datetime(1970, 1, 1), datetime(2999, 12, 31)).map(
    lambda d: d.replace(minute=0, second=0, microsecond=0, tzinfo=UTC)
)


@given(HOURS, st.sampled_from(["", ":00", ":00:00", ":00:00.000"]), st.sampled_from(["", "Z", "+00:00"]))
def test_every_spelling_of_an_hour_reads_back_as_that_hour(hour: datetime, minutes: str, zone: str) -> None:
    assert parse_hour(format_hour(hour) + minutes + zone) == hour


@given(HOURS, st.integers(0, 60))
def test_hours_between_are_consecutive_and_in_order(first: datetime, more: int) -> None:
    last = first + timedelta(hours=more)
    hours = hours_between(format_hour(first), format_hour(last))
    assert [parse_hour(hour) for hour in hours] == [first + timedelta(hours=i) for i in range(more + 1)]
    assert hours == sorted(hours)


@given(HOURS, HOURS)
def test_tags_are_as_distinct_as_hours(one: datetime, other: datetime) -> None:
    assert (tag_of(format_hour(one)) == tag_of(format_hour(other))) == (one == other)


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-20T07:30", "2026-11-20T07:00:01", "2026-11-20T07:00:00.5", "2026-11-20T07:00+01:00", "2026-11-20T24",
        "2026-02-30T07", "2026-11-20", "2026-11-20 07", "20261120T07", "", "now", "2026-11-20T7", "../2026-11-20T07",
        "２０２６-11-20T07x",
    ],
)  # fmt: skip
def test_what_is_no_whole_utc_hour_is_refused_not_rounded(text: str) -> None:
    with pytest.raises(ConfigError, match="not a calendar hour"):
        parse_hour(text)


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 11, 20, 7),
        datetime(2026, 11, 20, 7, 30, tzinfo=UTC),
        datetime(2026, 11, 20, 7, tzinfo=timezone(timedelta(hours=1))),
    ],
)
def test_only_whole_utc_hours_are_written(moment: datetime) -> None:
    with pytest.raises(ConfigError):
        format_hour(moment)


def test_swapped_ends_are_a_mistake() -> None:
    with pytest.raises(ConfigError, match="before the first"):
        hours_between("2026-11-20T08", "2026-11-20T07")


def test_tag_is_a_plain_identifier() -> None:
    assert tag_of("2026-11-20T07") == "hour_2026_11_20T07"
