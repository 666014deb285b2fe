from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from tidemark.errors import ConfigError
from tidemark.hours import Hour, hours_between

MOMENTS = st.datetimes(datetime(1970, 1, 1), datetime(2999, 12, 31)).map(
    lambda d: d.replace(minute=0, second=0, microsecond=0, tzinfo=UTC)
)


@given(MOMENTS, st.sampled_from(["", ":00", ":00:00", ":00:00.000"]), st.sampled_from(["", "Z", "+00:00"]))
def test_every_spelling_of_an_hour_reads_back_as_that_hour(moment: datetime, minutes: str, zone: str) -> None:
    hour = Hour.of(moment)
    assert Hour.parse(str(hour) + minutes + zone) == hour
    assert (hour.start, hour.end) == (moment, moment + timedelta(hours=1))
    assert f"{hour.date}T{hour.clock}" == hour


@given(MOMENTS, st.integers(0, 60))
def test_hours_between_are_consecutive_and_in_order(first: datetime, more: int) -> None:
    hours = hours_between(Hour.of(first), Hour.of(first).plus(more))
    assert [hour.start for hour in hours] == [first + timedelta(hours=i) for i in range(more + 1)]
    assert hours == sorted(hours)


@given(MOMENTS, MOMENTS)
def test_tags_are_as_distinct_as_hours(one: datetime, other: datetime) -> None:
    assert (Hour.of(one).tag == Hour.of(other).tag) == (one == other)


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-20T07:30", "2026-11-20T07:00:01", "2026-11-20T07:00:00.5", "2026-11-20T07:00+01:00", "2026-11-20T24",
        "2026-02-30T07", "2026-11-20", "2026-11-20 07", "20261120T07", "", "now", "2026-11-20T7", "../2026-11-20T07",
        "２０２６-11-20T07x", "0206-11-20T07", "0001-01-01T00", "1969-12-31T23", "3000-01-01T00", "9999-12-31T23",
    ],
)  # fmt: skip
def test_what_is_no_whole_utc_hour_of_our_time_is_refused_not_rounded(text: str) -> None:
    with pytest.raises(ConfigError, match="not a calendar hour"):
        Hour.parse(text)


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
        Hour.of(moment)


def test_swapped_ends_are_a_mistake() -> None:
    with pytest.raises(ConfigError, match="before the first"):
        hours_between("2026-11-20T08", "2026-11-20T07")


def test_an_hour_goes_wherever_its_text_goes() -> None:
    hour = Hour.parse("2026-11-20T23")
    assert (hour, hour.date, hour.clock, hour.tag) == ("2026-11-20T23", "2026-11-20", "23", "hour_2026_11_20T23")
    assert hour.plus(1) == "2026-11-21T00" and hour.plus(-23) == "2026-11-20T00"
    assert json.dumps({"hour": hour}) == '{"hour": "2026-11-20T23"}' and f"{hour}" == "2026-11-20T23"
    assert type(pickle.loads(pickle.dumps(hour))) is Hour


class Dated(BaseModel):
    hour: Hour


def test_a_model_reads_an_hour_and_writes_its_text() -> None:
    dated = Dated.model_validate_json('{"hour": "2026-11-20T07"}')
    assert type(dated.hour) is Hour and dated.model_dump_json() == '{"hour":"2026-11-20T07"}'
    with pytest.raises(ValidationError, match="not a calendar hour"):
        Dated.model_validate_json('{"hour": "2026-11-20T07:30"}')
