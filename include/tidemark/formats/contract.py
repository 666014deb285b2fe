"""What every format hands to the pipeline: CHANGES, one row per change, control entry or undecodable record.

Each format is a module, and the module is a :class:`Format`. A format whose stream describes its tables (metadata
messages, DDL) gives entries of op ``schema`` for that; its module then also :class:`TellsTableChanges`, and perhaps
:class:`BindsRows`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from pydantic import BaseModel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.identifiers import quote
from tidemark.values.columns import ColumnType
from tidemark.values.encodings import Encoding
from tidemark.values.table_changes import TableChange


class DeclaredTable(Protocol):
    """What decoders read of a table in a feed file."""

    @property
    def topic(self) -> str | None:
        """The topic that carries the table, where messages do not name their table."""

    @property
    def key(self) -> Sequence[str] | None:
        """The key columns; empty: the table has no key; None: messages tell the key."""

    @property
    def columns(self) -> Mapping[str, str]:
        """Columns with the source's types, in the source's order."""

    @property
    def earlier_columns(self) -> Sequence[Mapping[str, str]]:
        """The columns the table had before each change of it."""

    @property
    def all_columns(self) -> Mapping[str, str]:
        """The columns, and those that only earlier records have."""


class DeclaredFeed(Protocol):
    """What decoders read of a feed file."""

    @property
    def feed(self) -> str:
        """The feed's name, for messages to people."""

    @property
    def topics(self) -> Sequence[str]:
        """The topics whose exports are read."""

    @property
    def tables(self) -> Mapping[str, DeclaredTable]:
        """Tables by their source's schema.table."""

    @property
    def undeclared(self) -> str:
        """What becomes of tables that the feed file does not name: ``publish`` or ``quarantine``."""

    @property
    def container(self) -> Mapping[str, Any]:
        """The ``container`` block: ``type`` and the container's own options."""

    @property
    def container_options(self) -> BaseModel:
        """The ``container`` block as the container's own model."""


@dataclass(frozen=True)
class SchemaEntry:
    """One entry of op ``schema``."""

    source_table: str
    """Its table, ``schema.table`` as the source names it."""
    position: str
    """Its place in the source's order: text that sorts."""
    text: str
    """What describes the table: the entry's ``message_schema``, in the format's own way."""
    partition: int | None = None
    """The partition of its topic. None: its container does not tell."""


#: The note of a row that ends what its table held before the row's position, as a truncate there would: the last row of a
#: snapshot that read the whole table.
REPLACES = "the end of a snapshot of its table: what stood there before is gone"
#: Behind the place of a load, before what tells which of several loads read a row later. It sorts behind the ``#`` of sort
#: keys, and before the ``+`` behind which a reload stands.
LOADED_AT = "*"

_IMAGE = T.MapType(T.StringType(), T.StringType())

#: One row per entry of a record.
CHANGES = T.StructType(
    [
        # what the entry is: insert, update, delete, truncate, schema (describes its table from its position on),
        # control (no row: tombstone, marker, heartbeat …) or bad
        T.StructField("op", T.StringType()),
        T.StructField("kind", T.StringType()),  # the source's own word for it: c, ISRT, END …
        T.StructField("source_table", T.StringType()),  # schema.table as the source names it
        # its position in the source's order: text that sorts (fixed width). Null only for control and bad.
        T.StructField("position", T.StringType()),
        # images: column name -> value as text, exactly as sent. A column sent as null is there with a null value;
        # one that was *not sent* is named in `absent`; one in neither does not exist in the source at that time.
        T.StructField("key", _IMAGE),  # null: keyless
        # the old key, on the new row of a key change. Empty: there may be another one, and it is not known
        T.StructField("prior_key", _IMAGE),
        T.StructField("before", _IMAGE),
        T.StructField("after", _IMAGE),
        T.StructField("absent", T.ArrayType(T.StringType())),
        # transaction: complete when an entry with tx_end has come, and the distinct tx_part values are at least
        # max(tx_count) and at least max(tx_ordinal). All null: complete by itself. On a control entry without tx_part,
        # tx_ordinal is how many of the transaction's changes are of tables that the feed does not read: they are not
        # waited for. Without tx, tx_part is the source's name of a transaction of which nothing tells when it is whole:
        # nothing waits for it, but keys that collide in it are told by it. Without tx, tx_ordinal of a row without a key
        # tells deliveries apart: see SharesPositions, MarksLoads.
        T.StructField("tx", T.StringType()),
        T.StructField("tx_part", T.StringType()),
        T.StructField("tx_ordinal", T.LongType()),
        T.StructField("tx_end", T.BooleanType()),
        T.StructField("tx_count", T.LongType()),
        T.StructField("tx_rollback", T.BooleanType()),  # with tx_end: the source rolled the whole transaction back
        T.StructField("committed_at", T.TimestampType()),
        # the message's own schema, where it carries one: JSON text (one per table version; few distinct values)
        T.StructField("message_schema", T.StringType()),  # op schema: the metadata or the DDL statement
        T.StructField("unbound", _IMAGE),  # what `bind` needs to complete the row: the format's own
        # flags for people: taken as not sent, impossible time …; REPLACES also says what the row does
        T.StructField("notes", T.ArrayType(T.StringType())),
        # where it came from
        T.StructField("object", T.StringType()),
        T.StructField("record", T.LongType()),
        T.StructField("entry", T.IntegerType()),
        T.StructField("topic", T.StringType()),
        T.StructField("partition", T.IntegerType()),
        T.StructField("offset", T.LongType()),
        T.StructField("problem", T.StringType()),  # op bad: why, for a person
        # the record's bytes exactly: the log keeps them for op bad alone
        T.StructField("raw", T.BinaryType()),
    ]
)


class Format(Protocol):
    """The functions and constants that a format's module has.

    The first paragraph of its docstring is the format's description in the feed reference.
    """

    @property
    def Options(self) -> type[BaseModel]:
        """The model of the feed's ``format`` block (without ``type``)."""

    @property
    def BY_NEIGHBOURS(self) -> bool:
        """Whether records are understood by those around them: ``decode`` then gets all of an hour, whichever are wanted."""

    @property
    def ENCODINGS(self) -> Mapping[str, Encoding]:
        """The format's own encodings of text, by the name that its ColumnTypes carry."""

    def decode(self, records: DataFrame, feed: DeclaredFeed, options: BaseModel, /) -> DataFrame:
        """RECORDS (see :mod:`tidemark.containers.contract`) to CHANGES, lazily, as Spark expressions.

        Every record gives at least one row; nothing is dropped. A record may give many rows (``entry`` counts from 0).
        One that cannot be decoded gives one row with op ``bad``, ``problem`` for a person, and ``raw``.
        """

    def column_types(self, columns: Mapping[str, str], options: BaseModel, /) -> dict[str, ColumnType]:
        """How the text of the feed's declared source types becomes values (:mod:`tidemark.values.columns`).

        ValueError for a type that the format does not know. Pure, no Spark session needed.
        """

    def message_types(self, schema: str, options: BaseModel, /) -> dict[str, ColumnType]:
        """Column types by the ``message_schema`` of row entries; empty where the format sends none. Pure."""


@runtime_checkable
class TellsTableChanges(Protocol):
    """A format whose stream describes its tables, in entries of op ``schema``."""

    def table_change(self, text: str, options: BaseModel, /) -> TableChange | None:
        """The change of a table that the ``message_schema`` of an entry of op ``schema`` describes.

        None: nothing that matters here. ValueError, for a person, where it cannot be understood: the table then stops.
        Pure.
        """


@runtime_checkable
class BindsRows(Protocol):
    """A format whose rows can only be completed by schema entries, perhaps of another hour."""

    def bind(
        self, rows: DataFrame, schemas: Sequence[SchemaEntry], feed: DeclaredFeed, options: BaseModel, /
    ) -> DataFrame:
        """Log rows, and all schema entries that the log holds by now, of whatever hour → the same columns, completed.

        Completes ``position``, ``key``, ``prior_key``, ``before``, ``after`` and ``absent`` of rows with ``unbound``, and
        sets ``problem`` where that cannot be done. So decode needs nothing but its own hour. Rows of other ops pass through.
        One more column, ``waits_for``: what a row with a problem lacks, where a schema entry that is still to come can
        mend it; such a row is held. Null: it is no use to wait.
        """

    def described_at(self, schemas: Sequence[SchemaEntry], /) -> Column | None:
        """Of a log row, the position of the schema entry that it names: what the source's table was then is what the row
        is of, wherever the row stands. Null: it names none of them. None: no row can name any."""


@runtime_checkable
class PlacesRows(Protocol):
    """A format in which the place of a few rows in the source's order depends on other rows of the log, perhaps of
    another hour."""

    def awaits_place(self, options: BaseModel, until: str, /) -> Column:
        """Whether the position of a log row may change by what else the log holds. ``until``: a text behind the positions
        that those of the log which give places can change; empty: none does."""

    def gives_place(self, options: BaseModel, /) -> Column:
        """Whether a log row is one by which others are placed."""

    def own_place(self, options: BaseModel, /) -> Column:
        """What the position of a log row keeps wherever it is placed: the same for all copies of a change."""

    def place(self, rows: DataFrame, log: DataFrame, options: BaseModel, /) -> DataFrame:
        """Log rows with their positions among ``log``, which holds all rows that give places. Same columns."""


@runtime_checkable
class MarksLoads(Protocol):
    """A format whose messages show which rows a full load of their table has read. In the others every row may be one."""

    LOADS_HAVE_PLACES: bool
    """Whether such rows have places of their own in the source's order. Else they stand where their load began, or behind
    that place and :data:`LOADED_AT` by what else tells which of several loads read them later."""

    def of_load(self) -> Column:
        """Whether a log row was read by a full load of its table."""

    def of_whole_load(self) -> Column:
        """Whether it was, and the load has read all of the table: not where it may have read a part."""

    def read_of_load(self) -> Column:
        """What names the read of the table that such a row came from: equal rows of one read are all real, those of two at
        one position are the same ones. Null: nothing in the message does."""


@runtime_checkable
class SharesPositions(Protocol):
    """A format in which several equal changes of a table without a key can stand at one position, and all be real. In the
    others a change that comes again with its position and its images is the same one."""

    def shares_position(self, options: BaseModel, /) -> Column:
        """Whether equal changes at a log row's position may all be real. Those that full loads read
        (:class:`MarksLoads`) always may."""

    def begins_again(self, last: Mapping[str, Column], /) -> Column:
        """Whether a log row that follows another one of its position in its partition begins another delivery of it.
        ``last``: ``tx`` and ``tx_ordinal`` of that one. A full load's rows of two reads are never asked for."""


@runtime_checkable
class SharesMoments(Protocol):
    """A format that describes tables, and in which positions of several partitions of a topic have no order within a moment
    of the source. There the columns that a row's message lists tell on which side of a statement it stands."""

    @property
    def MOMENT(self) -> int:
        """How many characters of a position tell its moment."""

    def listed(self) -> Column:
        """The columns that a log row's message lists."""


@runtime_checkable
class TiesTransactions(Protocol):
    """A format whose rows do not name their transaction: markers around them do, perhaps of another hour.

    The markers of an hour that other hours need are its *edges*: a few texts, which each publication keeps.
    """

    def edge(self) -> Column:
        """A log entry's edge; null for all others."""

    def edge_position(self, edge: str, /) -> str:
        """The position of the marker that an edge stands for."""

    def unpaired(self, edges: Iterable[str], /) -> list[str]:
        """The edges that have no other half among all ``edges``."""

    def partners(self, wanted: Collection[str], entries: DataFrame, /) -> set[str]:
        """The other halves of the edges ``wanted`` that stand in one hour with them in the log ``entries``, and these."""

    def tied(self, entries: DataFrame, hours: Mapping[str, Collection[str]], /) -> DataFrame:
        """Log entries with the transactions (``tx``, ``tx_part``, ``tx_end``, ``tx_count``) that the edges of all
        ``hours`` show. Same columns."""

    def in_pairs(self, entries: DataFrame, /) -> DataFrame:
        """Of log entries with ``tx``, the halves of pairs (:data:`tidemark.identifiers.PAIR`) that are in a transaction of
        the source, under the name of their pair. Same columns."""

    def retied(self, before: Iterable[str], now: Iterable[str], /) -> list[tuple[str, str, str]]:
        """Where entries may have another transaction by the edges ``now`` than ``before``: from behind a position up to
        another; and the name of a transaction there that ends elsewhere, or an empty text."""


@runtime_checkable
class TellsDeliveries(Protocol):
    """A format whose transactions can come again in parts of other sizes, so that the parts of two deliveries must not be
    mixed: a transaction is made of one whole delivery. Each topic numbers the parts that it has of a transaction by itself:
    of several, each is whole or has nothing yet."""

    @property
    def ONLY_ENDS(self) -> str:
        """What sends a transaction in several messages that each say to be all of it, and what to do, for a person."""

    def deliveries(self, messages: DataFrame, /) -> DataFrame:
        """Messages of transactions (``tx``, ``topic``, ``partition``, ``offset``, ``tx_ordinal``, ``tx_end``), one row
        each → the same rows with ``delivery``, a number that tells the deliveries of a transaction apart, the same for
        all parts that came side by side. Null: nothing tells, and the parts count whichever delivery they are of."""


@runtime_checkable
class KnowsGaps(Protocol):
    """A format whose sources may leave changes out, or in doubt, without a trace in the messages."""

    def gaps(self, options: BaseModel, /) -> list[str]:
        """What is not seen, and what to do at the source: a sentence each, for a person. Pure."""


def zero_padded(number: Column | str, width: int) -> Column:
    """A number's text with zeros in front, so that text order is its order; cut where it is longer."""
    return F.lpad(number, width, "0" * width)  # all in one text: Spark copies what it pads with as often as it fits


def as_changes(rows: DataFrame, columns: Mapping[str, Column]) -> DataFrame:
    """The columns of CHANGES: each from ``columns``, else what ``rows`` has under that name, else null."""
    existing = set(rows.columns)

    def column(name: str, kind: str) -> Column:
        if name in columns:
            return columns[name].cast(kind).alias(name)
        return F.expr(f"CAST({quote(name) if name in existing else 'NULL'} AS {kind}) AS {quote(name)}")

    return rows.select(*(column(field.name, field.dataType.simpleString()) for field in CHANGES))
