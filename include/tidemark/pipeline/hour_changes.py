"""An hour's changes, table by table, beside what is published of the table: what compact folds and validate withholds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.ledger.change_log import changes_table, in_hour, is_published, of_table
from tidemark.ledger.change_stats import TableStats
from tidemark.ledger.manifest import Manifest
from tidemark.ledger.quarantine import NEVER_COMPLETED
from tidemark.ledger.receipts import Counts
from tidemark.logs import log_context
from tidemark.merge import late_changes as late
from tidemark.merge.truncates import UnderTruncate, under_truncate
from tidemark.merge.typed_rows import TableShape
from tidemark.pipeline.assemble import Assembled, assemble, with_stats
from tidemark.pipeline.withheld import Withheld, refusal, without
from tidemark.snapshots.contract import Snapshot
from tidemark.tables.table_state import State, Work, open_state


@dataclass(frozen=True)
class HourChanges:
    """The assembled changes of an hour, and the statistics of each table in them. ``withheld``: what was taken out of
    them. ``small``: whether they are kept at hand, rather than read again for each table."""

    work: Work
    assembled: Assembled
    stats: list[TableStats]
    small: bool
    withheld: Withheld | None = None

    def rows_of(self, table: str) -> DataFrame:
        """The log rows of one table."""
        return self.assembled.rows.where(F.col("table") == table)


@dataclass(frozen=True)
class TableChanges:
    """One table's changes of the hour. ``rows``: log rows that no truncate has removed; ``counts``: of the truncates
    and of the rows that they removed; ``state``: what is published of the table."""

    work: Work
    stats: TableStats
    state: State
    rows: DataFrame
    counts: Counts

    @property
    def shape(self) -> TableShape:
        """The table's columns and key."""
        return self.state.shape


def load_hour_changes(work: Work, manifest: Manifest) -> HourChanges:
    """Assemble the hour, without the transactions of which a record cannot be decoded, or a change can reach no table.
    Reads the change log; writes nothing."""
    assembled = assemble(work.spark, work.feed, manifest, work.history)
    work = replace(work, history=work.history.making(assembled.reloads.begun))
    if manifest.small:
        # Each table of the feed plans and reads its own part of this: of a small hour, all at once is cheaper.
        assembled = replace(assembled, rows=assembled.rows.localCheckpoint())
    hour = HourChanges(work, *with_stats(assembled, work.feed, work.history), small=manifest.small)
    broken = _broken_transactions(hour)
    if broken is None:
        return hour
    with log_context(stage="assemble"):
        return without(hour, None, broken)[0]


def _broken_transactions(hour: HourChanges) -> DataFrame | None:
    """Transactions of the hour's changes (``tx``, and ``why`` they wait) of which a record cannot be decoded, or a change
    can reach no table; None where there are none."""
    feed, history, assembled, parts = hour.work.feed, hour.work.history, hour.assembled, []
    earlier = [h for h in history.hours if (receipt := history.of_hour(h)) is not None and receipt.bad]
    if assembled.account.bad or earlier:
        log = hour.work.spark.table(changes_table(feed.feed))
        log = log.where(F.col("hour").isin([*earlier, hour.work.hour]) & (F.col("op") == "bad"))
        bad = log.where((is_published(history) | in_hour(hour.work.hour)) & F.col("tx").isNotNull())
        if feed.undeclared == "quarantine":  # what is no table of the feed leaves its transactions whole
            bad = bad.where(F.col("source_table").isNull() | F.col("source_table").isin(list(feed.tables)))
        why = F.concat(F.lit("a record of it cannot be decoded: "), "problem")
        parts.append(bad.select("tx", why.alias("why")))
    if assembled.refused is not None:
        refused = assembled.refused.where(F.col("tx").isNotNull() & (F.col("reason") != NEVER_COMPLETED))
        parts.append(refused.select("tx", refusal(F.col("table"), F.col("reason")).alias("why")))
    if not parts:
        return None
    named = reduce(DataFrame.unionByName, parts)
    found = named.join(assembled.rows, "tx", "left_semi").localCheckpoint()
    return None if found.isEmpty() else found


def table_changes(hour: HourChanges, stats: TableStats, snapshot: Snapshot) -> TableChanges:
    """One table's changes. The table is made, or its columns evolve, as the changes need it."""
    moved, (_, withdrawn) = stats.table in hour.assembled.moved, hour.assembled.withdrawn.get(stats.table, ("", None))
    state = open_state(hour.work, stats, hour.assembled.definitions, snapshot, moved=moved, withdrawn=withdrawn)
    left = without_truncated(hour, stats, state.truncated)
    return TableChanges(hour.work, stats, state, left.rows, left.counts)


def without_truncated(hour: HourChanges, stats: TableStats, truncated: str | None) -> UnderTruncate:
    """One table's log rows of the hour without the truncates, and without what the newest of them removes."""
    if truncated is not None and not stats.truncates and stats.first >= truncated:
        truncated = None  # nothing of the hour stands before it
    known: set[str] = set()
    if truncated is not None and stats.truncates:
        log = hour.work.spark.table(changes_table(hour.work.feed.feed))
        published = log.where(is_published(hour.work.history) & of_table(stats.table, tuple(stats.sources)))
        # An older truncate cannot be one of the hour's own.
        repeatable = published.where((F.col("op") == "truncate") & (F.col("position") >= stats.first))
        known = {row.position for row in repeatable.select("position").distinct().collect()}
    return under_truncate(hour.rows_of(stats.table), truncated, known)


def classify(changes: TableChanges, rows: DataFrame) -> late.Classified:
    """Separate the ROWS of a keyed table that are newer than all that it holds from late and repeated ones."""
    if not changes.state.needs_log_lookup(changes.stats):
        return late.Classified(rows, None, None, Counts())
    return late.classify(changes.state.published_table(), rows, changes.stats.links)
