"""Rows of full loads. No message says that a load begins, or that it is a second one."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemark.formats.contract import LOADED_AT


def of_load() -> Column:
    """Whether a log row was read by a full load."""
    return F.coalesce(F.col("kind").isin("REFRESH", "READ"), F.lit(False))


def place_of_row(keyed: Column) -> Column:
    """The position of a log row. Of one that a full load has read with its offset: where a row was loaded twice, what was
    read later counts. Not in tables without a key (``keyed``: whether it is in one that has), whose rows are counted."""
    offset = F.lpad(F.col("offset").cast("string"), 19, "0")
    loaded = F.concat("position", F.lit(LOADED_AT), offset)
    return F.when(keyed & of_load() & offset.isNotNull(), loaded).otherwise(F.col("position"))
