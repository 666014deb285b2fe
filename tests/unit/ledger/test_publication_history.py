"""Which publications the cut of an hour shows, and which hours came after it."""

from __future__ import annotations

from tidemark.hours import Hour, hours_between
from tidemark.ledger.publication_history import PublicationHistory
from tidemark.ledger.receipts import Receipt, TableReceipt

HOURS = hours_between("2026-11-20T00", "2026-11-20T05")


def receipt(sequence: int, hour: Hour, cut_by: int, *tables: str) -> Receipt:
    written = [TableReceipt(table=name, staged_in=sequence) for name in tables]
    return Receipt(
        feed="f", hour=hour, sequence=sequence, manifest_version=1, objects=1, bytes=1, landed=1, split=0, control=0,
        bad=0, held=0, cut_by=cut_by, tables=written,
    )  # fmt: skip


def shown(history: PublicationHistory, hour: Hour) -> list[int]:
    return [receipt.sequence for receipt in history.in_cut(hour).receipts]


def test_a_cut_shows_its_hour_and_hours_before_it_until_it_was_made() -> None:
    history = PublicationHistory(
        [
            receipt(1, HOURS[0], 1, "a"),
            receipt(2, HOURS[3], 2, "a"),
            receipt(3, HOURS[2], 3, "a"),
            receipt(4, HOURS[0], 1, "b"),
            receipt(5, HOURS[1], 5, "a"),
            receipt(6, HOURS[1], 5),
            receipt(7, HOURS[4], 7, "a"),
        ]
    )
    assert [shown(history, hour) for hour in HOURS] == [[1], [1, 4, 5], [1, 3], [1, 2], [1, 2, 3, 4, 5, 6, 7], []]
    came_later = [history.after_cut(hour) for hour in HOURS]
    assert came_later == [[HOURS[0]], [], [HOURS[0], HOURS[1]], [HOURS[0], HOURS[1], HOURS[2]], [], []]
    assert history.after_cut(HOURS[2], "a") == [HOURS[1]]
    assert history.after_cut(HOURS[0], "a") == []
