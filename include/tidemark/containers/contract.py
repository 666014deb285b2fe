"""What every container hands to every format: RECORDS, one row per record, as it landed.

Each container is a module, and the module is a :class:`Container`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from pydantic import BaseModel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

#: A list, as in Kafka: a name may come twice.
_HEADER = T.StructType([T.StructField("key", T.StringType()), T.StructField("value", T.StringType())])

#: One row per record. ``raw`` are the record's bytes exactly; ``key`` and ``value`` the message's own bytes (value
#: null = tombstone). These three may also come as StringType with the same bytes: a format that looks at bytes casts
#: them, and the others save the copies. ``key`` and ``value`` do so only where nobody needs to look at their bytes again
#: (:func:`holds_text`). ``record`` counts from 1 within the object. topic … headers are null where the container has
#: none; headers may also be empty. A topic that the records do not name may come from the object's folder in the landing.
RECORDS = T.StructType(
    [
        T.StructField("object", T.StringType()),
        T.StructField("record", T.LongType()),
        T.StructField("raw", T.BinaryType()),
        T.StructField("topic", T.StringType()),
        T.StructField("partition", T.IntegerType()),
        T.StructField("offset", T.LongType()),
        T.StructField("sent_at", T.TimestampType()),
        T.StructField("key", T.BinaryType()),
        T.StructField("value", T.BinaryType()),
        T.StructField("headers", T.ArrayType(_HEADER)),
        T.StructField("problem", T.StringType()),
    ]
)


def holds_text(records: DataFrame) -> bool:
    """Whether the keys and values of RECORDS are known to be UTF-8, and to hold no escaped half of a character: nobody needs
    to look at their bytes again."""
    return isinstance(records.schema["value"].dataType, T.StringType)


@dataclass(frozen=True)
class Contents:
    """What landing learns of an object, from its bytes on their way."""

    records: int | None
    """How many records it holds; None: only decoding can tell."""

    plain: bool = False
    """Whether none of its records needs the looks that rare ones need: all bytes are UTF-8, no half of a character is
    escaped, and no key, value or header's value is JSON in place of a text. False also where nobody looked."""


class Container(Protocol):
    """The functions and constants that a container's module has.

    The first paragraph of its docstring is the container's description in the feed reference.
    """

    @property
    def Options(self) -> type[BaseModel]:
        """The model of the feed's ``container`` block (without ``type``)."""

    @property
    def OWN_COMPRESSION(self) -> bool:
        """Whether the container compresses inside, so that an object must not be compressed as a whole."""

    def read(self, spark: SparkSession, paths: list[str], options: BaseModel, /, *, plain: bool = False) -> DataFrame:
        """The RECORDS of landed objects, lazily. ``paths`` are their full locations; ``plain``: each is known to be.

        Native readers and Spark expressions alone. Nothing is dropped: what the container itself cannot read comes out
        with ``problem`` set and ``raw`` whole.
        """

    def inspect(self, chunks: Iterable[bytes], options: BaseModel, /) -> Contents:
        """What one object holds, by its decompressed bytes, which stream through ``land``.

        ExportError for an object that is not of this container, or not whole.
        """
