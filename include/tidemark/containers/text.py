"""Text objects as numbered lines: the native reader under the containers that hold one record per line."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.containers.objects import exactly, object_name, record_number
from tidemark.values.strict_json import one_document


def read_lines(spark: SparkSession, paths: list[str], separator: str = "\n") -> DataFrame:
    """One row per line: ``object`` (as in ``paths``), ``record`` (from 1, in the object's order) and ``raw`` (its
    bytes, as StringType: see RECORDS).

    Plain, gzip and zstd by the file's ending. The separator is one byte, written as its ISO-8859-1 character, and
    always named, so that a carriage return stays in its line.
    """
    return _numbered(spark, paths, separator)


def read_documents(
    spark: SparkSession, paths: list[str], fields: str, exact: Callable[[Column], Column] | None = None
) -> DataFrame:
    """The rows of :func:`read_lines`, and ``line``: each parsed as one JSON object by :func:`one_document`, ``exact``
    where this says so of the line."""
    text = F.col("value")
    line = one_document(text, fields, exact=exact(text) if exact else False)
    return _numbered(spark, paths, "\n", line.alias("line"))


def _numbered(spark: SparkSession, paths: list[str], separator: str, *more: Column) -> DataFrame:
    """All in one projection: between two projections Spark would copy every row."""
    lines = spark.read.format("text").option("lineSep", separator).option("encoding", "ISO-8859-1")
    return lines.load(exactly(paths)).select(
        object_name(paths).alias("object"), record_number().alias("record"), F.col("value").alias("raw"), *more
    )


def count_lines(chunks: Iterable[bytes]) -> int:
    """Lines in a stream of bytes, as :func:`read_lines` will number them: a last line needs no line feed."""
    count, last = 0, b"\n"
    for chunk in chunks:
        if chunk:
            count += chunk.count(b"\n")
            last = chunk[-1:]
    return count + (last != b"\n")
