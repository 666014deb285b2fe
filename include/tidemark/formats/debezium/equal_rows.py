"""Equal rows of a table without a key at one position: those of one COPY, or one that the connector sent again."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

#: A connector that starts again needs longer than this: to stop, to connect, and to find its place in the log. Between an
#: event and its repetition recorded connectors of 1.9.7 and 3.6.3 needed 3 to 9 seconds.
_RESTART_MILLIS = 1000


def begins_again(last: Mapping[str, Column]) -> Column:
    """The events of a transaction are counted, by Debezium 1.9 anew after a restart. Without its metadata time tells
    (``tx_ordinal`` is when the event was sent): a COPY's rows are sent at once."""
    number, before = F.col("tx_ordinal"), last["tx_ordinal"]
    return F.when(F.col("tx").isNotNull() | last["tx"].isNotNull(), number <= before).otherwise(
        number - before >= _RESTART_MILLIS
    )
