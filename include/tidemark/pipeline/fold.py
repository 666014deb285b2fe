"""Fold: assembled changes are folded onto the published tables, each in an audit branch that no reader sees.

What is folded is cut off from its plan (a local checkpoint) before it is merged: Spark looks every table of a plan up
again at each action, and what it had cached of a table that has changed meanwhile is lost.

How the changes of one table are folded is in :mod:`tidemark.pipeline.keyed_tables` and
:mod:`tidemark.pipeline.keyless_tables`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.changelog.column_readings import untyped_warning
from tidemark.changelog.reloads import reload_notes, unended_load, unplaced_load, unread_note
from tidemark.changelog.resolve import unlisted_note
from tidemark.changelog.table_view import emptied_below, is_late, reached
from tidemark.errors import TerminalError
from tidemark.ledger.change_stats import TableStats
from tidemark.ledger.feed_state import FeedState, NextPublication
from tidemark.ledger.hour_run import HourRun
from tidemark.ledger.publication_history import load_receipt
from tidemark.ledger.receipts import Counts, FeedProgress, Receipt, TableProgress, TableReceipt
from tidemark.ledger.reloads import may_begin_again
from tidemark.ledger.system_tables import create_system_tables
from tidemark.logs import get_logger, log_context, log_stage
from tidemark.pipeline.hour_changes import (
    HourChanges,
    TableChanges,
    table_changes,
    without_truncated,
)
from tidemark.pipeline.keyed_tables import settle_keyed
from tidemark.pipeline.keyless_tables import settle_keyless
from tidemark.pipeline.load_hour import load_hour_changes
from tidemark.pipeline.repeated_changes import without_repeated
from tidemark.pipeline.screen import open_logged, screen, stop_tables
from tidemark.pipeline.stopped_tables import notes_of, other_hours_of
from tidemark.pipeline.system_rows import tombstones, write_system_rows
from tidemark.tables.published_table import discard_columns
from tidemark.tables.staged_change import StagedChange

log = get_logger()

#: A receipt's note.
TAKEN_OUT = "{} changes left quarantine: more of their transactions has come"
_TAKEN_BACK = (
    "the table was not as its last publication had left it (it had been taken back to a snapshot of before, columns of it "
    "had been dropped, or a publication without a receipt had made it): all of its rows were folded again from the change log"
)
_BESIDE_TRUNCATE = (
    "rows of the same moment and batch as the truncate came in another partition, and nothing says whether the source wrote "
    "them before it or behind it: they count by their offsets. Compare the table with the source's, and reload it if it is "
    "another"
)


@dataclass(frozen=True)
class FoldedTable:
    """One table's part of the publication."""

    receipt: TableReceipt
    """Its part of the receipt."""
    tombstones: list[DataFrame] = field(default_factory=list)
    """Rows of the system table `tombstones`: the keys that it deletes."""
    staged: bool = False
    """Whether it has an audit branch."""
    retired: list[str] = field(default_factory=list)
    """Columns that hold nothing once it is published."""


def fold(run: HourRun) -> HourRun:
    """Assemble, screen and fold the hour, in an attempt of its own. Reads the change log and the tables; writes audit
    branches, rows of the system tables, and the feed's state.

    A TerminalError leaves the tables' columns as they are published. What attempts that died have left of columns goes,
    also of tables that this hour does not touch.
    """
    left = _left_by_attempts(run.state)
    if (made := run.state.next) is not None:
        log.info(
            "discarded a publication that was not finished", stage="fold", sequence=made.sequence,
            of_hour=made.hour, reason="this hour is folded",
        )  # fmt: skip
    create_system_tables(run.spark, run.feed.feed)
    run = run.begin()
    discard_columns(run.spark, run.feed.feed, left, run.sequence)
    made = _stage_hour(_without_repeated(_screen(_assemble(run))))
    return run.save(run.state.model_copy(update={"next": made}))


def _left_by_attempts(state: FeedState) -> list[str]:
    """The tables that attempts since the last publication may have given other columns, or made."""
    if state.taken <= state.last_sequence:
        return []
    staged = state.next.staged if state.next is not None else []
    return sorted({*state.names.values(), *staged})


def _stage_hour(hour: HourChanges) -> NextPublication:
    """Fold the hour's tables. Writes audit branches and rows of the system tables; the publication in the making."""
    run, released = hour.run, hour.released()
    try:
        tables = [_fold_and_log(hour, stats) for stats in hour.stats]
    except TerminalError:
        with log_context(stage="fold"):
            discard_columns(run.spark, run.feed.feed, [stats.table for stats in hour.stats], run.sequence)
        raise
    write_system_rows(run, hour, [rows for table in tables for rows in table.tombstones], released)
    receipt = _receipt(hour, [table.receipt for table in tables])
    if released is not None and (taken_up := released.count()):
        notes = [*receipt.notes, TAKEN_OUT.format(taken_up)]
        receipt = receipt.model_copy(update={"taken_up": taken_up, "notes": notes})
    return run.state.attempt.model_copy(
        update={
            "receipt": receipt,
            "folded_by": run.folded_by,
            "staged": [table.receipt.table for table in tables if table.staged],
            "retired": {table.receipt.table: table.retired for table in tables if table.retired},
        }
    )


def _assemble(run: HourRun) -> HourChanges:
    """The hour's changes, with the lines that tell what became of all entries of the change log before the fold."""
    with log_stage("assemble", "assembled") as line:
        hour = load_hour_changes(run)
        account = hour.assembled.account
        line |= {
            "landed": account.landed,
            "complete": sum(stats.landed + stats.released for stats in hour.stats),
            "released": sum(stats.released for stats in hour.stats),
            "control": account.control,
            "held": account.held,
            "held_transactions": account.held_transactions,
            "refused": account.refused,
            "tables": len(hour.stats),
        }
    with log_context(stage="assemble"):
        if account.bad:
            log.warning("quarantined", records=account.bad, reason="they cannot be decoded")
        if account.refused:
            log.warning("quarantined", changes=account.refused, reason="they can reach no table")
        if account.rollbacks:
            log.info("left out transactions", transactions=account.rollbacks, reason="their source rolled them back")
        for note in hour.assembled.notes:
            log.warning(note)
    return hour


def _screen(hour: HourChanges) -> HourChanges:
    with log_stage("screen", "screened") as line:
        hour = screen(hour)
        taken = hour.withheld.counts.values() if hour.withheld is not None else []
        line |= {"tables": len(hour.states), "quarantined": sum(c.quarantined + c.released_quarantined for c in taken)}
    return hour


def _without_repeated(hour: HourChanges) -> HourChanges:
    """The hour without the changes that are published already, and its tables opened for the others."""
    left = open_logged(without_repeated(hour))
    if left.stopped == hour.stopped:
        return left
    return _without_repeated(stop_tables(hour, left.stopped))


def _fold_and_log(hour: HourChanges, stats: TableStats) -> FoldedTable:
    if stats.table in hour.stopped:
        before = hour.run.state.table(stats.table)
        return FoldedTable(
            TableReceipt(table=stats.table, progress=TableProgress(highest=before.highest, truncated=before.truncated))
        )
    with log_stage("fold", "folded", table=stats.table) as line:
        folded = _fold_table(hour, stats)
        counts = folded.receipt.counts
        line |= {"written": folded.receipt.rows_written, "deleted": folded.receipt.rows_deleted}
        line |= {
            "applied": counts.applied,
            "duplicate": counts.duplicate,
            "superseded": counts.superseded,
            "released": counts.released_applied,
        }
    return folded


def _receipt(hour: HourChanges, tables: list[TableReceipt]) -> Receipt:
    """The hour's receipt, with what an earlier publication of the hour accounted for. AccountError unless it
    balances."""
    run, assembled, withheld = hour.run, hour.assembled, hour.withheld
    manifest = run.manifest
    unread = unread_note(run.hour, hour.stats, run.state, run.feed)
    reloads = assembled.reloads.recorded(hour.stopped, run.feed)
    notes = [*manifest.notes, *assembled.notes, *([unread] if unread else [])]
    notes += reload_notes(run.hour, manifest.reloads or [], reloads, hour.stopped, run.state, run.feed)
    tables = [
        table.model_copy(update={"warnings": [*table.warnings, *hour.warnings.get(table.table, [])]})
        for table in tables
    ]
    if assembled.redelivered is not None:
        again = {table: counts for table, (_, counts) in assembled.redelivered.counts.items()}
        tables = [
            table.model_copy(update={"counts": table.counts.plus(again.get(table.table, Counts()))}) for table in tables
        ]
    if withheld is not None:
        notes = notes + withheld.notes
        tables = [
            table.model_copy(
                update={
                    "counts": table.counts.plus(withheld.counts.get(table.table, Counts())),
                    "waiting": withheld.checked.get(table.table, 0),
                }
            )
            for table in tables
        ]
    receipt = Receipt(
        feed=run.feed.feed,
        hour=manifest.hour,
        sequence=run.sequence,
        manifest_version=manifest.version,
        objects=len(manifest.objects),
        bytes=manifest.bytes,
        recalls=manifest.recalls,
        **asdict(assembled.account),
        reloads=manifest.reloads or [],
        progress=FeedProgress(
            edges=assembled.edges,
            waiting_since=assembled.waiting_since,
            places_until=assembled.places_until,
            statements=assembled.statements > 0,
            reloads=reloads,
            stopped_hours=other_hours_of(hour),
        ),
        kept_whole=withheld.transactions if withheld is not None else 0,
        alongside=withheld.alongside if withheld is not None else 0,
        tables=tables,
        notes=notes,
        # a statement may also tell of tables that the feed never had
        stopped={
            t: why for t, why in hour.stopped.items() if t in run.state.tables or t in {s.table for s in hour.stats}
        },
    )
    before = load_receipt(run.settings, run.feed.feed, run.hour) if run.state.has(run.hour) else None
    if before is not None:
        receipt = receipt.follow(before.without(assembled.recalled))
    receipt.balance()
    return receipt.model_copy(update={"notes": [*receipt.notes, *notes_of(receipt)]})


def _fold_table(hour: HourChanges, stats: TableStats) -> FoldedTable:
    run, state = hour.run, hour.states.get(stats.table)
    highest, truncated = reached(run, stats)
    last = max(stats.last, hour.assembled.moved.get(stats.table, ""))
    highest = max(filter(None, (highest, last and last + "#9")), default=None)
    if state is None:
        # There is nothing to empty, and nothing yet says which columns the table has.
        below = emptied_below(run.state, stats.sources, truncated)
        late = is_late(stats, run.state.table(stats.table).highest)
        counts = without_truncated(hour, stats, below, late=late).counts
        progress = TableProgress(sources=stats.sources, highest=highest, truncated=truncated)
        progress = _going_on(progress, run, stats)
        return FoldedTable(TableReceipt(table=stats.table, counts=counts, progress=progress))
    first = not state.published.columns()
    changes = table_changes(hour, stats, state)
    progress = TableProgress(
        sources=stats.sources,
        highest=highest,
        truncated=state.by_source,
        arrived=stats.arrived,
        arrived_loose=stats.arrived_loose,
        arrived_in=stats.arrived_in,
        last_key_change=stats.last_key_change,
        loaded=stats.loaded,
        loaded_in=run.hour if stats.loaded else None,
        column_renames=list(state.change.ids),
        partial=stats.partial > 0,
        entangled=state.entangles(stats),
        learned=state.learned,
        refolded_by=run.sequence if state.moved else 0,
    )
    receipt = TableReceipt(table=stats.table, counts=changes.counts, progress=_going_on(progress, run, stats))
    # Columns that no publication follows are taken for those of an hour that was not published.
    if not (stats.first or changes.evolved or state.change.dropped or state.change.filled or state.rebuild):
        return FoldedTable(receipt)
    return _stage(changes, receipt, first=first)


def _going_on(progress: TableProgress, run: HourRun, stats: TableStats) -> TableProgress:
    """The progress of a table, with what its rows come to that were folded from the log of the same source's table under
    another name."""
    for name in sorted({run.state.names.get(source, stats.table) for source in stats.sources} - {stats.table}):
        progress = run.state.table(name).of_rows().plus(progress)
    return progress


def _older_warning(run: HourRun, stats: TableStats, counts: Counts) -> str | None:
    """What to say of the newest hour where nothing of it counts, for all of it is older than what the table holds."""
    newest = run.state.newest_hour
    if counts.applied or not counts.superseded or newest is None or run.hour <= newest:
        return None
    way_out = "take a new snapshot into a new feed"
    if may_begin_again(run.feed):
        way_out = (
            f"take a new snapshot of the table, and name it: `tidemark reload {run.feed.feed} {stats.table} --hour H "
            "--positions-begin-again`, H being the hour in which the snapshot begins"
        )
    return (
        f"all {stats.landed} changes of the hour are older than what the table holds: if the source's positions began again "
        f"(a new cluster, a failover), they never will count: {way_out}"
    )


def _stage(changes: TableChanges, receipt: TableReceipt, *, first: bool) -> FoldedTable:
    """Fold the changes and write them to the table's audit branch. ``first``: the table has just been made."""
    run, stats, state, shape = changes.run, changes.stats, changes.state, changes.shape
    if state.rebuild:
        log.info(
            "folding all rows again", reason="its rows are under another name, or what comes before them came late"
        )
    warnings = [untyped_warning(stats.sources[0], state.untyped)] if state.untyped else []
    outcome = settle_keyed(changes) if shape.key else settle_keyless(changes)
    warnings += outcome.warnings + ([_TAKEN_BACK] if state.taken_back else [])
    told = [_older_warning(run, stats, outcome.counts)]
    told += [of_load(stats, run.hour, run.state, run.feed) for of_load in (unended_load, unplaced_load)]
    told += [unlisted_note(run.feed, stats, state.log.definitions, shape.key)]
    told += [_BESIDE_TRUNCATE if changes.beside_truncate else None]
    warnings += filter(None, told)
    for warning in warnings:
        log.warning(warning, table=stats.table)
    emptied = stats.emptied if state.emptied is None else state.emptied
    rows = state.published.stage(
        run.state.publication,
        StagedChange(
            settled=outcome.settled,
            key=shape.key,
            only_new=first or outcome.only_new,
            truncated=emptied,
            dropped=state.change.dropped,
            joined=outcome.joined,
            key_values=outcome.key_values,
            renamed=state.change.names_now,
            filled={name: shape.value(name, F.lit(text)) for name, text in state.change.filled},
            filled_in=run.hour,
        ),
    )
    receipt = receipt.model_copy(
        update={
            "counts": outcome.counts,
            "rows_written": outcome.written,
            "rows_deleted": outcome.deleted,
            "rows": rows,
            "staged_in": run.sequence,
            "warnings": warnings,
            "progress": receipt.progress.model_copy(
                update={"readings": dict(state.readings), "copies": outcome.copies}
            ),
        }
    )
    deleted = [tombstones(stats.table, outcome.settled, run.hour)] if shape.key and outcome.deleted else []
    return FoldedTable(receipt, deleted, staged=True, retired=state.retired)
