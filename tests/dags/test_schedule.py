"""The scheduler makes a run of every hour on schedule, whatever ran by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parent.parent.parent
START = datetime(2026, 11, 20, tzinfo=UTC)


@pytest.fixture
def stored(feeds: Path, airflow_database: None, request: pytest.FixtureRequest) -> str:
    """The DAG of a feed on schedule, stored as the DAG processor does, for each minute of the hour a feed of its own."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import DagBag
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.serialization.definitions.dag import SerializedDAG
    from airflow.serialization.serialized_objects import LazyDeserializedDAG
    from airflow.utils.session import create_session

    minute: int = request.param
    text = (feeds / "timed.yaml").read_text().replace("timed", f"at_{minute}")
    (feeds / f"at_{minute}.yaml").write_text(f'{text}schedule: "{minute} * * * *"\n')
    dag = DagBag(dag_folder=str(PROJECT / "dags" / "ingest.py")).dags[f"ingest_at_{minute}"]
    DagBundlesManager().sync_bundles_to_db()
    with create_session() as session:
        SerializedDAG.bulk_write_to_db("dags-folder", None, [dag], session=session)
        SerializedDagModel.write_dag(LazyDeserializedDAG.from_dag(dag), bundle_name="dags-folder", session=session)
    return dag.dag_id


def trigger(dag_id: str, logical_date: datetime, conf: dict[str, Any]) -> None:
    """A run by hand, as the API makes it."""
    from airflow.api_fastapi.core_api.datamodels.dag_run import TriggerDAGRunPostBody
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.utils.session import create_session
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    with create_session() as session:
        dag = SerializedDagModel.get_dag(dag_id, session=session)
        assert dag is not None
        asked = TriggerDAGRunPostBody(logical_date=logical_date, conf=conf).validate_context(dag)
        asked["run_id"] = f"manual__{logical_date.isoformat()}"
        made = {"triggered_by": DagRunTriggeredByType.REST_API, "run_type": DagRunType.MANUAL, "state": "success"}
        dag.create_dagrun(**asked, **made, session=session)


def hours_that_are_scheduled(dag_id: str, rounds: int) -> list[str]:
    """The hours of the runs on schedule, in the order in which they were made, after so many rounds of the scheduler."""
    from airflow.jobs.job import Job
    from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
    from airflow.models.dag import DagModel
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    from tidemark.orchestration.dag_support import hour_of_run

    scheduler = SchedulerJobRunner(Job())
    for _ in range(rounds):
        with create_session() as session:
            found = session.scalars(select(DagModel).where(DagModel.dag_id == dag_id)).all()
            for model in found:
                model.exceeds_max_non_backfill = False
            scheduler._create_dag_runs(found, session)
    with create_session() as session:
        query = select(DagRun).where(DagRun.dag_id == dag_id, DagRun.run_type == "scheduled").order_by(DagRun.id)
        return [
            hour_of_run(run.run_type, None, run.data_interval_start, run.logical_date) for run in session.scalars(query)
        ]


@pytest.mark.parametrize(("stored", "minute"), [(0, 0), (15, 15)], indirect=["stored"])
def test_a_run_by_hand_stands_in_the_way_of_no_hour(stored: str, minute: int) -> None:
    """Also where it is for another hour than its logical date says, and where a second one has the next second."""
    second = timedelta(hours=1, minutes=minute)
    trigger(stored, START + second, {"hour": "2026-11-01T00"})
    trigger(stored, START + second + timedelta(seconds=1), {})
    trigger(stored, START + second + timedelta(hours=2), {})
    hours = hours_that_are_scheduled(stored, 8)
    assert hours == [f"2026-11-20T{hour:02d}" for hour in range(5)]
