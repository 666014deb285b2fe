"""The feeds' pools are made by the scheduler, when a run begins: nobody makes them by hand."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

PROJECT = Path(__file__).parent.parent.parent


def begin(session: Any, *pools: str) -> None:
    """What the scheduler does when it starts a run whose tasks ask for these pools."""
    from airflow.listeners.listener import get_listener_manager
    from airflow.models.dagrun import DagRun
    from airflow.utils.state import DagRunState

    run = DagRun(dag_id="ingest_shop", run_id=f"r{len(pools)}", state=DagRunState.RUNNING)
    session.add(run)
    run.dag = SimpleNamespace(tasks=[SimpleNamespace(pool=name) for name in pools])
    get_listener_manager().hook.on_dag_run_running(dag_run=run, msg="started")
    session.expunge(run)
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
