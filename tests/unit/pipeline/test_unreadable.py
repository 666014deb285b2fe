"""A landed object that cannot be read: spoilt, or not to be had just now."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

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
