"""A receipt whose sum does not hold is no receipt."""

from __future__ import annotations

import pytest

from tidemark.errors import AccountError
from tidemark.ledger.receipts import Counts, Recalled, Receipt, TableReceipt


def receipt(**changes: object) -> Receipt:
    counts = Counts(applied=5, duplicate=1, superseded=1, quarantined=1, released_applied=7)
    values: dict[str, object] = {
        "feed": "shop", "hour": "2026-11-20T07", "sequence": 1, "manifest_version": 1, "objects": 1, "bytes": 1,
        "landed": 12, "split": 1, "control": 2, "bad": 1, "held": 2,
        "tables": [TableReceipt(table="a.b", counts=counts)],
    }  # fmt: skip
    return Receipt.model_validate(values | changes)


def test_the_sum_holds() -> None:
    receipt().balance()


@pytest.mark.parametrize("name", ["landed", "split", "control", "bad", "held"])
def test_one_record_too_many_is_found(name: str) -> None:
    wrong = receipt(**{name: getattr(receipt(), name) + 1})
    with pytest.raises(AccountError, match="feed shop, hour 2026-11-20T07"):
        wrong.balance()


def test_an_hour_published_again_adds_up() -> None:
    again = receipt(sequence=2).follow(receipt())
    assert (again.landed, again.counts.applied, again.sequence) == (24, 10, 2)
    again.balance()


def test_what_a_replay_takes_up_again_counts_as_it_comes_out_now() -> None:
    before = receipt(recalls=3)
    before.tables[0].waiting = 1
    taken = Recalled(landed=3, split=1, bad=1, refused=0, held=2, tables={"a.b": 1}, checked={"a.b": 1})
    counts = Counts(applied=3, superseded=1)
    fresh = receipt(
        sequence=4,
        landed=3,
        split=1,
        control=0,
        bad=0,
        held=0,
        recalls=2,
        tables=[TableReceipt(table="a.b", counts=counts)],
    )
    again = fresh.follow(before.without(taken))
    again.balance()
    assert (again.landed, again.split, again.quarantined, again.held, again.recalls) == (12, 1, 0, 0, 3)
    assert (again.counts.applied, again.counts.superseded) == (8, 2)
    assert [table.waiting for table in again.tables] == [0]
    assert [table.waiting for table in fresh.follow(before).tables] == [1], "what waits still waits"
    with pytest.raises(AccountError):
        fresh.follow(before.without(Recalled(bad=1))).balance()
