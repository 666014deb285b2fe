"""The feed's state: what an audit says of it, how it is made again, and what attempts that were never published leave."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tests.e2e.debezium_messages import COLUMNS, DEBEZIUM, HOURS, event, line, row
from tests.e2e.feed_pair import FeedPair
from tests.e2e.one_table_feed import OneTableFeed, rows
from tidemark.errors import ConflictError, QuarantineLimitError, StateError
from tidemark.lake.catalog import find_table, read_rows
from tidemark.ledger.manifest import load_manifest
from tidemark.ledger.publication_history import load_history
from tidemark.ledger.quarantine import list_kept_back
from tidemark.ledger.receipts import Receipt
from tidemark.ledger.state_store import load_state, save_state
from tidemark.ledger.system_tables import write_receipt
from tidemark.operations import maintenance
from tidemark.operations.audit import audit
from tidemark.operations.audit_state import rebuild_state
from tidemark.operations.maintenance import maintain
from tidemark.pipeline import publish
from tidemark.settings import Settings


def found(run: OneTableFeed, settings: Settings) -> list[str]:
    return [f"{one.kind}: {one.found}" for one in audit(run.definition(), settings).findings]


@pytest.mark.promise(5, 6)
def test_a_state_that_is_lost_is_made_again_from_the_receipts(run: OneTableFeed, settings: Settings) -> None:
    run(HOURS[0], [event("c", 1, row(1, 1)), event("d", 2, None, key={"id": 2})])
    with pytest.raises(QuarantineLimitError):  # an attempt that took a number
        run(HOURS[1], [event("c", 3, row(3, 3)), *["{" for _ in range(12)]])
    before = load_state(settings, run.feed)
    folder = Path(settings.lake_root, "_state", run.feed)
    shutil.rmtree(folder)
    for refused in (lambda: run(HOURS[2], [event("c", 4, row(4, 4))]), lambda: load_state(settings, run.feed)):
        with pytest.raises(StateError, match="it has receipts of 1 publications, and no state"):
            refused()
    assert [finding for finding in found(run, settings) if finding.startswith("state: it has receipts of 1")]
    after = rebuild_state(run.feed, settings)
    own = {"revision", "writer", "token", "next"}
    assert after.model_dump(exclude=own) == before.model_dump(exclude=own)
    assert (before.taken, after.taken, after.next) == (2, 2, None), "no number is taken twice"
    run(HOURS[2], [event("c", 4, row(4, 4))])
    assert load_state(settings, run.feed).last_sequence == 3
    assert (rows(settings, run), found(run, settings)) == ([row(1, 1), row(4, 4)], [])


@pytest.mark.full
@pytest.mark.promise(5)
def test_an_audit_tells_a_state_that_is_not_what_the_receipts_say(run: OneTableFeed, settings: Settings) -> None:
    for number in range(2):
        run(HOURS[number], [event("c", number, row(number, number))])
    state = load_state(settings, run.feed)
    receipt = state.model_copy(deep=True)
    altered = state.model_copy(update={"rows": {"shop.t": 9}, "held_transactions": 3})
    altered = save_state(settings, altered)
    assert found(run, settings) == ["state: is not what its receipts add up to: held_transactions, rows"]
    damaged = Path(settings.lake_root, "_state", run.feed, f"{altered.revision:08d}.json")
    damaged.write_text("{")
    assert found(run, settings) == ["state: the feed's state is damaged"]
    rebuilt = rebuild_state(run.feed, settings)
    assert rebuilt.revision == altered.revision + 1 and rebuilt.hours == receipt.hours
    assert found(run, settings) == []


@pytest.mark.full
@pytest.mark.promise(5)
def test_maintenance_removes_what_attempts_left_and_keeps_the_last(run: OneTableFeed, settings: Settings) -> None:
    run(HOURS[0], [event("c", 1, row(1, 1))])
    for _ in range(2):
        with pytest.raises(QuarantineLimitError):
            run(HOURS[1], [event("c", 3, row(3, 3)), *["{" for _ in range(12)]])

    def numbers() -> set[int]:
        return {kept["sequence"] for kept in read_rows(settings, "tidemark", run.feed, "quarantine")}

    assert numbers() == {2, 3}
    listed = list_kept_back(settings, run.feed)
    assert {kept["sequence"] for kept in listed} == {3}
    maintain(run.definition(), settings)
    assert (numbers(), list_kept_back(settings, run.feed)) == ({3}, listed)
    run(HOURS[1], None, quarantine={"limit": 1.0})
    maintain(run.definition(), settings)
    assert numbers() == {4}
    run(HOURS[2], [event("c", 9, row(9, 9))])
    assert found(run, settings) == []


@pytest.mark.full
@pytest.mark.promise(5)
def test_a_run_that_stood_still_while_maintenance_ran_goes_on_no_more(run: OneTableFeed, settings: Settings) -> None:
    """Maintenance takes back the columns that it has added."""
    run(HOURS[0], [event("c", 1, row(1, 1))])
    begun = load_state(settings, run.feed)
    begun = save_state(settings, begun.beginning(load_manifest(settings, run.feed, HOURS[0])))
    maintain(run.definition(), settings)
    with pytest.raises(ConflictError):
        save_state(settings, begun)
    run(HOURS[1], [event("c", 2, row(2, 2))])
    assert (rows(settings, run), found(run, settings)) == ([row(1, 1), row(2, 2)], [])


@pytest.mark.full
@pytest.mark.promise(5)
def test_receipts_become_few_files_and_snapshots(run: OneTableFeed, settings: Settings, spark: SparkSession) -> None:
    receipt = run(HOURS[0], [event("c", 1, row(1, 1))])
    for number in range(2, 8):
        write_receipt(spark, receipt.model_copy(update={"sequence": number}))
    maintenance._maintain_receipts(spark, run.feed, datetime.now(UTC) + timedelta(minutes=1))
    receipts = find_table(settings, "tidemark", "receipts")
    assert receipts is not None
    files = list(receipts.scan(row_filter=f"feed = '{run.feed}'").plan_files())
    assert (len(files), len(receipts.metadata.snapshots)) == (1, 1)
    assert [one.sequence for one in load_history(settings, run.feed).receipts] == list(range(1, 8))
    with pytest.raises(ConflictError):  # of a run that stood still since: it is there
        write_receipt(spark, receipt.model_copy(update={"sequence": 5}))


KEYLESS = {"tables": {"s.items": {"columns": COLUMNS}, "s.lines": {"columns": {"id": "bigint", "n": "int"}}}}


def two_hours(pair: FeedPair) -> None:
    pair.export(HOURS[0], [event("c", 1, row(1, 1)), line(2, 7)])
    changes = [event("u", 10, row(1, 10)), line(12, 7), line(13, 8), line(14, 7, "d")]
    pair.export(HOURS[1], [*changes, event("c", 11, row(2, 11)), event("d", 15, None, key={"id": 2})])
    pair.run_right(HOURS[:2], **KEYLESS)


@pytest.mark.full
@pytest.mark.promise(4)
def test_a_state_of_before_the_last_publication_is_refused(
    tmp_path: Path, spark: SparkSession, settings: Settings
) -> None:
    """A backup of the lake's folder, say. Its hour would be counted twice."""
    pair = FeedPair("older", tmp_path, spark, settings, **DEBEZIUM)
    two_hours(pair)
    folder = Path(settings.lake_root, "_state", pair.fixed)
    pair.run(HOURS[0], **KEYLESS)
    shutil.copytree(folder, tmp_path / "state")
    pair.run(HOURS[1], **KEYLESS)
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "state", folder)
    for _ in range(2):  # each run takes a number
        with pytest.raises(
            StateError, match="publication 2 has made the table what it is and has a receipt"
        ) as refused:
            pair.run(HOURS[1], **KEYLESS)
        assert (refused.value.table or "").startswith(f"{pair.fixed}.") and "--rebuild-state" in (
            refused.value.fix or ""
        )
    rebuild_state(pair.fixed, settings)
    pair.run(HOURS[1], **KEYLESS)
    pair.same("items", "lines")
    assert audit(pair.feed(pair.fixed, **KEYLESS), settings).findings == []


@pytest.mark.full
@pytest.mark.promise(4)
def test_a_publication_is_lost_with_its_state(tmp_path: Path, spark: SparkSession, settings: Settings) -> None:
    """The run died before it wrote the receipt, so that only the tables show it."""
    pair = FeedPair("lost", tmp_path, spark, settings, **DEBEZIUM)
    two_hours(pair)
    feed = pair.feed(pair.fixed, **KEYLESS)
    die_with_the_receipt(pair, stops)
    told = [str(finding) for finding in audit(feed, settings).findings]
    assert len(told) == 1 and "publication 2: is not written yet" in told[0], "the tables are right"
    shutil.rmtree(Path(settings.lake_root, "_state", pair.fixed))
    rebuild_state(pair.fixed, settings)
    made = [one.where for one in audit(feed, settings).findings if "has no receipt, made it" in one.found]
    assert made == [f"{pair.fixed}.items", f"{pair.fixed}.lines"]
    receipt = pair.run(HOURS[1], **KEYLESS)
    assert all("without a receipt had made it" in "".join(table.warnings) for table in receipt.tables)
    pair.same("items", "lines")
    assert audit(feed, settings).findings == []


def stops(*_: object) -> None:
    raise KeyboardInterrupt


def die_with_the_receipt(pair: FeedPair, write: Callable[[SparkSession, Receipt], None]) -> None:
    """Publish two hours, the second by a run that dies while it writes the receipt."""
    pair.run(HOURS[0], **KEYLESS)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(publish, "write_receipt", write)
        pair.run(HOURS[1], **KEYLESS)


@pytest.mark.full
@pytest.mark.promise(4)
def test_a_state_that_is_made_again_keeps_the_receipt_that_it_alone_has(
    tmp_path: Path, spark: SparkSession, settings: Settings
) -> None:
    pair = FeedPair("alone", tmp_path, spark, settings, **DEBEZIUM)
    two_hours(pair)
    feed = pair.feed(pair.fixed, **KEYLESS)
    die_with_the_receipt(pair, stops)
    rebuild_state(pair.fixed, settings)
    assert pair.run(HOURS[1], **KEYLESS).sequence == 2, "it was published"
    assert audit(feed, settings).findings == []


@pytest.mark.full
@pytest.mark.promise(4)
@pytest.mark.parametrize("replayed", [False, True], ids=["run", "replayed"])
def test_a_receipt_that_is_written_counts_once_though_its_run_died(
    tmp_path: Path, spark: SparkSession, settings: Settings, replayed: bool
) -> None:
    """Before it could say so. Whichever command published it goes on with it."""
    pair = FeedPair(f"written_{replayed}".lower(), tmp_path, spark, settings, **DEBEZIUM)
    two_hours(pair)
    feed = pair.feed(pair.fixed, **KEYLESS)

    def write_and_stop(spark: SparkSession, receipt: Receipt) -> None:
        write_receipt(spark, receipt)
        raise KeyboardInterrupt

    die_with_the_receipt(pair, write_and_stop)
    assert audit(feed, settings).findings == []
    receipt = pair.replay(HOURS[1], **KEYLESS) if replayed else pair.run(HOURS[1], **KEYLESS)
    assert receipt is not None and receipt.sequence == 2
    assert load_state(settings, pair.fixed).unrecorded is None
    assert audit(feed, settings).findings == []


def test_the_command_makes_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from tidemark.cli import app

    made = []

    def stops(feed: str, settings: Settings) -> None:
        made.append(feed)
        raise StateError("stops here")

    monkeypatch.setattr("tidemark.feeds.loading.find_feed", lambda feed, settings: None)
    monkeypatch.setattr("tidemark.operations.audit_state.rebuild_state", stops)
    result = CliRunner().invoke(app, ["audit", "shop", "--rebuild-state"])
    assert made == ["shop"] and isinstance(result.exception, StateError)
