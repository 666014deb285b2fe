"""Updates of two messages: the row before (UPDATE_BEFOR), and the row after (UPDATE_AFTER that holds no row before).

Both halves have one sequenceId, and no other message of their table has it. The row before takes its row away, the row
after brings it back, perhaps under another key: a delete and an insert. Which key it was under is in the row before
alone. Where that lands in another hour, or in another version of the hour, the row after says that it comes from a key
that is not known. So it is never taken for a row that stood under its key already.
https://www.alibabacloud.com/help/en/dataworks/user-guide/message-formats
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidemark.identifiers import PAIR
from tidemark.storage.landed_columns import landed_hour

#: The ops of the two halves. The second is also that of an update in one message.
FIRST, SECOND = "UPDATE_BEFOR", "UPDATE_AFTER"


def is_second() -> Column:
    """Whether a message is the row after an update, and the row before comes in a message of its own."""
    return (F.col("kind") == SECOND) & F.col("before").isNull()


def is_half() -> Column:
    """Whether a message, or a log row, is one of the two of an update."""
    return F.coalesce((F.col("kind") == FIRST) | is_second(), F.lit(False))


def pair_name() -> Column:
    """The transaction of a half that is in none of the source's: it holds one half until the other is there."""
    return F.concat(F.lit(PAIR), F.col("source_table"), F.lit(":"), F.ltrim("position", F.lit("0")))


def unknown_key() -> Column:
    """``prior_key`` of a second half whose first half is in another hour."""
    return F.create_map().cast("map<string, string>")


def in_pairs(entries: DataFrame) -> DataFrame:
    """Of log entries with ``tx``, the halves that are in a transaction of the source, as one of a pair has them. Its other
    half may land when that transaction is published, and nothing but the pair's name ties the two. Same columns."""
    of_source = ~F.startswith(F.col("tx"), F.lit(PAIR)) & F.col("op").isin("insert", "delete")
    halves = entries.where(of_source & is_half() & F.col("position").isNotNull())
    named = {"tx": pair_name(), "tx_part": F.col("kind"), "tx_end": F.col("kind") == SECOND, "tx_count": F.lit(2)}
    columns = {name: value.cast(entries.schema[name].dataType) for name, value in named.items()}
    return halves.withColumns(columns).select(*entries.columns)


def with_old_keys(messages: DataFrame) -> DataFrame:
    """Messages with ``old_key``: on each half, the key in the first half; null where that is in another hour.

    ``messages`` have ``old_half``: of a first half its position, source_table and key. It costs a shuffle of the messages.
    """
    same = Window.partitionBy(landed_hour(F.col("object")), "source_table", "position")
    return messages.withColumn("old_key", F.first("old_half", ignorenulls=True).over(same)["key"])
