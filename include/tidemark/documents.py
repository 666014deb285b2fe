"""JSON documents in text, where Spark's readers look at the first one only and say nothing of what comes behind it."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

_PERMISSIVE = {"columnNameOfCorruptRecord": "broken", "mode": "PERMISSIVE"}


def one_document(text: Column, fields: str) -> Column:
    """A text that should be one JSON object, parsed: ``struct<d: struct<fields>, closed, broken>``; see :func:`is_broken`.

    It is parsed as a member of an object that ends behind it: whatever stands between, another document or rubbish,
    breaks that object, or keeps its end from being seen. Costs next to nothing, unlike a second look at the text.
    """
    whole = F.concat(F.lit('{"d":'), text, F.lit(',"closed":0}'))
    return F.from_json(whole, f"struct<d: struct<{fields}>, closed: int, broken: string>", _PERMISSIVE)


def is_broken(parsed: Column) -> Column:
    """Whether a text that :func:`one_document` parsed is not one JSON object with the fields' types, and nothing more."""
    return parsed.isNull() | parsed["broken"].isNotNull() | parsed["d"].isNull() | parsed["closed"].isNull()
