"""Where a reload that an operator named stands in the source's order, and what the receipt says of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.changelog.places import placed
from tidemark.changelog.reloads import (
    HourReloads,
    _beginning_again,
    altered,
    find_reloads,
    reload_notes,
    unended_load,
    unplaced_load,
    unread_note,
)
from tidemark.feeds.model import Feed
from tidemark.hours import Hour
from tidemark.ledger.change_stats import TableStats
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.receipts import FeedProgress, Receipt, Reload, TableProgress
from tidemark.ledger.reloads import BEGIN_AGAIN, EMPTY, declaration, parse_declaration

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


def test_a_stopped_table_keeps_the_reloads_that_it_had() -> None:
    """The hour in which it goes on then finds them altered, and brings them."""
    moved = KNOWN.model_copy(update={"position": at(12) + "+"})
    for before in ({}, {"S.T": [KNOWN]}):
        found = HourReloads(before=before, begun={"S.T": [moved], "S.U": [moved]})
        recorded = found.recorded({"pub.t"}, QLIK)
        assert recorded == {**before, "S.U": [moved]} and found.recorded({}, QLIK) == found.begun
        told = [
            f"{table} was reloaded in this hour: what was sent before its load is gone"
            for source, table in (("S.T", "pub.t"), ("S.U", "s.u"))
            if source in recorded
        ]
        assert reload_notes(moved.began, ["S.T"], recorded, {"pub.t"}, FeedState(feed="f"), QLIK) == told


def test_a_state_knows_the_reloads_that_began_in_its_hours() -> None:
    whole, part = published([KNOWN], 1, 2, 3), published([KNOWN], 1, 2)
    assert whole.reloaded(["S.T"]) == KNOWN.position and part.reloaded(["S.T"]) is None
    assert whole.named_reloads == {HOURS[2]: ["S.T"]}
    assert part.making({"S.T": [KNOWN]}).reloaded(["S.T", "S.U"]) == KNOWN.position


@pytest.mark.parametrize("reloads", [[], [KNOWN]], ids=["unnamed", "named"])
@pytest.mark.parametrize(
    ("hour", "loaded_in", "stats", "warned"),
    [
        pytest.param(3, 0, {"loaded": FIRST}, 3, id="behind changes of hours before"),
        pytest.param(0, 0, {"loaded": FIRST}, None, id="of an hour that comes late"),
        pytest.param(3, 4, {"changed": at(5)}, 4, id="its hour ran before that of the changes"),
        pytest.param(4, 4, {"changed": at(15)}, None, id="changes behind it in its hour"),
        pytest.param(5, 4, {"changed": at(15)}, None, id="changes of hours behind it"),
    ],
)
def test_a_load_behind_changes_that_nobody_named_is_told(
    hour: int, loaded_in: int, stats: dict[str, str], warned: int | None, reloads: list[Reload]
) -> None:
    state = published(reloads, 3)
    state.tables["pub.t"] = TableProgress(highest=at(10) + "#9", loaded=FIRST, loaded_in=Hour(HOURS[loaded_in]))
    told = unplaced_load(TableStats(table="pub.t", sources=["S.T"], **stats), HOURS[hour], state, QLIK)
    assert (told is not None) == (warned is not None and not reloads)
    assert not told or f"`tidemark reload f pub.t --hour {HOURS[warned or 0]}`" in told


@pytest.mark.parametrize("highest", [FIRST + "#9", f"{FIRST}*{7:019}#1"])
def test_more_of_a_load_is_not_behind_it(highest: str) -> None:
    state, stats = published([], 1), TableStats(table="pub.t", sources=["S.T"], loaded=FIRST)
    state.tables["pub.t"] = TableProgress(highest=highest, loaded=FIRST, loaded_in=Hour(HOURS[1]))
    assert unplaced_load(stats, HOURS[3], state, QLIK) is None


LOGGED = (
    "hour string, source_table string, topic string, partition int, offset long, position string, kind string, op string, "
    "key map<string, string>, before map<string, string>, after map<string, string>, committed_at timestamp, "
    "notes array<string>, tx string, tx_part string"
)


def logged(spark: SparkSession, *rows: tuple[int, int, int, str, int, int]) -> DataFrame:
    """Log rows of a Debezium feed: (hour, partition, offset, the source's word, LSN, id)."""
    ops = {"c": "insert", "r": "insert", "incremental": "insert", "u": "update", "d": "delete"}
    listed = [
        (HOURS[hour], "S.T", "t", partition, offset, at_lsn(lsn), kind, ops[kind], {"id": str(id_)}, None, None,
         datetime(2026, 11, 20), None, None, str(lsn))
        for hour, partition, offset, kind, lsn, id_ in rows
    ]  # fmt: skip
    return spark.createDataFrame(listed, LOGGED)


def at_lsn(lsn: int) -> str:
    return f"{lsn:020d}.{lsn:020d}"


#: A new cluster begins in hour 2. Partition 1 has no row of its snapshot.
SWITCHED = [
    (1, 0, 1, "c", 1000, 1), (1, 1, 1, "c", 1010, 2),
    (2, 0, 2, "u", 2000, 1), (2, 0, 3, "r", 50, 1), (2, 0, 4, "u", 3000, 1),
    (2, 1, 2, "u", 2010, 2), (2, 1, 3, "c", 60, 3), (3, 1, 4, "c", 1010, 2), (3, 0, 5, "u", 70, 1),
]  # fmt: skip


@pytest.mark.promise(2)
@pytest.mark.parametrize(
    ("format_", "begins", "before"),
    [
        pytest.param("debezium", {"t:0": 3}, [1000, 1010, 2000, 2010, 1010], id="offsets tell, else positions"),
        pytest.param("ibm", {}, [1000, 1010, 2000, 3000, 2010, 1010], id="positions alone tell"),
    ],
)
def test_where_positions_begin_again_they_count_from_the_reload_on(
    spark: SparkSession, format_: str, begins: dict[str, int], before: list[int]
) -> None:
    """Lower positions of the new source stand above all that was sent before; what comes again of before does not."""
    rows, feed = logged(spark, *SWITCHED), feed_of(format_)
    named = {HOURS[2]: ["S.T (positions begin again)"]}
    reloads = find_reloads(HOURS[2], named, rows.limit(0), rows, FeedState(feed="f"), feed)
    (reload,) = reloads["S.T"]
    place = at_lsn(max(before)) + "+"
    assert (reload.position, reload.highest_before, reload.begins) == (place, at_lsn(1010), begins)
    found = [row.position for row in placed(rows, rows, feed, reloads).orderBy("hour", "partition", "offset").collect()]
    sent = [lsn for _, _, _, _, lsn, _ in sorted(SWITCHED, key=lambda row: row[:3])]
    stand = [lsn for lsn, position in zip(sent, found, strict=True) if position == at_lsn(lsn)]
    assert sorted(stand) == sorted(before)
    assert all(position in (at_lsn(lsn), place + at_lsn(lsn)) for lsn, position in zip(sent, found, strict=True))


@pytest.mark.promise(2)
def test_positions_that_begin_again_twice(spark: SparkSession) -> None:
    rows = logged(
        spark, (0, 0, 1, "c", 1000, 1), (1, 0, 2, "r", 50, 1), (2, 0, 3, "u", 90, 1), (3, 0, 4, "r", 20, 1),
        (3, 0, 5, "u", 90, 1), (4, 0, 6, "u", 1000, 2), (4, 0, 7, "c", 1000, 1),
    )  # fmt: skip
    named = {HOURS[1]: ["* (positions begin again)"], HOURS[3]: ["S.T (positions begin again)"]}
    feed = feed_of("debezium")
    reloads = find_reloads(HOURS[4], named, rows.limit(0), rows, FeedState(feed="f"), feed)
    first, second = (one.position for one in reloads["S.T"])
    assert (first, second) == (at_lsn(1000) + "+", f"{at_lsn(1000)}+{at_lsn(90)}+")
    found = [row.position for row in placed(rows, rows, feed, reloads).orderBy("offset").collect()]
    assert found == [
        at_lsn(1000), first + at_lsn(50), first + at_lsn(90), second + at_lsn(20), first + at_lsn(90),
        second + at_lsn(1000), at_lsn(1000),
    ]  # fmt: skip


def test_a_late_row_of_before_positions_began_again_has_the_table_folded_again(spark: SparkSession) -> None:
    """It may be the first of a change that came again since."""
    again = KNOWN.model_copy(update={"begins_again": True, "position": at_lsn(2000) + "+"})
    landed = logged(spark, (3, 0, 1, "c", 1000, 1))
    assert _beginning_again(HOURS[3], landed, {"S.T": [again]}) == ["S.T"]
    assert _beginning_again(HOURS[4], landed, {"S.T": [again]}) == []
    assert _beginning_again(HOURS[3], landed, {"S.T": [KNOWN], "S.U": [again]}) == []


@pytest.mark.promise(2)
@pytest.mark.parametrize(
    ("format_", "named", "kind", "hour", "begins"),
    [
        ("debezium", "*", "incremental", 2, True), ("debezium", "*", "incremental", 3, False),
        ("debezium", "*", "r", 3, True), ("debezium", "S.T", "incremental", 3, True),
        ("debezium", "* (positions begin again)", "incremental", 3, True), ("qlik", "*", "REFRESH", 3, True),
        ("ibm", "*", "c", 2, True), ("ibm", "*", "c", 3, False), ("ibm", "S.T", "c", 3, True),
        ("ibm", "* (positions begin again)", "c", 3, True),
    ],
)  # fmt: skip
def test_a_reload_of_all_tables_begins_later_only_with_a_row_of_a_whole_load(
    spark: SparkSession, format_: str, named: str, kind: str, hour: int, begins: bool
) -> None:
    """A part of a table that is read long after, or a change, would empty a table that nobody had loaded anew."""
    feed = feed_of(format_)
    before, row = logged(spark, (1, 0, 1, "c", 10, 1)), logged(spark, (hour, 0, 2, "c", 20, 1))
    landed = row.withColumn("kind", F.lit(kind))
    state = published([], 1, 2, names=[named])
    found = find_reloads(HOURS[hour], {HOURS[2]: [named]}, landed, before.unionByName(landed), state, feed)
    assert [one.began for one in found.get("S.T", [])] == ([HOURS[hour]] if begins else [])


def test_tables_that_a_reload_of_all_has_not_begun_are_told() -> None:
    state = published([], 0, 1)
    for name, first in (("pub.t", 0), ("s.u", 0), ("s.v", 1), ("s.new", 2), ("s.stopped", 0)):
        state.tables[name] = TableProgress(
            highest=at(1), first_hour=Hour(HOURS[first]), sources=[name.replace("pub.", "s.").upper()]
        )

    def told(format_: str, *begun: str, names: list[str]) -> list[str]:
        reloads = {source: [KNOWN] for source in begun}
        return reload_notes(HOURS[2], names, reloads, {"s.stopped"}, state, feed_of(format_))

    assert told("qlik", "S.T", names=["*"]) == [
        "the reload of all tables has not begun of s.u, s.v: no row of their load has landed yet. If one will, it begins "
        f"then; if none will, `tidemark reload f --hour {HOURS[2]} --revoke`, and name the others"
    ]
    assert "name the hour in which it lands: `tidemark reload f TABLE --hour H`" in told("ibm", "S.T", names=["*"])[0]
    assert told("qlik", "S.T", "S.U", "S.V", names=["*"]) == told("qlik", "S.T", names=["S.T"]) == []
    assert told("qlik", "S.T", names=["*", "S.U"])[0].startswith("the reload of s.u has not begun")
    assert told("qlik", names=["*"]) == ["the reload of all tables has not begun: no row of its load has landed yet"]


@pytest.mark.parametrize(("rows", "place"), [([(0, 1, 5), (3, 2, 30)], at(5) + "+"), ([(3, 2, 30)], ""), ([], None)])
def test_a_source_table_that_is_empty_is_reloaded_by_no_row(
    spark: SparkSession, rows: list[tuple[int, int | None, int | None]], place: str | None
) -> None:
    """What was sent before its hour is gone."""
    log = rows_of(spark, *rows)
    for landed in (log.limit(0), log):  # whichever hour brings the first row of the table
        reloads = find_reloads(HOURS[2], {HOURS[2]: ["S.T (empty)"]}, landed, log, FeedState(feed="f"), QLIK)
        assert [(one.began, one.position) for one in reloads.get("S.T", [])] == (
            [] if place is None else [(HOURS[2], place)]
        )


@pytest.mark.parametrize(
    ("name", "table", "words"),
    [
        ("s.t", "s.t", set()), ("*", "*", set()), ("s.t (empty)", "s.t", {EMPTY}),
        ("s.t (positions begin again)", "s.t", {BEGIN_AGAIN}),
        ("* (empty, positions begin again)", "*", {EMPTY, BEGIN_AGAIN}),
        ("s.t (other)", "s.t (other)", set()), ("s.my\n(empty)", "s.my\n(empty)", set()),
    ],
)  # fmt: skip
def test_what_is_said_of_a_reload_stands_behind_the_tables_name(name: str, table: str, words: set[str]) -> None:
    assert parse_declaration(name) == (table, words)
    assert declaration(table, words) == name


@pytest.mark.parametrize(
    ("loaded", "truncated", "began", "warned"),
    [
        (20, None, None, True), (20, 20, None, False), (20, 10, None, True), (20, None, 3, False), (20, None, 4, True),
        (10, None, None, False), (5, None, None, False), (None, None, None, False),
    ],
    ids=["no end", "ended", "an older end", "named", "named later", "the same snapshot", "an older one", "no snapshot"],
)  # fmt: skip
def test_a_second_snapshot_that_no_row_ends_is_told(
    loaded: int | None, truncated: int | None, began: int | None, warned: bool
) -> None:
    """Rows that were deleted while nobody listened would stay without a word."""
    state = published([], 1)
    state.tables["pub.t"] = TableProgress(highest=at_lsn(10) + "#9")
    if began is not None:
        state = state.making({"S.T": [KNOWN.model_copy(update={"began": Hour(HOURS[began])})]})
    stats = TableStats(
        table="pub.t",
        sources=["S.T"],
        loaded=at_lsn(loaded) if loaded else None,
        truncated=at_lsn(truncated) if truncated else None,
    )
    told = unended_load(stats, HOURS[3], state, feed_of("debezium"))
    assert (told is not None) == warned
    assert not told or f"`tidemark reload f pub.t --hour {HOURS[3]}`" in told


@pytest.mark.parametrize(
    ("changed", "loaded", "truncated", "began", "warned"),
    [
        pytest.param(10, None, None, None, True, id="the load's hour ran before"),
        pytest.param(10, 20, None, None, True, id="the load's hour ran before, and the hour brings an older one"),
        pytest.param(40, None, None, None, False, id="changes behind the load"),
        pytest.param(None, 20, None, None, False, id="more of the load"),
        pytest.param(10, None, 30, None, False, id="the load was ended"),
        pytest.param(10, None, None, 4, False, id="the load is a reload"),
    ],
)
def test_older_changes_that_come_behind_a_load_are_told(
    changed: int | None, loaded: int | None, truncated: int | None, began: int | None, warned: bool
) -> None:
    """They may be of rows that the load has not found any more, whichever of the two hours runs first."""
    state = published([], 1)
    ended = at_lsn(truncated) if truncated else None
    state.tables["pub.t"] = TableProgress(
        highest=at_lsn(30) + "#9", loaded=at_lsn(30), loaded_in=Hour(HOURS[4]), truncated=ended
    )
    if began is not None:
        state = state.making({"S.T": [KNOWN.model_copy(update={"began": Hour(HOURS[began])})]})
    stats = TableStats(
        table="pub.t",
        sources=["S.T"],
        changed=at_lsn(changed) if changed else None,
        keyed=1,
        loaded=at_lsn(loaded) if loaded else None,
    )
    told = unended_load(stats, HOURS[3], state, feed_of("debezium"))
    assert (told is not None) == warned
    assert not told or f"`tidemark reload f pub.t --hour {HOURS[4]}`" in told


@pytest.mark.parametrize(("ends", "warned"), [(10, False), (5, True)], ids=["released later", "another load since"])
@pytest.mark.parametrize("first", [True, False], ids=["the load first", "in order"])
def test_a_reload_ends_what_stands_before_it(ends: int, warned: bool, first: bool) -> None:
    """Whatever the hour in which rows of its load are published, that may have waited; and no load that comes later."""
    state, at_load = published([], 1), {"loaded": at_lsn(30), "loaded_in": Hour(HOURS[4])}
    state.tables["pub.t"] = TableProgress(**at_load if first else {"highest": at_lsn(10) + "#9"})
    reload = Reload(hour=Hour(HOURS[2]), began=Hour(HOURS[2]), position=at_lsn(ends) + "+")
    stats = TableStats(table="pub.t", sources=["S.T"], keyed=1, loaded=None if first else at_lsn(30))
    stats = replace(stats, changed=at_lsn(10) if first else None)
    told = unended_load(stats, HOURS[3], state.making({"S.T": [reload]}), feed_of("debezium"))
    assert (told is not None) == warned


@pytest.mark.parametrize(("changed", "warned"), [(10, True), (30, False), (None, False)])
def test_older_changes_beside_a_load_in_its_hour_are_told(changed: int | None, warned: bool) -> None:
    stats = TableStats(
        table="pub.t", sources=["S.T"], changed=at_lsn(changed) if changed else None, keyed=1, loaded=at_lsn(30)
    )
    assert (unended_load(stats, HOURS[3], published([], 1), feed_of("debezium")) is not None) == warned


@pytest.mark.parametrize(("truncated", "warned"), [(None, True), (8, True), (30, False)])
def test_rows_without_a_key_that_are_read_beside_others_of_their_hour_are_told(
    truncated: int | None, warned: bool
) -> None:
    """They would be there twice without a word, also in the first hour of their table."""
    ended = at_lsn(truncated) if truncated else None
    stats = TableStats(table="pub.t", sources=["S.T"], loaded=at_lsn(30), truncated=ended, twice=True)
    told = unended_load(stats, HOURS[3], published([], 1), feed_of("debezium"))
    assert (told is not None) == warned
    assert not told or "there twice" in told


def test_tables_of_which_a_second_snapshot_sends_no_row_are_told() -> None:
    """One that is empty now sends none, and its rows stay."""
    state, feed = published([], 1), feed_of("debezium")
    first, second, third = (TableProgress(highest=at_lsn(lsn) + "#9") for lsn in (10, 10, 30))
    state.tables |= {"pub.t": first, "pub.u": second, "pub.v": third}
    read = [
        TableStats(table="pub.t", sources=["S.T"], loaded=at_lsn(20)),
        TableStats(table="pub.v", sources=["S.V"], loaded=at_lsn(20)),
    ]
    note = unread_note(HOURS[3], read, state, feed)
    assert (
        note is not None
        and "of pub.u: where" in note
        and f"`tidemark reload f TABLE --hour {HOURS[3]} --empty`" in note
    )
    assert (
        unread_note(HOURS[3], [*read, TableStats(table="pub.u", sources=["S.U"], loaded=at_lsn(20))], state, feed)
        is None
    )
    assert (
        unread_note(HOURS[3], [TableStats(table="pub.t", sources=["S.T"], loaded=at_lsn(10))], state, feed) is None
    ), "the first one"
