"""Tables that stop by themselves, where the feed says `on_table_stop: table`.

What stops a table (a type that cannot become another, a key that changes, a statement that cannot be followed) then stops it
alone. It stays as it is published. Its changes wait in quarantine, and with them their whole transactions, until their hour
runs again: then they take their place in the order. Hours that come meanwhile leave the table alone too.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.changelog.table_history import Definitions, not_understood
from tidemark.errors import SchemaError
from tidemark.ledger.hour_run import HourRun
from tidemark.ledger.kept_back import kept_back
from tidemark.ledger.quarantine import STOPPED
from tidemark.ledger.receipts import Receipt


def known_stops(run: HourRun, definitions: Definitions) -> dict[str, str]:
    """The published tables that an hour leaves alone from the start, and why: a statement about them cannot be followed,
    or changes of another hour wait. An hour whose own changes wait takes them up again."""
    feed, state = run.feed, run.state
    if feed.on_table_stop == "feed":
        return {}
    problems = definitions.problems.items()
    stops = {feed.published_name(source): told(not_understood(feed, source, problem)) for source, problem in problems}
    if state.stopped:
        again = state.stopped.get(run.hour, {})
        kept = kept_back(run.spark, feed.feed, state).where((F.col("stage") == STOPPED) & (F.col("hour") != run.hour))
        for row in kept.groupBy("table").agg(F.min(F.struct("hour", "reason")).alias("first")).collect():
            if row.table not in again:
                stops.setdefault(row.table, f"changes of {row.first.hour} wait: {row.first.reason}")
    return stops


def changes_of(rows: DataFrame, stops: Mapping[str, str]) -> DataFrame:
    """The log rows of stopped tables, with ``stage`` and ``reason``."""
    reasons = F.create_map(*(F.lit(part) for pair in sorted(stops.items()) for part in pair))
    stopped = rows.where(F.col("table").isin(list(stops)))
    return stopped.withColumns({"stage": F.lit(STOPPED), "reason": F.element_at(reasons, F.col("table"))})


def told(error: SchemaError) -> str:
    """A table's stop, for the receipt and the quarantine: what is wrong, and what to do."""
    return f"{error.problem} (to fix: {error.fix})" if error.fix else error.problem


def notes_of(receipt: Receipt) -> list[str]:
    """What the receipt says of the tables that are stopped."""
    counts = {table.table: table.counts for table in receipt.tables}
    return [
        f"{table} is stopped and stays as it was, {counts[table].quarantined if table in counts else 0} changes of the hour "
        f"wait in quarantine: {why}. Then run the hour again, or `tidemark quarantine replay {receipt.feed}`"
        for table, why in sorted(receipt.stopped.items())
    ]
