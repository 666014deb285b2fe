"""The audit's own way to a table's rows gives those of the oracle."""

from __future__ import annotations

from random import Random

import pytest
from pyspark.sql import SparkSession

from tests.convergence.oracle import Change, rows
from tests.unit.fold.histories import COLUMNS, SHAPE, Delivered, log_rows, random_family
from tidemark.fold.fold_rows import fold
from tidemark.fold.typed_rows import keyed_rows, settle
from tidemark.operations.newest_values import newest_noted, newest_values

pytestmark = pytest.mark.promise(5)


def test_each_column_has_the_value_that_was_sent_last(spark: SparkSession) -> None:
    rng = Random(11)
    changes = [change for family in range(600) for (change,) in random_family(rng, family, moves=False)]
    delivered = [Delivered(change) for change in [*changes, *changes[:300]]]
    rng.shuffle(delivered)
    found = (
        newest_values(SHAPE, keyed_rows(log_rows(spark, delivered), SHAPE, expand=False)).where("not deleted").collect()
    )
    wanted = {key: {name: row.values[name] for name in ("id", *COLUMNS)} for key, row in rows(changes).items()}
    assert {(row.key["id"],): row.row.asDict() for row in found} == wanted
    newest = {change.key: change.position for change in sorted(changes, key=lambda change: change.position)}
    assert {(row.key["id"],): int(row.sort_key[:12]) for row in found} == {key: newest[key] for key in wanted}


def test_which_change_sent_each_value_is_told_as_the_fold_notes_it(spark: SparkSession) -> None:
    """In two ways that share nothing: by the newest of each column, and by base, absent and newer of the folded states."""
    rng = Random(12)
    changes = [change for family in range(600) for (change,) in random_family(rng, family, moves=False)]
    delivered = keyed_rows(log_rows(spark, map(Delivered, changes)), SHAPE, expand=False)
    folded = settle(fold(delivered, partial=True), SHAPE, "")
    columns = ("key", "sort_key", "commit", "sent_at")
    noted = {row.key["id"]: row for row in folded.select("key", *newest_noted("tidemark", SHAPE)).collect()}
    found = {row.key["id"]: row for row in newest_values(SHAPE, delivered).select(*columns).collect()}
    assert noted == found
    assert len({tuple(at is None for at in row.sent_at) for row in found.values()}) > 4, (
        "columns are absent, and bases too"
    )


def test_a_row_that_moved_leaves_no_value_at_its_old_key(spark: SparkSession) -> None:
    """One message of it has the images of both keys; what comes at the old key then is a new row, and not all of it."""
    start = Change("t", 1, "insert", (1,), frozenset({"id": 1, "a": "a1", "b": "b1", "c": "c1"}.items()))
    moved = Change("t", 2, "update", (2,), frozenset({"id": 2, "a": "a2", "b": "b2", "c": "c2"}.items()), prior=(1,))
    part = Change("t", 3, "update", (1,), frozenset({"id": 1, "a": "a3"}.items()), frozenset({"b", "c"}))
    sent = keyed_rows(log_rows(spark, [Delivered(each) for each in (start, moved, part)]), SHAPE, expand=True)
    found = newest_values(SHAPE, sent).where("not deleted").collect()
    assert {row.row.asDict()["id"]: row.row.asDict() for row in found} == {
        1: {"id": 1, "a": "a3", "b": None, "c": None},
        2: {"id": 2, "a": "a2", "b": "b2", "c": "c2"},
    }
