"""What every format hands to the stages: one row per change, control entry or undecodable record.

A format module offers:

``Options``
    pydantic model of the feed's ``format`` block (without ``type``).
``decode(records, feed, options) -> DataFrame[CHANGES]``
    RECORDS (see :mod:`tidemark.containers.contract`) to CHANGES, lazily, as Spark expressions. Every record gives at
    least one row; nothing is dropped. A record may give many rows (``entry`` counts from 0). One that cannot be
    decoded gives one row with op ``bad``, ``problem`` for a person, and ``raw``.
``column_types(columns, options) -> dict[str, ColumnType]``
    The feed's declared source types to how their text becomes a value (:mod:`tidemark.schema.columns`). Raises ``ValueError``
    for a type it does not know. Pure, no Spark session needed.
``message_types(schema) -> dict[str, ColumnType]``
    Column types by the ``message_schema`` of row entries; empty where the format sends none. Pure.
``ENCODINGS``
    The format's own encodings of text, by the name its ColumnTypes carry.

A format whose stream says what its tables are like (metadata messages, DDL) gives entries of op ``schema`` for it, and
offers two functions more:

``table_change(text, options) -> TableChange | None``
    What the ``message_schema`` of an entry of op ``schema`` says of its table; None: nothing that matters here. Raises
    ``ValueError``, for a person, where it cannot be understood: the table then stops. Pure.
``bind(rows, schemas, options) -> DataFrame``
    Optional. Log rows whose meaning only such entries tell (``unbound``), and all schema entries the log holds by now,
    of whatever hour → the same columns, completed: ``key``, ``before``, ``after``, ``absent``; ``problem`` where that
    cannot be done. So decode stays pure in its hour. Rows of other ops pass through.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.identifiers import quote


@dataclass(frozen=True)
class SchemaEntry:
    """One entry of op ``schema``: the table it is of (as the source names it), its position, and its text."""

    source_table: str
    position: str
    text: str


_IMAGE = T.MapType(T.StringType(), T.StringType())

#: One row per entry of a record.
CHANGES = T.StructType(
    [
        # what it is: insert, update, delete, truncate, schema (what its table is like from its position on), control
        # (no row: tombstone, marker, heartbeat …) or bad
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
        T.StructField("tx_rollback", T.BooleanType()),  # with tx_end: the source took the whole transaction back
        T.StructField("committed_at", T.TimestampType()),
        # the message's own schema, where it carries one: JSON text (one per table version; few distinct values)
        T.StructField("message_schema", T.StringType()),  # op schema: the metadata or the DDL statement
        T.StructField("unbound", _IMAGE),  # what `bind` needs to complete the row: the format's own
        T.StructField("notes", T.ArrayType(T.StringType())),  # flags for people: hex-decoded, impossible time …
        # where it came from
        T.StructField("object", T.StringType()),
        T.StructField("record", T.LongType()),
        T.StructField("entry", T.IntegerType()),
        T.StructField("topic", T.StringType()),
        T.StructField("partition", T.IntegerType()),
        T.StructField("offset", T.LongType()),
        T.StructField("problem", T.StringType()),  # op bad: why, for a person
        # the record's bytes exactly: the log keeps them for op bad alone
        T.StructField("raw", T.BinaryType()),
    ]
)


def zero_padded(number: Column | str, width: int) -> Column:
    """A number's text with zeros in front, so that text order is its order; cut where it is longer."""
    return F.lpad(number, width, "0" * width)  # all in one text: Spark copies what it pads with as often as it fits


def as_changes(rows: DataFrame, columns: Mapping[str, Column]) -> DataFrame:
    """The columns of CHANGES: what is given, else what ``rows`` has under that name, else null."""
    theirs = set(rows.columns)

    def told(name: str, kind: str) -> Column:
        if name in columns:
            return columns[name].cast(kind).alias(name)
        return F.expr(f"CAST({quote(name) if name in theirs else 'NULL'} AS {kind}) AS {quote(name)}")

    return rows.select(*(told(field.name, field.dataType.simpleString()) for field in CHANGES))
