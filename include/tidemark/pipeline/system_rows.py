"""What fold writes to the feed's system tables: quarantine, tombstones, held transactions and what waits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.ledger.change_log import changes_table, without_entries
from tidemark.ledger.hour_run import HourRun
from tidemark.ledger.quarantine_rows import refused_changes, released_changes, undecodable, withheld_changes
from tidemark.ledger.system_tables import write_rows
from tidemark.pipeline.assemble import Assembled
from tidemark.pipeline.hour_changes import HourChanges
from tidemark.values.whole_json import whole_json


def tombstones(table: str, settled: DataFrame, hour: str) -> DataFrame:
    """Rows of the system table ``tombstones``: the keys that SETTLED rows delete."""
    return settled.where("deleted").select(
        F.lit(table).alias("table"),
        whole_json("key").alias("key"),
        F.col("tidemark.sort_key").alias("sort_key"),
        F.lit(hour).alias("hour"),
    )


def _new(assembled: Assembled, rows: DataFrame) -> DataFrame:
    """The rows for the quarantine that are not in it already."""
    return without_entries(rows, assembled.taken_up)


def write_system_rows(
    run: HourRun, hour: HourChanges, deleted: Sequence[DataFrame], released: DataFrame | None
) -> None:
    """Write the publication's rows under its number. ``deleted``: what the
    tables give to ``tombstones``; ``released``: log rows that are in quarantine no more."""
    assembled, kept_back = hour.assembled, []
    if hour.withheld is not None:
        kept_back.append(withheld_changes(_new(assembled, hour.withheld.rows)))
    if assembled.refused is not None:
        kept_back.append(refused_changes(_new(assembled, assembled.refused)))
    if released is not None:
        kept_back.append(released_changes(released))
    if assembled.account.bad:
        log = run.spark.table(changes_table(run.feed.feed))
        kept_back.append(undecodable(log, run.hour, run.state))
    parts = {
        "quarantine": kept_back,
        "tombstones": list(deleted),
        "held": [assembled.open] if assembled.open is not None else [],
        "waiting": [assembled.waiting] if assembled.waiting is not None else [],
    }
    for name, rows in parts.items():
        if rows:
            write_rows(run.spark, run.feed.feed, name, run.sequence, reduce(DataFrame.unionByName, rows))
