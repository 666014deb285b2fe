"""Runs of the DAG with a spark-submit that only notes how it was called and ends as the test says."""

from __future__ import annotations

import asyncio
import json
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import ParamValidationError
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from tidemark.errors import ConfigError, ExportError, TerminalError, TransientError
from tidemark.feeds.model import Feed
from tidemark.hours import Hour
from tidemark.ledger.feed_state import FeedState, HourRange
from tidemark.ledger.manifest import LandedObject, Manifest
from tidemark.ledger.receipts import Counts, Receipt, TableReceipt
from tidemark.operations.explained_rows import answer_name
from tidemark.orchestration.job_exit import Exit
from tidemark.pipeline.hour_export import Readiness
from tidemark.settings import Settings

PROJECT = Path(__file__).parent.parent.parent
HOUR = "2026-11-20T07"


class Submits:
    """The calls of the stand-in for spark-submit, and how the next ones end."""

    def __init__(self, folder: Path) -> None:
        self._calls, self._script = folder / "calls", folder / "spark-submit"
        self.end(Exit.OK)

    def end(self, code: int, output: str = "") -> None:
        self._script.write_text(f'#!/bin/sh\necho "$*" >>"{self._calls}"\ncat <<"."\n{output}\n.\nexit {code}\n')
        self._script.chmod(0o755)

    @property
    def jobs(self) -> list[str]:
        """Job and arguments of each call."""
        calls = self._calls.read_text().splitlines() if self._calls.exists() else []
        return [call.rsplit("/jobs/", 1)[1] for call in calls]

    @property
    def lines(self) -> list[str]:
        return self._calls.read_text().splitlines()


def manifest_of(size: int) -> Manifest:
    """That of the hour's second export, of one object of so many bytes."""
    path = f"shop/t/dt=2026-11-20/hr=07/v00002/{size}"
    landed = LandedObject(path=path, topic="t", source=path, fingerprint="-", bytes=size, sha256="0", records=1)
    at = datetime(2026, 11, 20, tzinfo=UTC)
    return Manifest(feed="shop", hour=Hour(HOUR), version=2, objects=[landed], created_at=at)


@pytest.fixture
def submits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Submits:
    """For hours of which a small object has landed."""
    from tidemark.ledger import manifest

    monkeypatch.setattr(manifest, "all_objects", lambda settings, feed, hour: manifest_of(1))
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return Submits(folder)


@pytest.fixture
def landed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Exports are complete; what was landed."""
    from tidemark.pipeline import exports, land

    done: list[tuple[str, str]] = []
    monkeypatch.setattr(exports, "is_complete", lambda feed, hour, settings: Readiness(True, "marker is there"))
    monkeypatch.setattr(land, "land", lambda feed, hour, settings: done.append((feed.feed, hour)))
    return done


def of_the_shop(kind: str) -> Any:
    """The shop's DAG of a kind; a task that fails is not tried again, so that the tests need not wait."""
    from airflow.dag_processing.dagbag import DagBag

    dag = DagBag(dag_folder=str(PROJECT / "dags" / f"{kind}.py")).dags[f"{kind}_shop"]
    for task in dag.tasks:
        task.retries = 0
    return dag


@pytest.fixture
def ingest(feeds: Path, airflow_database: None) -> Any:
    return of_the_shop("ingest")


def feed_with(**exports: Any) -> Feed:
    named = {
        "feed": "shop", "description": "A shop", "owner": "data@example.org", "topics": ["srv.shop.orders"],
        "format": {"type": "debezium"}, "exports": exports,
    }  # fmt: skip
    return Feed.model_validate(named | ({} if "kafka" in exports else {"container": {"type": "lines"}}))


def by_hand() -> Any:
    """What a task sees of a DAG run that was triggered by hand."""
    from airflow.sdk.api.datamodels._generated import DagRunType

    return SimpleNamespace(run_type=DagRunType.MANUAL, data_interval_start=None, logical_date=None)


def states(run: Any) -> dict[str, str]:
    return {task.task_id: task.state for task in run.get_task_instances()}


def test_an_hour_goes_through_all_stages(ingest: Any, submits: Submits, landed: list[tuple[str, str]]) -> None:
    run = ingest.test(run_conf={"hour": HOUR})
    assert run.state == "success"
    assert landed == [("shop", HOUR)]
    assert submits.jobs == [f"{stage}.py shop {HOUR}" for stage in ("decode", "fold", "publish")]


@pytest.mark.parametrize(
    ("published", "jobs"),
    [
        ({}, []),
        ({"stopped": {HOUR: {"shop.people": "why"}}}, ["decode.py shop " + HOUR]),
        ({"unrecorded": True}, [f"{stage}.py shop {HOUR}" for stage in ("decode", "fold", "publish")]),
        ({"version": 1}, [f"{stage}.py shop {HOUR}" for stage in ("decode", "fold", "publish")]),
    ],
    ids=["all of it", "but for a stopped table", "but its receipt is not written", "but for what has landed since"],
)
def test_of_an_hour_that_is_published_no_job_is_started(
    ingest: Any, submits: Submits, landed: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch,
    published: dict[str, Any], jobs: list[str],
) -> None:  # fmt: skip
    from tidemark.ledger import state_store

    receipt = Receipt.model_construct(feed="shop", hour=Hour(HOUR))
    of_hour = HourRange(first=Hour(HOUR), last=Hour(HOUR), sequence=1, version=published.pop("version", 2))
    unrecorded = receipt if published.pop("unrecorded", False) else None
    state = FeedState(feed="shop", hours=[of_hour], **published).model_copy(update={"unrecorded": unrecorded})
    monkeypatch.setattr(state_store, "find_state", lambda *_: state)
    assert ingest.test(run_conf={"hour": HOUR}).state == "success"
    assert submits.jobs == jobs


@pytest.mark.parametrize(
    ("size", "rows", "quick"), [(1, 199_999, True), (8 << 20, 0, False), (1, 200_000, False)], ids=str
)
def test_a_job_with_little_to_do_has_the_quick_compiler(
    ingest: Any, submits: Submits, landed: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch,
    size: int, rows: int, quick: bool,
) -> None:  # fmt: skip
    from tidemark.ledger import manifest, state_store

    monkeypatch.setattr(state_store, "find_state", lambda *_: FeedState(feed="shop", rows={"a": rows, "b": 0}))
    monkeypatch.setattr(manifest, "all_objects", lambda *_: manifest_of(size))
    assert ingest.test(run_conf={"hour": HOUR}).state == "success"
    assert ["TieredStopAtLevel=1" in line for line in submits.lines] == [quick] * 3


def test_the_events_of_assets_carry_the_receipts_figures_and_the_hour_as_partition(
    ingest: Any, submits: Submits, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk.api.datamodels._generated import DagRunType
    from airflow.sdk.execution_time.context import OutletEventAccessors

    from tidemark.ledger import publication_history

    counts = Counts(applied=3, duplicate=1)
    receipt = Receipt(
        feed="shop", hour=Hour(HOUR), sequence=9, manifest_version=1, objects=1, bytes=5, landed=4, split=0, control=0,
        bad=0, held=0, tables=[TableReceipt(table="shop.people", counts=counts, rows_written=2, warnings=["w"])],
    )  # fmt: skip
    run = SimpleNamespace(run_type=DagRunType.MANUAL, data_interval_start=None, logical_date=None, start_date=None)

    def events() -> dict[str, Any]:
        found = OutletEventAccessors()
        publish.execute({"dag_run": run, "params": {"hour": HOUR}, "outlet_events": found})
        return {key.name: found[key] for key in found}

    publish = ingest.get_task("validate_publish")
    monkeypatch.setattr(publication_history, "load_receipt", lambda settings, feed, hour: receipt)
    told = events()
    assert {name: sorted(event.partition_keys) for name, event in told.items() if event.partition_keys} == {
        "tidemark/shop/hours": [HOUR]
    }
    assert told["tidemark/shop"].extra == told["tidemark/shop/hours"].extra
    assert told["tidemark/shop"].extra.items() >= {"hour": HOUR, "publication": 9, "landed": 4, "applied": 3}.items()
    people = {"hour": HOUR, "tag": "hour_2026_11_20T07", "rows_written": 2, "duplicate": 1, "warnings": ["w"]}
    assert told["tidemark/shop.people"].extra.items() >= people.items()
    assert "rows_written" not in told["tidemark/shop.orders"].extra, "the hour did not touch it"

    def fails(settings: Any, feed: str, hour: str) -> None:
        raise TransientError("the catalog does not answer")

    monkeypatch.setattr(publication_history, "load_receipt", fails)
    assert events()["tidemark/shop"].extra == {"feed": "shop", "hour": HOUR, "tag": "hour_2026_11_20T07"}


def test_a_task_leads_to_the_receipt_of_its_hour(
    ingest: Any, submits: Submits, landed: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ingest.test(run_conf={"hour": HOUR})
    task = next(task for task in run.get_task_instances() if task.task_id == "validate_publish")
    link = task.xcom_pull(task_ids="validate_publish", key="_link_ReceiptLink")
    assert link.startswith("http") and link.endswith(f"/tidemark/shop/hours/{HOUR}/")


def test_a_run_by_hand_names_the_tables_that_are_loaded_anew(
    ingest: Any, submits: Submits, landed: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidemark.ledger import reloads

    named: list[tuple[str, list[str], str]] = []

    def name_reloads(feed: Feed, tables: list[str], hour: str, settings: Settings) -> None:
        assert not landed, "what has landed may be published at once, without the reload"
        named.append((feed.feed, tables, hour))

    monkeypatch.setattr(reloads, "name_reloads", name_reloads)
    assert ingest.test(run_conf={"hour": HOUR, "reload": ["shop.people", " * "]}).state == "success"
    assert landed == [("shop", HOUR)] and named == [("shop", ["shop.people", "*"], HOUR)]
    assert ingest.test(run_conf={"hour": HOUR, "reload": []}).state == "success"
    assert len(named) == 1


@pytest.mark.parametrize("tables", ["shop.people", [7]])
def test_what_is_no_list_of_tables_starts_no_run(ingest: Any, tables: object) -> None:
    with pytest.raises(Exception, match="reload"):
        ingest.test(run_conf={"hour": HOUR, "reload": tables})


def test_no_secret_is_on_the_command_line(
    ingest: Any, submits: Submits, landed: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_CATALOG_URI", "jdbc:postgresql://db/lake")
    monkeypatch.setenv("TIDEMARK_CATALOG_USER", "lake")
    monkeypatch.setenv("TIDEMARK_CATALOG_PASSWORD", "open-sesame")
    assert ingest.test(run_conf={"hour": HOUR}).state == "success"
    assert all("--deploy-mode client" in line and "open-sesame" not in line for line in submits.lines)


@pytest.mark.parametrize(
    "conf", [{}, {"hour": None}], ids=["no conf", "null, as the form in the UI sends an empty field"]
)
def test_a_run_by_hand_that_names_no_hour_is_for_that_of_its_logical_date(
    ingest: Any, submits: Submits, landed: list[tuple[str, str]], conf: dict[str, Any]
) -> None:
    """As ``airflow dags test DAG DATE`` runs it, and the form in the UI."""
    run = ingest.test(run_conf=conf, logical_date=datetime(2026, 11, 20, 7, 40, tzinfo=UTC))
    assert run.state == "success"
    assert landed == [("shop", "2026-11-20T07")] and submits.jobs


@pytest.mark.parametrize("hour", ["2026-11-20", "2026-11-20T07:30", "yesterday", "2026-11-20T07; rm -rf /"])
def test_what_is_no_hour_starts_no_run(ingest: Any, hour: str) -> None:
    with pytest.raises(Exception, match="hour"):
        ingest.test(run_conf={"hour": hour})


@pytest.mark.parametrize("run_type", ["SCHEDULED", "BACKFILL"])
def test_scheduled_and_backfill_runs_are_for_the_hour_their_interval_begins_in(run_type: str) -> None:
    from airflow.sdk.api.datamodels._generated import DagRunType

    from tidemark.orchestration.dag_support import run_hour

    started = datetime(2026, 11, 20, 7, 5, tzinfo=UTC)
    run = SimpleNamespace(run_type=DagRunType[run_type], data_interval_start=started, logical_date=started)
    assert run_hour({"dag_run": run, "params": {"hour": None}}) == HOUR  # type: ignore[arg-type, typeddict-item]


FAILURES = {
    Exit.TERMINAL: TerminalError,
    Exit.TRANSIENT: TransientError,
    Exit.CRASHED: TerminalError,
    1: TransientError,
    137: TransientError,
}


@pytest.mark.parametrize("code", FAILURES)
def test_a_jobs_exit_code_says_whether_to_try_again(ingest: Any, submits: Submits, code: int) -> None:
    failure = "tidemark: stage decode failed: feed shop, hour 2026-11-20T07: it is so\n  To fix: do this"
    submits.end(code, f"noise\n{failure}")
    error = failure_of(ingest, "decode")
    assert type(error) is FAILURES[code]
    assert "stage decode failed: feed shop, hour 2026-11-20T07: it is so\nTo fix: do this" in str(error)
    assert "noise" not in str(error)
    assert (error.feed, error.hour) == ("shop", HOUR)


def test_seconds_are_told_of_the_stages_that_began(
    ingest: Any, submits: Submits, landed: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(PROJECT / "plugins"))
    import tidemark_runs

    submits.end(Exit.TERMINAL)
    run = ingest.test(run_conf={"hour": HOUR})
    assert states(run)["validate_publish"] == "upstream_failed"
    found, _ = tidemark_runs.newest_runs("shop", Hour(HOUR), hours=1)
    assert found[HOUR].state == "failed" and set(found[HOUR].stages) == {"wait", "land", "decode"}


def test_a_job_that_died_without_a_word_is_named_with_its_output(ingest: Any, submits: Submits) -> None:
    submits.end(137, "java.lang.OutOfMemoryError")
    error = failure_of(ingest, "assemble_fold")
    assert "stage fold failed, exit code 137" in str(error)
    assert "OutOfMemoryError" in str(error)


def failure_of(dag: Any, task_id: str) -> Any:
    """What the task raises, in the context of a run by hand for HOUR."""
    from airflow.sdk.api.datamodels._generated import DagRunType

    run = SimpleNamespace(run_type=DagRunType.MANUAL, data_interval_start=None, logical_date=None)
    with pytest.raises((TerminalError, TransientError)) as raised:
        dag.get_task(task_id).execute({"dag_run": run, "params": {"hour": HOUR}})
    return raised.value


@pytest.mark.parametrize(
    ("error", "action"),
    [
        (TerminalError("x"), "fail"),
        (ConfigError("x"), "fail"),
        (TransientError("x"), "default"),
        (OSError(), "default"),
    ],
)
def test_the_retry_policy_gives_up_on_what_trying_again_cannot_mend(ingest: Any, error: Exception, action: str) -> None:
    policy = ingest.get_task("land").retry_policy
    assert policy.evaluate(error, 1, 3, None).action.value == action


def test_a_run_waits_for_its_export_in_the_triggerer(
    ingest: Any, submits: Submits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it waits for stands on the run, as long as it waits; once all is there, it goes on."""
    from tidemark.orchestration import export_trigger, kafka_login
    from tidemark.pipeline import exports, land

    looks: list[str] = []

    def is_complete(feed: Any, hour: str, settings: Any) -> Readiness:
        looks.append(hour)
        return Readiness(len(looks) > 3, "srv.shop.orders has no _SUCCESS")

    for module in (exports, export_trigger):
        monkeypatch.setattr(module, "is_complete", is_complete)
    monkeypatch.setattr(export_trigger, "find_feed", lambda name, settings: feed_with(path="{topic}/{date}/{hour}/*"))
    monkeypatch.setattr(export_trigger, "_POLL", 0.01)
    monkeypatch.setattr(kafka_login, "settings_of", lambda feed: f"settings of {feed.feed}")
    used: list[Any] = []
    monkeypatch.setattr(land, "land", lambda feed, hour, settings: used.append(settings))
    told: list[str] = []
    push = RuntimeTaskInstance.xcom_push

    def noted(task: RuntimeTaskInstance, key: str, value: Any) -> None:
        if key == "waits_for":
            told.append(value)
        push(task, key, value)

    monkeypatch.setattr(RuntimeTaskInstance, "xcom_push", noted)
    run = ingest.test(run_conf={"hour": HOUR})
    assert used == ["settings of shop"]
    assert run.state == "success" and looks == [HOUR] * 5, "the task, the triggerer three times, the task"
    waited = next(task for task in run.get_task_instances() if task.task_id == "wait")
    assert told == ["srv.shop.orders has no _SUCCESS", ""]
    assert waited.xcom_pull(task_ids="wait", key="waits_for") == ""


def test_an_export_that_never_completes_fails_with_what_is_missing(
    ingest: Any, submits: Submits, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidemark.pipeline import exports

    why = "srv.shop.orders has no _SUCCESS"
    monkeypatch.setattr(exports, "is_complete", lambda feed, hour, settings: Readiness(False, why))
    run = by_hand()
    with pytest.raises(ExportError, match=f"not complete after 6:00:00: {why}"):
        ingest.get_task("wait").look_again({"dag_run": run, "params": {"hour": HOUR}}, datetime.now(UTC).isoformat())


def test_a_trigger_ends_when_it_is_time_or_when_its_task_has_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    from tidemark.orchestration import export_trigger

    def until(seconds: float, look: Any) -> str:
        end = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()
        monkeypatch.setattr(export_trigger, "is_complete", look)
        trigger = export_trigger.ExportTrigger(feed="shop", hour=HOUR, until=end)
        path, arguments = trigger.serialize()
        assert path.endswith(".export_trigger.ExportTrigger") and arguments == {
            "feed": "shop",
            "hour": HOUR,
            "until": end,
        }

        async def first() -> Any:
            return [event.payload async for event in trigger.run()]

        assert asyncio.run(asyncio.wait_for(first(), timeout=5)) == [end]
        return end

    def refuses(feed: Any, hour: str, settings: Any) -> Readiness:
        raise ConfigError("no such folder")

    monkeypatch.setattr(export_trigger, "find_feed", lambda name, settings: feed_with(path="{topic}/{date}/{hour}/*"))
    until(0.1, lambda feed, hour, settings: Readiness(False, "nothing is there"))
    until(3600, refuses)


def test_a_login_of_kafka_may_be_a_connection_of_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the task that waits, of the triggerer, and of land, which takes it from the same place."""
    from tidemark.orchestration import export_trigger, kafka_login
    from tidemark.orchestration.operators import WaitForExport
    from tidemark.pipeline import exports

    used: list[tuple[str, str, str]] = []

    def is_complete(feed: Feed, hour: str, settings: Settings) -> Readiness:
        used.append((settings.kafka_user, settings.kafka_password, settings.kafka_key_password))
        return Readiness(True, "all is there")

    for module in (exports, export_trigger):
        monkeypatch.setattr(module, "is_complete", is_complete)
    kafka = {"servers": ["broker.example.org:9092"], "sasl": "plain", "connection": "kafka_shop"}
    feed = feed_with(kafka=kafka)
    monkeypatch.setattr(export_trigger, "find_feed", lambda name, settings: feed)
    monkeypatch.setenv("TIDEMARK_KAFKA_USER", "of-all-others")
    monkeypatch.setenv("TIDEMARK_KAFKA_KEY_PASSWORD", "key-of-all")
    waits, context = WaitForExport(task_id="wait", feed=feed), {"dag_run": by_hand(), "params": {"hour": HOUR}}
    with pytest.raises(ConfigError, match="names kafka_shop, which is no connection of this Airflow") as refused:
        waits.execute(context)
    assert "airflow connections add kafka_shop" in str(refused.value)
    held = {"conn_type": "generic", "login": "shop-reader", "password": "open-sesame"}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_SHOP", json.dumps(held))
    waits.execute(context)
    with_key = json.dumps(held | {"extra": {"key_password": "key-of-shop"}})
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_SHOP", with_key)

    async def look() -> list[Any]:
        trigger = export_trigger.ExportTrigger(feed="shop", hour=HOUR, until="2999-01-01T00:00:00+00:00")
        return [event async for event in trigger.run()]

    assert len(asyncio.run(look())) == 1
    assert used == [
        ("shop-reader", "open-sesame", "key-of-all"),
        ("shop-reader", "open-sesame", "key-of-shop"),
    ]
    assert kafka_login.settings_of(feed).kafka_user == "shop-reader"


@pytest.mark.parametrize(
    ("hour", "landed_hours", "size", "waits"),
    [
        (7, {6, 7}, 1, True),
        (7, {6, 7}, 8 << 20, False),
        (6, {6, 7}, 1, False),
        (7, {7}, 1, False),
        (5, {5, 6}, 1, False),
        (4, {4}, 1, False),
    ],
    ids=["its turn comes", "it is large", "it is next", "an hour is missing", "it is published", "it is late"],
)
def test_a_small_hour_waits_for_the_job_that_is_at_work_on_those_before_it(
    ingest: Any, submits: Submits, monkeypatch: pytest.MonkeyPatch, landed: list[tuple[str, str]],
    hour: int, landed_hours: set[int], size: int, waits: bool,
) -> None:  # fmt: skip
    """Of the hours, the fifth is published."""
    from tidemark.ledger import hour_order, manifest, state_store
    from tidemark.orchestration import turn_trigger

    def day(number: int) -> Hour:
        return Hour(f"2026-11-20T{number:02d}")

    published = FeedState(feed="shop", hours=[HourRange(first=day(5), last=day(5), sequence=1, version=2)])
    looks: list[Hour] = []

    def looked_at(settings: Any, feed: str) -> FeedState:
        looks.append(day(hour))
        last = day(hour if len(looks) > 2 else 5)
        return published.model_copy(update={"hours": [HourRange(first=day(5), last=last, sequence=1, version=1)]})

    monkeypatch.setattr(state_store, "find_state", lambda *_: published)
    monkeypatch.setattr(turn_trigger, "find_state", looked_at)
    monkeypatch.setattr(turn_trigger, "_POLL", 0.01)
    of_hour = manifest_of(size).model_copy(update={"hour": day(hour)})
    monkeypatch.setattr(manifest, "all_objects", lambda *_: of_hour)
    monkeypatch.setattr(hour_order, "has_landed", lambda settings, feed, asked: asked in map(day, landed_hours))
    assert ingest.test(run_conf={"hour": day(hour)}).state == "success"
    assert looks == ([day(hour)] * 3 if waits else [])
    assert len(submits.jobs) == (0 if hour == 5 else 3)


def test_the_wait_for_a_turn_ends_where_nobody_is_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    from tidemark.orchestration import turn_trigger

    revisions = [0, 0, 3, 3, 4, 4]

    def find_state(*_: object) -> FeedState:
        last = Hour("2026-11-20T05")
        return FeedState(
            feed="shop",
            revision=revisions.pop(0) if len(revisions) > 1 else 4,
            hours=[HourRange(first=last, last=last, sequence=1, version=1)],
        )

    def wait(hour: str) -> float:
        trigger = turn_trigger.TurnTrigger(feed="shop", hour=hour)
        path, arguments = trigger.serialize()
        assert path.endswith(".turn_trigger.TurnTrigger") and arguments == {"feed": "shop", "hour": hour}

        async def events() -> Any:
            return [event.payload async for event in trigger.run()]

        began = time.monotonic()
        assert asyncio.run(asyncio.wait_for(events(), timeout=20)) == [hour]
        return time.monotonic() - began

    monkeypatch.setattr(turn_trigger, "find_state", find_state)
    monkeypatch.setattr(turn_trigger, "_POLL", 0.01)
    monkeypatch.setattr(turn_trigger, "_IDLE", 0.5)
    monkeypatch.setattr(turn_trigger, "_IDLE_BEFORE_NEXT", 0.0)
    assert wait(HOUR) > 0.5 and revisions == [4], "it has seen every one"
    monkeypatch.setattr(turn_trigger, "_IDLE", 3600.0)
    assert wait("2026-11-20T06") < 10, "it is next, and nobody has begun with it"

    def refuses(*_: object) -> FeedState:
        raise ConfigError("it is damaged")

    monkeypatch.setattr(turn_trigger, "find_state", refuses)
    assert wait(HOUR) < 10, "the task meets it again"


@pytest.fixture
def replay(feeds: Path, airflow_database: None) -> Any:
    return of_the_shop("replay")


@pytest.mark.parametrize(
    ("conf", "arguments"),
    [
        ({}, ""),
        ({"hour": None, "to": None}, ""),
        ({"hour": HOUR}, f" {HOUR}"),
        ({"hour": HOUR, "to": "2026-11-20T09"}, f" {HOUR} 2026-11-20T09"),
    ],
    ids=["no conf", "empty fields of the form", "one hour", "several"],
)
def test_a_replay_is_told_its_hours(replay: Any, submits: Submits, conf: dict[str, Any], arguments: str) -> None:
    assert replay.test(run_conf=conf).state == "success"
    assert submits.jobs == [f"replay.py shop{arguments}"]


@pytest.mark.parametrize("conf", [{"to": HOUR}, {"hour": HOUR, "to": "2026-11-20T06"}], ids=["no first", "backwards"])
def test_a_replay_of_no_such_hours_starts_nothing(replay: Any, submits: Submits, conf: dict[str, Any]) -> None:
    assert replay.test(run_conf=conf).state == "failed"
    assert not submits.jobs


def test_a_replay_that_fails_says_why(replay: Any, submits: Submits) -> None:
    submits.end(Exit.TERMINAL, "tidemark: stage replay failed: feed shop, hour 2026-11-20T07: it is so")
    with pytest.raises(TerminalError, match="stage replay failed: feed shop, hour 2026-11-20T07: it is so") as raised:
        replay.get_task("replay").execute({"params": {"hour": HOUR, "to": None}})
    assert raised.value.hour == HOUR


def test_maintenance_is_told_its_feed(feeds: Path, airflow_database: None, submits: Submits) -> None:
    from airflow.dag_processing.dagbag import DagBag

    dag = DagBag(dag_folder=str(PROJECT / "dags" / "maintain.py")).dags["maintain_shop"]
    assert dag.test().state == "success"
    assert submits.jobs == ["maintain.py shop"]


@pytest.fixture
def explain(feeds: Path, airflow_database: None) -> Any:
    return of_the_shop("explain")


def test_a_question_about_a_row_is_passed_on_as_one_word(explain: Any, submits: Submits) -> None:
    run = explain.test(run_conf={"table": "shop.orders", "key": ["-1", "ü $(id) \" '"]})
    assert run.state == "success"
    answer = answer_name(run.run_id)
    assert submits.jobs == [r"""explain.py shop shop.orders ["-1", "\u00fc $(id) \" '"] """ + answer]
    task = explain.get_task("explain")
    task.application_args = ["shop", "shop.orders", json.dumps(["ü", "2"]), answer]
    (link,) = task.operator_extra_links
    address = link.get_link(task, ti_key=SimpleNamespace(run_id="manual__1+00"))
    assert address.endswith("/tidemark/shop/tables/shop.orders/?key=%C3%BC&key=2&run=manual__1%2B00#explain")


@pytest.mark.parametrize("conf", [{}, {"table": "shop.orders"}, {"table": "shop.orders", "key": []}], ids=json.dumps)
def test_a_question_about_no_row_is_refused(explain: Any, submits: Submits, conf: dict[str, Any]) -> None:
    with pytest.raises(ParamValidationError):
        explain.test(run_conf=conf)
    assert not submits.jobs


def test_an_explanation_that_fails_tells_nobody_but_who_asked(explain: Any, submits: Submits) -> None:
    submits.end(Exit.TERMINAL, "tidemark: stage explain failed: feed shop: it is so")
    asked = {"params": {"table": "shop.orders", "key": ["1"]}, "dag_run": SimpleNamespace(run_id="r")}
    with pytest.raises(TerminalError, match="stage explain failed: feed shop: it is so"):
        explain.get_task("explain").execute(asked)
    assert not explain.get_task("explain").on_failure_callback
