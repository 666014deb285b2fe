"""Late and repeated changes: whatever part of a history is published first, the same table comes out."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.convergence.oracle import Change, Image, Key, rows
from tests.unit.fold.histories import SHAPE, Delivered, folded_rows, log_rows, place, random_family, shown
from tidemark.fold.colliding_keys import colliding_keys
from tidemark.fold.fold_rows import fold
from tidemark.fold.key_changes import with_ancestors
from tidemark.fold.late_changes import Classified, PublishedChanges, applied, classify
from tidemark.fold.typed_rows import keyed_rows

Values = tuple[dict[str, Any], frozenset[str]]


def test_any_part_published_first_gives_the_oracles_table(spark: SparkSession) -> None:
    rng = Random(21)
    steps = [step for family in range(120) for step in random_family(rng, family, moves=True)]
    first = [c for step in steps if rng.random() < 0.6 for c in step]
    second = [c for step in steps if step[0] not in first for c in step]
    again = [change for change in first if rng.random() < 0.15 and change.prior is None]
    published, hour = _rows(spark, first), _rows(spark, second + again)
    links = sum(change.prior is not None and bool(change.absent) for change in second)
    held = fold(
        with_ancestors(published, published.select("key").distinct(), colliding_keys(published, F.lit(False)), SHAPE),
        partial=True,
    ).localCheckpoint()
    table = PublishedChanges(shape=SHAPE, rows=published, stored=_stored(held), highest=max(map(place, first)))
    found = classify(table, hour, links, late=True)
    assert found.refolded is not None
    ordinary = found.ordinary.localCheckpoint()

    assert _merged(folded_rows(held.collect()), fold(ordinary, partial=True), found.refolded) == _wanted(first + second)
    kept = {(row.key["id"], row.sort_key) for row in ordinary.select("key", "sort_key").collect()}
    assert not kept & {(change.key[0], place(change)) for change in again}
    counts = found.counts
    assert counts.duplicate >= len(again)
    assert counts.duplicate + counts.superseded + counts.applied + ordinary.count() == len(second) + len(again)
    assert counts.superseded, "some late changes can alter nothing any more"


def test_of_an_hour_in_order_no_stored_row_is_asked(spark: SparkSession) -> None:
    """It comes to the same table as if one were."""
    rng = Random(23)
    steps = sorted(
        (step for family in range(60) for step in random_family(rng, family, moves=True)), key=lambda s: place(s[0])
    )
    middle = len(steps) // 2
    first, second = ([change for step in part for change in step] for part in (steps[:middle], steps[middle:]))
    second = [change for change in second if place(change) > max(map(place, first))]
    published, hour = _rows(spark, first), _rows(spark, second)
    links = sum(change.prior is not None and bool(change.absent) for change in second)
    held = fold(
        with_ancestors(published, published.select("key").distinct(), colliding_keys(published, F.lit(False)), SHAPE),
        partial=True,
    ).localCheckpoint()
    nothing = _stored(held).select(*(F.raise_error(F.lit("a stored row is asked")).cast(kind).alias(name)
                                     for name, kind in _stored(held).dtypes))  # fmt: skip
    table = PublishedChanges(shape=SHAPE, rows=published, stored=nothing, highest=max(map(place, first)))
    found = classify(table, hour, links, late=False)
    assert links and found.refolded is not None
    ordinary = found.ordinary.localCheckpoint()
    assert _merged(folded_rows(held.collect()), fold(ordinary, partial=True), found.refolded) == _wanted(first + second)
    assert found.counts.applied + ordinary.count() == len(second)


def test_a_change_that_came_twice_in_the_hour_is_applied_once(spark: SparkSession) -> None:
    change = Change("t", 5, "update", (1,), frozenset({("id", 1), ("a", "x")}), frozenset({"b", "c"}))
    logged = log_rows(spark, [Delivered(change), Delivered(change), Delivered(change, landed=False)])
    counts = applied(keyed_rows(logged, SHAPE, expand=False))
    assert (counts.applied, counts.duplicate, counts.released_applied, counts.released_duplicate) == (1, 1, 1, 0)


def test_what_else_has_a_key_folded_again(spark: SparkSession) -> None:
    """A truncate that comes late, a tombstone that maintenance has removed, and a table that is rebuilt."""
    whole = frozenset({("a", "x"), ("b", "y"), ("c", "z")})
    older = Change("t", 10, "insert", (1,), whole | {("id", 1)})
    newer = Change("t", 30, "update", (1,), frozenset({("id", 1), ("a", "new")}), frozenset({"b", "c"}))
    other = Change("t", 40, "insert", (2,), whole | {("id", 2)})
    late = Change("t", 25, "insert", (3,), whole | {("id", 3)})
    published = _rows(spark, [older, newer, other])
    stored = _stored(fold(published, partial=True)).localCheckpoint()

    def keys(found: Classified) -> tuple[set[int], set[int]]:
        refolded = set() if found.refolded is None else {row.key["id"] for row in found.refolded.collect()}
        return {row.key["id"] for row in found.ordinary.collect()}, refolded

    hour = _rows(spark, [late])
    as_usual = PublishedChanges(shape=SHAPE, rows=published, stored=stored, highest=place(other))
    assert keys(classify(as_usual, hour, 0, late=True)) == ({3}, set())
    after_truncate = PublishedChanges(
        shape=SHAPE, rows=published.where(F.col("position") >= f"{20:012d}"), stored=stored, highest=place(other),
        truncated=f"{20:012d}", new_truncate=True,
    )  # fmt: skip
    found = classify(after_truncate, hour, 0, late=True)
    assert keys(found) == ({3}, {1}), "key 1 is newer than the truncate, but rests on an older insert"
    assert found.refolded is not None
    assert folded_rows(found.refolded.collect()) == {
        (1,): ({"id": 1, "a": "new", "b": None, "c": None}, frozenset("bc"))
    }
    pruned = PublishedChanges(shape=SHAPE, rows=published, stored=stored, highest=place(other), pruned=f"{28:012d}#0")
    assert keys(classify(pruned, hour, 0, late=True)) == (set(), {3})
    rebuilt = PublishedChanges(shape=SHAPE, rows=published, stored=stored, highest="~", rebuild=True)
    assert keys(classify(rebuilt, hour, 0, late=True)) == (set(), {1, 2, 3})


def test_what_a_delete_without_a_tombstone_outdates_is_superseded(spark: SparkSession) -> None:
    """As with one: maintenance changes nothing in a receipt."""
    old = [_change(10, "insert", 1), _change(30, "delete", 1), _change(40, "insert", 2), _change(50, "delete", 2)]
    hour = _rows(spark, [_change(20, "update", 1), _change(35, "insert", 1), _change(45, "update", 3)])
    published = _rows(spark, old)
    stored = _stored(fold(published, partial=True)).localCheckpoint()
    table = PublishedChanges(shape=SHAPE, rows=published, stored=stored, highest=place(old[-1]))
    with_them = classify(table, hour, 0, late=True)
    pruned = replace(table, stored=stored.limit(0), pruned=place(old[-1]))
    without = classify(pruned, hour, 0, late=True)
    assert (with_them.counts.superseded, without.counts.superseded, without.counts.applied) == (1, 1, 2)
    assert without.refolded is not None
    assert {row.key["id"] for row in without.refolded.collect()} == {1, 3}


def _change(at: int, op: str, id_: int) -> Change:
    return Change("t", at, op, (id_,), _row(id_, f"a{at}") if op != "delete" else frozenset())


def test_a_late_truncate_tells_which_row_a_delete_took(spark: SparkSession) -> None:
    """A row passed over key 2, in one transaction. Had there been another row, that is the one which went first."""
    passing = [
        Change("t", 30, "delete", (1,), transaction=3),
        Change("t", 30, "insert", (2,), _row(2, "moved"), prior=(1,), transaction=3),
        Change("t", 31, "delete", (2,), transaction=3),
        Change("t", 31, "insert", (3,), _row(3, "moved on"), prior=(2,), transaction=3),
    ]
    first = Change("t", 10, "insert", (2,), _row(2, "first"))
    emptied, truncated = Change("t", 20, "truncate"), f"{20:012d}"
    published = _rows(spark, [first, *passing])
    colliding = colliding_keys(published, F.lit(False)).localCheckpoint()
    before = fold(with_ancestors(published, published.select("key").distinct(), colliding, SHAPE), partial=True)
    assert folded_rows(before.collect()) == _wanted([first, *passing]) != _wanted([emptied, *passing])
    under_it = PublishedChanges(
        shape=SHAPE, rows=published.where(F.col("position") >= truncated), stored=_stored(before).localCheckpoint(),
        highest=place(passing[-1]), truncated=truncated, new_truncate=True,
    )  # fmt: skip
    found = classify(under_it, published.limit(0), 0, late=True)
    assert found.refolded is not None
    assert _merged(folded_rows(before.collect()), found.ordinary, found.refolded) == _wanted([emptied, *passing])


def _row(id: int, a: str) -> Image:
    return frozenset({("id", id), ("a", a), ("b", "y"), ("c", "z")})


def _rows(spark: SparkSession, changes: list[Change]) -> DataFrame:
    return keyed_rows(log_rows(spark, [Delivered(change) for change in changes]), SHAPE, expand=False).localCheckpoint()


def _stored(held: DataFrame) -> DataFrame:
    """Rows and tombstones as a snapshot that holds FOLDED has them."""
    return held.select(
        "key", F.col("sort_key").alias("stored_sort_key"), F.col("base_sort_key").alias("stored_base_sort_key")
    )


def _wanted(changes: list[Change]) -> dict[Key, Values]:
    return {key: (dict(row.values), row.absent) for key, row in rows(changes).items()}


def _merged(stored: dict[Key, Values], ordinary: DataFrame, refolded: DataFrame) -> dict[Key, Values]:
    """The stored rows with FOLDED merged into them, as a snapshot does it."""
    table = dict(stored)
    for row, whole in [*((row, False) for row in ordinary.collect()), *((row, True) for row in refolded.collect())]:
        key = (row.key["id"],)
        old = table.pop(key, None)
        if row.deleted:
            continue
        values, absent = shown(row.after, row.absent), frozenset(row.absent)
        if not whole and row.base_sort_key is None and old is not None:
            values |= {name: old[0][name] for name in absent}
            absent &= old[1]
        table[key] = values, absent
    return table
