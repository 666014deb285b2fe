"""What an hour's changes look like, table by table, from one pass over narrow columns: it decides what compact must do."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

#: Columns of log rows: the names in ``key`` and in ``after``. Reading them costs next to nothing, the images much.
IMAGE_NAMES = ("key_names", "after_names")
_BETWEEN = "\x1f"


def image_names() -> list[Column]:
    """:data:`IMAGE_NAMES` of rows with images: one text each, since few are distinct."""
    images = ("key", "after")
    return [F.array_join(F.map_keys(i), _BETWEEN).alias(name) for i, name in zip(images, IMAGE_NAMES, strict=True)]


@dataclass(frozen=True)
class TableProfile:
    """One table's changes of an hour. ``first``: the lowest position. ``partial``: changes that lack columns;
    ``links``: of these, inserts of key changes; ``moves``: updates that change their key."""

    table: str
    sources: list[str]
    own: int
    released: int
    first: str
    last: str
    truncated: str | None
    truncates: int
    keyed: int
    partial: int
    links: int
    moves: int
    keys: list[list[str]]
    columns: list[list[str]]
    schemas: list[str]

    @property
    def only_truncates(self) -> bool:
        """Whether the hour brings the table no row at all."""
        return self.own + self.released == self.truncates


def profile(rows: DataFrame) -> list[TableProfile]:
    """Profiles of all tables in assembled rows, by name: one Spark job. What is collected is metadata, a row a table."""
    lacking = F.coalesce(F.size("absent"), F.lit(0)) > 0
    moved = F.col("prior_key").isNotNull()
    truncate = F.col("op") == "truncate"
    found = rows.groupBy("table").agg(
        F.sort_array(F.collect_set("source_table")).alias("sources"),
        F.count_if("own").alias("own"),
        F.count_if(~F.col("own")).alias("released"),
        F.min("position").alias("first"),
        F.max("position").alias("last"),
        F.max(F.when(truncate, F.col("position"))).alias("truncated"),
        F.count_if(truncate).alias("truncates"),
        F.count_if(F.col("key").isNotNull()).alias("keyed"),
        F.count_if(lacking).alias("partial"),
        F.count_if(lacking & moved & (F.col("op") == "insert")).alias("links"),
        F.count_if(moved & (F.col("op") == "update")).alias("moves"),
        F.collect_set("key_names").alias("keys"),
        F.collect_set("after_names").alias("columns"),
        F.collect_set("message_schema").alias("schemas"),
    )
    told = [row.asDict() for row in found.collect()]
    for row in told:
        for name in ("keys", "columns"):
            row[name] = [names.split(_BETWEEN) for names in row[name] if names]
    return sorted((TableProfile(**row) for row in told), key=lambda p: p.table)
