"""Validate: what an hour staged is checked with pandera before any reader sees it.

Only rows the hour wrote are checked, but for what only the whole table can tell (uniqueness, of values the hour
wrote). Each check has its consequence: stop (nothing of the hour is published), quarantine (the failing rows keep
their last good version, their changes wait in quarantine), warn (noted in the receipt).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.errors import CheckError, QuarantineLimitError
from tidemark.feeds.model import Feed
from tidemark.formats import load_format
from tidemark.identifiers import TIDEMARK, quote
from tidemark.ledger.manifest import Manifest
from tidemark.ledger.pending_publication import PendingPublication, save_pending
from tidemark.ledger.publication_history import PublicationHistory
from tidemark.ledger.receipts import Counts, TableReceipt
from tidemark.ledger.system_tables import clear_stage_rows, write_rows
from tidemark.merge import late_changes as late
from tidemark.merge.typed_rows import key_is_whole, keyed_rows
from tidemark.pipeline.assemble import assemble, with_stats
from tidemark.pipeline.compact import quarantine_rows, under_truncates
from tidemark.schema.type_changes import wider_of
from tidemark.settings import Settings
from tidemark.snapshots import open_snapshot
from tidemark.tables.table_state import Work, open_state

if TYPE_CHECKING:
    from tidemark.pipeline.checks import Plan


@dataclass(frozen=True)
class Verdict:
    """One table's: what stops the hour, what is only worth a word, which rows (key columns, ``reason``) must wait."""

    stops: list[str]
    warnings: list[str]
    waiting: DataFrame | None


def validate(
    spark: SparkSession,
    feed: Feed,
    manifest: Manifest,
    published: PublicationHistory,
    pending: PendingPublication,
    settings: Settings,
) -> PendingPublication:
    """Check every staged table. CheckError or QuarantineLimitError stop the hour: readers stay on the last good one.

    Reads the audit branches; puts rows that must wait back to their published version in them; writes their changes
    to the quarantine; saves and returns the draft, validated.
    """
    if pending.validated:
        return pending
    staged = [table.table for table in pending.receipt.tables if table.table in pending.staged]
    tables = {table.table: table for table in pending.receipt.tables}
    verdicts = {name: _judge(spark, feed, tables[name], pending, settings) for name in staged}
    stops = [f"{name}: {stop}" for name, verdict in verdicts.items() for stop in verdict.stops]
    if stops:
        raise CheckError(
            "checks failed, nothing is published: " + "; ".join(stops),
            fix="mend the source or the check in the feed file, then run the hour again from compact",
            feed=feed.feed,
            hour=manifest.hour,
        )
    waiting = {name: verdict.waiting for name, verdict in verdicts.items() if verdict.waiting is not None}
    if not waiting.keys() <= set(pending.held_back):
        pending = pending.model_copy(update={"held_back": sorted({*pending.held_back, *waiting})})
        save_pending(settings, pending)
    pages = []
    for name, verdict in verdicts.items():
        update: dict[str, object] = {"warnings": verdict.warnings}
        if name in waiting:
            moved, page = _wait(spark, feed, manifest, published, pending, name, waiting[name], settings)
            update |= {
                "counts": tables[name].counts.plus(moved),
                "waiting": moved.quarantined + moved.released_quarantined,
            }
            pages.append(page)
        tables[name] = tables[name].model_copy(update=update)
    if pages:
        together = reduce(DataFrame.unionByName, pages)
        write_rows(spark, feed.feed, "quarantine", pending.receipt.sequence, together, stage="validate")
    elif pending.held_back:  # by an attempt that died, under checks that have been mended since
        clear_stage_rows(spark, feed.feed, "quarantine", pending.receipt.sequence, stage="validate")
    receipt = pending.receipt.model_copy(update={"tables": list(tables.values())})
    receipt.balance()
    _within_limit(feed, receipt.quarantined, receipt.landed, manifest.hour)
    pending = pending.model_copy(update={"receipt": receipt, "held_back": sorted(waiting), "validated": True})
    save_pending(settings, pending)
    return pending


def _within_limit(feed: Feed, quarantined: int, landed: int, hour: str) -> None:
    allowed = max(feed.quarantine.at_least, int(feed.quarantine.limit * landed))
    if quarantined > allowed:
        raise QuarantineLimitError(
            f"{quarantined} of {landed} records are in quarantine, {allowed} are allowed: nothing is published",
            fix=f"see why with `tidemark quarantine list {feed.feed} --hour {hour}`; mend the feed file or raise "
            "quarantine.limit in it, then run the hour again from decode",
            feed=feed.feed,
            hour=hour,
        )


def _judge(
    spark: SparkSession, feed: Feed, table: TableReceipt, pending: PendingPublication, settings: Settings
) -> Verdict:
    declared = feed.declared(table.table)
    if not (declared.checks or declared.checks_module or declared.columns):
        return Verdict([], [], None)
    # pandera takes seconds to import: only for a table that has something to be checked
    from tidemark.pipeline.checks import failing, judge, model_fails, plan_checks, wrong_types

    plan = plan_checks(table.table, declared, settings)
    snapshot = open_snapshot(spark, feed, table.table, settings)
    staged = snapshot.staged(pending.publication)
    types = load_format(feed.format["type"]).column_types(declared.all_columns, feed.format_options)
    told = wrong_types(staged, wider_of({f.name: f.dataType.simpleString() for f in staged.schema}, types))
    if plan.empty or told:
        return Verdict([told] if told else [], [], None)
    if missing := plan.columns - set(staged.columns):
        names = ", ".join(sorted(missing))
        raise CheckError(f"checks name columns the table does not have: {names}", table=table.table)
    written = staged.where(F.col(f"{TIDEMARK}.hour") == pending.receipt.hour)
    if not plan.models:
        written = written.select(*map(quote, sorted(plan.columns | set(snapshot.key()))))
    written = written.localCheckpoint()
    failed = judge(written, plan.checks)
    stops = [str(check) for check in failed if check.consequence == "stop"]
    warnings = [str(check) for check in failed if check.consequence == "warn"]
    for schema, consequence in plan.models:
        if said := model_fails(written, schema):
            (warnings if consequence == "warn" else stops).append(said)
    doubled = _doubled(plan, staged, written)
    stops += [f"not unique: {', '.join(columns)}" for columns, how in doubled if how != "warn"]
    warnings += [f"not unique: {', '.join(columns)}" for columns, how in doubled if how == "warn"]
    held_back = [check for check in failed if check.consequence == "quarantine"]
    waiting = None
    if held_back:
        if not snapshot.key():
            stops.append(
                "a table without a key cannot keep a row's last good version: " + ", ".join(map(str, held_back))
            )
        else:
            reasons = [F.when(failing(check, table.table), F.lit(str(check))) for check in held_back]
            condition = reduce(or_, [failing(check, table.table) for check in held_back])
            key = [F.col(quote(name)) for name in snapshot.key()]
            waiting = (
                written.where(condition).select(*key, F.concat_ws("; ", *reasons).alias("reason")).localCheckpoint()
            )
    return Verdict(stops, warnings, waiting)


def _doubled(plan: Plan, staged: DataFrame, written: DataFrame) -> list[tuple[list[str], str]]:
    """Uniqueness over the whole table, of the values this hour wrote."""
    found = []
    for columns, consequence in plan.unique:
        mine = written.select(*map(quote, columns)).distinct()
        if (
            not staged.join(mine, columns, "left_semi")
            .groupBy(*map(quote, columns))
            .count()
            .where("count > 1")
            .isEmpty()
        ):
            found.append((columns, consequence))
    return found


def _wait(
    spark: SparkSession, feed: Feed, manifest: Manifest, published: PublicationHistory, pending: PendingPublication, table: str,
    waiting: DataFrame, settings: Settings,
) -> tuple[Counts, DataFrame]:  # fmt: skip
    """Put the rows back in the branch; what moves from applied to quarantined, and the rows for the quarantine."""
    snapshot = open_snapshot(spark, feed, table, settings)
    assembled, profiles = with_stats(assemble(spark, feed, manifest, published), feed, published)
    rows = assembled.rows.where(F.col("table") == table)
    work = Work(spark, feed, settings, manifest.hour, published)
    found = next(found for found in profiles if found.table == table)
    state = open_state(work, found, assembled, snapshot)
    key = list(state.shape.key)
    keys = waiting.select(F.struct(*(F.col(quote(n)) for n in key)).alias("key"), "reason")
    _, rows = under_truncates(work, found, rows, state.truncated)
    changes = keyed_rows(rows, state.shape, expand=found.moves > 0).where(key_is_whole(state.shape))
    theirs = changes.join(keys, "key", "left_semi").select(*changes.columns)
    if state.needs_log_lookup(
        found.first, found.links
    ):  # duplicates and superseded changes altered nothing: they do not wait
        told = late.classify(state, theirs, found.links)
        theirs = told.ordinary if told.late is None else told.ordinary.unionByName(told.late)
    theirs = theirs.where("counts").localCheckpoint()
    counted = late.applied(theirs)
    moved = Counts(
        quarantined=counted.applied + counted.duplicate,
        released_quarantined=counted.released_applied + counted.released_duplicate,
    ).less(counted)
    snapshot.revert(waiting.drop("reason"), key, pending.publication, dropped=state.change.dropped)
    reason = F.concat(F.lit("check failed: "), "reason")
    return moved, quarantine_rows(theirs.join(keys, "key"), table, "validate", reason)
