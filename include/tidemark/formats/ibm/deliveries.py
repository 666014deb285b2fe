"""The deliveries of a transaction: which of its messages were put on the queue together.

Q Capture puts the segments of a transaction one behind the other, and when it sends a transaction again it does so
whole, perhaps in segments of other sizes. So where the container keeps offsets, the messages of one delivery lie side by
side, from number 0001 to 0000 at the end. A producer that tries again may repeat some of them, or change their order:
such a message has a lower number than the one before it, but it is not 0001. Messages of one transaction in several
partitions are in no such order, and without offsets nothing tells: there only the numbers count. Each queue, and so each
topic, has deliveries of its own.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

ONLY_ENDS = (
    "a publishing queue map that sends row operations (MESSAGE CONTENT TYPE R) writes such messages, and they cannot be put "
    "in order: `overdue: apply` would lose some of them. Have it send transactions (T), and load its tables anew"
)


def deliveries(messages: DataFrame) -> DataFrame:
    """Adds ``delivery``, the offset of the first message of its delivery. See
    :class:`tidemark.formats.contract.TellsDeliveries`."""
    c = F.col
    of_queue = Window.partitionBy("tx", "topic")
    in_order = Window.partitionBy("tx", "topic", "partition").orderBy("offset", "tx_ordinal")
    told = (F.min("partition").over(of_queue) == F.max("partition").over(of_queue)) & (
        F.count("offset").over(of_queue) == F.count(F.lit(1)).over(of_queue)
    )
    side_by_side = (c("offset") == c("offset_before") + 1) & (c("number_before") > 0)
    follows = side_by_side & (c("tx_end") | (c("tx_ordinal") > 1))
    begins = F.when(~F.coalesce(follows, F.lit(False)), c("offset"))
    return (
        messages.withColumn("told", told)
        .withColumn("offset_before", F.lag("offset").over(in_order))
        .withColumn("number_before", F.lag("tx_ordinal").over(in_order))
        .withColumn("begins", begins)
        .withColumn("delivery", F.when(c("told"), F.last("begins", ignorenulls=True).over(in_order)))
        .select(*messages.columns, "delivery")
    )
