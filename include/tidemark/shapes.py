"""How a table of a feed is shaped: key, columns and types, from the feed file, the messages and what is stored."""

from __future__ import annotations

from tidemark.columns import ColumnType
from tidemark.definitions import Definition
from tidemark.encodings import ENCODINGS
from tidemark.errors import SchemaError
from tidemark.feeds import Feed, Table
from tidemark.formats import load_format
from tidemark.profile import TableProfile
from tidemark.rows import TableShape


def shape_of(
    feed: Feed, found: TableProfile, told: Definition, stored: dict[str, str], stored_key: list[str]
) -> TableShape:
    """The shape a table has in this hour.

    Types come from the feed file, else from message schemas, else from what the stream ``told`` of the table, else from
    what is stored; a column that nobody types is text. SchemaError where two source tables or two keys meet in one
    published table.
    """
    if len(found.sources) > 1:
        raise SchemaError(
            f"the source's tables {' and '.join(found.sources)} would both be published under this name",
            mend="give one of them a name under tables in the feed file",
            feed=feed.feed,
            table=found.table,
        )
    declared = feed.tables.get(found.sources[0], Table())
    format_ = load_format(feed.format["type"])
    columns: dict[str, ColumnType] = dict(format_.column_types(declared.columns, feed.format_options))
    for schema in sorted(found.schemas):
        for name, kind in format_.message_types(schema).items():
            columns[name] = _agreed(feed, found.table, name, columns.get(name), kind, name in declared.columns)
    columns = {**told.columns, **columns}
    for name in sorted({name for names in found.columns for name in names}):
        columns.setdefault(name, ColumnType(stored.get(name, "string")))
    # A truncate carries no key: an hour of nothing else says nothing about it.
    key = tuple(stored_key) if found.only_truncates else _key(feed, found, declared, told)
    for name in key:
        columns.setdefault(name, ColumnType(stored.get(name, "string")))
    return TableShape(key, columns, {**ENCODINGS, **format_.ENCODINGS})


def _key(feed: Feed, found: TableProfile, declared: Table, told: Definition) -> tuple[str, ...]:
    if declared.key is not None:
        return tuple(declared.key)
    if told.key:
        return told.key
    if not found.keyed:
        return ()
    sent = {tuple(names) for names in found.keys if names}
    if len(sent) != 1:
        raise SchemaError(
            f"messages of one hour name different keys: {' and '.join(sorted(', '.join(k) for k in sent))}",
            mend="declare the key under tables in the feed file",
            feed=feed.feed,
            table=found.table,
        )
    return sent.pop()


def _agreed(
    feed: Feed, table: str, name: str, known: ColumnType | None, told: ColumnType, declared: bool
) -> ColumnType:
    """One type where the feed file and message schemas speak of a column: how to read it must be the same."""
    if known is None or known == told:
        return told
    if declared and known.encoding == told.encoding and known.arg == told.arg:
        return known
    if declared:
        return told
    if (known.encoding, known.arg) == (told.encoding, told.arg) == ("plain", None):
        wider = {("int", "bigint"), ("float", "double")}
        if (known.spark, told.spark) in wider:
            return told
        if (told.spark, known.spark) in wider:
            return known
    raise SchemaError(
        f"column {name} changes from {known.spark} to {told.spark} within the hour",
        mend="publish the table under another name from here on, or declare a type that holds both in the feed file",
        feed=feed.feed,
        table=table,
    )
