"""What Airflow's database says of runs: the newest of each hour of a feed, and how one that explains a row stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidemark.errors import ConfigError
from tidemark.hours import Hour
from tidemark.orchestration.dag_support import hour_of_run
from tidemark.page.runs import Run

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun
    from sqlalchemy.orm import Session

#: How many runs are looked at: those by hand may be of any hour.
_MOST_RUNS = 500
#: Of how many hours, the newest, the tasks are read.
_TIMED = 12


def newest_runs(feed: str, hour: Hour, *, hours: int = 0) -> tuple[dict[str, Run], str]:
    """By hour the newest run of it, and why there are none where Airflow's database could not be read (empty: it could).

    ``hours`` 1: of this hour alone; 0: of all that the newest runs are of.
    """
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import and_, or_, select
    from sqlalchemy.exc import SQLAlchemyError

    query = select(DagRun).where(DagRun.dag_id == f"ingest_{feed}")
    if hours:
        # Runs by schedule and by backfill have a logical date within their hour; any other may be of any hour.
        within = and_(DagRun.logical_date >= hour.start, DagRun.logical_date < hour.end)
        query = query.where(or_(within, DagRun.run_type.not_in(("scheduled", "backfill"))))
    try:
        with create_session(scoped=False) as session:
            found: dict[str, DagRun] = {}
            for run in session.scalars(query.order_by(DagRun.id.desc()).limit(_MOST_RUNS)):
                of = _hour(run)
                if of is not None and (of == hour or not hours):
                    found.setdefault(of, run)
            timed = [found[of].run_id for of in sorted(found, reverse=True)[:_TIMED]]
            stages = _stages(session, f"ingest_{feed}", timed)
            return {
                of: Run(run_id=run.run_id, state=str(run.state), stages=stages.get(run.run_id, {}))
                for of, run in found.items()
            }, ""
    except SQLAlchemyError as error:
        return {}, f"Airflow's database could not be read ({type(error).__name__}), so its runs are not shown."


def run_state(dag: str, run: str) -> str | None:
    """The state of a run, as Airflow has it; None: there is no such run."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session(scoped=False) as session:
        found = session.scalar(select(DagRun.state).where(DagRun.dag_id == dag, DagRun.run_id == run))
    return None if found is None else str(found)


def _hour(run: DagRun) -> str | None:
    asked = run.conf.get("hour") if isinstance(run.conf, dict) else None
    try:
        return hour_of_run(
            str(run.run_type), asked if isinstance(asked, str) else None, run.data_interval_start, run.logical_date
        )
    except ConfigError:
        return None


def _stages(session: Session, dag: str, runs: Sequence[str]) -> dict[str, dict[str, float]]:
    """By run, the seconds of each task that began and has ended, in the order of ending."""
    from airflow.models.taskinstance import TaskInstance
    from sqlalchemy import select

    ended = TaskInstance.duration.is_not(None), TaskInstance.state != "upstream_failed"
    query = (
        select(TaskInstance.run_id, TaskInstance.task_id, TaskInstance.duration)
        .where(TaskInstance.dag_id == dag, TaskInstance.run_id.in_(runs), *ended)
        .order_by(TaskInstance.end_date)
    )
    found: dict[str, dict[str, float]] = {}
    for run, task, seconds in session.execute(query):
        found.setdefault(run, {})[task] = float(seconds or 0)
    return found
