"""The change log of a feed: ``tidemark.<feed>.changes``, every entry of every landed record, and which of them count.

The predicates over its rows are here and nowhere else: which entries are published, which are new in an hour, which
are changes of a table, and which transactions were rolled back.
"""

from __future__ import annotations

from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.feeds.model import Feed
from tidemark.formats.contract import CHANGES
from tidemark.hours import Hour
from tidemark.lake.catalog import find_table
from tidemark.lake.fenced_writes import current_snapshot, overwrite_unchanged
from tidemark.lake.session import check_tables, create_namespace, full_name
from tidemark.lake.stored_formats import FORMAT, TABLE_FORMAT
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.image_names import IMAGE_NAMES
from tidemark.ledger.quarantine import ENTRY
from tidemark.settings import Settings

_ROW_OPS = ("insert", "update", "delete", "truncate")
_IMAGES = ("key", "prior_key", "before", "after")
# One hour is one partition: no shuffle before the write, and a codec that costs little.
_LOG_PROPERTIES = {
    TABLE_FORMAT: str(FORMAT),
    "format-version": "3",
    "write.distribution-mode": "none",
    "write.parquet.compression-codec": "lz4_raw",
    # Large hours are written table by table: what reads one of them leaves out the row groups of the others.
    "write.parquet.row-group-size-bytes": str(8 * 2**20),
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "50",
    # Nearly every value is a different one: a dictionary of them is built in vain, and costs a tenth of decode.
    **{
        f"write.parquet.dict-encoding-enabled.column.{name}": "false"
        for name in (*(f"{image}.value" for image in _IMAGES), "position", "record", "offset")
    },
    # By their bounds an hour leaves out the files of before, whose values begin alike.
    **{f"write.metadata.metrics.column.{name}": "truncate(64)" for name in ("position", "tx")},
    # No query filters by these columns.
    **{
        f"write.parquet.stats-enabled.column.{name}": "false"
        for name in (*(f"{image}.{part}" for image in _IMAGES for part in ("key", "value")), *IMAGE_NAMES, "object")
    },
}
#: In the summary of a commit: the hour that it decoded, which version of its export, and by which feed file.
_DECODED = "tidemark.decoded"


def changes_table(feed: str) -> str:
    """The full name of a feed's change log."""
    return full_name("tidemark", feed, "changes")


def create_log(spark: SparkSession, feed: str) -> str:
    """Create the feed's change log where it is missing; its full name."""
    table = changes_table(feed)
    create_namespace(spark, "tidemark", feed)
    columns = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in CHANGES)
    names = ", ".join(f"{name} string" for name in IMAGE_NAMES)
    properties = ", ".join(f"'{key}' = '{value}'" for key, value in _LOG_PROPERTIES.items())
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {table} (hour string, version int, {columns}, `table` string, {names}) "
        f"USING iceberg PARTITIONED BY (hour) TBLPROPERTIES ({properties})"
    )
    check_tables(spark, table)
    return table


def log_snapshot(spark: SparkSession, feed: str) -> int | None:
    """The change log's snapshot as it is now; None where it has none."""
    return current_snapshot(spark, changes_table(feed))


def write_hour(rows: DataFrame, feed: Feed, hour: str, version: int, since: int | None) -> int | None:
    """Replace an hour's partition of the log. ``version``: the version of the hour's export that ``rows`` hold. ``since``:
    the log's snapshot before anything was read of which ``rows`` are made. ConflictError where another run has replaced
    the partition since.

    The number of entries written, as the commit says; None where the decoding of another hour has committed since.
    """
    decoded, table, spark = _decoded(feed, hour, version), changes_table(feed.feed), rows.sparkSession
    overwrite_unchanged(rows, table, in_hour(hour), since, {_DECODED: decoded})
    loader = getattr(spark._jvm, "org.apache.iceberg.spark.Spark3Util")
    commit = loader.loadIcebergTable(spark._jsparkSession, table).currentSnapshot().summary()
    return int(commit.get("added-records") or 0) if commit.get(_DECODED) == decoded else None


def is_decoded(settings: Settings, feed: Feed, hour: str, version: int) -> bool:
    """Whether the change log holds this version of the hour's export as today's feed file reads it. Not where this is unknown
    (the hour was decoded so long ago that maintenance has removed the commit)."""
    table = find_table(settings, "tidemark", feed.feed, "changes")
    for snapshot in reversed(table.metadata.snapshots if table else []):
        decoded = snapshot.summary.additional_properties.get(_DECODED, "") if snapshot.summary else ""
        if decoded.startswith(f"{hour} "):
            return decoded == _decoded(feed, hour, version)
    return False


def _decoded(feed: Feed, hour: str, version: int) -> str:
    return f"{hour} {version} {feed.decoded_by}"


def without_entries(rows: DataFrame, others: DataFrame | None) -> DataFrame:
    """Log rows that are none of the ``others`` (ENTRY); None: there are none."""
    return rows if others is None else rows.join(others.select(*ENTRY), ENTRY, "left_anti").select(*rows.columns)


def in_hour(hour: str) -> Column:
    """Whether a log entry landed in the hour."""
    return F.col("hour") == hour


def is_row() -> Column:
    """Whether a log entry is a change of a table."""
    return F.col("op").isin(*_ROW_OPS)


def is_unplaced() -> Column:
    """Whether a log entry is of a record that cannot be decoded, and nothing in it says where it stands."""
    return (F.col("op") == "bad") & F.col("tx").isNull() & F.col("position").isNull()


def published_name(feed: Feed) -> Column:
    """The name under which the feed file publishes a log entry's table now: its own, else
    :func:`tidemark.identifiers.default_name`. An entry that was decoded before may hold another one (``table``)."""
    named = {source: feed.published_name(source) for source in feed.tables}
    name = F.lower(F.substring_index("source_table", ".", -2))
    for source, published in named.items():
        name = F.when(F.col("source_table") == source, F.lit(published)).otherwise(name)
    return name


def of_tables(tables: tuple[str, ...], sources: tuple[str, ...]) -> Column:
    """Whether a log row is of published tables, even if it was decoded when its table had another name."""
    return F.col("table").isin(*tables) | F.col("source_table").isin(*sources)


def is_published(state: FeedState) -> Column:
    """Whether a log entry is part of a publication: its hour has a receipt for the entry's version of the export, or
    for a newer one."""
    spans = state.spans()
    single: dict[int, list[str]] = {}  # by version
    for one in spans:
        if one.first == one.last:
            single.setdefault(one.version, []).append(one.first)
    parts = [(F.col("hour").isin(hours), version) for version, hours in single.items()]
    parts += [(F.col("hour").between(one.first, one.last), one.version) for one in spans if one.first != one.last]
    parts += [(in_hour(hour), published[-1].version) for hour, published in state.again.items()]
    return reduce(or_, (hours & (F.col("version") <= version) for hours, version in parts), F.lit(False))


def is_new(hour: str, state: FeedState) -> Column:
    """Whether a log entry landed in the hour and no publication of the hour has taken account of it yet."""
    return in_hour(hour) & ~is_published(state)


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


def rolled_back(log: DataFrame, state: FeedState, hour: str | None = None) -> DataFrame | None:
    """Transactions (``tx``) that their source rolled back, in what is published and in ``hour``; None where there are
    none. Their changes were never part of any table."""
    if hour is None and not state.rolled_back:
        return None
    entries = is_published(state) if hour is None else is_published(state) | in_hour(hour)
    return F.broadcast(log.where(entries & F.col("tx_rollback")).select("tx").distinct())
