"""The shape of published rows, and of what compact hands to a snapshot.

SETTLED, one row per touched key: ``key`` struct · ``deleted`` bool · ``row`` struct of typed source columns · ``keep_stored``
bool: columns named in ``absent`` keep what is stored · ``tidemark`` struct as in :data:`TIDEMARK_TYPE`.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

#: The ``_tidemark`` struct. ``place``: where the newest change stands in the source's order; ``floor``: the oldest
#: change the row rests on (older ones cannot alter it); ``absent``: columns that no change has sent yet.
TIDEMARK_TYPE = T.StructType(
    [
        T.StructField("sort_key", T.StringType()),
        T.StructField("base_sort_key", T.StringType()),
        T.StructField("transaction", T.StringType()),
        T.StructField("committed_at", T.TimestampType()),
        T.StructField("hour", T.StringType()),
        T.StructField("absent", T.ArrayType(T.StringType())),
    ]
)


def tidemark(
    sort_key: Column, base_sort_key: Column, tx: Column, committed_at: Column, hour: str, absent: Column
) -> Column:
    """The struct of one row."""
    values = (sort_key, base_sort_key, tx, committed_at, F.lit(hour), absent)
    return F.struct(*(v.cast(f.dataType).alias(f.name) for v, f in zip(values, TIDEMARK_TYPE, strict=True)))
