"""Equal rows of a table without a key at one position: those of one COPY, or of one snapshot, or what was sent again."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

#: A connector that starts again needs longer than this: to stop, to connect, and to find its place in the log. Between an
#: event and its repetition recorded connectors of 1.9.7 and 3.6.3 needed 3 to 9 seconds.
_RESTART_MILLIS = 1000
#: What ``source.snapshot`` says of the last row of a table, and of the last one of all.
LAST = ("last_in_data_collection", "last")
#: Whether a snapshot's row is the first of its table, one between, or the last.
_PLACES = {"first": 0, "first_in_data_collection": 0, "true": 1} | dict.fromkeys(LAST, 2)


def place_in_read(source: Column) -> Column:
    """Of a row that a snapshot read, its place in the read of its table. Null where ``source.ts_ms`` does not name the read:
    in an incremental snapshot, and before 1.9.6, it is the time of each row. Since then the database is asked for the time
    once for each table that is read (getSnapshotSourceTimestamp of RelationalSnapshotChangeEventSource in
    https://github.com/debezium/debezium), and a table without a key is never read in several parts."""
    version = source["version"]
    asks_once = (version >= "1.9.6") & ~version.between("2.0.0.A", "2.0.0.C")  # no alpha or beta of 2.0 does
    places = F.create_map(*(F.lit(part) for place in _PLACES.items() for part in place))
    return F.when(asks_once, F.element_at(places, source["snapshot"]).cast("bigint"))


def read_of_load() -> Column:
    """When the database was read, of a row that has its place in that read."""
    in_read = (F.col("kind") == "r") & F.col("tx").isNull() & F.col("tx_ordinal").isNotNull()
    return F.when(in_read, F.col("committed_at").cast("string"))


def begins_again(last: Mapping[str, Column]) -> Column:
    """The events of a transaction are counted, by Debezium 1.9 anew after a restart. A read has one first row, and one last
    (``tx_ordinal`` is the place in it). Of other changes without transaction metadata time tells (``tx_ordinal`` is when the
    event was sent): a COPY's rows are sent at once."""
    number, before = F.col("tx_ordinal"), last["tx_ordinal"]
    read_again = (number < before) | ((number == before) & (number != _PLACES["true"]))
    return (
        F.when(F.col("tx").isNotNull() | last["tx"].isNotNull(), number <= before)
        .when(read_of_load().isNotNull(), read_again)
        .otherwise(number - before >= _RESTART_MILLIS)
    )
