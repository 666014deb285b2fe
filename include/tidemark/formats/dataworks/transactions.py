"""Which transaction a row of a DataWorks feed belongs to: known from the markers around the row.

Rows do not name their transaction. It follows from the order: a row whose sequenceId lies after a TRANSACTION_BEGIN,
with no end between the two, belongs to the transaction which that marker begins. The order is that of the whole feed,
since one task writes it and a transaction may touch several databases.

Decoding sees one hour, and names what the hour shows: by the begin, ``tx:<position>``; an end without a begin, and the
rows in front of it, by the end, ``end:<position>``. :mod:`tidemark.formats.dataworks.long_transactions` names by the
markers of all hours.

A prepared XA transaction has ended before its commit or rollback comes. That belongs to it where it follows the end at
once; later on, nothing shows which transaction is meant.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidemark.storage.landed_columns import landed_hour

#: The markers that begin a transaction, and those that end one.
BEGIN, END = "TRANSACTION_BEGIN", "TRANSACTION_END"
ENDS = (END, "XACOMMIT", "XAROLLBACK")
#: How the names of transactions begin: by their begin, and by their end where the hour has no begin.
BY_BEGIN, BY_END = "tx:", "end:"
#: In ``unbound``: the position of the last marker before an entry that is behind no begin of its hour (empty: there is
#: none); and what a marker is that other hours may need: BEGIN or END, or BOUND, a begin of which they need only that the
#: transaction before it goes no further.
BEHIND, EDGE, BOUND = "behind", "edge", "BOUND"
_LAST = "~"  # sorts after every position: an entry without a position is in no transaction


def assign_transactions(entries: DataFrame) -> DataFrame:
    """Adds ``marked``, the name of the transaction that an entry is in (null: in none that its hour shows), ``around``,
    what the markers of other hours are compared with, and ``old_key``.

    ``entries`` have ``kind``, ``position`` (null: none in the order), ``object`` and ``old_half``: of the first of two
    messages for one update, its position, source_table and key. ``old_key`` is set on the second of the two messages:
    the key in the first, null where that is in another hour. It takes one sort of the hour's entries.
    """
    c = F.col
    ordered = c("position").isNotNull()
    marker = F.when(
        ordered & c("kind").isin(BEGIN, *ENDS), F.struct(c("kind").alias("kind"), c("position").alias("at"))
    )
    begun = F.when(ordered & (c("kind") == BEGIN), c("position"))
    rank = F.when(c("kind") == BEGIN, 0).when(c("kind").isin(*ENDS), 2).otherwise(1)
    known = entries.withColumns({"hour_": landed_hour(c("object")), "marker_": marker, "begun_": begun, "rank_": rank})
    order = Window.partitionBy("hour_").orderBy(
        F.coalesce("position", F.lit(_LAST)), "rank_", "object", "record", "entry"
    )
    hour = order.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    seen = known.withColumns(
        {
            "before_": F.expr("lag(marker_) IGNORE NULLS").over(order),
            "behind_": F.expr("lead(marker_) IGNORE NULLS").over(order),
            "last_": F.expr("lag(begun_) IGNORE NULLS").over(order),
            "first_of_hour_": F.min("begun_").over(hour),
            "last_of_hour_": F.max("begun_").over(hour),
            "follows_": F.lag(F.when(ordered, c("kind"))).over(order),
            "old_before_": F.expr("lag(old_half) IGNORE NULLS").over(order),
            "old_behind_": F.expr("lead(old_half) IGNORE NULLS").over(order),
        }
    )
    halves = [
        F.when((c(old)["position"] == c("position")) & (c(old)["source_table"] == c("source_table")), c(old)["key"])
        for old in ("old_before_", "old_behind_")
    ]
    named = seen.withColumn("marked", F.when(ordered, _name())).withColumn("old_key", F.coalesce(*halves))
    return named.withColumn("around", F.when(ordered, _around())).select(
        *entries.columns, "marked", "around", "old_key"
    )


def _by(word: str, position: Column | str) -> Column:
    return F.concat(F.lit(word), F.ltrim(position, F.lit("0")))


def _of_prepared() -> Column:
    """Whether an entry is the verdict on a transaction that has just ended."""
    return F.coalesce(F.col("kind").startswith("XA") & F.col("follows_").isin(*ENDS), F.lit(False))


def _name() -> Column:
    c = F.col
    before, behind = c("before_.kind"), c("behind_.kind")
    ends, by_begin, by_end = c("kind").isin(*ENDS), _by(BY_BEGIN, "last_"), _by(BY_END, "position")
    return (
        F.when(c("kind") == BEGIN, _by(BY_BEGIN, "position"))
        .when(ends & before.isNull(), by_end)
        .when(ends & (before == BEGIN), by_begin)
        .when(ends & _of_prepared(), F.coalesce(by_begin, _by(BY_END, c("before_.at"))))
        # Also where a redelivered transaction, whose position is far smaller, comes between the begin and the end.
        .when(ends, F.when((c("kind") == END) & (c("before_.at") != c("position")), by_end))
        .when(before == BEGIN, by_begin)
        .when((behind == END) | (before.isNull() & behind.isin(*ENDS)), _by(BY_END, c("behind_.at")))
    )


def _around() -> Column:
    c, before, behind = F.col, F.col("before_"), F.col("behind_")
    begins, outermost = c("kind") == BEGIN, [c("first_of_hour_"), c("last_of_hour_")]
    open_begin = begins & (behind["kind"] == BEGIN) & (behind["at"] != c("position"))
    # What follows a begin that is an edge is one too: to other hours its transaction would go on to the next edge.
    follows_edge = (
        (before["kind"] == BEGIN) & (before["at"] != c("position")) & (begins | before["at"].isin(*outermost))
    )
    own_end = c("marked") == _by(BY_END, "position")
    edge = (
        F.when(c("marker_").isNull() | _of_prepared(), None)
        .when(begins & (c("position").isin(*outermost) | open_begin), F.lit(BEGIN))
        .when(begins & follows_edge, F.lit(BOUND))
        .when(own_end | follows_edge, F.lit(END))
    )
    loose = ~F.coalesce(c("marked").startswith(BY_BEGIN), F.lit(False))
    parts = F.map_concat(
        F.when(edge.isNotNull(), F.create_map(F.lit(EDGE), edge)).otherwise(F.create_map().cast("map<string, string>")),
        F.when(loose, F.create_map(F.lit(BEHIND), F.coalesce(c("before_.at"), F.lit("")))).otherwise(
            F.create_map().cast("map<string, string>")
        ),
    )
    return F.when(edge.isNotNull() | loose, parts)
