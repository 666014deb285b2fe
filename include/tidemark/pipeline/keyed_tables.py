"""Tables with a key: the hour's changes of each key are folded, unless some of them cannot be read.

In the ordinary case every change is newer than all that the table holds, which one comparison shows, and only the
hour's changes are folded. Otherwise (:mod:`tidemark.merge.late_changes`) repeated and outdated changes are set aside,
and the keys that a late change can still alter are folded again from the change log.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.ledger.change_stats import TableStats
from tidemark.ledger.receipts import Counts
from tidemark.logs import get_logger
from tidemark.merge.contract import COUNTED
from tidemark.merge.fold import fold
from tidemark.merge.typed_rows import key_is_whole, keyed_rows, settle
from tidemark.pipeline.bad_changes import broken_keys, unreadable_changes
from tidemark.pipeline.hour_changes import TableChanges, classify
from tidemark.pipeline.table_outcome import Refused, TableOutcome

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


def settle_keyed(changes: TableChanges) -> TableOutcome | Refused:
    """Fold the hour's changes of a table with a key, or say which of them cannot be read."""
    shape, stats, hour = changes.shape, changes.stats, changes.run.hour
    rows = keyed_rows(changes.rows, shape, expand=stats.moves > 0)
    classified = classify(changes, rows.where(key_is_whole(shape)))
    counts = changes.counts.plus(classified.counts)
    settled = settle(fold(classified.ordinary, partial=stats.partial > 0), shape, hour)
    if classified.refolded is not None:
        log.info("folding keys again from the change log", reason="changes came late, or rest on another key")
        settled = settled.unionByName(settle(classified.refolded, shape, hour, whole=True))
    settled = settled.localCheckpoint()
    sizes, refused = _sizes(settled), []
    # An update that moves its row counts under its new key: the old one may be broken all the same.
    if _count_broken_keys(stats, counts, sizes) or (stats.moves and not rows.where(~key_is_whole(shape)).isEmpty()):
        refused.append(broken_keys(rows, shape))
    if sizes.unreadable:
        refused.append(unreadable_changes(classified, settled, shape, hour))
    if refused and not (found := reduce(DataFrame.unionByName, refused).localCheckpoint()).isEmpty():
        return Refused(found)
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


def _count_broken_keys(stats: TableStats, counts: Counts, sizes: SettledSizes) -> int:
    """Changes that were not folded because their key is broken: those of the statistics that nothing else counted."""
    of_hour = counts.applied + counts.duplicate + counts.superseded
    released = counts.released_applied + counts.released_duplicate + counts.released_superseded
    folded = sizes.landed_count + sizes.released_count
    return stats.landed + stats.released - folded - of_hour - released
