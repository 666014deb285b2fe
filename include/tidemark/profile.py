"""What an hour's changes look like, table by table, from one pass over narrow columns: it decides what compact must do."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@dataclass(frozen=True)
class TableProfile:
    """One table's changes of an hour. ``first``: the lowest position. ``partial``: changes that lack columns;
    ``links``: of these, key changes, sent as an insert or as one update; ``moves``: updates that change their key."""

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
        F.count_if(lacking & moved & F.col("op").isin("insert", "update")).alias("links"),
        F.count_if(moved & (F.col("op") == "update")).alias("moves"),
        F.collect_set(F.map_keys("key")).alias("keys"),
        F.collect_set(F.map_keys("after")).alias("columns"),
        F.collect_set("message_schema").alias("schemas"),
    )
    return sorted((TableProfile(**row.asDict()) for row in found.collect()), key=lambda p: p.table)
