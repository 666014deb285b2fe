"""The published changes of one table, in its feed's change log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.changelog.places import placed, placed_again
from tidemark.changelog.resolve import LoggedColumns
from tidemark.changelog.table_history import Definitions, with_definitions
from tidemark.changelog.ties import tied_log
from tidemark.changelog.transaction_status import published_unused, without_messages
from tidemark.feeds.model import Feed
from tidemark.ledger.change_log import is_published, is_row, of_tables, rolled_back
from tidemark.ledger.change_stats import empties, has_no_schema, schema_of
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.image_names import bounded, names_in, summarize
from tidemark.ledger.kept_back import kept_back
from tidemark.ledger.quarantine import ENTRY, SCREEN
from tidemark.ledger.system_tables import held_transactions, waiting_entries


@dataclass(frozen=True, kw_only=True)
class TableLog:
    """The published changes of one table."""

    spark: SparkSession
    """The session that reads them."""
    feed: Feed
    """The feed that the table is of."""
    state: FeedState
    """The feed's state: what it has published counts, and nothing else."""
    definitions: Definitions
    """What the stream has stated, of all tables of the feed."""
    table: str
    """The published ``schema.table``."""
    sources: tuple[str, ...]
    """The source's tables that are published as ``table``, or as one of those that are ``also`` read."""
    also: tuple[str, ...] = ()
    """Other published tables of the feed, whose changes are read with it."""
    left_out: DataFrame | None = None
    """Transactions (``tx``) that do not count, beside those that are held. None: no others."""
    withdrawn: DataFrame | None = None
    """Entries that are published and no part of the table any more. None: there are none."""
    named_by: FeedState | None = None
    """The publications whose markers name transactions. None: those of ``state``."""
    only: Column | None = None
    """Whether a log entry's rows are read; what tells about them is read of the whole log. None: those of all are."""
    stand_alone: bool = False
    """None of these rows takes its place in the source's order from other entries."""

    def columns(self) -> list[str]:
        """Columns of log rows, with ``landed_this_hour``."""
        return [*self._log().columns, "landed_this_hour"]

    def rows(self, truncated: str | None) -> DataFrame:
        """The log rows that are part of the snapshot: published, not held, not waiting, not in quarantine, not rolled back,
        and not older than the position ``truncated``."""
        rows = self._placed(self._published().where(F.col("op") != "truncate"))
        if truncated is not None:
            rows = rows.where(F.col("position") >= truncated)
        rows = with_definitions(self.counted(rows), self.definitions, self.feed)
        return rows.where("problem is null").drop("waits_for")

    def known_rows(self) -> DataFrame:
        """All log rows of the table but truncates, counted or not, as :meth:`rows` gives them, with ``published``."""
        of_table = self._of_table() & (F.col("op") != "truncate")
        rows = self._placed(self._log().where(of_table))
        rows = rows.withColumns({"landed_this_hour": F.lit(False), "published": is_published(self.state)})
        return with_definitions(rows, self.definitions, self.feed)

    def truncates(self) -> DataFrame:
        """The log rows that empty the table, as :meth:`rows` gives the others. Also those that are refused: the last row of
        a snapshot ends it, whatever it holds."""
        rows = self._published().where(empties())
        return self.counted(self._placed(rows), refused=True)

    def newest_truncate(self) -> str | None:
        """The position of the newest of these. One Spark job."""
        found = self.truncates().agg(F.max("position")).first()
        return None if found is None else found[0]

    def counted(self, rows: DataFrame, *, refused: bool = False) -> DataFrame:
        """Published rows, of whatever table, with ``landed_this_hour``, without those that are no part of any snapshot.
        ``refused``: with those that are refused themselves."""
        rows = rows.withColumn("landed_this_hour", F.lit(False))
        if self.left_out is not None:
            rows = rows.join(F.broadcast(self.left_out), "tx", "left_anti").select(*rows.columns)
        if self.withdrawn is not None:
            rows = rows.join(F.broadcast(self.withdrawn.select(*ENTRY)), ENTRY, "left_anti").select(*rows.columns)
        held = held_transactions(self.spark, self.feed.feed, self.state)
        if held is not None:
            # What was published of it in other hours stays: then only a redelivery of it is held.
            names = held.select("tx", F.explode("hours").alias("hour"))
            rows = rows.join(F.broadcast(names), ["tx", "hour"], "left_anti").select(*rows.columns)
        waiting = waiting_entries(self.spark, self.feed.feed, self.state)
        if waiting is not None:
            rows = rows.join(waiting.select(*ENTRY), ENTRY, "left_anti").select(*rows.columns)
        if self.state.in_quarantine != {}:
            kept = kept_back(self.spark, self.feed.feed, self.state).where("change is not null")
            kept = kept.where(F.col("stage") != SCREEN) if refused else kept
            rows = rows.join(F.broadcast(kept.select(*ENTRY)), ENTRY, "left_anti").select(*rows.columns)
        if self._unused is not None:
            rows = without_messages(rows, self._unused).select(*rows.columns)
        never_committed = rolled_back(self._log(), self.state)
        if never_committed is not None:
            rows = rows.join(never_committed, "tx", "left_anti").select(*rows.columns)
        return rows

    def carried(self) -> LoggedColumns:
        """The columns that the log rows of the snapshot carry; read from narrow columns. What only waits, or is held, gives
        the table no column: nothing may tell its type yet."""
        rows = self.counted(placed_again(self._published(), self._log(), self.feed, self.state.reloads))
        return self._columns(rows, self.definitions.of(self.sources[0]).name_now)

    def columns_of(self, rows: DataFrame) -> LoggedColumns:
        """The columns that :meth:`rows` carry. One Spark job."""
        return self._columns(rows, lambda name, _: name)

    def _columns(self, rows: DataFrame, name_now: Callable[[str, int], str | None]) -> LoggedColumns:
        generation = F.lit(0) if self.definitions.generation is None else self.definitions.generation
        counts, sets = {"unsaid": F.count_if(has_no_schema())}, {"schemas": schema_of(generation)}
        found = summarize(rows, [], generation, counts=counts, sets=sets).first()
        assert found is not None
        columns = [
            [now for name in names_in(text) if (now := name_now(name, number)) is not None]
            for text, number in bounded(self.table, found.columns)
        ]
        schemas = [(text, number) for text, number in bounded(self.table, found.schemas)]
        return LoggedColumns(columns, schemas, bool(found.unsaid))

    @cached_property
    def _unused(self) -> DataFrame | None:
        """Messages of deliveries that do not count; None: there are none. To tell them takes jobs of its own."""
        return published_unused(self._log(), self.feed, self.state)

    def _log(self) -> DataFrame:
        return tied_log(self.spark, self.feed, self.named_by or self.state)

    def _placed(self, rows: DataFrame) -> DataFrame:
        return placed(rows, None if self.stand_alone else self._log(), self.feed, self.state.reloads)

    def _published(self) -> DataFrame:
        return self._log().where(is_published(self.state) & self._of_table())

    def _of_table(self) -> Column:
        of_table = is_row() & of_tables((self.table, *self.also), self.sources)
        return of_table if self.only is None else of_table & self.only
