"""The DAG that the documents give as an example, in a real Airflow: it runs once all hours of its day are there, and reads
the day's last cut."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.scheduler.stack import PROJECT, Stack, retry
from tidemark.hours import hours_between
from tidemark_samples import debezium
from tidemark_samples.exporting import Sample

pytestmark = [pytest.mark.full]

HOURS = hours_between("2026-11-20T00", "2026-11-20T23")


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    made = Stack(tmp_path)
    (tmp_path / "dags").mkdir()
    shutil.copy(PROJECT / "docs/examples/daily_orders.py", tmp_path / "dags")
    made.environment["AIRFLOW__CORE__DAGS_FOLDER"] = str(tmp_path / "dags")
    yield made
    made.stop()


@pytest.mark.timeout(600)
def test_a_day_begins_with_its_last_hour(stack: Stack) -> None:
    made = stack.folder / "made"
    debezium.generate(made, Sample(hours=1, events=40, seed=1, first_hour=HOURS[-1]))
    (made / "exports").rename(stack.folder / "exports")
    feeds = stack.folder / "feeds"
    feeds.mkdir()
    feed = yaml.safe_load(next((made / "feeds").glob("*.yaml")).read_text())
    feed["tables"][min(feed["tables"])]["name"] = "shop.orders"
    (feeds / "shop.yaml").write_text(yaml.safe_dump(feed | {"feed": "shop"}))
    stack.run("tidemark", "run", "shop", "--hour", HOURS[-1])
    (feeds / "shop.yaml").rename(made / "shop.yaml")  # the DAG of the feed is not this test's
    stack.start()
    retry(lambda: bool(stack.call("dags")["dags"]), 120, "the DAG is not there")
    stack.call("dags/daily_orders", {"is_paused": False}, method="PATCH")
    (asset,) = stack.call("assets?name_pattern=tidemark/shop/hours")["assets"]

    def runs() -> list[dict[str, str]]:
        return [
            {name: run[name] for name in ("state", "partition_key")}
            for run in stack.call("dags/daily_orders/dagRuns")["dag_runs"]
        ]

    for hour in (*HOURS[12:], *HOURS[:11]):  # in any order, and one is missing
        stack.call("assets/events", {"asset_id": asset["id"], "partition_key": hour})
    retry(lambda: len(stack.call("assets/events?limit=50")["asset_events"]) == 23, 60, "the events are not there")
    time.sleep(15)  # the scheduler looks several times
    assert runs() == []
    stack.call("assets/events", {"asset_id": asset["id"], "partition_key": HOURS[11]})
    retry(lambda: [run["state"] for run in runs()] in (["success"], ["failed"]), 300, f"no run has ended: {runs()}")
    assert runs() == [{"state": "success", "partition_key": "2026-11-20"}]
