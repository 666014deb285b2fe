"""What a feed's stream has said of its tables so far: the entries of op ``schema`` in the change log, in order.

They are few, and all of them are looked at whenever rows are read, of whatever hour they are: so a row means the same
in whichever order hours are run. A column's old name, in rows from before it was renamed, is read as its new one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.columns import ColumnType
from tidemark.errors import SchemaError
from tidemark.feeds import Feed
from tidemark.formats import load_format
from tidemark.formats.contract import SchemaEntry
from tidemark.profile import IMAGE_NAMES, image_names


@dataclass(frozen=True)
class Definition:
    """One table, as the stream tells it. ``renames``: (position, old, new), oldest first."""

    columns: Mapping[str, ColumnType] = field(default_factory=dict)
    key: tuple[str, ...] | None = None
    renames: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True)
class Definitions:
    """Of all of a feed's tables, by their source's name. ``entries``: what they were read from."""

    entries: Sequence[SchemaEntry] = ()
    tables: Mapping[str, Definition] = field(default_factory=dict)

    def of(self, source_table: str) -> Definition:
        """What is known of one table; nothing, where the stream has said nothing."""
        return self.tables.get(source_table, Definition())


def load_definitions(entries: DataFrame, feed: Feed) -> Definitions:
    """Log entries → Definitions. What is collected is metadata. A format that sends none costs nothing.

    SchemaError for what cannot be understood, unless the feed file declares the table's columns: then that counts.
    """
    format_ = load_format(feed.format["type"])
    if not hasattr(format_, "table_change"):
        return Definitions()
    told = entries.where(F.col("op") == "schema").select(
        "source_table", "position", F.col("message_schema").alias("text")
    )
    listed = [SchemaEntry(*row) for row in told.distinct().orderBy("source_table", "position", "text").collect()]
    tables: dict[str, Definition] = {}
    for entry in listed:
        try:
            tables[entry.source_table] = _after(tables.get(entry.source_table, Definition()), entry, feed)
        except ValueError as error:
            declared = feed.tables.get(entry.source_table)
            if declared is None or not declared.columns:
                raise SchemaError(
                    str(error),
                    mend=f"declare the table's columns as they are now under tables.{entry.source_table}.columns in the "
                    "feed file: then that counts, and not this",
                    feed=feed.feed,
                    table=entry.source_table,
                ) from None
    return Definitions(listed, tables)


def _after(known: Definition, entry: SchemaEntry, feed: Feed) -> Definition:
    change = load_format(feed.format["type"]).table_change(entry.text, feed.format_options)
    if change is None:
        return known
    if moved := set(change.renamed) & set(known.key or ()):
        raise ValueError(f"a column of the key is renamed: {', '.join(sorted(moved))}")
    kept = {
        change.renamed.get(name, name): kind
        for name, kind in known.columns.items()
        if not change.whole and name not in change.dropped
    }
    return Definition(
        kept | dict(change.columns),
        known.key if change.key is None else change.key,
        known.renames + tuple((entry.position, old, new) for old, new in change.renamed.items()),
    )


def with_definitions(rows: DataFrame, definitions: Definitions, feed: Feed) -> DataFrame:
    """Log rows completed by what the stream has said: same columns. ``problem`` is set where that cannot be done."""
    columns, format_ = rows.columns, load_format(feed.format["type"])
    if hasattr(format_, "bind"):
        bound = format_.bind(rows, definitions.entries, feed, feed.format_options)
        rows = _with_names(bound, columns)
    renames = [(table, *rename) for table, known in definitions.tables.items() for rename in known.renames]
    if not renames:
        return rows

    def new_name(name: Column) -> Column:
        found = name
        for table, position, old, new in renames:
            before = (F.col("source_table") == table) & (F.col("position") < position)
            found = F.when(before & (found == old), F.lit(new)).otherwise(found)
        return found

    images = {
        name: F.transform_keys(name, lambda column, _: new_name(column)).alias(name)
        for name in ("key", "prior_key", "before", "after")
    }
    images["absent"] = F.transform("absent", new_name).alias("absent")
    return _with_names(rows.select(*(images.get(name, F.col(name)) for name in columns)), columns)


def _with_names(rows: DataFrame, columns: list[str]) -> DataFrame:
    """The columns of log rows, with the names in their images told anew."""
    names = dict(zip(IMAGE_NAMES, image_names(), strict=True))
    return rows.select(*(names.get(name, F.col(name)) for name in columns))
