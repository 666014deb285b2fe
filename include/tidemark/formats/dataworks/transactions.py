"""Which transaction a row of a DataWorks feed belongs to: known from the markers around the row.

Rows do not name their transaction. It follows from the order: a row whose sequenceId lies after a TRANSACTION_BEGIN,
with no end between the two, belongs to the transaction which that marker begins. The order is that of the whole feed,
since one task writes it and a transaction may touch several databases.

Decoding sees one hour. A transaction that is open at its end goes on in the next hour, which shows in the markers
there: an end, with no begin before it. Both parts take their name from the boundary between the two hours, which is
known in each of them.

A prepared XA transaction has ended before its commit or rollback comes. That belongs to it where it follows the end at
once; later on, nothing shows which transaction is meant.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidemark.storage.landing_layout import landed_hour

#: The markers that begin a transaction, and those that end one.
BEGIN, END = "TRANSACTION_BEGIN", "TRANSACTION_END"
ENDS = (END, "XACOMMIT", "XAROLLBACK")
_LAST = "~"  # sorts after every position: an entry without a position is in no transaction


def assign_transactions(entries: DataFrame) -> DataFrame:
    """Adds ``marked``, the name of the transaction that an entry is in (null: in none), and ``old_key``.

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
    seen = known.withColumns(
        {
            "before_": F.expr("lag(marker_) IGNORE NULLS").over(order),
            "behind_": F.expr("lead(marker_) IGNORE NULLS").over(order),
            "last_": F.expr("lag(begun_) IGNORE NULLS").over(order),
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
    return named.select(*entries.columns, "marked", "old_key")


def _name() -> Column:
    c = F.col
    before, behind = c("before_.kind"), c("behind_.kind")
    ends, begins = c("kind").isin(*ENDS), c("kind") == BEGIN
    start = F.try_to_timestamp("hour_", F.lit("yyyy-MM-dd'T'HH"))
    earlier, later = _boundary(start), _boundary(start + F.expr("INTERVAL 1 HOUR"))
    own = F.concat(F.lit("tx:"), F.ltrim("position", F.lit("0")))
    by_begin = F.concat(F.lit("tx:"), F.ltrim("last_", F.lit("0")))
    of_prepared = c("kind").startswith("XA") & c("follows_").isin(*ENDS)
    # An end with no begin before it ends what the hour before left open, also where a redelivered transaction, whose
    # position is far smaller, comes between.
    return (
        F.when(begins, F.when(behind.isNull(), F.coalesce(later, own)).otherwise(own))
        .when(ends & before.isNull(), earlier)
        .when(ends & (before == BEGIN), by_begin)
        .when(ends & of_prepared, F.coalesce(by_begin, earlier))
        .when(ends, F.when((c("kind") == END) & (c("before_.at") != c("position")), earlier))
        .when(before == BEGIN, F.when(behind.isNull(), F.coalesce(later, by_begin)).otherwise(by_begin))
        .when((behind == END) | (before.isNull() & behind.isin(*ENDS)), earlier)
    )


def _boundary(hour: Column) -> Column:
    """The name of a transaction that is open at the start of an hour; null where the hour is not known."""
    return F.concat(F.lit("tx:over:"), F.date_format(hour, "yyyy-MM-dd'T'HH"))
