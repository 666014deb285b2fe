"""The fields of a change-data record as they were sent, and what its header says of its message."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemark.containers.ibm_records import Layout, in_regex
from tidemark.formats.contract import zero_padded

#: How many fields a header has.
HEADER = 12


def value(token: Column, layout: Layout) -> Column:
    """A field's value: nothing between two delimiters is null, two string delimiters are the empty string."""
    quote = layout.string_delimiter
    inside = F.substring(token, F.lit(2), F.length(token) - 2)
    undoubled = F.replace(inside, F.lit(quote * 2), F.lit(quote))
    return F.when(token != "", F.when(token.startswith(quote), undoubled).otherwise(token))


def tokens_of(text: Column, layout: Layout) -> Column:
    """A record's fields, with their string delimiters, up to the first that is none."""
    return _tokens(F.concat(text, F.lit(layout.column_delimiter)), layout)


def header_of(text: Column, layout: Layout) -> Column:
    """The fields of a record's header; none where it is cut short."""
    ended = F.concat(text, F.lit(layout.column_delimiter))
    head = rf"\A(?:{_token(layout)}{in_regex(layout.column_delimiter)}){{{HEADER}}}"
    return _tokens(F.regexp_extract(ended, head, 0), layout)


def without_queue_times(text: Column, layout: Layout) -> Column:
    """A record's text behind its first four fields: type, identifier, date and time on the queue."""
    first = rf"\A(?:{_token(layout)}{in_regex(layout.column_delimiter)}){{4}}"
    return F.regexp_replace(text, first, "")


def header_field(tokens: Column, position: int, layout: Layout) -> Column:
    """The value of a header's field; positions are those of the manual, from 1."""
    return value(F.get(tokens, F.lit(position - 1)), layout)


def source_table(tokens: Column, layout: Layout) -> Column:
    """``OWNER.NAME``."""
    return F.concat(F.rtrim(header_field(tokens, 5, layout)), F.lit("."), F.rtrim(header_field(tokens, 6, layout)))


def unit(tokens: Column, layout: Layout) -> Column:
    """The identifier of the unit of work, in hexadecimal digits alone; null when it is malformed."""
    return _groups(header_field(tokens, 8, layout))


def lsn(tokens: Column, layout: Layout) -> Column:
    """The commit LSN, likewise."""
    return zero_padded(_groups(header_field(tokens, 9, layout)), 32)


def segment(tokens: Column) -> Column:
    """The segment's number, four digits; null when it is malformed."""
    sent = F.get(tokens, F.lit(HEADER - 1))
    return F.when(sent.rlike(r"^\d{4}\z"), sent)


def message_of(tokens: Column, layout: Layout) -> Column:
    """What names a record's message: unit of work, commit LSN and segment; null when one of them is malformed."""
    return F.concat(unit(tokens, layout), F.lit("."), lsn(tokens, layout), F.lit("."), segment(tokens))


def _groups(text: Column) -> Column:
    """5 to 8 groups of 4 hexadecimal digits."""
    wanted = text.rlike(r"^[0-9a-fA-F]{4}(?::[0-9a-fA-F]{4}){4,7}\z")
    return F.lower(F.replace(F.when(wanted, text), F.lit(":"), F.lit("")))


def _token(layout: Layout) -> str:
    """A field: a string, its delimiter doubled inside, or what has none. Possessive: Java then loops and does not recurse."""
    column, quote = in_regex(layout.column_delimiter), in_regex(layout.string_delimiter)
    return f"(?:{quote}[^{quote}]*+(?:{quote}{quote}[^{quote}]*+)*+{quote}|[^{column}{quote}]*+)"


def _tokens(ended: Column, layout: Layout) -> Column:
    token = rf"\G({_token(layout)}){in_regex(layout.column_delimiter)}"
    return F.regexp_extract_all(ended, F.lit(token), F.lit(1))
