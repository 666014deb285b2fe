"""The shape of the rows that merge takes and gives: ROWS, FOLDED, SETTLED. ``_tidemark`` is of the published rows too.

The key and the source's columns are each table's own, so the types are functions of them.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

_NAMES = T.ArrayType(T.StringType())
_TEXTS = T.MapType(T.StringType(), T.StringType())

#: The ``_tidemark`` struct of a published row.
TIDEMARK_TYPE = T.StructType(
    [
        T.StructField("sort_key", T.StringType()),  # of the newest change of the row, in the source's order
        # of the newest change that needs nothing before it: an older change cannot alter the row
        T.StructField("base_sort_key", T.StringType()),
        T.StructField("transaction", T.StringType()),
        T.StructField("committed_at", T.TimestampType()),
        T.StructField("hour", T.StringType()),
        T.StructField("absent", _NAMES),  # columns that no change has sent yet
        # columns whose value is newer than the base, with the sort key of the change that sent it; null: there are none
        T.StructField("newer", _TEXTS),
    ]
)

#: Columns of FOLDED: how many changes of the key were folded, how many of these are the same change again, and how many of
#: these last are of this hour's publication and say something else than what came before them.
COUNTED = ("landed_count", "landed_duplicates", "released_count", "released_duplicates", "other_content")
#: Columns of FOLDED where rows may rest on other keys: ``rests``, the other ``key`` and ``until`` which sort key, exclusive,
#: its changes count, null where the row rests on none; ``first``, the lowest sort key of the key's changes.
RESTING = ("rests", "first")


def rows_type(key: T.StructType) -> T.StructType:
    """ROWS: one row per change of a table with a key."""
    return T.StructType(
        [
            T.StructField("key", key),
            T.StructField("sort_key", T.StringType()),  # see tidemark.fold.fold_rows.sort_key
            T.StructField("op", T.StringType()),  # insert, update, delete
            T.StructField("before", _TEXTS),  # column to text: what was sent of the row before; null: nothing
            T.StructField("after", _TEXTS),  # column to text; never null
            T.StructField("absent", _NAMES),  # columns that were not sent; never null
            T.StructField("prior", key),  # the old key of a key change; else null
            T.StructField("landed_this_hour", T.BooleanType()),  # false: released from an earlier hour
            T.StructField("counts", T.BooleanType()),  # false: the second half of a change that was sent as one
            T.StructField("tx", T.StringType()),
            T.StructField("tx_part", T.StringType()),  # without tx: a name that only tells which changes are together
            T.StructField("committed_at", T.TimestampType()),
            # which publication brought it; null: the one in the making
            T.StructField("came", T.LongType()),
            # where it came from
            T.StructField("object", T.StringType()),
            T.StructField("record", T.LongType()),
            T.StructField("entry", T.IntegerType()),
            T.StructField("topic", T.StringType()),
            T.StructField("position", T.StringType()),
        ]
    )


def folded_type(key: T.StructType) -> T.StructType:
    """FOLDED: one row per key, with what its changes come to."""
    return T.StructType(
        [
            T.StructField("key", key),
            T.StructField("sort_key", T.StringType()),  # of the newest change
            T.StructField("deleted", T.BooleanType()),  # whether the newest change is a delete
            T.StructField("after", _TEXTS),
            T.StructField("absent", _NAMES),
            # of the newest change that needs nothing before it; null: the row rests on what is stored
            T.StructField("base_sort_key", T.StringType()),
            T.StructField("newer", _TEXTS),  # as in _tidemark
            T.StructField("tx", T.StringType()),
            T.StructField("committed_at", T.TimestampType()),
            *(T.StructField(name, T.LongType()) for name in COUNTED),
        ]
    )


def settled_type(key: T.StructType, row: T.StructType) -> T.StructType:
    """SETTLED: one row per key that changed, as a snapshot takes it. ``row``: the source's columns, typed."""
    return T.StructType(
        [
            T.StructField("key", key),
            T.StructField("deleted", T.BooleanType()),
            T.StructField("row", row),
            # whether it is joined with the row that is stored (tidemark.fold.row_join); false: it takes its place
            T.StructField("joins", T.BooleanType()),
            T.StructField("tidemark", TIDEMARK_TYPE),
        ]
    )


def tidemark(
    sort_key: Column, base_sort_key: Column, tx: Column, committed_at: Column, hour: str, absent: Column, newer: Column
) -> Column:
    """The ``_tidemark`` struct of one row."""
    values = (sort_key, base_sort_key, tx, committed_at, F.lit(hour), absent, newer)
    return F.struct(*(v.cast(f.dataType).alias(f.name) for v, f in zip(values, TIDEMARK_TYPE, strict=True)))
