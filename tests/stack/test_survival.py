"""What a run on a cluster survives: a lost executor, driver, worker or network, storage and a catalog that stop answering."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from tests.proxy import Link, Proxy, proxy
from tests.stack.cluster import PROJECT, Cluster, cluster_with_samples
from tidemark.orchestration.job_exit import FAILED, Exit
from tidemark_samples import load_sample

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

FORMAT = "ibm"
FEED = load_sample(FORMAT).FEED
#: Each has an hour of its own, behind one that goes well.
FAILURES = ("memory", "driver", "storage", "catalog", "network", "worker")
HOUR_OF = {failure: f"2026-11-20T{hour:02}" for hour, failure in enumerate(FAILURES, 1)}


@pytest.fixture(scope="module")
def with_sample() -> Iterator[tuple[Cluster, Path]]:
    with cluster_with_samples({FORMAT: 1 + len(FAILURES)}) as (cluster, place):
        cluster.run("tidemark", "run", FEED, "--hour", "2026-11-20T00")
        yield cluster, place


@pytest.fixture(scope="module")
def cluster(with_sample: tuple[Cluster, Path]) -> Cluster:
    return with_sample[0]


@pytest.fixture(scope="module")
def place(with_sample: tuple[Cluster, Path]) -> Path:
    return with_sample[1]


class Job:
    """The job that decodes an hour of the failing feed, and goes on to its end where it can. ``said``: its lines so far.
    After it the hour is run again, as Airflow's next try does, or the tasks of the stages that are left."""

    def __init__(self, cluster: Cluster, failure: str, *settings: str) -> None:
        self.cluster, self.hour, self.said = cluster, HOUR_OF[failure], list[str]()
        cluster.run("tidemark", "land", FEED, "--hour", self.hour)
        self.process = cluster.begin("env", *settings, "python", PROJECT / "jobs/decode.py", FEED, self.hour)

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self.cluster.run("tidemark", "run", FEED, "--hour", self.hour)

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
def test_executors_that_run_out_of_memory_are_told_and_do_no_harm(cluster: Cluster, place: Path) -> None:
    little = conf_with(cluster, **{"spark.executor.extraJavaOptions": "-XX:MaxMetaspaceSize=56m"})
    with Job(cluster, "memory", little) as job:
        assert job.end() == Exit.TRANSIENT
    assert "spark.executor.memory" in job.told(FAILED), job.told(FAILED)
    assert cluster.differences(place / FORMAT, job.hour) == {}


@pytest.mark.promise(6)
def test_a_driver_that_is_lost_does_no_harm(cluster: Cluster, place: Path) -> None:
    """Whoever tries again waits for its locks, up to the 90 seconds of each."""
    with Job(cluster, "driver") as job:
        job.read_until("] decoded")
        for process in (*psutil.Process(job.process.pid).children(recursive=True), psutil.Process(job.process.pid)):
            process.kill()
    assert cluster.differences(place / FORMAT, job.hour) == {}


@pytest.mark.promise(6)
def test_storage_that_does_not_answer_for_a_minute_does_no_harm(cluster: Cluster, place: Path) -> None:
    with Job(cluster, "storage") as job:
        job.read_until("] decoded")
        server = process_of(place, "s3")
        server.suspend()
        goes_on = threading.Timer(60, server.resume)
        goes_on.start()
        job.end()
        goes_on.join()
    assert cluster.differences(place / FORMAT, job.hour) == {}


@pytest.mark.promise(6)
def test_a_catalog_that_restarts_before_a_commit_does_no_harm(cluster: Cluster, place: Path) -> None:
    """PostgreSQL ends all connections and recovers from its log when one of its processes is killed. The next that the job
    asks for is to publish what it has validated."""
    with Job(cluster, "catalog") as job:
        job.read_until("] validated")
        next(one for one in process_of(place, "postgres").children() if ": lake lake" in " ".join(one.cmdline())).kill()
        job.end()
    assert job.told("left the rest of the hour") or job.told("] receipt"), job.said[-1]
    assert cluster.differences(place / FORMAT, job.hour) == {}


@pytest.mark.promise(6)
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
    assert cluster.differences(place / FORMAT, job.hour) == {}


@pytest.mark.promise(1, 2, 3)
def test_a_worker_that_dies_in_mid_stage_does_no_harm(cluster: Cluster, place: Path) -> None:
    """The last test of the module: there is one worker less after it. What its executor held is gone, checkpoints of the
    stage too, so the run may end; then it says that trying again helps, and it does."""
    with Job(cluster, "worker") as job:
        job.read_until("] decoded")
        kill_worker(place)
        job.end()
    assert cluster.differences(place / FORMAT, job.hour) == {}


def kill_worker(place: Path) -> None:
    """``kill -9`` of a worker and of its executors, as when the machine dies."""
    worker = process_of(place, "spark-worker-2")
    executors = worker.children(recursive=True)
    assert executors, "the worker has no part in the job"
    for process in (worker, *executors):
        process.kill()
