"""Assemble: the hour's changes and the held ones become whole transactions; the rest stays held.

The rule of completeness is in :mod:`tidemark.changelog.transactions`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.changelog.lacking_records import name_lacking_records
from tidemark.changelog.places import (
    any_begins_again,
    awaits_place,
    gives_place,
    moved_by,
    place_of_load,
    placed,
    places_until,
)
from tidemark.changelog.reloads import HourReloads, hour_reloads
from tidemark.changelog.table_history import Definitions, load_definitions, with_definitions
from tidemark.changelog.ties import NewEdges, TiedHour, edge, tie_hour
from tidemark.changelog.transactions import HourEntries, WholeTransactions, complete_transactions
from tidemark.changelog.waiting import described
from tidemark.errors import AccountError
from tidemark.feeds.model import Feed
from tidemark.formats import load_format
from tidemark.formats.contract import BindsRows
from tidemark.ledger.change_log import changes_table, in_hour, is_new, is_published, is_row, rolled_back
from tidemark.ledger.change_stats import TableStats, change_stats
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.hour_run import HourRun
from tidemark.ledger.image_names import IMAGE_NAMES, why_unpublishable
from tidemark.ledger.kept_back import count_recalled, recalled
from tidemark.ledger.manifest import Manifest
from tidemark.ledger.quarantine import ENTRY
from tidemark.ledger.receipts import Counts, Recalled
from tidemark.ledger.system_tables import held_transactions

#: A receipt's note.
WAIT = "{} changes wait for metadata of their tables: `tidemark held` names them"


@dataclass(frozen=True, kw_only=True)
class Account:
    """The counts of an hour's log entries, under the names of the receipt's (see
    :class:`tidemark.ledger.receipts.Receipt`)."""

    landed: int
    """Records that landed."""
    split: int
    """Entries beyond the first of their record."""
    control: int
    """Entries that are no change of a row, and changes that the source rolled back."""
    bad: int
    """Records that cannot be decoded."""
    held: int = 0
    """Changes that wait: for the rest of their transaction, or for metadata."""
    held_transactions: int = 0
    """Transactions that wait, of whatever hour."""
    held_since: str | None = None
    """The hour in which the oldest of them began; None: none waits."""
    waiting_entries: int = 0
    """Changes that wait for metadata, of whatever hour."""
    refused: int = 0
    """Changes that go to quarantine before they are folded."""
    given_up: int = 0
    """Transactions that never completed, and go to quarantine."""
    redelivered: int = 0
    """Changes of deliveries that do not count."""
    rollbacks: int = 0
    """Entries that roll a transaction back."""
    newest: datetime | None = None
    """When the newest change was committed; None: no entry says."""


@dataclass(frozen=True)
class Redelivered:
    """Changes of deliveries that do not count, because another one of their transaction does."""

    rows: DataFrame
    """Log rows, as :class:`Assembled` has them."""
    counts: dict[str, tuple[str, Counts]]
    """By table: its name at the source, and how many they are."""

    @property
    def total(self) -> int:
        """How many they are."""
        return sum(counts.duplicate + counts.released_duplicate for _, counts in self.counts.values())


@dataclass(frozen=True, kw_only=True)
class Assembled:
    """The changes that an hour makes of its records and of what was held, and what becomes of the others."""

    rows: DataFrame
    """Log rows of complete transactions, with ``landed_this_hour`` (false: released from an earlier hour)."""
    open: DataFrame | None
    """Transactions that stay held (columns of the system table ``held``); None: there are none."""
    refused: DataFrame | None
    """Rows that go to quarantine, with their ``reason``; None: there are none."""
    account: Account
    """The counts, before anything is screened and folded."""
    definitions: Definitions
    """What the stream has stated about its tables."""
    notes: list[str]
    """What the hour's receipt says of all this."""
    recalled: Recalled
    """How entries that the hour takes up again were accounted for before."""
    waiting: DataFrame | None = None
    """Rows that wait for what describes them (:mod:`tidemark.changelog.waiting`); None: there are none."""
    waiting_since: int = 0
    """The publication from which on such rows count; 0: none waits."""
    moved: dict[str, str] = field(default_factory=dict)
    """Tables with published rows that the hour gives another place: the highest of these places."""
    withdrawn: dict[str, tuple[str, DataFrame]] = field(default_factory=dict)
    """By table, with its name at the source: changes that are published and no part of it any more."""
    redelivered: Redelivered | None = None
    """Changes of deliveries that do not count; None: there are none."""
    reloads: HourReloads = field(default_factory=HourReloads)
    """The feed's reloads as of this hour."""
    taken_up: DataFrame | None = None
    """Published log rows in quarantine whose transaction comes again, which are judged anew with it; None: there are none."""
    edges: list[str] = field(default_factory=list)
    """The edges of transactions that the hour shows (:class:`tidemark.ledger.receipts.FeedProgress`)."""
    statements: int = 0
    """Entries of the hour that state something about tables."""
    places_until: str = ""
    """A text behind the positions that rows of the hour can change, because they place others; empty: none does."""

    @property
    def every_row(self) -> DataFrame:
        """Also those of deliveries that do not count: a cut can show another delivery of a transaction than the tables."""
        return self.rows if self.redelivered is None else self.rows.unionByName(self.redelivered.rows)

    def without(self, taken: DataFrame) -> Assembled:
        """The assembled changes without those that are ``taken`` out (ENTRY)."""

        def left(rows: DataFrame) -> DataFrame:
            return rows.join(taken.select(*ENTRY), ENTRY, "left_anti").select(*rows.columns)

        if (before := self.redelivered) is None:
            return replace(self, rows=left(self.rows))
        now = _count_redelivered(left(before.rows))
        account = replace(self.account, redelivered=self.account.redelivered - before.total + now.total)
        return replace(self, rows=left(self.rows), redelivered=now, account=account)


def assemble(run: HourRun) -> Assembled:
    """Reads the hour's partition of the change log and the held transactions; writes nothing.

    What an earlier publication of the hour accounted for (an older version of its export) is not looked at again.
    """
    feed, state, hour = run.feed, run.state, run.hour
    log, new = run.spark.table(changes_table(feed.feed)), is_new(hour, state)
    counted = _count(log.where(new), feed)
    taken = recalled(run.spark, feed.feed, run.manifest, state)
    before = count_recalled(taken) if taken is not None else Recalled()
    _check_landed(feed, run.manifest, state, counted.account.landed - before.landed)
    entries = log.where(in_hour(hour) | is_published(state)).withColumn("landed_this_hour", new)
    stated_in = {*state.with_statements, *([hour] if counted.statements else [])}
    definitions = load_definitions(entries, feed, sorted(stated_in))
    held = held_transactions(run.spark, feed.feed, state)
    ties = tie_hour(log, log.where(new), counted.edges, run.manifest, state, feed)
    whole = WholeTransactions(rows=ties.landed.where(is_row()).withColumn("landed_this_hour", F.lit(True)))
    if counted.in_transactions or held is not None or ties.known:
        whole = _complete(run, ties, counted.account, held, replay=taken is not None)
    reloads = hour_reloads(run.manifest, ties.landed, entries, state, feed)
    rows, moved, until = whole.rows, {}, max(state.places_until, counted.places_until)
    awaits = counted.await_place > 0 or counted.lowest <= until
    awaits = awaits or (held is not None and not held.where(awaits_place(feed, until)).isEmpty())
    if awaits or reloads.begun:
        places = ties.log if awaits or any_begins_again(reloads.begun) else None
        rows = placed(rows, places, feed, reloads.begun)
    if counted.places_until and state.last_sequence:
        moved = moved_by(hour, ties.log, state, feed, until)
    redelivered = None
    if whole.redelivered is not None:
        redelivered = _count_redelivered(with_definitions(whole.redelivered, definitions, feed))
    assembled = Assembled(
        rows=rows, open=whole.still_open, refused=whole.given_up, account=_account(counted.account, whole, redelivered),
        definitions=definitions, recalled=before,
        notes=[*whole.notes, *definitions.notes, *_unsent(definitions, reloads, hour)],
        moved=_with_reloaded(moved, reloads, feed), withdrawn=_by_table(whole.withdrawn, feed),
        redelivered=redelivered, reloads=reloads, edges=ties.edges, places_until=counted.places_until,
        statements=counted.statements, taken_up=whole.taken_up,
    )  # fmt: skip
    if isinstance(load_format(feed.format["type"]), BindsRows):
        return _described(assembled, ties.log, feed, state.making(reloads.begun))
    return replace(assembled, rows=with_definitions(rows, definitions, feed))


def _complete(
    run: HourRun, ties: TiedHour, account: Account, held: DataFrame | None, *, replay: bool
) -> WholeTransactions:
    """The hour's transactions, and what those lack that are not whole."""
    state, hour = run.state, run.hour
    new, rolls_back = is_new(hour, state), hour if account.rollbacks else None
    whole = complete_transactions(
        HourEntries(
            feed=run.feed, hour=hour, state=state, ties=ties, held=held, replay=replay, new=new, bad=account.bad > 0,
            rolled_back=rolled_back(ties.log, state, rolls_back), published=is_published(state),
        )
    )  # fmt: skip
    return name_lacking_records(whole, ties.log, new, state, [*state.with_bad, *([hour] if account.bad else [])])


def _account(counted: Account, whole: WholeTransactions, redelivered: Redelivered | None) -> Account:
    """The counts, with what becomes of the hour's transactions."""
    again = 0 if redelivered is None else redelivered.total
    if redelivered is not None and whole.withdrawn is not None:
        again += whole.withdrawn.count()
    return replace(
        counted,
        control=counted.control + whole.rolled_back_changes,
        held=whole.held,
        held_transactions=whole.held_transactions,
        held_since=whole.held_since,
        refused=whole.given_up_changes,
        given_up=whole.given_up_transactions,
        redelivered=again,
    )


def _unsent(definitions: Definitions, reloads: HourReloads, hour: str) -> list[str]:
    """What the hour's receipt says of rows that were moved without being sent, unless a reload has mended it."""
    return [
        note for source, note in sorted(definitions.unsent.items())
        if not any(reload.began >= hour for reload in reloads.begun.get(source, []))
    ]  # fmt: skip


def _with_reloaded(moved: dict[str, str], reloads: HourReloads, feed: Feed) -> dict[str, str]:
    """Tables with rows that have another place, and the highest of these; reloads that have one among them."""
    places = {feed.published_name(source): place for source, place in reloads.altered.items()}
    return moved | {table: max(place, moved.get(table, "")) for table, place in places.items()}


def _by_table(withdrawn: DataFrame | None, feed: Feed) -> dict[str, tuple[str, DataFrame]]:
    if withdrawn is None:
        return {}
    sources = [row.source_table for row in withdrawn.select("source_table").distinct().collect()]
    return {feed.published_name(one): (one, withdrawn.where(F.col("source_table") == one)) for one in sources}


def _count_redelivered(rows: DataFrame) -> Redelivered:
    """Log rows of deliveries that do not count, and how many they are."""
    rows = rows.localCheckpoint()
    found: dict[str, tuple[str, Counts]] = {}
    for table, source, landed, number in rows.groupBy("table", "source_table", "landed_this_hour").count().collect():
        more = Counts(duplicate=number) if landed else Counts(released_duplicate=number)
        found[table] = source, found.get(table, (source, Counts()))[1].plus(more)
    return Redelivered(rows, found)


def _described(assembled: Assembled, log: DataFrame, feed: Feed, state: FeedState) -> Assembled:
    """The assembled changes read by what the stream has stated, without those that wait for it, or never can be."""
    found = described(assembled.rows, log, assembled.definitions, feed, state)
    account = replace(assembled.account, held=assembled.account.held + found.landed, waiting_entries=found.counted)
    since = (found.since or state.last_sequence + 1) if found.counted else 0
    notes = assembled.notes + ([WAIT.format(found.counted)] if found.counted else [])
    assembled = replace(
        assembled, rows=found.ready, waiting=found.waiting, account=account, notes=notes, waiting_since=since
    )
    unbound = found.ready.where("problem is not null").withColumn("reason", F.col("problem"))
    if unbound.isEmpty():
        return assembled
    return _refuse(assembled, unbound, found.ready.where("problem is null"))


def with_stats(assembled: Assembled, feed: Feed, state: FeedState) -> tuple[Assembled, list[TableStats]]:
    """The statistics of all tables of the hour, and the assembled changes without those whose columns have names that
    no table can have: they go to quarantine. A published table whose columns the hour's stream describes, or of which
    changes are withdrawn or reloads have another place, without a change of its rows, has empty statistics."""
    generation = assembled.definitions.generation
    loaded = place_of_load(feed)
    stats = change_stats(assembled.rows, generation, loaded)
    if any(table.unpublishable for table in stats):
        reason = F.coalesce(*map(why_unpublishable, map(F.col, IMAGE_NAMES)))
        marked = assembled.rows.withColumn("reason", reason).localCheckpoint()
        rows = marked.where("reason is null").drop("reason")
        assembled = _refuse(assembled, marked.where("reason is not null"), rows)
        stats = change_stats(rows, generation, loaded)
    changed = {table.table for table in stats}
    described = {feed.published_name(source): source for source in sorted(assembled.definitions.new)}
    unchanged = {table: described[table] for table in described.keys() & state.tables.keys()}
    again = assembled.redelivered.counts if assembled.redelivered is not None else {}
    unchanged |= {table: source for table, (source, _) in (assembled.withdrawn | again).items()}
    places = {feed.published_name(source): (source, place) for source, place in assembled.reloads.altered.items()}
    unchanged |= {table: source for table, (source, _) in places.items() if table in state.tables}
    stats += [TableStats(table=name, sources=[unchanged[name]]) for name in sorted(unchanged.keys() - changed)]
    return assembled, [replace(one, reloaded=places[one.table][1]) if one.table in places else one for one in stats]


def _refuse(assembled: Assembled, refused: DataFrame, rows: DataFrame) -> Assembled:
    """The assembled changes with ``rows`` left, and more that are ``refused``."""
    count = assembled.account.refused + refused.where("landed_this_hour").count()
    together = refused if assembled.refused is None else assembled.refused.unionByName(refused)
    return replace(assembled, rows=rows, refused=together, account=replace(assembled.account, refused=count))


@dataclass(frozen=True, kw_only=True)
class _Counted:
    """What an hour's log entries tell before transactions are looked at."""

    account: Account
    """The counts so far."""
    in_transactions: int
    """Entries that name a transaction."""
    statements: int
    """Entries that state something about tables."""
    await_place: int
    """Rows whose position may change by what else the log holds, by what they say themselves."""
    lowest: str
    """The lowest position of the rows by which no others are placed; behind all others: there is none."""
    places_until: str
    """What :func:`tidemark.changelog.places.places_until` comes to; empty: no entry places others."""
    edges: NewEdges
    """What they show of transactions that only markers name."""


def _count(landed: DataFrame, feed: Feed) -> _Counted:
    """Counts of an hour's log entries."""
    counted = landed.agg(
        F.count_if(F.col("entry") == 0).alias("landed"),
        F.count_if(F.col("entry") > 0).alias("split"),
        F.count_if(F.col("op").isin("control", "schema")).alias("control"),
        F.count_if(F.col("op") == "bad").alias("bad"),
        F.count_if("tx_rollback").alias("rollbacks"),
        F.max("committed_at").alias("newest"),
        F.count("tx").alias("in_transactions"),
        F.count_if(F.col("op") == "schema").alias("statements"),
        F.count_if(is_row() & awaits_place(feed, "")).alias("await_place"),
        F.coalesce(F.min(F.when(is_row() & ~gives_place(feed), F.col("position"))), F.lit("~")).alias("lowest"),
        F.coalesce(places_until(feed), F.lit("")).alias("places_until"),
        F.sort_array(F.collect_set(edge(feed))).alias("edges"),
        F.min("position").alias("low"),
        F.max("position").alias("high"),
    ).first()
    assert counted is not None
    counts = counted.asDict()
    told = ("in_transactions", "statements", "await_place", "lowest", "places_until")
    found = {name: counts.pop(name) for name in told}
    edges = NewEdges(counts.pop("edges"), counts.pop("low"), counts.pop("high"))
    return _Counted(account=Account(**counts), **found, edges=edges)


def _check_landed(feed: Feed, manifest: Manifest, state: FeedState, landed: int) -> None:
    """AccountError unless the manifest counts as many records as the change log, ``landed``."""
    # Another container counted other records.
    counted = all(o.records is not None and o.contained_by == feed.contained_by for o in manifest.objects)
    records = sum(o.records or 0 for o in manifest.objects if o.version > state.version_of(manifest.hour))
    if counted and records != landed:
        raise AccountError(
            f"the manifest counts {records} records, the change log {landed}",
            fix="run decode again for this hour; if it stays, an object changed after it landed",
            feed=feed.feed,
            hour=manifest.hour,
        )
