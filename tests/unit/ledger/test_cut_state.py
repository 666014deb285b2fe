"""What the feed's state alone tells of a cut, against the receipts of the publications that the cut shows."""

from __future__ import annotations

import random

import pytest

from tidemark.changelog.reloads import altered
from tidemark.hours import Hour, hours_between
from tidemark.ledger.cut_state import columns_renamed, reloads_changed, state_in_cut, state_up_to
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.publication_history import PublicationHistory
from tidemark.ledger.receipts import FeedProgress, Receipt, Reload, TableProgress, TableReceipt

HOURS = hours_between("2026-11-20T00", "2026-11-20T11")


def random_history(chance: random.Random) -> PublicationHistory:
    """Hours in any order, some again, some with their cuts and those of later hours made again; edges, reloads that begin,
    move and are taken back, tables that are named, and columns that are renamed."""
    receipts: list[Receipt] = []
    reloads: dict[str, list[Reload]] = {}
    sequence, versions = 0, dict.fromkeys(HOURS, 0)
    for hour in [*chance.sample(HOURS, 9), *chance.choices(HOURS, k=5)]:
        sequence += chance.choice((1, 1, 2))
        versions[hour] += 1
        source = chance.choice(("S.A", "S.B"))
        kept = [one for one in reloads.get(source, []) if one.began != hour]
        match chance.randrange(6):
            case 0:
                reloads = reloads | {source: kept}
            case 1:
                reloads = reloads | {source: [*kept, Reload(hour=hour, began=hour, position=str(chance.randrange(9)))]}
        table = TableReceipt(
            table=source.lower(), staged_in=sequence,
            progress=TableProgress(sources=[source], column_renames=chance.choice(([], [], [f"r{sequence}"]))),
        )  # fmt: skip
        published = {receipt.hour for receipt in receipts}
        receipts.append(
            Receipt(
                feed="f", hour=hour, sequence=sequence, manifest_version=versions[hour], objects=1, bytes=1, landed=1,
                split=0, control=0, bad=0, held=0, tables=[table],
                amended=[one for one in published if one >= hour] if chance.random() < 0.4 else [],
                progress=FeedProgress(edges=[f"e{sequence}"] if chance.random() < 0.5 else [], reloads=reloads),
            )
        )  # fmt: skip
    return PublicationHistory(receipts)


def shown(state: FeedState) -> dict[Hour, int]:
    return {hour: state.version_of(hour) for hour in HOURS if state.has(hour)}


@pytest.mark.parametrize("seed", range(60))
def test_the_state_tells_what_a_cut_shows(seed: int) -> None:
    history = random_history(random.Random(seed))
    state = history.state
    assert state.published_hours() == history.hours
    for hour in HOURS:
        cut, receipts = state_in_cut(state, hour), history.in_cut(hour).state
        assert shown(cut) == shown(receipts)
        assert cut.last_sequence == receipts.last_sequence
        assert {*cut.edges} <= {*receipts.edges} and all(cut.edges[one] == receipts.edges[one] for one in cut.edges)
        for name, table in receipts.tables.items():
            now = state.table(name)
            assert columns_renamed(now, cut) == (now.column_renames != table.column_renames)


@pytest.mark.parametrize("seed", range(60))
def test_the_state_tells_whether_reloads_have_changed_since_a_cut(seed: int) -> None:
    history = random_history(random.Random(seed))
    state, last = history.state, history.receipts[-1]
    unchanged = 0
    for at in HOURS:
        then = state_up_to(state, at)
        of_hours = history.of([one for one in history.receipts if one.hour <= at and one is not last] + [last])
        assert shown(then) == {hour: version for hour, version in shown(of_hours.state).items() if hour <= at}
        for base in [hour for hour in HOURS if hour <= at and state.has(hour)]:
            before, cut = history.in_cut(base).state, state_in_cut(state, base)
            for source in ("S.A", "S.B"):
                changed = reloads_changed(state, source, cut, at)
                assert changed or source not in altered(before.reloads, then.reloads)
                unchanged += not changed
    assert unchanged, "most cuts go on from another"


def test_nothing_is_shown_by_a_cut_that_is_not_there() -> None:
    state = random_history(random.Random(1)).state
    assert state_in_cut(state, HOURS[-1].plus(5)) == FeedState(feed="f")


def test_a_table_is_known_from_the_oldest_hour_that_names_it() -> None:
    tables = [TableReceipt(table="a"), TableReceipt(table="b")]
    history = PublicationHistory(
        [
            Receipt(
                feed="f", hour=hour, sequence=number, manifest_version=1, objects=1, bytes=1, landed=1, split=0,
                control=0, bad=0, held=0, tables=named,
            )
            for number, (hour, named) in enumerate(
                [(HOURS[4], tables[:1]), (HOURS[2], tables), (HOURS[3], tables[1:])], 1
            )
        ]
    )  # fmt: skip
    assert {name: table.first_hour for name, table in history.state.tables.items()} == {"a": HOURS[2], "b": HOURS[2]}
