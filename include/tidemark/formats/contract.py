"""What every format hands to the stages: one row per change, control entry or undecodable record.

A format module offers:

``Options``
    pydantic model of the feed's ``format`` block (without ``type``).
``decode(records, feed, options) -> DataFrame[CHANGES]``
    RECORDS (see :mod:`tidemark.containers.contract`) to CHANGES, lazily, as Spark expressions. Every record gives at
    least one row; nothing is dropped. A record may give many rows (``entry`` counts from 0). One that cannot be
    decoded gives one row with op ``bad``, ``problem`` for a person, and ``raw``.
``column_types(columns, options) -> dict[str, ColumnType]``
    The feed's declared source types to how their text becomes a value (:mod:`tidemark.columns`). Raises ``ValueError``
    for a type it does not know. Pure, no Spark session needed.
"""

from __future__ import annotations

from pyspark.sql import types as T

_IMAGE = T.MapType(T.StringType(), T.StringType())

#: One row per entry of a record.
CHANGES = T.StructType(
    [
        # what it is: insert, update, delete, truncate, control (no row: tombstone, marker, heartbeat …) or bad
        T.StructField("op", T.StringType()),
        T.StructField("kind", T.StringType()),  # the source's own word for it: c, ISRT, END …
        T.StructField("source_table", T.StringType()),  # schema.table as the source names it
        # where it stands in the source's order: text that sorts (fixed width). Null only for control and bad.
        T.StructField("position", T.StringType()),
        # images: column name -> value as text, exactly as sent. A column sent as null is there with a null value;
        # one that was *not sent* is named in `absent`; one in neither does not exist in the source at that time.
        T.StructField("key", _IMAGE),  # null: keyless
        T.StructField("prior_key", _IMAGE),  # the old key, on the new row of a key change
        T.StructField("before", _IMAGE),
        T.StructField("after", _IMAGE),
        T.StructField("absent", T.ArrayType(T.StringType())),
        # transaction: complete when an entry with tx_end has come, and the distinct tx_part values are at least
        # max(tx_count) and at least max(tx_ordinal). All null: complete by itself.
        T.StructField("tx", T.StringType()),
        T.StructField("tx_part", T.StringType()),
        T.StructField("tx_ordinal", T.LongType()),
        T.StructField("tx_end", T.BooleanType()),
        T.StructField("tx_count", T.LongType()),
        T.StructField("committed_at", T.TimestampType()),
        # the message's own schema, where it carries one: JSON text (one per table version; few distinct values)
        T.StructField("message_schema", T.StringType()),
        T.StructField("notes", T.ArrayType(T.StringType())),  # flags for people: hex-decoded, impossible time …
        # where it came from
        T.StructField("object", T.StringType()),
        T.StructField("record", T.LongType()),
        T.StructField("entry", T.IntegerType()),
        T.StructField("topic", T.StringType()),
        T.StructField("partition", T.IntegerType()),
        T.StructField("offset", T.LongType()),
        T.StructField("problem", T.StringType()),  # op bad: why, for a person
        T.StructField("raw", T.BinaryType()),  # the record's bytes exactly (the log keeps them for op bad alone)
    ]
)
