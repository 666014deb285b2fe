"""Values that are not of their column's type: the changes that brought them go to quarantine, the others are folded."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.ledger.quarantine_rows import refused_rows
from tidemark.ledger.receipts import Counts
from tidemark.merge import late_changes as late
from tidemark.merge.fold import fold
from tidemark.merge.typed_rows import TableShape, settle

_SHOWN = 60


@dataclass(frozen=True)
class Readable:
    """``settled``: SETTLED rows without unreadable values. ``moved``: what this changes in the counts that are not the
    fold's. ``quarantined``: rows for the quarantine."""

    settled: DataFrame
    moved: Counts
    quarantined: DataFrame


def without_unreadable(
    table: str, shape: TableShape, hour: str, classified: late.Classified, settled: DataFrame
) -> Readable:
    """Leave out the changes whose values cannot be read, and fold their keys again.

    Each change of such a key is read by itself to find the unreadable ones. Where one of these moves a row, the delete of
    the old key waits with it, and the row stays there. Late changes of such keys all go to quarantine, and their rows
    stay as they are stored.
    """
    keys = settled.where(F.col("unreadable") != "").select("key").localCheckpoint()
    suspects = classified.ordinary.join(keys, "key", "left_semi")
    one_by_one = suspects.withColumns({"deleted": F.col("op") == "delete", "base_sort_key": F.lit(None).cast("string")})
    # settle() passes a key's counts on as they are: in place of one, each change goes along, and comes out beside its
    # verdict.
    read = settle(one_by_one.withColumn("landed_count", F.struct(*suspects.columns)), shape, hour)
    judged = read.select("landed_count.*", "unreadable").localCheckpoint()
    prefix = F.lit("not a value of its column's type: ")
    refused = judged.where(F.col("unreadable") != "").withColumn("reason", F.concat(prefix, _values(shape)))
    refused = refused.drop("unreadable")
    old_halves = _old_halves(classified.ordinary, refused).localCheckpoint()
    refused = refused.unionByName(old_halves.withColumn("reason", F.lit("the row that it moves away cannot be read")))
    keys = keys.unionByName(_old_keys(refused).select("key")).distinct().localCheckpoint()
    refused = refused.localCheckpoint()
    left = (
        classified.ordinary.join(keys, "key", "left_semi")
        .join(refused.select("key", "sort_key").distinct(), ["key", "sort_key"], "left_anti")
        .select(*suspects.columns)
    )
    moved = Counts()
    if classified.late is not None:
        waiting = classified.late.join(keys, "key", "left_semi").select(*suspects.columns)
        moved = moved.less(late.applied(waiting))
        refused = refused.unionByName(waiting.withColumn("reason", F.concat(prefix, F.lit("a late change of its key"))))
    folded_again = settle(fold(left, partial=True), shape, hour)
    refused = refused.where("counts")
    sums = refused.agg(
        F.count_if("landed_this_hour").alias("quarantined"),
        F.count_if(~F.col("landed_this_hour")).alias("released_quarantined"),
    ).first()
    assert sums is not None
    clean = settled.join(keys, "key", "left_anti").unionByName(folded_again).localCheckpoint()
    quarantined = refused_rows(refused, table, "compact", F.col("reason"))
    return Readable(clean, moved.plus(Counts(**sums.asDict())), quarantined)


def _old_keys(refused: DataFrame) -> DataFrame:
    """The old keys of refused key changes (``key``), and where they are left (``position``)."""
    moving = refused.where(F.col("prior").isNotNull())
    return moving.select(F.col("prior").alias("key"), "position").distinct()


def _old_halves(rows: DataFrame, refused: DataFrame) -> DataFrame:
    """The deletes of the old keys of refused key changes, among ROWS."""
    deletes = rows.where("op = 'delete'")
    return deletes.join(_old_keys(refused), ["key", "position"], "left_semi").select(*rows.columns)


def _values(shape: TableShape) -> Column:
    """The columns that cannot be read, each with its type and the value that was sent: of a hostile one the beginning, and no
    characters that do not print."""
    named = F.concat(F.lit(", "), "unreadable", F.lit(", "))
    listed = []
    for name, kind in shape.columns.items():
        text = F.element_at("after", F.lit(name))
        more = F.when(F.length(text) > _SHOWN, "…").otherwise("")
        visible = F.regexp_replace(F.substring(text, 1, _SHOWN), r"[\p{C}\p{Zl}\p{Zp}]", "␣")
        wanted = kind.spark if kind.spark != "string" else kind.encoding
        found = F.concat(F.lit(f'{name} ({wanted}): "'), visible, F.lit('"'), more)
        listed.append(F.when(named.contains(f", {name}, "), found))
    # without a value: a change whose key it is
    return F.coalesce(F.nullif(F.concat_ws("; ", *listed), F.lit("")), F.col("unreadable"))
