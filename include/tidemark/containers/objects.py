"""Landed objects as Spark reads them: their names, the records' numbers in them, and what a name tells of its records."""

from __future__ import annotations

import re

from pyspark.sql import Column
from pyspark.sql import functions as F

_ALL = 1 << 20  # bytes: more than a path has
_AS_IN_URIS = r"[A-Za-z0-9/:=._-]*"  # nothing that an URI would spell another way
_ROW_IN_PARTITION = (1 << 33) - 1
_FIRST_MILLIS, _LAST_MILLIS = -62_135_596_800_000, 253_402_300_799_999


def exactly(paths: list[str]) -> list[str]:
    """The paths for Spark's readers as names, not as patterns."""
    return [re.sub(r"([*?{}\[\]\\])", r"\\\1", path) for path in paths]


def object_name(paths: list[str]) -> Column:
    """The object a row was read from, spelled as in the paths given to the reader."""
    uri = F.input_file_name()
    # One slash or three, by how Spark listed it.
    path = (
        F.when(uri.startswith("file:///"), behind(uri, 7)).when(uri.startswith("file:/"), behind(uri, 5)).otherwise(uri)
    )
    if all(re.fullmatch(_AS_IN_URIS, given) for given in paths):
        return path
    return F.when(path.contains("%"), F.url_decode(F.replace(path, F.lit("+"), F.lit("%2B")))).otherwise(path)


def behind(text: Column, size: int) -> Column:
    """What stands behind the first ``size`` bytes. By bytes, for Spark would count through all of a text's characters."""
    return F.substring(text.cast("binary"), size + 1, _ALL).cast("string")


def record_number() -> Column:
    """From 1, in the object's order.

    Rests on one object being one partition of the reader, which :func:`tidemark.spark_conf.spark_conf` sees to for
    every file format alike.
    """
    return F.monotonically_increasing_id().bitwiseAND(_ROW_IN_PARTITION) + 1


def landed_topic(name: Column) -> Column:
    """The topic by the object's place in the landing, ``<feed>/<topic>/dt=…/hr=…/v00001/<object>``; null elsewhere."""
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


def time_of_millis(millis: Column) -> Column:
    """Milliseconds since 1970 as a time; null for a year outside 1 to 9999, which no source sends."""
    return F.timestamp_millis(F.when(millis.between(_FIRST_MILLIS, _LAST_MILLIS), millis))
