"""Records back to back, as they lie in a queue that was emptied into a file: IBM's delimited change-data records.

A record may hold its own delimiter inside a string, so a line is not a record. The object is read in pieces at every
record delimiter; a piece that begins with a header begins a record, and any other piece continues the record before
it while a string is open there, and is a record of its own (which the format will not know) where none is. Message
boundaries are not visible. Empty pieces between records hold nothing and are no records.

An object is plain where every piece begins with a header: then each is a record, and nothing needs to be put together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from pydantic import BaseModel
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from tidemark.containers.contract import RECORDS, Contents
from tidemark.containers.ibm_records import Layout, begins_with_header, header_pattern, string_delimiters, view_of
from tidemark.containers.text import read_lines

#: A text object may be compressed as a whole.
OWN_COMPRESSION = False
#: Bytes of a piece that has not ended, above which it is not looked at.
_LONGEST = 64 << 20


class Options(Layout):
    """The delimiters and the code page, as in the feed's format."""


def read(spark: SparkSession, paths: list[str], options: BaseModel, *, plain: bool = False) -> DataFrame:
    """RECORDS of the objects; see :mod:`tidemark.containers.contract`. ``raw`` is without the record delimiter."""
    assert isinstance(options, Options)
    delimiter = options.page.view(options.record_delimiter)
    pieces = read_lines(spark, paths, delimiter, together=True).withColumn("raw", F.col("raw").cast("binary"))
    records = pieces if plain else _put_together(pieces, delimiter, options)
    given = {"object": F.col("object"), "record": F.col("record"), "raw": F.col("raw"), "value": F.col("raw")}
    return records.select(
        *(given.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name) for field in RECORDS)
    )


def _put_together(lines: DataFrame, delimiter: str, options: Options) -> DataFrame:
    """The records that pieces come to: ``object``, ``record``, ``raw``."""
    view = view_of(F.col("raw"))
    in_order = Window.partitionBy("object").orderBy("piece")
    pieces = (
        lines.select(
            "object",
            F.col("record").alias("piece"),
            "raw",
            begins_with_header(view, options).alias("header"),
            string_delimiters(view, options).alias("quotes"),
        )
        .withColumn("before", F.sum("quotes").over(in_order) - F.col("quotes"))
        .withColumn("at_header", F.last(F.when(F.col("header"), F.col("before")), ignorenulls=True).over(in_order))
    )
    # At a header no string is open, however the record before it ended.
    begins = (F.col("before") - F.coalesce("at_header", F.lit(0))) % 2 == 0
    return (
        pieces.where(~begins | (F.length("raw") > 0))
        .withColumn("record", F.sum(F.when(begins, 1).otherwise(0)).over(in_order))
        .groupBy("object", "record")
        .agg(_joined(delimiter).alias("raw"))
    )


def _joined(delimiter: str) -> Column:
    """The pieces of a record in order, with the delimiter between them. The casts keep bytes that are not text."""
    pieces = F.array_sort(F.collect_list(F.struct("piece", F.col("raw").cast("string").alias("bytes"))))
    between = F.lit(delimiter.encode("latin-1")).cast("string")
    return F.call_function("array_join", F.transform(pieces, lambda piece: piece["bytes"]), between).cast("binary")


def inspect(chunks: Iterable[bytes], options: BaseModel) -> Contents:
    """Whether an object is plain. Only decoding can tell how many records it holds."""
    assert isinstance(options, Options)
    delimiter = options.page.view(options.record_delimiter).encode("latin-1")
    header = header_pattern(options).encode("latin-1")
    first, next_ = re.compile(header), re.compile(re.escape(delimiter) + header)
    plain, begun = True, b""
    for chunk in chunks:
        if not plain:
            continue  # landing copies what is read
        pieces, found, begun = (begun + chunk).rpartition(delimiter)
        if found:
            plain = first.match(pieces) is not None and len(next_.findall(pieces)) == pieces.count(delimiter)
        plain = plain and len(begun) < _LONGEST
    return Contents(None, plain and (not begun or first.match(begun) is not None))
