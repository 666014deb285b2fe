"""How often Spark evaluates an expression."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F


def compute_once(value: Column, body: Callable[[Column], Column]) -> Column:
    """``body`` of a value: without this, each mention of it would repeat all of its expression. Spark does not compile such a
    body, so it is for what few records need, or what is no worse uncompiled."""
    return F.element_at(F.transform(F.array(value), body), 1)
