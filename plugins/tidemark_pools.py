"""The feeds' pools, made where they are missing when a run begins: no pool is made by hand.

The scheduler tells a listener of each run that it starts, before it schedules the run's first task. The pool is made in the
scheduler's own transaction: on SQLite, another one would wait for it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from airflow.listeners import hookimpl

from tidemark.orchestration.dag_support import POOL_PREFIX

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun
    from sqlalchemy.orm import Session


@hookimpl
def on_dag_run_running(dag_run: DagRun) -> None:
    """Make the pools that the tasks of a run ask for."""
    from sqlalchemy.orm import object_session

    names = {task.pool for task in dag_run.dag.tasks} if dag_run.dag is not None else set()
    session = object_session(dag_run)
    if session is not None:
        make_pools({name for name in names if name.startswith(POOL_PREFIX)}, session)


def make_pools(names: set[str], session: Session) -> None:
    """Make the pools of feeds that are not there, each of one slot. Those that are there stay as an operator left them.

    Each is written at once, for the scheduler may start more runs of the feed in this transaction; and one that another
    scheduler makes meanwhile is as good.
    """
    from airflow.models.pool import Pool
    from sqlalchemy import insert, select
    from sqlalchemy.exc import IntegrityError

    connection = session.connection()
    there = set(session.scalars(select(Pool.pool).where(Pool.pool.in_(names))))
    for name in sorted(names - there):
        description = f"One writer at a time for the tables of {name.removeprefix(POOL_PREFIX)}"
        pool = {"pool": name, "slots": 1, "description": description, "include_deferred": False}
        with suppress(IntegrityError), connection.begin_nested():
            connection.execute(insert(Pool).values(pool))
