"""Hours on a cluster: Spark's driver, two workers, S3 and PostgreSQL are processes of their own (``make stack``)."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import psutil
import pytest

from tests.stack.cluster import PROJECT, Api, Cluster
from tidemark.formats import FORMATS
from tidemark.orchestration.job_exit import Exit
from tidemark.samples import load_sample
from tidemark.samples.exporting import Sample

pytestmark = [pytest.mark.full, pytest.mark.timeout(1200)]

HOURS = ("2026-11-20T00", "2026-11-20T01", "2026-11-20T02")
#: What secrets are called in the services' settings, at the end of their names.
SECRETS = (
    "AWS_SECRET_ACCESS_KEY", "TIDEMARK_CATALOG_PASSWORD", "API__SECRET_KEY", "API_AUTH__JWT_SECRET", "CORE__FERNET_KEY",
    "DATABASE__SQL_ALCHEMY_CONN",
)  # fmt: skip
#: Files, which nobody else may read, and the folder in which the services keep them.
KEEPS_SECRETS = {".env", "services.json", "passwords.json", "postgres"}
FEEDS = {name: load_sample(name).FEED for name in FORMATS}


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder that every user can see into: PostgreSQL's is another one where this one is root."""
    folder = Path(tempfile.mkdtemp(prefix="tidemark-cluster-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def cluster(place: Path) -> Iterator[Cluster]:
    """The services, and an export of three hours of every format on S3."""
    for name in FORMATS:
        load_sample(name).generate(place / name, Sample(hours=len(HOURS), events=40, seed=23))
        shutil.copytree(place / name / "feeds", place / "feeds", dirs_exist_ok=True)
    cluster = Cluster(place / "stack", place / "feeds")
    cluster.start()
    try:
        on(cluster, "upload", *(place / name for name in FORMATS))
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def two_hours(cluster: Cluster) -> None:
    """Of every feed, by one session."""
    on(cluster, "run", ",".join(FEEDS.values()), *HOURS[:2])


def on(cluster: Cluster, what: str, *arguments: str | Path) -> str:
    return cluster.run("python", "-m", "tests.stack.on_cluster", what, *arguments)


def differences(cluster: Cluster, root: Path, *hours: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(on(cluster, "compare", root, *hours))
    return found


@pytest.mark.promise(1)
@pytest.mark.usefixtures("two_hours")
def test_hours_of_every_format_are_the_truth(cluster: Cluster, place: Path) -> None:
    assert {name: differences(cluster, place / name, *HOURS[:2]) for name in FORMATS} == {name: {} for name in FORMATS}
    executors = list(place.glob("stack/spark-work/*/*/stderr"))
    worked = [file for file in executors if "Running task" in file.read_text()]
    assert len(worked) == 2, "both workers had a part in it"


@pytest.mark.promise(1)
@pytest.mark.usefixtures("two_hours")
def test_airflow_on_postgresql_submits_an_hour_to_the_cluster(cluster: Cluster, place: Path) -> None:
    """And nothing of it tells a secret: no command line while it runs, and afterwards no log, rendered field or receipt."""
    settings = cluster.settings()
    api, dag = Api(settings), f"dags/ingest_{FEEDS['debezium']}"
    secrets = {name: urlsplit(text).password or text for name, text in settings.items() if name.endswith(SECRETS)}
    assert len(secrets) == len(SECRETS)
    api.call(f"api/v2/{dag}", {"is_paused": False}, "PATCH")
    run = api.call(f"api/v2/{dag}/dagRuns", {"logical_date": None, "conf": {"hour": HOURS[2]}})
    end, commands = time.monotonic() + 500, set[str]()
    while run["state"] not in ("success", "failed") and time.monotonic() < end:
        time.sleep(1)
        commands |= {" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])}
        run = api.call(f"api/v2/{dag}/dagRuns/{quote(run['dag_run_id'])}")
    assert run["state"] == "success", cluster.logs()
    assert differences(cluster, place / "debezium", HOURS[2]) == {}

    shown = {f"command line {number}": command for number, command in enumerate(sorted(commands))}
    shown["tasks"] = json.dumps(api.call(f"api/v2/{dag}/dagRuns/{quote(run['dag_run_id'])}/taskInstances"))
    shown["receipts"] = cluster.run("tidemark", "receipts", FEEDS["debezium"], "--json")
    written = [file for file in (place / "stack").rglob("*") if file.is_file() and not KEEPS_SECRETS & {*file.parts}]
    shown |= {str(file): file.read_text(errors="replace") for file in written if os.access(file, os.R_OK)}
    assert any("SparkSubmit" in command for command in commands) and "rendered_fields" in shown["tasks"]
    assert sum(file.endswith(".log") for file in shown) > 5 and any("spark-work" in file for file in shown)
    assert [(where, name) for where, text in shown.items() for name, secret in secrets.items() if secret in text] == []


@pytest.mark.promise(1, 2, 3)
@pytest.mark.usefixtures("two_hours")
def test_a_worker_that_dies_in_mid_stage_does_no_harm(cluster: Cluster, place: Path) -> None:
    """The last test of the module: there is one worker less after it. What its executor held is gone, checkpoints of the
    stage too, so the run may end; then it says that trying again helps, and it does."""
    cluster.run("tidemark", "land", FEEDS["ibm"], "--hour", HOURS[2])
    job = cluster.begin("python", PROJECT / "jobs/decode.py", FEEDS["ibm"], HOURS[2])
    assert job.stdout is not None
    said = []
    for line in job.stdout:
        said.append(line)
        if "] decoded" in line:
            break
    kill_worker(place)
    said += job.stdout.readlines()
    assert job.wait(60) in (Exit.OK, Exit.TRANSIENT), "".join(said)[-6000:]
    cluster.run("tidemark", "run", FEEDS["ibm"], "--hour", HOURS[2])
    assert differences(cluster, place / "ibm", HOURS[2]) == {}


def kill_worker(place: Path) -> None:
    """``kill -9`` of a worker and of its executors, as when the machine dies."""
    pids = {entry["name"]: entry["pid"] for entry in json.loads((place / "stack/processes.json").read_text())}
    worker = psutil.Process(pids["spark-worker-2"])
    executors = worker.children(recursive=True)
    assert executors, "the worker has no part in the job"
    for process in (worker, *executors):
        process.kill()
