"""Where a reload that an operator named stands in the source's order, and what the receipt says of it."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.feeds.model import Feed
from tidemark.hours import Hour
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.receipts import FeedProgress, Receipt, Reload, TableProgress
from tidemark.tables.places import placed
from tidemark.tables.reloads import altered, find_reloads

HOURS = [f"2026-11-20T{hour:02}" for hour in range(6)]
FIRST = "0" * 35


def feed_of(format_: str) -> Feed:
    return Feed.model_validate(
        {
            "feed": "f", "description": "-", "owner": "-", "topics": ["t"],
            "exports": {"path": "{topic}/{date}/{hour}/*"}, "container": {"type": "kafka_json"},
            "format": {"type": format_}, "tables": {"S.T": {"name": "pub.t"}},
        }
    )  # fmt: skip


QLIK, CANAL = feed_of("qlik"), feed_of("canal")


def at(number: int) -> str:
    return f"{number:035d}"


def rows_of(spark: SparkSession, *rows: tuple[int, int | None, int | None]) -> DataFrame:
    """Log rows: (hour, offset, number of the change; None: a row of a load)."""
    listed = [
        (HOURS[hour], "S.T", "t", 0, offset, FIRST if number is None else at(number),
         "REFRESH" if number is None else "UPDATE", "insert" if number is None else "update")
        for hour, offset, number in rows
    ]  # fmt: skip
    return spark.createDataFrame(
        listed,
        "hour string, source_table string, topic string, partition int, offset long, position string, kind string, op string",
    )


def published(reloads: list[Reload], *hours: int, names: list[str] | None = None) -> FeedState:
    receipts = [
        Receipt(
            feed="f", hour=Hour(HOURS[hour]), sequence=number, manifest_version=1, objects=1, bytes=1, landed=1, split=0,
            control=0, bad=0, held=0, reloads=(names or ["S.T"]) if hour == 2 else [],
            progress=FeedProgress(reloads={"S.T": reloads} if reloads else {}),
        )
        for number, hour in enumerate(hours, 1)
    ]  # fmt: skip
    return FeedState.of("f", receipts)


def found(spark: SparkSession, feed: Feed, rows: DataFrame, first: int = 2) -> list[tuple[str, str, str]]:
    named = {HOURS[first]: ["S.T"]}
    reloads = find_reloads(HOURS[first], named, rows.limit(0), rows, FeedState(feed="f"), feed)
    return [(one.hour, one.began, one.position) for one in reloads.get("S.T", [])]


@pytest.mark.parametrize(
    ("rows", "began", "position"),
    [
        pytest.param([(0, 1, None), (1, 2, 10), (2, 3, None)], 2, at(10) + "+", id="behind the hours before"),
        pytest.param(
            [(1, 2, 10), (2, 3, 20), (2, 4, None), (2, 5, 30)], 2, at(20) + "+", id="behind what is before it"
        ),
        pytest.param([(1, 2, 10), (2, None, 20), (2, None, None)], 2, at(10) + "+", id="without offsets"),
        pytest.param([(0, 1, None), (2, 3, None)], 2, FIRST + "+", id="behind another load"),
        pytest.param(
            [(1, 2, 10), (2, 3, 20), (3, 4, None), (4, 5, None)], 3, at(20) + "+", id="a load that begins later"
        ),
        pytest.param([(2, 3, None), (3, 4, 10)], 2, "", id="nothing before it"),
    ],
)
def test_a_reload_stands_behind_all_that_was_sent_before_its_load(
    spark: SparkSession, rows: list[tuple[int, int | None, int | None]], began: int, position: str
) -> None:
    assert found(spark, QLIK, rows_of(spark, *rows)) == [(HOURS[2], HOURS[began], position)]


def test_where_no_row_shows_a_load_it_begins_with_the_first_row_of_the_hour(spark: SparkSession) -> None:
    rows = rows_of(spark, (0, 1, 5), (1, 2, 10), (2, 3, 9), (2, 4, 20))
    assert found(spark, CANAL, rows) == [(HOURS[2], HOURS[2], at(10) + "+")]


def test_a_load_that_has_not_begun(spark: SparkSession) -> None:
    assert found(spark, QLIK, rows_of(spark, (1, 2, 10), (2, 3, 20))) == []
    assert found(spark, CANAL, rows_of(spark, (1, 2, 10))) == []


def test_rows_of_a_load_stand_where_the_newest_reload_not_behind_them_began(spark: SparkSession) -> None:
    rows = rows_of(spark, (0, 1, None), (1, 2, 10), (2, 3, None), (3, 4, None), (3, 5, 30), (4, 6, None))
    named = {HOURS[2]: ["S.T"], HOURS[4]: ["*"]}
    reloads = find_reloads(HOURS[4], named, rows.limit(0), rows, FeedState(feed="f"), QLIK)
    assert [(one.began, one.position) for one in reloads["S.T"]] == [(HOURS[2], at(10) + "+"), (HOURS[4], at(30) + "+")]
    positions = [row.position for row in placed(rows, rows, QLIK, reloads).orderBy("offset").collect()]
    assert positions == [FIRST, at(10), at(10) + "+", at(10) + "+", at(30), at(30) + "+"]
    assert positions == sorted(positions)
    # Sort keys, a position and an operation, are in the order of their positions.
    assert sorted(f"{position}#2" for position in positions) == [f"{position}#2" for position in positions]


KNOWN = Reload(hour=Hour(HOURS[2]), began=Hour(HOURS[3]), position=at(10) + "+")


@pytest.mark.parametrize(
    ("hour", "landed", "position"),
    [
        pytest.param(1, (1, 3, 12), at(12) + "+", id="an older hour that comes late pushes it further"),
        pytest.param(2, (2, 4, None), at(10) + "+", id="a load that began earlier"),
        pytest.param(3, (3, 4, 15), at(15) + "+", id="more of the hour in which it began"),
        pytest.param(4, (4, 9, 12), None, id="a later hour does not look"),
        pytest.param(4, (4, 9, None), None, id="more of the load does not look"),
    ],
)
def test_the_log_is_searched_where_the_hour_can_alter_a_reload(
    spark: SparkSession, hour: int, landed: tuple[int, int, int | None], position: str | None
) -> None:
    rows = rows_of(spark, (1, 2, 10), (3, 5, None), landed)
    # Of what is not looked at, another place than the one that is known would be found.
    log = rows if position else rows.where(F.lit(False))
    new = rows.where(F.col("offset") == landed[1])
    state = published([KNOWN], 2, 3)
    reloads = find_reloads(HOURS[hour], {HOURS[2]: ["S.T"]}, new, log, state, QLIK)
    assert [one.position for one in reloads["S.T"]] == [position or KNOWN.position]


def test_what_is_taken_back_is_gone(spark: SparkSession) -> None:
    rows = rows_of(spark, (1, 2, 10), (3, 5, None))
    state = published([KNOWN], 2, 3)
    assert find_reloads(HOURS[2], {}, rows.limit(0), rows, state, QLIK) == {}
    assert altered(state.reloads, {}) == {"S.T": ""}
    assert altered(state.reloads, {"S.T": [KNOWN]}) == {}
    moved = KNOWN.model_copy(update={"position": at(12) + "+"})
    assert altered(state.reloads, {"S.T": [moved]}) == {"S.T": moved.position}


def test_a_state_knows_the_reloads_that_began_in_its_hours() -> None:
    whole, part = published([KNOWN], 1, 2, 3), published([KNOWN], 1, 2)
    assert whole.reloaded(["S.T"]) == KNOWN.position and part.reloaded(["S.T"]) is None
    assert whole.named_reloads == {HOURS[2]: ["S.T"]}
    assert part.making({"S.T": [KNOWN]}).reloaded(["S.T", "S.U"]) == KNOWN.position


@pytest.mark.parametrize(
    ("hour", "reloads", "warned"),
    [(3, [], True), (3, [KNOWN], False), (0, [], False)],
    ids=["none", "named", "the first"],
)
def test_a_load_behind_changes_that_nobody_named_is_told(hour: int, reloads: list[Reload], warned: bool) -> None:
    from tidemark.tables.reloads import _warnings

    state = published([], 1)
    state.tables["pub.t"] = TableProgress(highest=at(10) + "#9")
    notes = _warnings(HOURS[hour], [("S.T", FIRST)], {"S.T": reloads}, state, QLIK)
    assert bool(notes) == warned
    assert not notes or f"`tidemark reload f pub.t --hour {HOURS[hour]}`" in notes[0]
    state.tables["pub.t"] = TableProgress(highest=FIRST + "#9")
    assert _warnings(HOURS[hour], [("S.T", FIRST)], {}, state, QLIK) == []
