"""An hour of a feed: a calendar hour in UTC, written ``2026-11-20T07`` everywhere (partition, tag, receipt, argument)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic_core import CoreSchema, core_schema

from tidemark.errors import ConfigError

#: Of the years 1970 to 2999: any other is a slip (0206 for 2026), and at the ends of time no hour is before or after.
_WRITTEN = re.compile(r"((?:19[7-9]|2\d\d)\d-\d{2}-\d{2})T(\d{2})(?::00(?::00(?:\.0+)?)?)?(?:Z|\+00:00)?")


class Hour(str):
    """A calendar hour in UTC. As text it is ``2026-11-20T07``, and hours sort as their texts do.

    It is checked when it is made, so that whoever is given one need not check it again.
    """

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Hour:
        """Read ``2026-11-20T07``, also with ``:00``, ``:00:00`` and ``Z`` or ``+00:00``.

        ConfigError for a moment inside an hour, and for another time zone: a rounded hour is a wrong hour. For years before
        1970 and from 3000 on, too.
        """
        if isinstance(text, Hour):
            return text
        match = _WRITTEN.fullmatch(text.strip())
        try:
            if match:
                return cls.of(datetime.strptime(f"{match[1]}T{match[2]}", "%Y-%m-%dT%H").replace(tzinfo=UTC))
        except ValueError:
            pass
        raise ConfigError(
            f"{text!r} is not a calendar hour in UTC of the years 1970 to 2999", fix="write it like 2026-11-20T07"
        )

    @classmethod
    def of(cls, moment: datetime) -> Hour:
        """The hour that begins at a moment. ConfigError for one that is not a whole hour in UTC."""
        in_utc = moment.tzinfo is not None and moment.utcoffset() == timedelta(0)
        if not in_utc or (moment.minute, moment.second, moment.microsecond) != (0, 0, 0):
            raise ConfigError(f"{moment.isoformat()} is not a calendar hour in UTC", fix="give a whole hour in UTC")
        return cls(f"{moment:%Y-%m-%dT%H}")

    @property
    def start(self) -> datetime:
        """Its first moment."""
        return datetime.fromisoformat(f"{self}:00+00:00")

    @property
    def end(self) -> datetime:
        """The first moment after it."""
        return self.start + timedelta(hours=1)

    @property
    def date(self) -> str:
        """Its date: ``2026-11-20``."""
        return self[:10]

    @property
    def clock(self) -> str:
        """Its number in the day: ``07``."""
        return self[11:]

    @property
    def tag(self) -> str:
        """The name of the tag that every table of a feed gets for the hour: ``hour_2026_11_20T07``."""
        return "hour_" + self.replace("-", "_")

    def plus(self, hours: int) -> Hour:
        """The hour so many hours later."""
        return Hour.of(self.start + timedelta(hours=hours))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> CoreSchema:
        """In a model it is read by :meth:`parse`, and written as its text."""

        def parse(text: str) -> Hour:
            try:
                return cls.parse(text)
            except ConfigError as error:
                raise ValueError(error.args[0]) from error  # the model names the field

        return core_schema.no_info_after_validator_function(parse, core_schema.str_schema())


def hours_came_later(hours: Sequence[str]) -> str:
    """What people are told of a cut that these hours would alter."""
    return f"{len(hours)} {'hour' if len(hours) == 1 else 'hours'} came later ({', '.join(hours[:5])})"


def hours_between(first: str, last: str) -> list[Hour]:
    """All hours from ``first`` to ``last``, both included, oldest first."""
    start, end = Hour.parse(first), Hour.parse(last)
    if end < start:
        raise ConfigError(f"the last hour {last} is before the first, {first}", fix="swap them")
    return [start.plus(number) for number in range(int((end.start - start.start) / timedelta(hours=1)) + 1)]
