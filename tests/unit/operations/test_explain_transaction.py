"""What became of a transaction, in words, and the first cut that shows it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tidemark.errors import ConfigError
from tidemark.hours import Hour, hours_between
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.publication_history import PublicationHistory
from tidemark.ledger.receipts import Receipt
from tidemark.operations.explain_row import state_at_cut
from tidemark.operations.explain_transaction import first_cut, publication_of, what_became

HOURS = hours_between("2026-11-20T00", "2026-11-20T05")


def receipt(sequence: int, hour: Hour, version: int = 1, **more: Any) -> Receipt:
    return Receipt(
        feed="f", hour=hour, sequence=sequence, manifest_version=version, objects=1, bytes=1, landed=1, split=0, control=0,
        bad=0, held=0, **more,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("fates", "words"),
    [
        ({"applied": 2, "control": 2}, "published whole"),
        ({"applied": 2, "duplicate": 2}, "published whole"),
        ({"gone": 1, "applied": 1}, "published whole"),
        ({"held": 3, "control": 1}, "held"),
        ({"in quarantine": 3}, "in quarantine"),
        ({"rolled back": 1, "control": 1}, "rolled back"),
        ({"control": 2}, "nothing but markers has landed"),
        ({"applied": 2, "in quarantine": 1}, "published but for 1 in quarantine"),
        ({"held": 2, "in quarantine": 1}, "2 held, 1 in quarantine"),
        ({"held": 1, "its hour is not published yet": 1}, "1 held, 1 its hour is not published yet"),
    ],
)
def test_a_transaction_in_words(fates: dict[str, int], words: str) -> None:
    assert what_became(Counter(fates)) == words


def test_the_first_cut_is_that_of_its_last_hour() -> None:
    state = FeedState.of("f", [receipt(n, hour) for n, hour in enumerate(HOURS[:5], 1)])
    assert first_cut(state, [(HOURS[1], 1), (HOURS[2], 1)], 0) == HOURS[2]
    assert first_cut(state, [(HOURS[1], 1)], held_after=2) == HOURS[2], "a later hour released it"
    assert first_cut(state, [(HOURS[4], 2)], 0) is None, "what brought it is not published"


@pytest.mark.promise(3)
def test_a_late_hour_is_in_cuts_that_are_made_after_it() -> None:
    """Hour 1 comes after hours 2 and 3, whose cuts stay as they were made."""
    state = FeedState.of("f", [receipt(n, HOURS[at]) for n, at in enumerate((0, 2, 3, 1, 4), 1)])
    assert [publication_of(state, hour, 1) for hour in HOURS[:5]] == [1, 4, 2, 3, 5]
    assert first_cut(state, [(HOURS[1], 1)], 0) == HOURS[1]
    assert first_cut(state, [(HOURS[1], 1), (HOURS[2], 1)], 0) == HOURS[4]
    amended = state.after(receipt(6, HOURS[5], amended=[HOURS[2]]))
    assert first_cut(amended, [(HOURS[1], 1), (HOURS[2], 1)], 0) == HOURS[2]


def test_what_a_mended_export_brought_is_of_its_own_publication() -> None:
    state = FeedState.of("f", [receipt(1, HOURS[0]), receipt(2, HOURS[1]), receipt(3, HOURS[0], version=2)])
    assert [publication_of(state, HOURS[0], version) for version in (1, 2, 3)] == [1, 3, 0]
    assert first_cut(state, [(HOURS[0], 2)], 0) is None, "no cut has been made since"
    assert first_cut(state.after(receipt(4, HOURS[2])), [(HOURS[0], 2)], 0) == HOURS[2]


def test_a_cut_is_explained_by_the_state_it_was_made_with() -> None:
    receipts = [receipt(n, HOURS[at], held_transactions=n) for n, at in enumerate((0, 1, 3, 2, 4), 1)]
    history = PublicationHistory(receipts)
    then = state_at_cut(history, history.state, HOURS[1])
    assert (then.last_sequence, then.held_transactions, then.newest_hour) == (2, 2, HOURS[1])
    assert state_at_cut(history, history.state, HOURS[4]).last_sequence == 5
    with pytest.raises(ConfigError, match="a later hour was published already"):
        state_at_cut(history, history.state, HOURS[2])
    with pytest.raises(ConfigError, match="has no cut"):
        state_at_cut(history, history.state, HOURS[5])
    newest = receipt(6, HOURS[5])
    unrecorded = history.state.after(newest).model_copy(update={"unrecorded": newest})
    assert state_at_cut(history, unrecorded, HOURS[5]).last_sequence == 6
