"""Values of a published table as Python shows them: floats of four bytes, and days and times of any year.

Arrow gives a float of four bytes as one of eight, with digits that nobody wrote, and cannot give a year beyond 9999 at all.
"""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyarrow import types as kinds

_DAY = 86_400_000_000
#: The calendar repeats itself after this many years, and these many days.
_YEARS, _DAYS = 400, 146_097
_FIRST, _LAST = date.min.toordinal() - date(1970, 1, 1).toordinal(), date.max.toordinal() - date(1970, 1, 1).toordinal()


def counted(kind: pa.DataType) -> pa.DataType:
    """The type of the same values with days and times as numbers: days, or microseconds, since 1970."""
    if kinds.is_timestamp(kind):
        return pa.int64()
    if kinds.is_date32(kind):
        return pa.int32()
    if kinds.is_list(kind) or kinds.is_large_list(kind):
        of = kind.value_field.with_type(counted(kind.value_type))
        return pa.large_list(of) if kinds.is_large_list(kind) else pa.list_(of)
    if kinds.is_struct(kind):
        return pa.struct([field.with_type(counted(field.type)) for field in kind])
    return kind


def shown(value: Any, kind: pa.DataType) -> Any:
    """A value of :func:`counted` as it is shown. ``kind``: its type in the table."""
    if value is None:
        return None
    if kinds.is_float32(kind):
        return _float(value)
    if kinds.is_timestamp(kind):
        return _timestamp(value, zone=kind.tz is not None)
    if kinds.is_date32(kind):
        return _day(value)
    if kinds.is_list(kind) or kinds.is_large_list(kind):
        return [shown(one, kind.value_type) for one in value]
    if kinds.is_struct(kind):
        return {field.name: shown(value[field.name], field.type) for field in kind}
    return value


def _float(value: float) -> float:
    """The float of eight bytes that has the fewest digits of those which are this one in four bytes."""
    for digits in range(6, 9):
        short = float(f"{value:.{digits}g}")
        if struct.pack("d", value) == struct.pack("d", pa.scalar(short, pa.float32()).as_py()):
            return short
    return float(f"{value:.9g}")


def _day(days: int) -> date | str:
    if _FIRST <= days <= _LAST:
        return date(1970, 1, 1) + timedelta(days=days)
    periods, rest = divmod(days, _DAYS)
    like = date(1970, 1, 1) + timedelta(days=rest)
    return f"{like.year + _YEARS * periods:+05d}-{like:%m-%d}"


def _timestamp(micros: int, *, zone: bool) -> datetime | str:
    days, rest = divmod(micros, _DAY)
    moment, day = datetime(1970, 1, 1, tzinfo=UTC if zone else None) + timedelta(microseconds=rest), _day(days)
    if isinstance(day, str):
        return day + moment.isoformat()[10:]
    return datetime.combine(day, moment.timetz())
