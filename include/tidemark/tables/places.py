"""The places of rows that only the log can place: see :class:`tidemark.formats.contract.PlacesRows`, and of those that
stand where a reload began: see :mod:`tidemark.tables.reloads`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.feeds.model import Feed
from tidemark.formats import load_format
from tidemark.formats.contract import MarksLoads, PlacesRows
from tidemark.ledger.change_log import in_hour, is_published, is_row
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.quarantine import ENTRY
from tidemark.ledger.receipts import Reload


def awaits_place(feed: Feed) -> Column:
    """Whether the position of a log row may change by what else the log holds."""
    format_ = load_format(feed.format["type"])
    return format_.awaits_place(feed.format_options) if isinstance(format_, PlacesRows) else F.lit(False)


def gives_place(feed: Feed) -> Column:
    """Whether a log row is one by which others are placed."""
    format_ = load_format(feed.format["type"])
    return format_.gives_place(feed.format_options) if isinstance(format_, PlacesRows) else F.lit(False)


def placed(rows: DataFrame, log: DataFrame, feed: Feed, reloads: Mapping[str, Sequence[Reload]]) -> DataFrame:
    """Log rows with their positions among all of the feed's change log: same columns. ``reloads``: by the source's table,
    those that have begun."""
    format_ = load_format(feed.format["type"])
    if isinstance(format_, PlacesRows):
        rows = format_.place(rows, log, feed.format_options)
    if isinstance(format_, MarksLoads) and reloads:
        return rows.withColumn("position", _in_their_loads(format_.without_place(), reloads))
    return rows


def _in_their_loads(without_place: Column, reloads: Mapping[str, Sequence[Reload]]) -> Column:
    """The position of a log row; of a row of a load that has no place of its own, that of the newest reload not behind it."""
    position = F.col("position")
    for source, found in reloads.items():
        for reload in sorted(found, key=lambda one: (one.began, one.hour)):
            of_it = (F.col("source_table") == source) & (F.col("hour") >= reload.began) & without_place
            position = F.when(of_it & F.lit(reload.position != ""), F.lit(reload.position)).otherwise(position)
    return position


def moved_by(hour: str, log: DataFrame, state: FeedState, feed: Feed) -> dict[str, str]:
    """Tables with published rows that the hour's entries give another place: the highest of these places. The hour then
    comes later than what stands behind it, and the tables are folded again."""
    rows = log.where(is_published(state) & is_row() & awaits_place(feed))
    before = placed(rows, log.where(~in_hour(hour)), feed, {}).select(*ENTRY, F.col("position").alias("place_before"))
    moved = placed(rows, log, feed, {}).join(before, ENTRY).where("position <> place_before")
    return {
        row.table: row.position for row in moved.groupBy("table").agg(F.max("position").alias("position")).collect()
    }
