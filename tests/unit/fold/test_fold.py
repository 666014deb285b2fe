"""The fold of random histories, in any order and with repeats, against the oracle."""

from __future__ import annotations

from random import Random

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.convergence.oracle import Change, rows
from tests.unit.fold.histories import SHAPE, Delivered, folded_rows, log_rows, place, random_family
from tidemark.fold.fold_rows import fold
from tidemark.fold.typed_rows import keyed_rows
from tidemark.operations.newest_values import newest_values


def test_changes_fold_to_what_the_oracle_says_in_any_order_and_with_repeats(spark: SparkSession) -> None:
    rng = Random(7)
    changes = [change for family in range(120) for (change,) in random_family(rng, family, moves=False)]
    delivered = [Delivered(change, rng.random() < 0.7) for change in changes for _ in range(rng.choice((1, 1, 2, 3)))]
    rng.shuffle(delivered)
    folded = fold(keyed_rows(log_rows(spark, delivered), SHAPE, expand=False), partial=True).collect()

    wanted = {key: (dict(row.values), row.absent) for key, row in rows(changes).items()}
    assert len(folded) == len({change.key for change in changes}), "one row per key"
    assert folded_rows(folded) == wanted
    of_key: dict[int, list[Change]] = {}
    for change in changes:
        of_key.setdefault(change.key[0], []).append(change)
    for row in folded:
        own = of_key[row.key["id"]]
        copies = [each for each in delivered if each.change.key == own[0].key]
        assert row.sort_key == place(own[-1])
        bases = [place(change) for change in own if change.op != "update" or not change.absent]
        assert row.base_sort_key == (bases[-1] if bases else None)
        assert row.landed_count == sum(each.landed for each in copies)
        assert row.released_count == sum(not each.landed for each in copies)
        assert row.landed_duplicates + row.released_duplicates == len(copies) - len(own)


def test_without_absent_columns_the_newest_change_alone_gives_the_same_row(spark: SparkSession) -> None:
    rng = Random(8)
    changes = [change for family in range(60) for (change,) in random_family(rng, family, moves=False)]
    whole = [change for change in changes if not change.absent]
    delivered = keyed_rows(log_rows(spark, [Delivered(change) for change in whole]), SHAPE, expand=False)
    both = fold(delivered, partial=True).withColumn("way", F.lit("steps")).unionByName(
        fold(delivered, partial=False).withColumn("way", F.lit("newest"))
    )  # fmt: skip
    collected = both.collect()
    steps, newest = (
        {row.key["id"]: row[:-1] for row in collected if row.way == way} for way in ("steps", "newest")
    )  # fmt: skip
    assert steps == newest
    assert len(steps) > 50


def test_a_half_that_does_not_count_is_folded_and_not_counted(spark: SparkSession) -> None:
    change = Change("t", 1, "insert", (1,), frozenset({("id", 1), ("a", "x")}), frozenset({"b", "c"}))
    delivered = keyed_rows(log_rows(spark, [Delivered(change)]), SHAPE, expand=False).withColumn("counts", F.lit(False))
    (row,) = fold(delivered, partial=True).collect()
    assert (row.after["a"], row.landed_count, row.released_count) == ("x", 0, 0)


def test_of_a_change_that_came_again_with_other_content_the_first_stands(spark: SparkSession) -> None:
    """What was published first; of what came together, what lies first."""
    rng = Random(9)
    came = {number: rng.choice((3, 4, None)) for number in range(400)}
    said = [Change("t", 1, "insert", (number % 40,), frozenset({("id", number % 40), ("a", f"a{number}")}))
            for number in came]  # fmt: skip
    delivered = [Delivered(change, number=number) for number, change in enumerate(said)]
    rng.shuffle(delivered)
    known = F.create_map(*(F.lit(part) for number, when in came.items() if when for part in (number, when)))
    logged = log_rows(spark, delivered).withColumn("came_with", F.element_at(known, F.col("record").cast("int")))
    rows_ = keyed_rows(logged, SHAPE, expand=False, came=F.col("came_with").cast("long")).repartition(7)
    first = {key: min((n for n in came if n % 40 == key), key=lambda n: (came[n] or 9, n)) for key in range(40)}
    wanted = {(key,): f"a{number}" for key, number in first.items()}
    assert {key: values["a"] for key, (values, _) in folded_rows(fold(rows_, partial=True).collect()).items()} == wanted
    audited = newest_values(SHAPE, rows_).collect()
    assert {(row.key["id"],): row.row["a"] for row in audited} == wanted
