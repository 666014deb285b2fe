"""What a feed's receipts add up to."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import pytest

from tidemark.hours import Hour, hours_between
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.manifest import Manifest
from tidemark.ledger.publication_history import PublicationHistory
from tidemark.ledger.receipts import Counts, FeedProgress, Receipt, Reload, TableProgress, TableReceipt

HOURS = hours_between("2026-11-20T00", "2026-11-21T03")


def receipt(sequence: int, hour: Hour, version: int = 1, **more: Any) -> Receipt:
    return Receipt(
        feed="f", hour=hour, sequence=sequence, manifest_version=version, objects=1, bytes=1, split=0, control=0,
        **{"landed": 1, "bad": 0, "held": 0, **more},
    )  # fmt: skip


def manifest(version: int) -> Manifest:
    return Manifest(feed="f", hour=HOURS[1], version=version, objects=[], created_at=datetime.now(UTC))


def test_hours_in_order_are_one_range() -> None:
    state = FeedState.of("f", [receipt(n, hour) for n, hour in enumerate(HOURS, 1)])
    assert [(one.first, one.last, one.sequence, one.version) for one in state.hours] == [(HOURS[0], HOURS[-1], 1, 1)]
    assert state.cut_by(HOURS[5]) == 6


@pytest.mark.parametrize("seed", range(20))
def test_hours_in_any_order_are_found_again(seed: int) -> None:
    """Against a plain dictionary: missing hours, hours again, numbers that attempts took and did not use."""
    chance, sequence = random.Random(seed), 0
    state, first, newest, receipts = FeedState(feed="f"), {}, {}, []
    for hour in [*chance.sample(HOURS, 20), *chance.sample(HOURS, 5)]:
        sequence += chance.choice((1, 1, 1, 3))
        version = newest.get(hour, 0) + 1
        receipts.append(receipt(sequence, hour, version))
        state = state.after(receipts[-1])
        first.setdefault(hour, sequence)
        newest[hour] = version
    for hour in HOURS:
        assert state.version_of(hour) == newest.get(hour, 0)
        assert (state.has(hour), state.cut_by(hour)) == (hour in first, first.get(hour, 0))
        spans = [one for one in state.spans() if one.first <= hour <= one.last]
        assert [one.version for one in spans] == ([1] if hour in first else [])
    assert state.newest_hour == max(first)
    used = {one.sequence for one in receipts}
    assert [n for n in range(1, sequence + 1) if state.counts(n)] == sorted(used)
    assert PublicationHistory(receipts).state == state


def test_each_attempt_has_a_number_of_its_own() -> None:
    state = FeedState.of("f", [receipt(1, HOURS[0])])
    numbers = []
    for version in (1, 1, 2):
        state = state.beginning(manifest(version))
        numbers.append(state.attempt.sequence)
        assert state.attempt.of(manifest(version)) and not state.attempt.of(manifest(version + 1))
    assert numbers == [2, 3, 4]
    done = state.after(receipt(4, HOURS[1], 2))
    assert done.next is None and done.unpublished == [2, 3]
    assert done.beginning(manifest(1)).attempt.sequence == 5


def test_a_table_goes_on_from_the_newest_that_was_said_of_it() -> None:
    tables = [
        TableReceipt(
            table="a",
            rows=3,
            progress=TableProgress(highest="20", truncated="04", sources=["S.A"], column_renames=["x"]),
        ),
        TableReceipt(
            table="a",
            rows=4,
            progress=TableProgress(highest="10", truncated="05", sources=["S.B"], column_renames=["y"]),
        ),
        TableReceipt(table="b", progress=TableProgress(highest="30")),
    ]
    state = FeedState.of("f", [receipt(n, HOURS[n], tables=[table]) for n, table in enumerate(tables, 1)])
    table = state.table("a")
    assert (table.highest, table.truncated) == ("20", "05")
    assert (table.sources, table.column_renames) == (["S.A", "S.B"], ["x", "y"])
    assert (state.highest, state.rows, sorted(state.tables)) == ("30", {"a": 4}, ["a", "b"])
    assert state.table("never") == FeedState(feed="f").table("a")


def test_a_publication_that_folds_all_rows_again_says_where_the_newest_truncate_stands() -> None:
    """It may stand lower than before, or count no more."""
    lower = TableProgress(truncated="05").plus(TableProgress(truncated="03", refolded_by=2))
    assert (lower.truncated, lower.plus(TableProgress(truncated="02")).truncated) == ("03", "03")
    assert lower.plus(TableProgress(refolded_by=3)).truncated is None


def test_what_the_newest_receipt_of_an_hour_says_counts() -> None:
    reload = Reload(hour=HOURS[1], began=HOURS[2], position="07+")
    first = receipt(
        1,
        HOURS[1],
        bad=2,
        reloads=["S.A"],
        stopped={"a": "why"},
        progress=FeedProgress(edges=["e1"], reloads={"S.A": [reload]}),
    )
    state = FeedState.of("f", [first])
    assert (state.with_bad, state.stopped) == ([HOURS[1]], {HOURS[1]: {"a": "why"}})
    assert state.reloads == {}, "its load began in an hour that is not published"
    state = state.after(receipt(2, HOURS[2], progress=FeedProgress(reloads={"S.A": [reload]})))
    assert state.reloaded(["S.A", "S.C"]) == "07+" and state.named_reloads == {HOURS[1]: ["S.A"]}
    state = state.after(
        receipt(3, HOURS[1], 2, progress=FeedProgress(edges=["e2"]), recalls=1, held_transactions=4, waiting_entries=5)
    )
    assert (state.with_bad, state.stopped, state.named_reloads) == ([], {}, {})
    assert (state.edges, state.recalls) == ({HOURS[1]: ["e1", "e2"]}, {HOURS[1]: 1})
    assert (state.held_transactions, state.waiting_entries, state.last_hour) == (4, 5, HOURS[1])


def test_a_table_is_stopped_until_every_hour_whose_changes_wait_has_run_again() -> None:
    held = FeedProgress(stopped_hours=[HOURS[1]])
    state = FeedState.of("f", [receipt(1, HOURS[1]), receipt(2, HOURS[2], stopped={"a": "why"}, progress=held)])
    assert state.stopped == {HOURS[1]: {"a": "why"}, HOURS[2]: {"a": "why"}}
    assert state.after(receipt(3, HOURS[1], 2)).stopped == {HOURS[2]: {"a": "why"}}
    assert state.after(receipt(3, HOURS[2], 2)).stopped == {HOURS[1]: {"a": "why"}}


def test_hours_with_statements_stay_noted() -> None:
    """What a newer version of their export does not bring again is in the log all the same."""
    said, silent = FeedProgress(statements=True), FeedProgress(statements=False)
    state = FeedState.of("f", [receipt(1, HOURS[1], progress=said), receipt(2, HOURS[2], progress=silent)])
    assert state.with_statements == [HOURS[1]]
    state = state.after(receipt(3, HOURS[1], 2, progress=silent)).after(receipt(4, HOURS[2], 2, progress=said))
    assert state.with_statements == [HOURS[1], HOURS[2]]
    assert FeedState.of("f", [receipt(1, HOURS[1])]).with_statements == [HOURS[1]], "where no receipt says"


def test_any_hour_of_a_state_that_notes_no_statements_may_have_some() -> None:
    """A state that was stored before they were noted would else read as if no hour had stated anything."""
    silent = FeedProgress(statements=False)
    stored = FeedState.of("f", [receipt(1, HOURS[1], progress=silent), receipt(2, HOURS[2], progress=silent)])
    assert FeedState.model_validate_json(stored.model_dump_json()).with_statements == []
    of_before = FeedState.model_validate_json(stored.model_dump_json(exclude={"with_statements"}))
    assert of_before.with_statements == [HOURS[1], HOURS[2]]
    assert FeedState(feed="f").with_statements == []


def test_a_state_is_the_same_when_it_is_read_again() -> None:
    written = FeedState.of(
        "f", [receipt(1, HOURS[1], 2, stopped={"a": "b"}), receipt(3, HOURS[1], 3, amended=[HOURS[1]])]
    )
    assert FeedState.model_validate_json(written.model_dump_json()) == written
    assert written.cut_by(HOURS[1]) == 3


def test_a_glance_needs_no_receipt() -> None:
    """The newest hours with what landed in them, and what is in quarantine of which hour."""
    many = hours_between("2026-11-20T00", "2026-11-22T11")
    state = FeedState.of("f", [receipt(n, hour, landed=n) for n, hour in enumerate(many, 1)])
    assert state.recent == {hour: n for n, hour in enumerate(many, 1) if hour >= "2026-11-20T12"}
    bad = receipt(len(many) + 1, many[3], bad=2, refused=1, held_transactions=1, held_since=many[2])
    state = state.after(bad)
    assert len(state.recent) == 48 and many[3] not in state.recent
    assert (state.in_quarantine, state.held_since) == ({many[3]: 3}, many[2])
    state = state.after(receipt(len(many) + 2, many[3]))
    assert (state.in_quarantine, state.held_since) == ({}, None)


@pytest.mark.parametrize(
    "later", [{"tables": [TableReceipt(table="a", counts=Counts(released_quarantined=1))]}, {"given_up": 1}]
)
def test_what_the_state_cannot_know_of_the_quarantine_stays_unknown(later: dict[str, Any]) -> None:
    """A change that waited in one hour and was put in quarantine by another, refused or given up, is not told by hour."""
    state = FeedState.of("f", [receipt(1, HOURS[0], bad=1), receipt(2, HOURS[1], **later)])
    assert state.in_quarantine is None and state.after(receipt(3, HOURS[2], bad=1)).in_quarantine is None
