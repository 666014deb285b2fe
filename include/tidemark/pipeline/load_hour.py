"""The changes that an hour begins with."""

from __future__ import annotations

from dataclasses import replace

from tidemark.ledger.hour_run import HourRun
from tidemark.logs import log_context
from tidemark.pipeline.assemble import assemble, with_stats
from tidemark.pipeline.hour_changes import HourChanges
from tidemark.pipeline.stopped_tables import changes_of, known_stops
from tidemark.pipeline.undecodable import broken_transactions
from tidemark.pipeline.withheld import without


def load_hour_changes(run: HourRun) -> HourChanges:
    """Assemble the hour, without the transactions of which a record cannot be decoded, or a change can reach no table,
    and without those of stopped tables. Reads the change log; writes nothing."""
    assembled = assemble(run)
    run = replace(run, state=run.state.making(assembled.reloads.begun))
    if run.manifest.small:
        # Each table of the feed plans and reads its own part of this: of a small hour, all at once is cheaper.
        assembled = replace(assembled, rows=assembled.rows.localCheckpoint())
    stopped = known_stops(run, assembled.definitions)
    assembled, stats = with_stats(assembled, run.feed, run.state)
    hour = HourChanges(run=run, assembled=assembled, stats=stats, small=run.manifest.small, stopped=stopped)
    broken = broken_transactions(hour)
    waiting = any(s.table in stopped and s.landed + s.released for s in hour.stats)
    if broken is None and not waiting:
        return hour
    with log_context(stage="assemble"):
        return without(hour, changes_of(hour.assembled.every_row, stopped) if waiting else None, broken)[0]
