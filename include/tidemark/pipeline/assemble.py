"""Assemble: the hour's changes and the held ones become whole transactions; the rest stays held.

The rule of completeness is in :mod:`tidemark.pipeline.transactions`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.changelog.places import awaits_place, gives_place, moved_by, of_load, placed, shows_loads
from tidemark.changelog.reloads import HourReloads, hour_reloads, unplaced_loads
from tidemark.changelog.table_history import Definitions, load_definitions, with_definitions
from tidemark.changelog.ties import NewEdges, edge, edges_with, retied, tied, with_partners
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
from tidemark.pipeline.lacking_records import name_lacking_records
from tidemark.pipeline.transactions import HourEntries, WholeTransactions, complete_transactions
from tidemark.pipeline.waiting import described

#: A receipt's note.
WAIT = "{} changes wait for metadata of their tables: `tidemark held` names them"


@dataclass(frozen=True)
class Account:
    """The counts of an hour's log entries, under the names of the receipt's (see
    :class:`tidemark.ledger.receipts.Receipt`)."""

    landed: int
    split: int
    control: int
    bad: int
    held: int = 0
    held_transactions: int = 0
    held_since: str | None = None
    waiting_entries: int = 0
    refused: int = 0
    given_up: int = 0
    redelivered: int = 0
    rollbacks: int = 0
    newest: datetime | None = None


@dataclass(frozen=True)
class Redelivered:
    """Changes of deliveries that do not count, because another one of their transaction does. ``rows``: log rows as
    :class:`Assembled` has them. ``counts``: by table, with its name at the source."""

    rows: DataFrame
    counts: dict[str, tuple[str, Counts]]

    @property
    def total(self) -> int:
        """How many they are."""
        return sum(counts.duplicate + counts.released_duplicate for _, counts in self.counts.values())


@dataclass(frozen=True)
class Assembled:
    """``rows``: log rows of complete transactions, with ``landed_this_hour`` (false: released from an earlier hour).
    ``open``: transactions that stay held (columns of the system table ``held``), None where there are none.
    ``waiting``: rows that wait for what describes them (:mod:`tidemark.pipeline.waiting`), None where there are none.
    ``refused``: rows that go to quarantine, with their ``reason``. ``recalled``: how entries that the hour takes up
    again were accounted for before. ``moved``: see :func:`tidemark.changelog.places.moved_by`. ``withdrawn``: changes that
    are published and no part of a table any more (:class:`tidemark.pipeline.transactions.WholeTransactions`), by table
    with its name at the source. ``redelivered``: changes that came in a delivery which does not count; None where there are
    none.
    ``reloads``: see :mod:`tidemark.changelog.reloads`. ``edges``, ``waiting_since``: see
    :class:`tidemark.ledger.receipts.FeedProgress`.
    """

    rows: DataFrame
    open: DataFrame | None
    refused: DataFrame | None
    account: Account
    definitions: Definitions
    notes: list[str]
    recalled: Recalled
    waiting: DataFrame | None = None
    moved: dict[str, str] = field(default_factory=dict)
    withdrawn: dict[str, tuple[str, DataFrame]] = field(default_factory=dict)
    redelivered: Redelivered | None = None
    reloads: HourReloads = field(default_factory=HourReloads)
    edges: list[str] = field(default_factory=list)
    waiting_since: int = 0

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
    feed, manifest, state = run.feed, run.manifest, run.state
    log = raw = run.spark.table(changes_table(feed.feed))
    of_hour, new, published = in_hour(manifest.hour), is_new(manifest.hour, state), is_published(state)
    landed = log.where(new)
    counted = _count(landed, feed)
    taken = recalled(run.spark, feed.feed, manifest, state)
    before = count_recalled(taken) if taken is not None else Recalled()
    _check_landed(feed, manifest, state, counted.account.landed - before.landed)
    entries = log.where(of_hour | published).withColumn("landed_this_hour", new)
    definitions = load_definitions(entries, feed)
    held = held_transactions(run.spark, feed.feed, state)
    edges = with_partners(counted.edges, feed, landed, log, state)
    known = edges_with(state, manifest.hour, edges)
    log_before, account = tied(log, feed, state.edges), counted.account
    log, landed = tied(log, feed, known) if edges else log_before, tied(landed, feed, known)
    if known and manifest.small:
        # What names the transactions is an expression of thousands of words, and it is asked six times.
        landed = landed.localCheckpoint()
    whole = WholeTransactions(landed.where(is_row()).withColumn("landed_this_hour", F.lit(True)))
    if counted.in_transactions or held is not None or known:
        whole = complete_transactions(
            HourEntries(
                feed, manifest.hour, state, landed=landed, log=log, held=held,
                rolled_back=rolled_back(log, state, manifest.hour if account.rollbacks else None),
                replay=taken is not None, log_before=log_before,
                retied=retied(raw, feed, state, known) if edges else None, new=new, published=published,
            )
        )  # fmt: skip
        with_bad = [*state.with_bad, manifest.hour] if account.bad else state.with_bad
        whole = name_lacking_records(whole, log, new, state, with_bad)
        account = replace(
            account,
            control=account.control + whole.rolled_back_changes,
            held=whole.held,
            held_transactions=whole.held_transactions,
            held_since=whole.held_since,
            refused=whole.given_up_changes,
            given_up=whole.given_up_transactions,
        )
    redelivered = None
    if whole.redelivered is not None:
        redelivered = _count_redelivered(with_definitions(whole.redelivered, definitions, feed))
        taken_back = 0 if whole.withdrawn is None else whole.withdrawn.count()
        account = replace(account, redelivered=redelivered.total + taken_back)
    rows = whole.rows
    reloads = hour_reloads(manifest, counted.loads, landed, entries, state, feed)
    if reloads.begun or counted.await_place or (held is not None and not held.where(awaits_place(feed)).isEmpty()):
        rows = placed(rows, log, feed, reloads.begun)
    moved = moved_by(manifest.hour, log, state, feed) if counted.give_place and state.last_sequence else {}
    moved = _with_reloaded(moved, reloads, feed)
    assembled = Assembled(
        rows, whole.still_open, whole.given_up, account, definitions,
        [*whole.notes, *definitions.notes, *reloads.notes], before, moved=moved,
        withdrawn=_by_table(whole.withdrawn, feed), redelivered=redelivered, reloads=reloads, edges=edges,
    )  # fmt: skip
    if isinstance(load_format(feed.format["type"]), BindsRows):
        return _described(assembled, log, feed, state.making(reloads.begun))
    return replace(assembled, rows=with_definitions(rows, definitions, feed))


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
    loads = of_load(feed) if shows_loads(feed) else None
    stats = change_stats(assembled.rows, generation, loads)
    if any(table.unpublishable for table in stats):
        reason = F.coalesce(*map(why_unpublishable, map(F.col, IMAGE_NAMES)))
        marked = assembled.rows.withColumn("reason", reason).localCheckpoint()
        rows = marked.where("reason is null").drop("reason")
        assembled = _refuse(assembled, marked.where("reason is not null"), rows)
        stats = change_stats(rows, generation, loads)
    changed = {table.table for table in stats}
    described = {feed.published_name(source): source for source in sorted(assembled.definitions.new)}
    unchanged = {table: described[table] for table in described.keys() & state.tables.keys()}
    again = assembled.redelivered.counts if assembled.redelivered is not None else {}
    unchanged |= {table: source for table, (source, _) in (assembled.withdrawn | again).items()}
    places = {feed.published_name(source): (source, place) for source, place in assembled.reloads.altered.items()}
    unchanged |= {table: source for table, (source, _) in places.items() if table in state.tables}
    stats += [TableStats(name, [unchanged[name]]) for name in sorted(unchanged.keys() - changed)]
    return assembled, [replace(one, reloaded=places[one.table][1]) if one.table in places else one for one in stats]


def _refuse(assembled: Assembled, refused: DataFrame, rows: DataFrame) -> Assembled:
    """The assembled changes with ``rows`` left, and more that are ``refused``."""
    count = assembled.account.refused + refused.where("landed_this_hour").count()
    together = refused if assembled.refused is None else assembled.refused.unionByName(refused)
    return replace(assembled, rows=rows, refused=together, account=replace(assembled.account, refused=count))


@dataclass(frozen=True)
class _Counted:
    """``account``: before transactions are looked at. How many entries are ``in_transactions``, ``await_place`` and
    ``give_place``; the hour's ``edges``; and the ``loads`` that :func:`tidemark.changelog.reloads.unplaced_loads` finds."""

    account: Account
    in_transactions: int
    await_place: int
    give_place: int
    edges: NewEdges
    loads: list[tuple[str, str]]


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
        F.count_if(is_row() & awaits_place(feed)).alias("await_place"),
        F.count_if(gives_place(feed)).alias("give_place"),
        F.sort_array(F.collect_set(edge(feed))).alias("edges"),
        unplaced_loads(feed).alias("loads"),
        F.min("position").alias("low"),
        F.max("position").alias("high"),
    ).first()
    assert counted is not None
    counts = counted.asDict()
    numbers = {name: counts.pop(name) for name in ("in_transactions", "await_place", "give_place")}
    loads = [(row.source_table, row.position) for row in counts.pop("loads")]
    edges = NewEdges(counts.pop("edges"), counts.pop("low"), counts.pop("high"))
    return _Counted(Account(**counts), **numbers, edges=edges, loads=loads)


def _check_landed(feed: Feed, manifest: Manifest, state: FeedState, landed: int) -> None:
    """AccountError unless the manifest counts as many records as the change log, ``landed``."""
    counts = [o.records for o in manifest.objects if o.version > state.version_of(manifest.hour)]
    if all(o.records is not None for o in manifest.objects) and sum(c for c in counts if c is not None) != landed:
        raise AccountError(
            f"the manifest counts {sum(c for c in counts if c is not None)} records, the change log {landed}",
            fix="run decode again for this hour; if it stays, an object changed after it landed",
            feed=feed.feed,
            hour=manifest.hour,
        )
