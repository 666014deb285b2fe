"""What counts of the quarantine (:mod:`tidemark.ledger.quarantine`), for Spark."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.manifest import Manifest
from tidemark.ledger.quarantine import CHECK_FAILED, ENTRY, NEVER_COMPLETED, NOT_BAD, OF_TABLES, RELEASED, SCREEN
from tidemark.ledger.receipts import Recalled
from tidemark.ledger.system_tables import published_rows

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
    """The quarantine's rows that count: of publications, and neither recalled since nor taken out again."""
    rows = _with_released(spark, feed, state).where(_not_recalled(state))
    return rows.where("taken_out_by is null or taken_out_by < sequence").drop("taken_out_by")


def kept_back_at_first(spark: SparkSession, feed: str, state: FeedState) -> DataFrame:
    """The quarantine's rows that the receipts of their hours count: also those that were taken out again since."""
    rows = _with_released(spark, feed, state)
    return rows.where(_not_recalled(state) | F.col("taken_out_by").isNotNull()).drop("taken_out_by")


def _with_released(spark: SparkSession, feed: str, state: FeedState) -> DataFrame:
    """The rows of publications, with the last one that took their entry out of quarantine (``taken_out_by``)."""
    rows = published_rows(spark, feed, "quarantine", state)
    if not state.took_up:
        return rows.withColumn("taken_out_by", F.lit(None).cast("bigint"))
    is_released = F.col("stage") == RELEASED
    taken_out = rows.where(is_released).groupBy(*ENTRY).agg(F.max("sequence").alias("taken_out_by"))
    return rows.where(~is_released).join(F.broadcast(taken_out), ENTRY, "left")


def recalled(spark: SparkSession, feed: str, manifest: Manifest, state: FeedState) -> DataFrame | None:
    """The rows that the hour's manifest recalls and no publication has recalled yet; None where it recalls nothing."""
    if manifest.recalls <= state.recalls.get(manifest.hour, 0):
        return None
    of_hour = (F.col("hour") == manifest.hour) & (F.col("sequence") <= manifest.recalls)
    return kept_back(spark, feed, state).where(of_hour)


def count_recalled(rows: DataFrame) -> Recalled:
    """How the recalled rows of one hour were accounted for in its receipt."""
    groups = (
        rows.groupBy("stage", "landed_this_hour", "table", fails_a_check().alias("fails"))
        .agg(F.count_if(F.col("entry") == 0).alias("records"), F.count(F.lit(1)).alias("entries"))
        .collect()
    )
    kinds = {"bad": 0, "refused": 0, "held": 0, "alongside": 0}
    tables: dict[str, int] = {}
    checked: dict[str, int] = {}
    for group in groups:
        if group.fails and group.landed_this_hour:
            checked[group.table] = checked.get(group.table, 0) + group.entries
        if not group.landed_this_hour:
            kinds["held"] += group.entries
        elif group.stage in OF_TABLES:
            tables[group.table] = tables.get(group.table, 0) + group.entries
            kinds["alongside"] += group.entries if group.stage in NOT_BAD else 0
        else:
            kinds["bad" if group.stage == "decode" else "refused"] += group.entries
    records = sum(group.records for group in groups)
    split = sum(group.entries for group in groups) - records
    return Recalled(landed=records, split=split, tables=tables, checked=checked, **kinds)


def fails_a_check() -> Column:
    """Whether of a quarantined row a value itself fails a check (``stage``, ``reason``)."""
    return (F.col("stage") == SCREEN) & F.startswith("reason", F.lit(CHECK_FAILED))


def waiting_whole(kept: DataFrame, told: DataFrame | None = None) -> DataFrame:
    """Of quarantined rows: those of transactions that wait whole, with their ``tx``. Only of these ``change`` names it, and
    of transactions that never completed. ``told``: by ``hour`` and entry the transactions that changes are of now
    (``told.tx``; null: of none); None: nothing else names them."""
    named, whole = F.get_json_object("change", "$.tx"), F.col("stage").isin(*OF_TABLES) | never_completed()
    if told is not None:
        kept = kept.join(told, ["hour", *ENTRY], "left")
        named = F.when(F.col("told").isNotNull(), F.col("told.tx")).otherwise(named)
    return kept.withColumn("tx", named).where(F.col("tx").isNotNull() & whole)


def _not_recalled(state: FeedState) -> Column:
    if not state.recalls:
        return F.lit(True)
    pairs = (F.lit(value) for pair in state.recalls.items() for value in pair)
    recalls = F.element_at(F.create_map(*pairs), F.col("hour"))
    return F.coalesce(F.col("sequence") > recalls, F.lit(True))
