"""What holds for every DAG file and every DAG: they load, cheaply, and say who owns them and what they are."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tidemark.orchestration.dag_support import pool_of

PROJECT = Path(__file__).parent.parent.parent
KINDS = ("ingest", "maintain", "replay", "explain")
Load = Callable[[], Any]


@pytest.fixture
def load(feeds: Path) -> Load:
    """Loads the project's DAG files as Airflow does, for the feeds of the test."""

    def dagbag() -> Any:
        from airflow.dag_processing.dagbag import DagBag

        return DagBag(dag_folder=str(PROJECT / "dags"))

    return dagbag


def test_a_dag_for_each_feed(load: Load) -> None:
    bag = load()
    assert bag.import_errors == {}
    assert set(bag.dags) == {f"{kind}_{feed}" for kind in KINDS for feed in ("shop", "timed")}


def test_the_projects_own_feeds_load(monkeypatch: pytest.MonkeyPatch, load: Load) -> None:
    monkeypatch.setenv("TIDEMARK_FEEDS", str(PROJECT / "include" / "feeds"))
    bag = load()
    assert bag.import_errors == {}
    assert len(bag.dags) == len(KINDS) * len(list((PROJECT / "include" / "feeds").glob("*.yaml"))) > 0


def test_policy(load: Load) -> None:
    for dag in load().dags.values():
        kind, name = dag.dag_id.split("_")
        assert {"tidemark", "orders"} <= set(dag.tags)
        assert "shop-data" in dag.doc_md and dag.description
        if kind == "ingest":
            assert "srv.shop.orders" in dag.doc_md and f"{name}.people" in dag.doc_md
            assert f"airflow backfill create --dag-id {dag.dag_id}" in dag.doc_md
        else:
            assert f"airflow dags trigger {dag.dag_id}" in dag.doc_md
            pool = "default_pool" if kind == "explain" else pool_of(name)
            assert {task.pool for task in dag.tasks} == {pool}, "who writes, writes beside no other"
            # What runs by hand alone is not paused: a button of the page that starts it must not wait for somebody.
            assert dag.is_paused_upon_creation is (False if kind in ("explain", "replay") else None)
        assert dag.max_active_runs == {"ingest": 4, "explain": 16}.get(kind, 1)
        assert dag.dagrun_timeout == (timedelta(hours=6 + 4 * 3 * 6) if kind == "ingest" else None)
        for task in dag.tasks:
            assert task.owner == "shop-data"
            assert task.retries == 2
            assert task.retry_exponential_backoff == 2
            assert task.retry_policy is not None
            assert task.execution_timeout == timedelta(hours=6)
            assert not task.depends_on_past
            assert task.pool in ("default_pool", pool_of(name))


def test_stages_in_order_and_writers_in_the_feeds_pool(load: Load) -> None:
    dag = load().dags["ingest_shop"]
    order = ["wait", "land", "decode", "assemble_fold", "validate_publish"]
    assert [task.task_id for task in dag.topological_sort()] == order
    assert all(dag.get_task(a).downstream_task_ids == {b} for a, b in itertools.pairwise(order))
    in_pool = {task.task_id for task in dag.tasks if task.pool == pool_of("shop")}
    assert in_pool == {"assemble_fold", "validate_publish"}
    # An hour that has begun to write goes before one that has not.
    assert dag.get_task("validate_publish").priority_weight > dag.get_task("assemble_fold").priority_weight


def test_publishing_tells_the_assets(load: Load) -> None:
    dags, each = load().dags, {"tidemark/shop", "tidemark/shop.orders", "tidemark/shop.people"}
    published = dags["ingest_shop"].get_task("validate_publish").outlets
    assert {asset.name for asset in published} == {*each, "tidemark/shop/hours"}
    assert {asset.name for asset in dags["replay_shop"].get_task("replay").outlets} == each


def test_a_dag_may_wait_for_all_hours_of_a_day() -> None:
    """The example that the documents name, by the part of Airflow that decides when it runs."""
    from airflow.dag_processing.dagbag import DagBag
    from airflow.serialization.decoders import decode_partition_mapper
    from airflow.serialization.encoders import encode_partition_mapper

    bag = DagBag(dag_folder=str(PROJECT / "docs/examples/daily_orders.py"))
    assert bag.import_errors == {}
    timetable = bag.dags["daily_orders"].timetable
    mapper = decode_partition_mapper(encode_partition_mapper(timetable.default_partition_mapper))
    hours = {f"2026-11-20T{hour:02d}" for hour in range(24)}
    assert {mapper.to_downstream(hour) for hour in hours} == {"2026-11-20"}
    assert set(mapper.to_upstream("2026-11-20")) == hours


def test_maintenance_is_daily_where_the_feed_is_on_schedule(load: Load) -> None:
    dags = load().dags
    assert [dags[f"maintain_{feed}"].schedule for feed in ("shop", "timed")] == [None, "30 3 * * *"]
    assert not any(dags[f"maintain_{feed}"].catchup for feed in ("shop", "timed"))


def test_only_a_feed_with_a_start_runs_by_itself(load: Load) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    nexts = {}
    for dag_id, dag in load().dags.items():
        if not dag_id.startswith("ingest_"):
            continue
        scheduled = DagSerialization.from_dict(DagSerialization.to_dict(dag))
        info = scheduled.next_dagrun_info(last_automated_run_info=None)
        nexts[dag_id] = info and info.data_interval.start.isoformat()
        hours = list(scheduled.iter_dagrun_infos_between(_utc("2026-11-20T00"), _utc("2026-11-20T02")))
        assert [f"{info.data_interval.start:%Y-%m-%dT%H}" for info in hours] == [
            "2026-11-20T00",
            "2026-11-20T01",
            "2026-11-20T02",
        ]
    assert nexts == {"ingest_shop": None, "ingest_timed": "2026-11-20T00:00:00+00:00"}


def _utc(hour: str) -> Any:
    from airflow.sdk.timezone import parse

    return parse(f"{hour}:00:00Z")


def test_a_wrong_feed_file_leaves_the_others_alone_and_shows_all_its_mistakes(load: Load, feeds: Path) -> None:
    (feeds / "wrong.yaml").write_text("feed: wrong\nretrys: 3\ntopics: []\n")
    bag = load()
    assert set(bag.dags) == {f"{kind}_{feed}" for kind in KINDS for feed in ("shop", "timed")}
    (file, error), *others = bag.import_errors.items()
    assert not others
    # Airflow takes every DAG of a file with an import error off the schedule.
    assert Path(file).name == "broken_feeds.py"
    assert "wrong.yaml" in error
    for mistake in ("retrys", "topics", "description", "owner"):
        assert mistake in error


@pytest.mark.parametrize("kind", KINDS)
def test_parsing_imports_nothing_heavy_and_is_quick(feeds: Path, kind: str) -> None:
    script = """
import json, sys, time
from airflow.sdk import DAG
import tidemark
before = time.process_time()
import runpy
runpy.run_path(sys.argv[1])
heavy = {"pyspark", "pandera", "pandas", "boto3", "pyarrow", "pyiceberg"}
print(json.dumps({"seconds": time.process_time() - before, "heavy": sorted(heavy & set(sys.modules))}))
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(PROJECT / "dags" / f"{kind}.py")], capture_output=True, text=True, check=True
    )
    measured = json.loads(done.stdout.splitlines()[-1])
    assert measured["heavy"] == []
    assert measured["seconds"] < 3
