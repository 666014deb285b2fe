"""Tables under audit: what readers see of each against the whole change log, read in a second way
(:mod:`tidemark.operations.newest_values`). Only rows that moved between keys, and tables without a key, are folded again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from tidemark.changelog.folded_log import fold_keyed, fold_keyless, keyed_log_rows
from tidemark.changelog.table_history import load_definitions
from tidemark.changelog.table_log import TableLog
from tidemark.changelog.table_view import TableView, emptied_below, published_state
from tidemark.feeds.model import Feed
from tidemark.fold.colliding_keys import colliding_keys
from tidemark.fold.fold_rows import is_link
from tidemark.fold.key_changes import rows_in_reach
from tidemark.fold.typed_rows import TableShape
from tidemark.identifiers import TIDEMARK, quote
from tidemark.lake.spark_conf import CATALOG
from tidemark.ledger.change_log import changes_table, is_published, is_row
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.system_tables import pruned
from tidemark.operations.audit_finding import AuditFinding
from tidemark.operations.newest_values import newest_noted, newest_values
from tidemark.settings import Settings
from tidemark.tables.published_table import PublishedTable
from tidemark.values.whole_json import whole_json


def wrong_rows(
    spark: SparkSession, feed: Feed, state: FeedState, hours: Sequence[str] | None, settings: Settings
) -> list[AuditFinding]:
    """What is wrong with the rows of the feed's tables. ``hours``: only keys that changes of these hours touch; None: all."""
    log = spark.table(changes_table(feed.feed)).where(is_published(state))
    definitions = load_definitions(log.withColumn("landed_this_hour", F.lit(False)), feed)
    findings: list[AuditFinding] = []
    for row in log.where(is_row()).select("source_table").distinct().orderBy("source_table").collect():
        table = feed.published_name(row.source_table)
        if table not in state.tables:
            continue  # its rows are published under a name that the feed file has given to another of the source's tables
        if table in state.stopped_tables:
            continue  # what the log says of it cannot be followed yet
        published = PublishedTable(spark, table, feed.feed)
        if stored := published.columns():
            table_log = TableLog(
                spark=spark, feed=feed, state=state, definitions=definitions, table=table,
                sources=(row.source_table,),
            )  # fmt: skip
            findings += _lost_columns(published) + _not_published(published, state)
            view = published_state(table_log, published, state)
            truncated = emptied_below(state, table_log.sources, table_log.newest_truncate())
            findings += _compare(replace(view, truncated=truncated), stored, hours)
    return findings


def _lost_columns(published: PublishedTable) -> list[AuditFinding]:
    if not (lost := published.lost_columns()):
        return []
    fix = "leave it: the next hour with a change of the table folds all of it again from the change log"
    return [AuditFinding("table", published.table, f"columns that were published are gone: {', '.join(lost)}", fix)]


def _not_published(published: PublishedTable, state: FeedState) -> list[AuditFinding]:
    if (by := published.published_by()) is None or state.counts(by):
        return []
    fix = "leave it: the next hour with a change of the table folds all of it again from the change log"
    return [AuditFinding("table", published.table, f"publication {by}, which has no receipt, made it what it is", fix)]


def _compare(state: TableView, stored: dict[str, str], hours: Sequence[str] | None) -> list[AuditFinding]:
    """What is wrong with one table: rows that are missing, too many or there twice, that have another sort key, other values
    or another commit, or by which what comes next would be joined wrongly."""
    log = state.published_rows()
    known = (_keyed(state, log, hours) if state.shape.key else _keyless(state, log)).localCheckpoint()
    names = [name for name in stored if name in state.shape.columns]
    there = state.published.read().select(
        _key_of(state.shape).alias("key"),
        F.struct(*map(F.col, map(quote, names))).alias("row"),
        *newest_noted(TIDEMARK, state.shape),
    )
    there = there.withColumn("copies", F.count(F.lit(1)).over(Window.partitionBy("key")))
    wanted = known.where("not deleted").select(
        "key",
        F.struct(*(F.col("row")[name].alias(name) for name in names)).alias("row"),
        "sort_key",
        "commit",
        "sent_at",
    )
    if hours is not None and state.shape.key:
        there = there.join(_touched(state, log, hours), "key", "left_semi")
    told = bool(state.shape.key)  # a copy without a key may have come again since, with another time
    w, t = wanted.alias("w"), there.alias("t")
    both = w.join(t, F.col("w.key") == F.col("t.key"), "full_outer")
    kind = (
        F.when(F.col("t.key").isNull(), "missing")
        .when(F.col("w.key").isNull(), "too many")
        .when(F.col("t.copies") > 1, "of one key, where one should be")
        .when(F.col("w.sort_key") != F.col("t.sort_key"), "with another sort key")
        .when(~F.col("w.row").eqNullSafe(F.col("t.row")), "with other values")
        .when(
            F.lit(told) & ~F.col("w.commit").eqNullSafe(F.col("t.commit")), "with another transaction or committed_at"
        )
        .when(_noted_otherwise(names, state), "with another base_sort_key, absent or newer")
    )
    wrong = both.select(kind.alias("kind"), whole_json(F.coalesce("w.key", "t.key")).alias("key")).where(
        "kind is not null"
    )
    fix = (
        f"CALL {CATALOG}.system.rollback_to_snapshot('{state.table}', <the snapshot of its last cut that is right>): the "
        "next hour with a change of the table folds all of it again from the change log. Or restore the change log, if it is "
        "that which was altered"
    )
    findings = [
        AuditFinding("table", state.table, f"{count} rows {which} by the change log, like the one of key {key}", fix)
        for which, count, key in wrong.groupBy("kind").agg(F.count(F.lit(1)), F.min("key")).orderBy("kind").collect()
    ]
    if state.shape.key:
        lacking = (
            _without_tombstone(state, known.where("deleted")).agg(F.count(F.lit(1)), F.min(whole_json("key"))).first()
        )
        if lacking is not None and lacking[0]:
            problem = (
                f"{lacking[0]} deletes have no tombstone, like that of key {lacking[1]}: what is older and comes late"
            )
            findings.append(AuditFinding("table", state.table, f"{problem} would bring their rows back", fix))
    return findings


def _without_tombstone(state: TableView, deleted: DataFrame) -> DataFrame:
    """Of the ``deleted`` keys, with their ``sort_key``, those of which no delete is noted, and none that old was removed."""
    removed = pruned(state.log.spark, state.log.feed.feed)
    noted = F.coalesce(F.col("stored_sort_key") >= F.col("sort_key"), F.lit(False))
    return deleted.where(F.col("sort_key") > removed).join(state.stored(), "key", "left").where(~noted)


def _key_of(shape: TableShape) -> Column:
    """The key of a stored row; in a table without a key, the sort key of the copy."""
    if not shape.key:
        return F.struct(F.col(f"{TIDEMARK}.sort_key").alias("copy"))
    return F.struct(*(F.col(quote(name)) for name in shape.key))


def _noted_otherwise(names: Sequence[str], state: TableView) -> Column:
    """Whether the ``sent_at`` of the columns ``names`` differ. What stands before a truncate or a reload alters nothing: rows
    over it may note it as their base, or not. Of a column that the table got later, the change that did not know it says
    that it is null; the row that was stored then notes nothing, so that the null is the base's."""
    ended = F.lit(state.truncated and f"{state.truncated}#0")
    wanted, there = F.col("w.sent_at"), F.col("t.sent_at")
    base = there[state.shape.key[0]] if state.shape.key else F.lit(None)
    differs = F.lit(False)
    for name in names:
        if name in state.shape.key:
            differs |= ~F.greatest(wanted[name], ended).eqNullSafe(F.greatest(there[name], ended))
        else:
            unsaid = F.col("w.row")[name].isNull() & there[name].eqNullSafe(base)
            differs |= ~wanted[name].eqNullSafe(there[name]) & ~unsaid
    return differs


def _touched(state: TableView, log: DataFrame, hours: Sequence[str]) -> DataFrame:
    """The keys that the hours' changes touch."""
    rows = keyed_log_rows(state.shape, log.where(F.col("hour").isin(list(hours))), state.log.state)
    return rows.select("key").distinct()


def _keyed(state: TableView, log: DataFrame, hours: Sequence[str] | None) -> DataFrame:
    """Of each key what :func:`newest_values` tells: the rows that should be there, or have been."""
    rows = keyed_log_rows(state.shape, log, state.log.state)
    if hours is None:
        rows = rows.localCheckpoint()  # the log is read once, however often the fold looks at its rows
        targets = rows.select("key").distinct().localCheckpoint()
    else:
        targets = _touched(state, log, hours).localCheckpoint()
        rows = rows_in_reach(rows, targets)
    moved = colliding_keys(rows, F.lit(False)).select("key")
    moved = moved.unionByName(rows.where(is_link()).select("key")).distinct()
    moved = moved.join(targets, "key", "left_semi").localCheckpoint()
    others = targets.join(moved, "key", "left_anti")
    settled = newest_values(state.shape, rows.join(others, "key", "left_semi"))
    if moved.isEmpty():
        return settled
    folded = fold_keyed(state.shape, rows, moved, "")
    return settled.unionByName(folded.select("key", "row", "deleted", *newest_noted("tidemark", state.shape)))


def _keyless(state: TableView, log: DataFrame) -> DataFrame:
    """The same of a table without a key, where the sort key of each copy is its key."""
    settled = fold_keyless(state.shape, log, state.log.feed, state.log.state, "")
    return settled.select("key", "row", F.lit(False).alias("deleted"), *newest_noted("tidemark", state.shape))
