"""In which hours a key was spoken of: an index of the change log, which maintenance keeps and `tidemark explain` reads.

``tidemark.<feed>.keys`` has a row for each key (by its hash) that an hour's log rows of a table speak of, and one without a
hash where all rows of that table and hour are in it. It may lack hours, and may be removed at any time: what it does not
vouch for is looked up in the log. It vouches for an hour while the log has the files that were read, and for a table while
its key has the types of then.
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


def hours_of_key(log: TableLog, key: Column, types: Mapping[str, str]) -> list[str] | None:
    """The hours whose log rows may speak of a key of the table; None: any may. ``key``: a struct of ``types``, by column."""
    spark, index = log.spark, keys_table(log.feed.feed)
    if not spark.catalog.tableExists(index):
        return None
    of_table = (F.col("table") == log.table) & (F.col("types") == _text(types))
    told = spark.table(index).where(of_table & (F.col("hash").isNull() | (F.col("hash") == _hash(key, types))))
    found = told.select("hour", "written", F.col("hash").isNull().alias("vouched")).collect()
    vouched = {(row.hour, row.written) for row in found if row.vouched}
    spoken_of = {(row.hour, row.written) for row in found if not row.vouched}
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
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {index} (`table` string, types string, hour string, written bigint, hash bigint) "
        "USING iceberg TBLPROPERTIES ('format-version' = '3', 'write.distribution-mode' = 'none', "
        f"'{TABLE_FORMAT}' = '{FORMAT}')"
    )
    check_tables(spark, index)
    hours = _hours(spark, feed).localCheckpoint()
    missing = _missing_hours(spark.table(index), hours, types)
    if not missing:
        return 0
    landed = spark.table(changes_table(feed.feed)).where(is_published(state))
    definitions = load_definitions(landed.withColumn("landed_this_hour", F.lit(False)), feed)
    added = []
    for name, chosen in missing.items():
        log = TableLog(
            spark=spark, feed=feed, state=state, definitions=definitions, table=name,
            sources=tuple(state.table(name).sources), only=F.col("hour").isin(chosen),
        )  # fmt: skip
        keys = _spoken_of(published_state(log, published[name], state), types[name], chosen)
        added.append(keys.withColumns({"table": F.lit(name), "types": F.lit(_text(types[name]))}))
    rows = reduce(DataFrame.unionByName, added).join(F.broadcast(hours), "hour")
    rows.select("table", "types", "hour", "written", "hash").sort("table", "hash").writeTo(index).append()
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
    every = hours.crossJoin(hours.sparkSession.createDataFrame(tables, "table string, types string"))
    new = every.join(index.where("hash is null"), ["table", "types", "hour", "written"], "left_anti")
    of_table = new.groupBy("table").agg(F.sort_array(F.collect_list("hour"), asc=False).alias("hours"))
    return {row.table: row.hours[:_MOST_HOURS] for row in of_table.collect()}


def _spoken_of(view: TableView, types: Mapping[str, str], hours: Sequence[str]) -> DataFrame:
    """``hour`` and ``hash`` of each key that a table's log rows of these hours speak of, and a row without a hash for each
    hour in which all of them tell their key."""
    rows, shape = in_one_notation(view.log.known_rows(), view.shape), view.shape
    keys = F.array(shape.key_struct(F.col("key")))
    moved = F.array(shape.key_struct(F.col("key")), shape.key_struct(F.col("prior_key")))
    each = rows.select("hour", F.explode(F.when(F.col("prior_key").isNull(), keys).otherwise(moved)).alias("key"))
    whole = reduce(and_, (F.col("key")[name].isNotNull() for name in types))
    found = each.select("hour", F.when(whole, _hash(F.col("key"), types)).alias("hash")).distinct().localCheckpoint()
    untold = {row.hour for row in found.where("hash is null").select("hour").collect()}
    vouched = [(hour, None) for hour in hours if hour not in untold]
    return found.where("hash is not null").unionByName(view.log.spark.createDataFrame(vouched, found.schema))


def _hours(spark: SparkSession, feed: Feed) -> DataFrame:
    """``hour`` of each partition of the change log, and ``written``: the number of the commit that wrote its newest file."""
    files = spark.table(f"{changes_table(feed.feed)}.entries").where("status < 2")
    return files.groupBy("data_file.partition.hour").agg(F.max("file_sequence_number").alias("written"))


def _hash(key: Column, types: Mapping[str, str]) -> Column:
    return F.xxhash64(*(key[name] for name in types))


def _text(types: Mapping[str, str]) -> str:
    return ", ".join(types.values())
