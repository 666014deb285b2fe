"""The index of a change-data record in its message, which is the last part of its position.

A message names its transaction and segment, but not where it begins or how many records it has. Where the container
shows messages, a record's index is counted in its message. Where records lie back to back, a message is taken to be a
run of neighbours with the same transaction, commit LSN and segment; and a run that is the same sequence m times over is
m deliveries of one message, each counted from 0. That makes the index the same however often and wherever a message was
delivered, as long as no object ends inside a message.

In comparing, the time at which a record was put on the queue is left out, since Q Capture puts a message again with a
new one; but not for tables without a key, where two equal records can be two equal rows. There, a message that holds
nothing but copies of one record, put in the same microsecond, is taken for deliveries of one.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.window import WindowSpec

# type, identifier, date and time on the queue
_BEFORE_OWNER = 4


def with_index(rows: DataFrame, *, visible: bool) -> DataFrame:
    """Adds `message` (null where the header cannot be read) and `index`, from 0.

    A record whose header cannot be read counts as part of the message around it, so that the records after it keep
    their index.
    """
    scope = ["object", "record"] if visible else ["object"]
    in_order = Window.partitionBy(*scope).orderBy("record", "entry")
    message = F.when(
        F.col("unit").isNotNull() & F.col("lsn").isNotNull() & F.col("segment").isNotNull(),
        F.concat_ws(".", "unit", "lsn", "segment"),
    )
    before = F.last("message", ignorenulls=True).over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    begins = F.col("message").isNotNull() & ~F.col("message").eqNullSafe(before)
    runs = (
        rows.withColumn("message", message)
        .withColumn("begins", begins.cast("int"))
        .withColumn("run", F.sum("begins").over(in_order))
    )
    in_run = Window.partitionBy(*scope, "run").orderBy("record", "entry")
    numbered = runs.withColumn("index", F.row_number().over(in_run) - 1)
    return numbered if visible else _deliveries_apart(numbered, in_run, scope)


def _deliveries_apart(numbered: DataFrame, in_run: WindowSpec, scope: list[str]) -> DataFrame:
    c = F.col
    whole_run = in_run.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    # A later delivery begins where the first record follows the last one.
    again = (c("fingerprint") == c("first")) & (c("previous") == c("last"))
    length = F.when(c("size") % c("deliveries") == 0, F.try_divide(c("size"), c("deliveries")).cast("int")).otherwise(
        c("size")
    )
    same_index = Window.partitionBy(*scope, "run", "index_in_delivery")
    return (
        numbered.withColumn("fingerprint", _fingerprint())
        .withColumn("first", F.first("fingerprint").over(whole_run))
        .withColumn("last", F.last("fingerprint", ignorenulls=True).over(whole_run))
        .withColumn("size", F.max(F.when(c("fingerprint").isNotNull(), c("index"))).over(whole_run) + 1)
        .withColumn("previous", F.lag("fingerprint").over(in_run))
        .withColumn("deliveries", F.count(F.when(again, 1)).over(whole_run) + 1)
        .withColumn("index_in_delivery", c("index") % length)
        .withColumn("same", F.min("fingerprint").over(same_index) == F.max("fingerprint").over(same_index))
        .withColumn("repeats", F.min("same").over(Window.partitionBy(*scope, "run")))
        .withColumn("index", F.when(c("repeats"), c("index_in_delivery")).otherwise(c("index")))
    )


def _fingerprint() -> Column:
    """A hash of what two deliveries of one record have in common. Null for a record whose header cannot be read: such a
    record neither shows nor hides a delivery, and does not make a message longer when it comes after it."""
    keyed, content = F.size("keys") > 0, F.slice("tokens", _BEFORE_OWNER + 1, F.size("tokens"))
    found = F.when(F.coalesce(keyed, F.lit(False)), F.xxhash64(content)).otherwise(F.xxhash64("text"))
    return F.when(F.col("message").isNotNull(), found)
