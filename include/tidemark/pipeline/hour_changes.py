"""An hour's changes, table by table, beside what is published of the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.changelog.places import placed_again
from tidemark.changelog.table_log import TableLog
from tidemark.changelog.table_view import TableView
from tidemark.fold.truncates import UnderTruncate, under_truncate
from tidemark.fold.typed_rows import TableShape
from tidemark.formats import load_format
from tidemark.formats.contract import SharesMoments
from tidemark.ledger.change_log import changes_table, is_published, of_tables, without_entries
from tidemark.ledger.change_stats import TableStats
from tidemark.ledger.hour_run import HourRun
from tidemark.ledger.receipts import Counts
from tidemark.pipeline.assemble import Assembled

#: Names of transactions that a receipt tells.
MOST_NAMED = 20


@dataclass(frozen=True, kw_only=True)
class Withheld:
    """What was taken out of an hour, because something of it is refused."""

    rows: DataFrame
    """Log rows with their ``stage`` and ``reason``, and ``whole``: whether all of their transaction waits."""
    named: DataFrame
    """Transactions (``tx``) of which only what is refused waits: the feed says `transactions.bad: split`."""
    counts: dict[str, Counts] = field(default_factory=dict)
    """How many of the rows each table has. They count as quarantined."""
    checked: dict[str, int] = field(default_factory=dict)
    """How many of those that landed in the hour fail a check themselves, by table."""
    alongside: int = 0
    """How many of the rows landed in the hour and are not refused themselves."""
    transactions: int = 0
    """How many transactions wait whole."""
    split: list[str] = field(default_factory=list)
    """The first names of transactions of ``named`` of which other changes are published: one more than a receipt names, where
    there are more."""

    @property
    def notes(self) -> list[str]:
        """What the receipt says of them."""
        notes = []
        if self.transactions:
            wait = "transaction waits" if self.transactions == 1 else "transactions wait"
            notes.append(f"{self.transactions} {wait} whole in quarantine: a change of each is refused")
        if self.split:
            more = ", …" if len(self.split) > MOST_NAMED else ""
            names = ", ".join(self.split[:MOST_NAMED])
            notes.append(f"split transactions (transactions.bad is split): {names}{more}")
        return notes


@dataclass(frozen=True, kw_only=True)
class HourChanges:
    """The assembled changes of an hour."""

    run: HourRun
    """The hour on its way through the stages."""
    assembled: Assembled
    """The changes, without those that were taken out."""
    stats: list[TableStats]
    """The statistics of each table in them, by name. A table that has lost all its changes keeps an empty one."""
    small: bool
    """Whether the changes are kept at hand, rather than read again for each table."""
    withheld: Withheld | None = None
    """What was taken out of them; None: nothing was."""
    stopped: Mapping[str, str] = field(default_factory=dict)
    """The tables that are left as they are, each with why."""
    states: Mapping[str, TableView] = field(default_factory=dict)
    """What is published of each other table whose columns are known."""
    repeated: Mapping[str, Counts] = field(default_factory=dict)
    """How many changes were taken out because they are published already, by table."""
    warnings: Mapping[str, list[str]] = field(default_factory=dict)
    """What the receipt says of a table for a person, by table."""

    def released(self) -> DataFrame | None:
        """Log rows that the hour takes out of quarantine again; None: it takes up none."""
        if (rows := self.assembled.taken_up) is None:
            return None
        for stay in (self.withheld.rows if self.withheld is not None else None, self.assembled.refused):
            rows = without_entries(rows, stay)
        return rows.localCheckpoint()

    def rows_of(self, table: str) -> DataFrame:
        """The log rows of one table."""
        return self.assembled.rows.where(F.col("table") == table)


@dataclass(frozen=True, kw_only=True)
class TableChanges:
    """One table's changes of the hour."""

    run: HourRun
    """The hour on its way through the stages."""
    stats: TableStats
    """The statistics of the table's changes."""
    state: TableView
    """What is published of the table."""
    rows: DataFrame
    """Log rows that no truncate has removed."""
    counts: Counts
    """What became of the changes that are not in the rows: truncates, what they removed, and repeated ones."""
    evolved: bool
    """Whether the table's columns are others now, even if no row of the hour is."""
    beside_truncate: bool
    """Whether nothing says of some rows whether they stand before the newest truncate or behind it."""

    @property
    def shape(self) -> TableShape:
        """The table's columns and key."""
        return self.state.shape


def table_changes(hour: HourChanges, stats: TableStats, state: TableView) -> TableChanges:
    """One table's changes. The table is made, or its columns evolve, as the changes need it."""
    evolved = state.evolve()
    late = state.rebuild or state.is_late(stats)
    left = without_truncated(hour, stats, state.truncated, late=late)
    counts = left.counts.plus(hour.repeated.get(stats.table, Counts()))
    return TableChanges(
        run=hour.run, stats=stats, state=state, rows=left.rows, counts=counts, evolved=evolved,
        beside_truncate=left.beside,
    )  # fmt: skip


def without_truncated(
    hour: HourChanges, stats: TableStats, truncated: str | None, *, late: bool
) -> UnderTruncate:  # fmt: skip
    """One table's log rows of the hour without the truncates, and without what the newest of them removes. ``late``: whether
    any of them may be published already."""
    if truncated is not None and not stats.truncates and stats.first >= truncated:
        truncated = None  # nothing of the hour stands before it
    known: set[str] = set()
    if truncated is not None and stats.truncates and late:
        log = hour.run.spark.table(changes_table(hour.run.feed.feed))
        published = log.where(is_published(hour.run.state) & of_tables((stats.table,), tuple(stats.sources)))
        truncates = placed_again(published.where("op = 'truncate'"), log, hour.run.feed, hour.run.state.reloads)
        # An older truncate cannot be one of the hour's own; nor is one known that was held, or waited in quarantine.
        repeatable = _log_of(hour, stats).counted(truncates.where(F.col("position") >= stats.first))
        known = {row.position for row in repeatable.select("position").distinct().collect()}
    format_ = load_format(hour.run.feed.format["type"])
    moment = format_.MOMENT if isinstance(format_, SharesMoments) else None
    return under_truncate(hour.rows_of(stats.table), truncated, known, moment)


def _log_of(hour: HourChanges, stats: TableStats) -> TableLog:
    """The published changes of one table of the hour."""
    run, definitions = hour.run, hour.assembled.definitions
    return TableLog(
        spark=run.spark, feed=run.feed, state=run.state, definitions=definitions, table=stats.table,
        sources=tuple(stats.sources),
    )  # fmt: skip
