"""Where the connection `spark_default` sends jobs: what spark-submit is called with, and how it is read what it says."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks import spark_submit
from pyspark.sql import SparkSession

from tidemark.errors import ConfigError, TerminalError, TidemarkError, TransientError

JOB = "/opt/jobs/decode.py"
KUBERNETES = "k8s://https://host:6443"
#: What YARN's client says of a driver that ended with an exit code, also before its Spark session began, and what
#: Kubernetes' does.
OF_YARN = """
INFO Client: Application report for application_1764163200000_0007 (state: FINISHED)
INFO Client:
     client token: N/A
     diagnostics: User application exited with status {code}
     final status: FAILED
Exception in thread "main" org.apache.spark.SparkException: Application application_1764163200000_0007 finished
    at org.apache.spark.deploy.yarn.Client.run(Client.scala:1344)
"""
OF_YARN_EARLY = """
INFO Client: Application report for application_1764163200000_0007 (state: FAILED)
     diagnostics: AM Container for appattempt_1764163200000_0007_000001 exited with  exitCode: 13
Last 4096 bytes of stderr :
[error    ] ApplicationMaster: User application exited with status {code}
ERROR Client: Application diagnostics message: AM Container for appattempt_1764163200000_0007_000001 exited with  exitCode: 13
"""
OF_KUBERNETES = """
     pod name: tidemark-decode-shop-0a1b-driver
     container state: terminated
     exit code: {code}
     termination reason: Error
"""


class Line:
    """A spark-submit that only notes its command line and its file of properties, and ends as the test says."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.end(0)

    def end(self, code: int, output: str = "") -> None:
        script = self._folder / "spark-submit"
        noted = f'printf \'%s\\0\' "$@" >"{self._folder}/line"'
        kept = (
            f'while [ $# -gt 0 ]; do [ "$1" = --properties-file ] && cp "$2" \'{self._folder}/properties\'; shift; done'
        )
        script.write_text(f'#!/bin/sh\n{noted}\n{kept}\ncat <<"."\n{output}\n.\nexit {code}\n')
        script.chmod(0o755)

    @property
    def words(self) -> list[str]:
        return (self._folder / "line").read_text().split("\0")[:-1]

    @property
    def properties(self) -> str:
        return (self._folder / "properties").read_text()


@pytest.fixture
def line(tmp_path: Path, feeds: Path, monkeypatch: pytest.MonkeyPatch) -> Line:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("TIDEMARK_CATALOG_PASSWORD", "open-sesame")
    return Line(folder)


@pytest.fixture
def kubernetes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's provider of Kubernetes, of which submitting takes nothing but that it is there."""
    monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)


@pytest.fixture
def submit(monkeypatch: pytest.MonkeyPatch) -> Any:
    def submit(master: str, mode: str | None, **extra: str) -> Any:
        from tidemark.orchestration.operators import SparkJob

        connection = {"conn_type": "spark", "host": master, "extra": extra | ({"deploy-mode": mode} if mode else {})}
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
        task = SparkJob(task_id="decode", feed="shop", stage="decode", job=JOB, writes=False)
        task.application_args = ["shop", "2026-11-20T07"]
        task.submit({}, small=True)  # type: ignore[typeddict-item]
        return task

    return submit


@pytest.mark.usefixtures("kubernetes")
@pytest.mark.parametrize(
    ("master", "mode", "used"),
    [
        ("local[2]", None, "client"),
        ("yarn", None, "client"),
        ("yarn", "cluster", "cluster"),
        (KUBERNETES, "client", "client"),
    ],
)
def test_the_connection_says_where_the_driver_runs(
    line: Line, submit: Any, master: str, mode: str | None, used: str
) -> None:
    submit(master, mode)
    words = line.words
    assert words[words.index("--master") + 1] == master
    assert words[words.index("--deploy-mode") + 1] == used
    assert words[-3:] == [JOB, "shop", "2026-11-20T07"]
    assert "open-sesame" not in " ".join(words)


def test_a_driver_in_the_cluster_gets_its_secrets_from_a_file_that_is_gone_afterwards(line: Line, submit: Any) -> None:
    task = submit("yarn", "cluster")
    assert "spark.yarn.appMasterEnv.TIDEMARK_CATALOG_PASSWORD=open-sesame" in line.properties
    assert "--load-spark-defaults" in line.words
    assert not Path(task.properties_file).exists()


@pytest.mark.usefixtures("kubernetes")
@pytest.mark.parametrize(
    ("master", "output", "ends", "log"),
    [
        ("yarn", OF_YARN, 1, "`yarn logs -applicationId application_1764163200000_0007`"),
        ("yarn", OF_YARN_EARLY, 1, "`yarn logs -applicationId application_1764163200000_0007`"),
        (KUBERNETES, OF_KUBERNETES, 0, "`kubectl logs tidemark-decode-shop-0a1b-driver`"),
    ],
    ids=["YARN", "YARN, before a session", "Kubernetes"],
)
@pytest.mark.parametrize(("code", "kind"), [(65, TerminalError), (70, TerminalError), (75, TransientError)])
def test_the_exit_code_of_a_driver_in_the_cluster_says_whether_to_try_again(
    line: Line, submit: Any, master: str, output: str, ends: int, log: str, code: int, kind: type[TidemarkError]
) -> None:
    line.end(ends, output.format(code=code))
    with pytest.raises(TidemarkError) as raised:
        submit(master, "cluster")
    assert type(raised.value) is kind
    assert f"stage decode failed, exit code {code}: {log} shows why" in str(raised.value)


@pytest.mark.usefixtures("kubernetes")
@pytest.mark.parametrize(("master", "ends"), [("yarn", 1), ("yarn", 65), (KUBERNETES, 0), (KUBERNETES, 1)])
def test_where_no_exit_code_came_back_trying_again_can_help(line: Line, submit: Any, master: str, ends: int) -> None:
    """Also where that of spark-submit itself would say otherwise: it is not the job's."""
    line.end(ends, "Connection refused")
    with pytest.raises(TransientError, match="Connection refused"):
        submit(master, "cluster")


@pytest.mark.usefixtures("kubernetes")
def test_a_job_in_a_pod_that_ends_well_is_done(line: Line, submit: Any) -> None:
    line.end(0, OF_KUBERNETES.format(code=0))
    submit(KUBERNETES, "cluster")


def test_a_place_that_airflow_or_spark_do_not_have_is_refused(line: Line, submit: Any) -> None:
    with pytest.raises(ConfigError, match="Airflow's provider for it is not installed"):
        submit(KUBERNETES, None)
    with pytest.raises(ConfigError, match="asks for drivers in the cluster, which spark://host:7077 does not have"):
        submit("spark://host:7077", "cluster")


@pytest.mark.usefixtures("kubernetes")
def test_spark_takes_the_line_for_kubernetes(line: Line, submit: Any, spark: SparkSession, tmp_path: Path) -> None:
    """As far as without a cluster: Spark's own reading of the line, up to what would talk to the cluster."""
    line.end(0, OF_KUBERNETES.format(code=0))
    submit(KUBERNETES, "cluster", namespace="lake")
    words = line.words
    jvm: Any = spark._jvm
    words[words.index("--properties-file") + 1] = str(tmp_path / "properties")
    (tmp_path / "properties").write_text(line.properties)
    deploy = jvm.org.apache.spark.deploy
    usual = getattr(deploy.SparkSubmitArguments, "$lessinit$greater$default$2")()
    arguments = deploy.SparkSubmitArguments(jvm.PythonUtils.toSeq(words), usual)
    prepared = deploy.SparkSubmit().prepareSubmitEnvironment(arguments, jvm.scala.Option.empty())
    told = list(jvm.scala.jdk.javaapi.CollectionConverters.asJava(prepared._1()))
    assert prepared._4() == "org.apache.spark.deploy.k8s.submit.KubernetesClientApplication"
    assert told[:2] == ["--primary-py-file", f"local://{JOB}"]
    assert told[told.index("--main-class") + 1] == "org.apache.spark.deploy.PythonRunner"
    assert [value for at, value in enumerate(told) if told[at - 1] == "--arg"] == ["shop", "2026-11-20T07"]
    conf = prepared._3()
    assert conf.get("spark.master") == KUBERNETES
    assert conf.get("spark.submit.deployMode") == "cluster"
    assert conf.get("spark.kubernetes.namespace") == "lake"
    assert conf.get("spark.kubernetes.driverEnv.TIDEMARK_HOME")
    # What is not of the image would have to be uploaded, to a place that nobody has named.
    sent = [conf.get(f"spark.{kind}", "") for kind in ("jars", "files", "archives", "submit.pyFiles")]
    assert sent == ["", "", "", ""]
