"""The cut of an hour that first runs after hours which follow it; and cuts that are made again (`cuts: amend`).

Such an hour's cut is not what the tables hold now: that shows what landed later. It is the newest cut before the hour,
with every change of hours up to it that has come since joined with it: the hour's own, and those of hours before that
came too late for that cut. The same changes again alter nothing (:mod:`tidemark.fold.row_join`), so that all are joined
that the log holds of their keys from the oldest of them on: a delete that the cut shows no row of is among them.

Of the log only the hours are opened in which that can be: those that were published since, those of which that cut held
something back, and those behind the oldest such change. Where a row's own state does not tell enough, the keys of these
changes are folded again from the whole log of the hours up to it. A cut that is made again goes on from itself in the same
way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from typing import Any, cast

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tidemark.changelog.folded_log import fold_keyed, fold_keyless, keyed_log_rows
from tidemark.changelog.places import any_begins_again
from tidemark.changelog.table_log import TableLog
from tidemark.changelog.table_view import emptied_below, published_state
from tidemark.changelog.ties import retied, tied_log
from tidemark.fold.contract import COUNTED
from tidemark.fold.few_keys import FEW_CHANGES, key_texts, key_values
from tidemark.fold.fold_rows import fold
from tidemark.fold.key_changes import changed_in_reach, descendants
from tidemark.fold.typed_rows import TableShape, settle
from tidemark.hours import Hour
from tidemark.ledger.change_log import changes_table, is_published
from tidemark.ledger.cut_state import columns_renamed, reloads_changed, state_in_cut
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.hour_run import HourRun
from tidemark.ledger.publication_history import cuts_made
from tidemark.ledger.quarantine import ENTRY
from tidemark.ledger.retention import expired_hours
from tidemark.ledger.system_tables import held_transactions, waiting_entries
from tidemark.logs import log_stage
from tidemark.pipeline.late_hour import LateHour, SinceCut, TableCut, load_late_hour, statements_of
from tidemark.tables.published_table import PublishedTable
from tidemark.tables.staged_change import StagedChange

_SAYS = {False: "made the cut of a late hour", True: "made a cut again"}


@dataclass(frozen=True, kw_only=True)
class CutRows:
    """What a publication writes to the cut of its own hour."""

    table: str
    """The published table."""
    settled: DataFrame
    """SETTLED rows."""
    brought: DataFrame | None
    """The keys (``key``) of which the publication brings a change; None: the table has no key."""


def to_amend(run: HourRun, hour: Hour) -> list[Hour]:
    """The hours, oldest first, whose cuts a publication of the hour makes again: its own and later ones, as the feed says,
    and but for those that have expired."""
    if run.feed.cuts != "amend":
        return []
    hours = [one for one in run.state.published_hours() if one >= hour]
    if run.feed.retention.cuts is None:
        return hours
    expired = expired_hours(run.feed, cuts_made(run.settings, run.state))
    return [one for one in hours if one not in expired]


def is_late(state: FeedState) -> bool:
    """Whether the publication in the making is of an hour that first runs after hours which follow it."""
    made = state.attempt
    return not state.has(made.hour) and (state.newest_hour or made.hour) > made.hour


def own_cut(run: HourRun) -> LateHour | None:
    """The cut of the hour itself, where the publication in the making makes it late or again; None: it does not. Writes
    nothing."""
    hour = run.state.attempt.hour
    if is_late(run.state):
        return load_late_hour(run, None)
    return load_late_hour(run, hour) if hour in to_amend(run, hour) else None


def rows_of_checked_tables(cut: LateHour, run: HourRun) -> Iterator[CutRows]:
    """What the publication in the making will write to the cut of its own hour, of the tables that have checks. A column's
    value that it brings to the cuts of later hours is among that. Writes nothing."""
    for source, published in _tables(cut):
        if run.feed.declared(published.table).checked:
            made = _prepare(cut, source, published)
            if not run.state.attempt.retired.get(published.table):  # else its columns are others, once it is published
                cut.prepared[published.table] = made
            if made.change is not None:
                yield CutRows(
                    table=published.table, settled=made.change.settled, brought=_brought(cut, made, run.state)
                )


def make_late_cuts(run: HourRun, own: LateHour | None, amended: Sequence[Hour]) -> list[str]:
    """Make the publication's ``own`` cut (:func:`own_cut`), and those of the ``amended`` hours (:func:`to_amend`) again; what
    the receipt says of them. Made before: makes them again, the same."""
    cuts = [own] if own is not None else []
    others = (load_late_hour(run, hour) for hour in amended if own is None or hour != own.hour)
    return [note for cut in chain(cuts, others) for note in _make(cut)]


def _make(cut: LateHour) -> list[str]:
    """Give every table that the hours up to this one know the hour's cut; what the receipt says of it."""
    for source, published in _tables(cut):
        with log_stage("publish", _SAYS[cut.again], table=published.table, cut=cut.hour) as line:
            made = cut.prepared.get(published.table) or _prepare(cut, source, published)
            line["rows"] = made.rows
            if made.change is not None or (made.base is not None and made.base != cut.hour):
                published.cut(cut.hour, cut.publication, made.base, made.change)
    return list(dict.fromkeys(cut.notes))


def _tables(hour: LateHour) -> Iterator[tuple[str, PublishedTable]]:
    """The tables that the hours up to this one know, each with the source's, under the names of their last publications: the
    feed file may name them otherwise by now."""
    known = [
        table for table in hour.all.tables.values() if table.first_hour is not None and table.first_hour <= hour.hour
    ]
    for source in sorted({source for table in known for source in table.sources}):
        published = PublishedTable(hour.spark, hour.all.names[source], hour.feed.feed, hour.receipt.sequence)
        if published.columns():
            yield source, published


def _brought(hour: LateHour, made: TableCut, before: FeedState) -> DataFrame | None:
    """The keys of which the publication in the making brings a change, which ``before`` lacks; None: the table has no key."""
    if made.shape is None or made.log_rows is None or not made.shape.key:
        return None
    rows = keyed_log_rows(made.shape, _marked(hour, made.log_rows, before), hour.all)
    return rows.where("landed_this_hour").select("key").distinct()


def _prepare(hour: LateHour, source: str, published: PublishedTable) -> TableCut:
    """What the cut of one table is to be. Writes nothing."""
    base = published.first_cut(h for h in reversed(hour.then.published_hours()) if _serves(hour, h))
    if hour.from_start:
        base = None
    nothing = FeedState(feed=hour.feed.feed)
    before = state_in_cut(hour.all, base) if base is not None else nothing
    entries = hour.spark.table(changes_table(hour.feed.feed))
    # Changes that the cut shows, and that may be no part of it any more.
    if (others := retied(entries, hour.feed, before, hour.all.edges)) is not None and not others.isEmpty():
        base, before = None, nothing
    if published.table in hour.receipt.stopped:  # it stays as it was
        return TableCut(base=base)
    if base is not None and _alters_every_row(hour, source, published, before):
        base, before = None, nothing
    table_log = TableLog(
        spark=hour.spark, feed=hour.feed, state=hour.then, definitions=hour.definitions, table=published.table,
        sources=(source,), named_by=hour.all,
        withdrawn=hour.mended_later.halves if hour.mended_later is not None else None,
    )  # fmt: skip
    truncated, emptied = _newest_truncate(hour, table_log, before)
    truncated = emptied_below(hour.then, [source], truncated)
    emptied = emptied or reloads_changed(hour.all, source, before, hour.hour)
    if emptied:  # what stands before a truncate or a reload that has come since does not stay
        base, before = None, nothing
    since = hour.since(base, before) if base is not None else None
    log, keyed = _table_log(hour, table_log, since), bool(published.key())
    rows = _marked_rows(hour, log, truncated, before, since)
    lacks, little, found = F.col("landed_this_hour"), keyed and log.only is not None, Observation()
    asked = F.count_if(lacks).alias("changes"), F.min(F.when(lacks, F.col("position"))).alias("oldest")
    if little:  # all that is needed, as a rule
        rows = rows.observe(found, *asked).localCheckpoint()
    told = found.get if little else rows.agg(*asked).collect()[0].asDict()
    changes, oldest = told["changes"], told["oldest"]
    unchanged = not emptied and (hour.again or published.table not in hour.staged)
    if base is not None and unchanged and oldest is None:
        return TableCut(base=base, rows=0)
    whole = base is None or not keyed
    needs_log = whole or oldest is None or since is None or _needs_log(hour, published.table, before, since)
    if needs_log and log.only is not None:
        log, little = _table_log(hour, table_log, None), False
        rows = _marked_rows(hour, log, truncated, before, since)
    shape = published_state(log, published, hour.all, log.columns_of(rows) if little else None).shape
    if needs_log:
        settled, sizes = _counted(_fold_from_log(shape, rows, hour), {})
        change = StagedChange(settled=settled, key=shape.key, only_new=whole)
    else:
        every = keyed_log_rows(shape, rows.where(F.col("position") >= F.lit(oldest)), hour.all)
        partial, few = hour.all.table(published.table).partial, changes <= FEW_CHANGES
        change, sizes = _join(shape, every, hour.receipt.hour, partial=partial, few=few)
    if sizes["unreadable"]:
        hour.notes.append(
            f"the cut of {hour.hour} shows rows of {published.table} without a value of {sizes['columns']} "
            f"({sizes['unreadable']}): what they held then is no value of the type that the table has now"
        )
    return TableCut(base=None if whole else base, change=change, rows=sizes["rows"], shape=shape, log_rows=rows)


def _alters_every_row(hour: LateHour, source: str, published: PublishedTable, before: FeedState) -> bool:
    """Whether rows of a table are others than in the cut ``before``, also those that nothing has changed since: columns were
    renamed, or rows of before have got a value of a column."""
    if columns_renamed(hour.all.table(published.table), before):
        return True
    fills = [step.said_by for step in hour.definitions.of(source).column_renames if step.filled]
    filling = frozenset[tuple[str, str]]().union(*fills)
    return bool(filling) and not filling <= statements_of(hour.spark.table(changes_table(hour.feed.feed)), before)


def _table_log(hour: LateHour, table_log: TableLog, since: SinceCut | None) -> TableLog:
    """Of the log of a table what a cut is made of: what has come ``since`` another one; None: all that it shows."""
    if since is None or since.entries is None:
        return replace(table_log, left_out=hour.open)
    return replace(table_log, only=since.entries, left_out=since.open, stand_alone=True)


def _marked_rows(
    hour: LateHour, log: TableLog, truncated: str | None, before: FeedState, since: SinceCut | None
) -> DataFrame:
    """The rows of a table's log, marked. ``since``: what the cut ``before`` may lack; None: it is none's."""
    return _marked(hour, log.rows(truncated), before, in_transactions=since is None or since.in_transactions)


def _counted(settled: DataFrame, texts: Mapping[str, Column]) -> tuple[DataFrame, dict[str, Any]]:
    """SETTLED rows, materialised, and how many ``rows`` they are, how many of them are ``unreadable``, in which ``columns``,
    and the distinct ``texts``, by name."""
    found, names = Observation(), F.array_join(F.array_sort(F.collect_set(F.nullif("unreadable", F.lit("")))), ", ")
    asked = [F.count(F.lit(1)).alias("rows"), F.count_if(F.col("unreadable") != "").alias("unreadable")]
    keys = F.struct(*(F.collect_set(text).alias(name) for name, text in texts.items())) if texts else F.lit(None)
    settled = settled.observe(found, *asked, names.alias("columns"), keys.alias("texts")).localCheckpoint()
    return settled.drop("unreadable", *COUNTED), found.get


def _needs_log(hour: LateHour, table: str, before: FeedState, since: SinceCut) -> bool:
    """Whether the states of rows in the cut ``before`` and of the changes since do not tell what their join is: rows rest on
    others, or entries since then may have given other entries their place, their columns or their meaning."""
    now = hour.all.table(table)
    return now.entangled or now.refolded_by > before.last_sequence or since.tells_of_others


def _join(
    shape: TableShape, rows: DataFrame, hour: str, *, partial: bool, few: bool
) -> tuple[StagedChange, dict[str, Any]]:
    """What marked ROWS, and those of their keys that are newer than the oldest of them, come to, and its sizes
    (:func:`_counted`). ``few``: whether the keys of the marked ones can be listed."""
    key = cast(StructType, rows.schema["key"].dataType)
    folded = fold(rows.withColumn("counts", F.col("landed_this_hour")), partial=True).where("landed_count > 0")
    settled, sizes = _counted(settle(folded, shape, hour), key_texts(key) if few else {})
    joined = frozenset(shape.columns) - frozenset(shape.key) if partial else frozenset()
    values = key_values(key, sizes["texts"].asDict()) if sizes["texts"] is not None else {}
    change = StagedChange(settled=settled, key=shape.key, only_new=False, joined=joined, late=True, key_values=values)
    return change, sizes


def _newest_truncate(hour: LateHour, table_log: TableLog, before: FeedState) -> tuple[str | None, bool]:
    """(the position of the newest truncate that the cut shows, whether the cut ``before`` may lack one)."""
    if (newest := hour.all.table(table_log.table).truncated) is None:
        return None, False

    def found(truncates: DataFrame) -> tuple[str | None, bool]:
        marked = _marked(hour, truncates, before)
        position, lacking = marked.agg(F.max("position"), F.bool_or("landed_this_hour")).first() or (None, None)
        return position, bool(lacking)

    if not any_begins_again(hour.all.reloads):
        # Nearly always it is the newest of all, which is found by its place, and in no transaction.
        there = replace(table_log, only=F.col("position") == newest, stand_alone=True)
        position, lacking = found(there.truncates().where("tx is null"))
        if position is not None:
            return position, lacking
    return found(_table_log(hour, table_log, None).truncates())


def _serves(hour: LateHour, before: Hour) -> bool:
    """Whether the cut of an hour shows nothing of a later one than this."""
    return before <= hour.hour if hour.again else before < hour.hour


def _marked(hour: LateHour, rows: DataFrame, before: FeedState, *, in_transactions: bool = True) -> DataFrame:
    """Log rows with ``landed_this_hour``: whether the cut ``before`` may lack them. It lacks what was published since,
    and what was held or waited when it was made: every part of such a transaction, and of one that has gone on since.
    ``in_transactions``: whether any entry that was published since may be of a transaction."""
    spark, feed = hour.spark, hour.feed.feed
    if not before.hours:
        return rows.withColumn("landed_this_hour", F.lit(True))
    marked, lacking = rows, ~is_published(before)
    continued = []
    if in_transactions:
        since = is_published(hour.then) & ~is_published(before)
        continued.append(tied_log(spark, hour.feed, hour.all).where(since & F.col("tx").isNotNull()).select("tx"))
    if (held := held_transactions(spark, feed, before)) is not None:
        continued.append(held.select("tx"))
    if continued:
        names = reduce(DataFrame.unionByName, continued).distinct().withColumn("continued", F.lit(True))
        marked = marked.join(F.broadcast(names), "tx", "left")
        lacking |= F.col("continued").isNotNull()
    if (waiting := waiting_entries(spark, feed, before)) is not None:
        marked = marked.join(waiting.select(*ENTRY, F.lit(True).alias("waited")), ENTRY, "left")
        lacking |= F.col("waited").isNotNull()
    return marked.withColumn("landed_this_hour", lacking).select(*rows.columns)


def _fold_from_log(shape: TableShape, rows: DataFrame, hour: LateHour) -> DataFrame:
    """SETTLED rows: of a table with a key those of the keys that marked rows touch, else all."""
    if not shape.key:
        return fold_keyless(shape, rows, hour.feed, hour.all, hour.receipt.hour).where("not deleted")
    every = keyed_log_rows(shape, rows, hour.all)
    changed, near = changed_in_reach(every, F.col("landed_this_hour"))
    touched = changed.unionByName(descendants(near, changed)).distinct().localCheckpoint()
    return fold_keyed(shape, near, touched, hour.receipt.hour)
