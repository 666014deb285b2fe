"""Values of a published table as `tidemark show` prints them."""

from __future__ import annotations

import json
import struct
from datetime import date, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.operations.read_table import json_lines, table_cells

_DAY = 86_400_000_000


def lines(kind: pa.DataType, values: list[object]) -> list[object]:
    """A column's values as `show --json` prints them, in the order of `i`."""
    table = pa.table({"i": pa.array(range(len(values))), "v": pa.array(values, kind)})
    return [json.loads(line)["v"] for line in json_lines(table, ["i"])]


def test_a_float_of_four_bytes_has_its_own_digits() -> None:
    assert lines(pa.float32(), [1.1666089, 0.1, 16777216.0, -3.4028235e38, 1.25e-30, None]) == [
        1.1666089, 0.1, 16777216.0, -3.4028235e38, 1.25e-30, None,
    ]  # fmt: skip
    assert lines(pa.float64(), [1.1666089296340942]) == [1.1666089296340942]
    assert lines(pa.list_(pa.float32()), [[1.1666089, None]]) == [[1.1666089, None]]
    assert [str(v) for v in lines(pa.float32(), [float("nan"), float("inf"), float("-inf")])] == ["nan", "inf", "-inf"]
    rows = pa.table({"v": pa.array([1.1666089], pa.float32())})
    assert list(table_cells(rows, [], 5)) == [["1.1666089"]]


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_the_digits_of_a_float_are_enough(value: float) -> None:
    (text,) = lines(pa.float32(), [value])
    assert isinstance(text, float)
    assert struct.pack("f", text) == struct.pack("f", value)
    assert len(repr(abs(text)).split("e")[0].replace(".", "").strip("0")) <= 9


@pytest.mark.parametrize(
    ("days", "text"),
    [
        (2_932_896, "9999-12-31"), (2_932_897, "+10000-01-01"), (-719_162, "0001-01-01"), (-719_163, "+0000-12-31"),
        (-719_529, "-0001-12-31"), (3_652_059 + 2_932_897, "+19998-12-31"), (0, "1970-01-01"), (None, None),
    ],
)  # fmt: skip
def test_years_beyond_pythons(days: int | None, text: str | None) -> None:
    """PostgreSQL's and Spark's years go further than Python's."""
    assert lines(pa.date32(), [days]) == [text]
    micros = None if days is None else days * _DAY + 3_600_000_001
    assert lines(pa.timestamp("us"), [micros]) == [text and f"{text}T01:00:00.000001"]
    assert lines(pa.timestamp("us", "UTC"), [micros]) == [text and f"{text}T01:00:00.000001+00:00"]
    assert lines(pa.list_(pa.timestamp("us", "UTC")), [[micros]]) == [[text and f"{text}T01:00:00.000001+00:00"]]


def test_ordinary_times_are_as_they_always_were() -> None:
    at = datetime(2026, 11, 20, 2, 20, 19, 247_744)
    assert lines(pa.timestamp("us"), [at, at.replace(microsecond=0)]) == [
        "2026-11-20T02:20:19.247744", "2026-11-20T02:20:19",
    ]  # fmt: skip
    assert lines(pa.date32(), [date(2026, 11, 20)]) == ["2026-11-20"]
    assert lines(pa.struct([("at", pa.timestamp("us", "UTC"))]), [{"at": at}]) == [
        {"at": "2026-11-20T02:20:19.247744+00:00"}
    ]


def test_keys_of_any_year_are_in_order() -> None:
    table = pa.table({"at": pa.array([3_000_000 * _DAY, 0, None, -800_000 * _DAY], pa.timestamp("us"))})
    assert [json.loads(line)["at"] for line in json_lines(table, ["at"])] == [
        None, "-0221-09-04T00:00:00", "1970-01-01T00:00:00", "+10183-09-21T00:00:00",
    ]  # fmt: skip
