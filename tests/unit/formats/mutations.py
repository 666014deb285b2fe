"""Messages spoilt in the ways that messages get spoilt, all from one seed; and what becomes of them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import Column, Row, SparkSession
from pyspark.sql import functions as F

from tests.landed_records import read_landed
from tidemark.feeds.loading import load_feed
from tidemark.formats import load_format
from tidemark.values import encodings
from tidemark.values.columns import ColumnType

#: What stands where something else belongs: other types, and numbers at and beyond every edge.
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63 - 1, 2**63, -(2**63), 10**40, 1.5, 1e308, "", " ", "x", "-1", "1e9",
    "NaN", "9" * 60, "2026-99-99T25:61:61Z", "é\u0000\ud83d\ude00", "[]", "{}", [], [None], [[[]]], {}, {"a": None},
    {"": {"": []}}, ["null", "1"], "__debezium_unavailable_value", "AAAA", "%%%", "d", "END",
)  # fmt: skip


def spoil_bytes(whole: bytes, pick: random.Random) -> bytes:
    """Cut off, cut out, doubled, swapped or overwritten somewhere."""
    first, last = sorted(pick.randrange(len(whole) + 1) for _ in range(2))
    last = min(last, first + pick.choice((1, 2, 8, 60)))
    kinds: tuple[Callable[[], bytes], ...] = (
        lambda: whole[:first],
        lambda: whole[first:],
        lambda: whole[:first] + whole[last:],
        lambda: whole[:last] + whole[first:],
        lambda: whole[:first] + pick.randbytes(last - first) + whole[last:],
        lambda: (
            whole[:first] + pick.choice((b'"', b",", b"\\", b"{", b"}", b"null", b"0", b"-", b"\xff")) + whole[first:]
        ),
        lambda: whole[:first] + whole[first:last][::-1] + whole[last:],
        lambda: whole + pick.choice((b" ", b"x", b"}", b"]", whole)),
    )
    return pick.choice(kinds)()


def spoil_json(whole: bytes, pick: random.Random) -> bytes:
    """One value somewhere in a JSON document replaced, taken out, or put under another name."""
    document = json.loads(whole)
    places = list(_places(document))
    if not places:
        return json.dumps(pick.choice(VALUES)).encode()
    holder, name = pick.choice(places)
    what = pick.random()
    if what < 0.7:
        holder[name] = pick.choice(VALUES)
    elif what < 0.85:
        del holder[name]
    elif isinstance(holder, dict):
        holder[pick.choice(("", "x", name.upper(), "op", "source"))] = holder.pop(name)
    return json.dumps(document).encode()


def _places(document: Any) -> Any:
    if isinstance(document, dict | list):
        for name in document if isinstance(document, dict) else range(len(document)):
            yield document, name
            yield from _places(document[name])


def lines(messages: Sequence[bytes], number: int, pick: random.Random, spoil: Sequence[Any]) -> list[bytes]:
    """So many spoilt messages, each one line of text."""
    found = []
    while len(found) < number:
        spoilt = pick.choice(spoil)(pick.choice(messages), pick).replace(b"\n", b" ")
        found.append(spoilt)
    return found


def decode_objects(
    spark: SparkSession, feed_file: Path, objects: Sequence[Sequence[bytes]], kinds: Iterable[ColumnType]
) -> list[Row]:
    """One job: the lines of each object decoded as the feed says, and every value of every row read as each of the types,
    as fold would. The objects' names end in their index."""
    feed = load_feed(feed_file)
    format_ = load_format(feed.format["type"])
    paths = [feed_file.parent.parent / f"object-{index}" for index in range(len(objects))]
    for path, content in zip(paths, objects, strict=True):
        path.write_bytes(b"\n".join(content) + b"\n")
    records = read_landed(spark, "kafka_json", paths, feed.container_options)
    changes = format_.decode(records, feed, feed.format_options)
    texts, known = F.map_values("after"), {**encodings.ENCODINGS, **format_.ENCODINGS}

    def read(kind: ColumnType) -> Column:
        return F.size(F.transform(texts, lambda text: known[kind.encoding](text, kind.spark, kind.arg)))

    values = [read(kind).alias(f"r{index}") for index, kind in enumerate(sorted(set(kinds), key=str))]
    return changes.select("object", "record", "entry", "op", "problem", "position", "raw", *values).collect()
