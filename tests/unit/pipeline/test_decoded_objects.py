"""What a format is told of the object that a record is from."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.unit.formats.ibm_messages import feed
from tidemark.formats import load_format
from tidemark.pipeline import decode
from tidemark.settings import Settings


def test_a_format_sees_paths_within_the_landing(
    spark: SparkSession, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DataWorks finds the hour in them, part by part: before a landing of another depth, rows and markers of two topics
    would be of two hours."""
    landing = Settings(**settings.model_dump(exclude={"landing"}), landing=str(tmp_path))
    name = "payroll/t/dt=2026-11-20/hr=07/v00001/a.jsonl"
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text("{}\n")
    format_, seen = load_format("ibm"), list[str]()

    class Seeing:
        @staticmethod
        def decode(records: DataFrame, *rest: object) -> DataFrame:
            seen.extend(row.object for row in records.select("object").collect())
            return format_.decode(records, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(decode, "load_format", lambda _: Seeing)
    decode.changes(spark, feed({"type": "lines"}), [str(tmp_path / name)], landing)
    assert seen == [name]
