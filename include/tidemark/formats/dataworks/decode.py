"""Whole-database messages of Alibaba DataWorks (StreamX), as JSON: one row operation, statement or marker each.

Order is the message's own: ``sequenceId``, compared as a number however many digits it has. An update comes as one
message with both images, or as two messages with one sequenceId: the row before (here a delete of its key) and the row
after.
The row's types, key and table are in every message.
https://www.alibabacloud.com/help/en/dataworks/user-guide/message-formats
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Literal
from zoneinfo import available_timezones

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.containers.contract import holds_text
from tidemark.formats.contract import DeclaredFeed, as_changes, zero_padded
from tidemark.formats.dataworks.long_transactions import edge, edge_position, partners, retied, tied, unpaired
from tidemark.formats.dataworks.pairs import (
    FIRST,
    SECOND,
    in_pairs,
    is_half,
    is_second,
    pair_name,
    unknown_key,
    with_old_keys,
)
from tidemark.formats.dataworks.transactions import BEGIN, ENDS, assign_transactions
from tidemark.formats.dataworks.types import (
    CALENDAR_DATE,
    calendar_date,
    ddl_type,
    declared_type,
    default_texts,
    message_types,
)
from tidemark.formats.ddl import named_tables
from tidemark.formats.ddl.statements import INDEX_KINDS, OF_ONE_INDEX, read_ddl
from tidemark.formats.declared_keys import declared_key, key_names
from tidemark.values.columns import ColumnType
from tidemark.values.encodings import Encoding
from tidemark.values.strict_json import broken, one_document, repeats_name
from tidemark.values.table_changes import TableChange

__all__ = [
    "BY_NEIGHBOURS", "ENCODINGS", "Options", "column_types", "decode", "edge", "edge_position", "in_pairs", "message_types",
    "partners", "retied", "table_change", "tied", "unpaired",
]  # fmt: skip

_KEY = "map<string, string>"
_IMAGE = f"struct<dataColumn: {_KEY}>"
_VALUE = (
    "struct<schema: struct<dataColumn: array<struct<name: string, type: string>>, primaryKey: array<string>, "
    "source: struct<dbType: string, dbName: string, schemaName: string, tableName: string>>, "
    f"payload: struct<before: {_IMAGE}, after: {_IMAGE}, sequenceId: string, op: string, "
    "timestamp: struct<eventTime: string>, ddl: struct<text: string>>>"
)
_ROW_IDS = ("#alibaba_rds_row_id#", "__#alibaba_rds_row_id#__")
_DIGITS = 32
_ROWS = ("INSERT", FIRST, SECOND, "DELETE")
#: What shows the row before.
_SHOW_BEFORE = ("DELETE", FIRST)
_STATEMENTS = ("CREATE", "ALTER", "RENAME", "QUERY")
_EMPTIED = ("TRUNCATE", "ERASE")
_CONTROL = (BEGIN, *ENDS, *INDEX_KINDS, "GTID", "MHEARTBEAT")

ENCODINGS: dict[str, Encoding] = {CALENDAR_DATE: calendar_date}

BY_NEIGHBOURS = True


def _known_zone(value: str) -> str:
    if value not in available_timezones():
        raise ValueError("the name of a time zone, like Asia/Shanghai or UTC")
    return value


class Options(BaseModel):
    """Settings of the task that its messages do not show."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    transactions: bool = Field(
        True,
        description="The task sends TRANSACTION_BEGIN and TRANSACTION_END: a transaction is published whole or held. "
        "false, for a task that does not: an hour is then not sorted as a whole.",
    )
    dialect: Literal["mysql", "oracle", "postgres", "sqlserver"] = Field(
        "mysql", description="The SQL of DDL statements whose message names no database type that is known here."
    )
    zone: Annotated[str, AfterValidator(_known_zone)] | None = Field(
        None,
        description="The time zone of the source, like Asia/Shanghai: calendar dates come as its midnights. Needed where a "
        "column is declared as DATE.",
    )


def column_types(columns: Mapping[str, str], options: BaseModel) -> dict[str, ColumnType]:
    """Declared types; ValueError names the first that is not known, or is a date without a zone."""
    assert isinstance(options, Options)
    return {name: declared_type(written, options.zone) for name, written in columns.items()}


def table_change(text: str, options: BaseModel) -> TableChange | None:
    """The change of a table by the statement of a CREATE, ALTER, RENAME or QUERY. ValueError, with the statement, where
    it cannot be understood.

    It lists only columns whose type in messages is certain; the others come with the first row that has them.
    """
    assert isinstance(options, Options)
    entry = json.loads(text)
    dialect = entry.get("dialect") or options.dialect
    ddl = read_ddl(entry["text"], dialect, alters=entry["op"] in ("ALTER", *INDEX_KINDS))
    created = entry["op"] == "CREATE"
    if ddl is None:
        return TableChange(created=True) if created else None
    types = {name: ddl_type(written, dialect) for name, written in ddl.columns.items()}
    filled, unfilled = default_texts(ddl.filled, types, options.zone)
    return TableChange(
        columns={name: kind for name, kind in types.items() if kind is not None},
        # Without a primary key, rows may still bring the row id as their key.
        key=ddl.key or None,
        renamed=ddl.renamed,
        guarded=frozenset(ddl.guarded),
        if_missing=frozenset(ddl.if_missing),
        dropped=frozenset(ddl.dropped),
        whole=ddl.whole and None not in types.values(),
        created=created,
        swapped=ddl.swapped,
        filled=filled,
        unfilled={**ddl.unfilled, **unfilled},
    )


#: Why a value that cannot be parsed is refused.
_NOT_ONE = "the value is not one DataWorks message: broken JSON, a field of another type, or it goes on behind it"


def decode(records: DataFrame, feed: DeclaredFeed, options: BaseModel) -> DataFrame:
    """RECORDS → CHANGES; one row each. See :mod:`tidemark.formats.contract`."""
    assert isinstance(options, Options)
    parsed = records.select(
        "object", "record", "raw", "topic", "partition", "offset", "problem",
        F.col("value").isNull().alias("tombstone"),
        one_document(F.col("value").cast("string"), _VALUE, exact=True, checked=holds_text(records)).alias("v"),
    )  # fmt: skip
    v = F.col("v.d")
    schema, payload = v["schema"], v["payload"]
    source, event_time = schema["source"], payload["timestamp"]["eventTime"].try_cast("bigint")
    messages = parsed.select(
        "object", "record", "raw", "topic", "partition", "offset", "problem", "tombstone",
        F.lit(0).alias("entry"),
        broken(F.col("v"), _NOT_ONE).alias("broken"),
        payload["op"].alias("kind"),
        # Also of a message that cannot be decoded; not of a record that is no message of the feed.
        F.when(F.col("problem").isNull(), _position(payload["sequenceId"])).alias("position"),
        payload["sequenceId"].alias("sequence"),
        source.alias("source"),
        _table(source).alias("source_table"),
        F.array_distinct(F.array_compact(schema["primaryKey"])).alias("primary_key"),
        schema["dataColumn"].alias("listed"),
        payload["before"]["dataColumn"].alias("before"),
        payload["after"]["dataColumn"].alias("after"),
        payload["ddl"]["text"].alias("text"),
        named_tables.without_comments(payload["ddl"]["text"]).alias("statement"),
        F.timestamp_millis(F.when(event_time.between(-62_135_596_800_000, 253_402_300_799_999), event_time)).alias(
            "committed_at"
        ),
    )  # fmt: skip
    image = F.when(F.col("kind").isin(*_SHOW_BEFORE), F.col("before")).otherwise(F.col("after"))
    with_image = messages.withColumn("image", image)
    keyed = with_image.withColumn("names", key_names(_key_names(), declared_key(feed), F.col("image")))
    ordered = _with_transactions(keyed.withColumn("problem", F.coalesce("problem", _problem())), options)
    kind = F.when(F.col("problem").isNull(), F.col("kind"))
    mysql = F.coalesce(_family(F.col("source")) == "mysql", F.lit(False))
    concerned = named_tables.concerned_tables(
        kind, F.col("statement"), feed, database=F.col("source.dbName"), mysql=mysql
    )
    return _entries(named_tables.of_each_table(ordered.withColumn("concerned", concerned)))


def _with_transactions(messages: DataFrame, options: Options) -> DataFrame:
    """Adds ``marked``, ``around`` and ``old_key`` (see :func:`assign_transactions`), and problems that only the order
    shows."""
    good = F.col("problem").isNull()
    old_half = F.struct("position", "source_table", _key(F.col("image")).alias("key"))
    ordered = messages.withColumn("old_half", F.when(good & (F.col("kind") == FIRST), old_half))
    if options.transactions:
        marked = assign_transactions(ordered)
    else:
        none = {"marked": F.lit(None).cast("string"), "around": F.lit(None).cast(_KEY)}
        marked = with_old_keys(ordered).withColumns(none)
    alone = (F.col("kind") == "XAROLLBACK") & F.col("marked").isNull() & F.col("position").isNotNull()
    reason = (
        "XAROLLBACK stands right behind no transaction: nothing says which rows it takes back, and they stay published"
    )
    marked = marked.withColumn("problem", F.coalesce("problem", F.when(alone, F.lit(reason))))
    lost = is_second() & (F.size(_lacking()) > 0) & F.col("old_key").isNull()
    reason = (
        "the row after an update lacks columns, and the row before it is not in the hour: nothing says whose they were"
    )
    return marked.withColumn("problem", F.coalesce("problem", F.when(lost, F.lit(reason))))


def _lacking() -> Column:
    """The columns that the message lists and its row does not have."""
    return F.array_except(F.transform("listed", lambda column: column["name"]), F.map_keys("after"))


def _position(sequence: Column) -> Column:
    """A sequenceId as text that sorts like the number; null where it is none."""
    digits = F.ltrim(F.trim(sequence), F.lit("0"))
    return F.when(F.trim(sequence).rlike(r"^\d+\z") & (F.length(digits) <= _DIGITS), zero_padded(digits, _DIGITS))


def _table(source: Column) -> Column:
    """``database.table``, or ``database.schema.table`` where the source has schemas; null where no table is named."""
    # MySQL has none: a schema's name there is the database's again. OceanBase and PolarDB have some in Oracle's mode.
    kind = F.lower(source["dbType"])
    again = (
        kind.contains("mysql")
        | kind.contains("maria")
        | ((_family(source) == "mysql") & (source["schemaName"] == source["dbName"]))
    )
    schema = F.when(~F.coalesce(again, F.lit(False)), source["schemaName"])
    parts = F.filter(F.array(source["dbName"], schema, source["tableName"]), lambda part: part != "")
    return F.when((source["tableName"] != "") & (F.size(parts) > 1), F.array_join(parts, "."))


def _family(source: Column) -> Column:
    """The dialect of the source's database by its type; null where it is not known."""
    name = F.lower(source["dbType"])
    return (
        F.when(name.contains("oracle"), "oracle")
        .when(name.rlike("postgre|pg"), "postgres")
        .when(name.rlike("sql ?_?server"), "sqlserver")
        .when(name.rlike("mysql|maria|polardb|drds|oceanbase|tidb"), "mysql")
    )


def _key_names() -> Column:
    """The columns of the key that a message names: of the primary key, else the row id that the task adds; null: none."""
    c = F.col
    sent = F.map_keys("image")
    primary_key = F.array_except("primary_key", F.array(F.lit("")))
    oracle = F.lower(c("source.dbType")).contains("oracle")
    ids = F.filter(
        sent, lambda name: name.isin(*_ROW_IDS) | (F.coalesce(oracle, F.lit(False)) & (F.lower(name) == "rowid"))
    )
    return F.when(F.size(primary_key) > 0, primary_key).when(F.size(ids) > 0, F.slice(ids, 1, 1))


def _key(image: Column) -> Column:
    """The key's columns of an image, in the key's own order."""
    names = F.col("names")
    values = F.transform(names, lambda name: F.element_at(image, name))
    return F.when(names.isNotNull() & image.isNotNull(), F.map_from_arrays(names, values))


def _differs(one: str, other: str) -> Column:
    """Whether two images have different keys; null where the table has none."""
    return F.exists("names", lambda name: ~F.element_at(one, name).eqNullSafe(F.element_at(other, name)))


def _is_statement() -> Column:
    """Whether a message is a statement that may concern a table's columns or its key."""
    alters = ~F.coalesce(F.col("text").rlike(OF_ONE_INDEX), F.lit(True))
    return F.coalesce(F.col("kind").isin(*_STATEMENTS) | (F.col("kind").isin(*INDEX_KINDS) & alters), F.lit(False))


def _entries(messages: DataFrame) -> DataFrame:
    c = F.col
    kind, bad = c("kind"), c("problem").isNotNull()
    row = kind.isin(*_ROWS) & ~bad
    emptied = named_tables.empties(kind, c("statement")) & c("source_table").isNotNull() & ~bad
    statement = _is_statement() & c("source_table").isNotNull() & ~bad & ~emptied
    both = (kind == SECOND) & c("before").isNotNull()
    second, half = row & is_second(), kind.isin(*_ROWS) & is_half() & c("position").isNotNull()
    # The row after takes the columns that it lacks from the one that the row before deletes; and under another key than
    # before it may come onto one that is taken. Rows without a key come from none.
    other_key = F.coalesce(_differs("old_key", "after"), F.lit(False)) | (F.size(_lacking()) > 0)
    prior = F.when(c("old_key").isNull(), unknown_key()).when(other_key, c("old_key"))
    marked, pair = c("marked"), half & c("marked").isNull()
    # One that cannot be decoded holds the transaction that its place in the order is in.
    in_transaction = marked.isNotNull() & (row | emptied | bad)
    marker = marked.isNotNull() & kind.isin(BEGIN, *ENDS) & ~bad
    moved = _differs("before", "after")
    definition = F.to_json(F.struct(kind.alias("op"), c("text").alias("text"), _family(c("source")).alias("dialect")))
    columns = {
        "op": F.when(bad, "bad")
        .when((kind == "INSERT") | second, "insert")
        .when(kind == SECOND, "update")
        .when(kind.isin(*_SHOW_BEFORE), "delete")
        .when(emptied, "truncate")
        .when(statement, "schema")
        .otherwise("control"),
        "kind": F.coalesce(kind, F.when(c("tombstone"), F.lit("tombstone"))),
        "source_table": F.when(row | emptied | statement, c("source_table")),
        "position": F.when(row | emptied | statement | marker | bad, c("position")),
        "unbound": F.when(row | emptied | marker | bad, c("around")),
        "key": F.when(row, _key(c("image"))),
        "prior_key": F.when(row & both & F.coalesce(moved, F.lit(False)), _key(c("before"))).when(
            second & c("names").isNotNull(), prior
        ),
        "before": F.when(row & (kind != "INSERT"), c("before")),
        "after": F.when(row & kind.isin("INSERT", SECOND), c("after")),
        "absent": F.when(row & kind.isin("INSERT", SECOND), _lacking()),
        "tx": F.when(in_transaction | marker, marked).when(pair, pair_name()),
        # Nothing counts the rows: a transaction is complete when its begin and its end are there, in whatever hours.
        "tx_part": F.when(pair, kind).when(marker, F.when(kind == BEGIN, F.lit("begin")).otherwise(F.lit("end"))),
        # Rows without a key count once per delivery of the topic: the same position again begins another delivery.
        "tx_ordinal": F.when(row & c("names").isNull(), F.lit(1)),
        "tx_end": F.when(marker, kind != BEGIN).when(pair, kind == SECOND),
        "tx_count": F.when(pair | marker, F.lit(2)),
        "tx_rollback": F.when(marker & (kind == "XAROLLBACK"), F.lit(True)),
        "committed_at": c("committed_at"),
        "message_schema": F.when(row, F.to_json("listed")).when(statement, definition),
    }
    return as_changes(messages, columns)


def _problem() -> Column:
    """Why the record is no change and no control record; null when it is one."""
    c = F.col
    kind, text = c("kind"), c("text")
    row, statement = kind.isin(*_ROWS), _is_statement()
    known = kind.isin(*_ROWS, *_EMPTIED, *_STATEMENTS, *_CONTROL)
    image = F.when(kind.isin(*_SHOW_BEFORE), F.lit("before")).otherwise(F.lit("after"))
    no_table = c("source_table").isNull() & ~named_tables.drops_database(kind, c("statement"))
    missing = F.filter("names", lambda name: ~F.map_contains_key("image", name))
    before_key = F.filter("names", lambda name: ~F.map_contains_key("before", name))
    return (
        F.when(c("tombstone"), None)
        .when(c("broken").isNotNull(), c("broken"))
        .when(kind.isNull(), F.lit("payload.op is missing: not a DataWorks message"))
        .when(~known, F.concat(F.lit("unknown op "), F.substring(kind, 1, 200)))
        .when(kind.isin(*_CONTROL) & ~statement, None)
        .when(statement & F.coalesce(F.trim(text) == "", F.lit(True)), F.concat(F.lit("no ddl.text, op "), kind))
        .when(statement & no_table, named_tables.problem_without_table(c("statement")))
        .when(no_table, F.lit("schema.source names no database and table"))
        .when(
            c("position").isNull(),
            F.when(c("sequence").isNull(), F.lit("no sequenceId: its place in the order is unknown")).otherwise(
                F.lit(f"sequenceId is not a whole number of up to {_DIGITS} digits")
            ),
        )
        .when(row & c("image").isNull(), F.concat(F.lit("no row in "), image, F.lit(", op "), kind))
        .when(row & (F.size("image") == 0), F.concat(F.lit("no column in "), image))
        .when(row & repeats_name("before", "after"), F.lit("an image names a column twice"))
        .when(
            row & (F.size(missing) > 0),
            F.concat(F.lit("the row does not hold its key: "), F.array_join(missing, ", "), F.lit(" missing")),
        )
        .when(
            (kind == SECOND) & (F.size(before_key) > 0),
            F.lit("the row before the update does not hold its key"),
        )
    )
