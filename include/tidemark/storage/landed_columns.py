"""What the paths of landed objects say (:mod:`tidemark.storage.landing_layout`), as expressions on a column of such paths."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def landed_topic(name: Column) -> Column:
    """The topic of a landed object, by its path relative to the landing; null for any other path."""
    topic = F.regexp_extract(name, r"/([^/]+)/dt=[^/]+/hr=[^/]+/v\d+/[^/]+$", 1)
    return F.when(topic != "", topic)


def landed_hour(name: Column) -> Column:
    """The hour a landed object is of, ``2026-11-20T07``, by its path relative to the landing."""
    day, hour = (F.split_part(name, F.lit("/"), F.lit(part)) for part in (3, 4))
    return F.concat(F.substring(day, 4, 10), F.lit("T"), F.substring(hour, 4, 2))


def landed_version(name: Column) -> Column:
    """The version of its hour's export that a landed object came with, by its path relative to the landing."""
    folder = F.substring_index(F.substring_index(name, "/", 5), "/", -1)
    return F.substring(folder, 2, 9).cast("int")
