"""Kafka records as JSON lines: ``{"topic", "partition", "offset", "timestamp", "key", "value", "headers"}``.

``key``, ``value`` and header values are null, a string, or an object (taken as its JSON text); base64 where the
exporter wrote bytes. ``headers`` is a list of ``{"key", "value"}``. ``topic`` and ``value`` are always there; a null value is
a tombstone.
"""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict, Field
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.containers.contract import Contents
from tidemark.containers.text import inspect_lines, read_documents
from tidemark.values.encodings import time_of_millis
from tidemark.values.strict_json import broken

_ENVELOPE = (
    "topic string, partition int, offset bigint, timestamp bigint, key string, value string, "
    "headers array<struct<key: string, value: string>>"
)

#: Behind the name of a member that holds JSON in place of a text.
_NO_TEXT = r"\s*:\s*[{\[0-9-]"
#: The name of a member may be written with escapes for its letters.
_ESCAPED_LETTER = r"\\u00[67]"

_NO_VALUE = (
    "the line has no member `value`: not a Kafka record of this container, where that of a tombstone is null: have the "
    "exporter write it"
)

#: A text object may be compressed as a whole.
OWN_COMPRESSION = False


class Options(BaseModel):
    """How the exporter wrote keys, values and header values."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    base64: bool = Field(False, description="Keys, values and header values are base64 of the message's bytes.")


def read(spark: SparkSession, paths: list[str], options: BaseModel, *, plain: bool = False) -> DataFrame:
    """RECORDS of the objects; see :mod:`tidemark.containers.contract`."""
    assert isinstance(options, Options)

    def content(text: Column) -> Column:
        if options.base64:
            return F.try_to_binary(text, F.lit("base64"))
        return text if plain else text.cast("binary")

    r = F.col("line.d")
    headers = r["headers"]
    if options.base64:
        headers = F.transform(headers, lambda h: F.struct(h["key"], content(h["value"]).cast("string").alias("value")))
    undecodable = F.lit(options.base64) & (
        (r["value"].isNotNull() & content(r["value"]).isNull()) | (r["key"].isNotNull() & content(r["key"]).isNull())
    )
    problem = F.coalesce(
        broken(F.col("line"), "the line is not the JSON of a Kafka record, or goes on behind it"),
        F.when(r["topic"].isNull(), F.lit("the line names no topic: not a Kafka record"))
        .when(r["value"].isNull() & ~_names_value(F.col("raw")), F.lit(_NO_VALUE))
        .when(undecodable, F.lit("key or value is not base64")),
    )
    # Most columns are plain members of the parsed line: Spark then reads them where the format needs them, without one
    # more copy of the row.
    exact = None if options.base64 or plain else _may_hold_json
    return read_documents(spark, paths, _ENVELOPE, exact, checked=plain).select(
        "object",
        "record",
        "raw",
        r["topic"].alias("topic"),
        r["partition"].alias("partition"),
        r["offset"].alias("offset"),
        time_of_millis(r["timestamp"]).alias("sent_at"),
        content(r["key"]).alias("key"),
        content(r["value"]).alias("value"),
        headers.alias("headers"),
        problem.alias("problem"),
    )


def _names_value(line: Column) -> Column:
    return F.coalesce(F.array_contains(F.json_object_keys(line), "value"), F.lit(False))


def _may_hold_json(line: Column) -> Column:
    """Whether a key, a value or a header's value may be JSON, not text. Patterns with letters in front cost a tenth of one
    for all."""
    return line.rlike(f'"value"{_NO_TEXT}') | line.rlike(f'"key"{_NO_TEXT}') | line.rlike(_ESCAPED_LETTER)


def inspect(chunks: Iterable[bytes], options: BaseModel) -> Contents:
    """One record per line."""
    return inspect_lines(chunks, [f'"(?:key|value)"{_NO_TEXT}', _ESCAPED_LETTER])
