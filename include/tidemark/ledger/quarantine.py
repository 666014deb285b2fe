"""Quarantine: what a feed's hours kept back, whole and with its reason, and the way back.

Each row of the book names the stage that kept it back: decode (a record that cannot be decoded), assemble (a change
whose metadata or transaction is missing), compact (a key or value that cannot be read), validate (its row failed a
check). ``hour`` is the hour it landed in, ``landed_this_hour``
whether that hour's own publication kept it back (not: a later one
that released it).

A replay is a new version of the hour's manifest that brings no object and *recalls* the quarantine. From there on the
hour goes the ordinary way through all stages, by whomever it is run: decode replaces the recalled entries of the change
log by what they are today, and the account of the hour is made without them first. Rows of the book are never removed:
they count until a publication of their hour has recalled them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pyiceberg.expressions import BooleanExpression, EqualTo, LessThanOrEqual
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.errors import ConfigError, ConflictError
from tidemark.feeds.model import Feed
from tidemark.lake.catalog import read_rows
from tidemark.ledger.manifest import Manifest, all_objects, load_manifest, save_manifest
from tidemark.ledger.publication_history import PublicationHistory, load_history
from tidemark.ledger.receipts import Recalled
from tidemark.ledger.system_tables import system_table
from tidemark.settings import Settings

#: What names an entry of the change log, and a row of the book.
ENTRY = ["object", "record", "entry"]

#: Why a change is given up by the feed's policy for overdue transactions.
NEVER_COMPLETED = "its transaction never completed"


def kept_back(spark: SparkSession, feed: str, published: PublicationHistory) -> DataFrame:
    """Rows of the book that count: of publications, and not recalled since."""
    rows = spark.table(system_table(feed, "quarantine"))
    return rows.where((F.col("sequence") <= published.last_sequence) & _not_recalled(published))


def recalled(spark: SparkSession, feed: str, manifest: Manifest, published: PublicationHistory) -> DataFrame | None:
    """Rows of the book that the hour's manifest recalls and no publication has yet; None where it recalls nothing."""
    if manifest.recalls <= published.recalls.get(manifest.hour, 0):
        return None
    mine = (F.col("hour") == manifest.hour) & (F.col("sequence") <= manifest.recalls)
    return kept_back(spark, feed, published).where(mine)


def count_recalled(rows: DataFrame) -> Recalled:
    """How recalled rows of one hour's book were accounted for in its receipt."""
    said = (
        rows.groupBy("stage", "landed_this_hour", "table")
        .agg(F.count_if(F.col("entry") == 0), F.count(F.lit(1)))
        .collect()
    )
    kinds = {"bad": 0, "refused": 0, "held": 0}
    tables: dict[str, int] = {}
    for stage, landed, table, _, count in said:
        if landed and stage in ("compact", "validate"):
            tables[table] = tables.get(table, 0) + count
        else:
            kinds["held" if not landed else "bad" if stage == "decode" else "refused"] += count
    landed, all_ = sum(row[3] for row in said), sum(row[4] for row in said)
    return Recalled(landed=landed, split=all_ - landed, tables=tables, **kinds)


def _not_recalled(published: PublicationHistory) -> Column:
    if not published.recalls:
        return F.lit(True)
    pairs = (F.lit(value) for pair in published.recalls.items() for value in pair)
    recalls = F.element_at(F.create_map(*pairs), F.col("hour"))
    return F.coalesce(F.col("sequence") > recalls, F.lit(True))


def list_kept_back(settings: Settings, feed: str, hour: str | None = None) -> list[dict[str, Any]]:
    """The book's rows that count, read without Spark, also of an hour that stopped before publishing: an entry that
    such an attempt looked at again stands as it saw it. By hour, object, record and entry."""
    published = load_history(settings, feed)
    where: BooleanExpression | None = EqualTo(term="hour", value=hour) if hour else None
    newest: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in sorted(read_rows(settings, "tidemark", feed, "quarantine", where=where), key=lambda r: r["sequence"]):
        if row["sequence"] > published.recalls.get(row["hour"], 0):
            newest[tuple(row[name] for name in ("hour", *ENTRY))] = row
    return [newest[at] for at in sorted(newest)]


def hours_in_quarantine(settings: Settings, feed: str, first: str | None = None, last: str | None = None) -> list[str]:
    """The hours, oldest first, whose publications keep anything back; between two of them, both included."""
    published = load_history(settings, feed)
    named = ("sequence", "hour")
    rows = read_rows(
        settings, "tidemark", feed, "quarantine", columns=named,
        where=LessThanOrEqual(term="sequence", value=published.last_sequence),
    )  # fmt: skip
    hours = {r["hour"] for r in rows if r["sequence"] > published.recalls.get(r["hour"], 0)}
    return sorted(hour for hour in hours if (first or hour) <= hour <= (last or hour))


def recall(feed: Feed, hour: str, settings: Settings) -> bool:
    """Write the manifest version that recalls what the hour has in quarantine. False: there is nothing to recall, and
    no replay of the hour waits to be run.

    ConfigError for an hour that was never published: to run it is enough.
    """
    for _ in range(3):  # again when another run wrote the version meanwhile
        published, manifest = load_history(settings, feed.feed), all_objects(settings, feed.feed, hour)
        if published.of_hour(hour) is None:
            raise ConfigError(
                "the hour was never published, so that nothing of it has to be replayed",
                fix=f"`tidemark run {feed.feed} --hour {hour}` decodes all of it as the feed file is now",
                feed=feed.feed,
                hour=hour,
            )
        if manifest.recalls > published.recalls.get(hour, 0):
            return True
        if hour not in hours_in_quarantine(settings, feed.feed, hour, hour):
            return False
        newest = load_manifest(settings, feed.feed, hour)
        again = newest.model_copy(
            update={
                "version": newest.version + 1,
                "created_at": datetime.now(UTC),
                "recalls": published.last_sequence,
            }
        )
        if save_manifest(settings, again):
            return True
    raise ConflictError(
        "other runs land or replay this hour at the same time", fix="replay it again when they have ended",
        feed=feed.feed, hour=hour,
    )  # fmt: skip
