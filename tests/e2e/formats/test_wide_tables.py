"""A table of hundreds of columns, of which a change sends few, in an hour that Spark compiles."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.e2e.debezium_messages import HOURS
from tests.e2e.one_table_feed import OneTableFeed, rows
from tests.e2e.qlik_messages import qlik
from tidemark.hours import Hour
from tidemark.ledger import manifest
from tidemark.settings import Settings

pytestmark = [pytest.mark.promise(4), pytest.mark.full]

COLUMNS = {"ID": "INT8"} | {f"C{number}": ("INT4", "NUMERIC(14,2)", "DATETIME")[number % 3] for number in range(450)}
TEXTS = ("7", "1.50", "2026-11-20 01:02:03")
#: Of a whole row, and of one with the key and every ninth column.
EVERY, NINTH = range(450), range(0, 450, 9)


def test_a_change_of_few_of_many_columns(
    spark: SparkSession, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One method with a branch for each column takes Java's compiler gigabytes: such an hour ended a driver of 4 GiB."""
    monkeypatch.setattr(manifest, "_SMALL", 0)
    run = OneTableFeed("wide", tmp_path, settings)
    declared = {"format": {"type": "qlik"}, "table": {"topic": "t", "key": ["ID"], "columns": COLUMNS}}
    whole = qlik(1, "INSERT", _row(1, EVERY), _mask(EVERY))
    updates = [qlik(2 + at, "UPDATE", _row(1, sent, "8"), _mask(sent)) for at, sent in enumerate((NINTH, NINTH[:3]))]
    none = qlik(4, "UPDATE", _row(1, NINTH) | {"C0": "none"}, _mask(NINTH))
    receipt = run(Hour.parse(HOURS[0]), [whole, *updates, none], **declared)
    assert (receipt.tables[0].counts.applied, receipt.quarantined) == (3, 1)
    (found,) = rows(settings, run)
    assert {name: found[name] for name in ("ID", "C0", "C1", "C3", "C9", "C27")} == {
        "ID": 1, "C0": 8, "C1": "1.50", "C3": 7, "C9": 8, "C27": 8,
    }  # fmt: skip
    assert not [name for name, value in found.items() if value is None]


def _row(id_: int, sent: range, number: str = "7") -> dict[str, str]:
    return {"ID": str(id_)} | {f"C{at}": number if at % 3 == 0 else TEXTS[at % 3] for at in sent}


def _mask(sent: range) -> str:
    """A bit for the key, and for each column that is sent."""
    return format(1 | sum(1 << (at + 1) for at in sent), "X")
