"""What runs wait for in the triggerer, in a real Airflow: their exports, and the hours before them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.scheduler.stack import Stack, retry
from tidemark.hours import hours_between
from tidemark.ledger.publication_history import load_history
from tidemark.ledger.state_store import load_state
from tidemark.operations.explained_rows import find_explained
from tidemark_samples import canal
from tidemark_samples.exporting import Sample

pytestmark = [pytest.mark.full]

HOUR = "2026-11-20T00"


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    made = Stack(tmp_path)
    yield made
    made.stop()


@pytest.mark.timeout(600)
def test_a_run_waits_for_its_export_without_a_worker(stack: Stack, tmp_path: Path) -> None:
    canal.generate(stack.folder, Sample(hours=1, events=10, seed=4, container="kafka_json"))
    late = min((stack.folder / "exports").iterdir())
    late.rename(tmp_path / "late")
    stack.start()
    made = stack.call("dags/ingest_inventory/dagRuns", {"logical_date": f"{HOUR}:00:00Z", "conf": {"hour": HOUR}})

    def wait() -> dict[str, Any]:
        return stack.tasks("inventory", made)["wait"]

    retry(lambda: wait()["state"] in ("deferred", "failed", "success"), 120, "it does not wait")
    assert wait()["state"] == "deferred"
    retry(lambda: wait()["triggerer_job"] is not None, 60, "no triggerer has taken it")
    place = f"dags/ingest_inventory/dagRuns/{made['dag_run_id']}"
    told = stack.call(f"{place}/taskInstances/wait/xcomEntries/waits_for")["value"]
    assert late.name in told, told
    (tmp_path / "late").rename(late)
    retry(lambda: stack.call(place)["state"] in ("success", "failed"), 300, "it does not go on")
    assert stack.call(place)["state"] == "success"
    assert load_state(stack.settings, "inventory").has(HOUR)


@pytest.mark.timeout(600)
def test_runs_that_begin_together_start_spark_for_one_of_them(stack: Stack) -> None:
    hours = hours_between(HOUR, "2026-11-20T03")
    canal.generate(stack.folder, Sample(hours=len(hours), events=20, seed=4, container="kafka_json"))
    stack.start()
    stack.backfill("inventory", hours, "--reprocess-behavior", "none", "--max-active-runs", str(len(hours)))

    def states() -> list[str]:
        return [run["state"] for run in stack.runs("inventory").values()]

    retry(lambda: states().count("success") + states().count("failed") == len(hours), 500, "the runs do not end")
    assert states() == ["success"] * len(hours)
    history = load_history(stack.settings, "inventory")
    assert [receipt.hour for receipt in history.receipts] == hours, "in order"
    jobs = [
        path.read_text()
        for path in stack.folder.glob("airflow/logs/dag_id=ingest_inventory/*/task_id=decode/attempt=1.log")
    ]
    without = [log for log in jobs if "no Spark job is started for decode" in log]
    assert len(jobs) == len(hours) and len(without) >= len(hours) - 2, "an hour that landed late may start its own"

    # A row that they have published, explained as the page has it explained.
    row = json.loads(stack.run("tidemark", "show", "inventory.item", "--json").splitlines()[0])
    asked = {"table": "inventory.item", "key": [str(row["id"])]}
    run = stack.call("dags/explain_inventory/dagRuns", {"logical_date": None, "conf": asked})["dag_run_id"]
    place = f"dags/explain_inventory/dagRuns/{run}"
    retry(lambda: stack.call(place)["state"] in ("success", "failed"), 200, "it is not explained")
    answer = find_explained(stack.settings, "inventory", run)
    assert stack.call(place)["state"] == "success" and answer is not None
    assert answer.problem == "" and answer.there and {column for column, _, _ in answer.cells} >= {"id"}
