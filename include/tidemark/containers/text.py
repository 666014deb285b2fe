"""Text objects as numbered lines: the native reader under the containers that hold one record per line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.containers.contract import Contents
from tidemark.containers.objects import dealt_out, exactly, object_name, record_number, tasks_at_once
from tidemark.values.strict_json import one_document

#: Bytes of a line that has not ended, above which it is not looked at.
_LONGEST = 64 << 20
#: An escape of a surrogate, which may be half of a pair.
_SURROGATE = r"\\u[dD][89a-fA-F]"
_HIGH, _LOW = r"u[dD][89abAB][0-9a-fA-F]{2}", r"u[dD][c-fC-F][0-9a-fA-F]{2}"
#: Whole pairs, in the line's own JSON or in that of one of its texts. Behind another backslash nobody knows which of them is
#: escaped.
_PAIRS = rf"([^\\])(?:\\{_HIGH}\\{_LOW}|\\\\{_HIGH}\\\\{_LOW})+"


def read_lines(spark: SparkSession, paths: list[str], separator: str = "\n", *, together: bool = False) -> DataFrame:
    """One row per line: ``object`` (as in ``paths``), ``record`` (from 1, in the object's order) and ``raw`` (its
    bytes, as StringType: see RECORDS).

    Plain, gzip and zstd by the file's ending. The separator is one byte, written as its ISO-8859-1 character, and
    always named, so that a carriage return stays in its line. An object is read by one task. Where there are fewer of them
    than tasks, lines are dealt out to all before anything is made of them; not those that are to stay ``together``.
    """
    return _numbered(spark, paths, separator, together=together)


def read_documents(
    spark: SparkSession, paths: list[str], fields: str, exact: Callable[[Column], Column] | None = None,
    *, checked: bool = False,
) -> DataFrame:  # fmt: skip
    """The rows of :func:`read_lines`, and ``line``: each parsed as one JSON object by :func:`one_document`, ``exact``
    where this says so of the line. ``checked``: see :func:`one_document`."""
    text = F.col("value")
    line = one_document(text, f"struct<{fields}>", exact=exact(text) if exact else False, checked=checked)
    return _numbered(spark, paths, "\n", line.alias("line"))


def _numbered(
    spark: SparkSession, paths: list[str], separator: str, *more: Column, together: bool = False
) -> DataFrame:
    lines = spark.read.format("text").option("lineSep", separator).option("encoding", "ISO-8859-1")
    values = lines.load(exactly(paths))
    place, bytes_ = (object_name(paths).alias("object"), record_number().alias("record")), F.col("value").alias("raw")
    if together or len(paths) >= tasks_at_once(spark):
        # All in one projection: between two projections Spark would copy every row.
        return values.select(*place, bytes_, *more)
    return dealt_out(values.select(*place, "value")).select("object", "record", bytes_, *more)


def inspect_lines(chunks: Iterable[bytes], rare: Sequence[str] = ()) -> Contents:
    """What a stream of lines holds: how many, as :func:`read_lines` will number them (a last line needs no line feed), and
    whether they are plain: UTF-8, and without halves of escaped surrogate pairs and any of the patterns of ``rare``. A tenth
    of what it costs to look at each record where it is parsed."""
    count, plain, begun = 0, True, b""
    for chunk in chunks:
        count += chunk.count(b"\n")
        first, last = chunk.find(b"\n"), chunk.rfind(b"\n")
        if first < 0:
            plain = plain and len(begun) < _LONGEST
            begun = begun + chunk if plain else chunk or begun
            continue
        # The lines between are not copied: that would take as long as to look at them.
        plain = plain and _is_plain(begun + chunk[:first], rare) and _is_plain(memoryview(chunk)[first:last], rare)
        begun = chunk[last + 1 :]
    return Contents(count + bool(begun), plain and _is_plain(begun, rare))


def _is_plain(lines: bytes | memoryview, rare: Sequence[str]) -> bool:
    ends = pa.array([0, len(lines)], pa.int64()).buffers()[1]
    block = pa.Array.from_buffers(pa.large_binary(), 1, [None, ends, pa.py_buffer(lines)])
    try:
        block.cast(pa.large_string())
    except pa.ArrowInvalid:  # not UTF-8
        return False
    if _holds(block, _SURROGATE) and _holds(pc.replace_substring_regex(block, _PAIRS, r"\1"), _SURROGATE):
        return False
    return not any(_holds(block, pattern) for pattern in rare)


def _holds(block: pa.Array, pattern: str) -> bool:
    return bool(pc.match_substring_regex(block, pattern)[0].as_py())
