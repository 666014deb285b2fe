"""Which of an hour's changes are to blame for a row that cannot be published.

A row may come of several changes. Those whose own values cannot be read, or fail a check, are refused; the others are
folded without them, as if the refused ones had come in an hour of their own. Where no single change is to blame, all of
the hour's changes of the row are refused.
"""

from __future__ import annotations

from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.identifiers import TIDEMARK
from tidemark.ledger.quarantine import ENTRY, beginning
from tidemark.merge import keyless
from tidemark.merge.late_changes import Classified
from tidemark.merge.typed_rows import TableShape, in_one_notation, key_is_whole, settle

_UNREADABLE = "not a value of its column's type: "


def unreadable_changes(classified: Classified, settled: DataFrame, shape: TableShape, hour: str) -> DataFrame:
    """The changes that bring values which are not of their column's type: ENTRY, ``reason``. ``settled``: SETTLED rows of
    the table. Empty: the values came in earlier hours, under another type."""
    late = F.lit(_UNREADABLE + "a late change of its key")
    keys = settled.where(F.col("unreadable") != "").select("key", late.alias("reason")).localCheckpoint()
    rows = _of_keys(classified, keys)
    judged = _one_by_one(rows, shape, hour).select(f"{TIDEMARK}.*")
    bad = judged.where(F.col("unreadable") != "")
    return _blamed(bad.withColumn("reason", F.concat(F.lit(_UNREADABLE), _values(shape))), rows, keys)


def unreadable_images(log_rows: DataFrame, shape: TableShape) -> DataFrame:
    """Of the log rows of a table without a key, those that bring such values: ENTRY, ``reason``."""
    bad = keyless.with_unreadable(in_one_notation(log_rows, shape), "after", shape).where(F.col("unreadable") != "")
    return bad.select(*ENTRY, F.concat(F.lit(_UNREADABLE), _values(shape)).alias("reason"))


def failing_changes(
    classified: Classified, failing: DataFrame, checks: list[tuple[str, Column]], shape: TableShape, hour: str
) -> DataFrame:
    """The changes for which rows fail checks: ENTRY, ``reason``. ``failing``: the rows' ``key`` and why they fail
    (``reason``). ``checks``: the column of each, and whether a row with its values under their own names fails it.

    A column that was not sent is no fault of the change. Empty: the rows fail by what came in earlier hours.
    """
    rows = _of_keys(classified, failing)
    sent = F.col(f"{TIDEMARK}.op") != "delete"
    faults = [sent & ~F.array_contains(f"{TIDEMARK}.absent", F.lit(name)) & fails for name, fails in checks]
    bad = _one_by_one(rows, shape, hour).where(reduce(or_, faults)).select(f"{TIDEMARK}.*").drop("unreadable")
    return _blamed(bad.join(failing, "key"), rows, failing)


def broken_keys(rows: DataFrame, shape: TableShape) -> DataFrame:
    """The changes, among ROWS, whose key cannot be read, or the key that they move away from: ENTRY, ``reason``."""
    reason = F.lit(f"the key ({', '.join(shape.key)}) is missing or cannot be read")
    return rows.where(~key_is_whole(shape)).select(*ENTRY, reason.alias("reason"))


def _of_keys(classified: Classified, keys: DataFrame) -> DataFrame:
    """The hour's ROWS of these keys that have an effect."""
    rows = classified.ordinary
    if classified.late is not None:
        rows = rows.unionByName(classified.late)
    return rows.join(keys, "key", "left_semi").select(*rows.columns)


def _one_by_one(rows: DataFrame, shape: TableShape, hour: str) -> DataFrame:
    """ROWS → the typed values of each change by itself, and in ``_tidemark`` the change with ``unreadable``."""
    # settle() passes a key's counts on as they are: in place of one, each change goes along.
    each = rows.withColumns(
        {
            "deleted": F.col("op") == "delete",
            "base_sort_key": F.lit(None).cast("string"),
            "landed_count": F.struct(*rows.columns),
        }
    )
    read = settle(each, shape, hour)
    return read.select(F.col("landed_count").withField("unreadable", F.col("unreadable")).alias(TIDEMARK), "row.*")


def _blamed(bad: DataFrame, rows: DataFrame, keys: DataFrame) -> DataFrame:
    """``bad`` changes, and all changes among ``rows`` of the ``keys`` that none of them has."""
    bad = bad.select("key", *ENTRY, "reason").localCheckpoint()
    others = keys.join(bad, "key", "left_anti")
    return bad.unionByName(rows.join(others, "key").select("key", *ENTRY, "reason")).drop("key").localCheckpoint()


def _values(shape: TableShape) -> Column:
    """The columns that cannot be read, each with its type and the value that was sent: of a hostile one the beginning, and no
    characters that do not print."""
    named = F.concat(F.lit(", "), "unreadable", F.lit(", "))
    listed = []
    for name, kind in shape.columns.items():
        text = F.element_at("after", F.lit(name))
        wanted = kind.spark if kind.spark != "string" else kind.encoding
        found = F.concat(F.lit(f'{name} ({wanted}): "'), beginning(text), F.lit('"'))
        listed.append(F.when(named.contains(f", {name}, "), found))
    # without a value: a change whose key it is
    return F.coalesce(F.nullif(F.concat_ws("; ", *listed), F.lit("")), F.col("unreadable"))
