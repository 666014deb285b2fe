"""Validate: what an hour staged is checked with pandera before any reader sees it.

Only rows that the hour wrote are checked. Uniqueness is the exception: it is checked over the whole table, for the
values that the hour wrote. Of an hour that comes late its cut is checked too (:mod:`tidemark.pipeline.late_cuts`), for
later hours may have written over what it wrote. Each check has its consequence: stop (nothing of the hour is published),
quarantine (the changes that brought failing values are out of the hour already: :mod:`tidemark.pipeline.screen`), warn
(noted in the receipt).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from tidemark.errors import CheckError, QuarantineLimitError, placed
from tidemark.feeds.model import Feed
from tidemark.formats import load_format
from tidemark.identifiers import TIDEMARK, quote
from tidemark.ledger.hour_run import HourRun
from tidemark.ledger.receipts import CheckResult, Receipt
from tidemark.logs import get_logger, log_stage
from tidemark.pipeline.late_cuts import CutRows
from tidemark.tables.published_table import PublishedTable
from tidemark.values.type_changes import wider_of
from tidemark.values.whole_json import whole_json

if TYPE_CHECKING:
    from tidemark.pipeline.checks import Plan

log = get_logger()

#: How many keys of failing rows a receipt names for each check.
_KEYS = 3


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The result of one table's checks."""

    stops: list[str]
    """What stops the hour."""
    warnings: list[str]
    """What is only noted."""
    checks: int = 0
    """How many were made."""
    results: list[CheckResult] = field(default_factory=list)
    """Of the checks of columns, one by one."""
    notes: list[str] = field(default_factory=list)
    """What could not be checked."""


def validate(run: HourRun, cuts: Iterable[CutRows] = ()) -> HourRun:
    """Check every staged table, and then the ``cuts`` of the hour that are not what the audit branches hold, because later
    hours have been published: rows that these have written over are in the cut alone. CheckError or QuarantineLimitError stop
    the hour: readers keep what is published.

    Reads the audit branches; writes the feed's state.
    """
    feed = run.feed
    if run.state.attempt.validated:
        log.info("validated before", stage="validate", sequence=run.sequence)
        return run
    verdicts = _verdicts(run)
    _stop(feed, run.hour, verdicts)
    of_cuts = _verdicts_of_cuts(run, cuts)
    _stop(feed, run.hour, of_cuts)
    tables = [
        table.model_copy(
            update={
                "warnings": table.warnings + verdicts[table.table].warnings,
                "checks": verdicts[table.table].results,
            }
        )
        if table.table in verdicts
        else table
        for table in _receipt(run).tables
    ]
    notes = [f"{table}: {note}" for table, verdict in verdicts.items() for note in verdict.notes]
    notes += [f"{table}: {warning}" for table, verdict in of_cuts.items() for warning in verdict.warnings]
    receipt = _receipt(run).model_copy(update={"tables": tables, "notes": _receipt(run).notes + notes})
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


def _verdicts_of_cuts(run: HourRun, cuts: Iterable[CutRows]) -> dict[str, Verdict]:
    """The verdict of each table's cut."""
    found = {}
    for rows in cuts:
        with placed(feed=run.feed.feed, hour=run.hour, table=rows.table):
            found[rows.table] = _judge_cut(run, rows)
    return found


def _judge_cut(run: HourRun, rows: CutRows) -> Verdict:
    """The checks that a row of the cut fails which the hour brings a change of: of its values those that the changes bring.
    Of a table without a key, any row that the cut is written with; it does not stop the hour."""
    from tidemark.pipeline.checks import conditions_of, plan_checks

    plan, _ = plan_checks(rows.table, run.feed.declared(rows.table), run.settings).on(
        rows.settled.select("row.*").columns
    )
    stamp = F.struct("key", "joins", "tidemark.absent").alias(TIDEMARK)
    written = rows.settled.where(~F.col("deleted")).select("row.*", stamp)
    conditions = {
        number: condition
        & ~(F.col(f"{TIDEMARK}.joins") & F.array_contains(f"{TIDEMARK}.absent", F.lit(plan.checks[number].column)))
        for number, condition in conditions_of(plan.checks, dict(written.dtypes)).items()
    }
    if rows.brought is not None and not written.where(reduce(or_, conditions.values(), F.lit(False))).isEmpty():
        brought = rows.brought.select(F.col("key").alias("brought"))
        written = written.join(brought, F.col(f"{TIDEMARK}.key") == F.col("brought"), "left_semi")
    _, counted = _counted(written, conditions)
    stops: list[str] = []
    warnings: list[str] = []
    for number in conditions:
        if failed := counted[f"failed_{number}"]:
            stops_hour = plan.checks[number].consequence == "stop" and rows.brought is not None
            told = f"the cut of {run.hour} shows {failed} rows that fail {plan.checks[number]}"
            (stops if stops_hour else warnings).append(told)
    if unjudged := plan.size - len(conditions):
        warnings.append(
            f"what later hours have written over in the cut of {run.hour} is not judged by {unjudged} checks"
        )
    return Verdict(stops=stops, warnings=warnings)


def _stop(feed: Feed, hour: str, verdicts: dict[str, Verdict]) -> None:
    """CheckError when any table failed a check whose consequence is to stop."""
    stops = [f"{name}: {stop}" for name, verdict in verdicts.items() for stop in verdict.stops]
    if stops:
        raise CheckError(
            "checks failed, nothing is published: " + "; ".join(stops),
            fix="fix the source or the check in the feed file, then run the hour again from fold",
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
    placing = placed(feed=run.feed.feed, hour=run.hour, table=table)
    with placing, log_stage("validate", "validated", table=table) as line:
        verdict = _judge(run, table)
        line |= {
            "checks": verdict.checks,
            "failed_rows": sum(result.failed or 0 for result in verdict.results),
            "stops": len(verdict.stops),
            "warnings": len(verdict.warnings),
        }
    return verdict


def _judge(run: HourRun, table: str) -> Verdict:
    feed, settings = run.feed, run.settings
    declared = feed.declared(table)
    if not (declared.checked or declared.columns):
        return Verdict(stops=[], warnings=[])
    # pandera takes seconds to import: only for a table that has something to be checked
    from tidemark.pipeline.checks import conditions_of, judge, model_fails, plan_checks, wrong_types

    published = PublishedTable(run.spark, table, feed.feed)
    staged = published.staged(run.state.publication)
    plan, missing = plan_checks(table, declared, settings).on(staged.columns)
    lacking = "checks name columns that the table does not have: {}; they are not made before it has them"
    notes = [lacking.format(", ".join(missing))] if missing else []
    types = load_format(feed.format["type"]).column_types(declared.all_columns, feed.format_options)
    wrong = wrong_types(staged, wider_of(dict(staged.dtypes), types))
    if plan.empty or wrong:
        return Verdict(stops=[wrong] if wrong else [], warnings=[], checks=len(types), notes=notes)
    written = staged.where(F.col(f"{TIDEMARK}.hour") == run.hour)
    if not plan.models:
        written = written.select(*map(quote, sorted(plan.columns | set(published.key()))))
    conditions = conditions_of(plan.checks, dict(written.dtypes))
    written, counted = _counted(written, conditions)
    failed = judge(written, plan.checks)
    results = [
        CheckResult(
            check=str(check), consequence=check.consequence, rows=counted["rows"], failed=counted.get(f"failed_{number}"),
            keys=_first_keys(written, published.key(), conditions.get(number)) if check in failed else [],
        )
        for number, check in enumerate(plan.checks)
    ]  # fmt: skip
    problems = [
        (_told(result), result.consequence)
        for result, check in zip(results, plan.checks, strict=True)
        if check in failed
    ]  # fmt: skip
    for schema, consequence in plan.models:
        if found := model_fails(written, schema):
            problems.append((found, "warn" if consequence == "warn" else "stop"))
    for columns, consequence in _not_unique(plan, staged, written):
        problems.append((f"not unique: {', '.join(columns)}", "warn" if consequence == "warn" else "stop"))
    stops = [problem for problem, consequence in problems if consequence == "stop"]
    warnings = [problem for problem, consequence in problems if consequence == "warn"]
    # What the hour's changes sent passes. A row that fails all the same has its value from before, or has none yet.
    stay = "they fail by what was published before, or was never sent, and stay"
    warnings += [f"{problem}: {stay}" for problem, consequence in problems if consequence == "quarantine"]
    return Verdict(stops=stops, warnings=warnings, checks=len(types) + plan.size, results=results, notes=notes)


def _told(result: CheckResult) -> str:
    """A check that failed, and how often."""
    often = "" if result.failed is None else f" in {result.failed:,} of {result.rows:,} rows that were written"
    return f"{result.check} fails{often}"


def _counted(written: DataFrame, conditions: Mapping[int, Column]) -> tuple[DataFrame, dict[str, int]]:
    """The rows, kept; and how many there are (``rows``) and meet each of the conditions (``failed_<number>``)."""
    seen = Observation()
    counts = (F.count_if(condition).alias(f"failed_{number}") for number, condition in conditions.items())
    kept = written.observe(seen, F.count(F.lit(1)).alias("rows"), *counts).localCheckpoint()
    return kept, seen.get


def _first_keys(written: DataFrame, key: list[str], condition: Column | None) -> list[str]:
    """The keys of the first rows that meet a condition, as JSON."""
    if not key or condition is None:
        return []
    keys = written.where(condition).select(*map(quote, key)).orderBy(*map(quote, key)).limit(_KEYS)
    return [row.key for row in keys.select(whole_json(F.struct("*")).alias("key")).collect()]


def _not_unique(plan: Plan, staged: DataFrame, written: DataFrame) -> list[tuple[list[str], str]]:
    """The uniqueness checks, with their consequence, that a value written in this hour fails in the whole table."""
    found = []
    for columns, consequence in plan.unique:
        names = [f"value_{number}" for number in range(len(columns))]
        values = [F.col(quote(column)).alias(name) for column, name in zip(columns, names, strict=True)]
        of_hour = written.select(*values).distinct()
        copies = (
            staged.select(*values).join(of_hour, names, "left_semi").groupBy(*names).agg(F.count("*").alias("rows"))
        )
        if not copies.where("rows > 1").isEmpty():
            found.append((columns, consequence))
    return found
