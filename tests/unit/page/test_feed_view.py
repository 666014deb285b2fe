"""What kind of hour an hour of a feed's strip is."""

from __future__ import annotations

from typing import Any

import pytest

from tidemark.hours import Hour
from tidemark.ledger.feed_state import FeedState, NextPublication
from tidemark.ledger.receipts import Receipt
from tidemark.page.feed_view import KINDS, judge_hour, out_of_order, unpublished_kind
from tidemark.page.quarantine_view import printable
from tidemark.page.runs import Run

HOUR = Hour("2026-11-20T07")


def receipt(sequence: int, **more: Any) -> Receipt:
    fields = {
        "landed": 1,
        "split": 0,
        "control": 1,
        "bad": 0,
        "held": 0,
        "objects": 1,
        "bytes": 1,
        "manifest_version": 1,
    }
    return Receipt(feed="f", hour=HOUR, sequence=sequence, **(fields | more))


@pytest.mark.parametrize(
    ("receipts", "kept_back", "late", "kind"),
    [
        ([receipt(1)], False, False, "published"),
        ([receipt(1, landed=0)], False, False, "empty"),
        ([receipt(1)], False, True, "changed"),
        ([receipt(1), receipt(2)], False, False, "changed"),
        ([receipt(1)], True, True, "quarantine"),
        ([receipt(1, stopped={"a.b": "why"})], True, False, "stopped"),
    ],
)
def test_a_published_hour_is_what_is_worst_about_it(
    receipts: list[Receipt], kept_back: bool, late: bool, kind: str
) -> None:
    assert judge_hour(receipts, kept_back=kept_back, out_of_order=late) == kind and kind in KINDS


@pytest.mark.parametrize(
    ("run", "begun", "kind"),
    [("running", False, "running"), ("queued", True, "running"), ("failed", True, "failed"), ("success", False, "missing"),
     (None, True, "running"), (None, False, "missing")],
)  # fmt: skip
def test_an_hour_that_is_not_published_is_what_airflow_says(run: str | None, begun: bool, kind: str) -> None:
    begun_hour = NextPublication(sequence=1, hour=HOUR, manifest_version=1) if begun else None
    known = Run(run_id="r", state=run) if run else None
    assert unpublished_kind(HOUR, FeedState(feed="f", next=begun_hour), known) == kind


def test_an_hour_is_late_that_a_later_one_came_before() -> None:
    first = {"2026-11-20T05": [receipt(1)], "2026-11-20T06": [receipt(4), receipt(5)], "2026-11-20T07": [receipt(2)]}
    assert out_of_order(first) == {"2026-11-20T06"}
    again = {"2026-11-20T05": [receipt(1), receipt(9)], "2026-11-20T06": [receipt(2)]}
    assert out_of_order(again) == set(), "run again is not late"


def test_a_record_moves_no_cursor_and_turns_no_text() -> None:
    assert printable("a\u202eb\x1b[2J\nc\x00") == "a�b�[2J\nc�"
