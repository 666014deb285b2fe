"""What every container hands to every format: one row per record, as it landed.

A container module offers:

``Options``
    pydantic model of the feed's ``container`` block (without ``type``).
``read(spark, paths, options) -> DataFrame[RECORDS]``
    Lazily. Paths are full locations of landed objects. Spark expressions on native readers; nothing is dropped: what
    the container itself cannot read comes out with ``problem`` set and ``raw`` whole.
``count(chunks, options) -> int | None``
    How many records the decompressed bytes of one object hold, counted while they stream through ``land``;
    None where only decoding can tell. ExportError for an object that is not of this container, or not whole.
``OWN_COMPRESSION``
    Optional. True where the container compresses inside, so that an object must not be compressed as a whole.
"""

from __future__ import annotations

from pyspark.sql import types as T

#: A list, as in Kafka: a name may come twice.
_HEADER = T.StructType([T.StructField("key", T.StringType()), T.StructField("value", T.StringType())])

#: One row per record. ``raw`` are the record's bytes exactly; ``key`` and ``value`` the message's own bytes (value
#: null = tombstone). These three may also come as StringType that holds the same bytes, where a container has them so:
#: who looks at bytes casts, and who does not is spared the copies. ``record`` counts from 1 within the object. topic …
#: headers are null where the container has none, headers also empty (a topic that the records do not name may come from
#: the object's place in the landing).
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
