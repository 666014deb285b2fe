"""Rows are joins: whichever hours changes fall into, in whichever order these are merged, and however often, the rows are
those that the oracle says."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tests.convergence.oracle import Change, rows
from tests.unit.fold.histories import COLUMNS, ROW_TYPE, SHAPE, Delivered, log_rows, place, random_family
from tidemark.fold.contract import TIDEMARK_TYPE
from tidemark.fold.fold_rows import fold
from tidemark.fold.moved_rows import join_changes_before, join_stored
from tidemark.fold.row_join import is_deleted, joined_stamp, joined_value
from tidemark.fold.superseded import deletes_at, late_keys, without_superseded
from tidemark.fold.typed_rows import keyed_rows, settle
from tidemark.identifiers import TIDEMARK

pytestmark = pytest.mark.promise(2, 4, 6)

STORED = T.StructType([*ROW_TYPE, T.StructField(TIDEMARK, TIDEMARK_TYPE)])


def merge_rows(stored: DataFrame, settled: DataFrame) -> DataFrame:
    """Stored rows with SETTLED ones joined into them: what a MERGE does with the same expressions, without a lake."""
    t, s = stored.alias("t"), settled.alias("s")
    both = t.join(s, F.col("t.id").eqNullSafe(F.col("s.key.id")), "full_outer")
    comes, meet = F.col("s.tidemark").isNotNull(), F.col("s.tidemark").isNotNull() & F.col(f"t.{TIDEMARK}").isNotNull()

    def value(name: str) -> Column:
        sent = F.col(f"s.row.{name}")
        if name in COLUMNS:
            sent = F.when(meet, F.expr(joined_value(name, f"s.row.`{name}`"))).otherwise(sent)
        return F.when(comes, sent).otherwise(F.col(f"t.{name}")).alias(name)

    stamp = F.when(meet, F.expr(joined_stamp())).when(comes, F.col("s.tidemark")).otherwise(F.col(f"t.{TIDEMARK}"))
    goes = F.when(meet, F.expr(is_deleted(COLUMNS))).otherwise(F.col("s.deleted"))
    kept = both.where(~F.coalesce(goes & comes, F.lit(False)))
    return kept.select(*(value(name) for name in ROW_TYPE.names), stamp.alias(TIDEMARK))


class Table:
    """A table with its tombstones, as hours leave it."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.rows = spark.createDataFrame([], STORED)
        self.tombstones: DataFrame | None = None

    def merge(self, changes: list[Change], *, joined: bool = True) -> None:
        """``joined``: any of them may be late."""
        delivered = [Delivered(change) for change in changes]
        new = keyed_rows(log_rows(self.spark, delivered), SHAPE, expand=False)
        if joined:
            new = without_superseded(new, self.stored(late_keys(new, "~").distinct()), Observation())
        settled = settle(fold(new, partial=True, links=not joined), SHAPE, "h").localCheckpoint()
        if not joined:
            settled = join_changes_before(settled, new.localCheckpoint(), SHAPE, "h")
            settled = join_stored(settled, self.rows, SHAPE.key).localCheckpoint()
        deleted = settled.where("deleted").select("key", F.col("tidemark.sort_key").alias("deleted_at"))
        self.tombstones = deleted if self.tombstones is None else self.tombstones.unionByName(deleted)
        self.rows = merge_rows(self.rows, settled).localCheckpoint()

    def stored(self, keys: DataFrame) -> DataFrame:
        held = self.rows.select(F.struct("id").alias("key"), F.col(f"{TIDEMARK}.base_sort_key").alias("base"))
        if self.tombstones is not None:
            held = held.unionByName(self.tombstones.select("key", F.col("deleted_at").alias("base")))
        return held.join(keys, "key", "left_semi").groupBy("key").agg(F.max("base").alias("stored_base_sort_key"))

    def shown(self) -> dict[tuple[int, ...], tuple[dict[str, Any], frozenset[str]]]:
        return {
            (row["id"],): ({name: row[name] for name in ROW_TYPE.names}, frozenset(row[TIDEMARK]["absent"]))
            for row in self.rows.collect()
        }


def wanted(changes: list[Change]) -> dict[tuple[int, ...], tuple[dict[str, Any], frozenset[str]]]:
    return {key: (dict(row.values), row.absent) for key, row in rows(changes).items()}


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.full), pytest.param(3, marks=pytest.mark.full)])
def test_changes_in_any_hours_merged_in_any_order_and_again_come_to_the_same_rows(
    spark: SparkSession, seed: int
) -> None:
    rng = Random(seed)
    changes = [change for family in range(700) for (change,) in random_family(rng, family, moves=False)]
    hours: list[list[Change]] = [[], [], []]
    for change in changes:
        for number in {rng.randrange(3), rng.randrange(3) if rng.random() < 0.2 else 0}:
            hours[number].append(change)
    table = Table(spark)
    for number, hour in enumerate(hours):
        table.merge(hour)
        landed = {change for one in hours[: number + 1] for change in one}
        assert table.shown() == wanted(list(landed))
    table.merge(hours[0])
    assert table.shown() == wanted(changes), "the same again changes nothing"


@pytest.mark.parametrize("moves", [False, True])
def test_in_order_nothing_has_to_be_looked_up(spark: SparkSession, moves: bool) -> None:
    """Where rows move without all of their columns, too: in chains, in one hour and over hours."""
    rng = Random(4)
    steps = [step for family in range(500) for step in random_family(rng, family, moves=moves)]
    steps.sort(key=lambda step: step[0].position)
    table, third = Table(spark), len(steps) // 3
    for start in range(0, len(steps), third):
        table.merge([change for step in steps[start : start + third] for change in step], joined=False)
        assert table.shown() == wanted([change for step in steps[: start + third] for change in step])


def test_a_truncate_that_comes_late_takes_what_rows_hold_from_before_it(spark: SparkSession) -> None:
    rng = Random(5)
    changes = [change for family in range(400) for (change,) in random_family(rng, family, moves=False)]
    truncate = Change("t", 25_000, "truncate")
    table = Table(spark)
    table.merge(changes)
    table.rows = table.rows.where(F.col(f"{TIDEMARK}.sort_key") >= f"{truncate.position:012d}").localCheckpoint()
    empty = keyed_rows(log_rows(spark, []), SHAPE, expand=False)
    keys = table.rows.select(F.struct("id").alias("key"))
    settled = settle(fold(deletes_at(keys, f"{truncate.position:012d}", empty), partial=True), SHAPE, "h")
    table.rows = merge_rows(table.rows, settled)
    assert table.shown() == wanted([*changes, truncate])


def test_a_row_knows_where_it_and_its_columns_come_from(spark: SparkSession) -> None:
    def change(at: int, op: str, absent: str, **values: Any) -> Change:
        return Change("t", at, op, (1,), frozenset({"id": 1, **values}.items()), frozenset(absent))

    begun, first, second = change(1, "insert", "", a="a1", b="b1", c="c1"), change(2, "update", "ac", b="b2"), change(
        3, "update", "bc", a="a3"
    )  # fmt: skip
    table = Table(spark)
    for hour in ([second], [begun], [first]):
        table.merge(hour)
    (row,) = table.rows.collect()
    stamp = row[TIDEMARK]
    assert (stamp["sort_key"], stamp["base_sort_key"]) == (place(second), place(begun))
    assert stamp["newer"] == {"a": place(second), "b": place(first)}
    table.merge([change(4, "update", "", a="a4", b="b4", c="c4")])
    (row,) = table.rows.collect()
    assert (row[TIDEMARK]["newer"], row["a"], row["b"]) == (None, "a4", "b4")
