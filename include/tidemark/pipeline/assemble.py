"""Assemble: the hour's changes and the held ones become whole transactions; the rest stays held.

A transaction is complete when its end has come and as many distinct parts as its end and its counters tell. What a
redelivery repeats of a transaction that was published long ago is complete by what the log holds of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.errors import AccountError
from tidemark.feeds.model import Feed
from tidemark.formats import load_format
from tidemark.hours import parse_hour
from tidemark.ledger.change_log import changes_table, is_published, is_row, rolled_back
from tidemark.ledger.change_stats import IMAGE_NAMES, TableStats, change_stats, unpublishable
from tidemark.ledger.manifest import Manifest
from tidemark.ledger.publication_history import PublicationHistory
from tidemark.ledger.quarantine import ENTRY, NEVER_COMPLETED, count_recalled, kept_back, recalled
from tidemark.ledger.receipts import Recalled
from tidemark.ledger.system_tables import system_table
from tidemark.tables.table_history import Definitions, load_definitions, with_definitions


@dataclass(frozen=True)
class Account:
    """What an hour's log entries are, counted. ``refused``: its changes that are given up to quarantine; ``given_up``:
    overdue transactions whose changes are, of whatever hour; ``rollbacks``: transactions that their source took back;
    ``newest``: the source's own time, as far as it was told."""

    landed: int
    split: int
    control: int
    bad: int
    held: int = 0
    held_transactions: int = 0
    refused: int = 0
    given_up: int = 0
    rollbacks: int = 0
    newest: datetime | None = None


@dataclass(frozen=True)
class Assembled:
    """``rows``: log rows of complete transactions with ``landed_this_hour`` (landed in this hour). ``open``:
    transactions that stay
    held (columns of the book ``held``), None where there are none. ``refused``: rows given up to quarantine, with
    their ``reason``. ``recalled``: how entries that the hour takes up again were accounted for before."""

    rows: DataFrame
    open: DataFrame | None
    refused: DataFrame | None
    account: Account
    definitions: Definitions
    notes: list[str]
    recalled: Recalled


def assemble(spark: SparkSession, feed: Feed, manifest: Manifest, published: PublicationHistory) -> Assembled:
    """Reads the hour's partition of the change log and the held transactions; writes nothing.

    What an earlier publication of the hour accounted for (an older version of its export) is not looked at again.
    """
    log = spark.table(changes_table(feed.feed))
    fresh = log.where((F.col("hour") == manifest.hour) & ~is_published(published))
    account, in_transactions = _count(fresh)
    taken = recalled(spark, feed.feed, manifest, published)
    before = count_recalled(taken) if taken is not None else Recalled()
    _check_landed(feed, manifest, published, account.landed - before.landed)
    of_hour = F.col("hour") == manifest.hour
    entries = log.where(of_hour | is_published(published)).withColumn(
        "landed_this_hour", of_hour & ~is_published(published)
    )
    definitions = load_definitions(entries, feed)
    held_before = _held(spark, feed, published)
    rows = fresh.where(is_row()).withColumn("landed_this_hour", F.lit(True))
    open_: DataFrame | None = None
    refused: list[DataFrame] = []
    notes: list[str] = []
    if in_transactions or held_before is not None:
        rows, account, open_, given_up, notes = _whole_transactions(
            rows, fresh, log, held_before, account, feed, manifest.hour, published, replay=taken is not None
        )
        refused += [given_up] if given_up is not None else []
    rows = with_definitions(rows, definitions, feed)
    if hasattr(load_format(feed.format["type"]), "bind"):
        rows = rows.localCheckpoint()
        unbound = rows.where("problem is not null")
        lost = unbound.where("landed_this_hour").count()
        if lost or not unbound.isEmpty():
            account = replace(account, refused=account.refused + lost)
            refused.append(unbound.withColumn("reason", F.col("problem")))
            rows = rows.where("problem is null")
    given_up = refused[0].unionByName(refused[1]) if len(refused) > 1 else refused[0] if refused else None
    return Assembled(rows, open_, given_up, account, definitions, notes, before)


def with_stats(assembled: Assembled, feed: Feed, published: PublicationHistory) -> tuple[Assembled, list[TableStats]]:
    """The profiles of all tables of the hour, and the assembled changes without those whose columns have names that no
    table can have: they are given up to quarantine. A published table of which the hour's stream only says what its
    columns are has an empty profile."""
    generation = assembled.definitions.generation
    profiles = change_stats(assembled.rows, generation)
    texts = {text for found in profiles for text in (*found.keys, *found.columns)}
    if wrong := {text: why for text in texts if (why := unpublishable(text)) is not None}:
        reasons = F.create_map(*(F.lit(part) for pair in sorted(wrong.items()) for part in pair))
        names = (F.element_at(reasons, F.coalesce(F.col(name), F.lit(""))) for name in IMAGE_NAMES)
        marked = assembled.rows.withColumn("reason", F.coalesce(*names)).localCheckpoint()
        bad, rows = marked.where("reason is not null"), marked.where("reason is null").drop("reason")
        account = replace(assembled.account, refused=assembled.account.refused + bad.where("landed_this_hour").count())
        refused = bad if assembled.refused is None else assembled.refused.unionByName(bad)
        assembled, profiles = (
            replace(assembled, rows=rows, refused=refused, account=account),
            change_stats(rows, generation),
        )
    changed = {found.table for found in profiles}
    told = {feed.published_name(source): source for source in sorted(assembled.definitions.new)}
    profiles += [TableStats(table, [told[table]]) for table in sorted(told.keys() & published.tables - changed)]
    return assembled, profiles


def _count(fresh: DataFrame) -> tuple[Account, int]:
    """The account of an hour's log entries before transactions are looked at, and how many are of transactions."""
    counted = fresh.agg(
        F.count_if(F.col("entry") == 0).alias("landed"),
        F.count_if(F.col("entry") > 0).alias("split"),
        F.count_if(F.col("op").isin("control", "schema")).alias("control"),
        F.count_if(F.col("op") == "bad").alias("bad"),
        F.count_if("tx_rollback").alias("rollbacks"),
        F.max("committed_at").alias("newest"),
        F.count("tx").alias("in_transactions"),
    ).first()
    assert counted is not None
    said = counted.asDict()
    in_transactions = said.pop("in_transactions")
    return Account(**said), in_transactions


def _whole_transactions(
    landed: DataFrame, fresh: DataFrame, log: DataFrame, held_before: DataFrame | None, account: Account, feed: Feed,
    hour: str, published: PublicationHistory, *, replay: bool,
) -> tuple[DataFrame, Account, DataFrame | None, DataFrame | None, list[str]]:  # fmt: skip
    """(rows of complete transactions, the account, transactions that stay open, rows given up, notes)."""
    given_up_before = _given_up(log.sparkSession, feed, published)
    held_rows = _held_rows(log, held_before, published, given_up_before)
    in_transactions = fresh.where("tx is not null")
    candidates = in_transactions if held_rows is None else in_transactions.unionByName(held_rows)
    open_ = _open(candidates, log, published, given_up_before, replay=replay).localCheckpoint()
    rows, released = landed, None
    if held_rows is not None:
        released = held_rows.where(is_row()).withColumn("landed_this_hour", F.lit(False))
        rows = rows.unionByName(released)
    taken_back = rolled_back(log, published, hour if account.rollbacks else None)
    if taken_back is not None:
        dropped = landed.join(taken_back, "tx", "left_semi").count()
        account = replace(account, control=account.control + dropped)
        rows = rows.join(taken_back, "tx", "left_anti").select(*rows.columns)
        open_ = open_.join(taken_back, "tx", "left_anti")
    # What is replayed has been overdue since an hour later than its own.
    overdue, policy = _overdue(feed, max([hour, *published.hours]) if replay else hour), feed.transactions.overdue
    still_open = open_ if policy == "hold" else open_.where(~overdue)
    late, held_transactions = open_.agg(F.count_if(overdue), F.count(F.lit(1))).first() or (0, 0)
    notes = [f"{late} overdue transactions ({policy})"] if late else []
    refused = None
    if late and policy == "quarantine":
        given_up = F.broadcast(open_.where(overdue).select("tx"))
        reason = F.lit(NEVER_COMPLETED)
        refused = rows.join(given_up, "tx", "left_semi").select(*rows.columns).withColumn("reason", reason)
        rows = rows.join(given_up, "tx", "left_anti").select(*rows.columns)
        account = replace(account, refused=refused.where("landed_this_hour").count(), given_up=late)
    if policy != "hold":
        held_transactions -= late
    if held_transactions:
        names = F.broadcast(still_open.select("tx"))
        held = landed.join(names, "tx", "left_semi").count()
        rows = rows.join(names, "tx", "left_anti").select(*rows.columns)
        account = replace(account, held=held, held_transactions=held_transactions)
    return rows, account, still_open if held_transactions else None, refused, notes


def _check_landed(feed: Feed, manifest: Manifest, published: PublicationHistory, landed: int) -> None:
    before = published.of_hour(manifest.hour)
    counts = [o.records for o in manifest.objects if before is None or o.version > before.manifest_version]
    if all(o.records is not None for o in manifest.objects) and sum(c for c in counts if c is not None) != landed:
        raise AccountError(
            f"the manifest counts {sum(c for c in counts if c is not None)} records, the change log {landed}",
            fix="run decode again for this hour; if it stays, an object changed after it landed",
            feed=feed.feed,
            hour=manifest.hour,
        )


def _held(spark: SparkSession, feed: Feed, published: PublicationHistory) -> DataFrame | None:
    """The transactions that the last publication left open."""
    last = published.receipts[-1] if published.receipts else None
    if last is None or not last.held_transactions:
        return None
    return spark.table(system_table(feed.feed, "held")).where(F.col("sequence") == last.sequence)


def _held_rows(
    log: DataFrame, held: DataFrame | None, published: PublicationHistory, given_up: DataFrame | None
) -> DataFrame | None:
    """Log entries of the held transactions, from the hours they landed in."""
    if held is None:
        return None
    names = F.broadcast(held.select("tx", F.explode("hours").alias("hour")))
    rows = log.where(is_published(published) & F.col("tx").isNotNull())
    return _but(rows, given_up).join(names, ["tx", "hour"], "left_semi")


def _given_up(spark: SparkSession, feed: Feed, published: PublicationHistory) -> DataFrame | None:
    """Entries in quarantine because their transaction never completed; None where there never were any."""
    if not any(receipt.given_up for receipt in published.receipts):
        return None
    rows = kept_back(spark, feed.feed, published).where(F.col("reason") == NEVER_COMPLETED)
    return F.broadcast(rows.select(*ENTRY))


def _but(rows: DataFrame, entries: DataFrame | None) -> DataFrame:
    """Log rows without these entries."""
    return rows if entries is None else rows.join(entries, ENTRY, "left_anti").select(*rows.columns)


def status(entries: DataFrame) -> DataFrame:
    """Log entries with a ``tx`` → one row per transaction: columns of the book ``held`` plus ``complete``."""
    needed = F.greatest(F.coalesce(F.max("tx_count"), F.lit(0)), F.coalesce(F.max("tx_ordinal"), F.lit(0)))
    return (
        entries.groupBy("tx")
        .agg(
            F.min("hour").alias("since"),
            F.sort_array(F.collect_set("hour")).alias("hours"),
            F.count_if(is_row()).alias("changes"),
            F.count_distinct("tx_part").alias("parts"),
            needed.alias("needed"),
            F.coalesce(F.bool_or("tx_end"), F.lit(False)).alias("ended"),
            F.sort_array(F.collect_set("table")).alias("tables"),
            F.min("position").alias("position"),
        )
        .withColumn("complete", F.col("ended") & (F.col("parts") >= F.col("needed")))
    )


def _open(
    candidates: DataFrame, log: DataFrame, published: PublicationHistory, given_up: DataFrame | None, *, replay: bool
) -> DataFrame:
    """Transactions of the candidates that are not complete, not even with what the log already holds of them. Changes
    that were given up do not complete a transaction: ``spared`` are those that wait for nothing but their replay."""
    # A begin alone holds nothing: what follows it will come with its own evidence.
    matters = (F.col("changes") > 0) | F.col("ended")
    seen = status(candidates).where(~F.col("complete") & matters).drop("complete")
    highest = published.highest
    if highest is None and not replay:
        return seen.withColumn("spared", F.lit(False))
    # Below the highest place applied it may be a redelivery of a transaction that is complete in the log.
    maybe_old = F.lit(replay) | F.coalesce(F.col("position") <= F.lit(highest), F.lit(True))
    seen = seen.localCheckpoint()
    names = F.broadcast(seen.where(maybe_old).select("tx"))
    mine = candidates.join(names, "tx", "left_semi")
    earlier = log.where(is_published(published) & F.col("tx").isNotNull()).join(names, "tx", "left_semi")

    def complete(entries: DataFrame) -> DataFrame:
        return F.broadcast(status(entries).where("complete").select("tx"))

    open_ = seen.join(complete(mine.unionByName(_but(earlier, given_up))), "tx", "left_anti")
    if given_up is None:
        return open_.withColumn("spared", F.lit(False))
    with_all = complete(mine.unionByName(earlier)).withColumn("spared", F.lit(True))
    return open_.join(with_all, "tx", "left").withColumn("spared", F.coalesce("spared", F.lit(False)))


def _overdue(feed: Feed, hour: str) -> Column:
    """Whether a transaction has been held for longer than the feed allows, seen from the hour that runs."""
    oldest = (parse_hour(hour) - feed.transactions.alarm).strftime("%Y-%m-%dT%H")
    return (F.col("since") < oldest) & ~F.col("spared")
