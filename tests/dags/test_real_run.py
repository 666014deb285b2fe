"""A real hour through Airflow and spark-submit: from an export to a published table, and again."""

from __future__ import annotations

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from tidemark.errors import ConfigError
from tidemark.feeds.loading import find_feed
from tidemark.lake.catalog import find_table
from tidemark.ledger.manifest import load_manifests
from tidemark.ledger.publication_history import load_history
from tidemark.operations.read_table import json_lines, read_snapshot
from tidemark.pipeline.land import land
from tidemark.settings import Settings
from tidemark_samples import ibm
from tidemark_samples.exporting import Sample

PROJECT = Path(__file__).parent.parent.parent
HOUR, NEXT = "2026-11-20T00", "2026-11-20T01"
TABLES = ("payroll.employee", "payroll.payslip", "hr.position")


@pytest.fixture
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """An installation with one feed and the exports of two hours."""
    ibm.generate(tmp_path, Sample(hours=2, events=40, seed=3))
    pyspark = find_spec("pyspark")
    assert pyspark is not None and pyspark.origin is not None
    for name, value in {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "SPARK_HOME": str(Path(pyspark.origin).parent),
        "TIDEMARK_HOME": str(tmp_path),
        "TIDEMARK_FEEDS": "feeds",
        "TIDEMARK_EXPORTS": "exports",
        "TIDEMARK_JARS": str(PROJECT / ".tidemark" / "jars"),
        "TIDEMARK_DRIVER_MEMORY": "1g",
    }.items():
        monkeypatch.setenv(name, value)
    return Settings()


def dag() -> Any:
    from airflow.dag_processing.dagbag import DagBag

    dag = DagBag(dag_folder=str(PROJECT / "dags" / "ingest.py")).dags["ingest_payroll"]
    for task in dag.tasks:
        task.retries = 0
    return dag


def run(hour: str) -> Any:
    return dag().test(run_conf={"hour": hour})


def snapshots(settings: Settings) -> dict[str, int]:
    found = {name: find_table(settings, *name.split(".")) for name in TABLES}
    return {name: table.metadata.current_snapshot_id for name, table in found.items() if table}


def test_a_task_decodes_what_has_landed_in_a_job_of_its_own(installation: Settings, airflow_database: None) -> None:
    from airflow.sdk.api.datamodels._generated import DagRunType

    land(find_feed("payroll", installation), HOUR, installation)
    by_hand = SimpleNamespace(run_type=DagRunType.MANUAL, data_interval_start=None, logical_date=None)
    dag().get_task("decode").execute({"dag_run": by_hand, "params": {"hour": HOUR}})
    (manifest,) = load_manifests(installation, "payroll", HOUR)
    changes = find_table(installation, "tidemark", "payroll", "changes")
    assert changes is not None
    entries = changes.scan().to_arrow().to_pylist()
    objects = {entry["object"] for entry in entries}
    assert len(objects) == len(manifest.objects)
    assert all(any(object_.endswith(one.path) for object_ in objects) for one in manifest.objects)
    assert {entry["hour"] for entry in entries} == {HOUR}
    assert "bad" not in {entry["op"] for entry in entries}
    assert {entry["table"] for entry in entries if entry["table"]} == set(TABLES)


@pytest.mark.full
@pytest.mark.promise(6)
def test_an_hour_is_published_and_the_same_hour_again_changes_nothing(
    installation: Settings, airflow_database: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And each of them starts Spark once."""
    started: list[str] = []
    submit = SparkSubmitOperator.execute

    def noted(self: SparkSubmitOperator, context: Any) -> None:
        started.append(self.task_id)
        submit(self, context)

    monkeypatch.setattr(SparkSubmitOperator, "execute", noted)
    assert run(HOUR).state == "success"
    assert started == ["decode"]
    for name in TABLES:
        truth = (tmp_path / "truth" / HOUR / f"{name}.jsonl").read_text().splitlines()
        rows, key = read_snapshot(installation, name, HOUR)
        assert rows.num_rows > 0
        assert [json.loads(line) for line in json_lines(rows, key)] == [json.loads(line) for line in truth]
    published, before = load_history(installation, "payroll").receipts, snapshots(installation)
    assert [receipt.hour for receipt in published] == [HOUR]

    assert run(HOUR).state == "success"
    assert load_history(installation, "payroll").receipts == published
    assert snapshots(installation) == before
    assert started == ["decode"], "all of it is there"
    assert run(NEXT).state == "success"
    assert [receipt.hour for receipt in load_history(installation, "payroll").receipts] == [HOUR, NEXT]
    assert started == ["decode", "decode"]


@pytest.mark.full
def test_a_damaged_export_fails_in_land_and_publishes_nothing(
    installation: Settings, airflow_database: None, tmp_path: Path
) -> None:
    (part,) = tmp_path.glob("exports/db2.payroll/dt=*/hr=00/*.gz")
    part.write_bytes(part.read_bytes()[:-40])
    done = run(HOUR)
    assert done.state == "failed"
    states = {task.task_id: task.state for task in done.get_task_instances()}
    assert states["land"] == "failed"
    assert {states[task] for task in ("decode", "assemble_fold", "validate_publish")} == {"upstream_failed"}
    with pytest.raises(ConfigError, match="no published table"):
        read_snapshot(installation, TABLES[0])
