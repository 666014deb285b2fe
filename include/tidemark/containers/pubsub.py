"""Pub/Sub messages as JSON lines: ``{"data": base64, "attributes": {…}, "messageId", "publishTime", "orderingKey"}``.

The names of the REST API and those with underscores (``message_id`` …) are read alike. Attributes become the record's
headers and the ordering key its key. No offset and no partition: Pub/Sub has none. A message without data has value
null: in Pub/Sub it is the same as one with empty data.
"""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict, Field
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.containers.contract import RECORDS, Contents
from tidemark.containers.text import inspect_lines, read_documents
from tidemark.storage.landed_columns import landed_topic
from tidemark.values.strict_json import broken

_MESSAGE = (
    "data string, attributes map<string, string>, messageId string, message_id string, publishTime string, "
    "publish_time string, orderingKey string, ordering_key string"
)

#: A text object may be compressed as a whole.
OWN_COMPRESSION = False


class Options(BaseModel):
    """Settings that Pub/Sub's messages do not show."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    topic_attribute: str | None = Field(
        None,
        min_length=1,
        description="The attribute that holds the topic's name. Default: the topic that the object was exported of.",
    )


def read(spark: SparkSession, paths: list[str], options: BaseModel, *, plain: bool = False) -> DataFrame:
    """RECORDS of the objects; see :mod:`tidemark.containers.contract`."""
    assert isinstance(options, Options)
    m = F.col("line.d")
    data = F.try_to_binary(m["data"], F.lit("base64"))
    topic = landed_topic(F.col("object"))
    if options.topic_attribute:
        topic = F.coalesce(F.element_at(m["attributes"], F.lit(options.topic_attribute)), topic)
    problem = F.coalesce(
        broken(F.col("line"), "the line is not the JSON of a Pub/Sub message, or goes on behind it"),
        F.when(
            m["data"].isNull() & m["attributes"].isNull() & F.coalesce(m["messageId"], m["message_id"]).isNull(),
            F.lit("the line has neither data, attributes nor messageId: not a Pub/Sub message"),
        ).when(m["data"].isNotNull() & data.isNull(), F.lit("data is not base64")),
    )
    attributes = F.map_entries(m["attributes"]).cast(RECORDS["headers"].dataType)
    return read_documents(spark, paths, _MESSAGE, checked=plain).select(
        "object",
        "record",
        "raw",
        topic.alias("topic"),
        F.lit(None).cast("int").alias("partition"),
        F.lit(None).cast("bigint").alias("offset"),
        F.coalesce(m["publishTime"], m["publish_time"]).try_cast("timestamp").alias("sent_at"),
        F.coalesce(m["orderingKey"], m["ordering_key"]).cast("binary").alias("key"),
        F.when(F.length(data) > 0, data).alias("value"),
        F.when(F.size(m["attributes"]) > 0, attributes).alias("headers"),
        problem.alias("problem"),
    )


def inspect(chunks: Iterable[bytes], options: BaseModel) -> Contents:
    """One record per line."""
    return inspect_lines(chunks)
