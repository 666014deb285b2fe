"""Landed objects as Spark reads them: their names, and the numbers of the records in them."""

from __future__ import annotations

import re

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

_ALL = 1 << 20  # bytes: more than a path has
_AS_IN_URIS = r"[A-Za-z0-9/:=._-]*"  # nothing that an URI would spell another way
_ROW_IN_PARTITION = (1 << 33) - 1


def exactly(paths: list[str]) -> list[str]:
    """The paths for Spark's readers as names, not as patterns."""
    return [re.sub(r"([*?{}\[\]\\])", r"\\\1", path) for path in paths]


def object_name(paths: list[str]) -> Column:
    """The object a row was read from, spelled as in the paths given to the reader."""
    uri = F.input_file_name()
    # One slash or three, depending on how Spark listed it.
    path = (
        F.when(uri.startswith("file:///"), behind(uri, 7)).when(uri.startswith("file:/"), behind(uri, 5)).otherwise(uri)
    )
    if all(re.fullmatch(_AS_IN_URIS, given) for given in paths):
        return path
    return F.when(path.contains("%"), F.url_decode(F.replace(path, F.lit("+"), F.lit("%2B")))).otherwise(path)


def behind(text: Column, size: int) -> Column:
    """The text after its first ``size`` bytes. By bytes, since Spark would count through all characters of a text."""
    return F.substring(text.cast("binary"), size + 1, _ALL).cast("string")


def record_number() -> Column:
    """From 1, in the object's order.

    This needs one partition of the reader for each object, which :func:`tidemark.lake.spark_conf.spark_conf` ensures
    for every file format.
    """
    return F.monotonically_increasing_id().bitwiseAND(_ROW_IN_PARTITION) + 1


def tasks_at_once(spark: SparkSession) -> int:
    """How many tasks work on an hour's records at once. A small hour is one task: then there is one shuffle partition
    (:mod:`tidemark.lake.tuning`)."""
    return min(spark.sparkContext.defaultParallelism, int(spark.conf.get("spark.sql.shuffle.partitions") or 1))


def dealt_out(records: DataFrame) -> DataFrame:
    """Records for all tasks, whatever object they are from."""
    return records.repartition("object", "record")
