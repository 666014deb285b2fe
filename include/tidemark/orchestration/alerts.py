"""Who is told, through Airflow's notifiers, that an hour is late, that a task failed, or that something is in quarantine.

The feed file names the notifiers (``alerts``), and is read when there is something to tell. A notifier finds the message as
``tidemark`` in its templates and its context. One that fails is logged, and keeps no other from being called.
"""

from __future__ import annotations

import asyncio
import html
from collections import Counter
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.sdk.configuration import conf
from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.definitions.deadline import BaseDeadlineReference, DeadlineAlert

from tidemark.errors import ConfigError, TidemarkError
from tidemark.feeds.loading import find_feed
from tidemark.feeds.model import Feed
from tidemark.hours import Hour
from tidemark.logs import get_logger
from tidemark.orchestration.dag_support import hour_of_run, run_hour
from tidemark.settings import Settings

if TYPE_CHECKING:
    from airflow.sdk import Context
    from sqlalchemy.orm import Session

    from tidemark.ledger.receipts import Receipt

#: What a failure may say in a message, in characters: the task's log has all of it.
_MOST_TEXT = 2000

#: How many hours a message names.
_MOST_HOURS = 5


@dataclass(frozen=True, kw_only=True)
class Message:
    """What is told."""

    event: str
    """What has happened: late, failed or quarantined. The feed file names for each notifier those that it hears of."""
    feed: str
    """The feed that it is about."""
    hour: str
    """The hour that it is about; empty: it is about none."""
    problem: str
    """What is wrong, for a person."""
    fix: str
    """What to do about it."""
    link: str
    """The address in Airflow of the run, or of the log of the task that failed."""

    @property
    def parts(self) -> dict[str, str]:
        """What templates find: :data:`tidemark.feeds.notifiers.MESSAGE_PARTS`. ``subject`` is one line, and has nothing of a
        message or an error in it; ``html`` is ``message``, escaped."""
        about = f"{self.feed} {self.hour}".strip()
        page = f"{airflow_address()}/tidemark/{self.feed}/" + (f"hours/{self.hour}/" if self.hour else "")
        subject = f"Tidemark: {about} {_SAYS[self.event]}"
        text = f"{subject}\n\n{self.problem}\n\nTo do: {self.fix}\n\nIn Airflow: {self.link}\nIts page: {page}\n"
        return {
            "event": self.event, "feed": self.feed, "hour": self.hour, "subject": subject, "message": text,
            "html": f"<pre>{html.escape(text)}</pre>", "problem": self.problem, "fix": self.fix, "link": self.link,
            "page": page,
        }  # fmt: skip


_SAYS = {"late": "is late", "failed": "failed", "quarantined": "has something in quarantine"}


def tell(message: Message, context: Mapping[str, Any]) -> None:
    """Call the feed's notifiers of this event, each with the context and the message. Raises nothing: what is told of stays
    as it is, whoever hears of it."""
    log = get_logger().bind(feed=message.feed, hour=message.hour, tells=message.event)
    try:
        alerts = find_feed(message.feed, Settings(), deep=False).alerts
    except TidemarkError as error:
        log.error("nobody is told: the feed file cannot be read", problem=error.problem)
        return
    for entry in alerts.tell:
        if message.event not in entry.events:
            continue
        module, _, name = entry.notifier.rpartition(".")
        try:
            notifier = getattr(import_module(module), name)(**deepcopy(entry.arguments))
            notifier({**context, "tidemark": message.parts})
        except Exception as error:  # whatever a notifier raises
            log.error("a notifier failed", notifier=entry.notifier, why=_why(error))
        else:
            log.info("told", notifier=entry.notifier)


def _why(error: Exception) -> str:
    """What a notifier failed of. Where it did not come to sending, the error's text; after that, it may hold an address or a
    secret, and Airflow's own line, which masks them, has it."""
    text = str(error) if isinstance(error, ImportError | AttributeError | TypeError) else ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class EndOfHour(BaseDeadlineReference):
    """From when on the lateness of a run's hour counts: its end, or when the run was made, where that is later (an hour that
    Airflow catches up on). Only for runs on schedule: whoever runs an hour by hand, or a backfill, is there to see.

    The scheduler asks it once, when it makes the run. Registered with Airflow by ``plugins/tidemark_airflow.py``."""

    required_kwargs = frozenset({"dag_id", "run_id"})

    def _evaluate_with(self, *, session: Session, dag_id: str, run_id: str) -> datetime | None:
        from airflow.models.dagrun import DagRun
        from sqlalchemy import select

        run = session.scalar(select(DagRun).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
        if run is None or run.run_type != "scheduled":
            return None
        hour = hour_of_run("scheduled", None, run.data_interval_start, run.logical_date)
        return max(Hour.parse(hour).end, datetime.now(UTC))


def late_alert(feed: Feed) -> DeadlineAlert | None:
    """The deadline of the hourly DAG's runs; None where nobody is to be told."""
    if feed.alerts.late_after is None:
        return None
    # The arguments become tags of Airflow's own metrics: a name is enough, and the file is read when it is needed.
    callback = AsyncCallback(tell_late, kwargs={"feed": feed.feed})
    return DeadlineAlert(reference=EndOfHour(), interval=feed.alerts.late_after, callback=callback, name="late")


async def tell_late(feed: str, context: dict[str, Any]) -> None:
    """Called in the triggerer when a deadline has passed. Notifiers may block, as ``notify`` does: they get a thread."""
    await asyncio.to_thread(_tell_late, feed, context)


def _tell_late(feed: str, context: dict[str, Any]) -> None:
    run = context["dag_run"]
    start, logical = (_moment(run.get(name)) for name in ("data_interval_start", "logical_date"))
    hour = hour_of_run(run["run_type"], (run.get("conf") or {}).get("hour"), start, logical)
    if _is_published(feed, hour):  # by another run, or the run was marked as done
        get_logger().info("is published, nobody is told", feed=feed, hour=hour)
        return
    message = Message(
        event="late",
        feed=feed,
        hour=hour,
        problem=f"The hour is not published at {datetime.now(UTC):%Y-%m-%d %H:%M} UTC. Readers are on the hours before it.",
        fix="look at the run. Its task `wait` says (in its log and as the XCom waits_for) which export is not complete; a "
        "task that failed says in its log what to mend. Then clear it: an hour may run again at any time.",
        link=_run_link(run["dag_id"], run["dag_run_id"]),
    )
    tell(message, context)


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _is_published(feed: str, hour: str) -> bool:
    """Whether the hour is published; False where the state cannot be read, so that somebody hears of it."""
    from tidemark.ledger.state_store import load_state, newest_revision

    settings = Settings()
    try:
        return bool(newest_revision(settings, feed)) and load_state(settings, feed).has(hour)
    except TidemarkError:
        return False


def on_failed_task(feed: Feed) -> Callable[[Context], None] | None:
    """For ``on_failure_callback`` of tasks, which Airflow calls when no try is left; None where nobody is to be told."""
    return partial(_tell_failed_task, feed.feed) if feed.alerts.tells("failed") else None


def on_failed_run(feed: Feed) -> Callable[[Context], None] | None:
    """The same for the hourly DAG: of runs that no failed task ended, but their time limit."""
    return partial(_tell_failed_run, feed.feed) if feed.alerts.tells("failed") else None


def _tell_failed_task(feed: str, context: Context) -> None:
    task, error = context["ti"], context.get("exception")
    if isinstance(error, TidemarkError):
        why = str(error)
    else:  # the text of another error may quote a value of a row
        why = type(error).__name__ if isinstance(error, BaseException) else "its process ended without an error"
    message = Message(
        event="failed",
        feed=feed,
        hour=_hour(feed, task.dag_id, context),
        problem=f"Task {task.task_id} of {task.dag_id} failed and is not tried again:\n{why[:_MOST_TEXT]}",
        fix="mend what it says (the log has more), then clear the task: it may run again at any time.",
        link=task.log_url,
    )
    tell(message, context)


def _tell_failed_run(feed: str, context: Context) -> None:
    if context.get("reason") == "task_failure":  # the task has told it
        return
    dag, run = context["dag"].dag_id, str(context.get("run_id"))
    message = Message(
        event="failed",
        feed=feed,
        hour=_hour(feed, dag, context),
        problem=f"Run {run} of {dag} was ended by Airflow: {context.get('reason')}.",
        fix="look at which task it stood in, and clear the run: it may run again at any time.",
        link=_run_link(dag, run),
    )
    tell(message, context)


def tell_quarantined(receipt: Receipt, context: Context) -> None:
    """Tell of an hour that was published with something in quarantine, or that put there what other hours had held."""
    from tidemark.ledger.quarantine import list_kept_back

    told = [f"{receipt.quarantined} in quarantine (it landed {receipt.landed} records)"] if receipt.quarantined else []
    where = f" --hour {receipt.hour}"
    if receipt.counts.released_quarantined or receipt.given_up:
        rows = list_kept_back(Settings(), receipt.feed, columns=("stage",))
        hours = Counter(row["hour"] for row in rows if row["sequence"] == receipt.sequence)
        del hours[receipt.hour]
        named = sorted(hours)[:_MOST_HOURS] + ["more"] * (len(hours) > _MOST_HOURS)
        told += [f"{hours.total()} in quarantine that other hours had held ({', '.join(named)})"] if hours else []
        where = "" if hours else where
    if not told:
        return
    message = Message(
        event="quarantined",
        feed=receipt.feed,
        hour=receipt.hour,
        problem=f"The hour is published, with {', and '.join(told)}. Their rows keep their last good version.",
        fix=f"`tidemark quarantine list {receipt.feed}{where}` says why. Mend the cause, then run the DAG "
        f"replay_{receipt.feed}.",
        link=_run_link(context["dag_run"].dag_id, context["dag_run"].run_id),
    )
    tell(message, context)


def _hour(feed: str, dag: str, context: Context) -> str:
    """The hour of a run of the hourly DAG; empty for other runs, and where the run does not say."""
    try:
        return run_hour(context) if dag == f"ingest_{feed}" else ""
    except (ConfigError, KeyError):  # a context of the DAG processor may lack the run
        return ""


def airflow_address() -> str:
    """Where Airflow's pages are, as its settings say."""
    return str(conf.get("api", "base_url", fallback=None) or "http://localhost:8080").rstrip("/")


def _run_link(dag: str, run: str) -> str:
    return f"{airflow_address()}/dags/{quote(dag)}/runs/{quote(run, safe='')}"
