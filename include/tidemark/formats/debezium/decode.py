"""Debezium's change events, 1.9 and 3.x, as JSON with or without message schemas: PostgreSQL, and others alike.

Order is the source's own: ``source.sequence`` (LSN of the last commit before this one; null first), then LSN. Topic
offsets change with redelivery and are no part of a position. A value that was not in the log arrives as the
unavailable placeholder and is *absent*, not a value. https://debezium.io/documentation/reference/connectors/postgresql
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from functools import partial, reduce
from operator import or_
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.formats.contract import DeclaredFeed, as_changes
from tidemark.formats.debezium.sources import CONNECTORS
from tidemark.formats.debezium.types import ENCODINGS, declared_type, message_types
from tidemark.schema.columns import ColumnType
from tidemark.schema.encodings import time_of_millis
from tidemark.schema.strict_json import exact_json, is_broken, one_document

__all__ = ["ENCODINGS", "Options", "column_types", "decode", "message_types"]

_IMAGE = "map<string, string>"
_EVENT = (
    f"before: {_IMAGE}, after: {_IMAGE}, op: string, "
    "source: struct<ts_ms: bigint, name: string, schema: string, table: string, %s>, "
    "transaction: struct<id: string, total_order: bigint>, message: struct<prefix: string, content: string>, "
    "status: string, id: string, event_count: bigint"
)
#: With message schemas the event is the `payload`, without them the value itself: one schema reads both.
_VALUE = f"{_EVENT}, schema: string, payload: struct<{_EVENT}>"
#: The columns of a table of logical messages, written like the message schema of rows.
_MESSAGE_SCHEMA = json.dumps(
    {
        "fields": [
            {
                "field": "after",
                "fields": [
                    {"field": "connector", "type": "string"},
                    {"field": "lsn", "type": "int64"},
                    {"field": "prefix", "type": "string"},
                    {"field": "content", "type": "bytes"},
                    {"field": "transactional", "type": "boolean"},
                    {"field": "sent", "type": "int64", "name": "io.debezium.time.Timestamp"},
                ],
            }
        ]
    }
)


class Options(BaseModel):
    """Settings of the connector that its messages do not show."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    connector: Literal["postgresql", "mysql", "sqlserver", "oracle", "db2"] = Field(
        "postgresql", description="Whose `source` the events carry: it names the table and the position in the order."
    )
    decimals: Literal["precise", "string", "double", "numeric"] = Field(
        "precise",
        description="The connector's decimal.handling.mode; numeric: precise, and its JsonConverter writes numbers of JSON "
        "(decimal.format=NUMERIC), which are then read digit by digit. Not needed where message schemas are sent.",
    )
    binary: Literal["bytes", "base64", "hex"] = Field("bytes", description="The connector's binary.handling.mode.")
    times: Literal["adaptive", "adaptive_time_microseconds", "connect", "microseconds", "nanoseconds"] = Field(
        "adaptive", description="The connector's time.precision.mode. Not needed where message schemas are sent."
    )
    transactions: str | Annotated[list[str], Field(min_length=1)] | None = Field(
        None,
        description="The topic of transaction metadata (provide.transaction.metadata=true), also listed under topics; "
        "those of all connectors, where there are several (`<prefix>.transaction` of each). "
        "With it a transaction is published whole or held; null: each change is published by itself.",
    )
    messages: Annotated[str, Field(pattern=r"^[^.]+\.[^.]+$")] | None = Field(
        None,
        description="The table (schema.table) of logical messages, op m, by connector and LSN. null: they are control "
        "records, kept in the change log alone.",
    )
    unavailable: str = Field(
        "__debezium_unavailable_value", min_length=1, description="The connector's unavailable.value.placeholder."
    )


def column_types(columns: Mapping[str, str], options: BaseModel) -> dict[str, ColumnType]:
    """Declared PostgreSQL types; ValueError names the first that is not known."""
    assert isinstance(options, Options)
    return {
        name: declared_type(written, decimals=options.decimals, binary=options.binary, times=options.times)
        for name, written in columns.items()
    }


def decode(records: DataFrame, feed: DeclaredFeed, options: BaseModel) -> DataFrame:
    """RECORDS → CHANGES; one row each. See :mod:`tidemark.formats.contract`.

    Two projections are enough: each one that parses, or looks into an image, makes Spark copy all columns it passes on.
    """
    assert isinstance(options, Options)
    fields = CONNECTORS[options.connector].fields
    parsed = records.select(
        "object", "record", "raw", "topic", "partition", "offset", "problem",
        one_document(
            F.col("value").cast("string"), _VALUE % (fields, fields), F.col("key").cast("string"),
            exact=options.decimals == "numeric",
        ).alias("v"),
        _old_key(F.col("headers")).alias("old"),
    )  # fmt: skip
    return _entries(_events(parsed, feed, options), options)


def _events(parsed: DataFrame, feed: DeclaredFeed, options: Options) -> DataFrame:
    """The event's members as columns, with or without a message schema around them; ``table``, ``position`` and
    ``problem``; the images without values that were not sent, whose names are in ``absent``."""
    v, v_key, payload = F.col("v.d"), F.col("v.k"), F.col("v.d.payload")
    event = {
        name: F.coalesce(v[name], payload[name])
        for name in ("before", "after", "op", "source", "transaction", "message", "status", "id", "event_count")
    }
    connector, source, schemas = CONNECTORS[options.connector], event["source"], payload.isNotNull()
    event |= {
        "tombstone": F.col("v").isNull(),
        "message_schema": F.when(schemas, v["schema"]),
        "k": F.when(schemas, _payload(v_key)).otherwise(v_key),
        "old": F.when(schemas & F.col("old").isNotNull(), _payload(F.col("old"))).otherwise(F.col("old")),
        "table": F.concat(source[connector.namespace], F.lit("."), source["table"]),
        "position": connector.position(source),
    }
    event["k"], event["old"] = _keys(event, feed)
    problem = _problem(event, options)
    event["after"], event["absent"] = _sent(event["after"], options)
    members = (column.alias(name) for name, column in event.items())
    return parsed.select("object", "record", "raw", "topic", "partition", "offset", problem.alias("problem"), *members)


def _keys(event: dict[str, Column], feed: DeclaredFeed) -> tuple[Column, Column]:
    """``k`` and ``old``; for messages without a key they are taken from the images, where the feed declares the key."""
    k, old, op, before = (event[name] for name in ("k", "old", "op", "before"))
    declared = {table: declared.key for table, declared in feed.tables.items() if declared.key}
    if not declared:
        return k, old
    keyless = k.isNull() & op.isin("c", "r", "u", "d")

    def picked(image: Column) -> Column:
        found = F.lit(None).cast(_IMAGE)
        for table, key in declared.items():
            of_key = F.map_filter(image, partial(_is_one_of, key))
            found = F.when(event["table"] == table, F.when(F.size(of_key) > 0, of_key)).otherwise(found)
        return found

    new = F.when(keyless, picked(F.when(op == "d", before).otherwise(event["after"]))).otherwise(k)
    was = F.when(keyless & (op == "u"), picked(before))
    return new, F.coalesce(old, F.when(F.to_json(was) != F.to_json(new), was))


def _is_one_of(names: Sequence[str], name: Column, _: Column) -> Column:
    return name.isin(names)


def _old_key(headers: Column) -> Column:
    """The old key, in the last header of its name. Few records have one: only these are searched and parsed."""
    name = "__debezium.oldkey"
    named = F.filter(headers, lambda header: header["key"] == name)
    return F.when(F.array_contains(headers["key"], name), exact_json(F.element_at(named, -1)["value"], _IMAGE))


def _payload(key: Column) -> Column:
    """The key's columns inside ``{"schema", "payload"}``."""
    return exact_json(F.element_at(key, F.lit("payload")), _IMAGE)


def _spellings(options: Options) -> list[str]:
    """The unavailable placeholder as text and JSON, as bytea, as text[] and as bigint[] (its character codes)."""
    word = options.unavailable
    return [word, base64.b64encode(word.encode()).decode(), f'["{word}"]', f"[{','.join(str(ord(c)) for c in word)}]"]


def _sent(image: Column, options: Options) -> tuple[Column, Column]:
    """An image without its placeholders, and the names of the columns that held one. Most rows have none, and are not
    searched column by column."""
    spellings, values = F.array(*map(F.lit, _spellings(options))), F.map_values(image)
    holds = (F.array_contains(values, spelling) for spelling in _spellings(options))
    partial_ = F.coalesce(reduce(or_, holds), F.lit(False))

    def is_absent(_: Column, value: Column) -> Column:
        return F.array_contains(spellings, value)

    sent = F.map_filter(image, lambda name, value: ~F.coalesce(is_absent(name, value), F.lit(False)))
    names = F.map_keys(F.map_filter(image, is_absent))
    return F.when(partial_, sent).otherwise(image), F.when(partial_, names)


def _entries(events: DataFrame, options: Options) -> DataFrame:
    c = F.col
    op, source = c("op"), c("source")
    # Not among the other problems: there the position would be computed twice.
    unordered = op.isNotNull() & ((op != "m") | F.lit(options.messages is not None)) & c("position").isNull()
    bad = c("problem").isNotNull() | unordered
    message = (op == "m") & ~bad & F.lit(options.messages is not None)
    row = op.isin("c", "r", "u", "d", "t") & ~bad
    own = CONNECTORS[options.connector].own(source)
    columns = {
        "op": F.when(bad, "bad")
        .when(op.isin("c", "r") | message, "insert")
        .when(op == "u", "update")
        .when(op == "d", "delete")
        .when(op == "t", "truncate")
        .otherwise("control"),
        "kind": F.coalesce(op, c("status"), F.when(c("tombstone"), "tombstone").otherwise("heartbeat")),
        "source_table": F.when(row, c("table")).when(message, F.lit(options.messages)),
        "position": F.when(row | message, c("position")),
        "key": F.when(row & (op != "t"), c("k")).when(message, _map(connector=source["name"], lsn=own)),
        "prior_key": F.when(row & op.isin("c", "u"), c("old")),
        "before": F.when(row, c("before")),
        "after": F.when(row, c("after")).when(op == "m", _message(options, own)),
        "absent": F.when(row, c("absent")),
        "committed_at": time_of_millis(source["ts_ms"]),
        "message_schema": F.when(row, c("message_schema")).when(message, F.lit(_MESSAGE_SCHEMA)),
        "entry": F.lit(0),
        "problem": F.coalesce("problem", F.when(unordered, F.lit(CONNECTORS[options.connector].no_position))),
    }
    if options.transactions is not None:
        in_transaction, marker = c("transaction").isNotNull() & ~bad, c("status").isNotNull() & ~bad
        columns |= {
            "tx": F.when(in_transaction | marker, _transaction(options)),
            "tx_part": F.when(in_transaction, _identity(own, op)),
            "tx_ordinal": F.when(in_transaction, c("transaction.total_order")),
            "tx_end": F.when(marker, c("status") == "END"),
            "tx_count": F.when(marker, c("event_count")),
        }
    return as_changes(events, columns)


def _problem(event: dict[str, Column], options: Options) -> Column:
    """Why the record is no change and no control record; null when it is one, or lacks only its position."""
    e, op, source = event, event["op"], event["source"]
    connector = CONNECTORS[options.connector]
    heartbeat = F.col("topic").startswith("__debezium-heartbeat")
    control = heartbeat | (e["status"].isin("BEGIN", "END") & e["id"].isNotNull())
    no_table = source[connector.namespace].isNull() | source["table"].isNull() | (source["table"] == "")
    unordered = F.lit("source has no lsn: its place in the order is unknown")
    no_lsn = (op != "r") & source["lsn"].isNull() if options.connector == "postgresql" else F.lit(False)
    return F.coalesce(
        F.col("problem"),
        F.when(e["tombstone"], None)
        .when(
            is_broken(F.col("v")),
            F.lit(
                "key or value is not one of Debezium's: broken JSON, a field of another type, or it goes on behind it"
            ),
        )
        .when(
            op.isNull(),
            F.when(~F.coalesce(control, F.lit(False)), "the value has neither op nor status: not a Debezium event"),
        )
        .when(~op.isin("c", "r", "u", "d", "t", "m"), F.concat(F.lit("unknown op "), op))
        .when(op == "m", F.when(no_lsn, unordered) if options.messages else None)
        .when(no_table, F.lit(f"source names no {connector.namespace} and table"))
        .when(no_lsn, unordered)
        .when(op.isin("c", "r", "u") & e["after"].isNull(), F.concat(F.lit("no row in after, op "), op))
        .when((op == "d") & e["k"].isNull() & e["before"].isNull(), F.lit("a delete without key and without before"))
        .when(F.size(e["k"]) == 0, F.lit("the key has no column")),
    )


def _transaction(options: Options) -> Column:
    """The transaction's name: its number (3.x adds an LSN that differs from event to event); where there are several
    connectors also the connector's name, since each of them counts its own transactions."""
    number = F.coalesce(F.col("transaction.id"), F.col("id"))
    if options.connector == "postgresql":  # MySQL's GTIDs hold colons
        number = F.substring_index(number, ":", 1)
    if isinstance(options.transactions, str):
        return number
    of_marker = F.regexp_replace("topic", r"\.[^.]*$", "")
    return F.concat_ws(":", F.coalesce(F.col("source.name"), of_marker), number)


def _map(**columns: Column) -> Column:
    """A map of columns by name."""
    return F.create_map(*(part for name, value in columns.items() for part in (F.lit(name), value.cast("string"))))


def _message(options: Options, own: Column) -> Column:
    """A logical message as a row. Its content is base64 in every binary mode but one."""
    content = F.col("message.content")
    if options.binary == "hex":
        content = F.base64(F.try_to_binary(content, F.lit("hex")))
    return _map(
        connector=F.col("source.name"),
        lsn=own,
        prefix=F.col("message.prefix"),
        content=content,
        transactional=F.col("source.txId").isNotNull(),
        sent=F.col("source.ts_ms"),
    )


def _identity(own: Column, op: Column) -> Column:
    """What makes an event of a transaction distinct: topic, position, op and key, or without a key its number in it."""
    row = F.coalesce(F.to_json(F.col("k")), F.col("transaction.total_order").cast("string"))
    return F.concat_ws("|", F.col("topic"), own, op, row)
