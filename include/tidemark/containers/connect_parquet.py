"""Parquet files as Kafka Connect's S3 sinks write them: whole records, or one row per message value.

Which parts of either layout are read is described in :mod:`tidemark.containers.connect`.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict
from pyspark.sql import DataFrame, SparkSession

from tidemark.containers.connect import read_files
from tidemark.containers.contract import Contents
from tidemark.errors import ExportError

#: Parquet compresses inside: an object compressed as a whole is not readable.
OWN_COMPRESSION = True

_MAGIC = b"PAR1"
#: A footer describes columns and row groups, not rows: one larger than this is not counted here.
_FOOTER = 16 << 20
_FIX = "export it again, and see that the exporter had closed it"


class Options(BaseModel):
    """The container has no settings."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def read(spark: SparkSession, paths: list[str], options: BaseModel, *, plain: bool = False) -> DataFrame:
    """RECORDS of the objects; see :mod:`tidemark.containers.contract`."""
    return read_files(spark, paths, "parquet")


def inspect(chunks: Iterable[bytes], options: BaseModel) -> Contents:
    """The number of rows, from the footer. ExportError for an object that is no Parquet file, or not a whole one."""
    head, tail = b"", bytearray()
    for chunk in chunks:
        head = head if len(head) >= 4 else (head + chunk)[:4]
        tail += chunk
        if len(tail) > 2 * _FOOTER:
            del tail[:-_FOOTER]
    if head != _MAGIC:
        raise ExportError("is not a Parquet file", fix="export it as Parquet, or name its container in the feed file")
    if len(tail) < 12 or not tail.endswith(_MAGIC):
        raise ExportError("is a Parquet file that was cut off: it has no footer", fix=_FIX)
    length = int.from_bytes(tail[-8:-4], "little")
    if length + 8 > len(tail):
        if length < _FOOTER:
            raise ExportError("is a damaged Parquet file: its footer is longer than itself", fix=_FIX)
        return Contents(None)
    try:
        metadata = pq.read_metadata(pa.BufferReader(_MAGIC + bytes(tail[-8 - length :])))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ExportError(f"is a damaged Parquet file: {error}", fix=_FIX) from error
    return Contents(metadata.num_rows)
