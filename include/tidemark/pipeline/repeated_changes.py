"""Changes that are published already and come again: found in the change log by their places, for all tables at once.

In a table with a key a repeated change alters nothing: its row is joined with what it holds already. It is taken out so that
the account can name it, and looked for only where it can be: among changes that are not newer than all that their table
holds.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from tidemark.ledger.change_stats import TableStats
from tidemark.ledger.receipts import Counts
from tidemark.merge.fold import sort_key
from tidemark.pipeline.hour_changes import HourChanges
from tidemark.tables.table_log import TableLog

#: With the table's name, what identifies a change: where it stands, what it does, and to which key.
_SAME = ["published_name", "position", "op", "key_text"]


def without_repeated(hour: HourChanges) -> HourChanges:
    """The hour without the changes of tables with a key that are published already. Their statistics stay as they are."""
    late = [stats for stats in hour.stats if _looked_up(hour, stats)]
    if not late:
        return hour
    rows, published = hour.assembled.rows, F.coalesce("is_published", F.lit(False))
    suspected = F.coalesce(reduce(or_, (_suspected(hour, stats) for stats in late)), F.lit(False))
    suspects = rows.where(suspected).withColumns({"published_name": F.col("table"), "key_text": _key_text()})
    known = _published(hour, late).withColumn("is_published", F.lit(True))
    marked = suspects.join(known, _SAME, "left").select(*rows.columns, "is_published")
    names = [stats.table for stats in late]
    if hour.small:
        found = Observation()
        others = rows.where(~suspected).withColumn("is_published", F.lit(False))
        marked = others.unionByName(marked).observe(found, *_counted(names, published)).localCheckpoint()
        counted, left = found.get, marked.where(~published).drop("is_published")
    else:
        row = marked.agg(*_counted(names, published)).first()
        assert row is not None
        counted = row.asDict()
        left = rows.where(~suspected).unionByName(marked.where(~published).drop("is_published"))
    repeated = {
        name: Counts(duplicate=counted[f"landed_{number}"], released_duplicate=counted[f"released_{number}"])
        for number, name in enumerate(names)
    }
    return replace(hour, assembled=replace(hour.assembled, rows=left), repeated=repeated)


def _counted(names: list[str], published: Column) -> list[Column]:
    """How many changes of each of these tables are published already: of the hour, and released ones."""
    return [
        F.count_if((F.col("table") == name) & published & of_these).alias(f"{which}_{number}")
        for number, name in enumerate(names)
        for which, of_these in (("landed", F.col("landed_this_hour")), ("released", ~F.col("landed_this_hour")))
    ]


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
    """What identifies the published changes of these tables, as far back as the hour's changes go."""
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
    return published.select(*_SAME).distinct()


def _key_text() -> Column:
    return F.to_json(F.array_sort(F.map_entries("key")))
