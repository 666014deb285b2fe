"""The places of rows that only the log can place: see :class:`tidemark.formats.contract.PlacesRows`, and of those that
stand where a reload began, or behind it because the source's positions began again: see :mod:`tidemark.changelog.reloads`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.feeds.model import Feed
from tidemark.formats import load_format
from tidemark.formats.contract import LOADED_AT, MarksLoads, PlacesRows
from tidemark.ledger.change_log import in_hour, is_published, is_row
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.quarantine import ENTRY
from tidemark.ledger.receipts import Reload


def awaits_place(feed: Feed, until: str) -> Column:
    """Whether the position of a log row may change by what else the log holds. ``until``: what :func:`places_until` comes to
    for the rows of the log; empty: none gives a place."""
    format_ = load_format(feed.format["type"])
    return format_.awaits_place(feed.format_options, until) if isinstance(format_, PlacesRows) else F.lit(False)


def places_until(feed: Feed) -> Column:
    """An aggregate of log entries: a text behind the positions that those of them which give places can change; null: none
    does."""
    return F.max(F.when(gives_place(feed), F.concat(F.substring_index("position", ".", 1), F.lit("~"))))


def gives_place(feed: Feed) -> Column:
    """Whether a log row is one by which others are placed."""
    format_ = load_format(feed.format["type"])
    return format_.gives_place(feed.format_options) if isinstance(format_, PlacesRows) else F.lit(False)


def own_place(feed: Feed) -> Column:
    """What the position of a log row keeps, whatever else the log holds: the same for all copies of a change."""
    format_ = load_format(feed.format["type"])
    return format_.own_place(feed.format_options) if isinstance(format_, PlacesRows) else F.col("position")


def of_load(feed: Feed) -> Column:
    """Whether a log row was read by a full load of its table; of formats that do not show it, every row may be."""
    format_ = load_format(feed.format["type"])
    return format_.of_load() if isinstance(format_, MarksLoads) else F.lit(True)


def of_whole_load(feed: Feed) -> Column:
    """Whether a log row shows that a full load has read all of its table; false of formats that do not show loads."""
    format_ = load_format(feed.format["type"])
    return format_.of_whole_load() if isinstance(format_, MarksLoads) else F.lit(False)


def place_of_load(feed: Feed) -> Column:
    """Of a log row that a full load of its table has read, where that load stands; null of others. Not where the format does
    not show loads (:func:`shows_loads`)."""
    format_ = load_format(feed.format["type"])
    if not isinstance(format_, MarksLoads):
        return F.lit(None).cast("string")
    position = F.col("position")
    of_its_load = F.substring_index(position, LOADED_AT, 1)
    return F.when(format_.of_load(), position if format_.LOADS_HAVE_PLACES else of_its_load)


def shows_loads(feed: Feed) -> bool:
    """Whether messages show which rows a full load of their table has read."""
    return isinstance(load_format(feed.format["type"]), MarksLoads)


def topic_partition() -> Column:
    """A log row's partition of its topic, as one text; null without."""
    return F.concat("topic", F.lit(":"), F.col("partition").cast("string"))


def landed_before(feed: Feed, begins: Column, higher: Column) -> Column:
    """Whether a log row of the hour in which a load began stands before it: by the first offset of the load in its partition
    (``begins``; null: not known), else ``higher``: whether its position says so."""
    if not shows_loads(feed):
        return F.coalesce(higher, F.lit(False))
    return ~of_load(feed) & F.coalesce(F.col("offset") < begins, higher, F.lit(False))


def own_from(position: str, state: FeedState, until: str) -> bool:
    """Whether the rows that stand at a position or behind it are those that have such a position in the log, whatever else it
    holds. ``until``: as of :func:`awaits_place`."""
    newest = max((reload.position for found in state.reloads.values() for reload in found), default="")
    return max(until, newest) < position and not any_begins_again(state.reloads)


def any_begins_again(reloads: Mapping[str, Sequence[Reload]]) -> bool:
    """Whether positions of a table began again with a reload of it."""
    return any(reload.begins_again for found in reloads.values() for reload in found)


def placed_again(rows: DataFrame, log: DataFrame, feed: Feed, reloads: Mapping[str, Sequence[Reload]]) -> DataFrame:
    """Log rows that only positions which began again may place, such as truncates. Same columns."""
    return placed(rows, log, feed, reloads) if any_begins_again(reloads) else rows


def placed(rows: DataFrame, log: DataFrame | None, feed: Feed, reloads: Mapping[str, Sequence[Reload]]) -> DataFrame:
    """Log rows with their positions among all of the feed's change ``log``, None: no other entry places them. Same columns.
    ``reloads``: by the source's table, those that have begun."""
    again = {source: [one for one in found if one.begins_again] for source, found in reloads.items()}
    again = {source: sorted(found, key=lambda one: (one.began, one.hour)) for source, found in again.items() if found}
    if again:
        return _counted_on(rows, rows.limit(0) if log is None else log, feed, again)
    rows = _placed_by_rows(rows, log, feed)
    format_ = load_format(feed.format["type"])
    if isinstance(format_, MarksLoads) and not format_.LOADS_HAVE_PLACES and reloads:
        return rows.withColumn("position", _in_their_loads(format_.of_load(), reloads))
    return rows


def _placed_by_rows(rows: DataFrame, log: DataFrame | None, feed: Feed) -> DataFrame:
    format_ = load_format(feed.format["type"])
    if log is None or not isinstance(format_, PlacesRows):
        return rows
    return format_.place(rows, log, feed.format_options)


#: What makes two log rows the same change of a source, whatever was sent between them.
_SAME_CHANGE = ("same_table", "same_position", "same_op", "same_row", "same_time")


def _counted_on(rows: DataFrame, log: DataFrame, feed: Feed, again: Mapping[str, list[Reload]]) -> DataFrame:
    """Log rows with their positions, where those of a source began again: what is of before stands as it is, what is behind
    stands behind it, at ``<place of the reload><own position>``. A change that landed before and comes again is of before.
    ``again``: by the source's table, oldest first."""
    last = max(found[-1].began for found in again.values())
    earlier = log.where(is_row() & F.col("source_table").isin(list(again)) & (F.col("hour") <= last))
    known = _with_series(earlier, log, feed, again).groupBy(*_SAME_CHANGE).agg(F.min("series").alias("first_series"))
    found = _with_series(rows, log, feed, again).join(known, list(_SAME_CHANGE), "left")
    series, position = F.least("series", "first_series"), F.col("position")
    for source, reloads in again.items():
        for number, reload in enumerate(reloads, 1):
            here = (F.col("source_table") == source) & (series == number)
            position = F.when(here, F.concat(F.lit(reload.position), F.col("position"))).otherwise(position)
    return found.withColumn("position", position).select(*rows.columns)


def _with_series(rows: DataFrame, log: DataFrame, feed: Feed, again: Mapping[str, list[Reload]]) -> DataFrame:
    """Log rows with ``series``: how often positions had begun again when they landed, and the columns of
    :data:`_SAME_CHANGE`."""
    row = F.to_json(F.array_sort(F.map_entries(F.coalesce("key", "after", "before"))))
    same = (F.col("source_table"), F.col("position"), F.col("op"), row, F.col("committed_at").cast("string"))
    rows = rows.withColumns(
        {name: F.coalesce(value, F.lit("")) for name, value in zip(_SAME_CHANGE, same, strict=True)}
    )
    rows = _placed_by_rows(rows, log, feed)
    series, position = F.lit(0), F.col("position")
    for source, reloads in again.items():
        for number, reload in enumerate(reloads, 1):
            offsets = [F.lit(part) for pair in reload.begins.items() for part in pair]
            begins = F.element_at(F.create_map(*offsets), topic_partition()) if offsets else F.lit(None).cast("bigint")
            before = landed_before(feed, begins, position > F.lit(reload.highest_before))
            in_hour = (F.col("hour") == reload.began) & ~before
            here = (F.col("source_table") == source) & ((F.col("hour") > reload.began) | in_hour)
            series = F.when(here, F.lit(number)).otherwise(series)
            position = F.when(here, F.concat(F.lit(reload.position), F.col("position"))).otherwise(position)
    return rows.withColumn("series", series)


def _in_their_loads(without_place: Column, reloads: Mapping[str, Sequence[Reload]]) -> Column:
    """The position of a log row; of a row of a load that has no place of its own, that of the newest reload not behind it."""
    position = F.col("position")
    for source, found in reloads.items():
        for reload in sorted(found, key=lambda one: (one.began, one.hour)):
            of_it = (F.col("source_table") == source) & (F.col("hour") >= reload.began) & without_place
            position = F.when(of_it & F.lit(reload.position != ""), F.lit(reload.position)).otherwise(position)
    return position


def moved_by(hour: str, log: DataFrame, state: FeedState, feed: Feed, until: str) -> dict[str, str]:
    """Tables with published rows that the hour's entries give another place: the highest of these places. The hour then
    comes later than what stands behind it, and the tables are folded again. ``until``: as :func:`awaits_place` has it."""
    rows = log.where(is_published(state) & is_row() & awaits_place(feed, until))
    before = placed(rows, log.where(~in_hour(hour)), feed, {}).select(*ENTRY, F.col("position").alias("place_before"))
    moved = placed(rows, log, feed, {}).join(before, ENTRY).where("position <> place_before")
    return {
        row.table: row.position for row in moved.groupBy("table").agg(F.max("position").alias("position")).collect()
    }
