"""In which hours a key was spoken of: an index of the change log, which maintenance keeps and `tidemark explain` reads.

``tidemark.<feed>.keys`` has a row for each key (by its hash, with its table and its types) that an hour's log rows speak of,
and one for the table itself where all of its rows of that hour are in the index. It may lack hours, and may be removed at any
time: what it does not vouch for is looked up in the log. It vouches for an hour while the log has the files that were read,
and for a table while its key has the types of then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.changelog.table_history import load_definitions
from tidemark.changelog.table_log import TableLog
from tidemark.changelog.table_view import TableView, published_state
from tidemark.changelog.ties import only_markers_tell
from tidemark.feeds.model import Feed
from tidemark.fold.typed_rows import in_one_notation
from tidemark.lake.session import check_tables, full_name
from tidemark.lake.stored_formats import FORMAT, TABLE_FORMAT
from tidemark.ledger.change_log import changes_table, is_published
from tidemark.ledger.feed_state import FeedState
from tidemark.tables.published_table import PublishedTable

#: Of an old log the newest hours of a table are indexed first, so many in one run of maintenance.
_MOST_HOURS = 1_000
_PROPERTIES = {
    TABLE_FORMAT: str(FORMAT),
    "format-version": "3",
    "write.distribution-mode": "none",
    # Sorted by hash: of a large file one small piece is read.
    "write.parquet.row-group-size-bytes": str(4 * 1024 * 1024),
}


def hours_of_key(log: TableLog, key: Column, types: Mapping[str, str]) -> list[str] | None:
    """The hours whose log rows may speak of a key of the table; None: any may. ``key``: a struct of ``types``, by column."""
    spark, index = log.spark, keys_table(log.feed.feed)
    if not spark.catalog.tableExists(index):
        return None
    vouching, speaking = _hash(log.table, types), _hash(log.table, types, key)
    told = spark.table(index).where(F.col("hash").isin(vouching, speaking))
    found = told.select("hour", "written", (F.col("hash") == vouching).alias("vouches")).collect()
    vouched = {(row.hour, row.written) for row in found if row.vouches}
    spoken_of = {(row.hour, row.written) for row in found if not row.vouches}
    now = {(row.hour, row.written) for row in _hours(spark, log.feed).collect()}
    return [hour for hour, written in now if (hour, written) in spoken_of or (hour, written) not in vouched]


def index_keys(spark: SparkSession, feed: Feed, state: FeedState) -> int:
    """Bring a feed's index up to date; how many hours, table by table, are added to it. Where changes get their keys from
    other hours there is none."""
    if only_markers_tell(feed):
        return 0
    named = [name for name, past in sorted(state.tables.items()) if len(past.sources) == 1]
    published = {name: PublishedTable(spark, name, feed.feed) for name in named}
    types = {name: kinds for name, table in published.items() if (kinds := key_types(table))}
    if not types:
        return 0
    index = keys_table(feed.feed)
    properties = ", ".join(f"'{name}' = '{value}'" for name, value in _PROPERTIES.items())
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {index} (hash bigint, hour string, written bigint) USING iceberg "
        f"TBLPROPERTIES ({properties})"
    )
    check_tables(spark, index)
    hours = _hours(spark, feed).localCheckpoint()
    missing = _missing_hours(spark.table(index), hours, types)
    if not missing:
        return 0
    landed = spark.table(changes_table(feed.feed)).where(is_published(state))
    definitions = load_definitions(landed.withColumn("landed_this_hour", F.lit(False)), feed, state.with_statements)
    added = []
    for name, chosen in missing.items():
        log = TableLog(
            spark=spark, feed=feed, state=state, definitions=definitions, table=name,
            sources=tuple(state.table(name).sources), only=F.col("hour").isin(chosen),
        )  # fmt: skip
        added.append(_spoken_of(published_state(log, published[name], state), types[name], chosen))
    rows = reduce(DataFrame.unionByName, added).join(F.broadcast(hours), "hour")
    rows.select("hash", "hour", "written").sort("hash").writeTo(index).append()
    return sum(map(len, missing.values()))


def keys_table(feed: str) -> str:
    """The full name of a feed's index."""
    return full_name("tidemark", feed, "keys")


def key_types(table: PublishedTable) -> dict[str, str]:
    """The key's columns, in its order, and their types."""
    columns = table.columns()
    return {name: columns[name] for name in table.key()} if columns else {}


def _missing_hours(index: DataFrame, hours: DataFrame, types: Mapping[str, Mapping[str, str]]) -> dict[str, list[str]]:
    """By table, the hours of the log that the index does not vouch for, the newest first."""
    tables = [(name, _text(kinds)) for name, kinds in types.items()]
    known = hours.sparkSession.createDataFrame(tables, "table string, types string")
    every = hours.crossJoin(known.withColumn("hash", F.xxhash64("table", "types")))
    new = every.join(index, ["hash", "hour", "written"], "left_anti")
    of_table = new.groupBy("table").agg(F.sort_array(F.collect_list("hour"), asc=False).alias("hours"))
    return {row.table: row.hours[:_MOST_HOURS] for row in of_table.collect()}


def _spoken_of(view: TableView, types: Mapping[str, str], hours: Sequence[str]) -> DataFrame:
    """``hour`` and ``hash`` of each key that a table's log rows of these hours speak of, and of the table for each hour in
    which all of them tell their key."""
    rows, shape = in_one_notation(view.log.known_rows(), view.shape), view.shape
    keys = F.array(shape.key_struct(F.col("key")))
    moved = F.array(shape.key_struct(F.col("key")), shape.key_struct(F.col("prior_key")))
    each = rows.select("hour", F.explode_outer(F.when(F.col("prior_key").isNull(), keys).otherwise(moved)).alias("key"))
    whole = reduce(and_, (F.col("key")[name].isNotNull() for name in types))
    hashed = F.when(whole, _hash(view.table, types, F.col("key")))
    found = each.select("hour", hashed.alias("hash")).distinct().localCheckpoint()
    untold = {row.hour for row in found.where("hash is null").select("hour").collect()}
    told = view.log.spark.createDataFrame([(hour,) for hour in hours if hour not in untold], "hour string")
    return found.where("hash is not null").unionByName(told.withColumn("hash", _hash(view.table, types)))


def _hours(spark: SparkSession, feed: Feed) -> DataFrame:
    """``hour`` of each partition of the change log, and ``written``: the number of the commit that wrote its newest file."""
    files = spark.table(f"{changes_table(feed.feed)}.entries").where("status < 2")
    return files.groupBy("data_file.partition.hour").agg(F.max("file_sequence_number").alias("written"))


def _hash(table: str, types: Mapping[str, str], key: Column | None = None) -> Column:
    """Of a table and the types of its key; with a ``key``: of that key of it."""
    values = [key[name] for name in types] if key is not None else []
    return F.xxhash64(F.lit(table), F.lit(_text(types)), *values)


def _text(types: Mapping[str, str]) -> str:
    return ", ".join(types.values())
