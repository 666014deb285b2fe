"""Debezium's change events, 1.9 to 3.x, as JSON with or without message schemas: PostgreSQL, and others (Oracle's from 2.5).

Order is the source's own: ``source.sequence`` (LSN of the last commit before this one), then LSN. Topic offsets change
with redelivery and are no part of a position. A value that was not in the log arrives as the
unavailable placeholder and is *absent*, not a value. https://debezium.io/documentation/reference/connectors/postgresql
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.containers.contract import holds_text
from tidemark.formats.contract import REPLACES, DeclaredFeed, as_changes
from tidemark.formats.debezium import placing
from tidemark.formats.debezium.equal_rows import LAST, begins_again, place_in_read, read_of_load
from tidemark.formats.debezium.infinities import declared_ways, infinite_columns, without
from tidemark.formats.debezium.keys import IMAGE, declared_keys, names_old_key, old_key, own_shape, whole
from tidemark.formats.debezium.sources import CONNECTORS, COUNTED_ANEW, INCREMENTAL, has_no_number
from tidemark.formats.debezium.transactions import identity, outside, transaction
from tidemark.formats.debezium.types import ENCODINGS, declared_type, told_types
from tidemark.formats.debezium.unavailable import placeholder, without_unavailable, without_unchanged
from tidemark.values.columns import ColumnType
from tidemark.values.encodings import OR_SPAN, TIMES, time_of_millis
from tidemark.values.strict_json import broken, one_document

__all__ = [
    "BY_NEIGHBOURS", "ENCODINGS", "LOADS_HAVE_PLACES", "Options", "awaits_place", "begins_again", "column_types", "decode",
    "gaps", "gives_place", "message_types", "of_load", "of_whole_load", "own_place", "place", "read_of_load",
    "shares_position",
]  # fmt: skip

BY_NEIGHBOURS = False
LOADS_HAVE_PLACES = True

_EVENT = (
    f"before: {IMAGE}, after: {IMAGE}, op: string, ts_ms: bigint, "
    "source: struct<version: string, ts_ms: bigint, name: string, snapshot: string, schema: string, table: string, %s>, "
    "transaction: struct<id: string, total_order: bigint>, message: struct<prefix: string, content: string>, "
    "status: string, id: string, event_count: bigint, "
    "data_collections: array<struct<data_collection: string, event_count: bigint>>"
)
_MEMBERS = (
    "before", "after", "op", "ts_ms", "source", "transaction", "message", "status", "id", "event_count", "data_collections",
)  # fmt: skip
#: With message schemas the event is the `payload`, without them the value itself: one schema reads both.
_VALUE = f"struct<{_EVENT}, schema: string, payload: struct<{_EVENT}>>"
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
        "(decimal.format=NUMERIC), which are then read digit by digit. Where message schemas are sent, only numeric needs to "
        "be said.",
    )
    binary: Literal["bytes", "base64", "hex"] = Field("bytes", description="The connector's binary.handling.mode.")
    times: Literal["adaptive", "adaptive_time_microseconds", "connect", "microseconds", "nanoseconds"] | None = Field(
        None,
        description="The connector's time.precision.mode. null: its default, which is adaptive, and "
        "adaptive_time_microseconds for mysql. Not needed where message schemas are sent.",
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
    infinities: Literal["quarantine", "null"] = Field(
        "quarantine",
        description="PostgreSQL's `infinity` in a date or timestamp, which no table can hold: it waits in quarantine; or the "
        "column is null, and a note in the change log names it. A column that is declared as text holds it.",
    )
    unavailable: str = Field(
        "__debezium_unavailable_value",
        min_length=1,
        description="The connector's unavailable.value.placeholder, as it is written there: also `hex:` and digits.",
    )

    @field_validator("unavailable")
    @classmethod
    def _has_bytes(cls, written: str, info: ValidationInfo) -> str:
        placeholder(written, info.data.get("connector", ""))
        return written


def column_types(columns: Mapping[str, str], options: BaseModel) -> dict[str, ColumnType]:
    """Declared PostgreSQL types; ValueError names the first that is not known."""
    assert isinstance(options, Options)
    connector = CONNECTORS[options.connector]
    of_connector = partial(
        declared_type, decimals=options.decimals, binary=options.binary, times=options.times or connector.times,
        digits=connector.digits, unwritten=connector.unwritten,
    )  # fmt: skip
    return _with_spans({name: of_connector(written) for name, written in columns.items()}, options)


def message_types(schema: str, options: BaseModel) -> dict[str, ColumnType]:
    """Column types of a row event by its own schema; empty when the text is none."""
    assert isinstance(options, Options)
    return _with_spans(told_types(schema, decimals=options.decimals), options)


def _with_spans(types: dict[str, ColumnType], options: Options) -> dict[str, ColumnType]:
    """The types, where times of day are also spans of MySQL's."""
    if options.connector != "mysql":
        return types
    return {name: replace(kind, arg=OR_SPAN) if kind.encoding in TIMES else kind for name, kind in types.items()}


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
            exact=options.decimals == "numeric", checked=holds_text(records),
        ).alias("v"),
        old_key(F.col("headers"), checked=holds_text(records)).alias("old"),
        names_old_key(F.col("headers")).alias("moved"),
    )  # fmt: skip
    return _entries(_events(parsed, feed, options), feed, options)


def gaps(options: BaseModel) -> list[str]:
    """What the connector leaves out or in doubt; see :class:`tidemark.formats.contract.KnowsGaps`."""
    assert isinstance(options, Options)
    truncates = (
        "TRUNCATE: the connector leaves it out, and the table keeps its rows, unless `skipped.operations` is `none`"
    )
    statements = (
        "rows that come or go with no change of their own: a table that is dropped and made again, or renamed, and "
        "partitions that are dropped, attached, exchanged or switched: `tidemark reload` with a new snapshot after that"
    )
    skips = "`event.processing.failure.handling.mode`" + (
        " and `inconsistent.schema.handling.mode`" if options.connector == "mysql" else ""
    )
    skipped = (
        f"changes that the connector cannot read, where {skips} is not `fail`, its default: it leaves them out, and rows "
        "stay as they were"
    )
    connector = CONNECTORS[options.connector]
    counts = [COUNTED_ANEW] if connector.counts_anew and options.transactions is not None else []
    return [truncates, statements, skipped, *connector.gaps, *counts]


def awaits_place(options: BaseModel, until: str) -> Column:
    """Whether a log row's place depends on the snapshots of the log. See :mod:`tidemark.formats.debezium.placing`."""
    return placing.first_after_snapshot() | (F.col("position") <= until) if _has_lsns(options) else F.lit(False)


def gives_place(options: BaseModel) -> Column:
    """Whether a log row is one of a snapshot that rows may be placed behind, or of the first transaction after one."""
    return placing.of_snapshot() | placing.first_after_snapshot() if _has_lsns(options) else F.lit(False)


def own_place(options: BaseModel) -> Column:
    """What the position of a log row keeps, wherever it is placed."""
    return placing.own_place() if _has_lsns(options) else F.col("position")


def place(rows: DataFrame, log: DataFrame, options: BaseModel) -> DataFrame:
    """Log rows with their places among all of the log."""
    return placing.place(rows, log) if _has_lsns(options) else rows


def of_load() -> Column:
    """Whether a log row was read by a snapshot, of whatever kind."""
    return placing.read_by_snapshot()


def of_whole_load() -> Column:
    """An incremental snapshot may read a part of its table. So may an ad-hoc one, which messages do not show."""
    return F.coalesce(F.col("kind") == "r", F.lit(False))


def shares_position(options: BaseModel) -> Column:
    """The rows that PostgreSQL's COPY writes into one page share an LSN; those of one redo record of Oracle share their
    place, where the connector does not number them."""
    assert isinstance(options, Options)
    if options.connector == "oracle":
        return F.col("kind").isin("c", "u", "d") & has_no_number(F.col("position"))
    return (F.col("kind") == "c") & F.lit(_has_lsns(options))


def _has_lsns(options: BaseModel) -> bool:
    assert isinstance(options, Options)
    return options.connector == "postgresql"


def _events(parsed: DataFrame, feed: DeclaredFeed, options: Options) -> DataFrame:
    """The event's members as columns, with or without a message schema around them; ``table``, ``position`` and
    ``problem``, and whether the container could read the record (``readable``); the images without values that were not
    sent, whose names are in ``absent``."""
    v, v_key, payload = F.col("v.d"), F.col("v.k"), F.col("v.d.payload")
    event = {name: F.coalesce(v[name], payload[name]) for name in _MEMBERS}
    connector, source, schemas = CONNECTORS[options.connector], event["source"], payload.isNotNull()
    event |= {
        "readable": F.col("problem").isNull(),
        "tombstone": F.col("v").isNull(),
        "message_schema": F.when(schemas, v["schema"]),
        "k": own_shape(v_key),
        "old": F.when(F.col("moved"), whole(F.col("old"), own_shape(v_key))),
        "table": F.concat(source[connector.namespace], F.lit("."), source["table"]),
    }
    event["k"], event["old"] = declared_keys(event, feed)
    # The halves of a key change have one position.
    number = event["transaction"]["total_order"] - F.col("moved").cast("int")
    known = number if options.transactions is not None else F.lit(None).cast("bigint")
    event["position"] = connector.numbered(source, known, keyed=event["k"].isNotNull())
    word = placeholder(options.unavailable, options.connector)
    updated = ((event["op"] == "u") | F.col("moved")) & event["before"].isNull()
    event["sent"], event["absent"] = without_unavailable(event["after"], word, updated=updated)
    if connector.null_if_unchanged:
        keyed = (event["op"] == "u") & event["k"].isNotNull()
        before = F.when(keyed, event["before"])
        event["sent"], event["absent"] = without_unchanged(event["sent"], event["absent"], before)
    if not connector.whole_before:
        # A row without a key is found by its image before.
        keyless = F.when(event["k"].isNull(), event["before"])
        _, unknown = without_unavailable(keyless, word, updated=F.lit(False))
        event["absent"] = F.when(unknown.isNull(), event["absent"]).otherwise(unknown)
    problem = _problem(event, options)
    event["after"] = event.pop("sent")
    event |= _infinities(event, feed, options)
    members = (column.alias(name) for name, column in event.items())
    return parsed.select("object", "record", "raw", "topic", "partition", "offset", problem.alias("problem"), *members)


def _infinities(event: dict[str, Column], feed: DeclaredFeed, options: Options) -> dict[str, Column]:
    """The images with nulls for infinite dates and timestamps, where the feed says so, and the columns of ``after`` that had
    one (``infinite``)."""
    if options.infinities == "quarantine":
        return {}
    types = {source: column_types(table.columns, options) for source, table in feed.tables.items()}
    found = {
        name: infinite_columns(event[name], event["message_schema"], event["table"], declared_ways(types))
        for name in ("before", "after")
    }
    images = {name: without(event[name], columns) for name, columns in found.items()}
    return images | {"infinite": F.coalesce(found["after"], F.array().cast("array<string>"))}


def _entries(events: DataFrame, feed: DeclaredFeed, options: Options) -> DataFrame:
    c = F.col
    op, source = c("op"), c("source")
    # Not among the other problems: there the position would be computed twice.
    unordered = op.isNotNull() & ((op != "m") | F.lit(options.messages is not None)) & c("position").isNull()
    bad = c("problem").isNotNull() | unordered
    message = (op == "m") & ~bad & F.lit(options.messages is not None)
    row = op.isin("c", "r", "u", "d", "t") & ~bad
    own = CONNECTORS[options.connector].own(source)
    at_once = ("c", "u", "d") if options.connector == "oracle" else ("c",)  # see shares_position
    columns = {
        "op": F.when(bad, "bad")
        .when(op.isin("c", "r") | message, "insert")
        .when(op == "u", "update")
        .when(op == "d", "delete")
        .when(op == "t", "truncate")
        .otherwise("control"),
        "kind": F.coalesce(
            F.when(source["snapshot"] == INCREMENTAL, INCREMENTAL),
            op,
            c("status"),
            F.when(c("tombstone"), "tombstone").otherwise("heartbeat"),
        ),
        "source_table": F.when(row, c("table")).when(message, F.lit(options.messages)),
        "position": F.when(row | message, c("position")),
        "key": F.when(row & (op != "t"), c("k")).when(message, _map(connector=source["name"], lsn=own)),
        "prior_key": F.when(row & op.isin("c", "u"), c("old")),
        "before": F.when(row, c("before")),
        "after": F.when(row, c("after")).when(op == "m", _message(options, own)),
        "absent": F.when(row, c("absent")),
        "notes": _notes(row, (op == "r") & row & _replaces(source, c("k"), options), options),
        "tx_part": F.when(row & (op != "r"), CONNECTORS[options.connector].together(source)),
        "committed_at": time_of_millis(source["ts_ms"]),
        "message_schema": F.when(row, c("message_schema")).when(message, F.lit(_MESSAGE_SCHEMA)),
        # When it was sent, or its place in the snapshot's read of the table.
        "tx_ordinal": F.when(
            row & c("k").isNull(), F.when(op.isin(*at_once), c("ts_ms")).when(op == "r", place_in_read(source))
        ),
        "entry": F.lit(0),
        "problem": F.coalesce("problem", F.when(unordered, F.lit(CONNECTORS[options.connector].no_position))),
    }
    if options.transactions is not None:
        # Also of an event that cannot be decoded, where it says so: its transaction then lacks nothing but what is bad.
        in_transaction, marker = c("readable") & c("transaction.id").isNotNull(), c("status").isNotNull() & ~bad
        part = identity(own, op, numbered=CONNECTORS[options.connector].one_place(source))
        # What a bad event does not hold cannot tell it from another one.
        part = F.when(bad, F.concat_ws("|", part, c("transaction.total_order"))).otherwise(part)
        columns |= {
            # By its place a copy of a bad event is told.
            "position": F.when(row | message | (bad & in_transaction), c("position")),
            "tx": F.when(in_transaction | marker, transaction(options.transactions, feed, options.connector)),
            "tx_part": F.when(in_transaction, part).otherwise(columns["tx_part"]),
            "tx_ordinal": F.when(in_transaction, c("transaction.total_order"))
            .when(marker, outside(c("data_collections"), feed, options.transactions))
            .otherwise(columns["tx_ordinal"]),
            "tx_end": F.when(marker, c("status") == "END"),
            "tx_count": F.when(marker, c("event_count")),
        }
    return as_changes(events, columns)


def _notes(row: Column, replaces: Column, options: Options) -> Column:
    if options.infinities == "quarantine":
        return F.when(replaces, F.array(F.lit(REPLACES)))
    taken = F.transform("infinite", lambda name: F.concat(name, F.lit(" is infinite: published as null")))
    notes = F.concat(F.when(replaces, F.array(F.lit(REPLACES))).otherwise(F.array().cast("array<string>")), taken)
    return F.when(row & (F.size(notes) > 0), notes)


def _replaces(source: Column, key: Column, options: Options) -> Column:
    """Whether a row is the last that a snapshot read of its table: all older rows of the table are gone then.

    Of a table without a key it is every row that a snapshot read, for only so they are not counted twice. Incremental and
    ad-hoc snapshots may read a part of a table: PostgreSQL's say so, or name the commit before them.
    """
    marker = source["snapshot"]
    found = marker.isin("true", "first", "first_in_data_collection", *LAST) & key.isNull()
    if _has_lsns(options):
        whole = ~F.coalesce(source["sequence"].startswith('["'), F.lit(False))
        found = (found | marker.isin(*LAST)) & whole
    return F.coalesce(found, F.lit(False))


def _problem(event: dict[str, Column], options: Options) -> Column:
    """Why the record is no change and no control record; null when it is one, or lacks only its position."""
    e, op, source = event, event["op"], event["source"]
    connector = CONNECTORS[options.connector]
    heartbeat = F.col("topic").startswith("__debezium-heartbeat")
    # A flattened row (ExtractNewRecordState) may have columns id and status: END always counts its transaction's events.
    marker = (e["status"] == "BEGIN") | ((e["status"] == "END") & e["event_count"].isNotNull())
    control = heartbeat | (marker & e["id"].isNotNull())
    no_table = source[connector.namespace].isNull() | source["table"].isNull() | (source["table"] == "")
    unread = broken(
        F.col("v"),
        "key or value is not one of Debezium's: broken JSON, a field of another type, or it goes on behind it",
    )
    unordered = F.lit("source has no lsn: its place in the order is unknown")
    no_lsn = (op != "r") & source["lsn"].isNull() if options.connector == "postgresql" else F.lit(False)
    return F.coalesce(
        F.col("problem"),
        F.when(e["tombstone"], None)
        .when(unread.isNotNull(), unread)
        .when(
            op.isNull(),
            F.when(
                ~F.coalesce(control, F.lit(False)),
                "the value has no op and is no BEGIN or END: not a Debezium event",
            ),
        )
        .when(~op.isin("c", "r", "u", "d", "t", "m"), F.concat(F.lit("unknown op "), op))
        .when(op == "m", F.when(no_lsn, unordered) if options.messages else None)
        .when(no_table, F.lit(f"source names no {connector.namespace} and table"))
        .when(no_lsn, unordered)
        .when(op.isin("c", "r", "u") & e["after"].isNull(), F.concat(F.lit("no row in after, op "), op))
        .when((op == "d") & e["k"].isNull() & e["before"].isNull(), F.lit("a delete without key and without before"))
        .when(
            F.col("moved") & e["old"].isNull() & (F.size(e["absent"]) > 0),
            F.lit(
                "header __debezium.oldkey is no JSON object in UTF-8: the values that were not sent are under a key that is "
                "unknown"
            ),
        )
        .when(F.size(e["k"]) == 0, F.lit("the key has no column")),
    )


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
