"""Avro files as Kafka Connect's S3 sinks write them: whole records, or one record per message value.

Which parts of either layout are read is described in :mod:`tidemark.containers.connect`. Files of plain text or
bytes (written by the sink when the converter knows no schema) are refused: Spark reads Avro records only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from pydantic import BaseModel, ConfigDict
from pyspark.sql import DataFrame, SparkSession

from tidemark.containers.connect import read_files
from tidemark.containers.contract import Contents
from tidemark.errors import ExportError

#: Avro compresses inside: an object compressed as a whole is not readable.
OWN_COMPRESSION = True

_MAGIC = b"Obj\x01"
_FIX = "export it again, and see that the exporter had closed it"


class Options(BaseModel):
    """The container has no settings."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def read(spark: SparkSession, paths: list[str], options: BaseModel, *, plain: bool = False) -> DataFrame:
    """RECORDS of the objects; see :mod:`tidemark.containers.contract`."""
    return read_files(spark, paths, "avro")


def inspect(chunks: Iterable[bytes], options: BaseModel) -> Contents:
    """The number of records, from the headers of the file's blocks; none is decoded (Avro's object container files).

    ExportError for an object that is no Avro file, not a whole one, or one that holds no records.
    """
    stream = _Stream(iter(chunks))
    if not stream.begins_with(_MAGIC):
        raise ExportError("is not an Avro file", fix="export it as Avro, or name its container in the feed file")
    _require_records(stream.header())
    fingerprint, records = stream.take(16), 0
    while stream.more():
        held = stream.number()
        stream.skip(stream.number())
        if held < 0 or stream.take(16) != fingerprint:
            raise ExportError("is a damaged Avro file: a block does not end where its header says", fix=_FIX)
        records += held
    return Contents(records)


def _require_records(header: dict[str, bytes]) -> None:
    try:
        schema = json.loads(header["avro.schema"])
    except (KeyError, ValueError) as error:
        raise ExportError("is a damaged Avro file: its header holds no schema", fix=_FIX) from error
    kind = schema.get("type") if isinstance(schema, dict) else schema
    if kind != "record":
        raise ExportError(
            f"is an Avro file of {kind if isinstance(kind, str) else 'several types'}, not of records",
            fix="give the sink a converter that knows schemas, or export JSON lines",
        )


class _Stream:
    """Reads Avro's primitive values from a stream of chunks."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._held, self._at = chunks, b"", 0

    def more(self) -> bool:
        """Whether there is a byte left."""
        while self._at >= len(self._held):
            chunk = next(self._chunks, None)
            if chunk is None:
                return False
            self._held, self._at = chunk, 0
        return True

    def skip(self, size: int) -> None:
        """Pass over bytes."""
        while size > 0:
            if not self.more():
                raise _cut_off()
            step = min(size, len(self._held) - self._at)
            self._at, size = self._at + step, size - step

    def begins_with(self, magic: bytes) -> bool:
        """Whether the next bytes are these. They are taken, up to the first that differs."""
        return all(self.more() and self.take(1) == magic[i : i + 1] for i in range(len(magic)))

    def take(self, size: int) -> bytes:
        """The next bytes."""
        taken = b""
        while len(taken) < size:
            if not self.more():
                raise _cut_off()
            step = self._held[self._at : self._at + size - len(taken)]
            self._at += len(step)
            taken += step
        return taken

    def number(self) -> int:
        """A zig-zag variable-length number of up to 64 bits."""
        value = 0
        for shift in range(0, 70, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
        raise ExportError("is a damaged Avro file: a number in it has no end", fix=_FIX)

    def header(self) -> dict[str, bytes]:
        """The file's metadata: a map in blocks, the last of them empty."""
        found = {}
        while held := self.number():
            if held < 0:  # the block's size in bytes follows
                self.number()
            for _ in range(abs(held)):
                name = self.take(self._size()).decode("utf-8", "replace")
                found[name] = self.take(self._size())
        return found

    def _size(self) -> int:
        size = self.number()
        if not 0 <= size <= 1 << 26:
            raise ExportError("is a damaged Avro file: its header is not one", fix=_FIX)
        return size


def _cut_off() -> ExportError:
    return ExportError("is an Avro file that was cut off", fix=_FIX)
