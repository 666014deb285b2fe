"""The type of a column and how its texts are read, of all that is said about it. Pure.

A published text column holds the notation of its first reading: microseconds, where nobody said that they are a time. Were
it read in another way from some hour on, it would hold two notations. So such a change stops the table, and so does a
declared type that a published text column cannot take.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from tidemark.errors import SchemaError
from tidemark.values.columns import ColumnType, Reading
from tidemark.values.encodings import COUNTS, REWRITTEN
from tidemark.values.type_changes import fits, unsafe, widens

_SHOWN = 20
#: What a message says of bytes that it writes as texts, and what they are declared as.
_BYTES_IN_TEXTS = {
    (ColumnType("string"), "binary", "hex"),
    (ColumnType("string"), "binary", "base64"),
    (ColumnType("array<string>", "json"), "array<binary>", "items"),
}


@dataclass(frozen=True, kw_only=True)
class Told:
    """What is known of a column."""

    table: str
    """The published ``schema.table`` that it is of, for messages to people."""
    name: str
    """Its name now."""
    stored: str | None = None
    """The Spark type that is stored. None: the table has no such column yet."""
    before: Reading | None = None
    """How it was read when it was published last. None: not noted."""
    declared: ColumnType | None = None
    """The type that the feed file declares. None: it declares none."""
    written: str | None = None
    """The declared type as it is written there, for messages to people."""
    readings: Sequence[ColumnType] = ()
    """The types that message schemas give it, one of each schema that has it."""
    stated: Sequence[ColumnType] = ()
    """The types that statements gave it, oldest first."""
    unsaid: bool = False
    """Whether there are messages that do not say a type: they are written as the feed file says, where it does."""
    given_number: bool = False
    """Whether a statement gives it, in rows of before, a text that messages might mean otherwise: a number."""


def written_as(told: ColumnType, declared: ColumnType | None) -> ColumnType:
    """How a message that says a column's type writes it. Bytes that stand in it as digits or base64 it calls a text: only the
    feed file says that they are bytes, and how they are written."""
    if declared is not None and (told, declared.spark, declared.encoding) in _BYTES_IN_TEXTS:
        return declared
    return told


def column_type(feed: str, told: Told, *, stand: bool = False) -> tuple[ColumnType, Reading]:
    """A column's type, and who says how it is read. ``stand``: the table is only read, as it stands: a declared type that it
    cannot take does not count.

    SchemaError for types of which none holds the others, and for a reading that the published values do not have.
    """
    try:
        return _agreed(replace(told, readings=()) if _holds_counts(told) else told)
    except SchemaError as error:
        if stand and told.declared is not None:
            return column_type(feed, replace(told, declared=None))
        error.feed = feed
        raise


def _holds_counts(told: Told) -> bool:
    """Whether a column is declared as whole numbers, and its messages count something in one unit: it holds these counts."""
    whole = told.declared is not None and told.declared.spark in ("int", "bigint")
    units = {kind.encoding for kind in told.readings}
    return whole and len(units) == 1 and units <= COUNTS.keys()


def _agreed(told: Told) -> tuple[ColumnType, Reading]:
    before, first = told.before, told.declared or next(iter([*told.readings, *told.stated[-1:]]), None)
    given = [told.declared] if told.declared else [*told.readings, *told.stated]
    if first is None and before is not None and before.by != "nobody":  # nothing says it any more
        first, given, now = before.kind, [before.kind], before
    elif first is None:
        now = Reading(ColumnType("string"), "nobody")
    elif told.declared and before is not None and before.by == "source" and not (told.readings or told.unsaid):
        now = Reading(before.kind, "source")  # statements alone, or a truncate: messages write it as they did
    elif told.declared and (first.of_message or not told.readings):
        now = Reading(first, "feed")
    else:  # each message says how it is written
        now = Reading((*told.readings, first)[0], "source")
    spark = _widest(told, given)
    _refuse_other_reading(told, now, spark)
    by_value = told.given_number and spark == "string" and bool(told.readings or not told.declared)
    unsaid = [told.declared] if told.unsaid and told.declared and told.readings else []
    return _read_as(spark, first, [*told.readings, *unsaid], by_value=by_value), now


def _refuse_other_reading(told: Told, now: Reading, spark: str) -> None:
    """SchemaError where values of a published column would not be of one notation, or not of the type that is declared."""
    stored, before = told.stored, told.before
    if stored is None:
        return
    ignored = told.declared is not None and stored == "string" != told.declared.spark
    unread = now is before and _passes_through(now.kind, spark)
    if not (ignored or unread or (before is not None and _differs(stored, before, now))):
        return
    was = f"{stored}, as it was sent" if before is None or before.by == "nobody" else _named(before.kind)
    would = f"{stored}, as it is sent" if unread else told.written or _named(now.kind)
    if before is not None:
        refuse_reading_anew(told.table, told.name, before, now)
    raise SchemaError(
        f"column {told.name} is {was}, and would become {would}: what is published of it would have to be read again",
        fix="give the table another `name` under tables in the feed file: it is built from the change log under that name, "
        f"with all its rows, and {told.name} is of the new type in all of them",
        table=told.table,
    )


def refuse_reading_anew(table: str, name: str, before: Reading, now: Reading) -> None:
    """SchemaError where the feed file, and it alone, says that a column's values are written in another way than before.
    No message shows whether the source wrote those of before so: read from the log, they may become other values."""
    kinds = [reading.kind for reading in (before, now)]
    of_one_type = len({kind.spark.partition("(")[0] for kind in kinds}) == 1 and now.kind != ColumnType("string")
    if not (before.by == now.by == "feed" and of_one_type and kinds[0].encoding != kinds[1].encoding):
        return
    raise SchemaError(
        f"column {name} is {_named(before.kind)}, and would become {_named(now.kind)}: the same type, written in another "
        "way. Only the feed file says so, and no message shows whether the source wrote so before",
        fix="let the feed file have it read as before. If the source writes it otherwise from some hour on, take a new "
        "snapshot of the table into a new feed; if it was read wrongly from the start, have a new feed read the exports",
        table=table,
    )


def _differs(stored: str, before: Reading, now: Reading) -> bool:
    """Whether texts of a column read so, and texts read so, are of two notations."""
    if (
        before.by == now.by == "source" or now is before
    ):  # the source's own changes: each message says how it is written
        return False
    if before.by == "nobody":
        return now.by != "nobody" and now.kind.encoding != "plain"
    if now.by == "source":
        return stored == "string" and before.kind.encoding == "plain" != now.kind.encoding
    return (before.kind.encoding, before.kind.arg) != (now.kind.encoding, now.kind.arg)


def _named(kind: ColumnType) -> str:
    """``string (time_micros)``."""
    return kind.spark if kind.encoding == "plain" else f"{kind.spark} ({kind.encoding})"


def _widest(told: Told, given: Sequence[ColumnType]) -> str:
    """The type that holds all types ``given`` to a column: the stored one where it can, else the one it widens to.

    Without a stored one all must widen to one of them, so that it does not matter how changes fall into hours.
    """
    stored, listed = told.stored, list(dict.fromkeys(kind.spark for kind in given))
    widest = stored or (listed[0] if listed else "string")
    for kind in listed:
        if widens(widest, kind):
            widest = kind
    for kind in listed:
        if kind != widest and not (widens(kind, widest) or (stored is not None and fits(kind, widest))):
            raise unsafe(told.table, told.name, widest, kind)
    return widest


def _read_as(
    spark: str, first: ColumnType | None, readings: Sequence[ColumnType], *, by_value: bool = False
) -> ColumnType:
    """How a column's texts are read. Where messages write it in several ways, or in one that does not give the column's
    type, its texts are first rewritten into one. ``by_value``: some texts are the values themselves."""
    if first and first.of_message:
        return ColumnType(spark, first.encoding, first.arg)
    ways = {(kind.encoding, kind.arg) for kind in readings} | ({("plain", None)} if by_value else set())
    if len(ways) > 1 or any(_passes_through(kind, spark) for kind in readings):
        return ColumnType(spark, REWRITTEN)
    if ways:
        return ColumnType(spark, *ways.pop())
    return ColumnType(spark, first.encoding, first.arg) if first else ColumnType(spark)


def _passes_through(kind: ColumnType, spark: str) -> bool:
    """Whether a text must become a value of its own type before it is one of the column's."""
    through_float = (kind.spark, spark) == ("float", "double")
    return through_float or (kind.spark != spark and kind.encoding not in ("plain", "unscaled_decimal"))


def untyped_warning(source: str, names: Collection[str]) -> str:
    """What a person should know of columns that are published without a type."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (
        f"no type is known of {', '.join(sorted(names)[:_SHOWN])}{more}: published as text, as sent. Declare them under "
        f"tables.{source}.columns in the feed file, those too that are text: a type that is declared later needs the table "
        "under another name"
    )
