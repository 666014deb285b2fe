"""The rule by which offsets are of hours."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tidemark.pipeline.hour_offsets import Around, FirstOffset, first_offset, may_have_lost
from tidemark.storage.kafka_topics import FoundOffset, PartitionLook

EIGHT = datetime(2026, 11, 20, 8, tzinfo=UTC)
SETTLE = timedelta(minutes=10)


def at(minutes: float) -> int:
    """A time in milliseconds, from eight o'clock on."""
    return int((EIGHT + timedelta(minutes=minutes)).timestamp() * 1000)


def decide(
    found: FoundOffset | None, now: float, *, high: int = 100, stable: int = 100, around: Around | None = None
) -> FirstOffset:
    look = PartitionLook(0, high, stable, (found,))
    return first_offset(look, 0, EIGHT, EIGHT + timedelta(minutes=now), SETTLE, around or Around())


def test_an_hour_begins_at_the_first_record_of_its_time_or_later() -> None:
    assert decide(FoundOffset(40, at(0)), 1) == FirstOffset(40)
    assert decide(FoundOffset(40, at(90)), 600) == FirstOffset(40)


def test_without_such_a_record_it_begins_at_the_end_of_the_log_after_the_settle_time() -> None:
    assert decide(None, 9.9).waits == "no record of 2026-11-20T08:00:00Z or later yet"
    assert decide(None, 10) == FirstOffset(100)
    assert decide(None, 10, high=0, stable=0) == FirstOffset(0), "of an empty partition too"


def test_it_waits_for_a_transaction_that_is_open_before_it() -> None:
    found = FoundOffset(40, at(1))
    assert decide(found, 60, stable=39).waits == "a transaction is open at offset 39"
    assert decide(found, 60, stable=40) == FirstOffset(40), "what is open behind it is of a later hour"
    assert decide(None, 60, stable=99).waits == "a transaction is open at offset 99"


@pytest.mark.parametrize("timestamp", [at(61), 2**62])
def test_a_record_of_a_time_that_has_not_come_says_nothing_of_hours(timestamp: int) -> None:
    assert decide(FoundOffset(40, timestamp), 9).waits
    found = decide(FoundOffset(40, timestamp), 60)
    assert found.offset == 100 and "at offset 40 is of" in found.note


@pytest.mark.promise(1)
def test_hours_never_overlap_what_is_decided_around_them() -> None:
    assert decide(FoundOffset(40, at(1)), 5, around=Around(50)).waits, "a record of an hour before says nothing"
    assert decide(FoundOffset(40, at(1)), 10, around=Around(50)) == FirstOffset(100)
    assert decide(FoundOffset(90, at(1)), 5, around=Around(50, 60)) == FirstOffset(60), "compaction took the first"


def test_a_log_that_was_cut_off_is_told() -> None:
    found = decide(None, 10, high=40, stable=40, around=Around(50))
    assert (found.offset, found.waits) == (50, "") and found.note.startswith("the log ends at 40, before 50")


@pytest.mark.parametrize(("low", "offset", "lost"), [(0, 0, False), (5, 6, False), (5, 5, True), (5, 3, True)])
def test_what_stood_before_the_first_offset_of_the_log_may_be_lost(low: int, offset: int, lost: bool) -> None:
    assert may_have_lost(PartitionLook(low, 100, 100, (None,)), offset) is lost
