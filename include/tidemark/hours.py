"""An hour of a feed: a calendar hour in UTC, written ``2026-11-20T07`` everywhere (partition, tag, receipt, argument)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from tidemark.errors import ConfigError

_WRITTEN = re.compile(r"(\d{4}-\d{2}-\d{2})T(\d{2})(?::00(?::00(?:\.0+)?)?)?(?:Z|\+00:00)?")


def parse_hour(text: str) -> datetime:
    """Read ``2026-11-20T07`` (also with ``:00``, ``:00:00`` and ``Z`` or ``+00:00``) as an aware UTC datetime.

    Anything inside an hour, or in another zone, is refused rather than rounded: a rounded hour is a wrong hour.
    """
    match = _WRITTEN.fullmatch(text.strip())
    try:
        if match:
            return datetime.strptime(f"{match[1]}T{match[2]}", "%Y-%m-%dT%H").replace(tzinfo=UTC)
    except ValueError:
        pass
    raise ConfigError(f"{text!r} is not a calendar hour in UTC", fix="write it like 2026-11-20T07")


def format_hour(hour: datetime) -> str:
    """The hour as ``2026-11-20T07``. A datetime that is no whole UTC hour is refused."""
    if (
        hour.tzinfo is None
        or hour.utcoffset() != timedelta(0)
        or (hour.minute, hour.second, hour.microsecond) != (0, 0, 0)
    ):
        raise ConfigError(f"{hour.isoformat()} is not a calendar hour in UTC", fix="give a whole hour in UTC")
    return hour.strftime("%Y-%m-%dT%H")


def hours_between(first: str, last: str) -> list[str]:
    """All hours from ``first`` to ``last``, both included, oldest first."""
    start, end = parse_hour(first), parse_hour(last)
    if end < start:
        raise ConfigError(f"the last hour {last} is before the first, {first}", fix="swap them")
    count = int((end - start) / timedelta(hours=1)) + 1
    return [format_hour(start + timedelta(hours=i)) for i in range(count)]


def tag_of(hour: str) -> str:
    """The name of the tag every table of a feed gets for an hour: ``hour_2026_11_20T07``."""
    return "hour_" + hour.replace("-", "_")
