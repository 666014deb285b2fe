"""Tables without a key: a multiset of rows, counted from the change log."""

from __future__ import annotations

from pyspark.sql import Column, Observation
from pyspark.sql import functions as F

from tidemark.changelog.folded_log import shared_positions
from tidemark.fold import keyless
from tidemark.fold.owed_copies import match_owed, removed_images
from tidemark.fold.typed_rows import in_one_notation
from tidemark.ledger.receipts import Counts
from tidemark.pipeline.hour_changes import TableChanges
from tidemark.pipeline.table_outcome import TableOutcome


def settle_keyless(changes: TableChanges) -> TableOutcome:
    """Count the copies of each row that the hour touches, over everything published and the hour's own changes."""
    state, shape, stats, counts = changes.state, changes.shape, changes.stats, changes.counts
    # Released changes are as new to the table as the hour's own.
    new = changes.rows.select(*state.log_columns()).withColumn("landed_this_hour", F.lit(True))
    together = in_one_notation(state.published_rows().unionByName(new, allowMissingColumns=True), shape)
    of_changes, of_images, of_rows = Observation(), Observation(), Observation()
    effective = keyless.effective(together, shared_positions(changes.run.feed))
    effective = effective.observe(
        of_changes,
        F.coalesce(F.sum(F.col("times") - F.col("times_before")), F.lit(0)).alias("more"),
        F.coalesce(F.sum("doubtful"), F.lit(0)).alias("doubtful"),
    ).localCheckpoint()
    images = keyless.copies(effective).observe(of_images, *_owed()).localCheckpoint()
    owed = of_images.get
    if owed["now"] or owed["before"]:
        images = match_owed(images, removed_images(together)).localCheckpoint()
        left = images.agg(*_owed()).first()
        assert left is not None
        owed = left.asDict()
    warnings = [_doubt(of_changes.get["doubtful"])] if of_changes.get["doubtful"] else []
    if owed["now"] > owed["before"]:
        warnings.append(_not_there(owed["now"] - owed["before"]))
    images = images.withColumns({name: F.greatest(name, F.lit(0)) for name in ("before", "now")})
    # When the table is rebuilt or emptied, every copy is written; otherwise only the images whose number changes.
    written = F.col("now") > 0 if state.rebuild or stats.emptied is not None else F.col("now") != F.col("before")
    settled = keyless.settle_copies(images.where(written), shape, changes.run.hour)
    number = F.count_if(~F.col("deleted")).alias("written"), F.count_if("deleted").alias("deleted")
    settled = settled.observe(of_rows, *number).localCheckpoint()
    landed = stats.landed - counts.applied - counts.duplicate - counts.superseded
    applied = min(int(of_changes.get["more"]), landed)
    released_applied = min(int(of_changes.get["more"]) - applied, stats.released)
    folded = Counts(
        applied=applied,
        duplicate=landed - applied,
        released_applied=released_applied,
        released_duplicate=stats.released - released_applied - counts.released_superseded,
    )
    sizes = of_rows.get
    return TableOutcome(settled, sizes["written"], sizes["deleted"], counts.plus(folded), warnings=warnings)


def _owed() -> list[Column]:
    """How many copies were taken away that are not there, before the hour and with it."""
    return [F.coalesce(F.sum(F.greatest(-F.col(n), F.lit(0))), F.lit(0)).alias(n) for n in ("before", "now")]


def _doubt(rows: int) -> str:
    return (
        f"{rows} rows stand at one position with equal ones right before them, and are taken for a repetition that came "
        "later: what numbers the changes of a transaction (the connector's transaction metadata) would tell"
    )


def _not_there(copies: int) -> str:
    return (
        f"{copies} copies of rows are taken away that are not there: their inserts have not come yet, or came before this "
        "feed began"
    )
