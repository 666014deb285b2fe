"""What the tests of the generators share: an export, and its truth beside rows that were worked out in plain Python."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tidemark_samples.exporting import Sample

Row = dict[str, Any]
#: Records that nobody can decode, in each of these exports.
POISON = 4


def generated(
    make: Callable[[Path, Sample], None],
    tmp_path_factory: pytest.TempPathFactory,
    hours: Sequence[str],
    events: int = 150,
) -> Path:
    """The folder of a generator's export of these hours, always the same one."""
    out = tmp_path_factory.mktemp("sample")
    make(out, Sample(hours=len(hours), events=events, seed=11, first_hour=hours[0], poison=POISON))
    return out


def truth_of(sample: Path, hour: str, table: str) -> list[Row]:
    """The rows that the generator wrote beside its export: those of the table after the hour."""
    text = (sample / "truth" / hour / f"{table}.jsonl").read_text("utf-8")
    truth = [json.loads(line) for line in text.splitlines()]
    assert truth, f"{table} holds no row: the sample proves nothing"
    return truth


def assert_same_rows(got: Iterable[Row], expected: Iterable[Row]) -> None:
    """The same rows in any order."""
    assert sorted(map(_line, got)) == sorted(map(_line, expected))


def _line(row: Row) -> str:
    return json.dumps(row, sort_keys=True, ensure_ascii=False)
