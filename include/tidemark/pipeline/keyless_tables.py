"""Tables without a key: a multiset of rows, counted from the change log."""

from __future__ import annotations

from pyspark.sql import functions as F

from tidemark.ledger.receipts import Counts
from tidemark.merge import keyless
from tidemark.merge.typed_rows import in_one_notation
from tidemark.pipeline.hour_changes import TableChanges
from tidemark.pipeline.table_outcome import TableOutcome


def settle_keyless(changes: TableChanges) -> TableOutcome:
    """Count the copies of each row that the hour touches, over everything published and the hour's own changes."""
    state, shape, stats, counts = changes.state, changes.shape, changes.stats, changes.counts
    # Released changes are as new to the table as the hour's own.
    new = changes.rows.select(*state.log_columns()).withColumn("landed_this_hour", F.lit(True))
    together = state.published_rows().unionByName(new, allowMissingColumns=True)
    effective = keyless.effective(in_one_notation(together, shape)).localCheckpoint()
    sums = effective.agg(F.coalesce(F.sum(F.col("times") - F.col("times_before")), F.lit(0)).alias("more")).first()
    assert sums is not None
    # When the table is rebuilt or emptied, every copy is written; otherwise only the images whose number changes.
    written = F.col("now") > 0 if state.rebuild or stats.emptied is not None else F.col("now") != F.col("before")
    images = keyless.copies(effective).where(written)
    settled = keyless.settle_copies(images, shape, changes.run.hour).localCheckpoint()
    landed = stats.landed - counts.applied - counts.duplicate - counts.superseded
    applied = min(int(sums.more), landed)
    released_applied = min(int(sums.more) - applied, stats.released)
    folded = Counts(
        applied=applied,
        duplicate=landed - applied,
        released_applied=released_applied,
        released_duplicate=stats.released - released_applied - counts.released_superseded,
    )
    sizes = settled.agg(F.count_if(~F.col("deleted")).alias("written"), F.count_if("deleted").alias("deleted")).first()
    assert sizes is not None
    return TableOutcome(settled, sizes.written, sizes.deleted, counts.plus(folded))
