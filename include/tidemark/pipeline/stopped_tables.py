"""Tables that stop by themselves, where the feed says `on_table_stop: table`.

What stops a table (a type that cannot become another, a key that changes, a statement that cannot be followed) then stops it
alone. It stays as it is published. Its changes wait in quarantine, and with them their whole transactions, until their hour
runs again: then they take their place in the order. Hours that come meanwhile leave the table alone too, also where the
feed says otherwise by then.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.changelog.table_history import Definitions, not_understood
from tidemark.errors import SchemaError
from tidemark.hours import Hour
from tidemark.ledger.change_log import changes_table
from tidemark.ledger.hour_run import HourRun
from tidemark.ledger.kept_back import kept_back
from tidemark.ledger.quarantine import ENTRY, STOPPED, waits_for
from tidemark.ledger.receipts import Receipt
from tidemark.pipeline.hour_changes import MOST_NAMED, HourChanges


def known_stops(run: HourRun, definitions: Definitions) -> dict[str, str]:
    """The published tables that an hour leaves alone from the start, and why: a statement about them cannot be followed,
    or changes of another hour wait, whatever the feed file says by now. An hour whose own changes wait takes them up
    again."""
    feed, state = run.feed, run.state
    problems = definitions.problems.items()
    stops = {feed.published_name(source): told(not_understood(feed, source, problem)) for source, problem in problems}
    if state.stopped:
        again = state.stopped.get(run.hour, {}).keys()
        for row in _waiting(run).collect():
            table = feed.published_name(row.source_table)
            if row.first is not None and again.isdisjoint([table, *row.names]):
                stops.setdefault(table, waits_for(row.first.hour, row.first.reason))
    return stops


def _waiting(run: HourRun) -> DataFrame:
    """By the source's table, of which changes wait: the ``first`` of other hours (``hour``, ``reason``; null: there is none),
    and the published ``names`` under which the table was stopped. The feed file may name it otherwise now."""
    kept = kept_back(run.spark, run.feed.feed, run.state).where(F.col("stage") == STOPPED)
    entries = run.spark.table(changes_table(run.feed.feed)).select(*ENTRY, "source_table")
    waiting = entries.join(F.broadcast(kept.select(*ENTRY, "hour", "reason", "table")), ENTRY)
    of_others = F.when(F.col("hour") != run.hour, F.struct("hour", "reason"))
    return waiting.groupBy("source_table").agg(F.min(of_others).alias("first"), F.collect_set("table").alias("names"))


def changes_of(rows: DataFrame, stops: Mapping[str, str]) -> DataFrame:
    """The log rows of stopped tables, with ``stage`` and ``reason``."""
    reasons = F.create_map(*(F.lit(part) for pair in sorted(stops.items()) for part in pair))
    stopped = rows.where(F.col("table").isin(list(stops)))
    return stopped.withColumns({"stage": F.lit(STOPPED), "reason": F.element_at(reasons, F.col("table"))})


def other_hours_of(hour: HourChanges) -> list[Hour]:
    """The hours, oldest first, in which changes landed that were held until this one, and wait now with those of its stopped
    tables, or with their transactions: they are taken up when their own hours run again."""
    if not hour.stopped or hour.withheld is None:
        return []
    waiting = hour.withheld.rows.where(~F.col("landed_this_hour") & (F.col("hour") != hour.run.hour))
    with_them = hour.withheld.rows.where((F.col("stage") == STOPPED) & F.col("tx").isNotNull()).select("tx").distinct()
    stopped = waiting.where(F.col("stage") == STOPPED).select("hour")
    found = stopped.unionByName(waiting.join(with_them, "tx", "left_semi").select("hour")).distinct().collect()
    return sorted(row.hour for row in found)


def told(error: SchemaError) -> str:
    """A table's stop, for the receipt and the quarantine: what is wrong, and what to do."""
    return f"{error.problem} (to fix: {error.fix})" if error.fix else error.problem


def notes_of(receipt: Receipt) -> list[str]:
    """What the receipt says of the tables that are stopped."""
    counts = {table.table: table.counts for table in receipt.tables}
    others = receipt.progress.stopped_hours
    more = ", …" if len(others) > MOST_NAMED else ""
    named = f", as do changes of {', '.join(others[:MOST_NAMED])}{more} that were held until now" if others else ""
    again = "these hours" if others else "the hour"
    return [
        f"{table} is stopped and stays as it was, {counts[table].quarantined if table in counts else 0} changes of the hour "
        f"wait in quarantine{named}: {why}. Then run {again} again, or `tidemark quarantine replay {receipt.feed}`"
        for table, why in sorted(receipt.stopped.items())
    ]
