"""The refused changes that take with them what belongs to them: those of which no good copy has come
(:mod:`tidemark.changelog.good_copies`). They may be of an hour before, and the other half of their key change of this one."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.changelog.good_copies import without_good_copy
from tidemark.changelog.ties import edges_with, tied
from tidemark.ledger.change_log import changes_table, in_hour, is_published, without_entries
from tidemark.ledger.kept_back import kept_back
from tidemark.ledger.quarantine import ENTRY, OTHER_HALF, SCREEN
from tidemark.pipeline.hour_changes import HourChanges

#: The text of a key that is not known.
_UNKNOWN = "[]"
#: What the quarantine keeps of a half of a key change.
_HALF = "op string, key map<string, string>, prior_key map<string, string>"


def breaking_changes(hour: HourChanges, refused: DataFrame) -> DataFrame:
    """Of refused log entries, or records that cannot be decoded, those of which neither the hour nor what is published has a
    good copy. Same columns."""
    run, assembled, withheld = hour.run, hour.assembled, hour.withheld
    entries, refused = _entries(hour).where(F.col("op") != "bad"), refused.localCheckpoint()
    not_good = [refused, assembled.refused, withheld.rows if withheld is not None else None, _still_kept(hour)]
    named = [rows.select(*ENTRY) for rows in not_good if rows is not None]
    good = without_entries(entries, reduce(DataFrame.unionByName, named))
    until = max(run.state.places_until, assembled.places_until)
    return without_good_copy(refused, good, run.feed, run.state, until)


def refused_before(hour: HourChanges) -> DataFrame | None:
    """The changes in quarantine that are refused themselves, and of whose key change the hour has the other half: log rows
    with ``stage`` and ``reason``; None: there are none."""
    if (kept := _still_kept(hour)) is None:
        return None
    own = kept.where((F.col("stage") == SCREEN) & ~F.startswith("reason", F.lit(OTHER_HALF)))
    told = own.select(
        *ENTRY, "hour", "table", "stage", "reason", "position", F.from_json("change", _HALF).alias("told")
    )
    halves = told.where(F.col("told.op").isin("delete", "insert")).select(*told.drop("told").columns, "told.*")
    near = hour.assembled.every_row.join(
        F.broadcast(halves.select("table", "position")), ["table", "position"], "left_semi"
    )
    rows = near.withColumns({"stage": F.lit(""), "reason": F.lit("")})
    found = other_halves(halves, rows).select(*ENTRY, "hour").join(told.drop("told", "position"), [*ENTRY, "hour"])
    found = found.localCheckpoint()
    if found.isEmpty():
        return None
    return _entries(hour).drop("table").join(F.broadcast(found), [*ENTRY, "hour"]).localCheckpoint()


def other_halves(rows: DataFrame, own: DataFrame) -> DataFrame:
    """Of updates that a source sends as two changes at one position, a delete and an insert, those whose other half is
    refused: one of ``own``, with its ``stage`` and ``reason``."""

    def halves(of: DataFrame, *columns: str) -> DataFrame:
        """The key that a row leaves (``left``), of either half."""
        old = F.when(F.col("op") == "delete", F.col("key")).when(
            F.col("op") == "insert", F.coalesce("prior_key", "key")
        )
        left = F.to_json(F.array_sort(F.map_entries(old))).alias("left")
        return of.where(old.isNotNull()).select(*columns, left)

    refused = halves(own, "table", "position", "op", "stage", "reason")
    refused = refused.withColumn("op", F.when(F.col("op") == "delete", "insert").otherwise("delete"))
    refused = refused.groupBy("table", "position", "op").agg(
        F.min(F.struct("stage", "reason")).alias("first"), F.collect_set("left").alias("all_left")
    )
    # A half that does not know its old key is the only one at its position.
    same = F.arrays_overlap("all_left", F.array("left", F.lit(_UNKNOWN))) | (F.col("left") == _UNKNOWN)
    found = halves(rows, *rows.columns).join(refused, ["table", "position", "op"]).where(same)
    reason = F.concat(F.lit(OTHER_HALF), "first.reason")
    others = [name for name in rows.columns if name not in ("stage", "reason")]
    return found.select(*others, F.col("first.stage").alias("stage"), reason.alias("reason"))


def _entries(hour: HourChanges) -> DataFrame:
    """The entries of the change log that are published or of the hour."""
    run = hour.run
    entries = run.spark.table(changes_table(run.feed.feed)).where(is_published(run.state) | in_hour(run.hour))
    return tied(entries, run.feed, edges_with(run.state, run.hour, hour.assembled.edges))


def _still_kept(hour: HourChanges) -> DataFrame | None:
    """The rows of the quarantine that the hour does not judge anew; None: there are none."""
    run = hour.run
    if run.state.in_quarantine == {}:
        return None
    kept = kept_back(run.spark, run.feed.feed, run.state)
    # what a replay takes up again is judged anew, and is good if it is not refused now
    kept = kept.where((F.col("hour") != run.hour) | (F.col("sequence") > run.manifest.recalls))
    return without_entries(kept, hour.assembled.taken_up)
