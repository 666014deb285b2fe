"""An hour's changes, table by table, beside what is published of the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.changelog.places import placed_again
from tidemark.changelog.table_view import TableView
from tidemark.fold.truncates import UnderTruncate, under_truncate
from tidemark.fold.typed_rows import TableShape
from tidemark.ledger.change_log import changes_table, is_published, of_tables
from tidemark.ledger.change_stats import TableStats
from tidemark.ledger.hour_run import HourRun
from tidemark.ledger.receipts import Counts
from tidemark.pipeline.assemble import Assembled

#: Names of transactions that a receipt tells.
MOST_NAMED = 20


@dataclass(frozen=True)
class Withheld:
    """What was taken out of an hour. ``rows``: log rows with ``stage`` and ``reason``, and ``whole``: whether all of their
    transaction waits. By table: ``counts`` of them, and how many fail a check themselves (``checked``). ``alongside``:
    those of the hour that are not refused themselves. ``transactions``: how many wait whole. ``named``: transactions
    (``tx``) of which the feed has only the refused changes wait; ``split``: the first names of those among them of which
    other changes are published."""

    rows: DataFrame
    named: DataFrame
    counts: dict[str, Counts] = field(default_factory=dict)
    checked: dict[str, int] = field(default_factory=dict)
    alongside: int = 0
    transactions: int = 0
    split: list[str] = field(default_factory=list)

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


@dataclass(frozen=True)
class HourChanges:
    """The assembled changes of an hour, and the statistics of each table in them. ``withheld``: what was taken out of
    them. ``small``: whether they are kept at hand, rather than read again for each table. ``stopped``: the tables that are
    left as they are, and why. ``states``: what is published of each other table whose columns are known. ``repeated``: how
    many changes were taken out because they are published already, by table. ``warnings``: what is said of tables."""

    run: HourRun
    assembled: Assembled
    stats: list[TableStats]
    small: bool
    withheld: Withheld | None = None
    stopped: Mapping[str, str] = field(default_factory=dict)
    states: Mapping[str, TableView] = field(default_factory=dict)
    repeated: Mapping[str, Counts] = field(default_factory=dict)
    warnings: Mapping[str, list[str]] = field(default_factory=dict)

    def rows_of(self, table: str) -> DataFrame:
        """The log rows of one table."""
        return self.assembled.rows.where(F.col("table") == table)


@dataclass(frozen=True)
class TableChanges:
    """One table's changes of the hour. ``rows``: log rows that no truncate has removed; ``counts``: of the truncates,
    of the rows that they removed, and of repeated ones; ``state``: what is published of the table; ``evolved``: whether its
    columns are others now, even if no row of the hour is."""

    run: HourRun
    stats: TableStats
    state: TableView
    rows: DataFrame
    counts: Counts
    evolved: bool

    @property
    def shape(self) -> TableShape:
        """The table's columns and key."""
        return self.state.shape


def table_changes(hour: HourChanges, stats: TableStats, state: TableView) -> TableChanges:
    """One table's changes. The table is made, or its columns evolve, as the changes need it."""
    evolved = state.evolve()
    left = without_truncated(hour, stats, state.truncated)
    counts = left.counts.plus(hour.repeated.get(stats.table, Counts()))
    return TableChanges(hour.run, stats, state, left.rows, counts, evolved)


def without_truncated(hour: HourChanges, stats: TableStats, truncated: str | None) -> UnderTruncate:
    """One table's log rows of the hour without the truncates, and without what the newest of them removes."""
    if truncated is not None and not stats.truncates and stats.first >= truncated:
        truncated = None  # nothing of the hour stands before it
    known: set[str] = set()
    if truncated is not None and stats.truncates:
        log = hour.run.spark.table(changes_table(hour.run.feed.feed))
        published = log.where(is_published(hour.run.state) & of_tables((stats.table,), tuple(stats.sources)))
        truncates = placed_again(published.where("op = 'truncate'"), log, hour.run.feed, hour.run.state.reloads)
        # An older truncate cannot be one of the hour's own.
        repeatable = truncates.where(F.col("position") >= stats.first)
        known = {row.position for row in repeatable.select("position").distinct().collect()}
    return under_truncate(hour.rows_of(stats.table), truncated, known)
