"""Qlik Replicate and Qlik Talend Data Integration, on Kafka and Pub/Sub: data and metadata messages, JSON and Avro.

Order is the source's own: ``changeSequence``, 35 digits. A column whose ``columnMask`` bit is off was not sent: it is
*absent*, whatever stands in its place. The column of each bit, the types and the key are in metadata messages,
perhaps of another hour; so rows are completed later, by :func:`bind`.
https://help.qlik.com/en-US/replicate and https://help.qlik.com/en-US/cloud-services (metadata and data messages)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.formats.contract import DeclaredFeed, SchemaEntry, as_changes, zero_padded
from tidemark.formats.qlik import bind as qlik_bind
from tidemark.formats.qlik import metadata as qlik_metadata
from tidemark.formats.qlik.avro import avro_messages, in_envelope, is_avro, one_line_base64
from tidemark.formats.qlik.loads import of_load
from tidemark.formats.qlik.messages import HEADERS, PASSED, READ, json_messages
from tidemark.formats.qlik.types import declared_type
from tidemark.values.columns import ColumnType
from tidemark.values.encodings import Encoding
from tidemark.values.table_changes import TableChange

__all__ = [
    "BY_NEIGHBOURS", "ENCODINGS", "LOADS_HAVE_PLACES", "Options", "bind", "column_types", "decode", "described_at", "gaps",
    "message_types", "of_load", "of_whole_load", "read_of_load", "table_change",
]  # fmt: skip

#: The common encodings are enough.
ENCODINGS: dict[str, Encoding] = {}

BY_NEIGHBOURS = False

#: Rows of a full load have no changeSequence, and no time: they come before all changes, or where they were named.
LOADS_HAVE_PLACES = False
_FULL_LOAD = "0" * 35
_OPERATIONS = {"INSERT": "insert", "UPDATE": "update", "DELETE": "delete", "REFRESH": "insert", "READ": "insert"}


class Options(BaseModel):
    """Settings of the task's target endpoint that its messages do not show."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    messages: Literal["json", "avro"] = Field("json", description="The endpoint's message format.")
    avro_masks: Literal["little", "big"] = Field(
        "little",
        description="The order of the bytes of masks in Avro, which is documented nowhere. little: the first byte "
        "holds the ordinals 1 to 8.",
    )


def column_types(columns: Mapping[str, str], options: BaseModel) -> dict[str, ColumnType]:
    """Declared Replicate types; ValueError names the first that is not known."""
    return {name: declared_type(written) for name, written in columns.items()}


def gaps(options: BaseModel) -> list[str]:
    """What the task leaves out or in doubt; see :class:`tidemark.formats.contract.KnowsGaps`."""
    return [
        "TRUNCATE: the product's documents name no message for it, and the table keeps its rows: `tidemark reload` the table "
        "where its source was truncated",
        "a key that the source checks only when a transaction ends (DEFERRABLE INITIALLY DEFERRED of PostgreSQL and Oracle): "
        "where a row is inserted under a key that is still taken, and the old row deleted after that, no message says which "
        "of them goes, and the key is gone: declare such keys immediate",
        "that a row's key changed, where the task sends neither `beforeData` nor `changeMask`: the row stays under its old "
        "key too: have the task send `beforeData`",
    ]


def message_types(schema: str, options: BaseModel) -> dict[str, ColumnType]:
    """Data messages carry no schema of their own: see :func:`table_change`."""
    return {}


def table_change(text: str, options: BaseModel) -> TableChange:
    """All columns and the key of a table, from a metadata message. Raises ValueError, for a person."""
    return qlik_metadata.table_change(text)


def bind(rows: DataFrame, schemas: Sequence[SchemaEntry], feed: DeclaredFeed, options: BaseModel) -> DataFrame:
    """Rows with ``unbound`` completed by the metadata of their tables. See :mod:`tidemark.formats.qlik.bind`."""
    return qlik_bind.bind(rows, schemas, feed)


def described_at(schemas: Sequence[SchemaEntry]) -> Column | None:
    """Where the metadata stand that a row names. See :class:`tidemark.formats.contract.BindsRows`."""
    return qlik_bind.described_at(schemas)


def of_whole_load() -> Column:
    """A full load reads all of its table."""
    return of_load()


def read_of_load() -> Column:
    """No message says when its load began."""
    return F.lit(None).cast("string")


def decode(records: DataFrame, feed: DeclaredFeed, options: BaseModel) -> DataFrame:
    """RECORDS → CHANGES; one row each. See :mod:`tidemark.formats.contract`."""
    assert isinstance(options, Options)
    if options.messages == "json":
        hint = F.when(in_envelope(F.col("value")), F.lit("the value is Avro: set `messages: avro` under format"))
        hinted = records.withColumn("problem", F.coalesce("problem", hint))
        return _entries(json_messages(hinted, _named_as_headers(feed)), feed, options)
    return _entries(_json_or_avro(records, feed, options), feed, options)


def _named_as_headers(feed: DeclaredFeed) -> dict[str, list[str]]:
    """By topic, the declared columns of its table that have the name of a header."""
    columns = {table.topic: {*table.all_columns, *(table.key or ())} for table in feed.tables.values()}
    names = {topic: sorted(of_table & {*HEADERS}) for topic, of_table in columns.items()}
    return {topic: of_table for topic, of_table in names.items() if topic and of_table}


def _json_or_avro(records: DataFrame, feed: DeclaredFeed, options: Options) -> DataFrame:
    """Data in Avro; metadata in Avro or JSON. One pass: each reader sees the other's values as null."""
    avro = F.when(is_avro(F.col("value")), F.col("value").cast("binary"))
    split = records.withColumn("avro", avro).withColumn("value", F.when(F.col("avro").isNull(), F.col("value")))
    read = json_messages(split, _named_as_headers(feed), also=["avro"])
    json_read = read.select(*PASSED, F.col("avro").alias("value"), F.struct(*READ).alias("json"))
    both = avro_messages(json_read, little_endian=options.avro_masks == "little", also=["value", "json"])
    in_avro = F.col("value").isNotNull()
    return both.select(*PASSED, *(F.when(in_avro, F.col(n)).otherwise(F.col("json")[n]).alias(n) for n in READ))


def _with_headers(messages: DataFrame, feed: DeclaredFeed) -> DataFrame:
    """Messages with their headers, each as a column of one name in all shapes, and their ``position``."""
    c = F.col

    def header(name: str) -> Column:
        return F.element_at(c("h"), F.lit(name))

    read = messages.select(
        *PASSED, "form", "data", "before", "text", "body",
        F.upper(header("operation")).alias("operation"),
        header("changeSequence").alias("sequence"),
        header("transactionId").alias("tx"),
        header("transactionEventCounter").alias("counter"),
        F.lower(header("transactionLastEvent")).alias("last"),
        F.when(c("form") == "data", header("timestamp")).otherwise(c("metadata_time")).alias("at"),
        header("columnMask").alias("columnMask"),
        header("changeMask").alias("changeMask"),
        # The envelope's id, the optional header, and Talend's header name the same thing.
        F.coalesce("schema_id", header("externalSchemaId"), header("schemaId")).alias("schemaId"),
        F.coalesce("version", header("tableVersion")).alias("tableVersion"),
        F.coalesce(c("named"), _by_topic(feed)).alias("source_table"),
    )  # fmt: skip
    full_load = c("operation").isin("REFRESH", "READ")
    # Without counters nothing shows when a transaction is complete: each change is published by itself, as in the full
    # load.
    counted = ~full_load & c("tx").isNotNull() & c("counter").isNotNull() & c("last").isNotNull()
    return read.select(
        "*",
        F.when(c("form") == "metadata", _position_of_metadata())
        .when(full_load, F.lit(_FULL_LOAD))
        .otherwise(c("sequence"))
        .alias("position"),
        c("counter").try_cast("bigint").alias("ordinal"),
        F.coalesce(counted, F.lit(False)).alias("counted"),
    )


def _entries(messages: DataFrame, feed: DeclaredFeed, options: Options) -> DataFrame:
    c = F.col
    judged = _with_headers(messages, feed).withColumn("wrong", _problem(options))
    good = c("wrong").isNull()
    is_data = (c("form") == "data") & good
    op = c("operation")
    in_transaction = c("counted") & c("ordinal").isNotNull() & c("last").isin("true", "false")
    unbound = F.create_map(
        *(part for name in ("schemaId", "tableVersion", "columnMask", "changeMask") for part in (F.lit(name), c(name))),
        F.lit("avro"),
        one_line_base64(c("body")),
    )
    columns = {
        "op": F.when(~good, "bad")
        .when(c("form") == "metadata", "schema")
        .when(c("form") == "tombstone", "control")
        .otherwise(F.coalesce(*(F.when(op == kind, name) for kind, name in _OPERATIONS.items()))),
        "kind": F.when(c("form") == "data", op).when(c("form") == "metadata", "MD").otherwise(c("form")),
        "source_table": F.when(good & (c("form") != "tombstone"), c("source_table")),
        "position": F.when(good | c("sequence").rlike(r"^\d{35}\z"), c("position")),
        "before": F.when(is_data & (op == "DELETE"), F.coalesce("data", "before"))
        .when(is_data & (op == "UPDATE"), c("before")),
        "after": F.when(is_data & (op != "DELETE"), c("data")),
        # Also of a bad record: its transaction waits in quarantine with it, rather than being held for it.
        "tx": F.when(in_transaction, c("tx")),
        # Without counters its name still tells which changes are together: each has a time of its own.
        "tx_part": F.when(in_transaction, c("ordinal").cast("string")).when(
            good & c("operation").isin("INSERT", "UPDATE", "DELETE") & (c("tx") != ""), c("tx")
        ),
        "tx_ordinal": F.when(in_transaction, c("ordinal")),
        "tx_end": F.when(in_transaction, c("last") == "true"),
        "committed_at": F.when(
            c("at").rlike(r"^(?!0000)\d{4}-\d\d-\d\d[T ]\d\d:\d\d"), F.regexp_replace("at", "Z?$", "").try_cast("timestamp")
        ),
        "message_schema": F.when((c("form") == "metadata") & good, c("text")),
        "unbound": F.when(is_data, F.map_filter(unbound, lambda _, value: value.isNotNull())),
        "entry": F.lit(0),
        "problem": c("wrong"),
    }  # fmt: skip
    return as_changes(judged, columns)


def _by_topic(feed: DeclaredFeed) -> Column:
    """The table that a topic carries, as the feed declares it; null where the feed declares none, or several."""
    tables: dict[str, list[str]] = {}
    for name, table in feed.tables.items():
        if table.topic:
            tables.setdefault(table.topic, []).append(name)
    found = F.lit(None).cast("string")
    for topic, names in tables.items():
        if len(names) == 1:
            found = F.when(F.col("topic") == topic, F.lit(names[0])).otherwise(found)
    return found


def _position_of_metadata() -> Column:
    """A metadata message's time and version, written as a change sequence is (``YYYYMMDDhhmmSScc`` and 19 digits).

    The time is that of the replication server, so it can be a little later than the first changes it describes.
    """
    digits = F.regexp_replace(F.col("at"), r"[^0-9]", "")
    readable = F.col("at").rlike(r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d")
    time = F.when(readable, F.rpad(F.substring(digits, 1, 16), 16, "0")).otherwise(F.lit("0" * 16))
    version = F.when(F.col("tableVersion").rlike(r"^\d{1,19}\z"), F.col("tableVersion"))
    return F.concat(time, zero_padded(F.coalesce(version, F.lit("0")), 19))


def _problem(options: Options) -> Column:
    """Why the record is no change and no metadata; null when it is one."""
    c = F.col
    form, op = c("form"), c("operation")
    image = F.when(op == "DELETE", F.coalesce("data", "before")).otherwise(c("data"))
    no_image = image.isNull() if options.messages == "json" else image.isNull() & c("body").isNull()
    hexadecimal = r"^[0-9A-Fa-f]{1,16384}\z"
    expected = {
        "json": "the value is no data message and no metadata message of Qlik Replicate: broken JSON, no headers, or "
        "no tableColumns",
        "avro": "the value is no data message and no metadata message of Qlik Replicate in Avro: cut short, or of an "
        "unknown layout",
    }[options.messages]
    no_table = F.concat(
        F.lit("the message names no table, and no table of the feed file (alone) has the topic "),
        F.coalesce(c("topic"), F.lit("(none)")),
    )
    data = form == "data"
    return F.coalesce(
        c("problem"),
        F.when(form == "tombstone", None)
        .when(form.isNull(), F.lit(expected))
        .when(c("source_table").isNull(), no_table)
        .when(~data, None)
        .when(~op.isin(list(_OPERATIONS)), F.concat(F.lit("unknown operation "), F.substring(op, 1, 100)))
        .when(c("position").isNull(), F.lit("the message has no changeSequence: its place in the order is unknown"))
        .when(~c("position").rlike(r"^\d{35}\z"), F.lit("changeSequence is not 35 digits"))
        .when(no_image | (F.size(image) == 0), F.concat(F.lit("no row in data, operation "), op))
        .when(~c("columnMask").rlike(hexadecimal), F.lit("columnMask is not hexadecimal"))
        .when(~c("changeMask").rlike(hexadecimal), F.lit("changeMask is not hexadecimal"))
        .when(c("counted") & F.coalesce(c("ordinal") < 1, F.lit(True)), F.lit("transactionEventCounter is no number"))
        .when(c("counted") & ~c("last").isin("true", "false"), F.lit("transactionLastEvent is not true or false")),
    )
