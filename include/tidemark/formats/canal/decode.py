"""Canal's JSON messages of a MySQL binlog: an array of rows of one operation, or a DDL statement.

Order is the binlog's: ``ts`` (when Canal wrote the message), ``id`` (the number of its batch), the message's offset, and
the row's index in ``data``. :mod:`tidemark.formats.canal.positions` says why, and what there is without offsets.
https://github.com/alibaba/canal
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.containers.contract import holds_text
from tidemark.formats.canal.positions import MOMENT, WITHOUT_OFFSETS, row_position, with_positions
from tidemark.formats.canal.types import (
    ENUM_PLACE,
    JSON_TEXT,
    LATIN_BYTES,
    SET_BITS,
    default_text,
    enum_word,
    json_text,
    message_types,
    mysql_type,
    set_words,
    type_or_text,
)
from tidemark.formats.contract import DeclaredFeed, as_changes
from tidemark.formats.ddl.named_tables import (
    concerned_tables,
    drops_database,
    empties,
    problem_without_table,
    without_comments,
)
from tidemark.formats.ddl.statements import ALTERS_TABLE, INDEX_KINDS, read_ddl
from tidemark.formats.declared_keys import declared_key, key_names
from tidemark.values.columns import ColumnType
from tidemark.values.encodings import Encoding
from tidemark.values.strict_json import broken, one_document, repeats_name
from tidemark.values.table_changes import TableChange

__all__ = [
    "BY_NEIGHBOURS", "ENCODINGS", "MOMENT", "Options", "begins_again", "column_types", "decode", "gaps", "listed",
    "message_types", "shares_position", "table_change",
]  # fmt: skip

_VALUE = (
    "struct<data: array<map<string, string>>, old: array<map<string, string>>, database: string, table: string, "
    "isDdl: string, type: string, es: string, ts: string, id: string, sql: string, pkNames: array<string>, "
    "mysqlType: map<string, string>>"
)
_ROW_IDS = ("__#alibaba_rds_row_id#__", "#alibaba_rds_row_id#")
_ROWS = ("INSERT", "UPDATE", "DELETE")
_STATEMENTS = ("CREATE", "ALTER", "RENAME", "QUERY")
_EMPTIED = ("TRUNCATE", "ERASE")
_CONTROL = (*INDEX_KINDS, "GTID", "XACOMMIT", "MHEARTBEAT")
#: What takes rows back that were sent when their transaction was prepared.
_TAKEN_BACK = "XAROLLBACK"
_NUMBER = r"^\d{1,19}\z"


def latin_bytes(text: Column, spark: str, arg: str | None) -> Column:
    """Bytes as the characters of ISO 8859-1; null where a character is none of them. ``arg``: at least so many, with zeros at
    the end: MySQL's binlog leaves these out of a BINARY, and Canal does not put them back."""
    length = int(arg or 0)
    padded = F.rpad(text, F.greatest(F.length(text), F.lit(length)), F.lit("\0" * length)) if length else text
    return F.when(text.rlike(r"^[\x00-\xff]*\z"), F.encode(padded, "ISO-8859-1"))


ENCODINGS: dict[str, Encoding] = {
    LATIN_BYTES: latin_bytes, ENUM_PLACE: enum_word, SET_BITS: set_words, JSON_TEXT: json_text,
}  # fmt: skip

BY_NEIGHBOURS = True


class Options(BaseModel):
    """The format has no settings."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def column_types(columns: Mapping[str, str], options: BaseModel) -> dict[str, ColumnType]:
    """Declared MySQL types; ValueError names the first that is not known."""
    return {name: mysql_type(written) for name, written in columns.items()}


def table_change(text: str, options: BaseModel) -> TableChange | None:
    """The change of a table by a DDL statement. ValueError, with the statement, where it cannot be understood.

    A statement that is sent again has another place, and the same ``es``: the binlog's own time of it."""
    entry = json.loads(text)
    ddl, created = read_ddl(entry["text"], "mysql"), entry["op"] == "CREATE"
    if ddl is None:
        return TableChange(created=True) if created else None
    return TableChange(
        columns={name: type_or_text(written) for name, written in ddl.columns.items()},
        # Without a primary key, rows may still bring the row id as their key.
        key=ddl.key or None,
        renamed=ddl.renamed,
        guarded=frozenset(ddl.guarded),
        if_missing=frozenset(ddl.if_missing),
        dropped=frozenset(ddl.dropped),
        whole=ddl.whole,
        known_by=text if "es" in entry else None,
        created=created,
        swapped=ddl.swapped,
        filled={name: default_text(value) for name, value in ddl.filled.items()},
        unfilled=ddl.unfilled,
    )


def shares_position(options: BaseModel) -> Column:
    """Equal messages of one batch share their position: see :mod:`tidemark.formats.canal.positions`."""
    return F.lit(True)


def listed() -> Column:
    """Those of ``mysqlType``; see :class:`tidemark.formats.contract.SharesMoments`. Canal sends statements to the first
    partition, and the rows of their batch and millisecond to any."""
    return F.json_object_keys("message_schema")


def gaps(options: BaseModel) -> list[str]:
    """What MySQL leaves out of the binlog; see :class:`tidemark.formats.contract.KnowsGaps`."""
    return [
        "columns: unless `binlog_row_image` is FULL, MySQL leaves out what an update does not change, and Canal's messages "
        "do not say so: a column that is left out counts as null, and an update without its key goes to quarantine",
        "documents: where `binlog_row_value_options` is PARTIAL_JSON, MySQL logs of some updates what changes in a JSON "
        "column, and Canal does not send the document: such an update goes to quarantine. Leave the option empty",
        "rows that MySQL before 9.6 deletes or alters by a foreign key (ON DELETE CASCADE, SET NULL): they are not in the "
        "binlog, and stay in their tables as they were",
        "statements on other topics: where Canal has a topic for each table or database (`canal.mq.dynamicTopic`), RENAME "
        "TABLE goes to that of the first new name (for gh-ost `_t_del`), and what names no table (DROP DATABASE, a statement "
        "that Canal cannot parse) to `canal.mq.topic`: have the feed read these topics too",
    ]


def begins_again(last: Mapping[str, Column]) -> Column:
    """A delivery counts its rows upwards."""
    return F.col("tx_ordinal") <= last["tx_ordinal"]


#: Why a value that cannot be parsed is refused.
_NOT_ONE = "the value is not one Canal message: broken JSON, a field of another type, or it goes on behind it"


def decode(records: DataFrame, feed: DeclaredFeed, options: BaseModel) -> DataFrame:
    """RECORDS → CHANGES; one row for each element of ``data``. See :mod:`tidemark.formats.contract`."""
    parsed = records.select(
        "object", "record", "raw", "topic", "partition", "offset", "problem",
        F.col("value").isNull().alias("tombstone"),
        F.xxhash64("value").alias("content"),
        one_document(F.col("value").cast("string"), _VALUE, exact=True, checked=holds_text(records)).alias("v"),
    )  # fmt: skip
    v = F.col("v.d")
    es = F.trim(v["es"])
    named = (v["database"] != "") & (v["table"] != "")
    messages = parsed.select(
        "object", "record", "raw", "topic", "partition", "offset", "problem", "tombstone", "content",
        broken(F.col("v"), _NOT_ONE).alias("broken"),
        v["type"].alias("kind"),
        v["database"].alias("database"),
        F.when(named, F.concat_ws(".", v["database"], v["table"])).alias("source_table"),
        es.alias("es"),
        _digits(v["ts"]).alias("ts"),
        _digits(v["id"]).alias("batch"),
        F.timestamp_millis(_millis(es)).alias("committed_at"),
        F.array_except(F.array_compact(v["pkNames"]), F.array(F.lit(""))).alias("primary_key"),
        v["mysqlType"].alias("types"),
        v["sql"].alias("sql"),
        without_comments(v["sql"]).alias("statement"),
        v["isDdl"].alias("ddl"),
        v["data"].alias("data"),
        v["old"].alias("old"),
    )  # fmt: skip
    # All rows of a message have the same columns.
    key = key_names(F.col("primary_key"), declared_key(feed), F.get("data", F.lit(0)))
    keyed, container = messages.withColumn("primary_key", key), feed.container["type"]
    judged = keyed.withColumns(
        {
            "problem": F.coalesce("problem", _message_problem(container in WITHOUT_OFFSETS)),
            "placed": F.coalesce(F.col("ts").rlike(_NUMBER) & F.col("batch").rlike(_NUMBER), F.lit(False)),
        }
    )
    good = F.col("problem").isNull()
    kind = F.when(good, F.col("kind"))
    concerned = concerned_tables(kind, F.col("statement"), feed, database=F.col("database"))
    statements = judged.withColumns(
        {"empties": good & empties(F.col("kind"), F.col("statement")), "concerned": concerned}
    )
    ordered = with_positions(statements, container)
    has_rows = good & F.col("kind").isin(*_ROWS)
    rows = F.transform("data", lambda row, i: F.struct(row.alias("row"), F.get("old", i).alias("old")))
    nothing = F.array(F.struct(F.lit(None).cast("map<string, string>").alias("row"),
                               F.lit(None).cast("map<string, string>").alias("old")))  # fmt: skip
    others = [name for name in ordered.columns if name not in ("data", "old")]
    # Outer, though there is always one: else Spark first makes all of them to ask whether there are any.
    each = ordered.select(
        *others, F.posexplode_outer(F.when(has_rows, rows).otherwise(nothing)).alias("row", "element")
    )
    row_problem = F.when(F.col("kind").isin(*_ROWS), _row_problem())
    images = each.select(
        *(name for name in others if name not in ("problem", "entry")),
        (F.col("entry") + F.col("row")).alias("entry"),  # one of them is 0
        F.coalesce("problem", row_problem).alias("problem"),
        F.col("element.row").alias("image"),
        F.col("element.old").alias("changed"),
        _key_names(F.col("element.row")).alias("names"),
    )  # fmt: skip
    return _entries(images)


def _millis(es: Column) -> Column:
    """``es`` in milliseconds; some producers give seconds."""
    number = es.try_cast("bigint")
    millis = F.when(F.length(es) <= 10, number * 1000).otherwise(number)
    return F.when(millis.between(0, 253_402_300_799_999), millis)


def _digits(number: Column) -> Column:
    """A number's digits; 0 where there is none."""
    return F.coalesce(F.nullif(F.trim(number), F.lit("")), F.lit("0"))


def _key_names(row: Column) -> Column:
    """The columns of the row's key: those of the primary key, else the row id that MySQL on Alibaba Cloud adds."""
    primary_key = F.array_distinct("primary_key")
    ids = F.filter(F.map_keys(row), lambda name: name.isin(*_ROW_IDS))
    return F.when(F.size(primary_key) > 0, primary_key).when(F.size(ids) > 0, F.slice(ids, 1, 1))


def _is_statement() -> Column:
    """Whether a message is a statement that may concern a table's columns or its key."""
    alters = F.coalesce(F.col("sql").rlike(ALTERS_TABLE), F.lit(False))
    return F.coalesce(F.col("kind").isin(*_STATEMENTS) | (F.col("kind").isin(*INDEX_KINDS) & alters), F.lit(False))


def _entries(rows: DataFrame) -> DataFrame:
    c = F.col
    kind, bad = c("kind"), c("problem").isNotNull()
    row, update = kind.isin(*_ROWS) & ~bad, kind == "UPDATE"
    emptied = c("empties") & c("source_table").isNotNull() & ~bad
    statement = _is_statement() & c("source_table").isNotNull() & ~bad & ~emptied
    image, changed, names = c("image"), c("changed"), c("names")

    def was(name: Column) -> Column:
        return F.when(F.map_contains_key(changed, name), F.element_at(changed, name)).otherwise(
            F.element_at(image, name)
        )

    def key(value: Column) -> Column:
        return F.when(names.isNotNull(), F.map_from_arrays(names, value))

    # Rows without a key of one delivery are told apart by their ordinal, or else by their place.
    keyless, counted = row & names.isNull(), c("keyless_ordinal").isNotNull()
    place = F.when(keyless, c("keyless_place")).otherwise(c("place"))
    entry = F.when(keyless & counted, F.lit(0)).otherwise(c("entry"))
    every = F.coalesce(F.array_union(F.map_keys(image), F.map_keys(changed)), F.map_keys(image))
    moved = F.exists(names, lambda name: ~was(name).eqNullSafe(F.element_at(image, name)))
    columns = {
        "op": F.when(bad, "bad").when(row, F.lower(kind)).when(emptied, "truncate").when(statement, "schema")
        .otherwise("control"),
        "kind": F.coalesce(kind, F.when(c("tombstone"), F.lit("tombstone"))),
        "source_table": F.when(row | emptied | statement, c("source_table")),
        "position": F.when(row | emptied | statement, row_position(place, entry)),
        "key": F.when(row, key(F.transform(names, lambda name: F.element_at(image, name)))),
        "prior_key": F.when(row & update & F.coalesce(moved, F.lit(False)), key(F.transform(names, was))),
        "before": F.when(row & update, F.map_from_arrays(every, F.transform(every, was))).when(
            row & (kind == "DELETE"), image
        ),
        "after": F.when(row & kind.isin("INSERT", "UPDATE"), image),
        "absent": F.when(
            row & kind.isin("INSERT", "UPDATE"),
            F.coalesce(F.array_except(F.map_keys("types"), F.map_keys(image)), F.array()),
        ),
        # Rows without a key count once per delivery of the topic: the same position again with no higher ordinal begins
        # another delivery.
        "tx_ordinal": F.when(keyless, F.coalesce(c("keyless_ordinal") + c("entry"), F.lit(1))),
        "committed_at": c("committed_at"),
        "message_schema": F.when(row, F.to_json("types")).when(
            statement,
            F.to_json(F.struct(kind.alias("op"), c("sql").alias("text"), F.nullif("es", F.lit("0")).alias("es"))),
        ),
        "problem": c("problem"),
    }  # fmt: skip
    return as_changes(rows, columns)


def _message_problem(without_offsets: bool) -> Column:
    """Why a message is neither rows nor statement nor control record; null when it is one."""
    c = F.col
    kind = c("kind")
    no_table = c("source_table").isNull() & ~drops_database(kind, c("statement"))
    known = kind.isin(*_ROWS, *_STATEMENTS, *_EMPTIED, *_CONTROL)
    statement = _is_statement()
    return (
        F.when(c("tombstone"), None)
        .when(c("broken").isNotNull(), c("broken"))
        .when(kind.isNull(), F.lit("type is missing: not a Canal message"))
        .when(
            kind == _TAKEN_BACK,
            F.lit(
                "a prepared transaction is rolled back, and nothing says which rows were its: they stay published, so load "
                "the tables anew that it may have written"
            ),
        )
        .when(~known, F.concat(F.lit("unknown type "), F.substring(kind, 1, 200)))
        .when(kind.isin(*_CONTROL) & ~statement, None)
        # The text of a statement whose rows come beside it (parseRowsQueryEvent): what else it may be says that it is DDL.
        .when((kind == "QUERY") & (c("ddl") == "false"), None)
        .when(statement & F.coalesce(F.trim("sql") == "", F.lit(True)), F.concat(F.lit("no sql, type "), kind))
        .when(statement & no_table, problem_without_table(c("statement")))
        .when(no_table, F.lit("database and table are not both named"))
        .when(
            ~(F.coalesce("es", F.lit("0")).rlike(_NUMBER) & c("ts").rlike(_NUMBER) & c("batch").rlike(_NUMBER)),
            F.lit("es, ts or id is not a whole number of up to 19 digits"),
        )
        .when(
            F.lit(without_offsets) & (c("ts") == "0"), F.lit("no ts, and no offset: its place in the order is unknown")
        )
        .when(kind.isin(*_ROWS) & (F.coalesce(F.size("data"), F.lit(0)) <= 0), F.lit("no row in data"))
        .when(
            (kind == "UPDATE") & _misses_old(),
            F.lit("`old` has not as many rows as `data`: which row each is of is unknown"),
        )
    )


def _misses_old() -> Column:
    """Whether the rows before an update are not those of its rows after, where it matters: Canal of before 1.1.7 left out a
    row of which no column changed that it sends. A row with a key that stays the same is known without."""
    key, old = F.col("primary_key"), F.col("old")
    moves = F.exists(old, lambda row: F.arrays_overlap(F.map_keys(row), key))
    return (F.size(old) != F.size("data")) & (
        (F.coalesce(F.size(key), F.lit(0)) <= 0) | F.coalesce(moves, F.lit(False))
    )


def _row_problem() -> Column:
    """Why an element of ``data`` is no row; null when it is one."""
    row, old = F.col("element.row"), F.col("element.old")
    names = _key_names(row)
    missing = F.filter(names, lambda name: ~F.map_contains_key(row, name))
    return (
        F.when(row.isNull() | (F.size(row) == 0), F.lit("an element of data is no row"))
        .when(repeats_name(row, old), F.lit("an image names a column twice"))
        .when(
            F.size(missing) > 0,
            F.concat(F.lit("the row does not hold its key: "), F.array_join(missing, ", "), F.lit(" missing")),
        )
    )
