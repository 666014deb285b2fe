"""Changes that come again: those that are published already are found in the change log by their places, for all tables at
once.

In a table with a key a repeated change alters nothing: its row is joined with what it holds already. It is taken out so that
the account can name it, and looked for only where it can be: among changes that are not newer than all that their table
holds. One that comes again with another row is taken out too, for what was published first stands, and is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from tidemark.changelog.table_log import TableLog
from tidemark.fold.fold_rows import sort_key
from tidemark.ledger.change_stats import TableStats
from tidemark.ledger.receipts import Counts
from tidemark.logs import get_logger
from tidemark.pipeline.hour_changes import HourChanges

log = get_logger()

#: With the table's name, what identifies a change: where it stands, what it does, and to which key.
_SAME = ["published_name", "position", "op", "key_text"]


def without_repeated(hour: HourChanges) -> HourChanges:
    """The hour without the changes of tables with a key that are published already. Their statistics stay as they are."""
    late = [stats for stats in hour.stats if _looked_up(hour, stats)]
    if not late:
        return hour
    rows, published = hour.assembled.rows, F.col("published").isNotNull()
    suspected = F.coalesce(reduce(or_, (_suspected(hour, stats) for stats in late)), F.lit(False))
    suspects = rows.where(suspected).withColumns({"published_name": F.col("table"), "key_text": _key_text()})
    marked = suspects.join(_published(hour, late), _SAME, "left").select(*rows.columns, "published")
    names = [stats.table for stats in late]
    if hour.small:
        found = Observation()
        others = rows.where(~suspected).withColumn("published", F.lit(None).cast(marked.schema["published"].dataType))
        marked = others.unionByName(marked).observe(found, *_counted(names, published)).localCheckpoint()
        counted, left = found.get, marked.where(~published).drop("published")
    else:
        row = marked.agg(*_counted(names, published)).first()
        assert row is not None
        counted = row.asDict()
        left = rows.where(~suspected).unionByName(marked.where(~published).drop("published"))
    repeated = {
        name: Counts(duplicate=counted[f"landed_{number}"], released_duplicate=counted[f"released_{number}"])
        for number, name in enumerate(names)
    }
    told = {name: [_told(counted, number)] for number, name in enumerate(names) if counted[f"changed_{number}"]}
    for name, texts in told.items():
        log.warning(texts[0], table=name)
    warnings = {
        name: [*hour.warnings.get(name, []), *told.get(name, [])] for name in hour.warnings.keys() | told.keys()
    }
    return replace(hour, assembled=replace(hour.assembled, rows=left), repeated=repeated, warnings=warnings)


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


def _counted(names: list[str], published: Column) -> list[Column]:
    """How many changes of each of these tables are published already: of the hour, released ones, and those that came with
    other content; and where the first of the last lies, and what was published of it."""
    landed, changed = F.col("landed_this_hour"), published & _is_other()
    both = F.struct("object", "record", F.col("published.at").alias("at"))
    return [
        *(
            F.count_if((F.col("table") == name) & published & of_these).alias(f"{which}_{number}")
            for number, name in enumerate(names)
            for which, of_these in (("landed", landed), ("released", ~landed), ("changed", changed))
        ),
        *(
            F.min(F.when((F.col("table") == name) & changed, both)).alias(f"first_{number}")
            for number, name in enumerate(names)
        ),
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


def _told(counted: Mapping[str, Any], number: int) -> str:
    first = counted[f"first_{number}"]
    return (
        f"{counted[f'changed_{number}']} changes that are published already came again with other content: what was "
        f"published first stands. The first of them is record {first['record']} of {first['object']}; published in its place "
        f"was record {first['at']['record']} of {first['at']['object']}"
    )


def _looked_up(hour: HourChanges, stats: TableStats) -> bool:
    state = hour.states.get(stats.table)
    return state is not None and bool(state.shape.key) and state.is_late(stats) and not state.needs_log(stats)


def _suspected(hour: HourChanges, stats: TableStats) -> Column:
    """Whether a log row is a change of the table that may have come before. What a truncate removes is not looked at."""
    state = hour.states[stats.table]
    suspected = (F.col("table") == stats.table) & (F.col("op") != "truncate")
    suspected &= sort_key(F.col("position"), F.col("op")) <= F.lit(state.highest)
    return suspected if state.truncated is None else suspected & (F.col("position") >= state.truncated)


def _published(hour: HourChanges, late: list[TableStats]) -> DataFrame:
    """The published changes of these tables, as far back as the hour's changes go: what identifies them, and ``published``:
    all ``contents`` that they came with, and where the first of them lies (``at``)."""
    run = hour.run
    names = {source: stats.table for stats in late for source in stats.sources}
    log = TableLog(
        spark=run.spark, feed=run.feed, state=run.state, definitions=hour.assembled.definitions, table=late[0].table,
        also=tuple(stats.table for stats in late[1:]), sources=tuple(names),
    )  # fmt: skip
    first = min(stats.first for stats in late)
    named = F.create_map(*(F.lit(text) for pair in names.items() for text in pair))
    name = F.coalesce(F.element_at(named, F.col("source_table")), F.col("table"))
    published = log.rows(first).withColumns({"published_name": name, "key_text": _key_text()})
    held = F.struct(F.collect_set(_content()).alias("contents"), F.min(F.struct("object", "record")).alias("at"))
    return published.groupBy(*_SAME).agg(held.alias("published"))


def _key_text() -> Column:
    return F.to_json(F.array_sort(F.map_entries("key")))
