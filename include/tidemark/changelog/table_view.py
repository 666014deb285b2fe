"""What is published of one table, and what the stream has stated about it since: where an hour's changes begin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import cast

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tidemark.changelog.column_readings import refuse_reading_anew
from tidemark.changelog.renames import RenamePlan, plan_renames
from tidemark.changelog.resolve import (
    LoggedColumns,
    PublishedReadings,
    altered_in_another_case,
    refuse_former_name,
    refuse_other_sources,
    shape_of,
    told_columns,
)
from tidemark.changelog.table_history import Definitions
from tidemark.changelog.table_log import TableLog
from tidemark.changelog.unreadable_rows import refuse_unreadable_rows, sends_unreadable
from tidemark.errors import SchemaError, StateError
from tidemark.fold.few_keys import KeyValues, condition
from tidemark.fold.late_changes import PublishedChanges
from tidemark.fold.typed_rows import TableShape, in_one_notation, key_is_whole, keyed_rows
from tidemark.identifiers import TIDEMARK
from tidemark.lake.catalog import Where, read_rows
from tidemark.ledger.change_log import published_by
from tidemark.ledger.change_stats import TableStats
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.hour_run import HourRun
from tidemark.ledger.receipts import CopiesProgress, TableProgress
from tidemark.ledger.system_tables import pruned, published_rows
from tidemark.tables.published_table import PublishedTable
from tidemark.values.columns import Reading
from tidemark.values.type_changes import reconcile, refuse_other_key

#: A sort key behind all others: whatever comes may be known already.
_ANY = "~"


@dataclass(frozen=True, kw_only=True)
class TableView:
    """What is published of one table, and what it is to be for the changes of an hour. Where no hour is being made, there is
    no more than the log, the table, its shape and ``truncated``."""

    log: TableLog
    """Its published changes."""
    published: PublishedTable
    """The table as it is stored."""
    shape: TableShape
    """Its key and columns, those that the hour brings among them."""
    highest: str | None = None
    """The highest sort key that is published, or one behind all others where its rows were published under another name.
    None: none is."""
    truncated: str | None = None
    """The position of the newest truncate or reload, of this hour or before. None: there is none."""
    by_source: str | None = None
    """The position of the newest truncate alone."""
    new_truncate: bool = False
    """Whether this hour brought a truncate or a reload."""
    rebuild: bool = False
    """Whether all rows are folded again: they were never folded under this name; or a change of columns came late; or
    published rows have another place, other columns or another text than before, or count no more; or it was taken back."""
    moved: bool = False
    """Whether published changes of it have another place than before, or count no more: so may truncates and deletes."""
    taken_back: bool = False
    """Whether it is not as the last publication left it: somebody has taken it back to an older snapshot by hand, or dropped
    columns of it; or a publication that does not count has made it what it is."""
    change: RenamePlan = field(default_factory=RenamePlan)
    """What the stream states about the columns since the last publication."""
    columns: dict[str, str] = field(default_factory=dict)
    """All columns that the table has then, and their Spark types."""
    retired: list[str] = field(default_factory=list)
    """Columns that are stored, and hold nothing then."""
    readings: Mapping[str, Reading] = field(default_factory=dict)
    """How columns are read that were read in another way before, or not at all."""
    recount: bool = False
    """Of a table without a key: whether its stored rows do not tell what the hour's changes come to, so that its copies are
    counted from the change log."""
    learned: str | None = None
    """The highest sort key before the newest column came, where rows may lack others: they do not tell which of their
    changes came from a table without it. None: no column came so."""
    by_log: bool = False
    """Whether its columns are also those that the change log carries of it."""

    @property
    def untyped(self) -> list[str]:
        """The columns that are published for the first time, and that nothing gives a type."""
        return [name for name, reading in self.readings.items() if reading.by == "nobody"]

    @property
    def rewritten(self) -> list[str]:
        """The columns whose texts are rewritten into one notation."""
        return _rewritten(self.shape)

    @property
    def table(self) -> str:
        """The published ``schema.table``."""
        return self.log.table

    @property
    def emptied(self) -> str | None:
        """A sort key below which the stored rows do not stay, but for what a truncate of the hour deletes; None: they do."""
        if self.log.withdrawn is not None or self.taken_back:
            return _ANY
        return "" if self.rebuild and not self.shape.key else None

    def is_late(self, stats: TableStats) -> bool:
        """Whether any change of the hour may be older than what the table holds."""
        return is_late(stats, self.highest)

    def needs_log(self, stats: TableStats) -> bool:
        """Whether only the change log tells what the hour's changes come to."""
        return self.rebuild or _needs_log(stats, self.highest, self.learned, self.log, self.change)

    def entangles(self, stats: TableStats) -> bool:
        """Whether changes of the hour rest on other keys, or rows meet at one key, perhaps with those of an earlier hour."""
        met = stats.links > 0 or stats.collisions > 0
        return met or (stats.leaving > 0 and _goes_on(stats, self.log.state))

    def may_be_partial(self, stats: TableStats) -> bool:
        """Whether a row may have columns that are newer than its base."""
        return _may_be_partial(stats, self.log.state)

    def ends_rows(self, stats: TableStats) -> bool:
        """Whether a truncate or reload of the hour ends what rows over it hold from before."""
        return self.new_truncate and self.is_late(stats) and self.may_be_partial(stats)

    def evolve(self) -> bool:
        """Make the table, or rename, add and widen its columns, for the changes of the hour; whether it is another then."""
        version = self.log.feed.declared(self.table).format_version
        return self.published.evolve(self.columns, self.shape.key, self.change.renamed, format_version=version)

    def log_columns(self) -> list[str]:
        """Columns of log rows, with ``landed_this_hour``."""
        return self.log.columns()

    def published_rows(self) -> DataFrame:
        """The table's log rows that are part of the snapshot."""
        return self.log.rows(self.truncated)

    def published_changes(self) -> PublishedChanges:
        """What late changes are classified by."""
        logged = keyed_rows(self.published_rows(), self.shape, expand=True, came=published_by(self.log.state))
        return PublishedChanges(
            rows=logged.where(key_is_whole(self.shape)),
            shape=self.shape,
            # What is withdrawn, or was never published, is stored still: nothing is older than it.
            stored=self.stored().limit(0) if self.emptied == _ANY else self.stored(),
            highest=self.highest,
            truncated=self.truncated,
            new_truncate=self.new_truncate,
            pruned=pruned(self.log.spark, self.log.feed.feed),
            rebuild=self.rebuild,
        )

    def check_logged_rows(self) -> None:
        """SchemaError where all rows must be folded again, and the log holds changes without the key, or rows with a text
        that is no value of its column's type."""
        if not self.rebuild:
            return
        log, shape = self.published_rows(), self.shape
        rows = keyed_rows(log, shape, expand=True) if shape.key else in_one_notation(log, shape)
        keyless = ~key_is_whole(shape) if shape.key else F.lit(False)
        found = rows.agg(F.bool_or(keyless), F.bool_or(sends_unreadable(shape))).first()
        without_key, unreadable = found or (False, False)
        if without_key:
            raise SchemaError(
                f"the change log holds changes without a value of the key {', '.join(shape.key)}",
                fix="declare the key that the table has had; or take a new snapshot of it into a new feed",
                feed=self.log.feed.feed,
                table=self.table,
            )
        if unreadable:
            refuse_unreadable_rows(shape, log, self.log.feed, self.table, self.log.state)

    def stored(self, keys: DataFrame | None = None) -> DataFrame:
        """``key``, ``stored_sort_key``, ``stored_base_sort_key`` of each row, and of the newest tombstone of each key that
        has no row. A row that is older than its key's tombstone stands all the same: that delete waits in quarantine, or
        took another row. ``keys``: of these alone (``key``, distinct); None: of all."""
        return self._stored(lambda rows: rows if keys is None else rows.join(F.broadcast(keys), "key", "left_semi"))

    def stored_near(self, values: KeyValues) -> DataFrame:
        """The same, of the keys that have these values."""
        return self._stored(lambda rows: rows.where(condition(values, "key.")))

    def _stored(self, chosen: Callable[[DataFrame], DataFrame]) -> DataFrame:
        """:meth:`stored` of the keys of ``chosen`` rows."""
        rows = self.published.read().select(
            self.shape.stored_key().alias("key"),
            F.col(f"{TIDEMARK}.sort_key").alias("row_at"),
            F.col(f"{TIDEMARK}.base_sort_key").alias("row_base"),
            F.lit(None).cast("string").alias("deleted_at"),
        )
        tombstones = published_rows(self.log.spark, self.log.feed.feed, "tombstones", self.log.state)
        counts = F.col("sequence") >= self.log.state.table(self.table).refolded_by
        deleted = tombstones.where((F.col("table") == self.table) & counts).select(
            F.from_json("key", cast(StructType, rows.schema["key"].dataType)).alias("key"),
            F.lit(None).cast("string").alias("row_at"),
            F.lit(None).cast("string").alias("row_base"),
            F.col("sort_key").alias("deleted_at"),
        )
        row_at, row_base, deleted_at = F.col("row_at"), F.col("row_base"), F.col("deleted_at")
        base = F.when(row_at < deleted_at, row_base).otherwise(F.greatest(row_base, deleted_at))
        newest = (F.max(name).alias(name) for name in ("row_at", "row_base", "deleted_at"))
        of_key = chosen(rows).unionByName(chosen(deleted)).groupBy("key").agg(*newest)
        return of_key.select(
            "key", F.coalesce(row_at, deleted_at).alias("stored_sort_key"), base.alias("stored_base_sort_key")
        )


def is_late(stats: TableStats, highest: str | None) -> bool:
    """Whether any change of an hour may be older than what is published up to the sort key ``highest``."""
    return stats.first != "" and highest is not None and stats.first + "#" <= highest


def _may_be_partial(stats: TableStats, state: FeedState) -> bool:
    return stats.partial > 0 or state.table(stats.table).partial


def _goes_on(stats: TableStats, state: FeedState) -> bool:
    """Whether changes of the hour may be older than a published key change, or of its transaction: then rows of both may
    meet at one key. A transaction is published in parts where its end is run first, where a part of it waited, or where the
    feed file says so, or did when the first part was published."""
    before = state.table(stats.table)
    below = before.last_key_change is not None and stats.first != "" and stats.first <= before.last_key_change
    # Two parts that are waited for have one name. Others, and those of which the feed file names one alone, show it by time.
    since = _is_by(stats.began_loose, before.arrived) or _is_by(stats.began, before.arrived_loose)
    return below or since or (before.arrived_in is not None and stats.began_in == before.arrived_in)


def _is_by(began: datetime | None, arrived: datetime | None) -> bool:
    return began is not None and arrived is not None and began <= arrived


def _needs_log(
    stats: TableStats, highest: str | None, learned: str | None, log: TableLog, change: RenamePlan
) -> bool:  # fmt: skip
    """Which of two rows a change is of is in no row's own state; nor is what a late change's row inherited from another key,
    nor a key whose tombstone may have been removed, nor which changes came before a column did (``learned``)."""
    if _goes_on(stats, log.state) or (stats.collisions and stats.links):
        return True
    late = is_late(stats, highest)
    # What rests on another key, or meets another row at its own, goes on from the stored row, which is to be as it was
    # before the hour.
    if (stats.links or stats.collisions) and (late or stats.emptied is not None or change.alters_rows):
        return True
    # A row that a transaction moves onto a key may meet one which left that key in an hour that has come before.
    met = stats.loose_key_changes > 0 or log.state.table(log.table).entangled
    known = met or is_late(stats, learned)
    return late and (known or stats.first <= pruned(log.spark, log.feed.feed))


def _recounts(stats: TableStats, highest: str | None, copies: CopiesProgress | None) -> bool:
    """Whether the stored rows of a table without a key do not tell what the hour's changes come to: a late change may be
    counted already, what is owed may be matched, and rows that were sent in another notation have another hash."""
    return copies is None or copies != CopiesProgress() or is_late(stats, highest) or stats.emptied is not None


def _new_readings(shape: TableShape, before: TableProgress) -> dict[str, Reading]:
    """The columns that were read in another way before, or not at all."""
    return {name: reading for name, reading in shape.readings.items() if before.readings.get(name) != reading}


def _rewritten(shape: TableShape) -> list[str]:
    return sorted({name for kinds in shape.rewrites.values() for name in kinds})


def reached(run: HourRun, stats: TableStats) -> tuple[str | None, str | None]:
    """(the highest sort key applied before the hour, the position of the newest truncate, of the hour or before)."""
    before = run.state.table(stats.table)
    return before.highest, _newest(before.truncated, stats.truncated)


def emptied_below(state: FeedState, sources: Sequence[str], truncated: str | None) -> str | None:
    """The position of a table's newest truncate or reload. ``truncated``: of its newest truncate."""
    return _newest(truncated, state.reloaded(sources))


def _newest(*positions: str | None) -> str | None:
    return max(filter(None, positions), default=None)


def open_state(
    run: HourRun, stats: TableStats, definitions: Definitions, published: PublishedTable, *, moved: bool = False,
    withdrawn: DataFrame | None = None, only_new: bool = False,
) -> TableView:  # fmt: skip
    """What is published of a table, and what it is to be for the changes of the hour: :meth:`TableView.evolve` makes it so.
    SchemaError where it cannot be.

    ``moved``: published rows have another place by the hour's, so that all are folded again. ``withdrawn``: published
    changes that are no part of it any more, so that it is folded again without them; None: there are none. ``only_new``:
    none of the hour's changes is published already. While that is not known, the log is not read for those that are older
    than what the table holds: as a rule they are the same changes again."""
    log = TableLog(
        spark=run.spark, feed=run.feed, state=run.state, definitions=definitions, table=stats.table,
        sources=tuple(stats.sources), withdrawn=withdrawn,
    )  # fmt: skip
    before, definition, stored = run.state.table(stats.table), definitions.of(stats.sources[0]), published.columns()
    stored_key = published.key() if stored else []
    altered = altered_in_another_case(run.feed, stats, definitions)
    refuse_other_sources(run.feed, stats, {*before.sources, *altered})
    if stored:
        refuse_former_name(run.feed, stats, run.state.names)
    highest, truncated = reached(run, stats)
    change = plan_renames(
        definition, set(before.column_renames), stored, highest, keyed=bool(stored_key),
        told=told_columns(run.feed, stats, definition, stored),
    )  # fmt: skip
    applied = change.applied(stored)

    def shape_with(logged: LoggedColumns | None) -> TableShape:
        return shape_of(run.feed, stats, definition, applied, stored_key, logged, PublishedReadings(before.readings))

    taken_back, moved = bool(stored) and _is_taken_back(run, published), moved or withdrawn is not None
    anew = moved or taken_back or definitions.describes_anew(stats.sources[0])
    rebuild = change.rebuild or anew
    # A table that was made by an attempt that was not published is as new as one that is not there.
    fresh = run.state.last_sequence > 0 and not (stored and stats.table in run.state.tables)
    keyless = bool(stored) and not stored_key
    recount = fresh or rebuild or _recounts(stats, highest, before.copies)
    logged, left = None, only_new or not is_late(stats, highest)
    if recount if keyless else fresh or rebuild or (left and _needs_log(stats, highest, before.learned, log, change)):
        logged = log.carried()
        if fresh and logged.columns:  # its rows are in the log, under another name
            rebuild, highest = True, _ANY
            truncated = _newest(truncated, log.newest_truncate())
    shape, learned = shape_with(logged), before.learned
    if fresh:
        former = run.state.table(run.state.names.get(stats.sources[0], stats.table)).readings
        for name in shape.readings.keys() & former.keys():
            refuse_reading_anew(stats.table, name, former[name], shape.readings[name])
    if applied and not shape.columns.keys() <= applied.keys() and _may_be_partial(stats, run.state):
        learned = highest
    reread = shape.rewrites or _new_readings(shape, before).keys() & before.readings.keys()
    if logged is None and (reread if keyless else left and is_late(stats, learned)):
        logged = log.carried()
        recount, shape = True, shape_with(logged)
    if keyless:
        # Rows that are told apart by other texts now, or were never counted like this, are written again.
        rebuild |= recount and (before.copies is None or before.copies.rewritten != _rewritten(shape))
    retired = [name for name in stored if name in change.left - shape.live]
    columns = {name: kind for name, kind in shape.spark_types.items() if name not in retired}
    if moved and before.truncated is not None:  # it may stand elsewhere now, or count no more
        truncated = _newest(log.newest_truncate(), stats.truncated)
    if stored:
        refuse_other_key(stats.table, run.feed.feed, stored_key, shape.key)
    reconcile(stats.table, applied, columns)
    opened = TableView(
        log=log, published=published, shape=shape, highest=highest,
        truncated=emptied_below(run.state, stats.sources, truncated), by_source=truncated,
        new_truncate=stats.emptied is not None, rebuild=rebuild, moved=moved, taken_back=taken_back, change=change,
        columns=columns, retired=retired, readings=_new_readings(shape, before), recount=recount, learned=learned,
        by_log=logged is not None,
    )  # fmt: skip
    opened.check_logged_rows()
    return opened


def _is_taken_back(run: HourRun, published: PublishedTable) -> bool:
    """Whether a table that is there is not as the last publication that counts has left it. StateError where one has left it
    so that has a receipt, and the state does not know it."""
    by = published.published_by()
    if by is None or run.state.counts(by):
        return published.table in run.state.tables and published.taken_back()
    where: Where = [("feed", "=", run.feed.feed), ("sequence", "=", by)]
    if read_rows(run.settings, "tidemark", "receipts", columns=("feed", "sequence"), where=where):
        raise StateError(
            f"publication {by} has made the table what it is and has a receipt, and the feed's state does not know it: the "
            "state is older than what is published",
            fix=f"`tidemark audit {run.feed.feed} --rebuild-state` makes it again from the receipts; then run the hour again",
            feed=run.feed.feed, hour=run.hour, table=published.table,
        )  # fmt: skip
    return True


def published_state(
    log: TableLog, published: PublishedTable, state: FeedState, logged: LoggedColumns | None = None
) -> TableView:
    """What is published of a table, as it stands: no hour is being made, and nothing is evolved. ``log``: the first of its
    sources is the one that goes on as the table. ``state``: all of the feed's. ``logged``: the columns of the log rows that
    are read; None: those of all are."""
    source, logged = log.sources[0], logged or log.carried()
    definition, unchanged = log.definitions.of(source), TableStats(table=log.table, sources=[source])
    before = PublishedReadings(state.table(log.table).readings, stand=True)
    shape = shape_of(log.feed, unchanged, definition, published.columns(), published.key(), logged, before)
    truncated = emptied_below(log.state, log.sources, log.state.table(log.table).truncated)
    return TableView(log=log, published=published, shape=shape, truncated=truncated)
