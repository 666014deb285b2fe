"""The operators of the hourly DAG. Spark, pandera and boto3 are imported when a task runs, not when a DAG is parsed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlencode

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseOperator, BaseOperatorLink, ExceptionRetryPolicy, RetryAction, RetryRule
from airflow.sdk.exceptions import AirflowException

from tidemark.errors import ExportError, TerminalError, TidemarkError, TransientError
from tidemark.feeds.model import Feed
from tidemark.hours import Hour
from tidemark.orchestration.alerts import on_failed_task, tell_quarantined
from tidemark.orchestration.dag_support import pool_of, reloads_of_run, replay_arguments, run_hour
from tidemark.orchestration.job_exit import FAILED, Exit
from tidemark.orchestration.submission import plan_submission
from tidemark.orchestration.submit_hook import SubmitHook, find_place
from tidemark.settings import Settings

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.types import TaskInstanceKey

    from tidemark.ledger.feed_state import FeedState
    from tidemark.ledger.manifest import Manifest
    from tidemark.ledger.receipts import Receipt


_RETRIES_BY_KIND = ExceptionRetryPolicy(
    [
        RetryRule(
            "tidemark.errors.TerminalError",
            action=RetryAction.FAIL,
            reason="trying again changes nothing: someone has to fix something first",
        )
    ]
)


def task_defaults(feed: Feed) -> dict[str, Any]:
    """The ``default_args`` of a feed's DAGs: who owns them, and what is tried again."""
    return {
        "owner": feed.owner,
        "retries": feed.retries,
        "retry_delay": timedelta(seconds=30),
        "retry_exponential_backoff": 2,
        "max_retry_delay": timedelta(minutes=10),
        "retry_policy": _RETRIES_BY_KIND,
        "execution_timeout": feed.stage_timeout,
        "on_failure_callback": on_failed_task(feed),
    }


def _is_of_run(receipt: Receipt, context: Context) -> bool:
    """Whether the task's DAG run published it, by whichever of its tasks, and not a run before."""
    started = context["dag_run"].start_date
    return started is None or receipt.published_at is None or receipt.published_at >= started


def name_run_reloads(context: Context, feed: Feed) -> None:
    """Name the reloads that the task's DAG run was given, for its hour."""
    from tidemark.ledger.reloads import name_reloads

    tables = reloads_of_run(context["dag_run"].run_type.value, context["params"].get("reload"))
    if tables:
        name_reloads(feed, tables, run_hour(context), Settings())


class WaitForExport(BaseOperator):
    """Waits until the export of the run's hour is complete, for at most ``exports.wait``, in the triggerer: no worker is
    held. What it waits for stands in its log, and as the XCom ``waits_for``, which is empty when it waits no more."""

    def __init__(self, *, feed: Feed, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._feed = feed

    def execute(self, context: Context) -> None:
        self._look(context, datetime.now(UTC) + self._feed.exports.wait)

    def look_again(self, context: Context, event: str) -> None:
        """What comes after the wait. ``event``: until when it may last."""
        self._look(context, datetime.fromisoformat(event))
        context["ti"].xcom_push(key="waits_for", value="")  # it waits no more

    def _look(self, context: Context, until: datetime) -> None:
        from tidemark.orchestration.export_trigger import ExportTrigger
        from tidemark.orchestration.kafka_login import settings_of
        from tidemark.pipeline.exports import is_complete

        hour = run_hour(context)
        readiness = is_complete(self._feed, hour, settings_of(self._feed))
        self.log.info("%s", readiness.why)
        if readiness.ready:
            return
        if datetime.now(UTC) >= until:
            raise ExportError(
                f"stage land: the export was not complete after {self._feed.exports.wait}: {readiness.why}",
                fix="have the exporter finish the hour, then clear this task",
                feed=self._feed.feed,
                hour=hour,
            )
        context["ti"].xcom_push(key="waits_for", value=readiness.why)
        trigger = ExportTrigger(feed=self._feed.feed, hour=hour, until=until.isoformat())
        self.defer(trigger=trigger, method_name="look_again")


class ReceiptLink(BaseOperatorLink):
    """A button at the task that leads to the receipt of its hour, on the page in Airflow."""

    name = "Receipt"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The page of the hour that the task was for; of its feed where it was for none."""
        from tidemark.orchestration.alerts import airflow_address

        feed, *hours = operator.application_args or [""]  # type: ignore[attr-defined]
        page = f"{airflow_address()}/tidemark/{feed}/" if feed else f"{airflow_address()}/tidemark/"
        return f"{page}hours/{hours[-1]}/" if hours else page


class AnswerLink(BaseOperatorLink):
    """A button at the task that leads to what it has found out of a row, on the page in Airflow."""

    name = "Answer"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The page of the row's table; the overview before the task has begun."""
        from tidemark.orchestration.alerts import airflow_address

        match operator.application_args or []:  # type: ignore[attr-defined]
            case [feed, table, key, _]:
                query = urlencode([*(("key", value) for value in json.loads(key)), ("run", ti_key.run_id)])
                return f"{airflow_address()}/tidemark/{feed}/tables/{quote(table, safe='')}/?{query}#explain"
        return f"{airflow_address()}/tidemark/"


class SparkJob(SparkSubmitOperator):
    """Submits a job of a feed, in the feed's pool when it writes tables. The driver runs where the connection
    ``spark_default`` says: here, or in the cluster where its extra has the deploy mode ``cluster``.

    The job's exit code decides what its failure is here: :class:`TerminalError` (the DAG's retry policy does not try
    again) or :class:`TransientError`, also where no exit code came back. The message is the job's own, or says where the
    driver's log is.
    """

    def __init__(self, *, feed: str, stage: str, job: str, writes: bool, **kwargs: Any) -> None:
        if writes:
            kwargs["pool"] = pool_of(feed)
        # Durable, Airflow would not wait for spark-submit, but ask the cluster, of which it gets no exit code.
        super().__init__(
            conn_id="spark_default", application=job, name=f"tidemark {stage} {feed}", durable=False, **kwargs
        )
        self._feed = feed
        self._stage = stage
        self._job = job

    def submit(self, context: Context, *, small: bool, hour: str | None = None) -> None:
        """Submit the job with the operator's arguments. ``small``: it has little to do. ``hour``: the first of its own."""
        place = find_place(self._conn_id)
        with TemporaryDirectory(prefix="tidemark-submit-") as folder:
            planned = plan_submission(self._job, self._feed, Settings(), place, Path(folder), small=small)
            self.application, self.conf = planned.application, planned.conf
            self.properties_file = planned.properties_file
            self._deploy_mode = place.mode  # a client's own where the connection says nothing
            self._hook = None  # it is made of these arguments, once
            try:
                super().execute(context)
            except AirflowException as error:
                raise self._failure(hour, str(error)) from None

    def _get_hook(self) -> SubmitHook:
        return SubmitHook(
            conf=self.conf,
            conn_id=self._conn_id,
            name=self.name,
            application_args=self.application_args,
            properties_file=self.properties_file,
            deploy_mode=self._deploy_mode,
        )

    def on_kill(self) -> None:
        if self._hook:
            self._hook.on_kill()

    def _state(self) -> FeedState:
        """The feed's state. An empty one where there is none: the job asks the catalog whether there should be one."""
        from tidemark.ledger.feed_state import FeedState
        from tidemark.ledger.state_store import find_state

        return find_state(Settings(), self._feed) or FeedState(feed=self._feed)

    def _failure(self, hour: str | None, output: str) -> TidemarkError:
        hook = cast("SubmitHook | None", self._hook)
        code, log = (hook.exit_code, hook.driver_log) if hook else (None, "")
        _, marker, why = output.rpartition(FAILED)
        if marker:
            message = f"stage{why}"
        else:
            ended = "no exit code came back" if code is None else f"exit code {code}"
            message = f"stage {self._stage} failed, {ended}:" + (f" {log} shows why" if log else f"\n{output}")
        kind = TerminalError if code in (Exit.TERMINAL, Exit.CRASHED) else TransientError
        return kind(message.strip(), feed=self._feed, hour=hour)


class SparkExplain(SparkJob):
    """Submits ``jobs/explain.py FEED TABLE KEY ANSWER`` with the table and the key of the run's params."""

    operator_extra_links = (AnswerLink(),)

    def execute(self, context: Context) -> None:
        from tidemark.operations.explained_rows import answer_name

        params, run = context["params"], context["dag_run"].run_id
        # In ASCII: what else a command line carries depends on the machine.
        key = json.dumps([str(value) for value in params["key"]])
        self.application_args = [self._feed, str(params["table"]), key, answer_name(run)]
        self.submit(context, small=self._state().has_small_tables)


class SparkStage(SparkJob):
    """Submits ``jobs/<stage>.py FEED HOUR``. The hour is the run's."""

    operator_extra_links = (ReceiptLink(),)

    def hours(self, context: Context) -> Sequence[str]:
        """The hours that the job gets as arguments."""
        return [run_hour(context)]

    def event(self, hours: Sequence[str]) -> dict[str, Any]:
        """What the events of the task's assets carry."""
        return {"feed": self._feed, "hour": hours[0], "tag": Hour.parse(hours[0]).tag}

    def is_done(self, state: FeedState, hours: Sequence[str]) -> bool:
        """Whether there is nothing to do for the job: the hour is published, perhaps by the job of the stage before."""
        (hour,) = hours
        # An hour that left out a stopped table takes up what waits of it; a receipt that is not written is still to write.
        waits = state.unrecorded is not None or (self._stage == "decode" and state.stopped.get(Hour.parse(hour)))
        return not waits and state.has(hour) and state.is_done(self._landed(hour))

    def is_small(self, state: FeedState, hours: Sequence[str]) -> bool:
        """Whether the job has little to do."""
        return state.is_small(self._landed(hours[0]))

    def _landed(self, hour: str) -> Manifest:
        from tidemark.ledger.manifest import all_objects

        return all_objects(Settings(), self._feed, hour)

    def execute(self, context: Context) -> None:
        hours = self.hours(context)
        self.application_args = [self._feed, *hours]
        state = self._state()
        if self.is_done(state, hours):
            self.log.info("%s is published: no Spark job is started for %s", hours[0], self._stage)
        else:
            self.submit(context, small=self.is_small(state, hours), hour=hours[0] if hours else None)
        if self.outlets:
            self._tell_assets(hours, context)

    def _tell_assets(self, hours: Sequence[str], context: Context) -> None:
        from tidemark.orchestration.assets import figures_of, hourly_asset
        from tidemark.orchestration.metrics import send_metrics

        receipt = self._receipt(hours)
        figures = figures_of(receipt) if receipt is not None else {}
        for asset in self.outlets:
            event = context["outlet_events"][asset]
            event.extra = self.event(hours) | figures.get(asset.name, {})
            if asset.name == hourly_asset(self._feed).name:
                event.add_partitions(list(hours))
        if receipt is not None and _is_of_run(receipt, context):
            send_metrics(receipt)
            tell_quarantined(receipt, context)

    def _receipt(self, hours: Sequence[str]) -> Receipt | None:
        """The receipt of the hour; None where there are several, or it cannot be read: what is published stays so."""
        from tidemark.ledger.publication_history import load_receipt

        if len(hours) != 1:
            return None
        try:
            return load_receipt(Settings(), self._feed, hours[0])
        except TidemarkError as error:
            self.log.warning("The events of the assets have no figures: %s", error.problem)
            return None


class SparkDecode(SparkStage):
    """Submits ``jobs/decode.py FEED HOUR``. A small hour first waits, in the triggerer, for the job that is at work on the
    hours before it: that goes on with it, so that Spark starts once for all of them, and they are published in order."""

    def execute(self, context: Context) -> None:
        from tidemark.ledger.hour_order import comes_soon
        from tidemark.orchestration.turn_trigger import TurnTrigger

        hours, state = self.hours(context), self._state()
        hour = Hour.parse(hours[0])
        if not state.has(hour) and self.is_small(state, hours) and comes_soon(Settings(), state, hour):
            self.log.info("%s waits for the job that publishes the hours before it", hour)
            trigger = TurnTrigger(feed=self._feed, hour=hour)
            self.defer(trigger=trigger, method_name=self.take_turn.__name__)
        super().execute(context)

    def take_turn(self, context: Context, event: str) -> None:
        """What comes after the wait."""
        super().execute(context)


class SparkMaintain(SparkStage):
    """Submits ``jobs/maintain.py FEED``."""

    def hours(self, context: Context) -> Sequence[str]:
        return []

    def is_done(self, state: FeedState, hours: Sequence[str]) -> bool:
        return False

    def is_small(self, state: FeedState, hours: Sequence[str]) -> bool:
        return state.has_small_tables


class SparkReplay(SparkStage):
    """Submits ``jobs/replay.py FEED [FIRST_HOUR [LAST_HOUR]]``, the hours by the run's params ``hour`` and ``to``."""

    def hours(self, context: Context) -> Sequence[str]:
        return replay_arguments(context["params"].get("hour"), context["params"].get("to"))

    def is_done(self, state: FeedState, hours: Sequence[str]) -> bool:
        return False

    def is_small(self, state: FeedState, hours: Sequence[str]) -> bool:
        return False  # its hours may be many, and large

    def event(self, hours: Sequence[str]) -> dict[str, Any]:
        return {"feed": self._feed, "replayed": list(hours)}
