"""Changes that are taken out of an hour because one is refused: with it what belongs to it.

Its whole transaction waits, unless the feed says `transactions.bad: split`; and the other half of a key change, always.
But for a change of which a good copy is in the log (:mod:`tidemark.changelog.good_copies`): it waits alone.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.feeds.model import Feed
from tidemark.identifiers import PAIR
from tidemark.ledger.change_log import without_entries
from tidemark.ledger.change_stats import TableStats, empties
from tidemark.ledger.kept_back import beginning, fails_a_check
from tidemark.ledger.quarantine import ALONGSIDE, ENTRY, NOT_BAD, SCREEN
from tidemark.ledger.receipts import Counts
from tidemark.logs import get_logger
from tidemark.pipeline.assemble import with_stats
from tidemark.pipeline.breaking_changes import breaking_changes, other_halves
from tidemark.pipeline.hour_changes import MOST_NAMED, HourChanges, Withheld

log = get_logger()


def refusal(table: Column, reason: Column) -> Column:
    """Why the other changes of a transaction wait, when one is refused."""
    return F.concat(F.lit("a change of "), table, F.lit(" is refused: "), reason)


def without(
    hour: HourChanges, refused: DataFrame | None, broken: DataFrame | None = None, before: DataFrame | None = None
) -> tuple[HourChanges, set[str]]:
    """The hour without the changes that are ``refused`` (ENTRY, ``stage``, ``reason``), and without those of ``broken``
    transactions (``tx``, and ``why`` they wait), each with what belongs to it; and the tables that lose changes. ``before``:
    refused changes of hours before to which something belongs too
    (:func:`tidemark.pipeline.breaking_changes.refused_before`)."""
    feed, rows, own, breaking = hour.run.feed, hour.assembled.every_row, None, None
    parts = [] if broken is None else [broken.select("tx", "why")]
    if refused is not None:
        first = refused.groupBy(*ENTRY).agg(F.min(F.struct("stage", "reason")).alias("first"))
        own = rows.join(first, ENTRY).select(*rows.columns, "first.*").localCheckpoint()
        breaking = breaking_changes(hour, own if before is None else own.unionByName(before, allowMissingColumns=True))
        why = refusal(F.col("table"), F.col("reason")).alias("why")
        parts.append(breaking.where("tx is not null").select("tx", why))
    named = reduce(DataFrame.unionByName, parts).groupBy("tx").agg(F.min("why").alias("why")).localCheckpoint()
    whole = named.where(waits_whole(feed)).select("tx", "why", F.lit(True).alias("whole"))
    taken = _with_what_belongs(rows, own, breaking, whole.drop("whole")).join(whole.drop("why"), "tx", "left")
    taken = taken.withColumn("whole", F.coalesce("whole", F.lit(False))).localCheckpoint()
    assembled = hour.assembled.without(taken)
    if hour.small:
        assembled = replace(assembled, rows=assembled.rows.localCheckpoint())
    assembled, stats = with_stats(assembled, feed, hour.run.state)
    split = named.where(~waits_whole(feed)).select("tx")
    withheld, touched = _added(hour, taken, split, assembled.rows)
    there = {table.table for table in stats}
    stats += [TableStats(table=table.table, sources=table.sources) for table in hour.stats if table.table not in there]
    stats = _with_ends(sorted(stats, key=lambda table: table.table), hour, withheld.rows)
    _log(hour.withheld, withheld)
    return replace(hour, assembled=assembled, stats=stats, withheld=withheld), touched


def _with_ends(stats: list[TableStats], hour: HourChanges, taken: DataFrame) -> list[TableStats]:
    """The statistics, with the ends of snapshots that stand in rows which are refused themselves. One Spark job where an end
    is among what was ``taken`` out of the hour, else none."""
    left, before = {table.table: table.truncated or "" for table in stats}, hour.stats
    if not (lost := [table.table for table in before if (table.truncated or "") > left[table.table]]):
        return stats
    ends = taken.where(empties() & (F.col("stage") == SCREEN) & F.col("table").isin(lost))
    found = {row.table: row.at for row in ends.groupBy("table").agg(F.max("position").alias("at")).collect()}
    return [replace(s, truncated=max(left[s.table], found[s.table])) if s.table in found else s for s in stats]


def waits_whole(feed: Feed) -> Column:
    """Whether all changes of a transaction (``tx``) wait when one is refused."""
    in_any = F.col("tx").isNotNull()
    # The two halves of a change are never split.
    return in_any if feed.transactions.bad == "hold" else in_any & F.startswith(F.col("tx"), F.lit(PAIR))


def _with_what_belongs(
    rows: DataFrame, own: DataFrame | None, breaking: DataFrame | None, transactions: DataFrame
) -> DataFrame:
    """The refused changes (``own``: log rows with ``stage`` and ``reason``), the other changes of the ``transactions``
    (``tx``, ``why``), and the other halves of key changes that are ``breaking``: the columns of ``own``."""
    waits = F.concat(F.lit("waits with its transaction: "), "why")
    alongside = rows.join(transactions, "tx").withColumns({"stage": F.lit(ALONGSIDE), "reason": waits}).drop("why")
    if own is None or breaking is None:
        return alongside.select(*rows.columns, "stage", "reason")
    alongside = alongside.join(own.select(*ENTRY), ENTRY, "left_anti").select(*own.columns)
    taken = own.unionByName(alongside)
    halves = other_halves(rows, breaking).join(taken.select(*ENTRY), ENTRY, "left_anti").select(*own.columns)
    return taken.unionByName(halves)


def _added(hour: HourChanges, taken: DataFrame, named: DataFrame, left: DataFrame) -> tuple[Withheld, set[str]]:
    """What is withheld in all, with ``taken``, and the tables that these are of."""
    before, taken_up = hour.withheld, hour.assembled.taken_up
    found = Withheld(rows=taken, named=named) if before is None else replace(
        before, rows=before.rows.unionByName(taken), named=before.named.unionByName(named)
    )  # fmt: skip
    counts, checked, alongside = dict(found.counts), dict(found.checked), found.alongside
    tables = {row.table for row in taken.select("table").distinct().collect()} if taken_up is not None else set()
    taken = without_entries(taken, taken_up)  # they are counted in quarantine already
    groups = taken.groupBy("table", "stage", "landed_this_hour", fails_a_check().alias("checked")).count().collect()
    for table, stage, landed, by_check, number in groups:
        more = Counts(quarantined=number) if landed else Counts(released_quarantined=number)
        counts[table] = counts.get(table, Counts()).plus(more)
        checked[table] = checked.get(table, 0) + (number if by_check and landed else 0)
        alongside += number if stage in NOT_BAD and landed else 0
    transactions = found.transactions + taken.where("whole").select("tx").distinct().count()
    return replace(
        found, counts=counts, checked=checked, alongside=alongside, transactions=transactions,
        split=_names(found.named, left),
    ), tables | {row.table for row in groups}  # fmt: skip


def _log(before: Withheld | None, now: Withheld) -> None:
    """A line for each table that loses changes."""
    for table, counts in sorted(now.counts.items()):
        more = counts if before is None else counts.less(before.counts.get(table, Counts()))
        if changes := more.quarantined + more.released_quarantined:
            log.warning(
                "quarantined", table=table, changes=changes, reason="they are refused, or wait with one that is"
            )


def _names(named: DataFrame, left: DataFrame) -> list[str]:
    """The first names of transactions of which changes are published."""
    split = named.distinct().join(left, "tx", "left_semi")
    return [
        row.tx for row in split.select(beginning(F.col("tx")).alias("tx")).orderBy("tx").limit(MOST_NAMED + 1).collect()
    ]
