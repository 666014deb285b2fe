"""Tables with a key: the hour's changes of each key are folded, and what cannot be read goes to quarantine.

In the ordinary case every change is newer than all that the table holds, which one comparison shows, and only the
hour's changes are folded. Otherwise (:mod:`tidemark.merge.late_changes`) repeated and outdated changes are set aside,
and the keys that a late change can still alter are folded again from the change log.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.ledger.change_stats import TableStats
from tidemark.ledger.quarantine_rows import refused_rows
from tidemark.ledger.receipts import Counts
from tidemark.logs import get_logger
from tidemark.merge.contract import COUNTED
from tidemark.merge.fold import fold
from tidemark.merge.typed_rows import key_is_whole, keyed_rows, settle
from tidemark.pipeline.hour_changes import TableChanges, classify
from tidemark.pipeline.table_outcome import TableOutcome
from tidemark.pipeline.unreadable_values import without_unreadable

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
    shape, stats, hour = changes.shape, changes.stats, changes.work.hour
    rows = keyed_rows(changes.rows, shape, expand=stats.moves > 0)
    classified = classify(changes, rows.where(key_is_whole(shape)))
    counts = changes.counts.plus(classified.counts)
    settled = settle(fold(classified.ordinary, partial=stats.partial > 0), shape, hour)
    if classified.refolded is not None:
        log.info("folding keys again from the change log", reason="changes came late, or rest on another key")
        settled = settled.unionByName(settle(classified.refolded, shape, hour, whole=True))
    settled = settled.localCheckpoint()
    sizes, quarantined = _sizes(settled), []
    if sizes.unreadable:
        readable = without_unreadable(stats.table, shape, hour, classified, settled)
        settled, counts = readable.settled, counts.plus(readable.moved)
        quarantined.append(readable.quarantined)
        moved = readable.moved.quarantined + readable.moved.released_quarantined
        log.warning("quarantined", changes=moved, reason="a value is not one of its column's type")
        sizes = _sizes(settled)
    broken_keys = _count_broken_keys(stats, counts, sizes)
    if broken_keys != Counts():
        bad = rows.where(~key_is_whole(shape) & F.col("counts"))
        bad_keys = broken_keys.quarantined + broken_keys.released_quarantined
        log.warning("quarantined", changes=bad_keys, reason="a key is missing or cannot be read")
        reason = F.lit(f"the key ({', '.join(shape.key)}) is missing or cannot be read")
        quarantined.append(refused_rows(bad, stats.table, "compact", reason))
    return TableOutcome(
        settled.drop("unreadable", *COUNTED),
        sizes.written,
        sizes.deleted,
        counts.plus(broken_keys).plus(sizes.counts),
        quarantined,
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


def _count_broken_keys(stats: TableStats, counts: Counts, sizes: SettledSizes) -> Counts:
    """Changes that were not folded because their key is broken: those of the statistics that nothing else counted."""
    other = counts.applied + counts.duplicate + counts.superseded + counts.quarantined
    other_released = (
        counts.released_applied + counts.released_duplicate + counts.released_superseded + counts.released_quarantined
    )
    return Counts(
        quarantined=stats.landed - sizes.landed_count - other,
        released_quarantined=stats.released - sizes.released_count - other_released,
    )
