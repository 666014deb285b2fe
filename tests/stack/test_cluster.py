"""Hours on a cluster: Spark's driver, two workers, S3 and PostgreSQL are processes of their own (``make stack``)."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import psutil
import pytest

from tests.stack.cluster import Api, Cluster, cluster_with_samples
from tidemark.formats import FORMATS
from tidemark_samples import load_sample

pytestmark = [pytest.mark.full, pytest.mark.timeout(2400)]

#: The hours that Airflow runs, of every format.
HOURS = tuple(f"2026-11-20T{hour:02}" for hour in range(6))
#: What secrets are called in the services' settings, at the end of their names.
SECRETS = (
    "AWS_SECRET_ACCESS_KEY", "TIDEMARK_CATALOG_PASSWORD", "API__SECRET_KEY", "API_AUTH__JWT_SECRET", "CORE__FERNET_KEY",
    "DATABASE__SQL_ALCHEMY_CONN",
)  # fmt: skip
#: Files, which nobody else may read, and the folder in which the services keep them.
KEEPS_SECRETS = {".env", "services.json", "passwords.json", "postgres"}
FEEDS = {name: load_sample(name).FEED for name in FORMATS}


@pytest.fixture(scope="module")
def with_samples() -> Iterator[tuple[Cluster, Path]]:
    with cluster_with_samples(dict.fromkeys(FORMATS, len(HOURS))) as both:
        yield both


@pytest.fixture(scope="module")
def cluster(with_samples: tuple[Cluster, Path]) -> Cluster:
    return with_samples[0]


@pytest.fixture(scope="module")
def place(with_samples: tuple[Cluster, Path]) -> Path:
    return with_samples[1]


@pytest.fixture(scope="module")
def six_hours(cluster: Cluster) -> Shown:
    """Backfills of every feed's hours through Airflow, to their end; and what could be seen of them meanwhile."""
    api, shown = Api(cluster.settings()), Shown()
    for feed in FEEDS.values():
        api.call(f"api/v2/dags/ingest_{feed}", {"is_paused": False}, "PATCH")
        asked = {"dag_id": f"ingest_{feed}", "from_date": f"{HOURS[0]}:00:00Z", "to_date": f"{HOURS[-1]}:00:00Z"}
        api.call("api/v2/backfills", asked | {"reprocess_behavior": "none", "max_active_runs": len(HOURS)})
    end = time.monotonic() + 1500
    while shown.states() != {"success"} and time.monotonic() < end:
        time.sleep(1)
        processes = psutil.process_iter(["cmdline"])
        shown.commands |= {" ".join(process.info["cmdline"] or ()) for process in processes}
        shown.runs = [
            run for feed in FEEDS.values() for run in api.call(f"api/v2/dags/ingest_{feed}/dagRuns")["dag_runs"]
        ]
        assert "failed" not in shown.states(), cluster.logs()
    assert len(shown.runs) == len(FEEDS) * len(HOURS) and shown.states() == {"success"}, cluster.logs()
    shown.tasks = [
        api.call(f"api/v2/dags/{run['dag_id']}/dagRuns/{quote(run['dag_run_id'])}/taskInstances") for run in shown.runs
    ]
    return shown


@dataclass
class Shown:
    """What people can see of DAG runs: Airflow's answers, and the command lines of all processes while they lasted."""

    runs: list[dict[str, Any]] = field(default_factory=list)
    tasks: list[dict[str, Any]] = field(default_factory=list)
    commands: set[str] = field(default_factory=set)

    def states(self) -> set[str]:
        return {run["state"] for run in self.runs}


@pytest.mark.promise(1)
@pytest.mark.usefixtures("six_hours")
def test_hours_of_every_format_through_airflow_are_the_truth(cluster: Cluster, place: Path) -> None:
    assert {name: cluster.differences(place / name, *HOURS) for name in FORMATS} == {name: {} for name in FORMATS}
    executors = place.glob("stack/spark-work/*/*/stderr")
    worked = Counter(file.parent.parent.name for file in executors if "Running task" in file.read_text())
    assert max(worked.values()) == 2, "both workers had a part in a job"


def test_nothing_tells_a_secret(cluster: Cluster, place: Path, six_hours: Shown) -> None:
    """No command line while the hours ran, and afterwards no log, rendered field or receipt."""
    settings = cluster.settings()
    secrets = {name: urlsplit(text).password or text for name, text in settings.items() if name.endswith(SECRETS)}
    assert len(secrets) == len(SECRETS)
    shown = {f"command line {number}": command for number, command in enumerate(sorted(six_hours.commands))}
    shown["tasks"] = json.dumps(six_hours.tasks)
    shown["receipts"] = cluster.run("tidemark", "receipts", FEEDS["debezium"], "--json")
    written = [file for file in (place / "stack").rglob("*") if file.is_file() and not KEEPS_SECRETS & {*file.parts}]
    shown |= {str(file): file.read_text(errors="replace") for file in written if os.access(file, os.R_OK)}
    assert any("SparkSubmit" in command for command in six_hours.commands) and "rendered_fields" in shown["tasks"]
    assert sum(file.endswith(".log") for file in shown) > 5 and any("spark-work" in file for file in shown)
    assert [(where, name) for where, text in shown.items() for name, secret in secrets.items() if secret in text] == []
