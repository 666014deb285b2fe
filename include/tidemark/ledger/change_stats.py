"""Statistics of an hour's changes, table by table, from one pass over narrow columns: they decide what fold must do."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from tidemark.formats.contract import REPLACES
from tidemark.ledger.image_names import bounded, summarize
from tidemark.ledger.source_transactions import is_waited_for, source_transaction, transaction_name


@dataclass(frozen=True, kw_only=True)
class TableStats:
    """One table's changes of an hour, in numbers."""

    table: str
    """The published ``schema.table``."""
    sources: list[str]
    """The source's tables, as it names them, that the changes are of."""
    landed: int = 0
    """Changes that landed in the hour, truncates among them."""
    released: int = 0
    """Changes that an earlier hour held until now, truncates among them."""
    first: str = ""
    """The lowest position of the changes; empty: there is no change."""
    last: str = ""
    """The highest position of the changes; empty: there is no change."""
    truncated: str | None = None
    """The position of the newest row that empties the table (:func:`empties`); None: there is none."""
    truncates: int = 0
    """How many truncates there are."""
    reloaded: str | None = None
    """Where the table's newest reload stands, if the hour brings it, moves it or takes it back; empty: nowhere any more.
    None: the hour does none of this."""
    loaded: str | None = None
    """The highest place of a full load of which there are rows, where messages show it; None: there is none."""
    changed: str | None = None
    """The lowest position of the changes that no such load has read; None: there is none."""
    twice: bool = False
    """Whether rows without a key that such a load has read, and that end nothing, stand behind other rows of the hour: what
    the table had by then is there twice."""
    keyed: int = 0
    """Changes that come with a key."""
    partial: int = 0
    """Changes that lack columns."""
    links: int = 0
    """Of the changes that lack columns, key changes, sent as an insert or as one update."""
    moves: int = 0
    """Updates that change their key."""
    collisions: int = 0
    """Keys onto which a row moved and which a row left later in the same transaction."""
    loose_key_changes: int = 0
    """Key changes in transactions that nothing waits for."""
    leaving: int = 0
    """Deletes and key changes: what takes a row from its key."""
    arrived: datetime | None = None
    """When the newest transaction with a key change committed; None: there is none, or no message tells."""
    arrived_loose: datetime | None = None
    """The same, of transactions that nothing waits for."""
    began: datetime | None = None
    """When the oldest transaction committed; None: no message tells."""
    began_loose: datetime | None = None
    """The same, of transactions that nothing waits for."""
    arrived_in: str | None = None
    """The name of the last transaction with a key change; None: there is none, or the source gives none."""
    began_in: str | None = None
    """The name of the first transaction; None: the source gives none."""
    last_key_change: str | None = None
    """The position of the newest key change; None: there is none."""
    removing: int = 0
    """Deletes and updates."""
    untied: int = 0
    """Updates and deletes that come without the row as it was before."""
    keys: list[str] = field(default_factory=list)
    """All sets of key names, as texts of :func:`tidemark.ledger.image_names.image_names`."""
    columns: list[str] = field(default_factory=list)
    """Sets of column names that together hold them all, as such texts."""
    schemas: list[tuple[str, int]] = field(default_factory=list)
    """The distinct message schemas, each with the generation of its rows (see
    :attr:`tidemark.changelog.table_history.Definitions.generation`)."""
    unsaid: int = 0
    """Rows that come without a message schema."""
    unpublishable: bool = False
    """Whether there are rows that no table can have (:func:`tidemark.ledger.image_names.why_unpublishable`)."""

    @property
    def emptied(self) -> str | None:
        """Before which place the hour's newest truncate or reload empties the table; None: it brings none."""
        return max(filter(None, (self.truncated, self.reloaded)), default=None)

    @property
    def only_truncates(self) -> bool:
        """Whether the hour brings the table no row at all."""
        return self.landed + self.released == self.truncates


def schema_of(generation: Column) -> Column:
    """A row's message schema, with its generation."""
    return F.when(F.col("message_schema").isNotNull(), F.struct("message_schema", generation.alias("generation")))


def has_no_schema() -> Column:
    """Whether a log row brings images, and no message schema that says how they are written."""
    return F.col("message_schema").isNull() & (F.col("op") != "truncate")


def empties() -> Column:
    """Whether a log row ends what its table held before the row's position: a truncate, or the last row of a snapshot of
    the whole table."""
    return (F.col("op") == "truncate") | F.coalesce(F.array_contains("notes", REPLACES), F.lit(False))


def change_stats(rows: DataFrame, generation: Column | None = None, loaded: Column | None = None) -> list[TableStats]:
    """Statistics of all tables in assembled rows, by name: one Spark job that collects one row per table, and another one
    where keys change. ``loaded``: of a row that a full load has read, where that load stands; None: nothing shows it.

    SchemaError for a table with too many columns, keys or message schemas.
    """
    number, order = F.lit(0) if generation is None else generation, _Order.of_rows(F.lit(True))
    truncate, removing = F.col("op") == "truncate", F.col("op").isin("update", "delete")
    load = F.lit(None).cast("string") if loaded is None else loaded
    added = load.isNotNull() & F.col("key").isNull() & ~empties()
    found = summarize(
        rows,
        ["table"],
        number,
        counts={
            "landed": F.count_if("landed_this_hour"),
            "released": F.count_if(~F.col("landed_this_hour")),
            "truncates": F.count_if(truncate),
            "keyed": F.count_if(F.col("key").isNotNull()),
            "partial": F.count_if(_lacks_columns()),
            **order.counts,
            "removing": F.count_if(removing),
            "unsaid": F.count_if(has_no_schema()),
            "untied": F.count_if(removing & F.col("before").isNull()),
        },
        lowest={
            **order.lowest,
            "changed": F.min(F.when(load.isNull(), F.col("position"))),
            "beside": F.min(F.when(~added & F.col("op").isin("insert", "update"), F.col("position"))),
        },
        highest={
            **order.highest,
            "last": F.max("position"),
            "truncated": F.max(F.when(empties(), F.col("position"))),
            "loaded": F.max(load),
            "added": F.max(F.when(added, load)),
        },
        sets={
            "sources": F.col("source_table"),
            "keys": F.col("key_names"),
            "schemas": schema_of(number),
        },
    )
    tables = [row.asDict() for row in found.collect()]
    _finish_order(tables, rows)
    for row in tables:
        added_at, beside = row.pop("added"), row.pop("beside")
        row["twice"] = added_at is not None and beside is not None and beside < added_at
        row["columns"] = {one.after_names for one in row["columns"]}
        for name in ("sources", "keys", "columns", "schemas"):
            row[name] = bounded(row["table"], row[name])
    return sorted((TableStats(**row) for row in tables), key=lambda stats: stats.table)


@dataclass(frozen=True)
class _Order:
    """Aggregates of log rows that tell where changes stand in the source's order, and which rows rest on others."""

    counts: dict[str, Column]
    """Those that are added up over groups of rows."""
    lowest: dict[str, Column]
    """Those of which the lowest counts."""
    highest: dict[str, Column]
    """Those of which the highest counts."""

    @classmethod
    def of_rows(cls, these: Column) -> _Order:
        """Of those that ``these`` is true of."""
        moved, name = these & F.col("prior_key").isNotNull(), transaction_name()
        named = F.when(these & name.isNotNull(), F.struct("position", name.alias("name")))
        committed, loose = F.when(these, F.col("committed_at")), ~is_waited_for()
        return cls(
            counts={
                "links": F.count_if(_lacks_columns() & moved & F.col("op").isin("insert", "update")),
                "moves": F.count_if(moved & (F.col("op") == "update")),
                "key_changes": F.count_if(moved),
                "loose_key_changes": F.count_if(moved & loose),
                "leaving": F.count_if(moved | (these & (F.col("op") == "delete"))),
            },
            lowest={
                "first": F.min(F.when(these, F.col("position"))),
                "began": F.min(committed),
                "began_loose": F.min(F.when(loose, committed)),
                "began_in": F.min(named),
            },
            highest={
                "arrived": F.max(F.when(moved, committed)),
                "arrived_loose": F.max(F.when(moved & loose, committed)),
                "arrived_in": F.max(F.when(moved, named)),
                "last_key_change": F.max(F.when(moved, F.col("position"))),
            },
        )


def order_of(these: Column) -> Column:
    """An aggregate of log rows, for :func:`with_order`, of those that ``these`` is true of."""
    order = _Order.of_rows(these)
    values = {**order.counts, **order.lowest, **order.highest}
    return F.struct(*(value.alias(name) for name, value in values.items())).alias("order")


def with_order(stats: Iterable[TableStats], found: Mapping[str, Row], rows: DataFrame) -> list[TableStats]:
    """The statistics; those of tables that are ``found`` tell of the changes that are left in log ``rows`` alone where they
    stand, and which of them rest on others. ``found``: by table, what :func:`order_of` comes to. One Spark job where keys
    change, else none."""
    now = {table: {**order.asDict(), "table": table, "first": order.first or ""} for table, order in found.items()}
    _finish_order(now.values(), rows)
    return [replace(one, **now.get(one.table, {})) for one in stats]


def _finish_order(tables: Collection[dict[str, Any]], rows: DataFrame) -> None:
    """Turn what :class:`_Order` comes to into what :class:`TableStats` has: a dictionary for each ``table`` of ``rows``."""
    moving = [row["table"] for row in tables if row.pop("key_changes")]
    collisions = _count_collisions(rows.where(F.col("table").isin(moving))) if moving else {}
    for row in tables:
        row["collisions"] = collisions.get(row["table"], 0)
        for name in ("arrived_in", "began_in"):
            row[name] = row[name] and row[name].name


def _lacks_columns() -> Column:
    return F.coalesce(F.size("absent"), F.lit(0)) > 0


def _count_collisions(rows: DataFrame) -> dict[str, int]:
    """Tables → the number of their keys that collide (see :mod:`tidemark.fold.colliding_keys`), by the keys' texts."""

    def text(key: str) -> Column:
        return F.to_json(F.array_sort(F.map_entries(key)))

    moved = F.col("prior_key").isNotNull()
    arriving = F.when(moved & (text("prior_key") != text("key")), text("key"))
    leaving = F.when(F.col("op") == "delete", text("key")).when(moved & (F.col("op") == "update"), text("prior_key"))
    ends = F.array(
        F.struct(
            arriving.alias("at_key"), F.col("position").alias("arrived"), F.lit(None).cast("string").alias("left")
        ),
        F.struct(leaving.alias("at_key"), F.lit(None).cast("string").alias("arrived"), F.col("position").alias("left")),
    )
    # Outer, though there are always two: else Spark first makes all of them to ask whether there are any.
    both = rows.where(moved | (F.col("op") == "delete")).select(
        "table", source_transaction().alias("made_in"), F.explode_outer(ends).alias("end")
    )
    of_key = both.groupBy("table", "end.at_key", "made_in").agg(
        F.min("end.arrived").alias("arrived"), F.max("end.left").alias("left")
    )
    found = of_key.where("at_key is not null and made_in is not null and arrived < left").groupBy("table")
    return {row["table"]: row["keys"] for row in found.agg(F.count_distinct("at_key").alias("keys")).collect()}
