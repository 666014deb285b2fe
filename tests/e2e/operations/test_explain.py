"""`tidemark explain`: every change of a row, what became of it, and which one gave each value."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from tests.e2e.debezium_messages import COLUMNS, HOURS, event, row
from tests.e2e.one_table_feed import OneTableFeed, rows
from tests.e2e.schema_change_messages import Change, Installation, Statement
from tidemark.errors import ConfigError
from tidemark.hours import hours_between
from tidemark.ledger.change_log import changes_table
from tidemark.ledger.state_store import load_state
from tidemark.operations.explain_row import explain_row, explanation_listing
from tidemark.operations.key_index import index_keys
from tidemark.pipeline.hour import replay_hour
from tidemark.settings import Settings

UNSENT = "__debezium_unavailable_value"


@pytest.fixture
def known(settings: Settings, run: OneTableFeed, tmp_path: Path) -> Settings:
    """Two hours of a feed: a row that moved, a change that came twice, and one that waits in quarantine."""
    moved = event("c", 41, row(9, 4, UNSENT))
    moved["headers"] = [{"key": "__debezium.oldkey", "value": json.dumps({"id": 1})}]
    first = event("c", 10, row(1, 1, "large"))
    run(HOURS[0], [first, event("c", 11, row(2, 2)), event("u", 20, row(1, 2, UNSENT))])
    receipt = run(HOURS[1], [
        first | {"offset": 99}, event("u", 30, row(1, "no number", UNSENT)), event("d", 41, None, key={"id": 1}), moved,
        event("u", 50, row(9, 5, UNSENT)),
    ])  # fmt: skip
    # Also beside a row that moved and was not sent whole, for which the change log is asked.
    assert (receipt.counts.applied, receipt.counts.duplicate) == (3, 1)
    assert rows(settings, run) == [row(2, 2), row(9, 5, "large")]
    return with_feed_file(settings, run, tmp_path)


def with_feed_file(settings: Settings, run: OneTableFeed, folder: Path, **changes: Any) -> Settings:
    feeds, feed = folder / "feeds", run.definition(**changes)
    feeds.mkdir()
    (feeds / f"{run.feed}.yaml").write_text(feed.model_dump_json(exclude_unset=True).replace("PT0S", "0s"))
    return settings.model_copy(update={"feeds": feeds})


def test_a_row_that_moved_and_came_twice(run: OneTableFeed, known: Settings) -> None:
    found = explain_row(known, run.table, ["9"])
    assert found.given is not None
    assert {name: (one.hour, one.record) for name, one in found.given.items()} == {
        "id": (HOURS[1], 5), "n": (HOURS[1], 5), "big": (HOURS[0], 1),
    }  # fmt: skip
    told = [(one.op, one.key, one.came_from, one.fate.partition(":")[0]) for one in found.changes]
    old, new = '{"id":1}', '{"id":9}'
    assert told == [
        ("insert", old, None, "applied"), ("insert", old, None, "duplicate"), ("update", old, None, "applied"),
        ("update", old, None, "in quarantine"), ("insert", new, old, "applied"), ("update", new, None, "applied"),
    ]  # fmt: skip
    listing = explanation_listing(run.table, ["9"], found, "big")
    assert [(one["big"], one["gives_the_row"]) for one in listing.objects] == [("large", "yes"), ("large", "")]
    assert [one["gives"] for one in found.objects] == [["big"], [], [], [], [], ["id", "n"]]
    with pytest.raises(ConfigError, match=f"the key of {run.table} is id"):
        explain_row(known, run.table, ["9", "9"])
    with pytest.raises(ConfigError, match=f"did you mean `{run.table}`"):
        explain_row(known, run.table + "x", ["9"])
    with pytest.raises(ConfigError, match=rf"(?s){run.table} has no column bigg, .*did you mean `big`"):
        explain_row(known, run.table, ["9"], column="bigg")


@pytest.mark.full
def test_a_key_that_is_gone_one_of_a_cut_and_by_the_index(
    spark: SparkSession, settings: Settings, run: OneTableFeed, known: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, gone = (explain_row(known, run.table, [key]) for key in ("9", "1"))
    assert gone.given is None and [one.op for one in gone.changes][-1] == "delete"

    then = explain_row(known, run.table, ["1"], HOURS[0])
    assert then.given is not None
    assert {name: one.record for name, one in then.given.items()} == {"id": 3, "n": 3, "big": 1}
    assert [one.fate for one in then.changes if one.hour == HOURS[0]] == ["applied", "applied"]
    assert {one.fate for one in then.changes if one.hour == HOURS[1]} == {"its hour is not published yet"}
    assert rows(settings, run, HOURS[0]) == [row(1, 2, "large"), row(2, 2)]
    with pytest.raises(ConfigError, match=f"hour {HOURS[2]} has no cut"):
        explain_row(known, run.table, ["1"], HOURS[2])

    assert index_keys(spark, run.definition(), load_state(settings, run.feed)) == 2
    assert (explain_row(known, run.table, ["9"]), explain_row(known, run.table, ["1"])) == (found, gone)
    with pytest.raises(ConfigError, match=r"no key of .*: id \(bigint\)"):
        explain_row(known, run.table, ["nine"])
    with monkeypatch.context() as patch, pytest.raises(ConfigError, match="more than 2 changes speak of"):
        patch.setattr("tidemark.operations.explain_row._MOST_CHANGES", 2)
        explain_row(known, run.table, ["1"])


def files_read(spark: SparkSession, feed: str, after: int = -1) -> tuple[list[int], int]:
    """How many files of the change log each query behind ``after`` has read, as Iceberg says; and the last query's number."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    store = spark._jsparkSession.sharedState().statusStore()
    executions, read, last = store.executionsList(), [], after
    for number in range(executions.size()):
        one = executions.apply(number)
        last = max(last, one.executionId())
        if one.executionId() <= after:
            continue
        values, nodes = store.executionMetrics(one.executionId()), store.planGraph(one.executionId()).allNodes()
        for place in range(nodes.size()):
            node = nodes.apply(place)
            of_log = f"{node.name()} ".startswith(f"BatchScan lake.tidemark.{feed}.changes ")
            metrics = node.metrics() if of_log else None
            for at in range(metrics.size() if metrics else 0):
                if metrics.apply(at).name() == "number of result data files":
                    read.append(int(values.apply(metrics.apply(at).accumulatorId()).replace(",", "")))
    return read, last


def texts_of(key: Column | int | None) -> Column:
    """An image of the key alone."""
    return F.create_map(F.lit("id"), (key if isinstance(key, Column) else F.lit(key)).cast("string"))


@pytest.mark.full
def test_of_a_long_log_only_the_hours_of_the_key_are_read_whole(
    spark: SparkSession, settings: Settings, run: OneTableFeed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two scans of narrow columns tell how texts are read, and where the key is."""
    hours = hours_between("2026-11-20T00", "2026-11-21T23")
    run(hours[0], [event("c", 10, row(7, 1))])
    log = changes_table(run.feed)
    ids = [(hour, at, 7 if at % 20 == 3 else 1000 + at) for at, hour in enumerate(hours) if at]
    later = spark.createDataFrame(ids, "at string, number int, id int")
    texts = {name: texts_of(F.col("id")) for name in ("key", "after")}
    placed = F.concat(F.substring("position", 1, 21), F.lpad((F.col("number") + 100).cast("string"), 20, "0"))
    copies = later.crossJoin(spark.table(log).where(F.col("op") == "insert")).withColumns(
        {"hour": F.col("at"), "op": F.lit("update"), "position": placed, **texts}
    )
    copies.select(spark.table(log).columns).coalesce(1).sortWithinPartitions("hour").writeTo(log).append()
    state = load_state(settings, run.feed)
    state.hours[0].last = hours[-1]
    monkeypatch.setattr("tidemark.operations.explain_row.load_state", lambda *_: state)
    known = with_feed_file(settings, run, tmp_path)

    _, before = files_read(spark, run.feed)
    found = explain_row(known, run.table, ["7"])
    assert [one.hour for one in found.changes] == [hours[0], hours[3], hours[23], hours[43]]
    assert {one.fate for one in found.changes} == {"applied"}
    read, before = files_read(spark, run.feed, before)
    assert sorted(read) == [4, 4, 48, 48]
    assert explain_row(known, run.table, ["8"]).changes == []
    read, before = files_read(spark, run.feed, before)
    assert read == [48, 48]

    assert index_keys(spark, run.definition(), state) == 48
    assert index_keys(spark, run.definition(), state) == 0
    _, before = files_read(spark, run.feed)
    assert explain_row(known, run.table, ["7"]) == found
    read, before = files_read(spark, run.feed, before)
    assert read == [4, 4, 4, 4]
    # What the index does not know is looked up: an hour that is decoded again, and one whose rows do not tell their keys.
    again = spark.table(log).where(F.col("hour") == hours[5]).withColumns({name: texts_of(7) for name in texts})
    again.localCheckpoint().writeTo(log).overwritePartitions()
    nameless = spark.table(log).where(F.col("hour") == hours[6]).withColumns({name: texts_of(None) for name in texts})
    nameless.localCheckpoint().writeTo(log).overwritePartitions()
    _, before = files_read(spark, run.feed)
    assert explain_row(known, run.table, ["7"]).changes[2].hour == hours[5]
    read, before = files_read(spark, run.feed, before)
    assert sorted(read) == [5, 5, 6, 6]
    assert index_keys(spark, run.definition(), state) == 2
    _, before = files_read(spark, run.feed)
    explain_row(known, run.table, ["8"])
    assert files_read(spark, run.feed, before)[0] == [1, 1]


#: The connector's way to write a key, two of them that are a microsecond or a bit apart, and the first as it is shown.
KINDS: dict[str, tuple[Any, Any, Any]] = {
    "text[]": (["a", "b"], ["a", "b "], ["a", "b"]),
    "timestamp": (1795143723123456, 1795143723123999, "2026-11-20T03:02:03.123456"),
    "bytea": ("AP8K", "AP8L", "AP8K"),
}


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_a_key_is_given_as_it_is_shown(
    spark: SparkSession, settings: Settings, run: OneTableFeed, tmp_path: Path, kind: str
) -> None:
    old, new, shown = KINDS[kind]
    name = kind.removesuffix("[]")
    run.feed, run.table = f"ex_{name}", f"ex_{name}.items"
    changes = {
        "table": {"columns": {"k": kind, "n": "int"}, "key": ["k"]},
        "format": {"type": "debezium", "decimals": "string", "times": "microseconds"},
    }
    moved = event("c", 20, {"k": new, "n": 2}, key={"k": new})
    moved["headers"] = [{"key": "__debezium.oldkey", "value": json.dumps({"k": old})}]
    first, left = event("c", 10, {"k": old, "n": 1}, key={"k": old}), event("d", 20, None, key={"k": old})
    run(HOURS[0], [first], **changes)
    known = with_feed_file(settings, run, tmp_path, **changes)
    assert [one["k"] for one in rows(settings, run)] == [shown]
    written = shown if isinstance(shown, str) else json.dumps(shown)
    found = explain_row(known, run.table, [written])
    assert found.given is not None and [one.op for one in found.changes] == ["insert"]
    run(HOURS[1], [left, moved], **changes)
    gone = explain_row(known, run.table, [written])
    assert gone.given is None and [one.op for one in gone.changes] == ["insert", "delete"]
    with pytest.raises(ConfigError, match="no key of"):
        explain_row(known, run.table, ["{"])


@pytest.mark.full
def test_a_table_that_has_another_name_now_is_told_so(
    spark: SparkSession, settings: Settings, run: OneTableFeed, tmp_path: Path
) -> None:
    run(HOURS[0], [event("c", 10, row(1, 1))])
    former, run.table = run.table, f"{run.feed}.other"
    run(HOURS[1], [event("u", 20, row(1, 2))])
    known = with_feed_file(settings, run, tmp_path)
    with pytest.raises(ConfigError, match=f"{former} is published as {run.table} now"):
        explain_row(known, former, ["1"])
    assert explain_row(known, run.table, ["1"]).given is not None


@pytest.mark.full
def test_a_table_that_goes_on_as_another_of_the_source_has_the_changes_of_both(
    spark: SparkSession, settings: Settings, run: OneTableFeed, tmp_path: Path
) -> None:
    run(HOURS[0], [event("c", 10, row(1, 1, "large"))])
    other = {"tables": {"s.others": {"name": run.table, "columns": COLUMNS}}}
    run(HOURS[1], [event("u", 20, row(1, 2, UNSENT), table="others")], **other)
    assert rows(settings, run) == [row(1, 2, "large")]
    found = explain_row(with_feed_file(settings, run, tmp_path, **other), run.table, ["1"])
    assert found.given is not None
    assert {name: one.hour for name, one in found.given.items()} == {"id": HOURS[1], "n": HOURS[1], "big": HOURS[0]}
    assert [one.fate for one in found.changes] == ["applied", "applied"]


@pytest.mark.full
def test_what_was_published_first_gives_the_row_whatever_its_hour(
    run: OneTableFeed, settings: Settings, tmp_path: Path
) -> None:
    """The later hour ran first. The same change comes with other content in an earlier one: it is the duplicate."""
    run(HOURS[1], [event("c", 1, row(1, 11))])
    run(HOURS[0], [event("c", 1, row(1, 10))])
    assert rows(settings, run) == [row(1, 11)]
    found = explain_row(with_feed_file(settings, run, tmp_path), run.table, ["1"])
    assert found.given is not None and found.given["n"].sent["n"] == "11"
    assert {one.hour: one.fate for one in found.changes} == {HOURS[1]: "applied", HOURS[0]: "duplicate"}


@pytest.mark.full
def test_as_of_a_cut_that_was_made_before_a_replay_and_before_more_of_its_hour(
    run: OneTableFeed, settings: Settings, tmp_path: Path
) -> None:
    checked = {"checks": [{"column": "big", "pattern": "^b", "consequence": "quarantine"}]}
    run(HOURS[0], [event("c", 1, row(1, 1, "b1")), event("u", 2, row(1, 2, "z2"))], table=checked)
    run(HOURS[1], [event("c", 3, row(2, 3, "b3"))], table=checked)
    replay_hour(run.definition(), HOURS[0], settings)
    run(HOURS[0], [event("u", 4, row(1, 4, "b4"))])
    known = with_feed_file(settings, run, tmp_path)
    now, then = (explain_row(known, run.table, ["1"], hour) for hour in (None, HOURS[0]))
    assert [one.fate for one in now.changes] == ["applied"] * 3
    first, kept, later = (one.fate for one in then.changes)
    assert first == "applied" and kept.startswith("in quarantine: ")
    assert later == "it came after its hour was published, and is not published yet"
    assert then.given is not None and then.given["n"].sent["n"] == "1"


def test_a_value_that_a_statement_gives_is_of_no_change(
    tmp_path: Path, spark: SparkSession, settings: Settings
) -> None:
    columns = {"id": "int", "name": "text"}
    more = columns | {"qty": "int"}
    made = Installation("canal", "ex_default", tmp_path / "exports", settings, {"s.items": {}})
    made.export(0, [
        *(Change("c", n, columns, {"id": n, "name": "a"}) for n in (1, 2)),
        Statement(10, more, "ALTER TABLE items ADD COLUMN qty int DEFAULT 5", 2),
        Change("u", 11, more, {"id": 2, "name": "b", "qty": 6}),
    ])  # fmt: skip
    made.run(0)
    assert [one["qty"] for one in made.rows()] == [5, 6]
    (tmp_path / "feeds").mkdir()
    written = made.feed().model_dump_json(exclude_unset=True).replace("PT0S", "0s")
    (tmp_path / "feeds/ex_default.yaml").write_text(written)
    known = settings.model_copy(update={"feeds": tmp_path / "feeds"})
    first, second = (explain_row(known, "ex_default.items", [key]) for key in ("1", "2"))
    assert sorted(first.changes[0].sent) == sorted(first.given or {}) == ["id", "name"]
    assert second.given is not None and second.given["qty"].sent == {"id": "2", "name": "b", "qty": "6"}
