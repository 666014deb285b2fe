"""The rule by which offsets are of hours, on what a look at a partition found. Pure.

An hour begins in a partition at the first offset whose record is of the hour's first moment or later, and ends where the
next hour begins. A record that comes late lies behind that offset, and so is of the hour in which it was written, not of
the one that its time names. Where there is no such record, the hour begins at the end of the log as it is ``settle``
after the hour's first moment. What was decided once is kept (:mod:`tidemark.ledger.hour_starts`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tidemark.storage.kafka_topics import PartitionLook


@dataclass(frozen=True)
class FirstOffset:
    """Where an hour begins in a partition."""

    offset: int
    """The first offset of the hour; while it waits, what that would be now."""
    waits: str = ""
    """Why the offset cannot be said yet; empty: it can."""
    note: str = ""
    """What a person should know of how it was found; empty: nothing."""


@dataclass(frozen=True)
class Around:
    """What is decided of the hours on both sides, between which an hour begins."""

    after: int = 0
    """Where the hour before begins: this one begins there or behind it. 0: nothing is decided of it."""
    before: int | None = None
    """Where the hour behind begins: this one begins there or before it. None: nothing is decided of it."""


def first_offset(
    look: PartitionLook, number: int, moment: datetime, now: datetime, settle: timedelta, around: Around
) -> FirstOffset:
    """Where the hour that begins at a moment begins in a partition. ``number``: which of the look's moments it is.

    A record of a time that has not come yet says nothing of hours: its producer's clock is wrong. Nor does one that lies in
    an hour before.
    """
    if look.high < around.after:  # it was cut off: nothing that it gets up to there is of a later hour
        return FirstOffset(
            around.after, note=f"the log ends at {look.high}, before {around.after}, where the hour before ended"
        )
    found, note = look.found[number], ""
    if found is not None and found.timestamp > now.timestamp() * 1000:
        note = f"the record at offset {found.offset} is of {_time(found.timestamp)}, which has not come yet"
        found = None
    if found is not None and found.offset >= around.after:
        offset = found.offset
    elif now < moment + settle:
        return FirstOffset(look.high, f"no record of {moment:%FT%TZ} or later yet", note)
    else:
        offset = look.high
    offset = offset if around.before is None else min(offset, around.before)
    waits = f"a transaction is open at offset {look.stable}" if offset > look.stable else ""
    return FirstOffset(offset, waits, note)


def may_have_lost(look: PartitionLook, offset: int) -> bool:
    """Whether records of an hour that begins at the first offset of the log may have been before it, and are removed."""
    return look.low > 0 and offset <= look.low


def _time(millis: int) -> str:
    try:
        return f"{datetime.fromtimestamp(millis / 1000, UTC):%FT%TZ}"
    except (ValueError, OverflowError):  # years that no calendar has
        return f"{millis} ms since 1970"
