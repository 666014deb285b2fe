"""Which changes the source made in one transaction."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemark.identifiers import PAIR


def is_waited_for() -> Column:
    """Whether the source's transaction of a log row or of ROWS is published whole, so that all of it is in one hour."""
    return F.coalesce(~F.startswith(F.col("tx"), F.lit(PAIR)), F.lit(False))


def transaction_name() -> Column:
    """The name of the source's transaction of a log row or of ROWS; null: the source gives it none."""
    loose = F.when(F.col("tx").isNull(), F.col("tx_part"))
    return F.coalesce(F.when(is_waited_for(), F.col("tx")), loose)


def source_transaction() -> Column:
    """The source's transaction of a log row or of ROWS, as a text: its name, or, where the source names none, when it
    committed. Null where neither is known: such a change is of no transaction with another one."""
    committed = F.concat(F.lit("at "), F.col("committed_at").cast("string"))
    return F.coalesce(F.concat(F.lit("tx "), transaction_name()), committed)
