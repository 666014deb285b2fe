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
    """The source's transaction of a log row or of ROWS, as a text: its name, or, where the source names none, when it
    committed. Null where neither is known: such a change is of no transaction with another one."""
    named = F.coalesce(F.when(is_waited_for(), F.col("tx")), loose_name())
    return F.coalesce(F.concat(F.lit("tx "), named), F.concat(F.lit("at "), F.col("committed_at").cast("string")))
