"""The index of a change-data record in its message, which is the last part of its position.

A message names its transaction and segment, but not where it begins or how many records it has. Where the container
shows messages, a record's index is counted in its message. Where records lie back to back, a message is taken to be a
run of neighbours with the same transaction, commit LSN and segment; and a run that is the same sequence m times over is
m deliveries of one message, each counted from 0. That makes the index the same however often and wherever a message was
delivered, as long as no object ends inside a message.

In comparing, the time at which a record was put on the queue is left out, since Q Capture puts a message again with a
new one; but not for tables without a key, where two equal records can be two equal rows. There, a message that holds
nothing but copies of one record, put in the same microsecond, is taken for deliveries of one.

A record whose header cannot be read counts as part of the message around it, so that the records after it keep their
index.
"""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.window import WindowSpec

from tidemark.containers.code_pages import text_of
from tidemark.containers.ibm_records import Layout, bytes_of
from tidemark.formats.ibm.fields import header_of, message_of, source_table, without_queue_times


def in_their_messages(records: DataFrame, pieces: Column, layout: Layout) -> DataFrame:
    """One row per record of a message, where the container shows messages. ``pieces``: the views of a message's records.
    Adds `entry`, from 0, `own` (its bytes; null where there are none), `message` (null where the header cannot be read) and
    `index`, from 0."""

    # Nothing that is expensive is named twice inside a lambda: Spark would do it twice.
    headers = F.transform("pieces", lambda view: header_of(text_of(bytes_of(view), layout.page), layout))
    messages = F.transform(headers, lambda header: message_of(header, layout))
    records = records.withColumn("pieces", pieces)
    # Nearly every message holds records of one: those before the first that says so are counted by themselves.
    named = records.withColumn("messages", messages).withColumn("named", F.array_distinct(F.array_compact("messages")))
    first = F.array_position("messages", F.get("named", F.lit(0))) - 1
    begins = named.withColumn("first", F.when(F.size("named") > 0, first)).withColumn(
        "begins", F.when(F.size("named") > 1, _begins(F.col("messages")))
    )
    entries = begins.select(
        *records.columns, "messages", "first", "begins", F.posexplode_outer("pieces").alias("at", "view")
    )
    entry = F.coalesce("at", F.lit(0))
    index = entry - F.coalesce(F.get("begins", entry), F.when(entry >= F.col("first"), F.col("first")), F.lit(0))
    return entries.select(
        *(name for name in records.columns if name != "pieces"),
        entry.alias("entry"),
        bytes_of(F.col("view")).alias("own"),
        F.get("messages", entry).alias("message"),
        index.cast("int").alias("index"),
    )


def _begins(messages: Column) -> Column:
    """For each of a message's records, where the first of its own message is."""

    def step(so_far: Column, message: Column) -> Column:
        begins = message.isNotNull() & ~message.eqNullSafe(so_far["last"])
        begin = F.when(begins, F.size(so_far["begins"])).otherwise(so_far["begin"])
        return F.struct(
            F.coalesce(message, so_far["last"]).alias("last"),
            begin.alias("begin"),
            F.concat(so_far["begins"], F.array(begin)).alias("begins"),
        )

    nothing = F.struct(
        F.lit(None).cast("string").alias("last"),
        F.lit(0).alias("begin"),
        F.array().cast("array<int>").alias("begins"),
    )
    return F.aggregate(messages, nothing, step, lambda found: found["begins"])


def in_their_objects(entries: DataFrame, own: Column, layout: Layout, keyed: Collection[str]) -> DataFrame:
    """Entries of records that lie back to back, or of which nothing shows the message. ``own``: a record's bytes; ``keyed``:
    the source's tables that have a key. Adds `message` and `index`, like :func:`in_their_messages`.

    What is sorted is no more than must be: the fields are found afterwards."""
    named = (
        entries.withColumn("text", text_of(own, layout.page))
        .withColumn("header", header_of(F.col("text"), layout))
        .withColumn("message", message_of(F.col("header"), layout))
        .withColumn("fingerprint", _fingerprint(layout, keyed))
        .drop("text", "header")
    )
    in_order = Window.partitionBy("object").orderBy("record", "entry")
    before = F.last("message", ignorenulls=True).over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    begins = F.col("message").isNotNull() & ~F.col("message").eqNullSafe(before)
    runs = named.withColumn("begins", begins.cast("int")).withColumn("run", F.sum("begins").over(in_order))
    in_run = Window.partitionBy("object", "run").orderBy("record", "entry")
    numbered = runs.withColumn("index", F.row_number().over(in_run) - 1)
    return _deliveries_apart(numbered, in_run).select(*entries.columns, "message", "index")


def _deliveries_apart(numbered: DataFrame, in_run: WindowSpec) -> DataFrame:
    c = F.col
    whole_run = in_run.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    # A later delivery begins where the first record follows the last one.
    again = (c("fingerprint") == c("first")) & (c("previous") == c("last"))
    length = F.when(c("size") % c("deliveries") == 0, F.try_divide(c("size"), c("deliveries")).cast("int")).otherwise(
        c("size")
    )
    same_index = Window.partitionBy("object", "run", "index_in_delivery")
    return (
        numbered.withColumn("first", F.first("fingerprint").over(whole_run))
        .withColumn("last", F.last("fingerprint", ignorenulls=True).over(whole_run))
        .withColumn("size", F.max(F.when(c("fingerprint").isNotNull(), c("index"))).over(whole_run) + 1)
        .withColumn("previous", F.lag("fingerprint").over(in_run))
        .withColumn("deliveries", F.count(F.when(again, 1)).over(whole_run) + 1)
        .withColumn("index_in_delivery", c("index") % length)
        .withColumn("same", F.min("fingerprint").over(same_index) == F.max("fingerprint").over(same_index))
        .withColumn("repeats", F.min("same").over(Window.partitionBy("object", "run")))
        .withColumn("index", F.when(c("repeats"), c("index_in_delivery")).otherwise(c("index")))
    )


def _fingerprint(layout: Layout, keyed: Collection[str]) -> Column:
    """A hash of what two deliveries of one record have in common. Null for a record whose header cannot be read: such a
    record neither shows nor hides a delivery, and does not make a message longer when it comes after it."""
    has_key = F.coalesce(source_table(F.col("header"), layout).isin(list(keyed)), F.lit(False))
    content = F.when(has_key, without_queue_times(F.col("text"), layout)).otherwise(F.col("text"))
    return F.when(F.col("message").isNotNull(), F.xxhash64(content))
