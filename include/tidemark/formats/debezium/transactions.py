"""Which transaction an event is of, and what its END says to wait for."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemark.formats.contract import DeclaredFeed

#: In END, transactional logical messages stand under a name of Java's.
_MESSAGES = "LogicalDecodingMessage"


def transaction(topics: str | Sequence[str], feed: DeclaredFeed, connector: str) -> Column:
    """The transaction's name: its connector's, since each of them counts its own transactions, and its number (3.x adds an
    LSN that differs from event to event). Of SQL Server's BEGIN, which names no database, null.

    A topic of BEGIN and END bears its connector's name. Of one alone all events are, whatever a router has made of the
    topics' names.
    """
    number = F.coalesce(F.col("transaction.id"), F.col("id"))
    if connector == "postgresql":  # MySQL's GTIDs hold colons
        number = F.substring_index(number, ":", 1)
    if connector == "sqlserver":  # an LSN, and each database that the connector reads has a log of its own
        number = F.concat(F.coalesce(F.col("source.db"), _database(feed)), F.lit(":"), number)
    if isinstance(topics, str):
        name = topics.rpartition(".")[0]
        return F.concat(F.lit(f"{name}:"), number) if name else number
    of_marker = F.regexp_replace("topic", r"\.[^.]*$", "")
    return F.concat(F.coalesce(F.col("source.name"), of_marker), F.lit(":"), number)


def _database(feed: DeclaredFeed) -> Column:
    """The database of an END's changes, all of which are of one: its ``data_collections`` without ``schema.table``. A table
    with a dot in its name is told where the feed declares it."""
    declared = "".join(f"{re.escape(source)}|" for source in feed.tables if source.count(".") > 1)
    names = F.transform("data_collections", lambda one: one["data_collection"])
    return F.array_min(F.transform(names, lambda name: F.regexp_replace(name, rf"\.({declared}[^.]+\.[^.]+)\z", "")))


def identity(own: Column, op: Column, *, numbered: Column) -> Column:
    """What makes an event of a transaction distinct: table, position, op and key; without a key its number in it, or where
    that alone tells its events apart (``numbered``). Not its topic, which is another one once a router says so."""
    number = F.col("transaction.total_order").cast("string")
    # In one order: the key's columns may come in that of the messages' keys, or of the images.
    key = F.to_json(F.array_sort(F.map_entries("k")))
    row = F.coalesce(F.when(~numbered, key), number)
    return F.concat_ws("|", F.coalesce("table", "topic"), own, op, row)


def outside(collections: Column, feed: DeclaredFeed, markers: str | Sequence[str]) -> Column:
    """How many changes of a transaction are of tables that the feed does not read, by END's ``data_collections``; null:
    none.

    A table's topic is ``<prefix>.<schema>.<table>``, perhaps with a database between, and ``<prefix>.transaction`` beside it.
    A topic that bears the name of no declared table may be one that others are routed to: then no table is known to be
    outside.
    """
    of_markers = {markers} if isinstance(markers, str) else set(markers)
    prefixes = [f"{topic.rpartition('.')[0]}." for topic in of_markers]
    topics = {topic for topic in feed.topics if topic not in of_markers and not topic.startswith("__debezium")}
    messages = topics & {f"{prefix}message" for prefix in prefixes}
    known = sorted({_table(_topic_name(source)) for source in feed.tables})
    behind = {
        topic: [topic.removeprefix(prefix) for prefix in prefixes if topic.startswith(prefix)] for topic in topics
    }
    if not all(any(_table(name) in known for name in behind[topic]) for topic in topics - messages):
        return F.lit(None).cast("bigint")

    def is_outside(collection: Column) -> Column:
        name = collection["data_collection"]
        of_table = F.substring_index(F.regexp_replace(name, r"[^A-Za-z0-9._\-]", "_"), ".", -2)
        unread = F.lit(not messages)
        return F.when(name.contains(_MESSAGES), unread).otherwise(~of_table.isin(known))

    count = F.aggregate(
        F.filter(collections, is_outside), F.lit(0).cast("bigint"), lambda total, one: total + one["event_count"]
    )
    return F.when(count > 0, count)


def _table(name: str) -> str:
    """``schema.table`` of a topic, or of a table's longer name."""
    return ".".join(name.split(".")[-2:])


def _topic_name(table: str) -> str:
    """A table's name as its topic holds it."""
    return re.sub(r"[^A-Za-z0-9._\-]", "_", table)
