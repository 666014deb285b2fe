"""A run whose export is not there yet, in a real Airflow: it waits in the triggerer, says for what, and goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.scheduler.stack import Stack, retry
from tidemark.ledger.state_store import load_state
from tidemark.samples import canal
from tidemark.samples.exporting import Sample

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
