"""Tables without a key: copies are counted whatever is delivered again, against the oracle."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.convergence.oracle import Change, Image, copies
from tests.unit.merge.histories import SHAPE, frame
from tidemark.merge import keyless


def test_copies_are_the_oracles_whatever_is_delivered_again(spark: SparkSession) -> None:
    rng = Random(31)
    rows: list[dict[str, Any]] = []
    now, before = Counter[Image](), Counter[Image]()
    for history in range(60):
        changes = _history(rng, history)
        published = rng.randint(0, len(changes))
        now += copies(changes)
        before += copies(changes[:published])
        rows += _delivered(rng, history, changes, published)
    rng.shuffle(rows)
    images = keyless.copies(keyless.effective(frame(spark, rows))).where("now > 0 or before > 0").localCheckpoint()
    found = images.select("image", "now", "before").collect()
    assert Counter({_image(row.image): row.now for row in found if row.now}) == now
    # An image that was there before may be known only by its delete now: its text is in the published rows all the same.
    assert Counter({_image(row.image): row.before for row in found if row.before}) == before

    settled = keyless.settle_copies(images, SHAPE, "2026-11-20T07")
    sizes = settled.agg(
        F.count_if(~F.col("deleted")).alias("written"),
        F.count_if("deleted").alias("deleted"),
        F.count_distinct("key").alias("keys"),
    ).first()
    assert sizes is not None
    assert sizes.written == now.total()
    assert sizes.deleted == sum(max(before[image] - now[image], 0) for image in before)
    assert sizes.keys == sizes.written + sizes.deleted


def test_an_image_is_the_same_in_any_order_of_columns_and_without_null_columns(spark: SparkSession) -> None:
    images = [{"id": "1", "a": "x"}, {"a": "x", "id": "1"}, {"a": "x", "id": "1", "b": None}, {"a": "x", "id": "2"}]
    rows = [{"after": image, "record": number} for number, image in enumerate(images)]
    hashed = frame(spark, rows).orderBy("record").select(keyless.image_hash(F.col("after")).alias("hash")).collect()
    one, two, three, other = (row.hash for row in hashed)
    assert one == two == three != other


def _history(rng: Random, history: int) -> list[Change]:
    """A snapshot, with equal rows at one position, and changes after it."""
    held = [_row(history, rng.randint(0, 2)) for _ in range(rng.randint(1, 4))]
    changes = [Change("m", 0, "insert", sent=row) for row in held]
    for position in range(1, rng.randint(3, 8)):
        new = _row(history, rng.randint(0, 2))
        if held and rng.random() < 0.6:
            old = held.pop(rng.randrange(len(held)))
            update = rng.random() < 0.4
            held += [new] if update else []
            op, sent = ("update", new) if update else ("delete", frozenset())
            changes.append(Change("m", position, op, sent=sent, taken=old))
        else:
            held.append(new)
            changes.append(Change("m", position, "insert", sent=new))
    return changes


def _row(history: int, which: int) -> Image:
    return frozenset({("id", str(history)), ("a", str(which)), ("b", "same")})


def _delivered(rng: Random, history: int, changes: list[Change], published: int) -> list[dict[str, Any]]:
    """Once in order, then from an older position on again, as a connector does that starts again; and some records
    twice, as an exporter does."""
    sent = list(enumerate(changes))
    again = [at for at, change in enumerate(changes) if change.position < changes[-1].position]
    sent += sent[rng.choice(again) :]
    rows = []
    for offset, (_, change) in enumerate(sent):
        row = {
            "op": change.op, "position": f"{change.position:012d}", "topic": f"t{history}", "partition": 0,
            "offset": offset, "object": "o1", "record": offset, "entry": 0, "landed_this_hour": offset >= published,
            "before": dict(change.taken) if change.taken else None, "after": dict(change.sent) if change.sent else None,
        }  # fmt: skip
        rows.append(row)
        if rng.random() < 0.2:
            rows.append({**row, "object": "o2"})
    return rows


def _image(image: dict[str, str]) -> Image:
    return frozenset(image.items())
