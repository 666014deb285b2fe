"""Late changes that are older than the base of their key's row: they cannot alter it. Pure DataFrame to DataFrame."""

from __future__ import annotations

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F


def late_keys(rows: DataFrame, highest: str) -> DataFrame:
    """The keys (``key``) of ROWS that are not newer than the sort key ``highest``, one for each such change."""
    return rows.where(F.col("sort_key") <= highest).select("key")


def without_superseded(rows: DataFrame, stored: DataFrame, counted: Observation) -> DataFrame:
    """ROWS without those that are not newer than the base of their key. ``stored``: ``key`` and ``stored_base_sort_key`` of
    the rows and tombstones of the late keys. ``counted``: how many are left out, ``landed`` and ``released``, once the
    result is computed."""
    base = stored.select(F.col("key").alias("stored_key"), "stored_base_sort_key")
    superseded = F.coalesce(F.col("sort_key") <= F.col("stored_base_sort_key"), F.lit(False))
    judged = rows.join(base, F.col("key") == F.col("stored_key"), "left").withColumn("superseded", superseded)
    counts = F.col("superseded") & F.col("counts")
    counted_rows = judged.observe(
        counted,
        F.count_if(counts & F.col("landed_this_hour")).alias("landed"),
        F.count_if(counts & ~F.col("landed_this_hour")).alias("released"),
    )
    return counted_rows.where(~F.col("superseded")).select(*rows.columns)


def deletes_at(keys: DataFrame, position: str, rows: DataFrame) -> DataFrame:
    """ROWS that end what ``keys`` held before a position, and count for nothing. ``rows``: ROWS of the same table."""
    known = {
        "key": F.col("key"), "sort_key": F.lit(f"{position}#0"), "op": F.lit("delete"), "after": F.create_map(),
        "absent": F.array(), "landed_this_hour": F.lit(False), "counts": F.lit(False), "position": F.lit(position),
    }  # fmt: skip
    return keys.select(*(known.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in rows.schema.fields))
