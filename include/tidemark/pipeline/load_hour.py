"""The changes that an hour begins with."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.ledger.change_log import changes_table, in_hour, is_published
from tidemark.ledger.hour_run import HourRun
from tidemark.ledger.quarantine import NEVER_COMPLETED
from tidemark.logs import log_context
from tidemark.pipeline.assemble import assemble, with_stats
from tidemark.pipeline.hour_changes import HourChanges
from tidemark.pipeline.stopped_tables import changes_of, known_stops
from tidemark.pipeline.withheld import refusal, without


def load_hour_changes(run: HourRun) -> HourChanges:
    """Assemble the hour, without the transactions of which a record cannot be decoded, or a change can reach no table,
    and without those of stopped tables. Reads the change log; writes nothing."""
    assembled = assemble(run)
    run = replace(run, state=run.state.making(assembled.reloads.begun))
    if run.manifest.small:
        # Each table of the feed plans and reads its own part of this: of a small hour, all at once is cheaper.
        assembled = replace(assembled, rows=assembled.rows.localCheckpoint())
    stopped = known_stops(run, assembled.definitions)
    stats = with_stats(assembled, run.feed, run.state)
    hour = HourChanges(run, *stats, small=run.manifest.small, stopped=stopped)
    broken = _broken_transactions(hour)
    waiting = any(s.table in stopped and s.landed + s.released for s in hour.stats)
    if broken is None and not waiting:
        return hour
    with log_context(stage="assemble"):
        return without(hour, changes_of(hour.assembled.rows, stopped) if waiting else None, broken)[0]


def _broken_transactions(hour: HourChanges) -> DataFrame | None:
    """Transactions of the hour's changes (``tx``, and ``why`` they wait) of which a record cannot be decoded, or a change
    can reach no table; None where there are none."""
    feed, state, assembled, parts = hour.run.feed, hour.run.state, hour.assembled, []
    if assembled.account.bad or state.with_bad:
        log = hour.run.spark.table(changes_table(feed.feed))
        log = log.where(F.col("hour").isin([*state.with_bad, hour.run.hour]) & (F.col("op") == "bad"))
        bad = log.where((is_published(state) | in_hour(hour.run.hour)) & F.col("tx").isNotNull())
        if feed.undeclared == "quarantine":  # what is no table of the feed leaves its transactions whole
            bad = bad.where(F.col("source_table").isNull() | F.col("source_table").isin(list(feed.tables)))
        why = F.concat(F.lit("a record of it cannot be decoded: "), "problem")
        parts.append(bad.select("tx", why.alias("why")))
    if assembled.refused is not None:
        refused = assembled.refused.where(F.col("tx").isNotNull() & (F.col("reason") != NEVER_COMPLETED))
        parts.append(refused.select("tx", refusal(F.col("table"), F.col("reason")).alias("why")))
    if not parts:
        return None
    named = reduce(DataFrame.unionByName, parts)
    found = named.join(assembled.rows, "tx", "left_semi").localCheckpoint()
    return None if found.isEmpty() else found
