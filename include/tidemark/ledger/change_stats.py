"""Statistics of an hour's changes, table by table, from one pass over narrow columns: they decide what compact must do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.errors import SchemaError
from tidemark.formats.contract import REPLACES
from tidemark.identifiers import TIDEMARK
from tidemark.ledger.source_transactions import is_waited_for, loose_name, same_transaction, source_transaction

#: Columns of log rows: the names in ``key`` and in ``after``. They cost little to read; the images cost much.
IMAGE_NAMES = ("key_names", "after_names")
_BETWEEN = "\x1f"

#: No source has tables of more columns: more are a mistake, or an attack. A column stays once it is published.
MOST_COLUMNS = 2_000
_LONGEST_NAME = 255
#: Sets of names, and message schemas, that one table's rows of one hour may have.
_MOST_KINDS = 5_000


def image_names() -> list[Column]:
    """:data:`IMAGE_NAMES` of rows with images: one text each, how many and which, since few are distinct."""
    return [
        F.when(
            F.col(image).isNotNull(),
            F.concat_ws(_BETWEEN, F.size(image).cast("string"), F.map_keys(image)),
        ).alias(name)
        for image, name in zip(("key", "after"), IMAGE_NAMES, strict=True)
    ]


def names_in(text: str) -> list[str]:
    """The names in a text that :func:`image_names` made."""
    return [name for name in text.split(_BETWEEN)[1:] if name]


def unpublishable(text: str) -> str | None:
    """Why rows of these names cannot be published, for a person; None: they can."""
    count, *names = text.split(_BETWEEN)
    if count == "0":
        return None
    if int(count) > MOST_COLUMNS:
        return f"the row has {count} columns, more than {MOST_COLUMNS}"
    if len(names) != int(count):
        return "a column's name holds the control character U+001F"
    if "" in names:
        return "a column has no name"
    if too_long := [name for name in names if len(name) > _LONGEST_NAME]:
        return f"a column's name has {len(too_long[0])} characters, more than {_LONGEST_NAME}"
    if reserved := [name for name in names if name.lower() == TIDEMARK]:
        return f"a column is named {reserved[0]}, which Tidemark keeps for itself"
    return None


@dataclass(frozen=True)
class TableStats:
    """One table's changes of an hour. ``first``, ``last``: the lowest and the highest position; empty: no change.
    ``truncated``: the position of the newest row that empties the table, ``truncates``: how many truncates there are.
    ``reloaded``: where its newest reload stands, if the hour brings it, moves it or takes it back. ``loaded``: the highest
    position of a row that a full load has read, where messages show it; None: there is none.
    ``partial``: changes that lack columns; ``links``: of these, key changes, sent as an insert or as one update;
    ``moves``: updates that change their key. ``collisions``: keys onto which a row moved and which a row left later in
    the same transaction. ``arrived``, ``began``: of transactions that nothing waits for, when the newest with a key change
    committed, and when the oldest did; ``arrived_in``, ``began_in``: their names, of the last with a key change and of the
    first, where the source gives them. ``untied``: updates that name neither a key nor the row as it was
    before. ``keys``, ``columns``: distinct texts of :func:`image_names`. ``schemas``:
    distinct message schemas, each with the generation of its rows (see
    :attr:`tidemark.tables.table_history.Definitions.generation`)."""

    table: str
    sources: list[str]
    landed: int = 0
    released: int = 0
    first: str = ""
    last: str = ""
    truncated: str | None = None
    truncates: int = 0
    reloaded: str | None = None
    loaded: str | None = None
    keyed: int = 0
    partial: int = 0
    links: int = 0
    moves: int = 0
    collisions: int = 0
    arrived: datetime | None = None
    began: datetime | None = None
    arrived_in: str | None = None
    began_in: str | None = None
    untied: int = 0
    keys: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    schemas: list[tuple[str, int]] = field(default_factory=list)

    @property
    def emptied(self) -> str | None:
        """Before which place the hour's newest truncate or reload empties the table; None: it brings none."""
        return max(filter(None, (self.truncated, self.reloaded)), default=None)

    @property
    def only_truncates(self) -> bool:
        """Whether the hour brings the table no row at all."""
        return self.landed + self.released == self.truncates


def distinct(column: str, *more: Column) -> Column:
    """An aggregate: the distinct values of a column that are not null (with ``more``: structs), not too many of them;
    see :func:`bounded`."""
    value = F.struct(column, *more) if more else F.col(column)
    return F.slice(F.collect_set(F.when(F.col(column).isNotNull(), value)), 1, _MOST_KINDS + 1)


def bounded(table: str, found: Iterable[Any]) -> list[Any]:
    """What :func:`distinct` found, sorted. SchemaError where there are too many."""
    values = sorted(found)
    if len(values) > _MOST_KINDS:
        raise SchemaError(
            f"its rows come with more than {_MOST_KINDS} different sets of columns or message schemas",
            fix="no source changes its tables as often: find out what writes them, and take it off the feed's topics",
            table=table,
        )
    return values


def empties() -> Column:
    """Whether a log row ends what its table held before the row's position: a truncate, or the last row of a snapshot of
    the whole table."""
    return (F.col("op") == "truncate") | F.coalesce(F.array_contains("notes", REPLACES), F.lit(False))


def change_stats(rows: DataFrame, generation: Column | None = None, of_load: Column | None = None) -> list[TableStats]:
    """Statistics of all tables in assembled rows, by name: one Spark job that collects one row per table, and another one
    where keys change. ``of_load``: whether a full load has read a row; None: nothing shows it.

    SchemaError for a table with too many sets of columns or message schemas.
    """
    number = F.lit(0) if generation is None else generation
    lacking = F.coalesce(F.size("absent"), F.lit(0)) > 0
    moved = F.col("prior_key").isNotNull()
    alone, named = F.when(~is_waited_for(), F.col("committed_at")), loose_name()
    truncate, update = F.col("op") == "truncate", F.col("op") == "update"
    found = rows.groupBy("table").agg(
        F.sort_array(F.collect_set("source_table")).alias("sources"),
        F.count_if("landed_this_hour").alias("landed"),
        F.count_if(~F.col("landed_this_hour")).alias("released"),
        F.min("position").alias("first"),
        F.max("position").alias("last"),
        F.max(F.when(empties(), F.col("position"))).alias("truncated"),
        F.count_if(truncate).alias("truncates"),
        F.max(F.when(F.lit(False) if of_load is None else of_load, F.col("position"))).alias("loaded"),
        F.count_if(F.col("key").isNotNull()).alias("keyed"),
        F.count_if(lacking).alias("partial"),
        F.count_if(lacking & moved & F.col("op").isin("insert", "update")).alias("links"),
        F.count_if(moved & update).alias("moves"),
        F.count_if(moved).alias("key_changes"),
        F.max(F.when(moved, alone)).alias("arrived"),
        F.min(alone).alias("began"),
        F.max_by(named, F.when(moved & named.isNotNull(), F.col("position"))).alias("arrived_in"),
        F.min_by(named, F.when(named.isNotNull(), F.col("position"))).alias("began_in"),
        F.count_if(update & F.col("key").isNull() & F.col("before").isNull()).alias("untied"),
        distinct("key_names").alias("keys"),
        distinct("after_names").alias("columns"),
        distinct("message_schema", number.alias("generation")).alias("schemas"),
    )
    tables = [row.asDict() for row in found.collect()]
    moving = [row["table"] for row in tables if row.pop("key_changes")]
    collisions = _count_collisions(rows.where(F.col("table").isin(moving))) if moving else {}
    for row in tables:
        row["collisions"] = collisions.get(row["table"], 0)
        for name in ("keys", "columns", "schemas"):
            row[name] = bounded(row["table"], row[name])
    return sorted((TableStats(**row) for row in tables), key=lambda stats: stats.table)


def _count_collisions(rows: DataFrame) -> dict[str, int]:
    """Tables → the number of their keys that collide (see :mod:`tidemark.merge.colliding_keys`), by the keys' texts."""

    def text(key: str) -> Column:
        return F.to_json(F.array_sort(F.map_entries(key)))

    moved = F.col("prior_key").isNotNull() & (text("prior_key") != text("key"))
    arrived = rows.where(moved).select(
        "table",
        text("key").alias("at_key"),
        F.col("position").alias("arrived"),
        source_transaction().alias("arrived_in"),
    )
    leaving = F.when(F.col("op") == "delete", F.col("key")).when(moved & (F.col("op") == "update"), F.col("prior_key"))
    left = rows.withColumn("leaving", leaving).where("leaving is not null").select(
        "table", text("leaving").alias("at_key"), F.col("position").alias("left"), source_transaction().alias("left_in")
    )  # fmt: skip
    together = same_transaction(F.col("arrived_in"), F.col("left_in")) & (F.col("arrived") < F.col("left"))
    found = arrived.join(left, ["table", "at_key"]).where(together).groupBy("table")
    return {row["table"]: row["keys"] for row in found.agg(F.count_distinct("at_key").alias("keys")).collect()}
