"""Text objects as numbered lines: the native reader under the containers that hold one record per line."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

_ROW_IN_PARTITION = (1 << 33) - 1


def read_lines(spark: SparkSession, paths: list[str], separator: str = "\n") -> DataFrame:
    """One row per line: ``object`` (as in ``paths``), ``record`` (from 1, in the object's order) and ``raw`` (bytes).

    Plain, gzip and zstd by the file's ending. Numbering rests on one object being one partition, which
    :func:`tidemark.spark_conf.spark_conf` sees to. The separator is one byte, written as its ISO-8859-1 character, and
    always named, so that a carriage return stays in its line.
    """
    uri = F.col("_metadata.file_path")
    path = F.regexp_replace(uri, "^file:/+", "/")  # one slash or three, by how Spark listed the file
    decoded = F.url_decode(F.replace(path, F.lit("+"), F.lit("%2B")))
    return (
        spark.read.format("text")
        .option("lineSep", separator)
        .option("encoding", "ISO-8859-1")
        .load([re.sub(r"([*?{}\[\]\\])", r"\\\1", path) for path in paths])  # names, not patterns
        .select(
            F.when(path.contains("%"), decoded).otherwise(path).alias("object"),
            (F.monotonically_increasing_id().bitwiseAND(_ROW_IN_PARTITION) + 1).alias("record"),
            F.col("value").cast("binary").alias("raw"),
        )
    )


def count_lines(chunks: Iterable[bytes]) -> int:
    """Lines in a stream of bytes, as :func:`read_lines` will number them: a last line needs no line feed."""
    count, last = 0, b"\n"
    for chunk in chunks:
        if chunk:
            count += chunk.count(b"\n")
            last = chunk[-1:]
    return count + (last != b"\n")
