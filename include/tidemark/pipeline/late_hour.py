"""An hour whose cut is made late or again, and what the change log holds that another cut may lack."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.changelog.good_copies import without_good_copy
from tidemark.changelog.places import gives_place, own_from
from tidemark.changelog.table_history import Definitions, load_definitions
from tidemark.changelog.ties import tied
from tidemark.changelog.transaction_status import FEW_NAMES
from tidemark.changelog.transactions import open_at, publishes_unfinished
from tidemark.feeds.model import Feed
from tidemark.fold.typed_rows import TableShape
from tidemark.hours import Hour
from tidemark.ledger.change_log import changes_table, in_hour, is_published, is_row, without_entries
from tidemark.ledger.cut_state import state_up_to
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.hour_run import HourRun
from tidemark.ledger.kept_back import kept_back
from tidemark.ledger.quarantine import ALONGSIDE, ENTRY
from tidemark.ledger.receipts import Receipt
from tidemark.ledger.system_tables import held_transactions, waiting_entries
from tidemark.pipeline.breaking_changes import other_halves
from tidemark.pipeline.withheld import waits_whole
from tidemark.tables.staged_change import StagedChange


@dataclass(frozen=True, kw_only=True)
class SinceCut:
    """What the log holds that another cut may lack, which a cut goes on from; of whatever table."""

    entries: Column | None
    """Whether an entry is among it, or stands behind the first of it; None: all of the log has to be read, for other entries
    may give these another place."""
    open: DataFrame | None
    """The transactions (``tx``) with such entries that only a later hour than the cut's completes, or publishes by the feed's
    policy; None: there are none."""
    in_transactions: bool
    """Whether an entry of a transaction was published since."""
    tells_of_others: bool
    """Whether others have their places, or their meaning, by what was published since, of later hours too."""


@dataclass(frozen=True, kw_only=True)
class MendedLater:
    """What waits as of a cut with refused changes of which only a later hour brings a good copy."""

    transactions: DataFrame
    """The transactions (``tx``) that wait whole."""
    halves: DataFrame | None
    """The changes (log rows) that wait with the other half of their key change alone; None: there are none."""


@dataclass(frozen=True, kw_only=True)
class TableCut:
    """What the cut of one table is to be."""

    base: Hour | None
    """The hour whose cut it goes on from; None: none's."""
    change: StagedChange | None = None
    """What it changes; None: nothing."""
    rows: int | None = None
    """How many rows of the cut before it the hour writes or deletes; None: it has no row of the table."""
    shape: TableShape | None = None
    """The table's columns, where something changes."""
    log_rows: DataFrame | None = None
    """The log rows that it is of, where something changes."""


@dataclass(frozen=True, kw_only=True)
class LateHour:
    """An hour whose cut is made late or again, by a publication in the making."""

    spark: SparkSession
    """The session in which it is made."""
    feed: Feed
    """The feed."""
    receipt: Receipt
    """The receipt of the publication in the making."""
    publication: str
    """The name of this publication."""
    staged: list[str]
    """The tables that it has staged."""
    then: FeedState
    """The feed's state with the hour, hours before it, and the publication in the making."""
    all: FeedState
    """The feed's state with every hour, and the publication in the making."""
    definitions: Definitions
    """What the log says of the tables' columns. A constant that only a later hour fills in is not among it."""
    entries: DataFrame
    """The published entries of the log."""
    mended_later: MendedLater | None
    """What waits as of the cut, for a refused change of which only a later hour brings a good copy; None: nothing does."""
    hour: Hour
    """The hour of the cut."""
    again: bool
    """Whether the hour has a cut that is made again."""
    from_start: bool
    """Whether no cut is gone on from: the publication may give rows of other hours another place, or another meaning."""
    notes: list[str] = field(default_factory=list)
    """What the receipt says of the cuts that are made."""
    asked: dict[Hour, SinceCut] = field(default_factory=dict)
    """What :meth:`since` has answered."""
    prepared: dict[str, TableCut] = field(default_factory=dict)
    """By table, what the cut is to be, where it was needed before it is made."""

    def since(self, base: Hour, before: FeedState) -> SinceCut:
        """What the log holds that the cut of ``base`` may lack. ``before``: what that cut shows."""
        if base not in self.asked:
            self.asked[base] = self._since(before)
        return self.asked[base]

    def _since(self, before: FeedState) -> SinceCut:
        lacking, since, in_transaction = _may_lack(self, before), ~is_published(before), F.col("tx").isNotNull()
        found = self.entries.where(is_published(self.then) & lacking).agg(
            F.min(F.when(is_row(), F.col("position"))).alias("lowest"),
            F.bool_or(since & in_transaction).alias("in_transactions"),
            F.bool_or(in_transaction).alias("may_be_open"),
        ).first()  # fmt: skip
        assert found is not None
        entries: Column | None = lacking
        if found.lowest is not None:
            own = own_from(found.lowest, self.all, self.all.places_until)
            entries = lacking | (F.col("position") >= found.lowest) if own else None
        return SinceCut(
            entries=entries, open=self.open if entries is None else self._open(entries, any_=bool(found.may_be_open)),
            in_transactions=bool(found.in_transactions),
            tells_of_others=_tell_of_others(self.entries.where(since), self.feed, self.all),
        )  # fmt: skip

    @cached_property
    def open(self) -> DataFrame | None:
        """The transactions (``tx``) that only a later hour completes; None: there are none."""
        return self._open(None)

    def _open(self, these: Column | None, *, any_: bool = True) -> DataFrame | None:
        """The same, of those that have entries of ``these``; None: of all. ``any_``: whether any of what another cut may lack
        is of a transaction: what stands behind it is whole in both."""
        if not any_:
            return self.mended_later.transactions if self.mended_later is not None else None
        entries, shown = self.entries.where(F.col("tx").isNotNull()), is_published(self.then)
        if these is not None:
            of_these = entries.where(shown & these).select("tx")
            unfinished = publishes_unfinished(self.feed)
            continued = entries.where(~shown).select("tx")
            names = (of_these if unfinished else continued.join(of_these, "tx", "left_semi")).distinct()
            if not (few := [row.tx for row in names.limit(FEW_NAMES + 1).collect()]):
                return self.mended_later.transactions if self.mended_later is not None else None
            # Which files have none of a few is known without opening them.
            entries = entries.where(F.col("tx").isin(few)) if len(few) <= FEW_NAMES else entries
        open_ = open_at(entries, shown, self.feed, self.hour, bad=bool(self.all.with_bad))
        if self.mended_later is not None:
            open_ = open_.unionByName(self.mended_later.transactions)
        return open_.localCheckpoint()


def load_late_hour(run: HourRun, of: Hour | None) -> LateHour:
    """The hour of a cut that the publication in the making makes late, its own, or again, that ``of`` a published hour."""
    spark, feed, made = run.spark, run.feed, run.state.attempt
    receipt = made.receipt
    assert receipt is not None, "it is staged"
    at = of or receipt.hour
    everything = run.state.after(receipt)
    then = state_up_to(everything, at)
    entries = spark.table(changes_table(feed.feed))
    now = tied(entries.where(is_published(everything)), feed, everything.edges)
    definitions = load_definitions(now.withColumn("landed_this_hour", F.lit(False)), feed, everything.with_statements)
    if definitions.fills:  # rows have no value of a column that a later hour adds
        definitions = definitions.filled_by(statements_of(entries, then))
    return LateHour(
        spark=spark, feed=feed, receipt=receipt, publication=run.state.publication,
        staged=made.staged, then=then, all=everything, definitions=definitions,
        entries=now, mended_later=_mended_later(now, then, everything, run), hour=at, again=of is not None,
        from_start=of is not None
        and (receipt.redelivered > 0 or _tell_of_others(now.where(in_hour(receipt.hour)), feed, everything)),
    )  # fmt: skip


def _mended_later(now: DataFrame, then: FeedState, everything: FeedState, run: HourRun) -> MendedLater | None:
    """None: nothing was ever refused. ``now``: all published log entries; ``then``: what the cut shows."""
    spark, feed = run.spark, run.feed
    if everything.in_quarantine == {}:
        return None

    def broken(refused: DataFrame, known: FeedState) -> DataFrame:
        shown = now.where(is_published(known) & (F.col("op") != "bad"))
        good = without_entries(shown, kept_back(spark, feed.feed, known))
        return without_good_copy(refused, good, feed, known, everything.places_until)

    kept = kept_back(spark, feed.feed, everything).where(F.col("stage") != ALONGSIDE)
    of_cut = now.where(is_published(then))
    hours = [row.hour for row in kept.select("hour").distinct().collect()]
    refused = of_cut.where(F.col("hour").isin(hours)).join(kept, ENTRY, "left_semi").select(*now.columns)
    refused = broken(refused.localCheckpoint(), then)
    lost = without_entries(refused, broken(refused, everything)).localCheckpoint()
    whole = F.coalesce(waits_whole(feed), F.lit(False))
    names, alone = lost.where(whole).select("tx").distinct(), lost.where(~whole & is_row())
    places = [row.position for row in alone.select("position").distinct().limit(FEW_NAMES + 1).collect()]
    if not places:
        return MendedLater(transactions=names, halves=None)
    rows = of_cut.where(is_row())
    if len(places) <= FEW_NAMES:  # which files have none of a few is known without opening them
        rows = rows.where(F.col("position").isin(places))
    halves = other_halves(rows, alone.withColumns({"stage": F.lit(""), "reason": F.lit("")})).select(*now.columns)
    return MendedLater(transactions=names, halves=halves)


def _tell_of_others(entries: DataFrame, feed: Feed, state: FeedState) -> bool:
    """Whether others have their places, or their meaning, by any of the published entries. One Spark job, unless the feed's
    ``state`` knows of none that does."""
    if not state.places_until and not state.with_statements:
        return False
    return not entries.where(gives_place(feed) | (F.col("op") == "schema")).isEmpty()


def _may_lack(hour: LateHour, before: FeedState) -> Column:
    """Whether a cut may lack an entry of the log: one that was published since, or of a transaction that was held when the
    cut was made, or from an hour of which something waited then, or has left quarantine since. ``before``: what it shows."""
    spark, feed = hour.spark, hour.feed.feed
    lacking = ~is_published(before)
    hours: list[DataFrame] = []
    if (held := held_transactions(spark, feed, before)) is not None:
        few = [row.tx for row in held.select("tx").limit(FEW_NAMES + 1).collect()]
        of_held = F.col("hour").isin(
            [row.hour for row in held.select(F.explode("hours").alias("hour")).distinct().collect()]
        )
        lacking |= of_held & F.col("tx").isin(few) if len(few) <= FEW_NAMES else of_held
    if (waiting := waiting_entries(spark, feed, before)) is not None:
        hours.append(waiting.select("hour"))
    if hour.all.took_up:
        kept = kept_back(spark, feed, before).select("hour", *ENTRY)
        hours.append(without_entries(kept, kept_back(spark, feed, hour.all)).select("hour"))
    if hours:
        found = reduce(DataFrame.unionByName, hours).distinct().collect()
        lacking |= F.col("hour").isin([row.hour for row in found])
    return lacking


def statements_of(entries: DataFrame, published: FeedState) -> set[tuple[str, str]]:
    """The statements of published hours: the source's table and the position."""
    stated = entries.where(
        is_published(published) & F.col("hour").isin(published.with_statements) & (F.col("op") == "schema")
    )
    return {(row.source_table, row.position) for row in stated.select("source_table", "position").distinct().collect()}
