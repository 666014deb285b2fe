"""JSON documents in text, read strictly and with every digit.

Spark's own readers look at the first document only and ignore what comes after it; and they take a number with a fraction
or an exponent for a double, whatever it is read into: a text of digits beyond the 17th, or an exponent, is lost.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.values.expressions import compute_once

#: Why a record is refused that holds bytes which are no text.
NOT_UTF_8 = "it holds bytes that are not UTF-8, or an escape of half a character: what they should say is unknown"
_NOT_UTF_8 = "not UTF-8"
# All that may stand in front of an escape (``\ud83d``) of a surrogate that is not one of a pair: whole pairs, and what is no
# surrogate.
_HALF = r"\A(?:[^\\]++|\\[^u]|\\u(?![dD][89a-fA-F])|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F])*+\\u"
_PERMISSIVE = {"columnNameOfCorruptRecord": "broken", "mode": "PERMISSIVE"}

#: Stands in front of the digits of a number that is written as text while Spark parses. A noncharacter of Unicode: no text
#: that is meant for others holds it.
_MARK = "\uffff"
# What Spark would not keep: fractions, exponents and a negative zero.
_FRAGILE = r"-?(?:0|[1-9]\d*+)(?:\.\d++(?:[eE][+-]?+\d++)?|[eE][+-]?+\d++)|-0(?![\d.eE])"
# The look at the first character keeps texts, which most values are, from being tried in three ways.
_HOLDS_FRAGILE = rf"[:,\[]\s*+(?=[-\d])(?:{_FRAGILE})\s*+[,}}\]]"
# From the end of the last one on, over texts as a whole, to the next. Possessive throughout: nothing recurses.
_TO_THE_NEXT = (
    r"\G((?:[^\"0-9-]++|\"(?:[^\"\\]++|\\.)*+\"|-(?!\d)|(?!(?:" + _FRAGILE + r")\s*+[,}\]])-?\d++(?:[.eE][\d+-]*+)?)*+)"
    rf"({_FRAGILE})(?=\s*+[,}}\]])"
)
_MARKED = rf'"?{_MARK}([-+0-9.eE]++)"?'


def one_document(
    text: Column, kind: str, key: Column | None = None, *, exact: bool | Column = False, checked: bool = False
) -> Column:
    """A text that should be one JSON object of a ``kind`` (``struct<…>``, or a map), parsed:
    ``struct<d: kind, closed, broken>``; see :func:`broken`.

    It is parsed as a member of an object that ends after it: anything between, another document or rubbish, breaks that
    object or hides its end. This costs almost nothing, unlike a second look at the text. Only members of that object
    (``,"name":value``) could stand there unseen, which no cut and no joining of documents leaves.

    ``key``: the text of the message's key, parsed together with it as ``k``, a map of texts, since starting a parser costs
    more than parsing a short text. Null where it is no object; a broken key makes the whole document broken.

    ``exact``: whether, or which, documents may hold numbers that are no doubles: see :func:`exact_json`.

    What :func:`valid_text` refuses makes a document broken. ``checked``: text and key are known to hold nothing of that.
    """
    head, member = F.lit('{"d":'), ""
    if key is not None:  # in front, so that nothing in it can stand for the text
        braced = (key.startswith("{") & key.endswith("}")) | key.rlike(r"^\s*\{[\s\S]*\}\s*$")
        head = F.concat(F.lit('{"k":'), F.when(braced, key).otherwise("null"), F.lit(',"d":'))
        member = "k: map<string, string>, "
    whole = F.concat(head, text, F.lit(',"closed":0}'))
    whole = whole if checked else valid_text(whole)
    parsed = f"struct<{member}d: {kind}, closed: int, broken: string>"
    if exact is False:
        return F.from_json(whole, parsed, _PERMISSIVE)
    return exact_json(whole, parsed, where=None if exact is True else exact)


def exact_json(text: Column, kind: str, where: Column | None = None) -> Column:
    """``from_json`` whose texts (columns, and the values of maps and arrays) have the digits of numbers as they were sent.

    Only a document that holds a number which Spark would not keep is written differently, for the parser: its number as
    a text with a mark, which is taken off again. One that holds the mark itself as well is null.
    ``where``: the documents that need to be looked at; null: all.
    """
    fragile = holds_fragile_numbers(text)
    if where is not None:
        fragile = where & fragile
    exact = compute_once(F.from_json(marked(text), kind, _PERMISSIVE), lambda parsed: unmarked(parsed, _type(kind)))
    return F.when(fragile, exact).otherwise(F.from_json(text, kind, _PERMISSIVE))


def holds_fragile_numbers(text: Column) -> Column:
    """Whether a JSON text may hold a number that Spark's readers do not keep digit by digit."""
    return text.rlike(_HOLDS_FRAGILE)


def marked(text: Column | str) -> Column:
    """A JSON text with each number that Spark would not keep as a text with a mark; null where it holds the mark."""
    text = F.col(text) if isinstance(text, str) else text
    holds_mark = text.rlike(rf"(?i)\\uffff|{_MARK}")
    return F.when(~holds_mark, F.regexp_replace(text, _TO_THE_NEXT, rf'$1"{_MARK}$2"'))


def unmarked(value: Column, kind: T.DataType) -> Column:
    """A value parsed from :func:`marked` text, its numbers again as they were sent, also inside nested JSON."""
    if isinstance(kind, T.StringType):
        return F.when(value.contains(_MARK), F.regexp_replace(value, _MARKED, "$1")).otherwise(value)
    if isinstance(kind, T.MapType):
        return F.transform_values(value, lambda _, member: unmarked(member, kind.valueType))
    if isinstance(kind, T.ArrayType):
        return F.transform(value, lambda member: unmarked(member, kind.elementType))
    if isinstance(kind, T.StructType):
        members = (unmarked(value[field.name], field.dataType).alias(field.name) for field in kind.fields)
        return F.when(value.isNotNull(), F.struct(*members))
    return value


def _type(kind: str) -> T.DataType:
    return T._parse_datatype_string(kind)


def whole_text(text: Column) -> Column:
    """A JSON text whose bytes are UTF-8, and in which each escape of a surrogate is one of a pair; otherwise null. Spark's
    parser would put U+FFFD for such bytes, and ``?`` for half of a pair."""
    escapes = text.contains("\\ud") | text.contains("\\uD")
    return F.when(~(escapes & text.rlike(_HALF)), F.try_validate_utf8(text))


def valid_text(text: Column) -> Column:
    """:func:`whole_text`; where there is none, a text that no parser takes, by which :func:`broken` knows why."""
    return F.coalesce(whole_text(text), F.when(text.isNotNull(), F.lit(_NOT_UTF_8)))


def repeats_name(*images: str | Column) -> Column:
    """Whether one of some images, maps as Spark reads them from JSON, holds a name more than once."""
    found = F.lit(False)
    for image in images:
        names = F.map_keys(image)
        found |= F.coalesce(F.size(names) != F.size(F.array_distinct(names)), F.lit(False))
    return found


def broken(parsed: Column, otherwise: str) -> Column:
    """Why a text that :func:`one_document` parsed is no such document, for a person; null where it is one.
    ``otherwise``: the reason where all of it is text."""
    no_text = parsed["broken"] == _NOT_UTF_8
    return F.when(is_broken(parsed), F.when(no_text, F.lit(NOT_UTF_8)).otherwise(F.lit(otherwise)))


def is_broken(parsed: Column) -> Column:
    """Whether a text that :func:`one_document` parsed is not one JSON object with the fields' types, and nothing more."""
    return parsed.isNull() | parsed["broken"].isNotNull() | parsed["d"].isNull() | parsed["closed"].isNull()
