"""Airflow's hook of spark-submit, which also says how a driver in the cluster ended."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from tidemark.errors import ConfigError
from tidemark.lake.spark_conf import spark_home
from tidemark.orchestration.submission import Place

#: How YARN's client hands it on: in what the driver told YARN, or in the end of its log where it failed before its Spark
#: session began. The exit code that YARN itself tells of is its container's, 13 in the second case.
_EXIT_CODE = re.compile(r"User application exited with status (\d+)")


class SubmitHook(SparkSubmitHook):
    """Runs spark-submit until the job is over, wherever its driver runs."""

    _exit_code_of_yarn: int | None = None

    @property
    def place(self) -> Place:
        return Place(master=self._connection["master"], mode=self._connection["deploy_mode"] or "client")

    @property
    def exit_code(self) -> int | None:
        """That of the job: of spark-submit in client mode, otherwise what it printed of the driver's. None: nothing."""
        if self.place.is_container:
            return self._exit_code_of_yarn
        if self.place.is_pod:
            return self._spark_exit_code
        return self._submit_sp.returncode if self._submit_sp else None

    @property
    def driver_log(self) -> str:
        """What shows the log of a driver in the cluster; empty for one here, and where none was started."""
        if self.place.is_container and self._yarn_application_id:
            return f"`yarn logs -applicationId {self._yarn_application_id}`"
        if self.place.is_pod and self._kubernetes_driver_pod:
            return f"`kubectl logs {self._kubernetes_driver_pod}`"
        return ""

    def _build_spark_common_args(self) -> list[str]:
        # A file of properties would otherwise take the place of spark-defaults.conf.
        return super()._build_spark_common_args() + (["--load-spark-defaults"] if self._properties_file else [])

    def _process_spark_submit_log(self, itr: Iterator[Any]) -> None:
        super()._process_spark_submit_log(self._read(itr))

    def _read(self, lines: Iterator[str]) -> Iterator[str]:
        for line in lines:
            if found := _EXIT_CODE.search(line):
                self._exit_code_of_yarn = int(found[1])
            yield line

    def on_kill(self) -> None:
        """End spark-submit and the driver. Through YARN's own client in Spark's jars: a worker need not have the command
        ``yarn``, which the hook would call."""
        over = self._submit_sp is None or self._submit_sp.poll() is not None
        application, self._yarn_application_id = self._yarn_application_id, None
        super().on_kill()
        self._yarn_application_id = application
        if application and not over:
            client = "org.apache.hadoop.yarn.client.cli.ApplicationCLI"
            command = [str(spark_home() / "bin/spark-class"), client, "application", "-kill", application]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            self.log.info("%s: %s", application, (done.stdout + done.stderr).strip())


def find_place(connection: str) -> Place:
    """Where the jobs of a connection run. ConfigError where Airflow cannot submit there."""
    try:
        place = SubmitHook(conn_id=connection).place
    except (NameError, RuntimeError):  # the hook misses a module of the provider, which it imports where it is there
        raise ConfigError(
            f"the connection {connection} leads to Kubernetes, and Airflow's provider for it is not installed",
            fix="install apache-airflow-providers-cncf-kubernetes beside Airflow (docs/deploy.md)",
        ) from None
    place.check()
    return place
