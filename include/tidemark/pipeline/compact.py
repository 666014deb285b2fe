"""Compact: assembled changes are folded onto the snapshots, each table in an audit branch that no reader sees.

What is folded is cut off from its plan (a local checkpoint) before it is merged: Spark looks every table of a plan up
again at each action, and what it had cached of a table that has changed meanwhile is lost.

How the changes of one table are folded is in :mod:`tidemark.pipeline.keyed_tables` and
:mod:`tidemark.pipeline.keyless_tables`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.errors import SchemaError, TerminalError
from tidemark.ledger.change_stats import TableStats
from tidemark.ledger.feed_state import NextPublication
from tidemark.ledger.hour_run import HourRun
from tidemark.ledger.publication_history import load_receipt
from tidemark.ledger.quarantine import ENTRY
from tidemark.ledger.receipts import Counts, Receipt, TableReceipt
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
from tidemark.pipeline.stopped_tables import changes_of, notes_of, told
from tidemark.pipeline.system_rows import tombstones, write_system_rows
from tidemark.pipeline.table_outcome import Refused
from tidemark.pipeline.withheld import without
from tidemark.snapshots import discard_columns, open_snapshot
from tidemark.snapshots.contract import Snapshot, StagedChange
from tidemark.tables.column_readings import untyped_warning
from tidemark.tables.table_state import emptied_below, reached

log = get_logger()


@dataclass(frozen=True)
class Compacted:
    """One table's part of the publication: its receipt, rows for the tombstones. ``staged``: whether there is an audit
    branch. ``retired``: columns that hold nothing once it is published. ``refused``: changes (ENTRY, ``stage``, ``reason``)
    without which it is to be compacted again. ``stopped``: why the table is left as it is; None: it is not."""

    receipt: TableReceipt
    tombstones: list[DataFrame] = field(default_factory=list)
    staged: bool = False
    retired: list[str] = field(default_factory=list)
    refused: DataFrame | None = None
    stopped: str | None = None


def compact(run: HourRun) -> HourRun:
    """Assemble and compact the hour, in an attempt of its own. Reads the change log and the snapshots; writes audit
    branches, rows of the system tables, and the feed's state.

    A TerminalError leaves the tables' columns as they are published.
    """
    if (made := run.state.next) is not None:
        if made.validated and made.of(run.manifest):
            log.info("compacted and validated before", stage="compact", sequence=made.sequence)
            return run
        log.info(
            "discarded a publication that was not finished", stage="compact", sequence=made.sequence,
            of_hour=made.hour, reason="this hour is compacted",
        )  # fmt: skip
    create_system_tables(run.spark, run.feed.feed)
    run = run.begin()
    made, _ = stage_hour(_assemble(run))
    return run.save(run.state.model_copy(update={"next": made}))


def stage_hour(hour: HourChanges) -> tuple[NextPublication, HourChanges]:
    """Compact the hour's tables, again and again without what they refuse and what belongs to it, until none refuses
    anything. Writes audit branches and rows of the system tables; the publication in the making, and what the hour is
    then."""
    run = hour.run
    tables: dict[str, Compacted] = {}
    try:
        while True:
            tables |= {s.table: _compact_or_stop(hour, s) for s in hour.stats if s.table not in tables}
            stops = {name: table.stopped for name, table in tables.items() if table.stopped is not None}
            hour = replace(hour, stopped={**hour.stopped, **stops})
            refused = [table.refused for table in tables.values() if table.refused is not None]
            if not refused:
                break
            with log_context(stage="compact"):
                hour, touched = without(hour, reduce(DataFrame.unionByName, refused))
            tables = {name: table for name, table in tables.items() if name not in touched}
    except TerminalError:
        with log_context(stage="compact"):
            discard_columns(run.spark, run.feed, [stats.table for stats in hour.stats], run.settings, run.sequence)
        raise
    listed = [tables[stats.table] for stats in hour.stats]
    write_system_rows(run, hour, deleted=[rows for table in listed for rows in table.tombstones])
    made = run.state.attempt.model_copy(
        update={
            "receipt": _receipt(hour, [table.receipt for table in listed]),
            "staged": [table.receipt.table for table in listed if table.staged],
            "retired": {table.receipt.table: table.retired for table in listed if table.retired},
        }
    )
    return made, hour


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


def _compact_or_stop(hour: HourChanges, stats: TableStats) -> Compacted:
    """Compact a table, unless it is stopped; or leave it as it is, where it cannot go on and the feed is not to stop."""
    before = hour.run.state.table(stats.table)
    alone = TableReceipt(table=stats.table, highest=before.highest, truncated=before.truncated)
    if stats.table in hour.stopped:
        return Compacted(alone)
    try:
        return _compact_and_log(hour, stats)
    except SchemaError as error:
        if hour.run.feed.on_table_stop == "feed":
            raise
        why = told(error)
        with log_context(stage="compact"):
            log.warning("stopped the table", table=stats.table, reason=why)
            discard_columns(hour.run.spark, hour.run.feed, [stats.table], hour.run.settings, hour.run.sequence)
        changes = changes_of(hour.assembled.rows, {stats.table: why}).select(*ENTRY, "stage", "reason")
        return Compacted(alone, refused=changes if stats.landed + stats.released else None, stopped=why)


def _compact_and_log(hour: HourChanges, stats: TableStats) -> Compacted:
    with log_stage("compact", "compacted", table=stats.table) as line:
        compacted = _compact_table(hour, stats)
        counts = compacted.receipt.counts
        line |= {"written": compacted.receipt.rows_written, "deleted": compacted.receipt.rows_deleted}
        line |= {
            "applied": counts.applied,
            "duplicate": counts.duplicate,
            "superseded": counts.superseded,
            "refused": compacted.refused is not None,
            "released": counts.released_applied,
        }
    return compacted


def _receipt(hour: HourChanges, tables: list[TableReceipt]) -> Receipt:
    """The hour's receipt, with what an earlier publication of the hour accounted for. AccountError unless it
    balances."""
    run, assembled, withheld = hour.run, hour.assembled, hour.withheld
    manifest = run.manifest
    notes = assembled.notes
    tables = [
        table.model_copy(update={"counts": table.counts.plus(assembled.redelivered[table.table][1])})
        if table.table in assembled.redelivered
        else table
        for table in tables
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
        bytes=sum(landed.bytes for landed in manifest.objects),
        recalls=manifest.recalls,
        **asdict(assembled.account),
        reloads=manifest.reloads or [],
        reloaded={source: list(found) for source, found in run.state.reloads.items()},
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


def _compact_table(hour: HourChanges, stats: TableStats) -> Compacted:
    run = hour.run
    snapshot = open_snapshot(run.spark, run.feed, stats.table, run.settings, run.sequence)
    snapshot.discard()  # the columns that an attempt which was not published has changed
    highest, truncated = reached(run, stats)
    last = max(stats.last, hour.assembled.moved.get(stats.table, ""))
    highest = max(filter(None, (highest, last and last + "#9")), default=None)
    if not snapshot.columns() and stats.only_truncates:
        # There is nothing to empty, and nothing yet says which columns the table has.
        below = emptied_below(run.state, stats.sources, truncated)
        counts = without_truncated(hour, stats, below).counts
        only_emptied = TableReceipt(
            table=stats.table, sources=stats.sources, counts=counts, highest=highest, truncated=truncated
        )
        return Compacted(only_emptied)
    first = not snapshot.columns()
    changes = table_changes(hour, stats, snapshot)
    receipt = TableReceipt(
        table=stats.table,
        sources=stats.sources,
        counts=changes.counts,
        highest=highest,
        truncated=changes.state.by_source,
        arrived=stats.arrived,
        column_renames=list(changes.state.change.ids),
        refolded_by=run.sequence if stats.table in hour.assembled.withdrawn else 0,
    )
    change = changes.state.change
    if not (stats.first or change.dropped or change.filled or changes.state.rebuild):
        return Compacted(receipt)
    return _stage(changes, snapshot, receipt, first=first)


def _stage(changes: TableChanges, snapshot: Snapshot, receipt: TableReceipt, *, first: bool) -> Compacted:
    """Fold the changes and write them to the table's audit branch. ``first``: the table has just been made."""
    run, stats, state, shape = changes.run, changes.stats, changes.state, changes.shape
    if state.rebuild:
        log.info(
            "folding all rows again", reason="its rows are under another name, or what comes before them came late"
        )
    warnings = [untyped_warning(stats.sources[0], state.untyped)] if state.untyped else []
    for warning in warnings:
        log.warning(warning, table=stats.table)
    outcome = settle_keyed(changes) if shape.key else settle_keyless(changes)
    if isinstance(outcome, Refused):
        return Compacted(receipt, refused=outcome.changes.withColumn("stage", F.lit("compact")))
    emptied = stats.emptied if state.emptied is None else state.emptied
    snapshot.stage(
        run.state.publication,
        StagedChange(
            settled=outcome.settled,
            key=shape.key,
            first=first,
            truncated=emptied,
            dropped=state.change.dropped,
            kept_columns=outcome.kept_columns,
            filled={name: shape.value(name, F.lit(text)) for name, text in state.change.filled},
        ),
    )
    receipt = receipt.model_copy(
        update={
            "counts": outcome.counts,
            "rows_written": outcome.written,
            "rows_deleted": outcome.deleted,
            "staged_in": run.sequence,
            "readings": dict(state.readings),
            "warnings": warnings,
        }
    )
    deleted = [tombstones(stats.table, outcome.settled, run.hour)] if shape.key and outcome.deleted else []
    return Compacted(receipt, deleted, staged=True, retired=state.retired)
