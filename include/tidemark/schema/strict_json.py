"""JSON documents in text. Spark's own readers look at the first document only and ignore what comes after it."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

_PERMISSIVE = {"columnNameOfCorruptRecord": "broken", "mode": "PERMISSIVE"}


def one_document(text: Column, fields: str, key: Column | None = None) -> Column:
    """A text that should be one JSON object, parsed: ``struct<d: struct<fields>, closed, broken>``; see :func:`is_broken`.

    It is parsed as a member of an object that ends after it: anything between, another document or rubbish, breaks that
    object or hides its end. This costs almost nothing, unlike a second look at the text. Only members of that object
    (``,"name":value``) could stand there unseen, which no cut and no joining of documents leaves.

    ``key``: the text of the message's key, parsed together with it as ``k``, a map of texts, since starting a parser costs
    more than parsing a short text. Null where it is no object; a broken key makes the whole document broken. A number with a
    fraction is the text of the double that it is, as Spark reads it.
    """
    head, member = F.lit('{"d":'), ""
    if key is not None:  # in front, so that nothing in it can stand for the text
        braced = (key.startswith("{") & key.endswith("}")) | key.rlike(r"^\s*\{[\s\S]*\}\s*$")
        head = F.concat(F.lit('{"k":'), F.when(braced, key).otherwise("null"), F.lit(',"d":'))
        member = "k: map<string, string>, "
    whole = F.concat(head, text, F.lit(',"closed":0}'))
    return F.from_json(whole, f"struct<{member}d: struct<{fields}>, closed: int, broken: string>", _PERMISSIVE)


def is_broken(parsed: Column) -> Column:
    """Whether a text that :func:`one_document` parsed is not one JSON object with the fields' types, and nothing more."""
    return parsed.isNull() | parsed["broken"].isNotNull() | parsed["d"].isNull() | parsed["closed"].isNull()
