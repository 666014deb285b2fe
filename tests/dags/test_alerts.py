"""Who is told what, by a notifier of the test's own that notes what it is given."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tidemark.errors import StateError, TerminalError
from tidemark.hours import Hour
from tidemark.ledger.feed_state import FeedState, HourRange
from tidemark.ledger.receipts import Receipt

PROJECT = Path(__file__).parent.parent.parent
HOUR = "2026-11-20T07"

NOTIFIER = """\
import json
from airflow.sdk import BaseNotifier


class Own(BaseNotifier):
    template_fields = ("text",)

    def __init__(self, text, file, **kwargs):
        super().__init__(**kwargs)
        self.text, self.file = text, file

    def notify(self, context):
        with open(self.file, "a") as told:
            told.write(json.dumps(context["tidemark"] | {"text": self.text}) + "\\n")


class Broken(BaseNotifier):
    def notify(self, context):
        raise OSError("no such host")
"""

ALERTS = """\
alerts:
  late_after: 3h
  tell:
    - {{notifier: own_notifier.Broken, events: [late, failed, quarantined]}}
    - notifier: own_notifier.Own
      events: [late, failed, quarantined]
      arguments: {{file: "{file}", text: "{{{{ tidemark.event }}}}: {{{{ tidemark.message }}}}"}}
"""


@pytest.fixture
def told(feeds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[dict[str, str]]]:
    """What the test's notifier was told. Two more feeds, whose files have alerts: one on schedule (clocked), one on
    request (asked), so that no other test's DAGs are stored twice."""
    (tmp_path / "own_notifier.py").write_text(NOTIFIER)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.com/")
    file = tmp_path / "told.jsonl"
    alerts = ALERTS.format(file=file)
    shop, timed = ((feeds / f"{name}.yaml").read_text() for name in ("shop", "timed"))
    (feeds / "clocked.yaml").write_text(re.sub(r"\btimed\b", "clocked", timed) + alerts)
    on_request = alerts.replace("  late_after: 3h\n", "").replace("[late, ", "[")
    (feeds / "asked.yaml").write_text(re.sub(r"(?<!srv\.)\bshop\b(?!-data)", "asked", shop) + on_request)
    return lambda: [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def dag_of(dag_id: str) -> Any:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=str(PROJECT / "dags" / f"{dag_id.partition('_')[0]}.py"))
    assert bag.import_errors == {}
    return bag.dags[dag_id]


def read_back(dag: Any) -> Any:
    """The DAG as the scheduler knows it."""
    from airflow.serialization.serialized_objects import DagSerialization

    return DagSerialization.from_dict(json.loads(json.dumps(DagSerialization.to_dict(dag))))


def test_a_dag_with_alerts_can_be_stored_and_read_back(told: Any) -> None:
    from airflow.serialization.decoders import decode_deadline_alert

    clocked, asked = dag_of("ingest_clocked"), dag_of("ingest_asked")
    (stored,) = read_back(clocked).deadline
    alert = decode_deadline_alert(stored)
    assert alert.interval == timedelta(hours=3)
    assert alert.reference.inner_ref.reference_name == "EndOfHour"
    assert (alert.callback.path, alert.callback.kwargs) == (
        "tidemark.orchestration.alerts.tell_late", {"feed": "clocked"}
    )  # fmt: skip
    assert read_back(asked).deadline is None
    for dag in (clocked, asked, dag_of("maintain_clocked"), dag_of("replay_clocked")):
        assert all(task.on_failure_callback for task in dag.tasks)


def test_a_feed_without_alerts_has_no_callbacks(feeds: Path) -> None:
    for kind in ("ingest", "maintain", "replay"):
        dag = dag_of(f"{kind}_timed")
        assert not dag.deadline and not dag.on_failure_callback
        assert not any(task.on_failure_callback for task in dag.tasks)


@pytest.mark.parametrize(
    ("run_type", "start", "expected"),
    [
        ("scheduled", datetime(2100, 11, 20, 7, 5, tzinfo=UTC), datetime(2100, 11, 20, 8, tzinfo=UTC)),
        ("scheduled", datetime(2020, 11, 20, 7, tzinfo=UTC), "now"),
        ("backfill", datetime(2020, 11, 20, 7, tzinfo=UTC), None),
        ("manual", datetime(2020, 11, 20, 7, tzinfo=UTC), None),
    ],
    ids=["on schedule", "catching up", "backfill", "by hand"],
)
def test_lateness_counts_from_the_end_of_a_scheduled_hour(run_type: str, start: datetime, expected: object) -> None:
    from tidemark.orchestration.alerts import EndOfHour

    run = SimpleNamespace(run_type=run_type, data_interval_start=start, logical_date=start)
    session: Any = SimpleNamespace(scalar=lambda query: run)
    before = datetime.now(UTC)
    found = EndOfHour()._evaluate_with(session=session, dag_id="ingest_clocked", run_id="r")
    if expected == "now":
        assert found is not None and before <= found <= datetime.now(UTC)
    else:
        assert found == expected


@pytest.mark.parametrize("run_type", ["scheduled", "manual"])
def test_airflow_notes_the_deadline_of_a_scheduled_run_and_calls_when_it_is_missed(
    told: Any, airflow_database: None, run_type: str
) -> None:
    """With Airflow's own database, and the reference as the plugin registers it; the scheduler's clock is not waited for."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.models.deadline import Deadline
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.serialization.definitions.dag import SerializedDAG
    from airflow.serialization.serialized_objects import LazyDeserializedDAG
    from airflow.utils.session import create_session
    from airflow.utils.types import DagRunTriggeredByType, DagRunType
    from sqlalchemy import select

    DagBundlesManager().sync_bundles_to_db()
    dag = dag_of("ingest_clocked")
    start = datetime(2100, 1, 1, next(_hours), tzinfo=UTC)
    with create_session() as session:
        SerializedDAG.bulk_write_to_db("dags-folder", None, [dag], session=session)
        SerializedDagModel.write_dag(LazyDeserializedDAG.from_dag(dag), bundle_name="dags-folder", session=session)
        session.flush()
        stored = SerializedDagModel.get_dag("ingest_clocked", session=session)
        assert stored is not None
        run = stored.create_dagrun(
            run_id=f"{run_type}__{start.isoformat()}",
            logical_date=start,
            data_interval=(start, start + timedelta(hours=1)),
            run_after=start + timedelta(hours=1),
            run_type=DagRunType(run_type),
            state="queued",
            triggered_by=DagRunTriggeredByType.TEST,
            session=session,
        )
        session.flush()
        deadlines = session.scalars(select(Deadline).where(Deadline.dagrun_id == run.id)).all()
        assert [one.deadline_time for one in deadlines] == [start + timedelta(hours=4)] * (run_type == "scheduled")
        for deadline in deadlines:
            deadline.handle_miss(session)
            call_in_triggerer(deadline.callback.data["path"], deadline.callback.data["kwargs"])
    assert [message["hour"] for message in told()] == [f"{start:%Y-%m-%dT%H}"] * (run_type == "scheduled")


_hours = itertools.count()


def call_in_triggerer(path: str, kwargs: dict[str, Any]) -> None:
    from airflow.triggers.callback import CallbackTrigger

    async def called() -> Any:
        return [event.payload async for event in CallbackTrigger(path, kwargs).run()]

    assert asyncio.run(called())[-1]["state"] == "success"


def late(feed: str = "clocked") -> None:
    """The deadline of the hour has passed."""
    run = {
        "dag_id": f"ingest_{feed}", "dag_run_id": f"scheduled__{HOUR}:00:00+00:00", "run_type": "scheduled", "conf": {},
        "data_interval_start": f"{HOUR}:00:00Z", "logical_date": f"{HOUR}:00:00Z",
    }  # fmt: skip
    kwargs = {"feed": feed, "context": {"dag_run": run, "deadline": {"id": "1"}}}
    call_in_triggerer("tidemark.orchestration.alerts.tell_late", kwargs)


def test_of_an_hour_that_is_late_the_notifiers_are_told_which_and_what_to_do(told: Any) -> None:
    late()
    (message,) = told()
    assert message["subject"] == f"Tidemark: clocked {HOUR} is late"
    assert message["text"].startswith(f"late: Tidemark: clocked {HOUR} is late\n\nThe hour is not published at ")
    assert "XCom waits_for" in message["fix"]
    run = f"scheduled__{HOUR}%3A00%3A00%2B00%3A00"
    assert message["link"] == f"https://airflow.example.com/dags/ingest_clocked/runs/{run}"
    assert message["page"] == f"https://airflow.example.com/tidemark/clocked/hours/{HOUR}/"


def test_nobody_is_told_that_a_published_hour_is_late(told: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tidemark.ledger import state_store

    of_hour = HourRange(first=Hour(HOUR), last=Hour(HOUR), sequence=1, version=1)
    monkeypatch.setattr(state_store, "newest_revision", lambda settings, feed: 1)
    monkeypatch.setattr(state_store, "load_state", lambda settings, feed: FeedState(feed="clocked", hours=[of_hour]))
    late()
    assert told() == []

    def fails(settings: Any, feed: str) -> None:
        raise StateError("the state is damaged")

    monkeypatch.setattr(state_store, "load_state", fails)
    late()
    assert [message["event"] for message in told()] == ["late"], "rather once too often than never"


def test_a_task_that_failed_is_told_once_with_its_error(
    told: Any, airflow_database: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing of what the text of an error says is taken for a template, or for HTML."""
    from tidemark.pipeline import exports

    def fails(*arguments: Any) -> None:
        raise TerminalError("the export is <b>{{ 7 * 7 }}</b>", fix="mend it", feed="asked", hour=HOUR)

    monkeypatch.setattr(exports, "is_complete", fails)
    assert dag_of("ingest_asked").test(run_conf={"hour": HOUR}).state == "failed"
    (message,) = told()
    assert message["subject"] == f"Tidemark: asked {HOUR} failed"
    assert (
        "Task wait of ingest_asked failed and is not tried again:\nfeed asked, hour 2026-11-20T07: " in message["text"]
    )
    assert "the export is <b>{{ 7 * 7 }}</b>\n  To fix: mend it" in message["text"]
    assert "the export is &lt;b&gt;{{ 7 * 7 }}&lt;/b&gt;" in message["html"]
    assert "/dags/ingest_asked/runs/" in message["link"] and "/tasks/wait" in message["link"]


def test_a_try_that_is_not_the_last_is_not_told(
    told: Any, airflow_database: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidemark.pipeline import exports

    tries: list[int] = []

    def fails(feed: Any, hour: str, settings: Any) -> None:
        tries.append(len(told()))
        raise OSError("a value of a row")

    monkeypatch.setattr(exports, "is_complete", fails)
    dag = dag_of("ingest_asked")
    for task in dag.tasks:
        task.retries, task.retry_delay = 1, timedelta(0)
    assert dag.test(run_conf={"hour": HOUR}).state == "failed"
    assert tries == [0, 0]
    (message,) = told()
    assert "OSError" in message["text"] and "a value of a row" not in message["text"]


def test_a_run_that_airflow_ended_is_told_and_one_that_a_task_failed_is_not_told_twice(told: Any) -> None:
    dag = dag_of("ingest_clocked")
    context = {"dag": dag, "run_id": "r 1", "reason": "task_failure"}
    dag.on_failure_callback(context)
    assert told() == []
    dag.on_failure_callback(context | {"reason": "timed_out"})
    (message,) = told()
    assert "Run r 1 of ingest_clocked was ended by Airflow: timed_out." in message["text"]
    assert message["subject"] == "Tidemark: clocked failed" and message["link"].endswith("/runs/r%201")


def test_an_hour_that_this_run_published_with_something_in_quarantine_is_told(
    told: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk.api.datamodels._generated import DagRunType
    from airflow.sdk.execution_time.context import OutletEventAccessors

    from tidemark.ledger import publication_history, quarantine
    from tidemark.orchestration.operators import SparkStage

    began = datetime(2026, 11, 20, 8, tzinfo=UTC)
    monkeypatch.setattr(SparkStage, "is_done", lambda self, state, hours: True)
    publish = dag_of("ingest_asked").get_task("validate_publish")
    run = SimpleNamespace(
        run_type=DagRunType.MANUAL, data_interval_start=None, logical_date=None, start_date=began,
        dag_id="ingest_asked", run_id="by hand",
    )  # fmt: skip

    def published(after: timedelta, bad: int, given_up: int = 0) -> int:
        receipt = Receipt(
            feed="asked", hour=Hour(HOUR), sequence=9, manifest_version=1, objects=1, bytes=5, landed=bad, split=0,
            control=0, bad=bad, held=0, given_up=given_up, tables=[], published_at=began + after,
        )  # fmt: skip
        monkeypatch.setattr(publication_history, "load_receipt", lambda settings, feed, hour: receipt)
        publish.execute({"dag_run": run, "params": {"hour": HOUR}, "outlet_events": OutletEventAccessors()})
        return len(told())

    assert published(timedelta(minutes=5), bad=0) == 0
    assert published(timedelta(minutes=-5), bad=2) == 0, "an earlier run published it, and told it"
    assert published(timedelta(minutes=5), bad=2) == 1
    (message,) = told()
    assert message["subject"] == f"Tidemark: asked {HOUR} has something in quarantine"
    assert "The hour is published, with 2 in quarantine (it landed 2 records)." in message["text"]
    assert "replay_asked" in message["fix"]
    rows = [{"hour": "2026-11-20T05", "sequence": sequence} for sequence in (9, 9, 8)]
    monkeypatch.setattr(quarantine, "list_kept_back", lambda *_, **__: rows)
    assert published(timedelta(minutes=5), bad=0, given_up=1) == 2
    message = told()[-1]
    assert "The hour is published, with 2 in quarantine that other hours had held (2026-11-20T05)." in message["text"]
    assert "`tidemark quarantine list asked` says why." in message["fix"]


def test_a_feed_file_that_broke_meanwhile_keeps_nothing_from_going_on(
    told: Any, feeds: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (feeds / "clocked.yaml").write_text("feed: clocked\n")
    late()
    assert told() == [] and "nobody is told: the feed file cannot be read" in caplog.text
