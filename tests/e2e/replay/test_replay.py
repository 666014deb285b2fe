"""Replay: what was in quarantine comes to the same tables as if the feed file had been right from the start."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tests.e2e.debezium_messages import COLUMNS, DEBEZIUM, HOURS, TRANSACTIONS, end, event, part, row
from tests.e2e.feed_pair import FeedPair
from tests.e2e.generated import HOURS as GENERATED
from tests.e2e.generated import findings, generated
from tests.e2e.qlik_messages import in_kafka, qlik
from tests.e2e.schema_change_messages import HOURS as INSTALLED
from tests.e2e.schema_change_messages import Change, Installation, Statement
from tests.unit.formats.qlik_messages import metadata
from tidemark.cli import app
from tidemark.errors import CheckError, ConfigError, ExportError, QuarantineLimitError
from tidemark.feeds.model import Feed
from tidemark.formats.ddl.named_tables import OTHERS_STAY
from tidemark.ledger.change_log import log_snapshot
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.manifest import load_manifests
from tidemark.ledger.publication_history import load_history
from tidemark.ledger.quarantine import list_kept_back, recall
from tidemark.ledger.receipts import Receipt
from tidemark.operations.audit import audit
from tidemark.operations.held import held_listing
from tidemark.pipeline import hour as run
from tidemark.pipeline.hour import replay_hour, run_hour
from tidemark.pipeline.land import land
from tidemark.settings import Settings
from tidemark_samples import ibm

pytestmark = [pytest.mark.full, pytest.mark.promise(6)]

ABSENT = "__debezium_unavailable_value"
WIDE = {**COLUMNS, "n": "bigint"}


def dies(*_: object) -> Receipt:
    raise RuntimeError("the machine died")


def items(**table: Any) -> dict[str, Any]:
    return {"tables": {"s.items": {"columns": COLUMNS, **table}}}


@pytest.fixture
def pair(tmp_path: Path, spark: SparkSession, settings: Settings, request: pytest.FixtureRequest) -> FeedPair:
    name = "r_" + request.node.originalname.removeprefix("test_")[:30]
    return FeedPair(name, tmp_path, spark, settings, **DEBEZIUM, **items())


def reasons(settings: Settings, pair: FeedPair) -> list[tuple[str, int, str]]:
    return [(r["hour"], r["record"], r["reason"]) for r in list_kept_back(settings, pair.fixed)]


def test_values_of_a_type_too_narrow_take_their_own_position(pair: FeedPair, settings: Settings) -> None:
    """Updates, a key that was deleted since, a partial row that rests on a quarantined one, a redelivery, poison.
    What a newer change of its row makes good is bad all the same."""
    big = 5_000_000_000
    poison = b'{"topic": "t", "value": "{'
    hours = {
        HOURS[0]: [event("c", 1, row(1, 1, "one")), event("c", 2, row(3, 3)), event("c", 3, row(5, 5))],
        HOURS[1]: [
            event("u", 10, row(1, big, "new")), event("c", 11, row(2, big)), event("c", 12, row(4, big, "four")), poison,
            event("u", 13, row(5, big)), event("u", 14, row(5, 6, ABSENT)), event("u", 10, row(1, big, "new")),
            event("c", 15, row(7, 1), table="others"),
        ],
        HOURS[2]: [
            event("u", 20, row(1, 7, ABSENT)), event("d", 21, None, key={"id": 2}), event("u", 22, row(3, 4, "y")),
            event("c", 12, row(4, big, "four")), event("t", 5, None),
        ],
    }  # fmt: skip
    for hour, records in hours.items():
        pair.export(hour, records)
        pair.run(hour, undeclared="quarantine")
    assert [(hour, record) for hour, record, _ in reasons(settings, pair)] == [
        (HOURS[1], record) for record in (1, 2, 3, 4, 5, 7, 8)
    ] + [(HOURS[2], 4)]
    right = {"tables": {"s.items": {"columns": WIDE}, "s.others": {"columns": WIDE}}, "undeclared": "quarantine"}
    pair.run_right(list(hours), **right)
    first = pair.replay(HOURS[1], **right)
    assert first is not None and (first.landed, first.quarantined, first.manifest_version) == (8, 1, 2)
    pair.replay(HOURS[2], **right)
    pair.same("items", "others")
    assert reasons(settings, pair) == [(HOURS[1], 4, reasons(settings, pair)[0][2])]

    published, before = load_history(settings, pair.fixed), pair.rows(pair.fixed, "items")
    assert pair.replay(HOURS[2], **right) is None, "nothing of it is in quarantine"
    assert load_history(settings, pair.fixed) == published
    again = pair.replay(HOURS[1], **right)
    assert again is not None and again.model_copy(update={"sequence": first.sequence}).counts == first.counts
    pair.same("items", "others")
    assert pair.rows(pair.fixed, "items") == before
    assert len(reasons(settings, pair)) == 1


def test_a_row_that_waited_for_a_check_is_filled_in_under_newer_changes(pair: FeedPair, settings: Settings) -> None:
    def tables(most: int) -> dict[str, Any]:
        table = {"columns": COLUMNS, "checks": [{"column": "n", "max": most, "consequence": "quarantine"}]}
        return {"tables": {"s.items": table}}

    def changes(hour: str) -> list[dict[str, Any]]:
        return {
            HOURS[0]: [
                event("c", 1, row(1, 1, "one")), event("c", 2, row(2, 2)),
                event("c", 3, row(3, 3)),
            ],
            HOURS[1]: [
                event("u", 10, row(1, 10, "ten")), event("u", 11, row(2, 11)),
                event("u", 11, row(2, 11)), event("u", 3, row(3, 3)),
                event("c", 12, row(4, 12)), event("c", 2, row(2, 2)),
            ],
            HOURS[2]: [
                event("u", 20, row(1, 2, ABSENT)), event("u", 21, row(2, 3, "full")),
                event("d", 22, None, key={"id": 3}),
            ],
        }[hour]  # fmt: skip

    for hour in HOURS[:3]:
        pair.export(hour, changes(hour))
        pair.run(hour, **tables(9))
    assert [(record, reason) for _, record, reason in reasons(settings, pair)] == [
        (record, "check failed: n <= 9") for record in (1, 2, 3, 5)
    ]
    pair.run_right(HOURS[:3], **tables(11))
    again = pair.replay(HOURS[1], **tables(11))
    pair.same("items")
    assert [record for _, record, _ in reasons(settings, pair)] == [5], "12 is still too much"
    assert again is not None and again.tables[0].waiting == 1
    pair.export(HOURS[1], [event("c", 13, row(6, 1))])
    assert pair.run(HOURS[1], **tables(11)).tables[0].waiting == 1, "it still waits when more of the hour has come"


def test_a_late_change_does_not_bring_in_what_waits(pair: FeedPair, settings: Settings) -> None:
    strict = items(checks=[{"column": "n", "max": 9, "consequence": "quarantine"}])
    hours = {
        HOURS[0]: event("c", 1, row(1, 1, "one")),
        HOURS[2]: event("u", 20, row(1, 10, "ten")),
        HOURS[3]: event("u", 30, row(1, 3, ABSENT)),
        HOURS[1]: event("u", 10, row(1, 2, "two")),
    }
    for hour, record in hours.items():
        pair.export(hour, [record])
        pair.run(hour, **strict)
    assert [(r["n"], r["big"]) for r in pair.rows(pair.fixed, "items")] == [(3, "two")]
    pair.replay(HOURS[2], **items())
    assert [(r["n"], r["big"]) for r in pair.rows(pair.fixed, "items")] == [(3, "ten")]


def test_rows_that_came_before_their_metadata(tmp_path: Path, spark: SparkSession, settings: Settings) -> None:
    """Of an insert, a partial update and a delete without metadata nothing is known: they are held, and the hour with the
    metadata releases them by itself, each in its place. No limit of the quarantine stops their hour."""
    strict = {"quarantine": {"limit": 0, "at_least": 0}}
    tables = {"tables": {"CRM.ACCOUNTS": {"topic": "t"}}, "format": {"type": "qlik"}, **strict}
    pair = FeedPair("r_metadata", tmp_path, spark, settings, **tables)
    described = metadata("CRM.ACCOUNTS", {"ID": "INT8", "NAME": "STRING(30)", "TIER": "STRING(3)"}, ["ID"])
    record = in_kafka(described)
    hours = {
        HOURS[0]: [
            qlik(1, "INSERT", {"ID": 1, "NAME": "A", "TIER": "x"}, "07"),
            qlik(2, "INSERT", {"ID": 2, "NAME": "B", "TIER": "x"}, "07"),
            qlik(3, "UPDATE", {"ID": 1, "NAME": "A2", "TIER": None}, "03", {"ID": 1, "NAME": "A", "TIER": "x"}),
            qlik(4, "INSERT", {"ID": 3, "NAME": "C", "TIER": "y"}, "07"),
        ],
        HOURS[1]: [
            record,
            qlik(11, "UPDATE", {"ID": 1, "NAME": None, "TIER": "z"}, "05", {"ID": 1, "NAME": "A2", "TIER": "x"}),
            qlik(12, "DELETE", {"ID": 3, "NAME": "C", "TIER": "y"}, "07"),
            qlik(13, "INSERT", {"ID": 4, "NAME": "D", "TIER": "y"}, "07"),
        ],
    }  # fmt: skip
    for hour, records in hours.items():
        pair.export(hour, records)
    first = pair.run(HOURS[0])
    assert (first.held, first.quarantined, first.waiting_entries) == (4, 0, 4)
    assert first.notes == ["4 changes wait for metadata of their tables: `tidemark held` names them"]
    (waits,) = {(row[1], row[3], row[4]) for row in held_listing(settings, pair.fixed).rows}
    assert waits == (HOURS[0], f"{pair.fixed}.accounts", "metadata of CRM.ACCOUNTS")
    pair.export(HOURS[2], [])
    assert pair.run(HOURS[2]).waiting_entries == 4, "an hour that brings none leaves them where they are"
    second = pair.run(HOURS[1])
    assert (second.counts.applied, second.counts.released_applied, second.waiting_entries) == (3, 4, 0)
    assert held_listing(settings, pair.fixed).rows == [] and reasons(settings, pair) == []
    assert [str(finding) for finding in audit(pair.feed(pair.fixed), settings).findings] == []
    pair.run_right([HOURS[2], HOURS[1], HOURS[0]])
    assert pair.rows(pair.fixed, "accounts") == pair.rows(pair.right, "accounts")
    assert [r["NAME"] for r in pair.rows(pair.fixed, "accounts")] == ["A2", "B", "D"]


def test_a_transaction_waits_whole_for_the_metadata_of_one_of_its_tables(
    tmp_path: Path, spark: SparkSession, settings: Settings
) -> None:
    """Also what comes of it again while it waits. A feed file that declares the table releases it too."""
    tables = {"CRM.ACCOUNTS": {"topic": "t"}, "CRM.NOTES": {"topic": "u"}}
    usual = {"tables": tables, "format": {"type": "qlik"}, "topics": ["t", "u"]}
    pair = FeedPair("r_waits_whole", tmp_path, spark, settings, **usual)
    described = metadata("CRM.ACCOUNTS", {"ID": "INT8", "NAME": "STRING(30)"}, ["ID"])
    record = in_kafka(described)
    both = [
        qlik(1, "INSERT", {"ID": 1, "NAME": "A"}, "03", counter=1, last=False),
        {**qlik(2, "INSERT", {"ID": 9, "TEXT": "n"}, "03", counter=2, transaction=1), "topic": "u"},
    ]
    pair.export(HOURS[0], [record, both[0], qlik(5, "INSERT", {"ID": 2, "NAME": "B"}, "03")])
    pair.export(HOURS[0], [both[1]], "u")
    pair.export(HOURS[1], [{**both[0], "offset": 60}])
    first = pair.run(HOURS[0])
    assert (first.held, first.counts.applied, first.held_transactions) == (2, 1, 0)
    assert {row[4] for row in held_listing(settings, pair.fixed).rows} == {"metadata of CRM.NOTES"}
    again = pair.run(HOURS[1])
    assert (again.held, again.counts.applied, again.waiting_entries) == (1, 0, 3)
    assert [r["ID"] for r in pair.rows(pair.fixed, "accounts")] == [2]
    declared = {
        "tables": {**tables, "CRM.NOTES": {"topic": "u", "key": ["ID"], "columns": {"ID": "INT8", "TEXT": "CLOB"}}}
    }
    pair.export(HOURS[2], [])
    last = pair.run(HOURS[2], **declared)
    assert (last.counts.released_applied, last.counts.released_duplicate, last.waiting_entries) == (2, 1, 0)
    assert [r["ID"] for r in pair.rows(pair.fixed, "accounts")] == [1, 2]
    assert [r["TEXT"] for r in pair.rows(pair.fixed, "notes")] == ["n"]
    assert [str(finding) for finding in audit(pair.feed(pair.fixed, **declared), settings).findings] == []


@pytest.mark.parametrize("container", ["raw", "kafka_json"])
def test_an_hour_read_with_the_wrong_delimiters(tmp_path: Path, settings: Settings, container: str) -> None:
    """Nothing of it can be read, and its records are cut in other places; later hours were right."""
    feed = generated(ibm, tmp_path, f"r_delimiter_{container}", events=60, seed=7, container=container)
    several = {"column_delimiter": ";", "string_delimiter": "'"}
    wrong = feed.model_copy(
        update={
            "format": {**feed.format, **several},
            "container": {**feed.container, **(several if container == "raw" else {})},
            "quarantine": feed.quarantine.model_copy(update={"at_least": 1000}),
        }
    )
    first = run_hour(Feed.model_validate(wrong.model_dump(exclude_unset=True)), GENERATED[0], settings)
    assert first.quarantined == first.landed + first.split > 0
    for hour in GENERATED[1:]:
        run_hour(feed, hour, settings)
    assert findings(tmp_path, GENERATED[-1], settings, schema=feed.feed)
    receipt = replay_hour(feed, GENERATED[0], settings)
    assert receipt is not None and receipt.quarantined == 0
    receipt.balance()
    assert findings(tmp_path, GENERATED[-1], settings, schema=feed.feed, now=True) == {}


def test_an_hour_read_as_another_container(tmp_path: Path, spark: SparkSession, settings: Settings) -> None:
    """What landing saw of lines (that they are text) is not what is to be known of Kafka records: here values are JSON in
    place of a text, and their numbers keep all digits all the same."""
    pair = FeedPair(
        "container", tmp_path, spark, settings, format={"type": "debezium", "decimals": "numeric"},
        tables={"s.items": {"columns": {"id": "bigint", "n": "numeric(30,2)"}}}, quarantine={"limit": 1},
    )  # fmt: skip

    def record(lsn: int) -> bytes:
        sent = event("c", lsn, {"id": lsn, "n": "digits"})
        whole = json.dumps(sent | {"value": json.loads(sent["value"])})
        return whole.replace('"digits"', "12345678901234567890.12").encode()

    for hour, lsn in zip(HOURS[:2], (1, 2), strict=True):
        pair.export(hour, [record(lsn)])
    assert pair.run(HOURS[0], container={"type": "lines"}).quarantined == 1
    pair.run(HOURS[1])
    assert [str(finding) for finding in audit(pair.feed(pair.fixed), settings).findings] == []
    receipt = pair.replay(HOURS[0])
    assert receipt is not None and receipt.quarantined == 0
    pair.run_right(HOURS[:2])
    pair.same("items")
    assert {str(row["n"]) for row in pair.rows(pair.fixed, "items")} == {"12345678901234567890.12"}
    assert [str(finding) for finding in audit(pair.feed(pair.fixed), settings).findings] == []


def test_an_object_of_which_part_is_published_is_not_cut_again(tmp_path: Path, settings: Settings) -> None:
    feed = generated(ibm, tmp_path, "r_cut", events=60, seed=7, container="raw", poison=2)
    run_hour(feed, GENERATED[1], settings)
    other = {"record_delimiter": ";"}
    wrong = feed.model_copy(update={"format": {**feed.format, **other}, "container": {**feed.container, **other}})
    with pytest.raises(ExportError, match="finds other records in an object of which some are published already"):
        replay_hour(Feed.model_validate(wrong.model_dump(exclude_unset=True)), GENERATED[1], settings)
    receipt = replay_hour(feed, GENERATED[1], settings)
    assert receipt is not None and receipt.quarantined == 2
    receipt.balance()


@pytest.mark.parametrize("format_", ["canal", "dataworks"])
def test_a_dropped_database_empties_what_the_feed_file_names_since(
    tmp_path: Path, spark: SparkSession, settings: Settings, format_: str
) -> None:
    """Its entry stays in quarantine: there may be tables that the feed file does not name yet."""
    schema = f"r_dropped_{format_}"
    tables, columns = ("a", "m", "x", "z"), {"id": "int"}
    made = Installation(format_, schema, tmp_path, settings, {f"s.{schema}_m": {}})
    made.export(0, [Change("c", n, columns, {"id": n}, table=f"{schema}_{table}") for n, table in enumerate(tables, 1)])
    made.export(1, [Statement(10, {}, "DROP DATABASE s", table="", kind="QUERY")])
    made.run(0, 1)

    def left() -> dict[str, list[int]]:
        return {
            table: [row["id"] for row in made.rows(f"{schema}_{table}", schema=schema if table == "m" else "s")]
            for table in tables
        }

    def replay() -> tuple[int, int, int]:
        receipt = replay_hour(made.feed(), INSTALLED[1], settings)
        assert receipt is not None
        receipt.balance()
        entries = list_kept_back(settings, schema)
        assert [entry["reason"] for entry in entries] == [OTHERS_STAY]
        return receipt.split, receipt.counts.applied, receipt.quarantined

    assert left() == {"a": [1], "m": [], "x": [3], "z": [4]}
    made.tables |= {f"s.{schema}_{table}": {"name": f"s.{schema}_{table}"} for table in ("a", "x")}
    assert replay() == (3, 3, 1)
    assert left() == {"a": [], "m": [], "x": [], "z": [4]}
    assert replay() == (3, 3, 1), "by the same feed file nothing changes"
    del made.tables[f"s.{schema}_a"]
    assert replay() == (3, 3, 1), "nor by one that no longer names a table"
    with pytest.raises(ConfigError, match="of its tables that are in quarantine for it"):
        replay_hour(made.feed(undeclared="quarantine"), INSTALLED[1], settings)
    made.run(1)
    assert left() == {"a": [], "m": [], "x": [], "z": [4]}
    assert [str(finding) for finding in audit(made.feed(), settings).findings] == []


def test_a_transaction_that_was_given_up_shows_whole_when_it_is_complete(
    tmp_path: Path, spark: SparkSession, settings: Settings
) -> None:
    """Its parts landed in three hours, and were given up by an hour later on; its end comes last of all."""
    pair = FeedPair("r_given_up", tmp_path, spark, settings, **TRANSACTIONS, **items())
    policy = {"transactions": {"alarm": "2h", "overdue": "quarantine"}}
    hours = {
        HOURS[0]: [part(event("c", 1, row(1, 1)), "1", 1), part(event("c", 9, row(9, 9)), "9", 1), end("9", 1)],
        HOURS[1]: [part(event("c", 2, row(2, 2)), "1", 2)],
        HOURS[4]: [part(event("u", 30, row(9, 10)), "30", 1), end("30", 1)],
        HOURS[5]: [part(event("c", 3, row(3, 3)), "1", 3), end("1", 3)],
    }  # fmt: skip
    for hour, records in hours.items():
        for topic in ("t", "tx"):
            pair.export(hour, [r for r in records if r["topic"] == topic], topic)
        pair.run(hour, **policy)
        if hour == HOURS[4]:
            pair.replay(HOURS[0], **policy)
            assert [(hour, reason) for hour, _, reason in reasons(settings, pair)] == [
                (HOURS[0], "its transaction never completed"), (HOURS[1], "its transaction never completed")
            ], "it still is not complete"  # fmt: skip
    last = load_history(settings, pair.fixed).receipts[-1]
    assert (last.held, last.held_transactions) == (1, 1), "its last part waits for the others"
    pair.replay(HOURS[0], **policy)
    assert [r["id"] for r in pair.rows(pair.fixed, "items")] == [9], "never a part of it"
    released = pair.replay(HOURS[1], **policy)
    assert released is not None and (released.counts.applied, released.counts.released_applied) == (1, 2)
    assert reasons(settings, pair) == []
    pair.run_right(list(hours))
    assert pair.rows(pair.fixed, "items") == pair.rows(pair.right, "items")
    assert len(pair.rows(pair.fixed, "items")) == 4


def test_released_changes_that_were_kept_back_are_replayed_in_the_hour_they_landed_in(
    tmp_path: Path, spark: SparkSession, settings: Settings
) -> None:
    pair = FeedPair("r_released", tmp_path, spark, settings, **TRANSACTIONS, **items())
    big = 5_000_000_000
    hours = {
        HOURS[0]: [part(event("c", 1, row(1, big)), "1", 1), part(event("c", 2, row(2, 2)), "1", 2)],
        HOURS[1]: [part(event("c", 3, row(3, big)), "1", 3), end("1", 3)],
        HOURS[2]: [part(event("u", 5, row(1, 7, ABSENT)), "5", 1), end("5", 1)],
    }  # fmt: skip
    for hour, records in hours.items():
        for topic in ("t", "tx"):
            pair.export(hour, [r for r in records if r["topic"] == topic], topic)
        pair.run(hour)
    assert [(hour, record) for hour, record, _ in reasons(settings, pair)] == [
        (HOURS[0], 1), (HOURS[0], 2), (HOURS[1], 1)
    ], "the good change of the transaction waits with it"  # fmt: skip
    right = items(columns=WIDE)
    for hour in HOURS[:2]:
        receipt = pair.replay(hour, **right)
        assert receipt is not None and receipt.quarantined == 0
    pair.run_right(list(hours), **right)
    assert pair.rows(pair.fixed, "items") == pair.rows(pair.right, "items")
    assert pair.account(pair.fixed)[HOURS[0]] == {
        "landed": 2, "split": 0, "control": 0, "held": 2, "quarantined": 0, "in tables": 0
    }  # fmt: skip
    assert reasons(settings, pair) == []


def test_a_replay_that_died_is_carried_on(pair: FeedPair, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a replay or by a plain run of the hour, or before another hour; an hour that came in between is no harm."""
    right = items(columns=WIDE)
    hours = {
        HOURS[0]: [event("c", 1, row(1, 1, "one")), event("c", 2, row(2, 5_000_000_000))],
        HOURS[1]: [event("u", 10, row(1, 5_000_000_000, "new")), event("d", 11, None, key={"id": 2})],
        HOURS[2]: [event("u", 20, row(1, 7, ABSENT)), event("c", 21, row(4, 5_000_000_000))],
    }
    for hour, records in hours.items():
        pair.export(hour, records)
    pair.run_right(HOURS[:3], **right)

    for stage, module in (("decode", run), ("validate", run), ("after", FeedState)):
        pair.fixed = f"r_died_{stage}"  # a feed for each, of the same exports
        for hour in HOURS[:2]:
            pair.run(hour)
        with monkeypatch.context() as patch, pytest.raises(RuntimeError):
            patch.setattr(module, stage, dies)
            pair.replay(HOURS[1], **right)
        if stage == "validate":
            pair.run(HOURS[2], **right)
            assert pair.replay(HOURS[1], **right)
        else:
            assert pair.run(HOURS[1], **right).recalls
            pair.run(HOURS[2], **right)
        pair.replay(HOURS[0], **right)
        pair.same("items")
        assert reasons(settings, pair) == [], stage


def test_a_replay_overtakes_no_publication_that_died(
    pair: FeedPair, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A newer version of the hour was validated and no more: it is published first, and the replay on top of it."""
    right = items(columns=WIDE)
    pair.export(HOURS[0], [event("c", 1, row(1, 5_000_000_000)), event("c", 2, row(2, 2))])
    pair.run(HOURS[0])
    pair.export(HOURS[0], [event("c", 3, row(3, 3))])

    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr(run, "publish", dies)
        pair.run(HOURS[0], **right)
    receipt = pair.replay(HOURS[0], **right)
    assert receipt is not None and (receipt.sequence, receipt.landed, receipt.quarantined) == (3, 3, 0)
    pair.run_right(HOURS[:1], **right)
    pair.same("items")


def test_an_hour_is_published_as_the_feed_file_reads_it_then(
    pair: FeedPair, spark: SparkSession, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was decoded by another. By the same it is not decoded again, nor is what is published."""
    gone = {"format": DEBEZIUM["format"] | {"unavailable": "__gone__"}}
    pair.export(HOURS[0], [event("c", 1, row(1, 1, "large"))])
    pair.export(HOURS[1], [event("u", 2, row(1, 2, "__gone__"))])
    pair.run(HOURS[0])
    feed, mended = pair.feed(pair.fixed), pair.feed(pair.fixed, **gone)
    land(feed, HOURS[1], settings)
    run.decode_stage(spark, feed, HOURS[1], settings)
    decoded = log_snapshot(spark, pair.fixed)
    run.fold_stage(spark, feed, HOURS[1], settings)
    assert log_snapshot(spark, pair.fixed) == decoded
    run.fold_stage(spark, mended, HOURS[1], settings)
    decoded = log_snapshot(spark, pair.fixed)
    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr(run, "publish", dies)
        run.publish_stage(spark, mended, HOURS[1], settings)
    pair.run(HOURS[1])  # what is validated is published as it is, whatever the feed file says
    pair.run_right(HOURS[:2], **gone)
    pair.same("items")
    for hour in HOURS[:2]:
        pair.run(hour)
    assert log_snapshot(spark, pair.fixed) == decoded
    pair.same("items")


def test_an_hour_is_published_by_the_checks_that_it_was_screened_by(
    pair: FeedPair, spark: SparkSession, settings: Settings
) -> None:
    """The feed file is edited when the hour is folded and not yet validated: a check is added, a table gets another name."""
    for hour, n in enumerate((1, 500, 600), 1):
        pair.export(HOURS[hour - 1], [event("c", hour, row(hour, n))])
    quarantine, stop = (
        {"checks": [{"column": "n", "max": 99, "consequence": what}]} for what in ("quarantine", "stop")
    )

    def publish(hour: str, folded_by: Feed, judged_by: Feed) -> Receipt:
        land(folded_by, hour, settings)
        run.decode_stage(spark, folded_by, hour, settings)
        run.fold_stage(spark, folded_by, hour, settings)
        return run.publish_stage(spark, judged_by, hour, settings)

    pair.run(HOURS[0])
    checked = {"quarantine": {"limit": 1}, **items(**quarantine)}
    receipt = publish(HOURS[1], pair.feed(pair.fixed), pair.feed(pair.fixed, **checked))
    assert receipt.quarantined == 1 and [r["n"] for r in pair.rows(pair.fixed, "items")] == [1]
    named = items(**stop, name=f"{pair.fixed}.things")
    with pytest.raises(CheckError, match="n <= 99"):
        publish(HOURS[2], pair.feed(pair.fixed, **items(**stop)), pair.feed(pair.fixed, **named))
    assert [r["n"] for r in pair.rows(pair.fixed, "items")] == [1]


def test_an_hour_is_published_by_the_module_of_checks_that_it_was_screened_by(
    pair: FeedPair, spark: SparkSession, settings: Settings
) -> None:
    """The module is edited when the hour is folded and not yet validated: what it refuses now waits in quarantine."""
    folder = settings.path(settings.checks)
    folder.mkdir(parents=True, exist_ok=True)

    def write_module(most: int) -> None:
        (folder / "edited.py").write_text(
            "import pandera.pyspark as pa\n"
            "from pyspark.sql import types as T\n\n\n"
            "class Items(pa.DataFrameModel):\n"
            f"    n: T.IntegerType() = pa.Field(le={most}, nullable=True, metadata={{'consequence': 'quarantine'}})\n"
        )

    write_module(9)
    feed = pair.feed(pair.fixed, quarantine={"limit": 1}, **items(checks_module="edited:Items"))
    pair.export(HOURS[0], [event("c", 1, row(1, 1)), event("c", 2, row(2, 5)), event("c", 3, row(3, 10))])
    land(feed, HOURS[0], settings)
    run.decode_stage(spark, feed, HOURS[0], settings)
    run.fold_stage(spark, feed, HOURS[0], settings)
    write_module(4)
    assert run.publish_stage(spark, feed, HOURS[0], settings).quarantined == 2
    assert [r["n"] for r in pair.rows(pair.fixed, "items")] == [1]


def test_an_hour_lands_again_after_its_replay(pair: FeedPair, settings: Settings) -> None:
    """What is published stays as it was decoded, and a replay and a new version of the export do not hide each other."""
    big, right = 5_000_000_000, items(columns=WIDE)
    pair.export(HOURS[0], [event("c", 1, row(1, big)), event("c", 2, row(2, 2)), b"{"])
    pair.run(HOURS[0])
    assert recall(pair.feed(pair.fixed), HOURS[0], settings)
    pair.export(HOURS[0], [event("c", 3, row(3, big)), event("u", 4, row(2, 3))])
    both = pair.run(HOURS[0])
    assert (both.manifest_version, both.landed, both.quarantined) == (3, 5, 3)
    receipt = pair.replay(HOURS[0], **right)
    assert receipt is not None and (receipt.landed, receipt.quarantined) == (5, 1)
    land(pair.feed(pair.fixed), HOURS[0], settings)
    assert len(load_manifests(settings, pair.fixed, HOURS[0])) == 4, "a replay is no change of the source"
    pair.run_right(HOURS[:1], **right)
    pair.same("items")
    assert audit(pair.feed(pair.fixed, **right), settings).findings == [], "no entry is there twice"


def test_a_replay_that_a_check_stops_changes_nothing(pair: FeedPair, settings: Settings) -> None:
    pair.export(HOURS[0], [event("c", 1, row(1, 5_000_000_000)), event("c", 2, row(2, 2))])
    pair.run(HOURS[0])
    before = pair.rows(pair.fixed, "items"), pair.account(pair.fixed)
    stops = items(columns=WIDE, checks=[{"column": "n", "max": 9}])
    with pytest.raises(CheckError, match="n <= 9"):
        pair.replay(HOURS[0], **stops)
    assert (pair.rows(pair.fixed, "items"), pair.account(pair.fixed)) == before
    assert [record for _, record, _ in reasons(settings, pair)] == [1]
    assert pair.replay(HOURS[0], **items(columns=WIDE))
    pair.run_right(HOURS[:1], **items(columns=WIDE))
    pair.same("items")


def test_the_command_line_replays(
    pair: FeedPair, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import yaml

    feeds = tmp_path / "feeds"
    feeds.mkdir()
    file = feeds / f"{pair.fixed}.yaml"

    def write(**changes: Any) -> None:
        definition = pair.feed(pair.fixed, **changes).model_dump(mode="json", exclude_defaults=True)
        definition["exports"]["settle"] = "0s"
        file.write_text(yaml.safe_dump(definition))

    def tidemark(*arguments: str) -> Any:
        return CliRunner().invoke(app, list(arguments), catch_exceptions=False)

    monkeypatch.setenv("TIDEMARK_HOME", str(settings.home))
    monkeypatch.setenv("TIDEMARK_FEEDS", str(feeds))
    monkeypatch.setenv("TIDEMARK_JARS", str(settings.jars))
    write()
    for hour in HOURS[:2]:
        pair.export(hour, [event("c", int(hour[-2:]) + 1, row(int(hour[-2:]), 5_000_000_000)), b"{"])
        assert tidemark("run", pair.fixed, "--hour", hour).exit_code == 0
    assert len(tidemark("quarantine", "list", pair.fixed).output.splitlines()) == 1 + 4
    write(**items(columns=WIDE))
    replayed = tidemark("quarantine", "replay", pair.fixed)
    assert replayed.exit_code == 0
    for hour in HOURS[:2]:
        assert (
            f"{pair.fixed} {hour}: landed 2, applied 1, duplicate 0, superseded 0, control 0, held 0, quarantined 1"
            in replayed.output
        )
    assert len(tidemark("quarantine", "list", pair.fixed).output.splitlines()) == 1 + 2
    pair.export(HOURS[2], [b"{"] * 12)
    with pytest.raises(QuarantineLimitError):
        tidemark("run", pair.fixed, "--hour", HOURS[2])
    printed = tidemark("quarantine", "replay", pair.fixed).output
    assert f"{HOURS[2]}: stopped before it was published, nothing to replay: `tidemark run" in printed
    with pytest.raises(ConfigError, match="the hour was never published, so that nothing of it has to be replayed"):
        tidemark("quarantine", "replay", pair.fixed, "--hour", HOURS[2])
    with pytest.raises(ExportError, match="the hour has not landed"):
        tidemark("quarantine", "replay", pair.fixed, "--hour", HOURS[3])
    with pytest.raises(ConfigError, match="--to"):
        tidemark("quarantine", "replay", pair.fixed, "--to", HOURS[3])
