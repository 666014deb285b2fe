"""Which changes the source made in one transaction."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemark.identifiers import PAIR


def is_waited_for() -> Column:
    """Whether the source's transaction of a log row or of ROWS is published whole, so that all of it is in one hour."""
    return F.coalesce(~F.startswith(F.col("tx"), F.lit(PAIR)), F.lit(False))


def loose_name() -> Column:
    """The name of a source's transaction that nothing says the end of, so that nothing waits for it; null: it has none."""
    return F.when(F.col("tx").isNull(), F.col("tx_part"))


def source_transaction() -> Column:
    """The source's transaction of a log row or of ROWS: struct(``tx``, null where the source names none; ``at``: when
    it committed)."""
    named = F.coalesce(F.when(is_waited_for(), F.col("tx")), loose_name())
    return F.struct(named.alias("tx"), F.col("committed_at").alias("at"))


def same_transaction(one: Column, other: Column) -> Column:
    """Whether two changes are of one :func:`source_transaction`. Where the source names none, those are that committed
    at the same time."""
    named = one["tx"].isNotNull() | other["tx"].isNotNull()
    return F.coalesce(F.when(named, one["tx"] == other["tx"]).otherwise(one["at"] == other["at"]), F.lit(False))
