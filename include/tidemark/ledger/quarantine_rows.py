"""Rows of the system table ``quarantine``: what a stage kept back, whole, with its reason.

Each builder gives every column of the table but its ``sequence``, which is the publication's.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.ledger.change_log import is_new
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.quarantine import RELEASED
from tidemark.ledger.system_tables import SYSTEM_COLUMNS

_LOG_CHANGE = ("op", "key", "before", "after", "absent", "tx")
_WITHHELD_CHANGE = ("op", "key", "prior_key", "before", "after", "absent")


def undecodable(log: DataFrame, hour: str, state: FeedState) -> DataFrame:
    """The hour's new log entries whose record could not be decoded, with its bytes, and its transaction where it names
    one."""
    bad = log.where(is_new(hour, state) & (F.col("op") == "bad"))
    change = F.when(F.col("tx").isNotNull(), F.to_json(F.struct("tx")))
    return _rows(bad, "decode", landed_this_hour=F.lit(True), reason=F.col("problem"), raw=F.col("raw"), change=change)


def refused_changes(rows: DataFrame) -> DataFrame:
    """Log rows with a ``reason`` that reached no table (see :class:`tidemark.pipeline.assemble.Assembled`)."""
    return _rows(rows, "assemble", change=F.to_json(F.struct(*_LOG_CHANGE)))


def withheld_changes(rows: DataFrame) -> DataFrame:
    """Log rows that are taken out of their tables' changes (see :class:`tidemark.pipeline.hour_changes.Withheld`)."""
    named = F.when(F.col("whole"), F.col("tx")).alias("tx")
    return _rows(rows, change=F.to_json(F.struct(*_WITHHELD_CHANGE, named)))


def released_changes(rows: DataFrame) -> DataFrame:
    """Log rows in quarantine that count there no more, for a good copy of what was refused in their transaction has come."""
    columns = {"landed_this_hour": F.lit(False), "reason": F.lit("more of its transaction has come")}
    return _rows(rows, RELEASED, **columns)


def _rows(rows: DataFrame, stage: str | None = None, **columns: Column) -> DataFrame:
    """``columns``: those that are not in ``rows`` under their own name. Without one, ``raw`` and ``change`` are null;
    ``stage``: of all rows."""
    columns = {"raw": F.lit(None), "change": F.lit(None), **columns}
    if stage is not None:
        columns["stage"] = F.lit(stage)
    return rows.select(
        *(
            columns.get(name, F.col(name)).cast(type_).alias(name)
            for name, type_ in SYSTEM_COLUMNS["quarantine"].items()
        )
    )
