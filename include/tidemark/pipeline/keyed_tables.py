"""Tables with a key: the hour's changes of each key are folded.

In the ordinary case every change is newer than all that the table holds, which one comparison shows, and only the
hour's changes are folded. Otherwise (:mod:`tidemark.merge.late_changes`) repeated and outdated changes are set aside,
and the keys that a late change can still alter are folded again from the change log.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.ledger.receipts import Counts
from tidemark.logs import get_logger
from tidemark.merge.contract import COUNTED
from tidemark.merge.fold import fold
from tidemark.merge.typed_rows import keyed_rows, settle
from tidemark.pipeline.hour_changes import TableChanges, classify
from tidemark.pipeline.table_outcome import TableOutcome

log = get_logger()


@dataclass(frozen=True)
class SettledSizes:
    """Sums over SETTLED rows: the changes behind them (of the hour, and released ones; ``*_duplicates``: the same
    change again); how many rows are unreadable, write and delete; the columns that some row keeps as they are
    stored."""

    landed_count: int
    landed_duplicates: int
    released_count: int
    released_duplicates: int
    unreadable: int
    written: int
    deleted: int
    kept_columns: list[str]

    @property
    def counts(self) -> Counts:
        """What became of the changes that were folded."""
        return Counts(
            applied=self.landed_count - self.landed_duplicates,
            duplicate=self.landed_duplicates,
            released_applied=self.released_count - self.released_duplicates,
            released_duplicate=self.released_duplicates,
        )


def settle_keyed(changes: TableChanges) -> TableOutcome:
    """Fold the hour's changes of a table with a key."""
    shape, stats, hour = changes.shape, changes.stats, changes.run.hour
    rows = keyed_rows(changes.rows, shape, expand=stats.moves > 0)
    classified = classify(changes, rows)
    counts = changes.counts.plus(classified.counts)
    settled = settle(fold(classified.ordinary, partial=stats.partial > 0), shape, hour)
    if classified.refolded is not None:
        log.info("folding keys again from the change log", reason="changes came late, or rest on another key")
        settled = settled.unionByName(settle(classified.refolded, shape, hour, whole=True))
    settled = settled.localCheckpoint()
    sizes = _sizes(settled)
    if sizes.unreadable:  # only by what came in earlier hours, under another type: such rows stay as they are stored
        settled = settled.where("unreadable = ''")
        sizes = _sizes(settled)
    return TableOutcome(
        settled.drop("unreadable", *COUNTED),
        sizes.written,
        sizes.deleted,
        counts.plus(sizes.counts),
        frozenset(sizes.kept_columns),
    )


def _sizes(settled: DataFrame) -> SettledSizes:
    sums = settled.agg(
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in COUNTED),
        F.count_if(F.col("unreadable") != "").alias("unreadable"),
        F.count_if(~F.col("deleted")).alias("written"),
        F.count_if("deleted").alias("deleted"),
        F.array_distinct(F.flatten(F.collect_set(F.when(F.col("keep_stored"), F.col("tidemark.absent"))))).alias(
            "kept_columns"
        ),
    ).first()
    assert sums is not None
    return SettledSizes(**sums.asDict())
