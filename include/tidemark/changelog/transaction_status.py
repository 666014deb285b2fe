"""How much of each transaction has come, whether it is complete, and in which delivery.

It is complete when its end has come, and with it as many distinct parts as its end and its counters say. Where a format can
send a transaction again in other parts (:class:`tidemark.formats.contract.TellsDeliveries`), all of them are of one delivery.
Each topic has parts and deliveries of its own. The delivery that counts is the whole one that was published first; of
several in one publication, the one with the lowest offsets. What else came of the transaction are the same changes again.
So which one counts does not change with what comes later.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from tidemark.changelog.places import awaits_place
from tidemark.feeds.model import Feed
from tidemark.formats import load_format
from tidemark.formats.contract import TellsDeliveries
from tidemark.ledger.change_log import is_published, is_row, published_by
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.kept_back import kept_back, never_completed
from tidemark.ledger.quarantine import ENTRY

#: Containers that keep no offsets.
_WITHOUT_OFFSETS = ("lines", "pubsub", "raw")
#: What a topic holds of a transaction, and what identifies a message of it in the log.
_OF_TOPIC = ("tx", "topic")
_MESSAGE = (*_OF_TOPIC, "partition", "offset")
_CONTENT = ("op", "source_table", "key", "prior_key", "before", "after", "absent", "raw")
_MOST_NAMED, _SHOWN = 5, 60
#: So many names of transactions are looked for in the log one by one.
FEW_NAMES = 1_000
_UNPRINTABLE = r"[\p{C}\p{Zl}\p{Zp}]"


def tells_deliveries(feed: Feed) -> TellsDeliveries | None:
    """The feed's format, where it is one that tells deliveries apart by what its container keeps."""
    format_ = load_format(feed.format["type"])
    if feed.container["type"] in _WITHOUT_OFFSETS or not isinstance(format_, TellsDeliveries):
        return None
    return format_


def transaction_status(entries: DataFrame, feed: Feed) -> DataFrame:
    """Log entries with a ``tx`` → one row per transaction: columns of the system table ``held`` plus ``complete``.

    Where deliveries can be told apart, one must be whole; otherwise ``parts`` are those of the longest.
    """
    # Of such a format each topic numbers its parts by itself, and what has come of a transaction in each must be whole.
    in_topics = len(feed.topics) > 1 and isinstance(load_format(feed.format["type"]), TellsDeliveries)
    by = _OF_TOPIC if in_topics else ("tx",)
    status = _by_numbers(entries, by)
    if (format_ := tells_deliveries(feed)) is not None:
        status = _by_deliveries(status, entries, format_, by)
    return _of_all_topics(status) if in_topics else status


def _by_numbers(entries: DataFrame, by: Sequence[str]) -> DataFrame:
    marker, none = (F.col("op") == "control") & F.col("tx_part").isNull(), F.lit(0)
    ordinal = F.coalesce(F.max(F.when(~marker, F.col("tx_ordinal"))), none)
    outside = F.coalesce(F.max(F.when(marker, F.col("tx_ordinal"))), none)
    needed = F.greatest(F.coalesce(F.max("tx_count"), none), ordinal) - outside
    return (
        entries.groupBy(*by)
        .agg(
            F.min("hour").alias("since"),
            F.sort_array(F.collect_set("hour")).alias("hours"),
            # A record that cannot be decoded counts: its transaction is not whole without it.
            F.count_if(is_row() | (F.col("op") == "bad")).alias("changes"),
            F.count_distinct("tx_part").alias("parts"),
            needed.alias("needed"),
            F.coalesce(F.bool_or("tx_end"), F.lit(False)).alias("ended"),
            F.sort_array(F.collect_set("table")).alias("tables"),
            # What cannot be decoded was never applied: it tells no redelivery of what was.
            F.min(F.when(F.col("op") != "bad", F.col("position"))).alias("position"),
        )
        .withColumn("complete", F.col("ended") & (F.col("parts") >= F.col("needed")))
    )


def _by_deliveries(status: DataFrame, entries: DataFrame, format_: TellsDeliveries, by: Sequence[str]) -> DataFrame:
    told = (
        whole_deliveries(entries, format_)
        .groupBy(*by)
        .agg(
            F.max("parts").alias("longest"),
            F.bool_or("whole").alias("whole"),
        )
    )
    longest, lacks = F.col("longest"), F.col("whole").isNotNull() & ~F.col("whole")
    # What lies between the longest and the end is at least one part.
    needed = F.greatest("needed", longest + F.col("ended").cast("int"))
    return (
        status.join(told, list(by), "left")
        .withColumn("needed", F.when(lacks, needed).otherwise(F.col("needed")))
        .withColumn("parts", F.when(lacks, longest).otherwise(F.col("parts")))
        .withColumn("complete", F.coalesce("whole", "complete"))
        .select(*status.columns)
    )


def _of_all_topics(status: DataFrame) -> DataFrame:
    """One row per transaction, from one for each topic that has something of it."""

    def all_of(lists: str) -> Column:
        return F.array_sort(F.array_distinct(F.flatten(F.collect_list(lists)))).alias(lists)

    return status.groupBy("tx").agg(
        F.min("since").alias("since"),
        all_of("hours"),
        *(F.sum(name).alias(name) for name in ("changes", "parts", "needed")),
        F.bool_and("ended").alias("ended"),
        all_of("tables"),
        F.min("position").alias("position"),
        F.bool_and("complete").alias("complete"),
    )


def with_earlier(found: DataFrame, earlier: DataFrame, feed: Feed, places_until: str) -> DataFrame:
    """Log entries of incomplete transactions together with those that are published under their names.

    A name can come again for another transaction (counters that wrap, or begin again). What stands behind all of a
    transaction that is whole, as published, is none of its parts: of such a name only that is given, with entries that have
    no position. Nothing is told by a position that what the log holds can change, up to ``places_until``
    (:func:`tidemark.changelog.places.places_until`): the same part can come again with another one. So it can where
    deliveries can be told apart; there they are.
    """
    if tells_deliveries(feed) is not None:
        return found.unionByName(earlier)
    of_tx, is_old, position = Window.partitionBy("tx"), F.col("is_old"), F.col("position")
    marker, none = (F.col("op") == "control") & F.col("tx_part").isNull(), F.lit(0)

    def most(value: str, condition: Column) -> Column:
        return F.coalesce(F.max(F.when(is_old & condition, F.col(value))).over(of_tx), none)

    needed = F.greatest(most("tx_count", F.lit(True)), most("tx_ordinal", ~marker)) - most("tx_ordinal", marker)
    parts = F.size(F.collect_set(F.when(is_old, F.col("tx_part"))).over(of_tx))
    whole = F.coalesce(F.bool_or(is_old & F.col("tx_end")).over(of_tx), F.lit(False)) & (parts >= needed)
    # A record that could not be decoded may have been one of the parts that come now.
    whole &= ~F.bool_or(is_old & (F.col("op") == "bad")).over(of_tx)
    last = F.max(F.when(is_old, position)).over(of_tx)
    together = found.withColumn("is_old", F.lit(False)).unionByName(earlier.withColumn("is_old", F.lit(True)))
    behind = ~is_old & (position > last) & ~awaits_place(feed, places_until)
    told = together.withColumns({"behind": behind, "whole": whole})
    another = F.coalesce(F.bool_or("behind").over(of_tx), F.lit(False)) & F.col("whole")
    told = told.withColumn("another", another)
    left = ~F.col("another") | F.coalesce("behind", ~is_old)
    return told.where(left).select(*found.columns)


def without_whole_delivery(of_then: DataFrame, of_all: DataFrame, feed: Feed) -> DataFrame | None:
    """Transactions (``tx``) of the log entries ``of_then`` of which, in a topic that there was, no delivery was whole by then
    that still is with ``of_all`` that is known now. None where deliveries cannot be told apart."""
    if (format_ := tells_deliveries(feed)) is None:
        return None
    topic, delivery = list(_OF_TOPIC), [*_OF_TOPIC, "partition", "delivery"]
    stay = whole_deliveries(of_then, format_).where("whole").select(*delivery)
    stay = stay.join(whole_deliveries(of_all, format_).where("whole").select(*delivery), delivery)
    return of_then.select(*topic).distinct().join(stay.select(*topic).distinct(), topic, "left_anti")


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
    nothing_else = F.col("alone") & (F.count(F.lit(1)).over(Window.partitionBy(*_OF_TOPIC)) == 1)
    numbered = F.coalesce(F.col("highest") == F.col("parts"), F.lit(False))  # from 1, without a hole
    whole = F.col("ended") & (numbered | nothing_else)
    return found.withColumn("whole", whole).drop("highest")


def _messages(entries: DataFrame) -> DataFrame:
    entries = entries if "published" in entries.columns else entries.withColumn("published", F.lit(0))
    numbered = F.coalesce(F.col("tx_ordinal"), F.lit(0)).alias("tx_ordinal")
    ends = F.coalesce(F.col("tx_end"), F.lit(False)).alias("tx_end")
    # Of a message that was exported twice, the first time counts.
    return entries.groupBy(*_MESSAGE, numbered, ends).agg(F.min("published").alias("published"))


def whole_deliveries(entries: DataFrame, format_: TellsDeliveries) -> DataFrame:
    """:func:`delivered`, with what only the content of single messages tells."""
    found = delivered(entries, format_).localCheckpoint()
    if found.where("alone and not whole").isEmpty():
        return found
    return with_single_messages(found, entries, format_).localCheckpoint()


def with_single_messages(found: DataFrame, entries: DataFrame, format_: TellsDeliveries) -> DataFrame:
    """:func:`delivered`, of the log ``entries``, where an end by itself is also whole when it holds all that the other
    deliveries of its transaction hold: then the transaction came again in one message, perhaps each time."""
    topic = list(_OF_TOPIC)
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


def unused_of_hour(candidates: DataFrame, log: DataFrame, feed: Feed, state: FeedState) -> DataFrame | None:
    """:func:`unused_messages` of the transactions of the ``candidates``, log entries of an hour in the making. ``log``: what
    is published, and the hour's new entries."""
    format_ = tells_deliveries(feed)
    if format_ is None:
        return None
    several = (
        delivered(candidates, format_)
        .groupBy(*_OF_TOPIC)
        .agg(F.count(F.lit(1)).alias("n"), F.sum("parts").alias("parts"))
    )
    names = several.where("n > 1 and parts > 0").select("tx")
    if state.highest is not None:  # what stands below it may have come before
        names = names.unionByName(candidates.where(F.col("position") <= F.lit(state.highest)).select("tx"))
    names = names.distinct().localCheckpoint()
    few = [row.tx for row in names.limit(FEW_NAMES + 1).collect()]
    if not few:
        return None
    # Which files have none of a few is known without opening them.
    of_them = F.col("tx").isin(few)
    entries = log.where(of_them) if len(few) <= FEW_NAMES else log.join(F.broadcast(names), "tx", "left_semi")
    return unused_messages(entries, format_, feed, state)


def unused_messages(entries: DataFrame, format_: TellsDeliveries, feed: Feed, state: FeedState) -> DataFrame | None:
    """Of log entries of transactions, published or of the hour in the making: the messages (``message``: ``tx``, ``topic``,
    ``partition``, ``offset``) of deliveries that do not count, because another one does, and the publication that brought
    the last of that one (``whole_by``). None: there are none."""
    given_up = _given_up(entries.sparkSession, feed, state)
    if given_up is not None:
        entries = entries.join(given_up, ENTRY, "left_anti").select(*entries.columns)
    entries = entries.withColumn("published", published_by(state))
    found = whole_deliveries(entries, format_)
    topic, first = list(_OF_TOPIC), F.struct("published", "partition", "delivery")
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


def without_messages(rows: DataFrame, messages: DataFrame) -> DataFrame:
    """Log rows that are not of these messages."""
    return rows.join(messages, _message() == F.col("message"), "left_anti")


def of_messages(rows: DataFrame, messages: DataFrame) -> DataFrame:
    """Log rows of these messages."""
    return rows.join(messages, _message() == F.col("message"), "left_semi")


def _message() -> Column:
    return F.struct(*_MESSAGE)


def tell_torn(open_entries: DataFrame, feed: Feed) -> list[str]:
    """Notes about the transactions of these log entries of which something between two parts is missing, by the parts'
    offsets, and about those of which nothing is: each part, one behind the other, says that it is all there is."""
    format_ = tells_deliveries(feed)
    if format_ is None:
        return []
    pieces = delivered(open_entries, format_)
    runs = F.sort_array(F.collect_list(F.struct("delivery", "until"))).alias("runs")
    of_topic = F.min("partition").alias("partition"), F.bool_and("alone").alias("alone"), runs
    found = pieces.groupBy(*_OF_TOPIC).agg(*of_topic).where(F.size("runs") > 1)
    shown = F.regexp_replace(F.substring("topic", 1, _SHOWN), _UNPRINTABLE, "␣")
    torn = found.withColumn("topic", shown).orderBy(*_OF_TOPIC).limit(_MOST_NAMED + 1).collect()
    places: list[str] = []
    ends: list[str] = []
    for t in torn[:_MOST_NAMED]:
        place = f"{t.tx}: {t.topic}, partition {t.partition}"
        if t.alone and all(one.until + 1 == other.delivery for one, other in pairwise(t.runs)):
            ends.append(f"{place}, from offset {t.runs[0].delivery} on")
        else:
            places.append(f"{place}, between the offsets {t.runs[0].until} and {t.runs[1].delivery}")
    more = "; …" if len(torn) > _MOST_NAMED else ""
    notes = {
        "transactions wait, for messages are missing inside them: ": places,
        f"transactions wait whose messages each say to be all of them, and differ: {format_.ONLY_ENDS}: ": ends,
    }
    return [f"{why}{'; '.join(named)}{more}" for why, named in notes.items() if named]
