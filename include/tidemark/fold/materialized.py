"""Rows that are worked out once, and what they come to: counted by the action that runs anyway."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F


@dataclass(frozen=True)
class Materialized:
    """Rows that are held by the executors."""

    rows: DataFrame
    """The rows."""
    count: int
    """How many they are."""
    sums: Mapping[str, Any]
    """What else was asked of them, by name."""


def materialize(rows: DataFrame, **sums: Column) -> Materialized:
    """Work rows out. ``sums``: aggregates of them, none of distinct values."""
    found, count = Observation(), F.count(F.lit(1)).alias("count")
    held = rows.observe(found, count, *(column.alias(name) for name, column in sums.items())).localCheckpoint()
    told = dict(found.get)
    return Materialized(held, told.pop("count"), told)
