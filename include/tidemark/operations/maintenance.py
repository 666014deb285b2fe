"""Maintenance: removes what no publication needs any more, and compacts the small files that many publications left.

What readers see does not change: neither the tables nor the cuts that the feed keeps. Each step may stop anywhere and
be done again. It holds the feed lock: an hour adds columns and branches to the tables before it is published, which look
like what an hour left that died. A pending publication is left alone.

The change log, the receipts, the quarantine and the landed objects stay: the tables are accounted for by them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidemark.errors import SchemaError
from tidemark.feeds.loading import find_feed
from tidemark.feeds.model import Feed
from tidemark.hours import Hour
from tidemark.identifiers import publication_of_branch, quote
from tidemark.lake.session import full_name, open_session
from tidemark.lake.spark_conf import CATALOG
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.publication_history import PublicationHistory, load_history
from tidemark.ledger.retention import CUTS_DROPPED, expired_hours
from tidemark.ledger.state_store import load_state, save_state
from tidemark.ledger.system_tables import SYSTEM_TABLES, note_pruned, pruned, system_table
from tidemark.logs import get_logger, log_stage
from tidemark.operations.explained_rows import clear_explained
from tidemark.operations.key_index import index_keys, keys_table
from tidemark.operations.maintenance_files import clear_copies, clear_landing
from tidemark.pipeline.hour import locked
from tidemark.settings import Settings
from tidemark.tables.published_table import discard_columns

log = get_logger()

#: The receipts are one table for all feeds, so the retention of a single feed does not decide about its files.
_RECEIPTS_AGE = timedelta(days=7)


@dataclass(frozen=True, kw_only=True)
class Maintained:
    """What maintenance did to a feed, in numbers."""

    tombstones: int
    """Tombstones that were removed: older than the feed keeps them."""
    cuts: int
    """Cuts that were dropped, each counted once for every table that had it."""
    branches: int
    """Branches of attempts that were never published, dropped from their tables."""
    rewritten: int
    """Data files that were compacted: small ones, and those of which many rows are deleted."""
    orphans: int
    """Files of no snapshot that were removed from the tables' folders."""
    folders: int
    """Folders of copies in Parquet that were removed."""
    landed: int
    """Files of the landing that were removed because no manifest lists them."""
    indexed: int
    """Hours, table by table, that were added to the index of keys."""


def maintain(
    feed: Feed, settings: Settings, progress: Callable[[str], None] = lambda stage: None, now: datetime | None = None
) -> Maintained:
    """Maintain one feed. ``now``: the time against which ages are measured. ConflictError when its run does not end."""
    with log_stage("maintain", "maintained", feed=feed.feed) as line, locked(settings, feed.feed) as held:

        def step(doing: str) -> None:
            held.check()
            progress(doing)

        done = _maintain(feed, settings, step, now or datetime.now(UTC))
        line |= asdict(done)
    return done


def _maintain(feed: Feed, settings: Settings, progress: Callable[[str], None], now: datetime) -> Maintained:
    history, state = load_history(settings, feed.feed), load_state(settings, feed.feed)
    if state.next is not None and state.next.receipt is None:
        # Its run has died, or stands still: should it wake up, it goes on no more, for its columns are discarded below.
        state = save_state(settings, state.model_copy(update={"next": None}))
    spark = open_session(settings, f"maintain {feed.feed}", small=state.has_small_tables)
    tables = [name for name in _published_tables(history) if spark.catalog.tableExists(full_name(*name))]
    system_tables = [("tidemark", feed.feed, name) for name in ("changes", *SYSTEM_TABLES)]
    system_tables = [name for name in system_tables if spark.catalog.tableExists(full_name(*name))]
    safe = now - feed.retention.orphans
    progress("tombstones")
    tombstones = _prune_tombstones(spark, feed, history, now) if system_tables else 0
    _remove_unpublished(spark, feed.feed, state)
    progress("cuts and branches")
    expired = expired_hours(feed, history.cuts_made, now)
    cuts = sum(_drop_cuts(spark, feed, table, expired, now) for table in tables)
    branches = sum(_drop_branches(spark, feed.feed, table, state) for table in tables)
    progress("small files")
    rewritten = 0
    if state.next is None:
        discard_columns(spark, feed.feed, [".".join(name) for name in tables], state.taken)
        rewritten = sum(_rewrite(spark, table) for table in tables)
    progress("the index of keys")
    indexed = 0
    try:
        indexed = index_keys(spark, feed, state) if system_tables else 0
    except SchemaError as error:  # of a feed file that the log does not fit: what must be removed goes all the same
        log.warning("left the index of keys as it is", reason=str(error))
    if spark.catalog.tableExists(keys_table(feed.feed)):
        system_tables.append(("tidemark", feed.feed, "keys"))
        _call(spark, "rewrite_data_files", system_tables[-1], strategy="sort", sort_order="hash")
    progress("snapshots and orphaned files")
    for table in (*tables, *system_tables):
        _call(spark, "expire_snapshots", table, older_than=safe, retain_last=1)
    orphans = sum(_remove_orphans(spark, table, safe) for table in (*tables, *system_tables))
    if history.receipts:
        orphans += _maintain_receipts(spark, feed.feed, min(safe, now - _RECEIPTS_AGE))
    progress("folders")
    folders = clear_copies(feed.feed, safe, settings)
    landed = clear_landing(feed, safe, settings)
    clear_explained(settings, feed.feed, now)
    return Maintained(
        tombstones=tombstones, cuts=cuts, branches=branches, rewritten=rewritten, orphans=orphans, folders=folders,
        landed=landed, indexed=indexed,
    )  # fmt: skip


def _maintain_receipts(spark: SparkSession, feed: str, older_than: datetime) -> int:
    """Each receipt is a file and a snapshot of its own: a feed's become few, while other feeds are at work on theirs. Returns
    how many orphaned files are gone."""
    receipts = ("tidemark", "receipts")
    _call(spark, "rewrite_data_files", receipts, where=f"feed = '{feed}'")
    _call(spark, "expire_snapshots", receipts, older_than=older_than, retain_last=1)
    return _remove_orphans(spark, receipts, older_than)


def maintain_feed(feed: str) -> Maintained:
    """The maintain job's work."""
    settings = Settings()
    return maintain(find_feed(feed, settings), settings)


def _published_tables(history: PublicationHistory) -> list[tuple[str, ...]]:
    """Namespace and name of each of the feed's published tables."""
    return [tuple(name.split(".", 1)) for name in sorted(history.tables)]


def _prune_tombstones(spark: SparkSession, feed: Feed, history: PublicationHistory, now: datetime) -> int:
    """Remove the tombstones of publications that are older than the feed keeps them. Returns how many.

    The highest sort key among them is noted first: a change at or below it, of a key that has neither row nor tombstone
    any more, is looked up in the change log (:mod:`tidemark.fold.late_changes`), so that it cannot bring the row back.
    """
    oldest, until = now - feed.retention.tombstones, 0
    for receipt in history.receipts:
        if receipt.published_at is None or receipt.published_at >= oldest:
            break
        until = receipt.sequence
    table = system_table(feed.feed, "tombstones")
    old = spark.table(table).where(F.col("sequence") <= until).agg(F.count(F.lit(1)), F.max("sort_key")).first()
    assert old is not None
    if not old[0]:
        return 0
    note_pruned(spark, feed.feed, max(pruned(spark, feed.feed), old[1]))
    spark.sql(f"DELETE FROM {table} WHERE sequence <= {until:d}")  # noqa: S608 - quoted, a number
    return int(old[0])


def _remove_unpublished(spark: SparkSession, feed: str, state: FeedState) -> None:
    """Remove the rows of attempts that were never published, but for the last one, which people may look at."""
    for name in SYSTEM_TABLES:
        table = system_table(feed, name)
        if not spark.catalog.tableExists(table):
            continue
        found = {row.sequence for row in spark.table(table).select("sequence").distinct().collect()}
        if left := sorted(n for n in found if not state.counts(n) and n != state.taken):
            spark.sql(  # quoted, and numbers
                f"DELETE FROM {table} WHERE sequence IN ({', '.join(f'{n:d}' for n in left)})"  # noqa: S608
            )
            log.info("removed rows that were never published", table=f"tidemark.{feed}.{name}", publications=len(left))


def _refs(spark: SparkSession, table: tuple[str, ...]) -> list[str]:
    return [row["name"] for row in spark.table(f"{full_name(*table)}.refs").collect()]


def _drop_cuts(spark: SparkSession, feed: Feed, table: tuple[str, ...], expired: set[Hour], now: datetime) -> int:
    """Drop these cuts of a table, and note that they are gone: the feed file may say later that they are kept for longer."""
    tags = {hour.tag for hour in expired} & set(_refs(spark, table))
    if tags and feed.retention.cuts is not None:
        noted = f"'{CUTS_DROPPED}' = '{(now - feed.retention.cuts).isoformat()}'"
        spark.sql(f"ALTER TABLE {full_name(*table)} SET TBLPROPERTIES ({noted})")
    for tag in sorted(tags):
        spark.sql(f"ALTER TABLE {full_name(*table)} DROP TAG {quote(tag)}")
        log.info("dropped a cut", table=".".join(table), tag=tag, reason="it is older than the feed keeps cuts")
    return len(tags)


def _drop_branches(spark: SparkSession, feed: str, table: tuple[str, ...], state: FeedState) -> int:
    """Drop the audit branches of attempts that were never published."""
    making = state.next.sequence if state.next is not None else None
    stale = [
        name
        for name in _refs(spark, table)
        if (made := publication_of_branch(name, feed)) is not None and made != making
    ]
    for branch in stale:
        spark.sql(f"ALTER TABLE {full_name(*table)} DROP BRANCH {quote(branch)}")
        log.info("dropped a branch", table=".".join(table), branch=branch, reason="it was never published")
    return len(stale)


def _rewrite(spark: SparkSession, table: tuple[str, ...]) -> int:
    """Compact small files, and files of which many rows are deleted. Returns how many.

    An hour that was staged meanwhile takes main back to the snapshot before this
    (:meth:`tidemark.tables.published_table.PublishedTable.publish`): only the compaction is lost.
    """
    done = _call(spark, "rewrite_data_files", table)
    return int(done[0]["rewritten_data_files_count"])


def _remove_orphans(spark: SparkSession, table: tuple[str, ...], older_than: datetime) -> int:
    # Iceberg refuses to remove files that are younger than a day.
    day_ago = datetime.now(UTC) - timedelta(days=1, minutes=1)
    return len(_call(spark, "remove_orphan_files", table, older_than=min(older_than, day_ago)))


def _call(spark: SparkSession, procedure: str, table: tuple[str, ...], **arguments: datetime | int | str) -> list:  # type: ignore[type-arg]
    """Call one of Iceberg's procedures on a table; the rows it returns."""
    name = ".".join(quote(part) for part in table).replace("'", "\\'")
    given = "".join(f", {key} => {_literal(value)}" for key, value in arguments.items())
    return spark.sql(f"CALL {quote(CATALOG)}.system.{procedure}(table => '{name}'{given})").collect()


def _literal(value: datetime | int | str) -> str:
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S}'"
    return f"{value:d}" if isinstance(value, int) else "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
