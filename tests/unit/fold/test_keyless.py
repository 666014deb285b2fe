"""Tables without a key: copies are counted whatever is delivered again, against the oracle."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from datetime import datetime
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.convergence.oracle import Change, Image, copies, counted_copies, steps_of, with_value
from tests.unit.fold.histories import SHAPE, frame
from tidemark.fold import keyless
from tidemark.fold.owed_copies import match_owed
from tidemark.fold.typed_rows import TableShape
from tidemark.formats.canal.decode import begins_again as canal_begins_again
from tidemark.formats.debezium.equal_rows import begins_again, read_of_load
from tidemark.values.columns import ColumnType
from tidemark.values.encodings import ENCODINGS


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
    shared = keyless.SharedPositions(shared=F.col("position") == F.lit("0" * 12))  # the snapshot's
    effective = keyless.effective(frame(spark, rows), shared).localCheckpoint()
    images = keyless.copies(effective).localCheckpoint()
    assert images.where("lowest < 0 or lowest_before < 0").isEmpty()
    texts = keyless.added_copies(effective).groupBy("hash").agg(F.first("image").alias("image"))
    found = images.join(texts, "hash").where("now > 0 or before > 0").select("image", "now", "before").collect()
    assert Counter({_image(row.image): row.now for row in found if row.now}) == now
    assert Counter({_image(row.image): row.before for row in found if row.before}) == before

    present = keyless.present_copies(keyless.added_copies(effective), images).localCheckpoint()
    everything = keyless.settle_copies(present, SHAPE, "2026-11-20T07", everything=True)
    changed = keyless.settle_copies(present, SHAPE, "2026-11-20T07").localCheckpoint()
    assert everything.count() == everything.select("key").distinct().count() == now.total()
    assert everything.where("deleted").isEmpty()
    sizes = changed.agg(F.count_if(~F.col("deleted")).alias("come"), F.count_if("deleted").alias("gone")).first()
    assert sizes is not None
    assert sizes.come - sizes.gone == now.total() - before.total()
    assert changed.select("key").distinct().count() == sizes.come + sizes.gone

    # What is stored, and then only what is new, come to the same copies as all of it.
    earlier = [row | {"landed_this_hour": True} for row in rows if not row["landed_this_hour"]]
    first = keyless.effective(frame(spark, earlier), shared).localCheckpoint()
    stored = keyless.settle_copies(
        keyless.present_copies(keyless.added_copies(first), keyless.copies(first)), SHAPE, "", everything=True
    )
    kept = stored.join(changed.where("deleted"), "key", "left_anti").select("key")
    assert _keys(kept) + _keys(changed.where(~F.col("deleted"))) == _keys(everything)


def _keys(settled: DataFrame) -> Counter[str]:
    return Counter(row.key.copy for row in settled.select("key").collect())


def test_an_image_is_the_same_in_any_order_of_columns_and_without_null_columns(spark: SparkSession) -> None:
    images = [{"id": "1", "a": "x"}, {"a": "x", "id": "1"}, {"a": "x", "id": "1", "b": None}, {"a": "x", "id": "2"}]
    rows = [{"after": image, "record": number} for number, image in enumerate(images)]
    hashed = frame(spark, rows).orderBy("record").select(keyless.image_hash(F.col("after")).alias("hash")).collect()
    one, two, three, other = (row.hash for row in hashed)
    assert one == two == three != other


def test_a_change_that_comes_again_counts_once_wherever_it_comes(spark: SparkSession) -> None:
    """Right behind itself, in another partition, in a topic that was made anew: its position names it."""
    change = {"op": "insert", "position": "5", "landed_this_hour": True, "topic": "t", "object": "o", "entry": 0}
    places = [(0, 7), (0, 8), (1, 3), (0, 0)]
    rows = [
        {**change, "partition": partition, "offset": offset, "record": number, "after": {"id": "1"}}
        for number, (partition, offset) in enumerate(places)
    ]
    for positions in (None, keyless.SharedPositions(shared=F.lit(False))):
        (found,) = keyless.effective(frame(spark, rows), positions).collect()
        assert (found.times, found.times_before, found.landed_this_hour) == (1, 0, 4)


def test_equal_changes_at_a_shared_position_count_as_often_as_in_one_delivery(spark: SparkSession) -> None:
    """Three of one COPY, then again, right behind them (in another partition too), a minute later."""
    copied = {"op": "insert", "position": "5", "landed_this_hour": True, "topic": "t", "object": "o", "entry": 0}
    sent = [(0, 1000), (0, 1000), (0, 1007), (0, 61_000), (0, 61_000), (0, 61_010), (1, 61_000), (1, 61_001)]
    rows = [
        {**copied, "partition": partition, "offset": number, "record": number, "tx_ordinal": at, "after": {"id": "1"}}
        for number, (partition, at) in enumerate(sent)
    ]
    positions = keyless.SharedPositions(shared=F.lit(True), begins_again=begins_again)
    (found,) = keyless.effective(frame(spark, rows), positions).collect()
    assert (found.times, found.landed_this_hour, found.doubtful) == (3, 8, 1)


@pytest.mark.parametrize("turn", [1, -1])
def test_of_a_numbered_change_with_two_contents_the_one_that_was_published_first_stands(
    spark: SparkSession, turn: int
) -> None:
    """Whatever lies first. Rows that no number tells apart are changes of their own: of one COPY, or of no transaction."""
    mended = {"op": "insert", "position": "5", "tx": "7", "tx_ordinal": 1, "object": "o", "entry": 0, "record": 9}
    sent = [
        {**mended, "tx_count": 1, "after": {"id": "1", "n": "5"}},
        {**mended, "tx_count": 1, "record": 10, "after": {"n": "5", "id": "1", "x": None}},
        {**mended, "tx_count": 2, "record": 1, "after": {"id": "1", "n": "50"}},
        {**mended, "tx_count": 2, "record": 2, "tx_ordinal": 2, "after": {"id": "2"}},
        {**mended, "tx_count": 2, "record": 3, "op": "delete", "before": {"id": "3"}},
        *({**mended, "tx": None, "after": {"id": id_}} for id_ in "45"),
    ]
    came = F.col("tx_count")  # stands for the publication
    found = frame(spark, sent[::turn]).withColumn("other", keyless.other_content(came)).where("other").collect()
    assert [row.record for row in found] == [1]


FIRST, BETWEEN, LAST = 0, 1, 2
MORNING, NIGHT = datetime(2026, 11, 20, 8), datetime(2026, 11, 20, 23)
#: What two partitions hold of equal rows (by which read, and the place in it), and how often they count.
READS = {
    "one read": ([(MORNING, FIRST), (MORNING, LAST)], [], 2),
    "in two partitions": ([(MORNING, FIRST)], [(MORNING, LAST)], 2),
    "two reads": ([(MORNING, FIRST), (MORNING, LAST), (NIGHT, FIRST), (NIGHT, LAST)], [], 2),
    "two reads, dealt out otherwise": ([(MORNING, FIRST), (MORNING, BETWEEN), (NIGHT, FIRST)], [(NIGHT, LAST)], 2),
    "one that crashed, and one": ([(MORNING, FIRST), (NIGHT, FIRST)], [(NIGHT, BETWEEN), (NIGHT, LAST)], 3),
    "one, and one that crashed": ([(MORNING, FIRST), (MORNING, BETWEEN), (MORNING, LAST), (NIGHT, FIRST)], [], 3),
    "a read that is sent again": ([(MORNING, FIRST), (MORNING, LAST)] * 2, [], 2),
    "one whose first row is in the other": ([(MORNING, BETWEEN), (MORNING, LAST)] * 2, [(MORNING, FIRST)] * 2, 3),
    "one row": ([(MORNING, LAST)] * 2, [], 1),
    "no read is named": ([(MORNING, None), (NIGHT, None)], [], 2),
}  # fmt: skip


@pytest.mark.parametrize("reads", READS)
def test_equal_rows_count_as_often_as_in_one_read(spark: SparkSession, reads: str) -> None:
    """Of a table that stood still, and was read again at the same position."""
    *partitions, times = READS[reads]
    row = {"op": "insert", "kind": "r", "position": "5", "topic": "t", "object": "o", "entry": 0, "after": {"id": "1"}}
    rows = [
        {**row, "partition": partition, "offset": at, "record": at, "committed_at": read, "tx_ordinal": place,
         "landed_this_hour": read == NIGHT}
        for partition, sent in enumerate(partitions)
        for at, (read, place) in enumerate(sent)
    ]  # fmt: skip
    every = F.lit(True)
    positions = keyless.SharedPositions(shared=every, of_load=every, read=read_of_load(), begins_again=begins_again)
    (found,) = keyless.effective(frame(spark, rows), positions).collect()
    assert (found.times, found.doubtful) == (times, 0)


def test_equal_rows_without_offsets_count_once_and_are_told(spark: SparkSession) -> None:
    """Two in an hour before, three in this one: equal rows of a load, or one that came again."""
    row = {"op": "insert", "position": "5", "topic": "t", "entry": 0}
    landed = [("1", False), ("1", False), ("1", True), ("1", True), ("1", True), ("2", True), ("2", True), ("3", True)]
    rows = [
        {**row, "object": "o", "record": at, "after": {"id": id_}, "landed_this_hour": now}
        for at, (id_, now) in enumerate(landed)
    ]
    every = F.lit(True)
    found = keyless.effective(frame(spark, rows), keyless.SharedPositions(shared=every, of_load=every)).collect()
    assert {row.image["id"]: (row.times, row.merged) for row in found} == {"1": (1, 3), "2": (1, 1), "3": (1, 0)}


@pytest.mark.parametrize("entries", [1, 2, 3])
def test_what_an_exporter_wrote_twice_counts_once(spark: SparkSession, entries: int) -> None:
    """Messages of several equal rows, each in two objects under its own offset, one of them in an hour that was exported
    again: no second row of a message, and no end of its run."""
    copied = {"op": "insert", "position": "5", "topic": "t", "partition": 0, "after": {"id": "1"}}
    rows = [
        {**copied, "object": name, "record": offset + later, "offset": offset, "entry": entry,
         "tx_ordinal": offset * 10 + entry, "landed_this_hour": name == "q"}
        for offset in range(3)
        for name, later in (("o", 0), ("p", 50), ("q", 90))
        if (offset, name) != (1, "p")
        for entry in range(entries)
    ]  # fmt: skip
    for begins in (canal_begins_again, begins_again):
        positions = keyless.SharedPositions(shared=F.lit(True), begins_again=begins)
        (found,) = keyless.effective(frame(spark, rows), positions).collect()
        assert (found.times, found.times_before, found.doubtful) == (3 * entries, 3 * entries, 0)


def test_what_an_exporter_wrote_twice_ends_no_run(spark: SparkSession) -> None:
    """A message of two rows, of which each has a position, in two objects; then one equal to its first."""
    copied = {"op": "insert", "topic": "t", "partition": 0, "landed_this_hour": True}
    sent = [("o", 0, 0, "5"), ("o", 0, 1, "6"), ("p", 0, 0, "5"), ("p", 0, 1, "6"), ("o", 1, 0, "6"), ("p", 1, 0, "6")]
    rows = [
        {**copied, "object": name, "record": offset, "offset": offset, "entry": entry, "position": position,
         "tx_ordinal": offset * 1000 + entry, "after": {"id": position}}
        for name, offset, entry, position in sent
    ]  # fmt: skip
    positions = keyless.SharedPositions(shared=F.lit(True), begins_again=canal_begins_again)
    found = {row.position: row.times for row in keyless.effective(frame(spark, rows), positions).collect()}
    assert found == {"5": 1, "6": 2}


@pytest.mark.parametrize("name", ["n", "p"])
def test_what_an_exporter_wrote_again_in_another_hour_is_nothing_more(spark: SparkSession, name: str) -> None:
    """Of a COPY, four rows counted before; two of them lie in an object that lands now, of an hour before or after."""
    copied = {"op": "insert", "position": "5", "topic": "t", "partition": 0, "entry": 0, "after": {"id": "1"}}
    rows = [
        {**copied, "object": object_, "record": offset, "offset": offset, "tx_ordinal": 0, "landed_this_hour": now}
        for object_, now, number in (("o", False, 4), (name, True, 2))
        for offset in range(number)
    ]
    positions = keyless.SharedPositions(shared=F.lit(True), begins_again=begins_again)
    (found,) = keyless.effective(frame(spark, rows), positions).collect()
    assert (found.times, found.times_before, found.landed_this_hour) == (4, 4, 2)


@pytest.mark.parametrize("hours", [("1", "2"), ("2", "1")])
def test_offsets_of_a_topic_that_was_made_anew_are_of_other_records(
    spark: SparkSession, hours: tuple[str, str]
) -> None:
    """It begins again at 0: what stands there is not what stood there, also where a record is exported twice."""
    old, new = hours
    sent = [(old, 0, "5"), (old, 1, "6"), (new, 0, "7"), (new, 1, "8"), (new, 1, "8"), (new, 2, "9")]
    rows = [
        {"op": "insert", "position": position, "topic": "t", "partition": 0, "object": hour, "record": number, "entry": 0,
         "offset": offset, "tx_ordinal": number, "after": {"id": position}, "landed_this_hour": hour == new}
        for number, (hour, offset, position) in enumerate(sent)
    ]  # fmt: skip
    positions = keyless.SharedPositions(shared=F.lit(True), begins_again=begins_again)
    found = {row.position: row.times for row in keyless.effective(frame(spark, rows), positions).collect()}
    assert found == {"5": 1, "6": 1, "7": 1, "8": 1, "9": 1}


#: Images that were added, images that were taken away, and what is left of both.
OWED = {
    "a column was dropped": ([{"a": "1", "b": "2", "c": "3"}], [{"a": "1", "b": "2"}], [], []),
    "a column was added with a default": ([{"a": "1", "b": "2"}], [{"a": "1", "b": "2", "c": "9"}], [], []),
    "one dropped, one added": ([{"a": "1", "b": "2"}], [{"a": "1", "c": "9"}], [], []),
    "the exact image goes first": (
        [{"a": "1", "b": "2"}, {"a": "1", "b": "2", "c": "9"}], [{"a": "1", "b": "2", "c": "9"}],
        [{"a": "1", "b": "2"}], [],
    ),
    "a null is a value": ([{"a": "1", "b": "2"}], [{"a": "1", "b": None}], [{"a": "1", "b": "2"}], [{"a": "1"}]),
    "another value": ([{"a": "1", "b": "2", "c": "3"}], [{"a": "1", "b": "7"}], [{"a": "1", "b": "2", "c": "3"}],
                      [{"a": "1", "b": "7"}]),
    "not one that differs in a column of both": (
        [{"a": "1", "b": "2", "d": "6"}, {"a": "1", "b": "2", "c": "3"}], [{"a": "1", "b": "2", "d": "5"}],
        [{"a": "1", "b": "2", "d": "6"}], [],
    ),
    "the same value, written otherwise": (
        [{"a": "1", "d": "1.5"}, {"a": "1", "d": "1.51"}], [{"a": "1", "d": "+1.50"}], [{"a": "1", "d": "1.51"}], [],
    ),
    "two texts": ([{"a": "1.5"}], [{"a": "1.50"}], [{"a": "1.5"}], [{"a": "1.50"}]),
    "nothing in common": ([{"a": "1"}], [{"b": "1"}], [{"a": "1"}], [{"b": "1"}]),
    "copies, some of them": (
        [{"a": "1", "b": "2", "c": "3"}] * 2 + [{"a": "1", "b": "2", "c": "4"}], [{"a": "1", "b": "2"}] * 2,
        [], [],
    ),
    "more than there are": ([{"a": "1", "c": "3"}], [{"a": "1"}] * 3, [], [{"a": "1"}] * 2),
}  # fmt: skip


WITH_DECIMAL = TableShape(
    key=(), columns={"a": ColumnType("string"), "d": ColumnType("decimal(7,2)")}, encodings=ENCODINGS
)


def test_what_is_owed_takes_what_agrees_in_all_columns_that_both_know(spark: SparkSession) -> None:
    for name, (added, taken, there, owed) in OWED.items():
        changes = [("insert", "after", image) for image in added] + [("delete", "before", image) for image in taken]
        rows = frame(
            spark,
            [
                {"op": op, side: image, "position": str(at), "landed_this_hour": True, "record": at}
                for at, (op, side, image) in enumerate(changes)
            ],
        )
        matched = _matched(rows, None, WITH_DECIMAL)
        found = {image: numbers[0] for image, numbers in matched.items() if numbers[0]}
        assert not any(before for _, before, *_ in matched.values())
        wanted = Counter(frozenset(image.items()) for image in there)
        wanted.subtract(frozenset(image.items()) for image in owed)
        if name == "copies, some of them":  # which of two that agree is gone is the same each time, and no more
            assert list(found.values()) == [1]
            continue
        assert found == {image: number for image, number in wanted.items() if number}, name


def _matched(
    rows: DataFrame, positions: keyless.SharedPositions | None, shape: TableShape
) -> dict[Image, tuple[int, int, int, int]]:
    """By image, without columns that have no value: copies now, and before; and how far below zero equal ones ever were, now
    and before."""
    effective = keyless.effective(rows, positions).localCheckpoint()
    images = match_owed(effective, keyless.copies(effective).localCheckpoint(), shape)
    texts = keyless.sides(effective, images=True).groupBy("hash").agg(F.first("image").alias("image"))
    found = images.join(texts, "hash").collect()
    assert len({row.hash for row in found}) == len(found)
    return {
        with_value(_image(row.image)): (row.now, row.before, row.lowest, row.lowest_before) for row in found
    }  # fmt: skip


def test_what_is_taken_away_meets_what_the_oracle_says(spark: SparkSession) -> None:
    """Of rows that come and go under any columns, whatever was there before this hour."""
    rng = Random(52)
    rows: list[dict[str, Any]] = []
    wanted: dict[Image, list[int]] = {}
    for history in range(400):
        changes = _under_other_columns(rng, history)
        landed = [rng.random() < 0.4 for _ in changes]
        before = [change for change, now in zip(changes, landed, strict=True) if not now]
        for at, known in enumerate((changes, before)):
            for image, number in counted_copies(known, _by_hash).items():
                wanted.setdefault(with_value(image), [0, 0])[at] += number
        rows += [
            {"op": change.op, "position": f"{change.position:03d}", "topic": f"t{history}", "partition": 0, "object": "o",
             "offset": at, "record": at, "entry": 0, "landed_this_hour": now,
             "before": None if change.taken is None else dict(change.taken),
             "after": None if change.op == "delete" else dict(change.sent)}
            for at, (change, now) in enumerate(zip(changes, landed, strict=True))
        ]  # fmt: skip
    rng.shuffle(rows)
    shared = keyless.SharedPositions(shared=F.lit(True))
    found = _matched(frame(spark, rows), shared, TEXTS)
    wrong = {image: (found[image], numbers) for image, numbers in wanted.items() if list(found[image][:2]) != numbers}
    assert not wrong
    assert all(image in wanted for image, numbers in found.items() if any(numbers[:2]))
    agreed = sum(numbers[0] != numbers[2] < 0 for numbers in found.values())
    assert agreed > 100, "copies have met others"


def test_an_hour_that_finds_equal_rows_is_added_to_what_is_there() -> None:
    """So that its log need not be read: nothing is owed, and the hour stands behind all that is there."""
    rng, added = Random(53), 0
    for history in range(4000):
        changes = _under_other_columns(rng, history)
        behind = rng.choice(changes).position
        stored = counted_copies((change for change in changes if change.position < behind), _by_hash)
        here, hour = _by_value(stored), [change for change in changes if change.position >= behind]
        if min(here.values(), default=0) < 0:
            continue
        so_far, short = Counter(here), False
        for _, _, image, sign in sorted(steps_of(hour), key=lambda step: step[:2]):
            so_far[with_value(image)] += sign
            short |= so_far[with_value(image)] < 0
        if not short:
            added += 1
            assert _some(so_far) == _some(_by_value(counted_copies(changes, _by_hash)))
    assert added > 400


TEXTS = TableShape(key=(), columns={name: ColumnType("string") for name in ("id", *"abcd")}, encodings=ENCODINGS)


def _under_other_columns(rng: Random, history: int) -> list[Change]:
    """Rows that come and go under these columns and those, some of which nobody added, and equal changes at one position."""
    changes: list[Change] = []
    position, known = 0, list[Image]()
    for _ in range(rng.randint(2, 9)):
        position += rng.choice((0, 1, 1))
        alike = rng.random() < 0.1 and changes and changes[-1].position == position
        if alike:
            changes.append(changes[-1])
            continue
        sent, taken = (_any_image(rng, history, known) for _ in range(2))
        op = rng.choice(("insert", "insert", "delete", "delete", "update"))
        if op == "update" and rng.random() < 0.3:
            taken = sent
        changes.append(
            Change(
                "m", position, op, sent=frozenset() if op == "delete" else sent, taken=None if op == "insert" else taken
            )
        )
    return _told_apart(changes)


def _any_image(rng: Random, history: int, known: list[Image]) -> Image:
    if known and rng.random() < 0.4:
        return rng.choice(known)
    names = rng.choice(("a", "ab", "abc", "ac", "abd"))
    values = {"a": "11112", "b": "1112-", "c": "55-", "d": "7-"}
    row = {name: rng.choice(values[name]) for name in names}
    image = frozenset({("id", str(history)), *((n, None if v == "-" else v) for n, v in row.items())})
    known.append(image)
    return image


def _told_apart(changes: list[Change]) -> list[Change]:
    """Without changes that are the same at one position but for columns without a value: a source sends none."""
    seen: dict[tuple[int, str, Image, Image | None], Change] = {}
    for change in changes:
        taken = None if change.taken is None else with_value(change.taken)
        seen.setdefault((change.position, change.op, with_value(change.sent), taken), change)
    return [change for change in changes if change in seen.values()]


def _by_hash(image: Image) -> tuple[str, list[tuple[str, bool, str]]]:
    entries = sorted((name, str(value)) for name, value in with_value(image))
    text = json.dumps([{"key": name, "value": value} for name, value in entries], separators=(",", ":"))
    names = sorted((name, value is not None, str(value)) for name, value in image)
    return hashlib.sha256(text.encode()).hexdigest(), names


def _by_value(copies_: Counter[Image]) -> Counter[Image]:
    found = Counter[Image]()
    for image, number in copies_.items():
        found[with_value(image)] += number
    return found


def _some(copies_: Counter[Image]) -> dict[Image, int]:
    return {image: number for image, number in copies_.items() if number}


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


def _image(image: dict[str, str | None]) -> Image:
    return frozenset(image.items())
