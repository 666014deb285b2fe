"""A landed object that cannot be read: spoilt, or not to be had just now."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tidemark.containers import connect_parquet
from tidemark.crash import can_pass
from tidemark.errors import ConfigError, ExportError
from tidemark.hours import Hour
from tidemark.ledger.manifest import LandedObject, Manifest
from tidemark.pipeline.decode import unreadable_named

PATH = "shop/a/dt=2026-11-20/hr=07/v00001/0123-part-0.gz"
LANDED = LandedObject(path=PATH, topic="a", source="s3://exports/a", fingerprint="1", bytes=1, sha256="0", records=1)
MANIFEST = Manifest(
    feed="shop",
    hour=Hour.parse("2026-11-20T07"),
    version=1,
    objects=[LANDED],
    created_at=datetime(2026, 11, 20, tzinfo=UTC),
)


def spark_says(spark: SparkSession, cause: Any, kind: str = "NO_HINT") -> Py4JJavaError:
    jvm: Any = spark._jvm
    text = f"[FAILED_READ_FILE.{kind}] Encountered error while reading file s3://lake/landing/{PATH}. SQLSTATE: KD001"
    return Py4JJavaError(text, jvm.java.lang.RuntimeException(text, cause))


@pytest.mark.promise(1)
def test_a_spoilt_one_is_named(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    with pytest.raises(ExportError) as raised, unreadable_named(MANIFEST):
        raise spark_says(spark, jvm.java.util.zip.ZipException("incorrect data check"))
    assert raised.value.object == PATH


@pytest.mark.parametrize("columns", [{"n": [1], "N": [1]}, {"n": pa.array([1], pa.timestamp("ns"))}])
def test_one_whose_columns_spark_refuses_is_named(spark: SparkSession, tmp_path: Path, columns: dict[str, Any]) -> None:
    """Two names that differ in their case, and a type that it does not know."""
    path = tmp_path / "t+0+0000000000.parquet"
    pq.write_table(pa.table({"after": pa.table(columns).to_struct_array().combine_chunks()}), path)
    with pytest.raises(ExportError, match="its columns cannot be read: ") as raised, unreadable_named(MANIFEST):
        connect_parquet.read(spark, [str(path)], connect_parquet.Options())
    error = raised.value
    assert (error.feed, error.hour, error.object) == (MANIFEST.feed, MANIFEST.hour, str(path))
    assert "leave that column out" in (error.fix or "")


def test_one_that_executors_do_not_see_is_no_fault_of_the_export(spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match="the executors do not see its landed copy"), unreadable_named(MANIFEST):
        raise spark_says(spark, None, "FILE_NOT_EXIST")


@pytest.mark.promise(1)
def test_storage_that_does_not_answer_is_no_fault_of_the_export(spark: SparkSession) -> None:
    """It was told to mend the export, and the hour was not tried again."""
    jvm: Any = spark._jvm
    with pytest.raises(Py4JJavaError) as raised, unreadable_named(MANIFEST):
        raise spark_says(spark, jvm.java.net.ConnectException("Connection refused"))
    assert can_pass(raised.value)
