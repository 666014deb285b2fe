"""Values as JSON from which Spark's ``from_json`` reads the same values again."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

#: Spark's own leave out what is smaller than a millisecond.
_FORMATS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}  # fmt: skip


def whole_json(value: Column | str, *, nulls: bool = False) -> Column:
    """``to_json`` of a struct, a map or an array that may hold times. ``nulls``: fields without a value are written too."""
    return F.to_json(value, {**_FORMATS, "ignoreNullFields": "false"} if nulls else _FORMATS)
