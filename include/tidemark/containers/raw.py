"""Records back to back, as they lie in a queue that was emptied into a file: IBM's delimited change-data records.

A record may hold its own delimiter inside a string, so a line is not a record. The object is read in pieces at every
record delimiter; a piece that begins with a header begins a record, and any other piece continues the record before
it while a string is open there, and is a record of its own (which the format will not know) where none is. Message
boundaries are not visible. Empty pieces between records hold nothing and are no records.
"""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from tidemark.containers.contract import RECORDS, Contents
from tidemark.containers.ibm_records import Layout, begins_with_header, string_delimiters, view_of
from tidemark.containers.text import read_lines

#: A text object may be compressed as a whole.
OWN_COMPRESSION = False


class Options(Layout):
    """The delimiters and the code page, as in the feed's format."""


def read(spark: SparkSession, paths: list[str], options: BaseModel, *, plain: bool = False) -> DataFrame:
    """RECORDS of the objects; see :mod:`tidemark.containers.contract`. ``raw`` is without the record delimiter."""
    assert isinstance(options, Options)
    delimiter = options.page.view(options.record_delimiter)
    view = view_of(F.col("raw"))
    in_order = Window.partitionBy("object").orderBy("piece")
    pieces = (
        read_lines(spark, paths, delimiter)
        .select(
            "object",
            F.col("record").alias("piece"),
            F.col("raw").cast("binary").alias("raw"),
            begins_with_header(view, options).alias("header"),
            string_delimiters(view, options).alias("quotes"),
        )
        .withColumn("before", F.sum("quotes").over(in_order) - F.col("quotes"))
        .withColumn("at_header", F.last(F.when(F.col("header"), F.col("before")), ignorenulls=True).over(in_order))
    )
    # At a header no string is open, however the record before it ended.
    begins = (F.col("before") - F.coalesce("at_header", F.lit(0))) % 2 == 0
    records = (
        pieces.where(~begins | (F.length("raw") > 0))
        .withColumn("record", F.sum(F.when(begins, 1).otherwise(0)).over(in_order))
        .groupBy("object", "record")
        .agg(_joined(delimiter).alias("raw"))
    )
    given = {"object": F.col("object"), "record": F.col("record"), "raw": F.col("raw"), "value": F.col("raw")}
    return records.select(
        *(given.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name) for field in RECORDS)
    )


def _joined(delimiter: str) -> Column:
    """The pieces of a record in order, with the delimiter between them. The casts keep bytes that are not text."""
    pieces = F.array_sort(F.collect_list(F.struct("piece", F.col("raw").cast("string").alias("bytes"))))
    between = F.lit(delimiter.encode("latin-1")).cast("string")
    return F.call_function("array_join", F.transform(pieces, lambda piece: piece["bytes"]), between).cast("binary")


def inspect(chunks: Iterable[bytes], options: BaseModel) -> Contents:
    """Only decoding can tell how many records an object holds. The chunks are read all the same, since landing copies what
    is read."""
    for _ in chunks:
        pass
    return Contents(None)
