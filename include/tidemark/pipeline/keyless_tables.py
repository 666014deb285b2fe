"""Tables without a key: a multiset of rows, of which the hour's changes add copies and take copies away.

What comes in order is added to what is stored, and takes the oldest of the equal rows there. What comes late may be counted
already: then all copies are counted from the change log.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from tidemark.changelog.folded_log import shared_positions, with_other_content
from tidemark.changelog.table_view import TableView
from tidemark.fold import keyless
from tidemark.fold.owed_copies import match_owed
from tidemark.fold.typed_rows import in_one_notation
from tidemark.ledger.receipts import CopiesProgress, Counts
from tidemark.logs import get_logger
from tidemark.pipeline.hour_changes import TableChanges
from tidemark.pipeline.table_outcome import TableOutcome

#: What the receipt says of changes that came again, mended or as they were before they were.
_OTHERS = "changes came again with other content: of each, what was published first stands"

log = get_logger()


@dataclass(frozen=True, kw_only=True)
class _Counted:
    """How often the hour's changes count, and the copies that they come to."""

    settled: DataFrame
    """SETTLED rows."""
    effective: dict[str, Any]
    """Sums over :func:`tidemark.fold.keyless.effective` changes: see :func:`_sums`."""
    copies: CopiesProgress
    """What later hours need to know of the table's copies."""
    warnings: list[str] = field(default_factory=list)
    """What the receipt says of them, for a person."""


def settle_keyless(changes: TableChanges) -> TableOutcome:
    """What the hour's changes come to, with what is stored where that tells enough, else with the change log."""
    state, stats, counts = changes.state, changes.stats, changes.counts
    # Released changes are as new to the table as the hour's own.
    new = changes.rows.select(*state.log_columns()).withColumn("landed_this_hour", F.lit(True))
    counted = None if state.recount else _count_new(changes, new)
    only_new = counted is not None and not stats.removing
    if counted is None:
        counted = _count_all(changes, new)
    of_rows = Observation()
    number = F.count_if(~F.col("deleted")).alias("written"), F.count_if("deleted").alias("deleted")
    settled = counted.settled.observe(of_rows, *number).localCheckpoint()
    landed, more = stats.landed - counts.applied - counts.duplicate - counts.superseded, counted.effective["more"]
    applied = min(more, landed)
    released_applied = min(more - applied, stats.released)
    folded = Counts(
        applied=applied,
        duplicate=landed - applied,
        released_applied=released_applied,
        released_duplicate=stats.released - released_applied - counts.released_superseded,
    )
    doubtful, merged, sizes = counted.effective["doubtful"], counted.effective["merged"], of_rows.get
    warnings = [*([_doubt(doubtful)] if doubtful else []), *([_merge(merged)] if merged else []), *counted.warnings]
    return TableOutcome(
        settled=settled.drop("unreadable"), written=sizes["written"], deleted=sizes["deleted"], counts=counts.plus(folded),
        warnings=warnings, only_new=only_new, copies=counted.copies,
    )  # fmt: skip


def _count_new(changes: TableChanges, new: DataFrame) -> _Counted | None:
    """Count the hour's own changes, all of which are newer than what is stored; None where they take away a row when none
    that is equal is there, whatever comes behind it."""
    found, state = Observation(), changes.state
    new, others = _without_others(new, state)
    effective = keyless.effective(new, shared_positions(changes.run.feed)).drop("taken")
    effective = effective.observe(found, *_sums()).localCheckpoint()
    added = keyless.added_copies(effective)
    if not changes.stats.removing:
        present = added.withColumns({"there": F.lit(True), "was": F.lit(False)})
    else:
        of_short = Observation()
        removed = effective.where("removed is not null").select(F.col("removed").alias("hash")).distinct()
        stored = keyless.stored_copies(state.published.read(), removed).localCheckpoint()
        there = stored.groupBy("hash").agg(F.count(F.lit(1)).alias("before"))
        images = keyless.copies(effective).drop("before").join(there, "hash", "left").withColumns(
            {"before": F.coalesce("before", F.lit(0)), "now": F.col("now") + F.coalesce("before", F.lit(0))}
        )  # fmt: skip
        short = F.count_if(F.col("before") + F.col("lowest") < 0).alias("short")
        images = images.observe(of_short, short).localCheckpoint()
        if of_short.get["short"]:
            log.info("counting copies from the change log", reason="rows are taken away that are not there")
            return None
        present = keyless.present_copies(added.unionByName(stored), images)
    settled = keyless.settle_copies(present, changes.shape, changes.run.hour)
    return _Counted(
        settled=settled, effective=dict(found.get), copies=CopiesProgress(), warnings=_told_of_others(others)
    )


def _count_all(changes: TableChanges, new: DataFrame) -> _Counted:
    """Count everything published and the hour's own changes."""
    state, shape, found, of_short = changes.state, changes.shape, Observation(), Observation()
    together = in_one_notation(state.published_rows().unionByName(new, allowMissingColumns=True), shape)
    together, others = _without_others(together, state)
    every = keyless.effective(together, shared_positions(changes.run.feed))
    effective = every.drop("taken").observe(found, *_sums()).localCheckpoint()
    short = F.count_if(F.least("lowest", "lowest_before") < 0).alias("short")
    images, owed = keyless.copies(effective).observe(of_short, short).localCheckpoint(), {"before": 0, "now": 0}
    if of_short.get["short"]:
        images = match_owed(every, images, shape).localCheckpoint()
        left = images.agg(*_owed()).first()
        assert left is not None
        owed = left.asDict()
    # When the table is rebuilt or emptied, every copy is written.
    everything = state.rebuild or changes.stats.emptied is not None
    present = keyless.present_copies(keyless.added_copies(effective), images)
    settled = keyless.settle_copies(present, shape, changes.run.hour, everything=everything)
    more = owed["now"] - owed["before"]
    return _Counted(
        settled=settled,
        effective=dict(found.get),
        copies=CopiesProgress(owed=owed["now"], rewritten=state.rewritten),
        warnings=[*_told_of_others(others), *([_not_there(more)] if more > 0 else [])],
    )


def _without_others(rows: DataFrame, state: TableView) -> tuple[DataFrame, Observation]:
    """Log rows without changes of before that say something else; and how many of the hour's are (``changes``), once the rest
    is computed."""
    counted, marked = Observation(), with_other_content(rows, state.log.feed, state.log.state)
    others = F.count_if(F.col("other_content") & F.col("landed_this_hour")).alias("changes")
    return marked.observe(counted, others).where("not other_content").drop("other_content"), counted


def _told_of_others(counted: Observation) -> list[str]:
    others = counted.get["changes"]
    return [f"{others} {_OTHERS}"] if others else []


def _sums() -> list[Column]:
    """How many changes count now and did not before, and how many rows are taken for another delivery, of one kind and the
    other."""
    return [
        F.coalesce(F.sum(F.col("times") - F.col("times_before")), F.lit(0)).alias("more"),
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ("doubtful", "merged")),
    ]


def _owed() -> list[Column]:
    """How many copies were taken away that are not there, before the hour and with it."""
    return [F.coalesce(F.sum(F.greatest(-F.col(n), F.lit(0))), F.lit(0)).alias(n) for n in ("before", "now")]


def _doubt(rows: int) -> str:
    return (
        f"{rows} rows stand at one position with equal ones right before them, and are taken for a repetition that came "
        "later: what numbers the changes of a transaction (the connector's transaction metadata) would tell"
    )


def _merge(rows: int) -> str:
    return (
        f"{rows} rows of a full load are equal to others and count once with them: the container keeps no offsets, which "
        "would tell equal rows of the source from a message that came again: export them with offsets, or with a key"
    )


def _not_there(copies: int) -> str:
    return (
        f"{copies} copies of rows are taken away that are not there: their inserts have not come yet, came before this feed "
        "began, or the source's images of rows before a change lack values that they have (large columns)"
    )
