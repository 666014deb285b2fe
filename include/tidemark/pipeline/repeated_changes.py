"""Changes that come again: those that are published already are found in the change log by their places, for all tables at
once.

In a table with a key a repeated change alters nothing: its row is joined with what it holds already. It is taken out so that
the account can name it, and looked for only where it can be: among changes that are not newer than all that their table
holds. One that comes again with another row is taken out too, for what was published first stands, and is told.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, Observation, Row
from pyspark.sql import functions as F

from tidemark.changelog.places import own_from
from tidemark.changelog.table_log import TableLog
from tidemark.fold.fold_rows import sort_key
from tidemark.ledger.change_stats import TableStats, order_of, with_order
from tidemark.ledger.receipts import Counts
from tidemark.logs import get_logger
from tidemark.pipeline.hour_changes import HourChanges

log = get_logger()

#: With the table's name, what identifies a change: where it stands, what it does, and to which key.
_SAME = ["published_name", "position", "op", "key_text"]


def without_repeated(hour: HourChanges) -> HourChanges:
    """The hour without the changes of tables with a key that are published already. The statistics of such a table tell of
    the changes that are left where they stand, and which rest on others; all else in them stays as it is."""
    late = [stats for stats in hour.stats if _looked_up(hour, stats)]
    if not late:
        return hour
    rows, is_published = hour.assembled.rows, F.col("published").isNotNull()
    suspected = F.coalesce(reduce(or_, (_suspected(hour, stats) for stats in late)), F.lit(False))
    suspects = rows.where(suspected).withColumns({"published_name": F.col("table"), "key_text": _key_text()})
    found = suspects.join(_published(hour, late), _SAME, "left").select(*rows.columns, "published")
    if not hour.small:
        found = found.localCheckpoint()  # each table would look all of them up again
    others = rows.where(~suspected).withColumn("published", F.lit(None).cast(found.schema["published"].dataType))
    marked = others.unionByName(found)
    if hour.small:
        repeated_at_all = Observation()
        marked = marked.observe(repeated_at_all, F.count_if(is_published).alias("changes")).localCheckpoint()
        if not repeated_at_all.get["changes"]:
            return hour
    left = marked.where(~is_published).drop("published")
    of_tables = marked.where(F.col("table").isin([stats.table for stats in late])).groupBy("table")
    order = order_of(~is_published)
    counted = {row.table: row for row in of_tables.agg(*_counted(is_published), order).collect()}
    repeated = {
        table: Counts(duplicate=row.landed, released_duplicate=row.released)
        for table, row in counted.items()
        if row.landed or row.released
    }
    if not repeated:
        return hour
    told = {table: _told(counted[table]) for table in repeated if counted[table].changed}
    for table, text in told.items():
        log.warning(text, table=table)
    warnings = dict(hour.warnings) | {table: [*hour.warnings.get(table, []), text] for table, text in told.items()}
    return replace(
        hour, assembled=replace(hour.assembled, rows=left), repeated=repeated, warnings=warnings,
        stats=with_order(hour.stats, {table: counted[table].order for table in repeated}, left),
    )  # fmt: skip


def told_of_the_hour(rows: DataFrame) -> list[str]:
    """What the receipt says where changes of log rows stand at one place of the source's order, are of one key, and say
    different things: there is no telling whether one of them is a change of its own. One or two Spark jobs."""
    lies = F.struct("object", "record", "entry")
    of_place = rows.withColumn("key_text", _key_text()).groupBy("position", "op", "key_text")
    seen = of_place.agg(
        F.collect_set(_content()).alias("contents"), F.min(lies).alias("at"), F.max(lies).alias("other")
    )
    # What is written by another message schema can be the same in other words.
    others = seen.where(F.size(F.array_distinct("contents.schema")) < F.size("contents"))
    found = others.agg(
        F.count(F.lit(1)).alias("places"), F.min(F.struct("at", "other", "position")).alias("first")
    ).first()
    assert found is not None
    if not found.places:
        return []
    at, other, position = found.first
    return [
        f"places of the source's order with different changes of one key: {found.places}. What lies first stands, and the "
        f"others are taken for the same change again. The first: record {at.record} of {at.object} and record {other.record} "
        f"of {other.object}, at {position}. If both are real, the source's positions do not tell its changes apart"
    ]


def _counted(published: Column) -> list[Column]:
    """Aggregates of log rows: how many are ``published`` already, that landed in the hour, that were released, and that came
    with other content; and where the first of the last lies, and what was published of it."""
    landed, changed = F.col("landed_this_hour"), published & _is_other()
    both = F.struct("object", "record", F.col("published.at").alias("at"))
    return [
        F.count_if(published & landed).alias("landed"),
        F.count_if(published & ~landed).alias("released"),
        F.count_if(changed).alias("changed"),
        F.min(F.when(changed, both)).alias("first_changed"),
    ]


def _content() -> Column:
    """What a change says of its row, and by which message schema it is written. Deletes say nothing more than their key."""
    row = F.when(F.col("op") != "delete", F.to_json(F.array_sort(F.map_entries("after"))))
    return F.struct(F.xxhash64("message_schema").alias("schema"), F.xxhash64(row).alias("row"))


def _is_other() -> Column:
    """Whether a change says something else than it did whenever it was published. What is written by another message schema
    can be the same in other words."""
    own = _content()
    return ~F.exists("published.contents", lambda held: (held["schema"] != own["schema"]) | (held["row"] == own["row"]))


def _told(counted: Row) -> str:
    first = counted.first_changed
    return (
        f"{counted.changed} changes that are published already came again with other content: what was published first "
        f"stands. The first of them is record {first.record} of {first.object}; published in its place was record "
        f"{first.at.record} of {first.at.object}"
    )


def _looked_up(hour: HourChanges, stats: TableStats) -> bool:
    state = hour.states.get(stats.table)
    return state is not None and bool(state.shape.key) and state.is_late(stats) and not state.rebuild


def _suspected(hour: HourChanges, stats: TableStats) -> Column:
    """Whether a log row is a change of the table that may have come before. What a truncate removes is not looked at."""
    state = hour.states[stats.table]
    suspected = (F.col("table") == stats.table) & (F.col("op") != "truncate")
    suspected &= sort_key(F.col("position"), F.col("op")) <= F.lit(state.highest)
    return suspected if state.truncated is None else suspected & (F.col("position") >= state.truncated)


def _published(hour: HourChanges, late: list[TableStats]) -> DataFrame:
    """The published changes of these tables, as far back as the hour's changes go: what identifies them, and ``published``:
    all ``contents`` that they came with, and where the first of them lies (``at``)."""
    run, first = hour.run, min(stats.first for stats in late)
    names = {source: stats.table for stats in late for source in stats.sources}
    own = own_from(first, run.state, max(run.state.places_until, hour.assembled.places_until))
    log = TableLog(
        spark=run.spark, feed=run.feed, state=run.state, definitions=hour.assembled.definitions, table=late[0].table,
        also=tuple(stats.table for stats in late[1:]), sources=tuple(names), stand_alone=own,
        only=F.col("position") >= first if own else None,
    )  # fmt: skip
    named = F.create_map(*(F.lit(text) for pair in names.items() for text in pair))
    name = F.coalesce(F.element_at(named, F.col("source_table")), F.col("table"))
    published = log.rows(first).withColumns({"published_name": name, "key_text": _key_text()})
    held = F.struct(F.collect_set(_content()).alias("contents"), F.min(F.struct("object", "record")).alias("at"))
    return published.groupBy(*_SAME).agg(held.alias("published"))


def _key_text() -> Column:
    return F.to_json(F.array_sort(F.map_entries("key")))
