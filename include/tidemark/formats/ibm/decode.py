"""IBM Q Replication and Event Publishing: delimited change-data records from Db2.

A record is a header of 12 fields, then the before and the after values of all columns in column-id order. Names and
types are not in it: the feed declares them. A message holds one record or many, and a transaction one message or
many: segments 0001 … n, then 0000. Rules: IBM, *Structure of delimited messages for Event Publishing*.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pydantic import BaseModel, Field
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.containers.code_pages import CodePage, code_page, is_text, text_of
from tidemark.containers.ibm_records import Layout, PageName, bytes_of, split_records, view_of
from tidemark.containers.objects import dealt_out, tasks_at_once
from tidemark.errors import ConfigError
from tidemark.formats.contract import DeclaredFeed, DeclaredTable, as_changes, zero_padded
from tidemark.formats.ibm.deliveries import ONLY_ENDS, deliveries
from tidemark.formats.ibm.fields import header_field, lsn, segment, source_table, tokens_of, unit
from tidemark.formats.ibm.images import fits, key_of, lacks_key, not_sent, notes, with_images
from tidemark.formats.ibm.index import in_their_messages, in_their_objects
from tidemark.formats.ibm.problems import problem
from tidemark.formats.ibm.types import ENCODINGS, column_type, family
from tidemark.values.columns import ColumnType

__all__ = [
    "BY_NEIGHBOURS", "ENCODINGS", "ONLY_ENDS", "Options", "column_types", "decode", "deliveries", "gaps", "message_types",
]  # fmt: skip

BY_NEIGHBOURS = False

# Containers that do not show how change-data records were put into messages.
_WITHOUT_MESSAGES = ("raw", "lines")
_OPS = {"ISRT": "insert", "REPL": "update", "DLET": "delete"}


class Options(Layout):
    """How the publishing queue map writes messages."""

    decimal_character: str = Field(".", description="Between the whole and the fraction of a number.")
    source_code_page: PageName | None = Field(
        None,
        description="Of the source's character data: what Q Capture could not convert comes in hexadecimal of its bytes. "
        "Default: such columns count as not sent.",
    )

    @property
    def source_page(self) -> CodePage | None:
        """The code page of ``source_code_page``."""
        return code_page(self.source_code_page) if self.source_code_page else None


def column_types(columns: Mapping[str, str], options: BaseModel) -> dict[str, ColumnType]:
    """Declared Db2 types; ValueError names the first that is not known."""
    assert isinstance(options, Options)
    return {name: column_type(written, options.decimal_character) for name, written in columns.items()}


def gaps(options: BaseModel) -> list[str]:
    """What a publication leaves out by default; see :class:`tidemark.formats.contract.KnowsGaps`."""
    return [
        "columns that an update does not change: a publication sends changed columns only unless it is told otherwise "
        "(CHANGED_COLS_ONLY in IBMQREP_SUBS), and nothing between two delimiters is read as null: set it to N",
        "values of before a change: a publication sends those of key columns only unless it is told otherwise "
        "(BEFORE_VALUES in IBMQREP_SUBS), and a table that has no `key` in the feed file finds its rows by them, so that "
        "rows that are updated or deleted stay beside the new ones: set it to Y, or declare the key",
    ]


def message_types(schema: str, options: BaseModel) -> dict[str, ColumnType]:
    """Records carry no schema of their own: the feed declares columns and types."""
    return {}


def decode(records: DataFrame, feed: DeclaredFeed, options: BaseModel) -> DataFrame:
    """RECORDS → CHANGES, one row per change-data record. See :mod:`tidemark.formats.contract`.

    ConfigError when the feed's declarations cannot be used: a table without columns, a key that is no column, a
    container with other delimiters.
    """
    assert isinstance(options, Options)
    _check(feed, options)
    entries = _entries(records, feed, options)
    return _changes(_with_table(_with_header(_with_tokens(entries, options), options), feed), options)


def _check(feed: DeclaredFeed, options: Options) -> None:
    for name, table in feed.tables.items():
        fix = f"name its columns with their Db2 types, in column-id order, under tables.{name}.columns"
        if not table.columns:
            raise ConfigError(
                "messages do not name columns, and the feed declares none", fix=fix, feed=feed.feed, table=name
            )
        lists = [table.columns, *table.earlier_columns]
        if strange := [key for key in table.key or [] if any(key not in columns for columns in lists)]:
            raise ConfigError(f"key columns {strange} are no columns of the table", fix=fix, feed=feed.feed, table=name)
    if feed.container["type"] == "raw":
        for key in Layout.model_fields:
            if getattr(feed.container_options, key) != getattr(options, key):
                raise ConfigError(
                    f"container and format differ in {key}", fix="give both blocks the same value", feed=feed.feed
                )


def _entries(records: DataFrame, feed: DeclaredFeed, options: Options) -> DataFrame:
    """One row per change-data record: `entry`, its bytes as `own` (null where there are none), `message` and `index`."""
    container = feed.container["type"]
    readable = F.when(F.col("problem").isNull(), F.col("value").cast("binary"))
    keyed = [name for name, table in feed.tables.items() if table.key]
    if container == "raw":  # whose values are its raw bytes: they are carried once
        own = F.when(F.col("problem").isNull(), F.col("raw"))
        records = records.drop("value").withColumn("entry", F.lit(0))
        indexed = in_their_objects(records, own, options, keyed)
        # What is found in each record takes longer than to find its index, for which an object must be in one task.
        several = tasks_at_once(records.sparkSession) > 1
        return (dealt_out(indexed) if several else indexed).withColumn("own", own)
    pieces = split_records(view_of(readable), options)
    if container not in _WITHOUT_MESSAGES:
        return in_their_messages(records, pieces, options)
    entries = records.select("*", F.posexplode_outer(pieces).alias("entry", "view")).select(
        *records.columns, F.coalesce("entry", F.lit(0)).alias("entry"), bytes_of(F.col("view")).alias("own")
    )
    return in_their_objects(entries, F.col("own"), options, keyed)


def _with_tokens(entries: DataFrame, options: Options) -> DataFrame:
    """`text`, and its fields as sent: `tokens`, with string delimiters. `whole`: the tokens are all of the text."""
    own = F.col("own")
    return (
        entries.withColumn("text", text_of(own, options.page))
        .withColumn("is_text", is_text(own, F.col("text"), options.page))
        .withColumn("tokens", tokens_of(F.col("text"), options))
        .withColumn("whole", F.array_join("tokens", options.column_delimiter) == F.col("text"))
    )


def _with_header(rows: DataFrame, options: Options) -> DataFrame:
    """Adds the header's fields that are used, each null when it is malformed."""
    tokens = F.col("tokens")

    def field(position: int) -> Column:
        return header_field(tokens, position, options)

    return rows.select(
        "*",
        F.when(field(1).rlike(r"^\d+\z"), field(1)).isNotNull().alias("typed"),
        field(2).alias("identifier"),
        source_table(tokens, options).alias("source_table"),
        field(7).alias("kind"),
        unit(tokens, options).alias("unit"),
        lsn(tokens, options).alias("lsn"),
        field(10).alias("commit_time"),
        F.try_to_timestamp(F.concat(field(10), F.lit("Z")), F.lit("yyyy-MM-dd-HH.mm.ssXXX")).alias("committed_at"),
        segment(tokens).alias("segment"),
    )


def _with_table(rows: DataFrame, feed: DeclaredFeed) -> DataFrame:
    """Adds what the feed declares for the row's table, null for a table that it does not declare.

    `names` of columns, their `families`, the `keys`, and `times`, the columns that hold times of day. Of several lists
    of columns, the one that has as many columns as the record has values; `widths`: how many columns each list has.
    """

    def declared(table: DeclaredTable, columns: Iterable[str]) -> Column:
        families = {name: family(table.all_columns[name]) for name in columns}
        lists: dict[str, Sequence[str]] = {
            "names": list(families),
            "families": list(families.values()),
            "keys": table.key or [],
            "times": [name for name, of in families.items() if of == "time"],
        }
        literals = {name: F.array(*[F.lit(text) for text in texts]) for name, texts in lists.items()}
        return F.struct(*(array.cast("array<string>").alias(name) for name, array in literals.items()))

    by_name = F.create_map(
        *(
            part
            for name, table in feed.tables.items()
            for part in (F.lit(name), F.array(*(declared(table, c) for c in (table.columns, *table.earlier_columns))))
        )
    )
    kind = "struct<names: array<string>, families: array<string>, keys: array<string>, times: array<string>>"
    found = F.try_element_at(by_name.cast(f"map<string, array<{kind}>>"), F.col("source_table"))
    of_record = F.filter(F.col("lists"), lambda columns: fits(F.size(columns["names"])))
    return (
        rows.withColumn("lists", found)
        .withColumn("declared", F.coalesce(F.get(of_record, F.lit(0)), F.get("lists", F.lit(0))))
        .withColumn("widths", F.transform("lists", lambda columns: F.size(columns["names"])))
        .select(*rows.columns, "widths", "declared.*")
    )


def _changes(rows: DataFrame, options: Options) -> DataFrame:
    """The columns of CHANGES from a record's fields, its table's declaration and its index."""
    c = F.col
    keyed = F.size("keys") > 0
    changes = (
        with_images(rows, options, options.source_page)
        .withColumn("lacks_key", keyed & (lacks_key(c("image")) | (c("has_before") & lacks_key(c("before_image")))))
        .withColumn("lacks_column", ~keyed & _lacks_column())
        .withColumn("no_before", ~keyed & (c("kind") == "REPL") & ~c("has_before"))
        .withColumn("unseen", ~keyed & (c("kind") != "ISRT") & F.array_contains("families", "lob"))
        .withColumn("problem", F.coalesce("problem", problem(options)))
        .withColumn("good", c("problem").isNull())
    )
    before, after = F.when(c("kind") != "ISRT", c("before_image")), F.when(c("kind") != "DLET", c("after_image"))
    old, new = key_of(c("before_image")), key_of(c("image"))
    moved = (c("kind") == "REPL") & ~lacks_key(c("before_image")) & ~old.eqNullSafe(new)
    of_change = {
        "key": F.when(keyed, F.map_from_arrays("keys", new)),
        "prior_key": F.when(keyed & moved, F.map_from_arrays("keys", old)),
        "before": before,
        "after": after,
        "absent": not_sent(),
        "notes": notes(options.source_code_page),
    }
    given = {
        "op": F.coalesce(*(F.when(c("good") & (c("kind") == kind), op) for kind, op in _OPS.items()), F.lit("bad")),
        **_order_and_transaction(),
        **{name: F.when(c("good"), value) for name, value in of_change.items()},
    }
    return as_changes(changes, given)


def _lacks_column() -> Column:
    """Whether an image of the change lacks a column that its table has."""
    return F.coalesce(F.size(not_sent("image")) > 0, F.lit(False)) | F.coalesce(
        F.size(not_sent("before_image")) > 0, F.lit(False)
    )


def _order_and_transaction() -> dict[str, Column]:
    """Position and transaction, also of a bad record whose header has them. The last segment, 0000, sorts last."""
    c, final = F.col, F.col("segment") == "0000"
    segment = F.when(final, F.lit("99999")).otherwise(zero_padded("segment", 5))
    columns = {
        # Last, the unit of work: with data sharing the commit LSN is a time, which two members can share.
        "position": F.concat_ws(".", "lsn", segment, zero_padded(c("index").cast("string"), 6), "unit"),
        # A unit of work's identifier can be used again, but not with the same commit LSN.
        "tx": F.concat("unit", F.lit("@"), "lsn"),
        "tx_part": F.when(~final, c("segment")),
        "tx_ordinal": c("segment").cast("bigint"),  # the last segment has 0, which asks for no other part
        "tx_end": final,
    }
    return {name: F.when(c("message").isNotNull(), column) for name, column in columns.items()}
