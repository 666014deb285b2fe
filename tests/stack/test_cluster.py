"""Hours on a cluster: Spark's driver, two workers, S3 and PostgreSQL are processes of their own (``make stack``)."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import psutil
import pytest

from tests.proxy import Link, Proxy, proxy
from tests.stack.cluster import PROJECT, Api, Cluster
from tidemark.formats import FORMATS
from tidemark.orchestration.job_exit import FAILED, Exit
from tidemark_samples import load_sample
from tidemark_samples.exporting import Sample

pytestmark = [pytest.mark.full, pytest.mark.timeout(2400)]

#: The hours that Airflow runs, of every format.
HOURS = tuple(f"2026-11-20T{hour:02}" for hour in range(6))
#: The format with more hours than these, of which each runs into a failure, and its failures in the order of their tests.
FAILING = "ibm"
FAILURES = ("memory", "driver", "storage", "catalog", "network", "worker")
HOUR_OF = {failure: f"2026-11-20T{hour:02}" for hour, failure in enumerate(FAILURES, len(HOURS))}
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
    """The services, and an export of six hours of every format on S3."""
    for name in FORMATS:
        hours = len(HOURS) + len(FAILURES) if name == FAILING else len(HOURS)
        load_sample(name).generate(place / name, Sample(hours=hours, events=40, seed=23))
        shutil.copytree(place / name / "feeds", place / "feeds", dirs_exist_ok=True)
    cluster = Cluster(place / "stack", place / "feeds")
    cluster.start()
    try:
        on(cluster, "upload", *(place / name for name in FORMATS))
        yield cluster
    finally:
        cluster.stop()


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


def on(cluster: Cluster, what: str, *arguments: str | Path) -> str:
    return cluster.run("python", "-m", "tests.stack.on_cluster", what, *arguments)


def differences(cluster: Cluster, root: Path, *hours: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(on(cluster, "compare", root, *hours))
    return found


@pytest.mark.promise(1)
@pytest.mark.usefixtures("six_hours")
def test_hours_of_every_format_through_airflow_are_the_truth(cluster: Cluster, place: Path) -> None:
    assert {name: differences(cluster, place / name, *HOURS) for name in FORMATS} == {name: {} for name in FORMATS}
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


class Job:
    """The job that decodes an hour of the failing feed, and goes on to its end where it can. ``said``: its lines so far.
    After it the hour is run again, as Airflow's next try does, or the tasks of the stages that are left."""

    def __init__(self, cluster: Cluster, failure: str, *settings: str) -> None:
        self.cluster, self.hour, self.said = cluster, HOUR_OF[failure], list[str]()
        cluster.run("tidemark", "land", FEEDS[FAILING], "--hour", self.hour)
        self.process = cluster.begin("env", *settings, "python", PROJECT / "jobs/decode.py", FEEDS[FAILING], self.hour)

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self.cluster.run("tidemark", "run", FEEDS[FAILING], "--hour", self.hour)

    def read_until(self, words: str) -> None:
        """Read its lines up to one with these words."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line)
            if words in line:
                return
        raise AssertionError(f"it ended without {words!r}: {''.join(self.said)[-6000:]}")

    def end(self) -> int:
        """Its exit code, once it has ended by itself. Of one that failed 75, that of what can pass, and :meth:`told` why."""
        assert self.process.stdout is not None
        self.said += self.process.stdout.readlines()
        code = self.process.wait(60)
        assert code in (Exit.OK, Exit.TRANSIENT), "".join(self.said)[-6000:]
        assert code == Exit.OK or self.told(FAILED), "".join(self.said)[-6000:]
        return code

    def told(self, words: str) -> str:
        """The line with these words; empty where there is none. Spark may have the last word."""
        return next((line for line in self.said if words in line), "")


def conf_with(cluster: Cluster, **more: str) -> str:
    """The setting of Spark's settings, with more of them."""
    return "TIDEMARK_SPARK_CONF=" + json.dumps(json.loads(cluster.settings()["TIDEMARK_SPARK_CONF"]) | more)


def process_of(place: Path, service: str) -> psutil.Process:
    pids = {entry["name"]: entry["pid"] for entry in json.loads((place / "stack/processes.json").read_text())}
    return psutil.Process(pids[service])


@pytest.mark.promise(6)
@pytest.mark.usefixtures("six_hours")
def test_executors_that_run_out_of_memory_are_told_and_do_no_harm(cluster: Cluster, place: Path) -> None:
    little = conf_with(cluster, **{"spark.executor.extraJavaOptions": "-XX:MaxMetaspaceSize=56m"})
    with Job(cluster, "memory", little) as job:
        assert job.end() == Exit.TRANSIENT
    assert "spark.executor.memory" in job.told(FAILED), job.told(FAILED)
    assert differences(cluster, place / FAILING, job.hour) == {}


@pytest.mark.promise(6)
@pytest.mark.usefixtures("six_hours")
def test_a_driver_that_is_lost_does_no_harm(cluster: Cluster, place: Path) -> None:
    """Whoever tries again waits for its locks, up to the 90 seconds of each."""
    with Job(cluster, "driver") as job:
        job.read_until("] decoded")
        for process in (*psutil.Process(job.process.pid).children(recursive=True), psutil.Process(job.process.pid)):
            process.kill()
    assert differences(cluster, place / FAILING, job.hour) == {}


@pytest.mark.promise(6)
@pytest.mark.usefixtures("six_hours")
def test_storage_that_does_not_answer_for_a_minute_does_no_harm(cluster: Cluster, place: Path) -> None:
    with Job(cluster, "storage") as job:
        job.read_until("] decoded")
        server = process_of(place, "s3")
        server.suspend()
        goes_on = threading.Timer(60, server.resume)
        goes_on.start()
        job.end()
        goes_on.join()
    assert differences(cluster, place / FAILING, job.hour) == {}


@pytest.mark.promise(6)
@pytest.mark.usefixtures("six_hours")
def test_a_catalog_that_restarts_before_a_commit_does_no_harm(cluster: Cluster, place: Path) -> None:
    """PostgreSQL ends all connections and recovers from its log when one of its processes is killed. The next that the job
    asks for is to publish what it has validated."""
    with Job(cluster, "catalog") as job:
        job.read_until("] validated")
        next(one for one in process_of(place, "postgres").children() if ": lake lake" in " ".join(one.cmdline())).kill()
        job.end()
    assert job.told("left the rest of the hour") or job.told("] receipt"), job.said[-1]
    assert differences(cluster, place / FAILING, job.hour) == {}


@pytest.mark.promise(6)
@pytest.mark.usefixtures("six_hours")
def test_a_network_that_is_cut_between_driver_and_catalog_does_no_harm(cluster: Cluster, place: Path) -> None:
    """Nothing is refused, nothing answers: what was sent stays on the way until the network is there again."""
    catalog = urlsplit(cluster.settings()["TIDEMARK_CATALOG_URI"].removeprefix("jdbc:"))
    assert catalog.hostname and catalog.port
    there = threading.Event()
    there.set()

    def pass_on(chunk: bytes) -> bytes:
        there.wait()
        return chunk

    def treat(link: Link, _: Proxy) -> None:
        there.wait()
        link.both_ways(pass_on, pass_on)

    impatient = conf_with(cluster, **{"spark.sql.catalog.lake.jdbc.socketTimeout": "10"})
    with proxy(catalog.port, treat, catalog.hostname) as between:
        through = f"TIDEMARK_CATALOG_URI=jdbc:postgresql://127.0.0.1:{between.port}{catalog.path}"
        with Job(cluster, "network", through, impatient) as job:
            job.read_until("] screened")
            there.clear()
            job.end()
            there.set()
    assert "Exception" in job.told("left the rest of the hour"), job.said[-1]
    assert differences(cluster, place / FAILING, job.hour) == {}


@pytest.mark.promise(1, 2, 3)
@pytest.mark.usefixtures("six_hours")
def test_a_worker_that_dies_in_mid_stage_does_no_harm(cluster: Cluster, place: Path) -> None:
    """The last test of the module: there is one worker less after it. What its executor held is gone, checkpoints of the
    stage too, so the run may end; then it says that trying again helps, and it does."""
    with Job(cluster, "worker") as job:
        job.read_until("] decoded")
        kill_worker(place)
        job.end()
    assert differences(cluster, place / FAILING, job.hour) == {}


def kill_worker(place: Path) -> None:
    """``kill -9`` of a worker and of its executors, as when the machine dies."""
    worker = process_of(place, "spark-worker-2")
    executors = worker.children(recursive=True)
    assert executors, "the worker has no part in the job"
    for process in (worker, *executors):
        process.kill()
