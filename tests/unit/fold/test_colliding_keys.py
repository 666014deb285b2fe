"""Keys that move onto each other within a transaction: random histories against the oracle, and each case by hand."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.convergence.oracle import Change, Image, Key, rows
from tests.unit.fold.histories import COLUMNS, ROW_TYPE, SHAPE, SIZE, Delivered, folded_rows, log_rows, place, shown
from tidemark.fold.colliding_keys import colliding_keys, of_other_rows
from tidemark.fold.fold_rows import fold
from tidemark.fold.key_changes import with_ancestors
from tidemark.fold.late_changes import PublishedChanges, classify
from tidemark.fold.typed_rows import keyed_rows

#: Steps of a transaction: which key moves where. Without a target the key is deleted; without a source its row is
#: updated.
SHIFT_UP, SHIFT_DOWN = ((0, 1), (1, 2), (2, 3)), ((3, 2), (2, 1), (1, 0))
SWAP, CYCLE = ((0, 1), (1, 0)), ((0, 1), (1, 2), (2, 0))
THEN_DELETED, THEN_UPDATED = ((0, 1), (1, None)), ((0, 1), (1, 0), (None, 1))
TWICE = ((0, 1), (1, 2), (2, 0), (0, 1), (1, 2), (2, 0))
IN_ORDER = ((2, 3), (1, 2), (0, 1))


def test_an_update_that_adds_one_to_every_key_leaves_every_row(spark: SparkSession) -> None:
    before = [_insert(at, at, a=name) for at, name in ((1, "a"), (2, "b"), (3, "c"))]
    plus_one = [change for at in (1, 2, 3) for change in _move(10 + at, at, at + 1, "abc"[at - 1])]
    shown = _folded(spark, before + plus_one)
    assert {key[0]: values["a"] for key, (values, _) in shown.items()} == {2: "a", 3: "b", 4: "c"}


def test_every_way_to_collide(spark: SparkSession) -> None:
    """Each family of keys goes through one of them: with rows there or not, newer changes behind it or not, and all
    columns sent or not."""
    changes: list[Change] = []
    ways = (SHIFT_UP, SHIFT_DOWN, SWAP, CYCLE, THEN_DELETED, THEN_UPDATED, TWICE, IN_ORDER)
    each = list(itertools.product((False, True), ways, range(16), (False, True)))
    for family, (partial, way, there, after) in enumerate(each):
        changes += _family(family, way, there, after, partial=partial)
    wanted = {key: (dict(row.values), row.absent) for key, row in rows(changes).items()}
    found = _folded(spark, changes)
    assert found == wanted
    exchange = each.index((False, SWAP, 3, False))
    left = [values["a"] for key, (values, _) in found.items() if key[0] // 10 == exchange]
    assert {value[-1] for value in left} == {"0", "1"}, "both rows of an exchange are there"


def test_an_hour_in_order_needs_no_more_than_what_is_stored(spark: SparkSession) -> None:
    """Of each way to collide: the changes of other rows than the last come to nothing, and the rest is folded onto what is
    stored."""
    ways = (SHIFT_UP, SHIFT_DOWN, SWAP, CYCLE, THEN_DELETED, THEN_UPDATED, TWICE, IN_ORDER)
    each = list(itertools.product(ways, range(16), (False, True)))
    families = [_family(family, *one, partial=False) for family, one in enumerate(each)]
    there = [change for family in families for change in family if change.transaction is None and not change.absent]
    hour = [change for family in families for change in family if change not in there]
    stored = {key: dict(row.values) for key, row in rows(there).items()}
    published = spark.createDataFrame([tuple(row[name] for name in SHAPE.columns) for row in stored.values()], ROW_TYPE)
    changes = _rows(spark, [*hour, *hour[::3]])
    others = of_other_rows(changes, SHAPE.stored_images(published), SHAPE).localCheckpoint()
    times = Counter(place(change) for change in [*hour, *hour[::3]])
    left_out = {row.sort_key: row.landed for row in others.collect()}
    assert left_out and left_out == {at: times[at] for at in left_out}, "each as often as it came"
    live = changes.join(others.select("key", "sort_key"), ["key", "sort_key"], "left_anti").select(*changes.columns)
    for row in fold(live, partial=True).collect():
        key, sent = (row.key["id"],), {name: shown(row.after, ())[name] for name in row.after}
        before = stored.pop(key, {})
        if not row.deleted:
            stored[key] = dict.fromkeys(SHAPE.columns) | ({} if row.base_sort_key else before) | sent
    assert stored == {key: dict(row.values) for key, row in rows([*there, *hour]).items()}


def test_a_delete_takes_the_row_that_its_image_shows(spark: SparkSession) -> None:
    images: dict[str, Image | None] = {
        "of the first": frozenset({("a", "first"), ("b", "x")}),
        "of the second": frozenset({("a", "second"), ("b", "x")}),
        "none": None,
        "of both": frozenset({("b", "x")}),
        "filled with nothing": frozenset({("a", ""), ("b", "")}),
    }
    changes: list[Change] = []
    for number, image in enumerate(images.values()):
        one, other, at = 10 * number + 1, 10 * number + 2, 100 * number
        changes += [_insert(at + 1, one, a="first", b="x"), _insert(at + 2, other, a="second", b="x")]
        changes += _move(at + 10, one, other, "first", b="x")
        shown = None if image is None else image | {("id", other)}
        changes.append(Change("t", at + 11, "delete", (other,), taken=shown, transaction=at + 10))
    found = {key[0]: values["a"] for key, (values, _) in _folded(spark, changes).items()}
    left = {which: found.pop(10 * number + 2, None) for number, which in enumerate(images)}
    assert found == {}
    assert left == {
        "of the first": "second",
        "of the second": "first",
        "none": "first",  # the one that was there first is gone
        "of both": "first",
        "filled with nothing": "first",  # a filler tells nothing
    }


def test_what_a_key_change_takes_along_is_of_the_row_that_left(spark: SparkSession) -> None:
    there = [_insert(1, 1, a="a1", b="b1", c="c1"), _insert(2, 2, a="a2", b="b2", c="c2")]
    moves = [*_move(10, 1, 2, "new1", lacks="bc"), *_move(11, 2, 1, "new2", lacks="bc")]
    assert _folded(spark, there + moves) == {
        (1,): ({"id": 1, "a": "new2", "b": "b2", "c": "c2"}, frozenset()),
        (2,): ({"id": 2, "a": "new1", "b": "b1", "c": "c1"}, frozenset()),
    }


def test_only_a_transaction_has_two_rows_at_a_key(spark: SparkSession) -> None:
    """A key that was moved onto and left in another transaction is left by what was moved there."""
    there = [_insert(1, 1, a="first"), _insert(2, 2, a="second")]
    moved = list(_move(10, 1, 2, "first"))
    gone = Change("t", 20, "delete", (2,), transaction=20)
    assert _folded(spark, [*there, *moved, gone]) == {}


@pytest.mark.parametrize(("seconds", "left"), [(0, {2: "a", 3: "b"}), (1, {3: "b"})], ids=["same", "other"])
def test_without_a_name_the_time_of_the_commit_tells_a_transaction(
    spark: SparkSession, seconds: int, left: dict[int, str]
) -> None:
    there = [_insert(1, 1, a="a"), _insert(2, 2, a="b")]
    moves = [replace(c, transaction=None) for c in (*_move(10, 1, 2, "a"), *_move(11, 2, 3, "b"))]
    logged = log_rows(spark, [Delivered(change) for change in there + moves]).withColumn(
        "committed_at",
        F.lit(datetime(2026, 11, 20))
        + F.make_interval(secs=F.when(F.col("position") > f"{10:012d}", seconds).otherwise(0)),
    )
    found = _fold_all(keyed_rows(logged, SHAPE, expand=False))
    assert {key[0]: values["a"] for key, (values, _) in found.items()} == left


@pytest.mark.promise(1)
@pytest.mark.parametrize(
    ("names", "times", "left"),
    [
        (("x", "x"), (0, 1), {2: "a", 3: "b"}),
        (("x", "y"), (0, 0), {3: "b"}),
        ((None, "y"), (0, 0), {3: "b"}),
    ],
    ids=["one transaction at two times", "two at one time", "a name and none"],
)
def test_a_name_that_nothing_waits_for_tells_a_transaction_rather_than_the_time(
    spark: SparkSession, names: tuple[str | None, str | None], times: tuple[int, int], left: dict[int, str]
) -> None:
    """Sources that do not say when a transaction is whole may still name it, and give each change a time of its own."""
    there = [_insert(1, 1, a="a"), _insert(2, 2, a="b")]
    moves = [replace(c, transaction=None) for c in (*_move(10, 1, 2, "a"), *_move(11, 2, 3, "b"))]
    second = F.col("position") > f"{10:012d}"
    logged = log_rows(spark, [Delivered(change) for change in there + moves]).withColumns(
        {
            "tx_part": F.when(second, F.lit(names[1])).otherwise(F.lit(names[0])),
            "committed_at": F.lit(datetime(2026, 11, 20))
            + F.make_interval(secs=F.when(second, times[1]).otherwise(times[0])),
        }
    )
    found = _fold_all(keyed_rows(logged, SHAPE, expand=False))
    assert {key[0]: values["a"] for key, (values, _) in found.items()} == left


@pytest.mark.full
def test_any_part_published_first_gives_the_same(spark: SparkSession) -> None:
    """Whole transactions in two hours, in either order: keys that collided are folded again whatever comes late."""
    rng = Random(31)
    ways = (SHIFT_UP, SHIFT_DOWN, SWAP, CYCLE, THEN_DELETED, THEN_UPDATED)
    changes = [
        change
        for family in range(90)
        for change in _family(family, rng.choice(ways), rng.randrange(16), True, partial=rng.random() < 0.5)
    ]
    of_unit = {c: c.transaction if c.transaction is not None else -c.position for c in changes}
    early = {unit for unit in set(of_unit.values()) if rng.random() < 0.5}
    first = [c for c in changes if of_unit[c] in early]
    second = [c for c in changes if of_unit[c] not in early] + [c for c in first if rng.random() < 0.1]
    published, hour = _rows(spark, first), _rows(spark, second)
    held = _fold_targets(published).localCheckpoint()
    stored = held.select(
        "key", F.col("sort_key").alias("stored_sort_key"), F.col("base_sort_key").alias("stored_base_sort_key")
    )
    highest = published.agg(F.max("sort_key")).first()
    assert highest is not None
    table = PublishedChanges(shape=SHAPE, rows=published, stored=stored, highest=highest[0])
    found = classify(table, hour, links=1, late=True)
    assert found.refolded is not None
    refolded = found.refolded.localCheckpoint()
    wanted = {key: (dict(row.values), row.absent) for key, row in rows({*first, *second}).items()}
    again = {(row.key["id"],) for row in refolded.select("key").collect()}
    shown = folded_rows(refolded.collect())
    assert shown == {key: row for key, row in wanted.items() if key in again}
    untouched = {(row.key["id"],) for row in found.ordinary.select("key").collect()} - again
    changed = {c.key for c in second} - again - untouched
    stays = folded_rows(held.where(F.col("key.id").isin([key[0] for key in changed])).collect())
    assert stays == {key: row for key, row in wanted.items() if key in changed}, (
        "what is called superseded alters nothing"
    )


def test_which_keys_collide(spark: SparkSession) -> None:
    changes = [
        *_move(10, 1, 2, "a"), *_move(11, 2, 3, "b"),  # 2 collides
        *_move(20, 4, 5, "c"), Change("t", 30, "delete", (5,), transaction=30),  # in another transaction
        *_move(40, 7, 8, "d"), *_move(41, 6, 7, "e"),  # 7 is left before it is moved onto
    ]  # fmt: skip
    found = colliding_keys(_rows(spark, changes), F.col("sort_key") > f"{11:012d}~")
    assert [(row.key["id"], row.new) for row in found.collect()] == [(2, False)]
    assert [row.new for row in colliding_keys(_rows(spark, changes), F.col("op") == "delete").collect()] == [True]


def _insert(at: int, key: int, **values: str) -> Change:
    return Change("t", at, "insert", (key,), frozenset({"id": key, "b": None, "c": None, **values}.items()))


def _move(at: int, old: int, new: int, a: str, *, lacks: str = "", **values: str) -> tuple[Change, Change]:
    sent = {"id": new, "a": a, "b": None, "c": None, **values}
    kept = frozenset((name, value) for name, value in sent.items() if name not in lacks)
    transaction = at // 10 * 10
    return (
        Change("t", at, "delete", (old,), transaction=transaction),
        Change("t", at, "insert", (new,), kept, frozenset(lacks), (old,), transaction=transaction),
    )


def _family(
    number: int, way: Sequence[tuple[int | None, int | None]], there: int, after: bool, *, partial: bool
) -> list[Change]:
    """Four keys, of which those in the bits of ``there`` have a row; a transaction that goes a way; and changes after."""
    first, at = number * 10, number * 1_000_000  # a transaction stands together
    changes = [
        Change("t", at + key * 10_000, "insert", (first + key,), _sent(first + key, f"old{key}"))
        for key in range(SIZE + 1)
        if there >> key & 1
    ]
    for step, (old, new) in enumerate(way, 10):
        position, absent = at + step * 10_000, frozenset("bc") if partial else frozenset[str]()
        if old is not None:
            changes.append(Change("t", position, "delete", (first + old,), transaction=at))
        if new is not None:
            key, prior = first + new, None if old is None else (first + old,)
            sent = frozenset(pair for pair in _sent(key, f"new{step}") if pair[0] not in absent)
            op = "update" if old is None else "insert"
            changes.append(Change("t", position, op, (key,), sent, absent, prior, transaction=at))
    if after:
        key = first + 1
        changes.append(
            Change("t", at + 300_000, "update", (key,), frozenset({("id", key), ("a", "later")}), frozenset("bc"))
        )
    return changes


def _sent(key: int, value: str) -> Image:
    return frozenset({("id", key), *((name, f"{name}{value}") for name in COLUMNS)})


def _rows(spark: SparkSession, changes: list[Change]) -> DataFrame:
    return keyed_rows(log_rows(spark, [Delivered(change) for change in changes]), SHAPE, expand=False).localCheckpoint()


def _fold_targets(logged: DataFrame) -> DataFrame:
    colliding = colliding_keys(logged, F.lit(False))
    return fold(with_ancestors(logged, logged.select("key").distinct(), colliding, SHAPE), partial=True)


def _fold_all(logged: DataFrame) -> dict[Key, tuple[dict[str, str], frozenset[str]]]:
    return folded_rows(_fold_targets(logged).collect())


def _folded(spark: SparkSession, changes: list[Change]) -> dict[Key, tuple[dict[str, str], frozenset[str]]]:
    return _fold_all(_rows(spark, changes))
