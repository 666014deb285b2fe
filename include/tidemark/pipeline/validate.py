"""Validate: what an hour staged is checked with pandera before any reader sees it.

Only rows that the hour wrote are checked. Uniqueness is the exception: it is checked over the whole table, for the
values that the hour wrote. Each check has its consequence: stop (nothing of the hour is published), quarantine (the
changes that brought the failing values wait, with what belongs to them: the hour is staged again without them, so that the
rows keep their last good version), warn (noted in the receipt).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.errors import CheckError, QuarantineLimitError
from tidemark.feeds.model import Feed
from tidemark.formats import load_format
from tidemark.identifiers import TIDEMARK, quote
from tidemark.ledger.hour_run import HourRun
from tidemark.ledger.quarantine import ENTRY, OF_TABLES
from tidemark.ledger.receipts import Receipt
from tidemark.ledger.system_tables import system_table
from tidemark.logs import get_logger, log_context, log_stage
from tidemark.merge.typed_rows import key_is_whole, keyed_rows
from tidemark.pipeline.bad_changes import failing_changes
from tidemark.pipeline.compact import stage_hour
from tidemark.pipeline.hour_changes import HourChanges, classify, table_changes
from tidemark.pipeline.load_hour import load_hour_changes
from tidemark.pipeline.withheld import without
from tidemark.schema.type_changes import wider_of
from tidemark.snapshots import open_snapshot
from tidemark.snapshots.contract import Snapshot

if TYPE_CHECKING:
    from tidemark.pipeline.checks import Plan, PlannedCheck

log = get_logger()


@dataclass(frozen=True)
class Verdict:
    """The result of one table's checks: what stops the hour, what is only noted, and which rows (key columns,
    ``reason``) are to keep their last good version (``failing``), by which checks (``refusing``: column, and whether a row
    fails). ``checks``: how many were made."""

    stops: list[str]
    warnings: list[str]
    failing: DataFrame | None
    checks: int = 0
    refusing: list[tuple[str, Column]] = field(default_factory=list)

    @property
    def all_warnings(self) -> list[str]:
        """Those of the receipt. Rows that still fail do so by what was published before."""
        stay = "rows fail a check by what earlier hours published, and stay"
        return self.warnings + ([stay] if self.failing is not None else [])


def validate(run: HourRun) -> HourRun:
    """Check every staged table. CheckError or QuarantineLimitError stop the hour: readers keep what is published.

    Reads the audit branches; where rows fail a check that puts them in quarantine, makes the publication again without the
    changes that are to blame, under another number; writes the feed's state.
    """
    feed = run.feed
    if run.state.attempt.validated:
        log.info("validated before", stage="validate", sequence=run.sequence)
        return run
    hour = None
    while True:
        verdicts = _verdicts(run)
        _stop(feed, run.hour, verdicts)
        failing = {name: verdict for name, verdict in verdicts.items() if verdict.failing is not None}
        if not failing:
            break
        hour = hour or _staged_hour(run)
        refused = _refused(hour, failing)
        if refused is None:
            break
        with log_context(stage="validate"):
            hour, _ = without(hour, refused)
        run = run.begin()
        hour = replace(hour, run=replace(run, state=run.state.making(hour.run.state.reloads)))
        made, hour = stage_hour(hour)
        run = run.save(run.state.model_copy(update={"next": made}))
    tables = [
        table.model_copy(update={"warnings": table.warnings + verdicts[table.table].all_warnings})
        if table.table in verdicts
        else table
        for table in _receipt(run).tables
    ]
    receipt = _receipt(run).model_copy(update={"tables": tables})
    receipt.balance()
    _within_limit(feed, receipt.quarantined - receipt.alongside, receipt.landed, run.hour)
    made = run.state.attempt.model_copy(update={"receipt": receipt, "validated": True})
    return run.save(run.state.model_copy(update={"next": made}))


def _receipt(run: HourRun) -> Receipt:
    """The receipt of the publication in the making."""
    receipt = run.state.attempt.receipt
    assert receipt is not None, "it is staged"
    return receipt


def _verdicts(run: HourRun) -> dict[str, Verdict]:
    """The verdict of each staged table."""
    tables = [table.table for table in _receipt(run).tables if table.table in run.state.attempt.staged]
    return {table: _judge_and_log(run, table) for table in tables}


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


def _judge_and_log(run: HourRun, table: str) -> Verdict:
    with log_stage("validate", "validated", table=table) as line:
        verdict = _judge(run, table)
        line |= {
            "checks": verdict.checks,
            "stops": len(verdict.stops),
            "warnings": len(verdict.warnings),
            "keeps_back": verdict.failing is not None,
        }
    return verdict


def _judge(run: HourRun, table: str) -> Verdict:
    feed, settings = run.feed, run.settings
    declared = feed.declared(table)
    if not (declared.checks or declared.checks_module or declared.columns):
        return Verdict([], [], None)
    # pandera takes seconds to import: only for a table that has something to be checked
    from tidemark.pipeline.checks import failing, judge, model_fails, plan_checks, wrong_types

    plan = plan_checks(table, declared, settings)
    snapshot = open_snapshot(run.spark, feed, table, settings)
    staged = snapshot.staged(run.state.publication)
    types = load_format(feed.format["type"]).column_types(declared.all_columns, feed.format_options)
    wrong = wrong_types(staged, wider_of({f.name: f.dataType.simpleString() for f in staged.schema}, types))
    if plan.empty or wrong:
        return Verdict([wrong] if wrong else [], [], None, checks=len(types))
    if missing := plan.columns - set(staged.columns):
        names = ", ".join(sorted(missing))
        raise CheckError(f"checks name columns the table does not have: {names}", table=table)
    written = staged.where(F.col(f"{TIDEMARK}.hour") == run.hour)
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
    keep_out, failing_rows = [check for check in failed if check.consequence == "quarantine"], None
    if keep_out and not snapshot.key():
        names = ", ".join(map(str, keep_out))
        stops.append(f"a table without a key cannot keep a row's last good version: {names}")
    elif keep_out:
        failing_rows = _failing_rows(written, snapshot, keep_out)
    refusing = [(check.column, failing(check, table)) for check in keep_out]
    return Verdict(stops, warnings, failing_rows, checks=len(types) + plan.size, refusing=refusing)


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


def _staged_hour(run: HourRun) -> HourChanges:
    """The hour's changes as compact staged them: without those that it put in quarantine."""
    hour = replace(load_hour_changes(run), stopped=_receipt(run).stopped)
    kept = run.spark.table(system_table(run.feed.feed, "quarantine"))
    kept = kept.where((F.col("sequence") == run.sequence) & F.col("stage").isin(*OF_TABLES))
    left = kept.join(hour.assembled.rows, ENTRY, "left_semi").localCheckpoint()
    return hour if left.isEmpty() else without(hour, left, silent=True)[0]


def _refused(hour: HourChanges, failing: dict[str, Verdict]) -> DataFrame | None:
    """The changes for which rows fail checks (ENTRY, ``stage``, ``reason``); None where none of the hour's is to blame."""
    found = []
    for stats in hour.stats:
        verdict = failing.get(stats.table)
        if verdict is None or verdict.failing is None or not stats.first:
            continue
        run = hour.run
        snapshot = open_snapshot(run.spark, run.feed, stats.table, run.settings, run.sequence)
        changes = table_changes(hour, stats, snapshot)
        shape = changes.shape
        key = F.struct(*(F.col(quote(name)).alias(name) for name in shape.key)).alias("key")
        reason = F.concat(F.lit("check failed: "), "reason").alias("reason")
        rows = keyed_rows(changes.rows, shape, expand=stats.moves > 0).where(key_is_whole(shape))
        failed = verdict.failing.select(key, reason)
        found.append(failing_changes(classify(changes, rows), failed, verdict.refusing, shape, run.hour))
    if not found or (together := reduce(DataFrame.unionByName, found)).isEmpty():
        return None
    return together.withColumn("stage", F.lit("validate"))
