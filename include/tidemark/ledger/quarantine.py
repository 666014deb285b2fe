"""Quarantine: what a feed's hours kept back, whole and with its reason, and the way back.

Each row of the system table ``quarantine`` names the stage that kept it back: decode (a record that cannot be decoded),
assemble (a change that its metadata do not fit, or whose transaction never completed), screen (a key or value that
cannot be read, or that fails a check); or it is ``transaction``: not the change itself was refused, but
another one of its transaction; or ``stopped``: its table cannot go on. ``hour`` is the hour it landed in.
``landed_this_hour`` is true when that hour's own publication kept it back, and false when a later one did that released
it.

A replay is a new version of the hour's manifest that brings no object and *recalls* the quarantine. From there on the
hour goes the ordinary way through all stages, whoever runs it: decode replaces the recalled entries of the change log
by what they are today, and the account of the hour is made without them first. Rows are never removed from the
quarantine: they count until a publication of their hour has recalled them.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, EqualTo, In, LessThanOrEqual
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.errors import ConfigError, ConflictError
from tidemark.feeds.model import Feed
from tidemark.hours import Hour
from tidemark.lake.catalog import read_rows
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.manifest import Manifest, all_objects, load_manifest, save_manifest
from tidemark.ledger.receipts import Recalled
from tidemark.ledger.state_store import load_state
from tidemark.ledger.system_tables import published_rows
from tidemark.settings import Settings

#: The columns that identify an entry of the change log, and a row of the quarantine.
ENTRY = ["object", "record", "entry"]

#: The stage of changes that are refused for what they sent.
SCREEN = "screen"

#: With this begins the reason of changes of which a value fails a check.
CHECK_FAILED = "check failed: "

#: The stage of changes that are not refused themselves, but wait with their transaction.
ALONGSIDE = "transaction"

#: The stage of changes whose table is stopped.
STOPPED = "stopped"

#: The stages of changes that are not bad: they are not counted against the feed's limit.
NOT_BAD = (ALONGSIDE, STOPPED)

#: The stages whose rows count as quarantined in their table's part of the receipt.
OF_TABLES = (SCREEN, *NOT_BAD)

#: With this begins the reason of changes that are given up by the feed's policy for overdue transactions.
NEVER_COMPLETED = "its transaction never completed"

#: Before the record that such a transaction may lack.
PERHAPS = "; perhaps it lacks "

#: How much of a name or a value from a message is shown.
_SHOWN = 60


def beginning(text: Column) -> Column:
    """The beginning of a text from a message, as a reason or a note shows it: without characters that do not print."""
    more = F.when(F.length(text) > _SHOWN, "…").otherwise("")
    return F.concat(F.regexp_replace(F.substring(text, 1, _SHOWN), r"[\p{C}\p{Zl}\p{Zp}]", "␣"), more)


def record_place() -> Column:
    """Where the record of a log entry is, for a person."""
    return F.concat(F.lit("record "), F.col("record").cast("string"), F.lit(" of "), F.col("object"))


def never_completed() -> Column:
    """Whether a change was given up because its transaction never completed (``reason``)."""
    return F.startswith(F.col("reason"), F.lit(NEVER_COMPLETED))


def kept_back(spark: SparkSession, feed: str, state: FeedState) -> DataFrame:
    """The quarantine's rows that count: of publications, and not recalled since."""
    return published_rows(spark, feed, "quarantine", state).where(_not_recalled(state))


def recalled(spark: SparkSession, feed: str, manifest: Manifest, state: FeedState) -> DataFrame | None:
    """The rows that the hour's manifest recalls and no publication has recalled yet; None where it recalls nothing."""
    if manifest.recalls <= state.recalls.get(manifest.hour, 0):
        return None
    of_hour = (F.col("hour") == manifest.hour) & (F.col("sequence") <= manifest.recalls)
    return kept_back(spark, feed, state).where(of_hour)


def count_recalled(rows: DataFrame) -> Recalled:
    """How the recalled rows of one hour were accounted for in its receipt."""
    groups = (
        rows.groupBy("stage", "landed_this_hour", "table")
        .agg(F.count_if(F.col("entry") == 0).alias("records"), F.count(F.lit(1)).alias("entries"))
        .collect()
    )
    kinds = {"bad": 0, "refused": 0, "held": 0, "alongside": 0}
    tables: dict[str, int] = {}
    for group in groups:
        if not group.landed_this_hour:
            kinds["held"] += group.entries
        elif group.stage in OF_TABLES:
            tables[group.table] = tables.get(group.table, 0) + group.entries
            kinds["alongside"] += group.entries if group.stage in NOT_BAD else 0
        else:
            kinds["bad" if group.stage == "decode" else "refused"] += group.entries
    records = sum(group.records for group in groups)
    return Recalled(landed=records, split=sum(group.entries for group in groups) - records, tables=tables, **kinds)


def waiting_whole(kept: DataFrame) -> DataFrame:
    """Of quarantined rows: those of transactions that wait whole, with their ``tx``. Only of these ``change`` names it, and
    of transactions that never completed."""
    named = kept.withColumn("tx", F.get_json_object("change", "$.tx"))
    whole = F.col("stage").isin(*OF_TABLES) | never_completed()
    return named.where(F.col("tx").isNotNull() & whole)


def _not_recalled(state: FeedState) -> Column:
    if not state.recalls:
        return F.lit(True)
    pairs = (F.lit(value) for pair in state.recalls.items() for value in pair)
    recalls = F.element_at(F.create_map(*pairs), F.col("hour"))
    return F.coalesce(F.col("sequence") > recalls, F.lit(True))


def list_kept_back(
    settings: Settings,
    feed: str,
    hour: str | None = None,
    columns: tuple[str, ...] = ("*",),
    objects: Collection[str] | None = None,
) -> list[dict[str, Any]]:
    """The rows that count, read without Spark, by hour, object, record and entry; or some of their columns beside these.
    ``hour`` and ``objects``: only those that landed in it, and in these objects.
    Those of the last attempt are among them, though its hour stopped before it was published: an entry that it looked at
    again is listed as the attempt saw it."""
    state = load_state(settings, feed)
    where: BooleanExpression = EqualTo(term="hour", value=hour) if hour else AlwaysTrue()
    if objects is not None:
        where = And(where, In(term="object", literals=list(objects)))
    if columns != ("*",):
        columns = ("sequence", "hour", *ENTRY, *columns)
    newest: dict[tuple[Any, ...], dict[str, Any]] = {}
    rows = read_rows(settings, "tidemark", feed, "quarantine", where=where, columns=columns)
    for row in sorted(rows, key=lambda r: r["sequence"]):
        shown = state.counts(row["sequence"]) or row["sequence"] == state.taken
        if shown and row["sequence"] > state.recalls.get(row["hour"], 0):
            newest[tuple(row[name] for name in ("hour", *ENTRY))] = row
    return [newest[at] for at in sorted(newest)]


def list_unplaced(settings: Settings, feed: str) -> list[dict[str, Any]]:
    """Of these, the records that cannot be decoded and do not say what they are of: hour, object and record."""
    rows = list_kept_back(settings, feed, columns=("stage", "change", "position"))
    return [row for row in rows if row["stage"] == "decode" and row["change"] is None and row["position"] is None]


def hours_in_quarantine(settings: Settings, feed: str, first: str | None = None, last: str | None = None) -> list[Hour]:
    """The hours, oldest first, of which anything is in quarantine; from ``first`` to ``last``, both included."""
    state = load_state(settings, feed)
    rows = read_rows(
        settings, "tidemark", feed, "quarantine", columns=("sequence", "hour"),
        where=LessThanOrEqual(term="sequence", value=state.last_sequence),
    )  # fmt: skip
    counted = (row for row in rows if state.counts(row["sequence"]))
    hours = {Hour.parse(r["hour"]) for r in counted if r["sequence"] > state.recalls.get(r["hour"], 0)}
    return sorted(hour for hour in hours if (first or hour) <= hour <= (last or hour))


def recall(feed: Feed, hour: str, settings: Settings) -> bool:
    """Write the manifest version that recalls what the hour has in quarantine. False when there is nothing to recall
    and no replay of the hour waits to be run.

    ConfigError for an hour that was never published: to run it is enough.
    """
    for _ in range(3):  # again when another run wrote the version meanwhile
        state, manifest = load_state(settings, feed.feed), all_objects(settings, feed.feed, hour)
        if not state.has(hour):
            raise ConfigError(
                "the hour was never published, so that nothing of it has to be replayed",
                fix=f"`tidemark run {feed.feed} --hour {hour}` decodes all of it as the feed file is now",
                feed=feed.feed,
                hour=hour,
            )
        if manifest.recalls > state.recalls.get(hour, 0):
            return True
        if hour not in hours_in_quarantine(settings, feed.feed, hour, hour):
            return False
        newest = load_manifest(settings, feed.feed, hour)
        again = newest.model_copy(
            update={
                "version": newest.version + 1,
                "created_at": datetime.now(UTC),
                "recalls": state.last_sequence,
            }
        )
        if save_manifest(settings, again):
            return True
    raise ConflictError(
        "other runs land or replay this hour at the same time", fix="replay it again when they have ended",
        feed=feed.feed, hour=hour,
    )  # fmt: skip
