"""The feeds' pools are made by the scheduler, when a run begins: nobody makes them by hand."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

PROJECT = Path(__file__).parent.parent.parent


def begin(session: Any, *pools: str, flush: bool = True) -> None:
    """What the scheduler does when it starts a run whose tasks ask for these pools. It may start several before it writes
    anything."""
    from airflow.listeners.listener import get_listener_manager
    from airflow.models.dagrun import DagRun
    from airflow.utils.state import DagRunState

    run = DagRun(dag_id="ingest_shop", run_id=f"r{len(pools)}", state=DagRunState.RUNNING)
    session.add(run)
    run.dag = SimpleNamespace(tasks=[SimpleNamespace(pool=name) for name in pools])
    get_listener_manager().hook.on_dag_run_running(dag_run=run, msg="started")
    session.expunge(run)
    if flush:
        session.flush()


def test_a_run_makes_the_pools_of_its_feed(airflow_database: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PROJECT / "plugins"))
    from airflow.models.pool import Pool
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        begin(session, "default_pool", "tidemark_shop", "of_others")
        made = {pool.pool: pool for pool in session.scalars(select(Pool))}
        assert set(made) == {"default_pool", "tidemark_shop"}
        assert (made["tidemark_shop"].slots, made["tidemark_shop"].include_deferred) == (1, False)
        made["tidemark_shop"].slots = 0  # an operator stops the feed's writers
        begin(session, "default_pool", "tidemark_shop")
        assert session.scalar(select(Pool.slots).where(Pool.pool == "tidemark_shop")) == 0
        session.rollback()


def test_runs_that_begin_together_make_a_pool_once(airflow_database: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of a backfill do, and as another scheduler may have done a moment ago."""
    monkeypatch.syspath_prepend(str(PROJECT / "plugins"))
    from airflow.models.pool import Pool
    from airflow.utils.session import create_session
    from sqlalchemy import func, select

    with create_session() as session:
        for _ in range(3):
            begin(session, "tidemark_shop", flush=False)
        session.flush()
        with monkeypatch.context() as patched:
            patched.setattr(session, "scalars", lambda *_: [])  # what this scheduler saw before the other one committed
            begin(session, "tidemark_shop", "tidemark_crm")
        made = session.execute(select(Pool.pool, func.count()).where(Pool.pool.like("tidemark%")).group_by(Pool.pool))
        assert sorted(map(tuple, made)) == [("tidemark_crm", 1), ("tidemark_shop", 1)]
        session.rollback()
