"""Jobs on YARN: the driver here (client mode) and in the cluster, where it has nothing but what is sent with the job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

from scripts import dist
from tests.e2e.generated import findings
from tests.stack.yarn import Yarn, running_yarn
from tidemark.errors import TerminalError, TransientError
from tidemark.feeds.loading import find_feed
from tidemark.lake.spark_conf import spark_home
from tidemark.pipeline.land import land
from tidemark.settings import Settings
from tidemark_samples import ibm
from tidemark_samples.exporting import Sample

pytestmark = pytest.mark.full

PROJECT = Path(__file__).parent.parent.parent
HERE, THERE, BROKEN = "2026-11-20T00", "2026-11-20T01", "2026-11-20T02"
#: All that a shell could take for something else.
PASSWORD = 'open "sesame" \\ $HOME `id` $(id) {{JAVA_HOME}} <CPS> \'end'
#: A job that tells what it runs with, and then fails in the way that can pass.
_TELLS = """
import json, os, sys
from pathlib import Path
import tidemark
from tidemark.errors import TransientError
from tidemark.orchestration.job_exit import run_job
from tidemark.settings import Settings

def work():
    told = {"prefix": sys.prefix, "tidemark": tidemark.__file__, "password": Settings().catalog_password}
    Path(Settings().lake_root, "told.json").write_text(json.dumps(told | {"path": os.environ["PATH"]}))
    raise TransientError("the catalog does not answer")

raise SystemExit(run_job("tell", work))
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dist.Made:
    """What ``make dist`` makes."""
    return dist.make(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def yarn() -> Iterator[Yarn]:
    with running_yarn() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory, yarn: Yarn) -> Iterator[Path]:
    """An installation with the exports of three hours of a feed, and Airflow beside it."""
    home = tmp_path_factory.mktemp("yarn")
    ibm.generate(home, Sample(hours=3, events=40, seed=11))
    values = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "SPARK_HOME": str(spark_home()),
        "HADOOP_CONF_DIR": str(yarn.conf),
        "TIDEMARK_HOME": str(home),
        "TIDEMARK_FEEDS": "feeds",
        "TIDEMARK_EXPORTS": "exports",
        "TIDEMARK_JARS": str(PROJECT / ".tidemark/jars"),
        "TIDEMARK_DRIVER_MEMORY": "1g",
        "TIDEMARK_CATALOG_PASSWORD": PASSWORD,
    }
    if "airflow" not in sys.modules:
        values |= {"AIRFLOW_HOME": str(home / "airflow"), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            patch.setenv(name, value)
        yield home


@pytest.fixture
def submit(installation: Path, yarn: Yarn, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Land an hour and execute its task, with a deploy mode and more of Spark's settings. The task is told to ``begun``."""

    def submit(
        hour: str, mode: str | None, job: Path = PROJECT / "jobs/decode.py", begun: Any = lambda task: None, **conf: str
    ) -> None:
        from airflow.sdk.api.datamodels._generated import DagRunType

        from tidemark.orchestration.operators import SparkDecode

        extra = {"deploy-mode": mode} if mode else {}
        connection = {"conn_type": "spark", "host": "yarn", "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
        usual = {
            "spark.yarn.jars": f"local:{spark_home()}/jars/*",
            "spark.yarn.stagingDir": f"{yarn.hdfs}/staging",
            "spark.executor.instances": "1",
            "spark.executor.cores": "2",
        }
        monkeypatch.setenv("TIDEMARK_SPARK_CONF", json.dumps(usual | conf))
        task = SparkDecode(task_id="decode", feed="payroll", stage="decode", job=str(job), writes=False)
        run = SimpleNamespace(run_type=DagRunType.MANUAL, data_interval_start=None, logical_date=None)
        land(find_feed("payroll", Settings()), hour, Settings())
        begun(task)
        task.execute({"dag_run": run, "params": {"hour": hour}})

    return submit


@pytest.fixture(scope="module")
def cluster(made: dist.Made, yarn: Yarn) -> dict[str, str]:
    """Settings for drivers in the cluster: what ``make dist`` made is in HDFS."""
    yarn.put(made.environment, made.jars)
    return {
        "spark.archives": f"{yarn.hdfs}/{made.environment.name}#environment",
        "spark.pyspark.python": "./environment/bin/python",
        "spark.jars": f"{yarn.hdfs}/{made.jars.name}/*.jar",
    }


def test_the_environment_works_wherever_it_is_unpacked(made: dist.Made, tmp_path: Path) -> None:
    with tarfile.open(made.environment) as packed:
        packed.extractall(tmp_path, filter="fully_trusted")
    check = "import sys, tidemark, tidemark.pipeline.hour, pyarrow; print(sys.prefix, tidemark.__file__)"
    for command in (["python", "-c", check], ["tidemark", "--version"]):
        done = subprocess.run(
            [tmp_path / "bin" / command[0], *command[1:]], env={}, cwd="/", capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert all(Path(path).is_relative_to(tmp_path) for path in done.stdout.split() if command[0] == "python")


@pytest.mark.promise(1)
def test_a_driver_here_works_with_executors_of_yarn(submit: Any, installation: Path, yarn: Yarn) -> None:
    submit(HERE, None)
    assert findings(installation, HERE, Settings()) == {}
    assert "Running task" in yarn.said()


@pytest.mark.promise(1)
def test_a_driver_in_the_cluster_comes_to_the_same_truth(
    submit: Any, installation: Path, yarn: Yarn, cluster: dict[str, str]
) -> None:
    submit(THERE, "cluster", **cluster)
    assert findings(installation, THERE, Settings()) == {}
    assert "receipt feed=payroll" in yarn.said()


def test_a_driver_in_the_cluster_runs_with_what_is_sent_and_what_can_pass_is_tried_again(
    submit: Any, installation: Path, cluster: dict[str, str], tmp_path: Path
) -> None:
    job = tmp_path / "tells.py"
    job.write_text(_TELLS)
    with pytest.raises(TransientError, match="exit code 75: `yarn logs -applicationId application_"):
        submit(BROKEN, "cluster", job, **cluster)
    told = json.loads((installation / ".tidemark/lake/told.json").read_text())
    assert told["password"] == PASSWORD
    assert told["prefix"].endswith("/environment") and told["tidemark"].startswith(told["prefix"])
    assert str(PROJECT) not in told["prefix"] + told["path"]


def test_a_task_that_is_ended_takes_its_driver_with_it(
    submit: Any, yarn: Yarn, cluster: dict[str, str], tmp_path: Path
) -> None:
    """And where no driver told how it ended, trying again can help."""
    job, tasks, errors, before = tmp_path / "sleeps.py", list[Any](), list[TransientError](), yarn.states()
    job.write_text("import time\ntime.sleep(600)\n")

    def run() -> None:
        try:
            submit(BROKEN, "cluster", job, tasks.append, **cluster)
        except TransientError as error:
            errors.append(error)

    thread = Thread(target=run)
    thread.start()
    (application,) = wait_for(lambda: yarn.states().keys() - before.keys())
    assert wait_for(lambda: yarn.states()[application] == "ACCEPTED")
    assert wait_for(lambda: tasks[0]._hook._yarn_application_id == application)
    tasks[0].on_kill()
    thread.join(60)
    (error,) = errors
    assert f"no exit code came back: `yarn logs -applicationId {application}` shows why" in str(error)
    assert wait_for(lambda: yarn.states()[application] == "KILLED"), yarn.states()


def test_a_landed_object_that_is_damaged_ends_the_task_at_once(
    submit: Any, installation: Path, cluster: dict[str, str]
) -> None:
    """The last test of the module: the hour stays so."""

    def damage(_: object) -> None:
        (landed,) = installation.glob(f".tidemark/lake/landing/**/hr={BROKEN[-2:]}/**/*.gz")
        landed.write_bytes(landed.read_bytes()[:-40])

    with pytest.raises(TerminalError, match="exit code 65: `yarn logs -applicationId application_") as terminal:
        submit(BROKEN, "cluster", begun=damage, **cluster)
    assert terminal.value.hour == BROKEN


def wait_for(look: Callable[[], Any]) -> Any:
    """What it answers, once that is something."""
    until = time.monotonic() + 60
    while not (found := look()) and time.monotonic() < until:
        time.sleep(0.1)
    return found
