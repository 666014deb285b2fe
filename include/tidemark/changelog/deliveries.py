"""The one delivery of a transaction that counts, where its format can send a transaction again in other parts: see
:class:`tidemark.formats.contract.TellsDeliveries`.

Each topic has parts and deliveries of its own. The one that counts is the whole delivery that was published first; of
several in one publication, the one with the lowest offsets. What else came of the transaction are the same changes again.
So which one counts does not change with what comes later.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from tidemark.feeds.model import Feed
from tidemark.formats import load_format
from tidemark.formats.contract import TellsDeliveries
from tidemark.hours import Hour
from tidemark.ledger.change_log import in_hour, is_published
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.kept_back import kept_back, never_completed
from tidemark.ledger.quarantine import ENTRY

#: Containers that keep no offsets.
_WITHOUT_OFFSETS = ("lines", "pubsub", "raw")
#: What a topic holds of a transaction, and what identifies a message of it in the log.
OF_TOPIC = ("tx", "topic")
_MESSAGE = (*OF_TOPIC, "partition", "offset")
_CONTENT = ("op", "source_table", "key", "prior_key", "before", "after", "absent", "raw")


def tells_deliveries(feed: Feed) -> TellsDeliveries | None:
    """The feed's format, where it is one that tells deliveries apart by what its container keeps."""
    format_ = load_format(feed.format["type"])
    if feed.container["type"] in _WITHOUT_OFFSETS or not isinstance(format_, TellsDeliveries):
        return None
    return format_


def delivered(entries: DataFrame, format_: TellsDeliveries) -> DataFrame:
    """Log entries of transactions → a row for each delivery that can be told: ``tx``, ``topic``, ``partition``,
    ``delivery``, ``until`` (its last offset), ``parts``, ``ended``, ``alone`` (an end with nothing before it),
    ``published`` (the publication that brought the last of it, where ``entries`` have that), and ``whole``."""
    messages = format_.deliveries(_messages(entries)).where("delivery is not null")
    found = messages.groupBy("tx", "topic", "partition", "delivery").agg(
        F.max("offset").alias("until"),
        F.max(F.when(~F.col("tx_end"), F.col("tx_ordinal"))).alias("highest"),
        F.count_distinct(F.when(~F.col("tx_end"), F.col("tx_ordinal"))).alias("parts"),
        F.bool_or("tx_end").alias("ended"),
        F.max("published").alias("published"),
    )
    # An end by itself may be all of a transaction, or what is left of a longer one.
    found = found.withColumn("alone", F.col("ended") & (F.col("parts") == 0))
    nothing_else = F.col("alone") & (F.count(F.lit(1)).over(Window.partitionBy(*OF_TOPIC)) == 1)
    numbered = F.coalesce(F.col("highest") == F.col("parts"), F.lit(False))  # from 1, without a hole
    whole = F.col("ended") & (numbered | nothing_else)
    return found.withColumn("whole", whole).drop("highest")


def _messages(entries: DataFrame) -> DataFrame:
    entries = entries if "published" in entries.columns else entries.withColumn("published", F.lit(0))
    numbered = F.coalesce(F.col("tx_ordinal"), F.lit(0)).alias("tx_ordinal")
    ends = F.coalesce(F.col("tx_end"), F.lit(False)).alias("tx_end")
    # Of a message that was exported twice, the first time counts.
    return entries.groupBy(*_MESSAGE, numbered, ends).agg(F.min("published").alias("published"))


def with_single_messages(found: DataFrame, entries: DataFrame, format_: TellsDeliveries) -> DataFrame:
    """:func:`delivered`, of the log ``entries``, where an end by itself is also whole when it holds all that the other
    deliveries of its transaction hold: then the transaction came again in one message, perhaps each time."""
    topic = list(OF_TOPIC)
    doubtful = found.where("alone and not whole").select(*topic).distinct()
    of_them = entries.join(F.broadcast(doubtful), topic, "left_semi")
    parts = format_.deliveries(_messages(of_them)).select(*_MESSAGE, "tx_ordinal", "delivery")
    content = F.xxhash64(
        *(F.to_json(n) if n in ("key", "prior_key", "before", "after", "absent") else n for n in _CONTENT)
    )
    rows = of_them.withColumn("tx_ordinal", F.coalesce("tx_ordinal", F.lit(0))).join(parts, [*_MESSAGE, "tx_ordinal"])
    # A message that was exported twice holds its records once.
    rows = rows.withColumn("content", content).groupBy(*_MESSAGE, "delivery", "content", "object", "record").count()
    rows = rows.groupBy(*_MESSAGE, "delivery", "content").agg(F.max("count").alias("count"))
    held = rows.groupBy(*topic, "delivery", "content").agg(F.sum("count").alias("count"))
    most = held.groupBy(*topic, "content").agg(F.max("count").alias("most"))
    compared = (
        most.join(held.select(*topic, "delivery").distinct(), topic)
        .join(held, [*topic, "delivery", "content"], "left")
        .groupBy(*topic, "delivery")
        .agg(
            F.count_if(F.coalesce("count", F.lit(0)) < F.col("most")).alias("lacks"),
            F.coalesce(F.sum("count"), F.lit(0)).alias("size"),
        )
    )
    # A delivery that lacks its end has at least one record less than all.
    open_size = F.max(F.when(~F.col("ended"), F.col("size"))).over(Window.partitionBy(*topic))
    holds_all = (F.col("lacks") == 0) & (F.col("size") > F.coalesce("open_size", F.lit(0)))
    whole = F.col("whole") | (F.col("alone") & F.coalesce(holds_all, F.lit(False)))
    joined = found.join(compared, [*topic, "delivery"], "left").withColumn("open_size", open_size)
    return joined.withColumn("whole", whole).select(*found.columns)


def whole_deliveries(entries: DataFrame, format_: TellsDeliveries) -> DataFrame:
    """:func:`delivered`, with what only the content of single messages tells."""
    found = delivered(entries, format_).localCheckpoint()
    if found.where("alone and not whole").isEmpty():
        return found
    return with_single_messages(found, entries, format_).localCheckpoint()


def unused_messages(entries: DataFrame, format_: TellsDeliveries, feed: Feed, state: FeedState) -> DataFrame | None:
    """Of log entries of transactions, published or of the hour in the making: the messages (``message``: ``tx``, ``topic``,
    ``partition``, ``offset``) of deliveries that do not count, because another one does, and the publication that brought
    the last of that one (``whole_by``). None: there are none."""
    given_up = _given_up(entries.sparkSession, feed, state)
    if given_up is not None:
        entries = entries.join(given_up, ENTRY, "left_anti").select(*entries.columns)
    entries = entries.withColumn("published", published_by(state))
    found = whole_deliveries(entries, format_)
    topic, first = list(OF_TOPIC), F.struct("published", "partition", "delivery")
    chosen = found.where("whole").groupBy(*topic).agg(F.min(first).alias("chosen"))
    others = found.join(chosen, topic).where(~first.eqNullSafe(F.col("chosen")))
    # A transaction of one message that came again is the same change again, wherever it is counted.
    segmented = found.where("parts > 0").select(*topic, F.lit(True).alias("segmented")).distinct()
    others = others.join(segmented, topic, "left").where("segmented or not whole")
    if others.isEmpty():
        return None
    delivery = [*topic, "partition", "delivery"]
    whole_by = F.col("chosen.published").alias("whole_by")
    unused = format_.deliveries(_messages(entries)).join(others.select(*delivery, whole_by), delivery)
    return F.broadcast(unused.select(F.struct(*_MESSAGE).alias("message"), "whole_by").distinct().localCheckpoint())


def without_messages(rows: DataFrame, messages: DataFrame) -> DataFrame:
    """Log rows that are not of these messages."""
    return rows.join(messages, _message() == F.col("message"), "left_anti")


def of_messages(rows: DataFrame, messages: DataFrame) -> DataFrame:
    """Log rows of these messages."""
    return rows.join(messages, _message() == F.col("message"), "left_semi")


def _message() -> Column:
    return F.struct(*_MESSAGE)


def published_by(state: FeedState) -> Column:
    """The publication that brought a log entry; the next one for an entry that none has brought yet."""
    since_1970 = F.unix_timestamp("hour", "yyyy-MM-dd'T'HH") / 3600
    cases = [
        (F.col("hour").between(one.first, one.last) & (F.col("version") <= one.version), one.sequence, one.first)
        for one in state.hours
    ]
    cases += [
        (in_hour(hour) & (F.col("version") <= one.version), one.sequence, Hour.parse(hour))
        for hour, published in state.again.items()
        for one in published
    ]
    # One case after the other, not one inside the other: there can be many.
    found = F.when(F.lit(False), F.lit(0).cast("long"))
    for condition, sequence, first in cases:
        nth = since_1970 - F.lit(int(first.start.timestamp()) // 3600) + F.lit(sequence)
        found = found.when(condition, nth.cast("long"))
    return found.otherwise(F.lit(state.last_sequence + 1).cast("long"))


def _given_up(spark: SparkSession, feed: Feed, state: FeedState) -> DataFrame | None:
    """Entries in quarantine because their transaction never completed; None: there are none."""
    if not state.gave_up:
        return None
    kept = kept_back(spark, feed.feed, state).where(never_completed())
    return F.broadcast(kept.select(*ENTRY))


def published_unused(log: DataFrame, feed: Feed, state: FeedState) -> DataFrame | None:
    """:func:`unused_messages` of all that is published in the log."""
    format_ = tells_deliveries(feed)
    if format_ is None or not state.redelivered:
        return None
    entries = log.where(is_published(state) & F.col("tx").isNotNull())
    return unused_messages(entries, format_, feed, state)
