"""The refused changes of an hour that take with them what belongs to them: those of which no good copy has come
(:mod:`tidemark.changelog.good_copies`)."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.changelog.good_copies import without_good_copy
from tidemark.changelog.ties import edges_with, tied
from tidemark.ledger.change_log import changes_table, in_hour, is_published, without_entries
from tidemark.ledger.kept_back import kept_back
from tidemark.ledger.quarantine import ENTRY
from tidemark.pipeline.hour_changes import HourChanges


def breaking_changes(hour: HourChanges, refused: DataFrame) -> DataFrame:
    """Of refused log entries, or records that cannot be decoded, those of which neither the hour nor what is published has a
    good copy. Same columns."""
    run, assembled, withheld = hour.run, hour.assembled, hour.withheld
    entries = run.spark.table(changes_table(run.feed.feed)).where(is_published(run.state) | in_hour(run.hour))
    entries = tied(entries, run.feed, edges_with(run.state, run.hour, assembled.edges)).where(F.col("op") != "bad")
    refused = refused.localCheckpoint()
    not_good = [refused, assembled.refused, withheld.rows if withheld is not None else None]
    if run.state.in_quarantine != {}:
        kept = kept_back(run.spark, run.feed.feed, run.state)
        # what a replay takes up again is judged anew, and is good if it is not refused now
        kept = kept.where((F.col("hour") != run.hour) | (F.col("sequence") > run.manifest.recalls))
        not_good.append(without_entries(kept, assembled.taken_up))
    named = [rows.select(*ENTRY) for rows in not_good if rows is not None]
    return without_good_copy(refused, without_entries(entries, reduce(DataFrame.unionByName, named)), run.feed)
