"""Which columns log rows have: the names in their images, one text for each image, and what rows of a table have in all.

Rows that lack columns may come with as many different sets of names as there are rows. So sets are never collected: of
each name only the longest set is kept that holds it. There are no more of these than names, and together they tell which
columns there are and in which order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.errors import SchemaError
from tidemark.identifiers import TIDEMARK

#: Columns of log rows: the names in ``key`` and in ``after``. They cost little to read; the images cost much.
IMAGE_NAMES = ("key_names", "after_names")
_BETWEEN = "\x1f"

#: No source has tables of more columns: more are a mistake, or an attack. A column stays once it is published.
MOST_COLUMNS = 2_000
_LONGEST_NAME = 255
#: Names, sets of key names, and message schemas, that one table's rows of one hour may have.
_MOST_KINDS = 5_000


def image_names() -> list[Column]:
    """:data:`IMAGE_NAMES` of rows with images: one text each, how many and which."""
    return [
        F.when(
            F.col(image).isNotNull(),
            F.concat_ws(_BETWEEN, F.size(image).cast("string"), F.map_keys(image)),
        ).alias(name)
        for image, name in zip(("key", "after"), IMAGE_NAMES, strict=True)
    ]


def names_in(text: str) -> list[str]:
    """The names in a text that :func:`image_names` made."""
    return [name for name in text.split(_BETWEEN)[1:] if name]


def names_of(text: Column) -> Column:
    """The names in a text that :func:`image_names` made, as an array; null without a text."""
    parts = F.split(text, _BETWEEN)
    return F.slice(parts, F.lit(2), F.size(parts))


def has_name(text: Column, name: str) -> Column:
    """Whether a text that :func:`image_names` made holds a name."""
    return F.coalesce(F.contains(F.concat(text, F.lit(_BETWEEN)), F.lit(f"{_BETWEEN}{name}{_BETWEEN}")), F.lit(False))


def why_unpublishable(text: Column) -> Column:
    """Why rows of these names cannot be published, for a person; null: they can."""
    parts, names = F.split(text, _BETWEEN), names_of(text)
    count = parts[0].cast("int")
    long = F.filter(names, lambda name: F.length(name) > _LONGEST_NAME)
    reserved = F.filter(names, lambda name: F.lower(name) == TIDEMARK)
    return (
        F.when(count == 0, F.lit(None).cast("string"))
        .when(
            count > MOST_COLUMNS, F.concat(F.lit("the row has "), count, F.lit(f" columns, more than {MOST_COLUMNS}"))
        )
        .when(F.size(names) != count, F.lit("a column's name holds the control character U+001F"))
        .when(F.array_contains(names, ""), F.lit("a column has no name"))
        .when(F.size(F.array_distinct(names)) != count, F.lit("a column is named twice"))
        .when(
            F.size(long) > 0,
            F.concat(
                F.lit("a column's name has "),
                F.length(F.get(long, 0)),
                F.lit(f" characters, more than {_LONGEST_NAME}"),
            ),
        )
        .when(
            F.size(reserved) > 0,
            F.concat(F.lit("a column is named "), F.get(reserved, 0), F.lit(", which Tidemark keeps for itself")),
        )
    )


def summarize(
    rows: DataFrame,
    by: Sequence[str],
    generation: Column,
    *,
    lowest: Mapping[str, Column] | None = None,
    highest: Mapping[str, Column] | None = None,
    counts: Mapping[str, Column] | None = None,
    sets: Mapping[str, Column],
) -> DataFrame:
    """One row for each group of log rows: aggregates by their names, and the distinct values of ``sets`` that are not null.

    Besides them ``columns``, for each column name the longest text of ``after_names`` that holds it, with its
    ``generation``; and ``unpublishable``, whether there are rows for which :func:`why_unpublishable` has a reason: their
    names are not among the columns. One pass over the rows, whatever they lack.
    """
    counts, lowest, highest = counts or {}, lowest or {}, highest or {}
    alike = rows.groupBy(
        *by, *IMAGE_NAMES, generation.alias("generation"), *(value.alias(name) for name, value in sets.items())
    ).agg(*(value.alias(name) for name, value in {**counts, **lowest, **highest}.items()))
    wrong = F.coalesce(*map(why_unpublishable, map(F.col, IMAGE_NAMES))).isNotNull()
    parts = F.split("after_names", _BETWEEN)
    names = F.when(~F.col("unpublishable"), F.slice(parts, F.lit(2), F.size(parts)))
    each = alike.withColumn("unpublishable", wrong).select(
        "*", F.size(parts).alias("size"), F.posexplode_outer(names).alias("at", "name")
    )
    once = F.coalesce(F.col("at"), F.lit(0)) == 0  # of all names of a row
    by_name = each.groupBy(*by, "name", "generation").agg(
        *(F.sum(F.when(once, F.col(name))).alias(name) for name in counts),
        *(F.min(name).alias(name) for name in lowest),
        *(F.max(name).alias(name) for name in highest),
        *(F.collect_set(name).alias(name) for name in sets),
        F.bool_or("unpublishable").alias("unpublishable"),
        F.max(F.when(F.col("name").isNotNull(), F.struct("size", "after_names"))).alias("longest"),
    )
    longest = F.when(F.col("longest").isNotNull(), F.struct("longest.after_names", "generation"))
    return by_name.groupBy(*by).agg(
        *(F.sum(name).alias(name) for name in counts),
        *(F.min(name).alias(name) for name in lowest),
        *(F.max(name).alias(name) for name in highest),
        *(_few(F.array_distinct(F.flatten(F.collect_list(name)))).alias(name) for name in sets),
        F.bool_or("unpublishable").alias("unpublishable"),
        _few(F.collect_set(longest)).alias("columns"),
    )


def _few(values: Column) -> Column:
    """Not more of them than tell that there are too many."""
    return F.slice(values, 1, _MOST_KINDS + 1)


def bounded(table: str, found: Iterable[Any]) -> list[Any]:
    """What :func:`summarize` found of a kind, sorted. SchemaError where there are too many."""
    values = sorted(found)
    if len(values) > _MOST_KINDS:
        raise SchemaError(
            f"its rows come with more than {_MOST_KINDS} different columns, keys or message schemas",
            fix="no source has as many: find out what writes them, and take it off the feed's topics",
            table=table,
        )
    return values
