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

from tidemark import late
from tidemark.books import Published, write_page
from tidemark.drafts import Draft, save_draft
from tidemark.errors import CheckError, QuarantineLimitError
from tidemark.feeds import Feed, Table
from tidemark.formats import load_format
from tidemark.manifest import Manifest
from tidemark.names import TIDEMARK, quote
from tidemark.profile import profile
from tidemark.receipts import Counts, TableReceipt
from tidemark.rows import key_is_whole, keyed_rows
from tidemark.settings import Settings
from tidemark.snapshots import open_snapshot
from tidemark.snapshots.rows import wider_of
from tidemark.stages.assemble import assemble
from tidemark.stages.compact import Work, open_state, quarantine_rows, under_truncates

if TYPE_CHECKING:
    from tidemark.checks import Plan


@dataclass(frozen=True)
class Verdict:
    """One table's: what stops the hour, what is only worth a word, which rows (key columns, ``reason``) must wait."""

    stops: list[str]
    warnings: list[str]
    waiting: DataFrame | None


def validate(
    spark: SparkSession, feed: Feed, manifest: Manifest, published: Published, draft: Draft, settings: Settings
) -> Draft:
    """Check every staged table. CheckError or QuarantineLimitError stop the hour: readers stay on the last good one.

    Reads the audit branches; puts rows that must wait back to their published version in them; writes their changes
    to the quarantine; saves and returns the draft, validated.
    """
    if draft.validated:
        return draft
    tables, stops, pages = [], [], []
    for table in draft.receipt.tables:
        if table.table not in draft.staged:
            tables.append(table)
            continue
        verdict = _judge(spark, feed, table, draft, settings)
        stops += [f"{table.table}: {stop}" for stop in verdict.stops]
        counts, waiting = table.counts, table.waiting
        if verdict.waiting is not None and not verdict.stops:
            moved, page = _wait(spark, feed, manifest, published, draft, table.table, verdict.waiting, settings)
            # A row that no change of the hour accounts for, of a key that rests on another, has been put back too.
            counts, waiting = table.counts.plus(moved), max(1, moved.quarantined + moved.released_quarantined)
            pages.append(page)
        tables.append(table.model_copy(update={"counts": counts, "waiting": waiting, "warnings": verdict.warnings}))
    if stops:
        raise CheckError(
            "checks failed, nothing is published: " + "; ".join(stops),
            mend="mend the source or the check in the feed file, then run the hour again from compact",
            feed=feed.feed,
            hour=manifest.hour,
        )
    if pages:
        together = reduce(DataFrame.unionByName, pages)
        write_page(spark, feed.feed, "quarantine", draft.receipt.sequence, together, stage="validate")
    receipt = draft.receipt.model_copy(update={"tables": tables})
    receipt.balance()
    _within_limit(feed, receipt.quarantined, receipt.landed, manifest.hour)
    draft = draft.model_copy(update={"receipt": receipt, "validated": True})
    save_draft(settings, draft)
    return draft


def _within_limit(feed: Feed, quarantined: int, landed: int, hour: str) -> None:
    allowed = max(feed.quarantine.at_least, int(feed.quarantine.limit * landed))
    if quarantined > allowed:
        raise QuarantineLimitError(
            f"{quarantined} of {landed} records are in quarantine, {allowed} are allowed: nothing is published",
            mend=f"see why with `tidemark quarantine list {feed.feed} --hour {hour}`; mend the feed file or raise "
            "quarantine.limit in it, then run the hour again from decode",
            feed=feed.feed,
            hour=hour,
        )


def _judge(spark: SparkSession, feed: Feed, table: TableReceipt, draft: Draft, settings: Settings) -> Verdict:
    declared = _declared(feed, table.table)
    if not (declared.checks or declared.checks_module or declared.columns):
        return Verdict([], [], None)
    # pandera takes seconds to import: only for a table that has something to be checked
    from tidemark.checks import failing, judge, model_fails, plan_checks, wrong_types

    plan = plan_checks(table.table, declared, settings)
    snapshot = open_snapshot(spark, declared.storage, table.table, feed.feed, settings)
    staged = snapshot.staged(draft.publication)
    types = load_format(feed.format["type"]).column_types(declared.columns, feed.format_options)
    told = wrong_types(staged, wider_of({f.name: f.dataType.simpleString() for f in staged.schema}, types))
    if plan.empty or told:
        return Verdict([told] if told else [], [], None)
    written = staged.where(F.col(f"{TIDEMARK}.hour") == draft.receipt.hour).localCheckpoint()
    failed = judge(written, plan.checks, table.table)
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
        mine = written.select(*columns).distinct()
        if not staged.join(mine, columns, "left_semi").groupBy(*columns).count().where("count > 1").isEmpty():
            found.append((columns, consequence))
    return found


def _wait(
    spark: SparkSession, feed: Feed, manifest: Manifest, published: Published, draft: Draft, table: str,
    waiting: DataFrame, settings: Settings,
) -> tuple[Counts, DataFrame]:  # fmt: skip
    """Put the rows back in the branch; what moves from applied to quarantined, and the rows for the quarantine."""
    declared = _declared(feed, table)
    snapshot = open_snapshot(spark, declared.storage, table, feed.feed, settings)
    assembled = assemble(spark, feed, manifest, published)
    rows = assembled.rows.where(F.col("table") == table)
    work, found = Work(spark, feed, settings, manifest.hour, published), profile(rows)[0]
    state = open_state(work, found, assembled, snapshot)
    key = list(state.shape.key)
    keys = waiting.select(F.struct(*(F.col(quote(n)) for n in key)).alias("key"), "reason")
    _, rows = under_truncates(work, found, rows, state.truncated)
    changes = keyed_rows(rows, state.shape, expand=found.moves > 0).where(key_is_whole(state.shape))
    theirs = changes.join(keys, "key", "left_semi").select(*changes.columns)
    if state.must_look(found.first, found.links):  # duplicates and superseded changes altered nothing: they do not wait
        told = late.sort_out(state, theirs, found.links)
        theirs = told.ordinary if told.late is None else told.ordinary.unionByName(told.late)
    theirs = theirs.where("counts").localCheckpoint()
    counted = late.applied(theirs)
    moved = Counts(
        quarantined=counted.applied + counted.duplicate,
        released_quarantined=counted.released_applied + counted.released_duplicate,
    ).less(counted)
    snapshot.revert(waiting.drop("reason"), key, draft.publication)
    reason = F.concat(F.lit("check failed: "), "reason")
    return moved, quarantine_rows(theirs.join(keys, "key"), table, "validate", reason)


def _declared(feed: Feed, published: str) -> Table:
    """The feed file's word on a published table."""
    return next((t for source, t in feed.tables.items() if feed.published(source) == published), Table())
