"""One record of the quarantine, byte for byte."""

from __future__ import annotations

from tidemark.errors import ExportError
from tidemark.feeds.model import Feed
from tidemark.settings import Settings
from tidemark.storage.objects import storage_of


def landed_bytes(feed: Feed, object: str, record: int, settings: Settings) -> bytes:
    """The bytes of a record in a landed object, as the feed's container cuts it. With Spark, for only the containers know
    where a record begins; one row comes back.

    ExportError where the object is gone or cannot be read, or holds no such record.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    from tidemark.containers import load_container
    from tidemark.lake.session import open_session

    location = f"{settings.landing_root}/{object}"
    if storage_of(location, settings).find(location) is None:
        raise ExportError("its landed object is gone", object=object)
    spark = open_session(settings, f"record {record} of {object}")
    try:
        records = load_container(feed.container["type"]).read(spark, [location], feed.container_options)
        found = records.where(F.col("record") == record).select(F.col("raw").cast("binary").alias("raw")).head(1)
    except (Py4JJavaError, PySparkException) as error:
        raise ExportError("its landed object cannot be read", object=object) from error
    if not found:
        raise ExportError("today's feed file finds no such record in its landed object", object=object)
    return bytes(found[0].raw)
