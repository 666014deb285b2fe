"""Compact: assembled changes are folded onto the snapshots, each table in an audit branch that no reader sees.

What is folded is cut off from its plan (a local checkpoint) before it is merged: Spark looks every table of a plan up
again at each action, and what it had cached of a table that has moved on meanwhile is lost.

In the ordinary case every change is newer than all that the table holds, which one comparison tells, and the fold of
the hour is merged. Otherwise (:mod:`tidemark.merge.late_changes`) redelivered and outdated changes are told apart, and the keys
that a late change can still alter are folded again from the change log.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.errors import TerminalError
from tidemark.feeds.model import Feed
from tidemark.ledger.change_log import changes_table, is_published, of_table
from tidemark.ledger.change_stats import TableStats
from tidemark.ledger.manifest import Manifest
from tidemark.ledger.pending_publication import PendingPublication, discard_pending, load_pending, save_pending
from tidemark.ledger.publication_history import PublicationHistory
from tidemark.ledger.receipts import Counts, Receipt, TableReceipt
from tidemark.ledger.system_tables import clear_rows, create_system_tables, write_rows
from tidemark.merge import keyless as multiset
from tidemark.merge import late_changes as late
from tidemark.merge.contract import tidemark
from tidemark.merge.fold import fold
from tidemark.merge.typed_rows import TableShape, in_one_notation, key_is_whole, keyed_rows, settle
from tidemark.pipeline.assemble import Assembled, assemble, with_stats
from tidemark.settings import Settings
from tidemark.snapshots import discard_columns, open_snapshot
from tidemark.storage.landing_layout import landed_hour
from tidemark.tables.table_state import State, Work, open_state, reached

_COUNTED = ("landed_count", "landed_duplicates", "released_count", "released_duplicates")


@dataclass(frozen=True)
class Compacted:
    """One table's outcome: its receipt, rows for tombstones (table, key, place, hour) and for the quarantine.
    ``staged``: whether there is an audit branch. ``retired``: columns that hold nothing once it is published."""

    receipt: TableReceipt
    tombstones: DataFrame | None
    quarantined: list[DataFrame]
    staged: bool = True
    retired: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Outcome:
    """SETTLED rows of one table (materialised), how many write and delete, the account of its changes, and the columns
    that some row keeps as they are stored."""

    settled: DataFrame
    written: int
    deleted: int
    counts: Counts
    quarantined: list[DataFrame]
    kept_columns: frozenset[str] = frozenset()


def compact(
    spark: SparkSession, feed: Feed, manifest: Manifest, published: PublicationHistory, settings: Settings
) -> PendingPublication:
    """Assemble and compact the hour. Reads the change log and the snapshots; writes audit branches, the books' pages
    under the next sequence number, and the draft. Branches are made anew from main at each run.

    A TerminalError leaves the tables' columns as they are published.
    """
    pending = load_pending(settings, feed.feed)
    if pending and pending.follows(published):
        if pending.validated and pending.of(manifest):
            return pending
        discard_pending(settings, pending)  # whose pages, and maybe branches, are about to be replaced
    create_system_tables(spark, feed.feed)
    assembled = assemble(spark, feed, manifest, published)
    work = Work(spark, feed, settings, manifest.hour, published)
    if manifest.small:
        # Each table of the feed plans and reads its own part of this: of a small hour, all at once is cheaper.
        assembled = replace(assembled, rows=assembled.rows.localCheckpoint())
    assembled, profiles = with_stats(assembled, feed, published)
    try:
        tables = [_compact_table(work, found, assembled) for found in profiles]
    except TerminalError:
        discard_columns(spark, feed, [found.table for found in profiles], settings)
        raise
    _write_system_tables(work, assembled, tables)
    before = published.of_hour(manifest.hour)
    receipt = Receipt(
        feed=feed.feed,
        hour=manifest.hour,
        sequence=work.sequence,
        manifest_version=manifest.version,
        objects=len(manifest.objects),
        bytes=sum(o.bytes for o in manifest.objects),
        recalls=manifest.recalls,
        **asdict(assembled.account),
        tables=[table.receipt for table in tables],
        notes=assembled.notes,
    )
    if before:
        receipt = receipt.follow(before.without(assembled.recalled))
    receipt.balance()
    pending = PendingPublication(
        receipt=receipt,
        publication=work.publication,
        staged=[t.receipt.table for t in tables if t.staged],
        retired={t.receipt.table: t.retired for t in tables if t.retired},
    )
    save_pending(settings, pending)
    return pending


def _compact_table(work: Work, found: TableStats, assembled: Assembled) -> Compacted:
    snapshot = open_snapshot(work.spark, work.feed, found.table, work.settings)
    rows = assembled.rows.where(F.col("table") == found.table)
    snapshot.discard()  # what an attempt that was not published has evolved
    highest, truncated = reached(work, found)
    highest_now = max(filter(None, (highest, found.last and found.last + "#9")), default=None)
    stored = snapshot.columns()
    if not stored and found.only_truncates:  # nothing to empty, and nothing yet says what the table is like
        counts, _ = under_truncates(work, found, rows, truncated)
        receipt = TableReceipt(table=found.table, counts=counts, highest=highest_now, truncated=truncated)
        return Compacted(receipt, None, [], staged=False)
    state = open_state(work, found, assembled, snapshot)
    change, shape = state.change, state.shape
    counts, rows = under_truncates(work, found, rows, state.truncated)
    receipt = TableReceipt(
        table=found.table,
        counts=counts,
        highest=highest_now,
        truncated=state.truncated,
        column_renames=list(change.ids),
    )
    if not (found.first or change.dropped or state.rebuild):
        return Compacted(receipt, None, [], staged=False)
    outcome = (_keyed if shape.key else _keyless)(work, found, shape, rows, state, counts)
    emptied = "" if state.rebuild and not shape.key else found.truncated
    snapshot.stage(
        outcome.settled,
        list(shape.key),
        emptied,
        work.publication,
        first=not stored,
        kept_columns=outcome.kept_columns,
        dropped=change.dropped,
    )
    receipt = receipt.model_copy(
        update={
            "counts": outcome.counts,
            "rows_written": outcome.written,
            "rows_deleted": outcome.deleted,
            "staged_in": work.sequence,
        }
    )
    deleted = _tombstones(work, found.table, outcome.settled) if shape.key and outcome.deleted else None
    return Compacted(receipt, deleted, outcome.quarantined, retired=state.retired)


def _tombstones(work: Work, table: str, settled: DataFrame) -> DataFrame:
    """Deleted keys, as rows of the book ``tombstones``."""
    return settled.where("deleted").select(
        F.lit(table).alias("table"), F.to_json("key").alias("key"), F.col("tidemark.sort_key").alias("sort_key"),
        F.lit(work.hour).alias("hour"),
    )  # fmt: skip


def under_truncates(work: Work, found: TableStats, rows: DataFrame, truncated: str | None) -> tuple[Counts, DataFrame]:
    """The newest truncate is applied; what stands before it, an older truncate too, is superseded by it. One that is
    published already is a duplicate."""
    if truncated is None:
        return Counts(), rows
    truncate, older, landed = F.col("op") == "truncate", F.col("position") < truncated, F.col("landed_this_hour")
    known = F.lit(False)
    if found.truncates:
        log = work.spark.table(changes_table(work.feed.feed))
        mine = of_table(found.table, tuple(found.sources))
        told = log.where(is_published(work.published) & mine & truncate)
        told = told.where(F.col("position") >= found.first)  # as many as the hour's own can be
        known = F.col("position").isin([row.position for row in told.select("position").distinct().collect()])
    new = truncate & ~older & ~known

    def distinct(which: Column) -> Column:
        return F.count_distinct(F.when(which, F.col("position")))

    said = rows.agg(
        distinct(new & landed),
        distinct(new & ~landed),
        F.count_if(older & ~(truncate & known) & landed),
        F.count_if(older & ~(truncate & known) & ~landed),
        F.count_if(truncate & landed),
        F.count_if(truncate & ~landed),
        F.count_if(truncate & older & ~known & landed),
        F.count_if(truncate & older & ~known & ~landed),
    ).first()
    assert said is not None
    counts = Counts(
        applied=said[0], released_applied=said[1], superseded=said[2], released_superseded=said[3],
        duplicate=said[4] - said[0] - said[6], released_duplicate=said[5] - said[1] - said[7],
    )  # fmt: skip
    return counts, rows.where(~truncate & ~older)


def _keyed(work: Work, found: TableStats, shape: TableShape, rows: DataFrame, state: State, counts: Counts) -> Outcome:
    all_rows = keyed_rows(rows, shape, expand=found.moves > 0)
    whole = all_rows.where(key_is_whole(shape))
    quarantined: list[DataFrame] = []
    late_rows = refolded = None
    if state.needs_log_lookup(found.first, found.links):
        told = late.classify(state, whole, found.links)
        whole, late_rows, refolded, counts = told.ordinary, told.late, told.refolded, counts.plus(told.counts)
    settled = settle(fold(whole, partial=found.partial > 0), shape, work.hour)
    if refolded is not None:
        settled = settled.unionByName(settle(refolded, shape, work.hour, whole=True))
    settled = settled.localCheckpoint()
    sizes = _sizes(settled)
    if sizes.unreadable:
        settled, moved, bad = _without_unreadable(work, found, shape, whole, late_rows, settled)
        quarantined.append(bad)
        counts = counts.plus(moved)
        sizes = _sizes(settled)
    keyless = _count_broken_keys(found, counts, sizes.landed, sizes.released)
    if keyless != (0, 0):
        bad = all_rows.where(~key_is_whole(shape) & F.col("counts"))
        reason = F.lit(f"the key ({', '.join(shape.key)}) is missing or cannot be read")
        quarantined.append(quarantine_rows(bad, found.table, "compact", reason))
        counts = counts.plus(Counts(quarantined=keyless[0], released_quarantined=keyless[1]))
    counts = counts.plus(
        Counts(
            applied=sizes.landed - sizes.landed_duplicates,
            duplicate=sizes.landed_duplicates,
            released_applied=sizes.released - sizes.released_duplicates,
            released_duplicate=sizes.released_duplicates,
        )
    )
    settled = settled.drop("unreadable", *_COUNTED)
    return Outcome(settled, sizes.written, sizes.deleted, counts, quarantined, frozenset(sizes.kept_columns))


@dataclass(frozen=True)
class Sizes:
    """Of SETTLED rows: the sums of their counts, how many are unreadable, write and delete, and the columns that some of
    them keep as they are stored."""

    landed: int
    landed_duplicates: int
    released: int
    released_duplicates: int
    unreadable: int
    written: int
    deleted: int
    kept_columns: list[str]


def _sizes(settled: DataFrame) -> Sizes:
    said = settled.agg(
        *(F.coalesce(F.sum(name), F.lit(0)) for name in _COUNTED),
        F.count_if(F.col("unreadable") != ""),
        F.count_if(~F.col("deleted")),
        F.count_if("deleted"),
        F.array_distinct(F.flatten(F.collect_set(F.when(F.col("keep_stored"), F.col("tidemark.absent"))))),
    ).first()
    assert said is not None
    return Sizes(*said)


def _count_broken_keys(found: TableStats, counts: Counts, landed: int, released: int) -> tuple[int, int]:
    """Changes that reached no fold because their key is broken: what is left of the profile's counts."""
    return (
        found.landed - landed - counts.duplicate - counts.superseded - counts.applied - counts.quarantined,
        found.released - released - counts.released_duplicate - counts.released_superseded - counts.released_applied
        - counts.released_quarantined,
    )  # fmt: skip


def _without_unreadable(
    work: Work, found: TableStats, shape: TableShape, rows: DataFrame, late_rows: DataFrame | None, settled: DataFrame
) -> tuple[DataFrame, Counts, DataFrame]:
    """Leave out the changes whose values cannot be read and fold their keys again: (settled, what this changes in the
    counts that are not the fold's, their quarantine rows). Each change of such a key is read by itself to find the
    guilty ones; late changes of such a key all wait, and its row stays as it is."""
    keys = settled.where(F.col("unreadable") != "").select("key").localCheckpoint()
    suspects = rows.join(keys, "key", "left_semi")
    each = suspects.withColumn("deleted", F.col("op") == "delete").withColumn(
        "base_sort_key", F.lit(None).cast("string")
    )
    read = settle(each.withColumn("landed_count", F.struct(*suspects.columns)), shape, work.hour)
    judged = read.select("landed_count.*", "unreadable").localCheckpoint()
    moved = Counts()
    guilty, innocent = judged.where(F.col("unreadable") != ""), judged.where(F.col("unreadable") == "")
    reason = F.concat(F.lit("not a value of its column's type: "), "unreadable")
    if late_rows is not None:
        waiting = late_rows.join(keys, "key", "left_semi").select(*suspects.columns)
        moved = moved.less(late.applied(waiting))
        guilty = guilty.unionByName(waiting.withColumn("unreadable", F.lit("a late change of its key")))
    again = settle(fold(innocent.drop("unreadable"), partial=True), shape, work.hour)
    guilty = guilty.where("counts")
    said = guilty.agg(F.count_if("landed_this_hour"), F.count_if(~F.col("landed_this_hour"))).first()
    assert said is not None
    moved = moved.plus(Counts(quarantined=said[0], released_quarantined=said[1]))
    clean = settled.join(keys, "key", "left_anti").unionByName(again).localCheckpoint()
    return clean, moved, quarantine_rows(guilty, found.table, "compact", reason)


def _keyless(
    work: Work, found: TableStats, shape: TableShape, rows: DataFrame, state: State, counts: Counts
) -> Outcome:
    """A multiset is counted from the log: what the touched images come to, over everything published and this hour."""
    # Released changes are as new to the table as the hour's own.
    new = rows.select(*state.log_columns()).withColumn("landed_this_hour", F.lit(True))
    together = state.published_rows().unionByName(new, allowMissingColumns=True)
    changes = multiset.effective(in_one_notation(together, shape))
    changes = changes.localCheckpoint()
    said = changes.agg(
        F.coalesce(F.sum(F.col("times") - F.col("times_before")), F.lit(0)),
        F.coalesce(F.sum("landed_this_hour"), F.lit(0)),
    ).first()
    assert said is not None
    # Where all of it is written anew, every copy is.
    changed = F.col("now") > 0 if state.rebuild or found.truncated is not None else F.col("now") != F.col("before")
    per_image = multiset.copies(changes).where(changed)
    copy = F.explode(F.sequence(F.lit(1), F.greatest("now", "before"))).alias("copy")
    each = per_image.select("hash", "image", "now", "said", copy)
    sort_key = F.concat("hash", F.lit("#"), F.lpad(F.col("copy").cast("string"), 12, "0"))
    values = [shape.value(name, F.element_at("image", F.lit(name))).alias(name) for name in shape.columns]
    settled = each.select(
        F.struct(sort_key.alias("copy")).alias("key"),
        (F.col("copy") > F.col("now")).alias("deleted"),
        F.struct(*values).alias("row"),
        F.lit(False).alias("keep_stored"),
        tidemark(sort_key, sort_key, F.col("said.tx"), F.col("said.committed_at"), work.hour, F.array()).alias(
            "tidemark"
        ),
    ).localCheckpoint()
    mine, released = found.landed - counts.applied - counts.duplicate - counts.superseded, found.released
    applied = min(int(said[0]), mine)
    released_applied = min(int(said[0]) - applied, released)
    more = Counts(
        applied=applied, duplicate=mine - applied, released_applied=released_applied,
        released_duplicate=released - released_applied - counts.released_superseded,
    )  # fmt: skip
    sizes = settled.agg(F.count_if(~F.col("deleted")), F.count_if("deleted")).first()
    assert sizes is not None
    return Outcome(settled, sizes[0], sizes[1], counts.plus(more), [])


def quarantine_rows(rows: DataFrame, table: str, stage: str, reason: Column) -> DataFrame:
    """ROWS that did not pass, as rows of the book ``quarantine``."""
    change = F.to_json(F.struct("op", "key", "after", "absent", "prior"))
    return rows.select(
        F.lit(stage).alias("stage"), landed_hour(F.col("object")).alias("hour"), "landed_this_hour", F.lit(table).alias("table"),
        "object", "record", "entry", "topic", "position", reason.alias("reason"),
        F.lit(None).cast("binary").alias("raw"), change.alias("change"),
    )  # fmt: skip


def _refused(assembled: Assembled) -> DataFrame | None:
    """Changes that reached no table, for the quarantine."""
    if assembled.refused is None:
        return None
    change = F.to_json(F.struct("op", "key", "before", "after", "absent", "tx"))
    return assembled.refused.select(
        F.lit("assemble").alias("stage"), "hour", "landed_this_hour", "table", "object", "record", "entry", "topic", "position",
        "reason", F.lit(None).cast("binary").alias("raw"), change.alias("change"),
    )  # fmt: skip


def _write_system_tables(work: Work, assembled: Assembled, tables: list[Compacted]) -> None:
    refused = _refused(assembled)
    log = work.spark.table(changes_table(work.feed.feed))
    unread = (F.col("hour") == work.hour) & (F.col("op") == "bad") & ~is_published(work.published)
    bad = log.where(unread).select(
        F.lit("decode").alias("stage"), "hour", F.lit(True).alias("landed_this_hour"), "table", "object", "record", "entry", "topic",
        "position", F.col("problem").alias("reason"), "raw", F.lit(None).cast("string").alias("change"),
    )  # fmt: skip
    pages = {
        "quarantine": [
            *([bad] if assembled.account.bad else []),
            *([refused] if refused is not None else []),
            *(q for t in tables for q in t.quarantined),
        ],
        "tombstones": [t.tombstones for t in tables if t.tombstones is not None],
        "held": [assembled.open] if assembled.open is not None else [],
    }
    clear_rows(work.spark, work.feed.feed, work.sequence)
    for name, parts in pages.items():
        if parts:
            together = parts[0]
            for part in parts[1:]:
                together = together.unionByName(part)
            write_rows(work.spark, work.feed.feed, name, work.sequence, together)
