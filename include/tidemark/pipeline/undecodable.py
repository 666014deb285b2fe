"""Transactions of which a record cannot be decoded, or a change can reach no table: they wait.

Most such records say themselves which transaction they are of, or their place in the order does. Of the others (a value that
is no JSON) this is known:

- Where changes are counted, the transaction lacks one, so it is held. The record is named as what it perhaps lacks.
- Where only markers around the changes tell (:class:`tidemark.formats.contract.TiesTransactions`), none is missed. There the
  record is taken for one of the transaction that its neighbours in the stream are of, whichever of the two is in one.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidemark.changelog.ties import edges_with, only_markers_tell, tied
from tidemark.identifiers import PAIR
from tidemark.ledger.change_log import changes_table, in_hour, is_published, is_row, is_unplaced
from tidemark.ledger.kept_back import never_completed, record_place
from tidemark.ledger.quarantine import ENTRY
from tidemark.pipeline.breaking_changes import breaking_changes
from tidemark.pipeline.hour_changes import HourChanges
from tidemark.pipeline.withheld import refusal


def broken_transactions(hour: HourChanges) -> DataFrame | None:
    """Transactions of the hour's changes (``tx``, and ``why`` they wait) of which a record cannot be decoded, or a change
    can reach no table; None where there are none."""
    state, assembled, parts = hour.run.state, hour.assembled, []
    if assembled.account.bad or state.with_bad:
        parts += _undecodable(hour)
    if assembled.refused is not None:
        refused = assembled.refused.where(F.col("tx").isNotNull() & ~never_completed())
        parts.append(_named(refused, refusal(F.col("table"), F.col("reason"))))
    if not parts:
        return None
    named = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)
    found = named.join(assembled.rows, "tx", "left_semi").localCheckpoint()
    if found.isEmpty():
        return None
    # What only its neighbours name is of no known place, so that nothing tells which change is a copy of it.
    placed = breaking_changes(hour, found.where("object is not null"))
    found = placed.unionByName(found.where("object is null")).select("tx", "why").localCheckpoint()
    return None if found.isEmpty() else found


def _named(entries: DataFrame, why: Column) -> DataFrame:
    """Log entries by what tells their place: the columns of :func:`broken_transactions`, and what identifies the change."""
    return entries.select("tx", why.alias("why"), *ENTRY, "op", "source_table", "position", "tx_ordinal")


def _undecodable(hour: HourChanges) -> list[DataFrame]:
    """Transactions with records that cannot be decoded: ``tx``, ``why``, and, where the record names it, :func:`_named`."""
    run, feed, state = hour.run, hour.run.feed, hour.run.state
    log = run.spark.table(changes_table(feed.feed)).where(is_published(state) | in_hour(run.hour))
    edges = edges_with(state, run.hour, hour.assembled.edges)
    bad = log.where(F.col("hour").isin([*state.with_bad, run.hour]) & (F.col("op") == "bad"))
    named = tied(bad, feed, edges).where("tx is not null")
    if feed.undeclared == "quarantine":  # what is no table of the feed leaves its transactions whole
        named = named.where(F.col("source_table").isNull() | F.col("source_table").isin(list(feed.tables)))
    why = F.concat(F.lit("a record of it cannot be decoded: "), "problem")
    parts = [_named(named, why)]
    if not only_markers_tell(feed):
        return parts
    first, last = hour.assembled.rows.where("tx is not null").agg(F.min("hour"), F.max("hour")).first() or (None, None)
    span = F.col("hour").between(min(run.hour, first or run.hour), max(run.hour, last or run.hour))
    if not bad.where(span & is_unplaced()).isEmpty():
        parts.append(_between(tied(log.where(span), feed, edges)))
    return parts


def _between(entries: DataFrame) -> DataFrame:
    """Of log entries of some hours: the transactions (``tx``, ``why``) next to records of which nothing says where they
    stand. Next to them in their partition of the topic, or in their object where offsets are not known."""
    c = F.col
    marker = (c("op") == "control") & c("tx").isNotNull()
    ends = F.coalesce("tx_end", F.lit(False))
    in_source = c("tx").isNotNull() & ~F.startswith(c("tx"), F.lit(PAIR))
    step = F.when(
        is_row() | marker | ((c("op") == "bad") & ~is_unplaced()),
        F.struct(
            F.when(in_source & ~(marker & ends), c("tx")).alias("goes_on"),
            F.when(in_source & ~(marker & ~ends), c("tx")).alias("was_begun"),
        ),
    )
    known = entries.select("op", "tx", "position", "topic", "partition", "offset", "object", "record", "entry", "problem",
                           step.alias("step"))  # fmt: skip
    by_offset = Window.partitionBy("topic", "partition").orderBy("offset", "object", "record", "entry")
    by_record = Window.partitionBy("object").orderBy("record", "entry")

    def neighbour(search: str) -> Column:
        found = F.expr(f"{search}(step) IGNORE NULLS")
        return F.when(c("offset").isNotNull(), found.over(by_offset)).otherwise(found.over(by_record))

    beside = known.withColumns({"before": neighbour("lag"), "behind": neighbour("lead")}).where(is_unplaced())
    named = F.explode(F.array_compact(F.array("before.goes_on", "behind.was_begun"))).alias("tx")
    why = F.concat(F.lit("a record that stands in it cannot be decoded ("), record_place(), F.lit("): "), "problem")
    return beside.select(named, why.alias("why"))
