"""Values as lines: each line is one message's value. No key, no offset; the topic is the one the object was exported of."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.containers.contract import RECORDS, Contents
from tidemark.containers.text import inspect_lines, read_lines
from tidemark.storage.landed_columns import landed_topic

#: A text object may be compressed as a whole.
OWN_COMPRESSION = False


class Options(BaseModel):
    """The container has no settings."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def read(spark: SparkSession, paths: list[str], options: BaseModel, *, plain: bool = False) -> DataFrame:
    """RECORDS of the objects; see :mod:`tidemark.containers.contract`."""
    lines = read_lines(spark, paths)
    given = {
        "object": F.col("object"),
        "record": F.col("record"),
        "raw": F.col("raw"),
        "topic": landed_topic(F.col("object")),
        "value": F.col("raw") if plain else F.col("raw").cast("binary"),
    }
    return lines.select(
        *(given.get(field.name, F.lit(None).cast(field.dataType)).alias(field.name) for field in RECORDS)
    )


def inspect(chunks: Iterable[bytes], options: BaseModel) -> Contents:
    """One record per line."""
    return inspect_lines(chunks)
