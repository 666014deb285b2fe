"""Keys that take over what their old keys held: random chains of key changes, against the oracle."""

from __future__ import annotations

from random import Random

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.convergence.oracle import Change, Key, rows
from tests.unit.fold.histories import SHAPE, SIZE, Delivered, folded_rows, log_rows, random_family
from tidemark.fold.colliding_keys import colliding_keys
from tidemark.fold.fold_rows import fold
from tidemark.fold.key_changes import descendants, of_keys, rows_in_reach, with_ancestors
from tidemark.fold.materialized import materialize
from tidemark.fold.typed_rows import keyed_rows


def test_rows_that_rest_on_other_keys_come_out_as_the_oracle_says(spark: SparkSession) -> None:
    rng = Random(11)
    changes = [c for family in range(150) for step in random_family(rng, family, moves=True) for c in step]
    assert any(change.prior is not None and change.absent for change in changes)
    delivered = [Delivered(change) for change in changes]
    rng.shuffle(delivered)
    logged = keyed_rows(log_rows(spark, delivered), SHAPE, expand=False).localCheckpoint()
    targets = logged.select("key").distinct()
    folded = fold(with_ancestors(logged, targets, colliding_keys(logged, F.lit(False)), SHAPE), partial=True).collect()
    wanted = {key: (dict(row.values), row.absent) for key, row in rows(changes).items()}
    assert folded_rows(folded) == wanted


def test_only_the_keys_asked_for_are_given(spark: SparkSession) -> None:
    moved = [
        Change("t", 1, "insert", (1,), frozenset({("id", 1), ("a", "x"), ("b", "y"), ("c", "z")})),
        Change("t", 2, "delete", (1,)),
        Change("t", 2, "insert", (2,), frozenset({("id", 2), ("a", "new")}), frozenset({"b", "c"}), (1,)),
        Change("t", 3, "update", (1,), frozenset({("id", 1), ("b", "later")}), frozenset({"a", "c"})),
    ]
    logged = keyed_rows(log_rows(spark, [Delivered(change) for change in moved]), SHAPE, expand=False)
    folded = fold(
        with_ancestors(
            logged, logged.select("key").where("key.id = 2").distinct(), colliding_keys(logged, F.lit(False)), SHAPE
        ),
        partial=True,
    ).collect()
    assert folded_rows(folded) == {(2,): ({"id": 2, "a": "new", "b": "y", "c": "z"}, frozenset())}


def test_descendants_are_the_keys_that_links_lead_to(spark: SparkSession) -> None:
    rng = Random(12)
    changes = [c for family in range(80) for step in random_family(rng, family, moves=True) for c in step]
    logged = keyed_rows(log_rows(spark, [Delivered(change) for change in changes]), SHAPE, expand=False)
    begin = {change.key for change in changes if change.key[0] % SIZE == 0}
    keys = logged.select("key").where(logged["key.id"].isin([key[0] for key in begin])).distinct()
    resting: set[Key] = set()
    rounds = 0
    links = [(c.prior, c.key) for c in changes if c.prior is not None and c.absent]
    while more := {to for old, to in links if old in begin | resting} - resting:
        resting |= more
        rounds += 1
    assert {(row.key["id"],) for row in descendants(logged, keys).collect()} == resting
    assert rounds > 1, "some keys are reached through others"
    assert begin - resting, "most rest on no other key"
    assert begin & resting, "and some of those that it begins with rest on another"


def test_what_is_in_reach_is_tied_by_links_in_either_direction(spark: SparkSession) -> None:
    rng = Random(13)
    changes = [c for family in range(80) for step in random_family(rng, family, moves=True) for c in step]
    logged = keyed_rows(log_rows(spark, [Delivered(change) for change in changes]), SHAPE, expand=False)
    reached = begin = {change.key for change in changes if change.key[0] % (3 * SIZE) == 1}
    links = [(c.prior, c.key) for c in changes if c.prior is not None and c.absent]
    while more := {end for pair in links for end in pair if reached & set(pair)} - reached:
        reached = reached | more
    keys = logged.select("key").where(logged["key.id"].isin([key[0] for key in begin]))
    found = rows_in_reach(logged, keys).collect()
    assert {(row.key["id"],) for row in found} == reached
    assert len(found) == sum(change.key in reached for change in changes)
    assert begin < reached < {change.key for change in changes}


def test_rows_of_a_few_keys_are_found_without_a_shuffle_of_all(spark: SparkSession) -> None:
    table = spark.range(1000).selectExpr("struct(id % 100 AS id) AS key", "string(id) AS at").groupBy("key")
    keys = materialize(spark.range(3).selectExpr("struct(id) AS key"))
    found = of_keys(table.agg(F.max("at").alias("at")), keys)
    assert sorted(row.key["id"] for row in found.collect()) == [0, 1, 2]
    plan = found._jdf.queryExecution().executedPlan().toString()
    assert plan.index("Aggregate") < plan.index("BroadcastHashJoin"), "joined first, and only then exchanged"
