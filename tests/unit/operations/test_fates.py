"""Which of the changes that are counted are told as applied."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Row

from tidemark.ledger.feed_state import FeedState
from tidemark.operations.fates import APPLIED, DUPLICATE, Fates


def told(state: FeedState, changes: list[dict[str, Any]]) -> list[str]:
    """What became of inserts of one position of a table without a key."""
    shared = {"published": True, "object": "o", "entry": 0, "hour": "2026-11-20T00", "op": "insert", "position": "5"}
    rows = [Row(**shared, record=number, key=None, **change) for number, change in enumerate(changes)]
    counted = {("o", number, 0) for number in range(len(rows))}
    fates = Fates(state=state, counted=counted, kept={}, waiting=(), lacks={}, rolled_back=())
    return [fates.of(row, "s.lines") for row in rows]


def test_a_change_beside_its_mended_copy_is_told_as_a_duplicate() -> None:
    replayed = FeedState(feed="f", recalls={"2026-11-20T00": 2})
    copy, bad = ({"tx": "7", "tx_ordinal": 1, "images": images} for images in (1, 2))
    other = {"tx": "7", "tx_ordinal": 2, "images": 3}
    assert told(replayed, [copy, other, bad, copy]) == [APPLIED, APPLIED, DUPLICATE, DUPLICATE]
    assert told(replayed, [{**copy, "tx": None}, {**bad, "tx": None}]) == [APPLIED, APPLIED]
