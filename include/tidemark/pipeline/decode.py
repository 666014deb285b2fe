"""Decode: the landed objects of one hour become its partition of the feed's change log.

Decode depends on its hour alone: the same landed objects give the same partition, so that hours can be decoded in
parallel and again. The raw bytes are read once. The log holds an entry for *every* record, also for control records and
for records that could not be decoded (op ``bad``, with their bytes), so that everything that landed can be counted
there.

What is published of the hour stays as it was published, even if the feed file has changed since. Only the objects of a
newer version of the export are decoded, and the quarantined entries that a replay recalls. What is decoded and not published
is decoded again where the feed file has changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from tidemark.containers import load_container
from tidemark.containers.objects import behind
from tidemark.crash import jvm_kinds
from tidemark.errors import ConfigError, ExportError
from tidemark.feeds.model import Feed
from tidemark.formats import load_format
from tidemark.formats.contract import CHANGES
from tidemark.formats.ddl.named_tables import OTHERS_STAY, of_dropped_database
from tidemark.identifiers import PUBLISHED_NAME, is_published_name
from tidemark.ledger.change_log import create_log, in_hour, published_name, write_hour
from tidemark.ledger.hour_run import HourRun
from tidemark.ledger.image_names import image_names
from tidemark.ledger.kept_back import recalled
from tidemark.ledger.manifest import Manifest
from tidemark.ledger.quarantine import ENTRY
from tidemark.settings import Settings
from tidemark.storage.landed_columns import landed_version


def decode(run: HourRun, since: int | None) -> int | None:
    """Replace what is not published of the hour's partition of ``tidemark.<feed>.changes`` by what the manifest's
    objects hold. ``since``: the log's snapshot before the manifest and the state were read.

    Reads the landing objects, the quarantine when the manifest recalls it, and what is published of the partition;
    writes the partition. An hour without objects leaves an empty one. The number of its entries, where it is known.
    """
    spark, feed, manifest, state = run.spark, run.feed, run.manifest, run.state
    table, version = create_log(spark, feed.feed), state.version_of(manifest.hour)
    decoded = _changes_of(run, [landed.path for landed in manifest.objects if landed.version > version])
    rows = decoded.select(F.lit(manifest.hour).alias("hour"), landed_version(F.col("object")).alias("version"), "*")
    if version:
        kept = spark.table(table).where(in_hour(manifest.hour) & (F.col("version") <= version))
        taken = recalled(spark, feed.feed, manifest, state)
        if taken is not None:
            taken = taken.localCheckpoint()
            published = kept
            kept = published.join(F.broadcast(taken.select(*ENTRY)), ENTRY, "left_anti").select(*published.columns)
            again = _again(run, taken, kept, published)
            own_version = F.lit(manifest.version).alias("version")
            rows = rows.unionByName(again.select(F.lit(manifest.hour).alias("hour"), own_version, "*"))
        rows = kept.unionByName(rows)
    if not manifest.small:
        # Each table is folded by itself, and then reads of the log what holds its rows, however many tables there are.
        rows = rows.sortWithinPartitions(F.xxhash64("table"))
    return write_hour(rows, feed, manifest.hour, manifest.version, since)


#: Where storage did not answer, Spark says as well that it cannot read the file.
_NO_ANSWER = ("software.amazon.", "org.apache.hadoop.fs.s3a.", "java.net.")


@contextmanager
def unreadable_named(manifest: Manifest) -> Iterator[None]:
    """ExportError in place of Spark's when it cannot read a landed object: its bytes were spoilt since it landed, or inside
    a block that landing does not look into. ConfigError where it is there, but not for the executors. A container's own
    ExportError gets the hour."""
    try:
        yield
    except ExportError as error:
        error.feed, error.hour = manifest.feed, manifest.hour
        raise
    except (Py4JJavaError, PySparkException) as error:
        _, _, told = str(error).partition("FAILED_READ_FILE")
        first = unquote(told.partition("\n")[0])
        landed = next((landed for landed in manifest.objects if landed.path in first), None)
        if landed is None or any(kind.startswith(_NO_ANSWER) for kind in jvm_kinds(error)):
            raise
        if told.startswith(".FILE_NOT_EXIST"):
            raise ConfigError(
                "the executors do not see its landed copy",
                fix="put the landing (TIDEMARK_LANDING) on S3, or on a file system that all nodes mount at the same path",
                feed=manifest.feed,
                hour=manifest.hour,
                object=landed.path,
            ) from error
        fix = f"mend {landed.source} where it is damaged, then `tidemark land {manifest.feed} --hour {manifest.hour} --anew`"
        raise ExportError(
            "its landed copy cannot be read", fix=fix, feed=manifest.feed, hour=manifest.hour, object=landed.path
        ) from error


def _changes_of(run: HourRun, wanted: list[str]) -> DataFrame:
    """CHANGES of some of the hour's objects. Where records are understood by those around them, all others of the hour are
    read with them: one that lands later can hold what stands behind an earlier one's."""
    objects, by_neighbours = run.manifest.objects, load_format(run.feed.format["type"]).BY_NEIGHBOURS
    read = objects if by_neighbours and wanted else [landed for landed in objects if landed.path in wanted]
    paths = [f"{run.settings.landing_root}/{landed.path}" for landed in read]
    # What another container saw of an object says nothing of its records in this one.
    plain = all(one.plain and one.contained_by == run.feed.contained_by for one in read)
    found = changes(run.spark, run.feed, paths, run.settings, plain=plain)
    return found.where(F.col("object").isin(wanted)) if len(read) > len(wanted) else found


def _again(run: HourRun, taken: DataFrame, kept: DataFrame, published: DataFrame) -> DataFrame:
    """Entries ``taken`` back from quarantine as today's feed file decodes them: same columns as :func:`changes`.

    An object of which nothing is ``kept`` of what is ``published`` is decoded whole: its records may begin and end elsewhere
    now. Of the other objects, the records that were taken are decoded, or, of a record that holds more, only its taken
    entries; and where it drops a database, all that :func:`not_emptied` gives.
    """
    decoded = _changes_of(run, [row.object for row in taken.select("object").distinct().collect()])
    record = ["object", "record"]
    parts = taken.join(kept, "object", "left_semi").select(*taken.columns).localCheckpoint()
    if parts.isEmpty():
        return decoded
    _refuse_other_records(run, parts)
    decoded = decoded.localCheckpoint()
    in_parts = F.broadcast(parts.select("object").distinct())
    taken_records = F.broadcast(parts.select(*record).distinct())
    places = F.broadcast(parts.select(*ENTRY, F.lit(True).alias("taken")).distinct())
    before = published.select(*ENTRY, "kind", "op", "source_table", "problem").join(taken_records, record, "left_semi")
    before = before.join(places, ENTRY, "left").localCheckpoint()
    beside = before.where("taken is null")
    shared = F.broadcast(beside.select(*record).distinct())
    dropped = F.broadcast(beside.where(of_dropped_database(F.col("kind"), F.col("op"))).select(*record).distinct())
    whole_records = taken_records.join(shared, record, "left_anti")
    entries = parts.join(shared, record, "left_semi").join(dropped, record, "left_anti").select(*ENTRY)
    if not entries.join(decoded, ENTRY, "left_anti").isEmpty():
        raise _cut_elsewhere(run)
    chosen = [
        decoded.join(in_parts, "object", "left_anti"),
        decoded.join(F.broadcast(whole_records), record, "left_semi"),
        decoded.join(F.broadcast(entries), ENTRY, "left_semi"),
    ]
    if not dropped.isEmpty():
        of_dropped = decoded.join(dropped, record, "left_semi").select(*decoded.columns)
        new = not_emptied(of_dropped, beside).localCheckpoint()
        _refuse_lost_tables(run, before.where("taken").join(dropped, record, "left_semi"), new)
        chosen.append(new)
    return reduce(DataFrame.unionByName, (rows.select(*decoded.columns) for rows in chosen))


def not_emptied(decoded: DataFrame, kept: DataFrame) -> DataFrame:
    """What records that drop a database are ``decoded`` to today, without the tables that ``kept`` entries of them emptied.

    Which number each of their entries has depends on the feed file: so they are told by their tables, and take the numbers
    that are free, in their order. By the same feed file these are those that they had.
    """
    record = ["object", "record"]
    used = kept.groupBy(*record).agg(F.collect_set("entry").alias("used"))
    emptied = kept.select(*record, "source_table").distinct()
    new = decoded.join(F.broadcast(emptied), [*record, "source_table"], "left_anti")
    which = F.row_number().over(Window.partitionBy(*record).orderBy("entry"))
    numbered = new.withColumn("which", which).join(F.broadcast(used), record)
    free = F.array_except(F.sequence(F.lit(0), F.col("which") + F.size("used")), "used")
    rows: DataFrame = numbered.withColumn("entry", F.element_at(free, F.col("which"))).select(*decoded.columns)
    return rows


def _refuse_lost_tables(run: HourRun, taken: DataFrame, new: DataFrame) -> None:
    """ConfigError where what is ``taken`` of dropped databases is of tables that nothing ``new`` is of, nor of all others."""
    record = ["object", "record"]
    left = taken.join(new.where(F.col("problem") == OTHERS_STAY), record, "left_anti")
    table = F.coalesce("source_table", F.lit(""))  # of which table a problem is, only its text says
    of_others = F.coalesce(F.col("problem") == OTHERS_STAY, F.lit(False))
    tables = new.select(*record, F.explode(F.array(F.lit(""), table)).alias("of"))
    named = left.withColumn("of", F.when(of_others, OTHERS_STAY).otherwise(table))
    if not named.join(tables, [*record, "of"], "left_anti").isEmpty():
        raise ConfigError(
            "a database is dropped, and of its tables that are in quarantine for it, today's feed file tells nothing",
            fix="set `tables` and `undeclared` back to what they were when the hour was published",
            feed=run.feed.feed,
            hour=run.hour,
        )


def _refuse_other_records(run: HourRun, parts: DataFrame) -> None:
    """ExportError when a taken record has other bytes by today's feed file: its number is that of another record."""
    objects = [row.object for row in parts.select("object").distinct().collect()]
    paths = [f"{run.settings.landing_root}/{name}" for name in objects]
    records = _records(run.spark, run.feed, paths, run.settings).withColumn("raw", F.col("raw").cast("binary"))
    known = parts.where("raw is not null").select("object", "record", "raw").distinct()
    if not known.join(records, ["object", "record", "raw"], "left_anti").isEmpty():
        raise _cut_elsewhere(run)


def _cut_elsewhere(run: HourRun) -> ExportError:
    return ExportError(
        "today's feed file finds other records in an object of which some are published already: which of them are new "
        "cannot be told",
        fix="set the options of `container` back to what they were when the hour was published",
        feed=run.feed.feed,
        hour=run.hour,
    )


def changes(spark: SparkSession, feed: Feed, paths: list[str], settings: Settings, *, plain: bool = False) -> DataFrame:
    """CHANGES of landed objects, lazily, plus ``table`` (the published name) and :func:`image_names`. ``object`` is
    relative to the landing. ``plain``: the manifest says so of all of them."""
    if not paths:
        return (
            spark.createDataFrame([], CHANGES)
            .withColumn("table", F.lit(None).cast("string"))
            .select("*", *image_names())
        )
    records, table = _records(spark, feed, paths, settings, plain=plain), published_name(feed)
    decoded = load_format(feed.format["type"]).decode(records, feed, feed.format_options)
    judged = decoded.withColumns({"table": table, "problem": F.coalesce("problem", _unpublishable(feed, table))})
    bad = F.col("problem").isNotNull()
    kept = {"op": F.when(bad, "bad").otherwise(F.col("op")), "raw": F.when(bad, F.col("raw"))}
    listed: DataFrame = judged.select(
        *(kept.get(field.name, F.col(field.name)).alias(field.name) for field in CHANGES), "table", *image_names()
    )
    return listed


def _records(
    spark: SparkSession, feed: Feed, paths: list[str], settings: Settings, *, plain: bool = False
) -> DataFrame:
    """RECORDS of landed objects; ``object`` is relative to the landing, and a record of a foreign topic a problem."""
    container = load_container(feed.container["type"])
    records: DataFrame = container.read(spark, paths, feed.container_options, plain=plain)
    name = behind(F.col("object"), len(settings.landing_root.encode()) + 1)
    return records.withColumns({"object": name, "problem": F.coalesce("problem", _foreign(feed))})


def _foreign(feed: Feed) -> Column:
    """A record of a topic that the feed does not have: an object of another feed lies among this one's."""
    known = F.col("topic").isin(feed.topics)
    return F.when(~known, F.concat(F.lit("a record of topic "), F.col("topic"), F.lit(": not a topic of this feed")))


def _unpublishable(feed: Feed, table: Column) -> Column:
    """Why a row's ``table`` cannot be published: a hostile or overlong name, or a table the feed refuses.

    A feed that refuses tables takes what is stated of them all the same: of a copy that takes the place of a table that it
    has, and a rename of such a table, which Canal names by the new name.
    """
    ops = ["insert", "update", "delete", "truncate", *(["schema"] if feed.undeclared == "publish" else [])]
    row, source = F.col("op").isin(ops), F.col("source_table")
    named = F.concat(F.lit("table "), F.substring(source, 1, 200))
    # Names from the feed file are known to be good: only the others cost a regular expression per row.
    strange = row & ~F.coalesce(
        source.isin([name for name in feed.tables if is_published_name(feed.published_name(name))]), F.lit(False)
    )
    publishable = table.rlike(rf"^(?:{PUBLISHED_NAME})\z")
    return F.when(
        strange,
        F.when(
            ~F.coalesce(publishable, F.lit(False)),
            F.concat(named, F.lit(" cannot be published under this name: give it one under tables in the feed file")),
        ).when(
            ~source.isin(list(feed.tables)) & F.lit(feed.undeclared == "quarantine"),
            F.concat(named, F.lit(" is not in the feed file, and `undeclared` is quarantine")),
        ),
    )
