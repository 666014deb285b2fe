"""What an hour finds published of a table: where its changes begin, and when they may be late."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import SparkSession

from tests.unit.changelog.published import (
    NEXT_HOUR,
    SOURCE,
    TABLE,
    HeldTable,
    make_feed,
    published,
    write_log,
    write_system_rows,
)
from tidemark.changelog import table_view
from tidemark.changelog.table_history import Definitions
from tidemark.changelog.table_view import TableView, open_state
from tidemark.errors import SchemaError, StateError
from tidemark.feeds.model import Feed
from tidemark.ledger.change_stats import TableStats
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.hour_run import HourRun
from tidemark.ledger.manifest import Manifest
from tidemark.ledger.receipts import TableProgress, TableReceipt
from tidemark.ledger.system_tables import note_pruned
from tidemark.settings import Settings

FEED = "unit_table_state"
STATS = TableStats(
    table=TABLE, sources=[SOURCE], landed=1, first="30", last="30", keyed=1, keys=["1\x1fid"], columns=["2\x1fid\x1fa"]
)
HELD = {"id": "int", "a": "string"}


@pytest.fixture(scope="module")
def feed(spark: SparkSession) -> Feed:
    feed = make_feed(spark, FEED)
    write_log(
        spark,
        FEED,
        [
            {"record": 1, "position": "10", "key": {"id": "1"}, "after": {"id": "1", "a": "x", "old": "y"}},
            {"record": 2, "position": "05", "op": "truncate"},
        ],
    )
    tombstones = [
        {"table": TABLE, "key": '{"id":2}', "sort_key": "20#0"},
        {"table": TABLE, "key": '{"id":3}', "sort_key": "21#0"},
        {"table": "pub.other", "key": '{"id":4}', "sort_key": "22#0"},
        {"table": TABLE, "key": '{"id":5}', "sort_key": "23#0"},
    ]
    write_system_rows(spark, FEED, "tombstones", 1, tombstones)
    write_system_rows(spark, FEED, "tombstones", 2, [{"table": TABLE, "key": '{"id":1}', "sort_key": "90#0"}])
    return feed


def opened(
    spark: SparkSession, settings: Settings, feed: Feed, held: HeldTable, state: FeedState,
    stats: TableStats = STATS, *, only_new: bool = False,
) -> TableView:  # fmt: skip
    manifest = Manifest(feed=FEED, hour=NEXT_HOUR, version=1, objects=[], created_at=datetime.now(UTC))
    return open_state(
        HourRun(spark=spark, feed=feed, settings=settings, manifest=manifest, state=state),
        stats,
        Definitions(),
        held,  # type: ignore[arg-type]
        only_new=only_new,
    )


def test_the_first_hour_makes_the_table(spark: SparkSession, settings: Settings, feed: Feed) -> None:
    held = HeldTable(spark)
    state = opened(spark, settings, feed, held, FeedState(feed=FEED))
    assert (state.highest, state.truncated, state.rebuild, state.retired) == (None, None, False, [])
    assert not state.is_late(STATS)
    assert not state.needs_log(STATS)
    assert not state.needs_log(replace(STATS, links=1)), "what it rests on is stored, or of the hour"
    two = replace(STATS, collisions=1)
    assert not state.needs_log(two), "of a key that had two rows for a moment one is stored, and the hour has the other"
    assert state.needs_log(replace(two, links=1)), "which of two rows another one rests on is told by the log alone"
    assert state.needs_log(replace(two, truncated="40")), "what is stored is not what was there before it"
    assert held.evolved == [], "to look at it changes nothing"
    state.evolve()
    assert held.evolved == [({"id": "string", "a": "string"}, ("id",), (), 3)]


def test_changes_may_be_late_up_to_the_highest_that_is_published(
    spark: SparkSession, settings: Settings, feed: Feed
) -> None:
    before = published(FEED, TableReceipt(table=TABLE, progress=TableProgress(highest="30#9", truncated="05")))
    state = opened(spark, settings, feed, HeldTable(spark, held=HELD), before)
    assert (state.highest, state.truncated, state.new_truncate, state.rebuild) == ("30#9", "05", False, False)
    times = [replace(STATS, first=first) for first in ("", "29", "30", "31")]
    assert [state.is_late(stats) for stats in times] == [False, True, True, False]
    assert not any(map(state.needs_log, times)), "late changes are joined with what is stored"
    assert [state.needs_log(replace(stats, links=1)) for stats in times] == [False, True, True, False], "not as of then"
    assert [state.may_be_partial(replace(STATS, partial=partial)) for partial in (0, 1)] == [False, True]
    truncating = TableStats(table=TABLE, sources=[SOURCE], landed=1, first="31", last="31", truncated="31", truncates=1)
    state = opened(spark, settings, feed, HeldTable(spark, held=HELD), before, truncating)
    assert (state.truncated, state.new_truncate) == ("31", True)
    assert [state.needs_log(replace(truncating, links=links)) for links in (0, 1)] == [False, True]
    assert state.shape.key == ("id",), "a truncate says nothing of the key"


@pytest.mark.parametrize(
    ("published_part", "rest", "asks"),
    [
        ({"arrived", "arrived_loose"}, {"began", "began_loose"}, True),
        # The feed file was another one then.
        ({"arrived"}, {"began", "began_loose"}, True),
        ({"arrived", "arrived_loose"}, {"began"}, True),
        # Then both have a name, and this one is another's: sources give transactions times that overlap.
        ({"arrived"}, {"began"}, False),
    ],
)
def test_changes_may_go_on_with_a_transaction_that_an_earlier_hour_began(
    spark: SparkSession, settings: Settings, feed: Feed, published_part: set[str], rest: set[str], asks: bool
) -> None:
    """Where the source does not name transactions, an hour may end in the middle of one that changes keys."""
    at = datetime(2026, 11, 20, 7)
    progress = TableProgress(highest="20#9", arrived_in="5:1", **dict.fromkeys(published_part, at))
    before = published(FEED, TableReceipt(table=TABLE, progress=progress))
    state = opened(spark, settings, feed, HeldTable(spark, held=HELD), before)
    began = (None, at, at + timedelta(seconds=1))
    assert [state.needs_log(replace(STATS, **dict.fromkeys(rest, when))) for when in began] == [False, asks, False]
    assert state.needs_log(replace(STATS, began_in="5:1"))


def test_the_log_is_asked_for_late_changes_that_no_row_tells_of(
    spark: SparkSession, settings: Settings, feed: Feed
) -> None:
    """Once a row of the table rested on another key, or where a tombstone may have been removed."""
    late, newer = replace(STATS, first="29"), replace(STATS, first="31")
    for entangled in (True, False):
        before = TableReceipt(table=TABLE, progress=TableProgress(highest="30#9", entangled=entangled))
        state = opened(spark, settings, feed, HeldTable(spark, held=HELD), published(FEED, before))
        assert [state.needs_log(stats) for stats in (late, newer)] == [entangled, False]
    note_pruned(spark, FEED, "29#0")
    assert [state.needs_log(stats) for stats in (late, newer)] == [True, False]
    note_pruned(spark, FEED, "")


def test_the_log_is_asked_for_what_is_older_than_a_key_change(
    spark: SparkSession, settings: Settings, feed: Feed
) -> None:
    """It may be the rest of its transaction. Rows have met where it changes keys itself."""
    before = TableReceipt(table=TABLE, progress=TableProgress(highest="30#9", last_key_change="25"))
    state = opened(spark, settings, feed, HeldTable(spark, held=HELD), published(FEED, before))
    times = [replace(STATS, first=first) for first in ("24", "25", "26", "31")]
    assert [state.needs_log(stats) for stats in times] == [True, True, False, False]
    moving = [replace(stats, leaving=1) for stats in times]
    assert [state.entangles(stats) for stats in (*times, *moving)] == [False] * 4 + [True, True, False, False]


def test_the_log_is_read_for_late_changes_that_are_known_to_be_new(
    spark: SparkSession, settings: Settings, feed: Feed
) -> None:
    """As a rule a change that is older than what the table holds is one that came again, and is taken out."""
    before = published(FEED, TableReceipt(table=TABLE, progress=TableProgress(highest="30#9", entangled=True)))
    late, newer = replace(STATS, first="29"), replace(STATS, first="31")
    found = {
        only_new: [opened(spark, settings, feed, HeldTable(spark, held=HELD), before, stats, only_new=only_new)
                   for stats in (late, newer)]
        for only_new in (False, True)
    }  # fmt: skip
    assert {only_new: [one.by_log for one in of] for only_new, of in found.items()} == {
        False: [False, False], True: [True, False],
    }  # fmt: skip
    assert "old" in found[True][0].shape.columns, "a column that published rows carry"
    assert "old" not in found[False][0].shape.columns


@pytest.mark.parametrize("partial", [True, False])
def test_rows_from_before_a_column_do_not_tell_which_changes_lacked_it(
    spark: SparkSession, settings: Settings, feed: Feed, partial: bool
) -> None:
    """The log is asked for what is older than the column, in the hour that brings it and in later ones."""
    old, late, newer = (replace(STATS, first=first) for first in ("19", "29", "31"))
    progress = TableProgress(highest="20#9", partial=partial)
    before = published(FEED, TableReceipt(table=TABLE, progress=progress))
    state = opened(spark, settings, feed, HeldTable(spark, held={"id": "int"}), before)
    assert state.learned == ("20#9" if partial else None), "the hour brings the other columns"
    assert [state.needs_log(stats) for stats in (old, newer)] == [partial, False]
    progress = progress.plus(TableProgress(highest="30#9", learned=state.learned))
    after = published(FEED, TableReceipt(table=TABLE, progress=progress))
    state = opened(spark, settings, feed, HeldTable(spark, held=HELD), after)
    assert [state.needs_log(stats) for stats in (old, late, newer)] == [partial, False, False]


def test_a_table_under_a_new_name_is_built_from_the_log(spark: SparkSession, settings: Settings, feed: Feed) -> None:
    state = opened(spark, settings, feed, HeldTable(spark), published(FEED, TableReceipt(table="old.name")))
    assert state.rebuild
    assert state.needs_log(replace(STATS, first="99")), "whatever comes may be in the log"
    assert state.truncated == "05"
    assert set(state.shape.columns) == {"id", "a", "old"}


def test_a_table_that_a_publication_made_which_does_not_count(
    spark: SparkSession, settings: Settings, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its receipt is lost with it, or the state is older than it."""
    before = published(FEED, TableReceipt(table=TABLE, progress=TableProgress(highest="30#9")))
    known = [opened(spark, settings, feed, HeldTable(spark, held=HELD, by=by), before) for by in (None, 1)]
    assert [(one.taken_back, one.rebuild, one.emptied) for one in known] == [(False, False, None)] * 2
    lost = opened(spark, settings, feed, HeldTable(spark, held=HELD, by=2), before)
    assert (lost.taken_back, lost.rebuild, lost.emptied) == (True, True, "~"), "no row of it stays"
    monkeypatch.setattr(table_view, "read_rows", lambda *_, **__: [{"sequence": 2}])
    with pytest.raises(StateError, match="publication 2 has made the table what it is and has a receipt"):
        opened(spark, settings, feed, HeldTable(spark, held=HELD, by=2), before)


def test_late_changes_are_classified_by_rows_and_tombstones(
    spark: SparkSession, settings: Settings, feed: Feed
) -> None:
    held = HeldTable(spark, [(1, "x", "10#1", None), (2, "y", "25#2", None), (3, "z", "11#1", "11#1")], HELD)
    before = published(FEED, TableReceipt(table=TABLE, progress=TableProgress(highest="25#9")))
    note_pruned(spark, FEED, "04#0")
    table = opened(spark, settings, feed, held, before).published_changes()
    found = {row.key["id"]: (row.stored_sort_key, row.stored_base_sort_key) for row in table.stored.collect()}
    # 2 has come back since it was deleted; the delete of 3 took another row of its key, or waits in quarantine
    assert found == {1: ("10#1", None), 2: ("25#2", "20#0"), 3: ("11#1", "11#1"), 5: ("23#0", "23#0")}
    assert (table.highest, table.pruned, table.rebuild) == ("25#9", "04#0", False)
    assert [(row.key["id"], row.sort_key) for row in table.rows.collect()] == [(1, "10#1")]


def test_a_table_cannot_be_rebuilt_by_a_key_that_the_log_does_not_have(
    spark: SparkSession, settings: Settings, feed: Feed
) -> None:
    declared = feed.model_copy(update={"tables": {SOURCE: feed.tables[SOURCE].model_copy(update={"key": ["no"]})}})
    with pytest.raises(SchemaError, match="the change log holds changes without a value of the key no"):
        opened(spark, settings, declared, HeldTable(spark), published(FEED, TableReceipt(table="old.name")))
