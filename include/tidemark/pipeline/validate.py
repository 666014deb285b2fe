"""Validate: what an hour staged is checked with pandera before any reader sees it.

Only rows that the hour wrote are checked. Uniqueness is the exception: it is checked over the whole table, for the
values that the hour wrote. Each check has its consequence: stop (nothing of the hour is published), quarantine (the
failing rows keep their last good version, and their changes go to quarantine), warn (noted in the receipt).
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
from tidemark.ledger.quarantine_rows import refused_rows
from tidemark.ledger.receipts import Counts, TableReceipt
from tidemark.ledger.system_tables import clear_stage_rows, write_rows
from tidemark.logs import get_logger, log_stage
from tidemark.merge import late_changes as late
from tidemark.merge.key_changes import with_keys_of_the_same_rows
from tidemark.merge.typed_rows import key_is_whole, keyed_rows
from tidemark.pipeline.hour_changes import HourChanges, classify, load_hour_changes, table_changes
from tidemark.schema.type_changes import wider_of
from tidemark.settings import Settings
from tidemark.snapshots import open_snapshot
from tidemark.snapshots.contract import Reverted, Snapshot
from tidemark.tables.table_state import Work

if TYPE_CHECKING:
    from tidemark.pipeline.checks import Plan, PlannedCheck

log = get_logger()


@dataclass(frozen=True)
class Verdict:
    """The result of one table's checks: what stops the hour, what is only noted, and which rows (key columns,
    ``reason``) are to keep their last good version. ``checks``: how many were made."""

    stops: list[str]
    warnings: list[str]
    waiting: DataFrame | None
    checks: int = 0


def validate(
    spark: SparkSession,
    feed: Feed,
    manifest: Manifest,
    history: PublicationHistory,
    pending: PendingPublication,
    settings: Settings,
) -> PendingPublication:
    """Check every staged table. CheckError or QuarantineLimitError stop the hour: readers keep what is published.

    Reads the audit branches; gives rows that fail a check their published version back in them; writes the changes of
    these rows to the quarantine; saves and returns the pending publication, validated.
    """
    if pending.validated:
        log.info("validated before", stage="validate", sequence=pending.receipt.sequence)
        return pending
    tables = {table.table: table for table in pending.receipt.tables}
    staged = [name for name in tables if name in pending.staged]
    verdicts = {name: _judge_and_log(spark, feed, tables[name], pending, settings) for name in staged}
    _stop(feed, manifest.hour, verdicts)
    waiting = {name: verdict.waiting for name, verdict in verdicts.items() if verdict.waiting is not None}
    if not waiting.keys() <= set(pending.held_back):
        pending = pending.model_copy(update={"held_back": sorted({*pending.held_back, *waiting})})
        save_pending(settings, pending)
    for name, verdict in verdicts.items():
        tables[name] = tables[name].model_copy(update={"warnings": tables[name].warnings + verdict.warnings})
    if waiting:
        hour = load_hour_changes(Work(spark, feed, settings, manifest.hour, history), manifest)
        withheld = {name: _withhold(hour, name, rows, pending) for name, rows in waiting.items()}
        for name, table in withheld.items():
            counts, moved = tables[name].counts.plus(table.moved), table.moved
            update = {"counts": counts, "waiting": moved.quarantined + moved.released_quarantined}
            log.warning(
                "quarantined", stage="validate", table=name, changes=update["waiting"],
                reason="their rows fail a check and keep their last good version",
            )  # fmt: skip
            tables[name] = tables[name].model_copy(update=update)
        quarantined = reduce(DataFrame.unionByName, [table.quarantined for table in withheld.values()])
        write_rows(spark, feed.feed, "quarantine", pending.receipt.sequence, quarantined, stage="validate")
    elif pending.held_back:  # by an attempt that died, under checks that have been changed since
        clear_stage_rows(spark, feed.feed, "quarantine", pending.receipt.sequence, stage="validate")
    receipt = pending.receipt.model_copy(update={"tables": list(tables.values())})
    receipt.balance()
    _within_limit(feed, receipt.quarantined, receipt.landed, manifest.hour)
    pending = pending.model_copy(update={"receipt": receipt, "held_back": sorted(waiting), "validated": True})
    save_pending(settings, pending)
    return pending


def _stop(feed: Feed, hour: str, verdicts: dict[str, Verdict]) -> None:
    """CheckError when any table failed a check whose consequence is to stop."""
    stops = [f"{name}: {stop}" for name, verdict in verdicts.items() for stop in verdict.stops]
    if stops:
        raise CheckError(
            "checks failed, nothing is published: " + "; ".join(stops),
            fix="fix the source or the check in the feed file, then run the hour again from compact",
            feed=feed.feed,
            hour=hour,
        )


def _within_limit(feed: Feed, quarantined: int, landed: int, hour: str) -> None:
    allowed = max(feed.quarantine.at_least, int(feed.quarantine.limit * landed))
    if quarantined > allowed:
        raise QuarantineLimitError(
            f"{quarantined} of {landed} records are in quarantine, {allowed} are allowed: nothing is published",
            fix=f"see why with `tidemark quarantine list {feed.feed} --hour {hour}`; fix the feed file or raise "
            "quarantine.limit in it, then run the hour again from decode",
            feed=feed.feed,
            hour=hour,
        )


def _judge_and_log(
    spark: SparkSession, feed: Feed, table: TableReceipt, pending: PendingPublication, settings: Settings
) -> Verdict:
    with log_stage("validate", "validated", table=table.table) as line:
        verdict = _judge(spark, feed, table, pending, settings)
        line |= {
            "checks": verdict.checks,
            "stops": len(verdict.stops),
            "warnings": len(verdict.warnings),
            "keeps_back": verdict.waiting is not None,
        }
    return verdict


def _judge(
    spark: SparkSession, feed: Feed, table: TableReceipt, pending: PendingPublication, settings: Settings
) -> Verdict:
    declared = feed.declared(table.table)
    if not (declared.checks or declared.checks_module or declared.columns):
        return Verdict([], [], None)
    # pandera takes seconds to import: only for a table that has something to be checked
    from tidemark.pipeline.checks import judge, model_fails, plan_checks, wrong_types

    plan = plan_checks(table.table, declared, settings)
    snapshot = open_snapshot(spark, feed, table.table, settings)
    staged = snapshot.staged(pending.publication)
    types = load_format(feed.format["type"]).column_types(declared.all_columns, feed.format_options)
    wrong = wrong_types(staged, wider_of({f.name: f.dataType.simpleString() for f in staged.schema}, types))
    if plan.empty or wrong:
        return Verdict([wrong] if wrong else [], [], None, checks=len(types))
    if missing := plan.columns - set(staged.columns):
        names = ", ".join(sorted(missing))
        raise CheckError(f"checks name columns the table does not have: {names}", table=table.table)
    written = staged.where(F.col(f"{TIDEMARK}.hour") == pending.receipt.hour)
    if not plan.models:
        written = written.select(*map(quote, sorted(plan.columns | set(snapshot.key()))))
    written = written.localCheckpoint()
    failed = judge(written, plan.checks)
    problems = [(str(check), check.consequence) for check in failed]
    for schema, consequence in plan.models:
        if found := model_fails(written, schema):
            problems.append((found, "warn" if consequence == "warn" else "stop"))
    for columns, consequence in _not_unique(plan, staged, written):
        problems.append((f"not unique: {', '.join(columns)}", "warn" if consequence == "warn" else "stop"))
    stops = [problem for problem, consequence in problems if consequence == "stop"]
    warnings = [problem for problem, consequence in problems if consequence == "warn"]
    keep_out, waiting = [check for check in failed if check.consequence == "quarantine"], None
    if keep_out and not snapshot.key():
        names = ", ".join(map(str, keep_out))
        stops.append(f"a table without a key cannot keep a row's last good version: {names}")
    elif keep_out:
        waiting = _failing_rows(written, snapshot, keep_out)
    return Verdict(stops, warnings, waiting, checks=len(types) + plan.size)


def _failing_rows(written: DataFrame, snapshot: Snapshot, checks: list[PlannedCheck]) -> DataFrame:
    """The rows that fail any of the checks: key columns and ``reason``."""
    from tidemark.pipeline.checks import failing

    reasons = [F.when(failing(check, snapshot.table), F.lit(str(check))) for check in checks]
    condition = reduce(or_, [failing(check, snapshot.table) for check in checks])
    key = [F.col(quote(name)) for name in snapshot.key()]
    return written.where(condition).select(*key, F.concat_ws("; ", *reasons).alias("reason")).localCheckpoint()


def _not_unique(plan: Plan, staged: DataFrame, written: DataFrame) -> list[tuple[list[str], str]]:
    """The uniqueness checks, with their consequence, that a value written in this hour fails in the whole table."""
    found = []
    for columns, consequence in plan.unique:
        values = written.select(*map(quote, columns)).distinct()
        copies = staged.join(values, columns, "left_semi").groupBy(*map(quote, columns)).count()
        if not copies.where("count > 1").isEmpty():
            found.append((columns, consequence))
    return found


@dataclass(frozen=True)
class Withheld:
    """Changes of one table that go to quarantine: what moves between its counts, and the rows for the quarantine."""

    moved: Counts
    quarantined: DataFrame


def _withhold(hour: HourChanges, table: str, waiting: DataFrame, pending: PendingPublication) -> Withheld:
    """Give rows their published version back in the audit branch, and take their changes out of the hour."""
    work = hour.work
    snapshot = open_snapshot(work.spark, work.feed, table, work.settings)
    stats = next(stats for stats in hour.stats if stats.table == table)
    changes = table_changes(hour, stats, snapshot)
    key = list(changes.shape.key)
    failing = waiting.select(F.struct(*(F.col(quote(name)) for name in key)).alias("key"), "reason")
    rows = keyed_rows(changes.rows, changes.shape, expand=stats.moves > 0).where(key_is_whole(changes.shape))
    keys = with_keys_of_the_same_rows(failing, rows, "a row that moved to or from its key fails a check")
    classified = classify(changes, rows.join(keys, "key", "left_semi").select(*rows.columns))
    # Duplicate and superseded changes have altered no row: they do not go to quarantine.
    refused = classified.ordinary
    if classified.late is not None:
        refused = refused.unionByName(classified.late)
    refused = refused.where("counts").localCheckpoint()
    counted = late.applied(refused)
    moved = Counts(
        quarantined=counted.applied + counted.duplicate,
        released_quarantined=counted.released_applied + counted.released_duplicate,
    ).less(counted)
    state = changes.state
    snapshot.revert(keys.select("key.*"), pending.publication, Reverted(state.truncated, state.change.dropped))
    reason = F.concat(F.lit("check failed: "), "reason")
    return Withheld(moved, refused_rows(refused.join(keys, "key"), table, "validate", reason))
