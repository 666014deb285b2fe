"""Airflow as users run it (``scripts/in-project``, ``scripts/services.py``), with a home and a lake of its own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from tidemark.hours import Hour
from tidemark.settings import Settings

PROJECT = Path(__file__).parent.parent.parent
STAGES = ("decode", "fold", "publish")


class Stack:
    """Services, command line and REST API of one Airflow on the feeds and exports in ``folder``."""

    def __init__(self, folder: Path, database: str = "") -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.settings = Settings(home=folder, feeds=Path("feeds"), exports="exports")
        asked = {
            "TIDEMARK_HOME": str(folder),
            "TIDEMARK_FEEDS": "feeds",
            "TIDEMARK_EXPORTS": "exports",
            "TIDEMARK_JARS": str(PROJECT / ".tidemark/jars"),
            "TIDEMARK_DRIVER_MEMORY": "1g",
            "TIDEMARK_AIRFLOW_HOME": str(folder / "airflow"),
            "AIRFLOW_PORT": str(self.port),
            "AIRFLOW_PARALLELISM": "3",
            "AIRFLOW_DATABASE": database,
        }
        usual = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "TIDEMARK_"))}
        printed = subprocess.run(
            [PROJECT / "scripts/in-project", "env", "-0"], env=usual | asked, capture_output=True, check=True
        )
        self.environment = dict(line.split("=", 1) for line in printed.stdout.decode().split("\0") if line)
        # What the project leaves to Airflow: dead workers are noticed after five minutes, files read every half a one.
        self.environment |= {
            "PYTHONPATH": str(PROJECT / "include"),
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_SEC": "5",
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "600",
        }
        self._token = ""

    def start(self) -> None:
        """Database, services; every DAG is there and not paused."""
        self.run("python", str(PROJECT / "scripts/services.py"), "start")
        wanted = {f"ingest_{file.stem}" for file in (self.folder / "feeds").glob("*.yaml")}
        retry(lambda: wanted <= {dag["dag_id"] for dag in self.call("dags")["dags"]}, 120, "the DAGs are not there")
        for dag in sorted(wanted):
            self.call(f"dags/{dag}", {"is_paused": False}, method="PATCH")

    def stop(self) -> None:
        self.run("python", str(PROJECT / "scripts/services.py"), "stop")

    def run(self, *command: str) -> str:
        """A command in the project's environment; its output."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, f"{' '.join(command)} failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
        return done.stdout

    def call(self, path: str, body: object = None, method: str | None = None) -> Any:
        """GET, or POST (or else) of a body, as the administrator. A token is good for a day."""
        if not self._token:
            passwords = json.loads((self.folder / "airflow/simple_auth_manager_passwords.json.generated").read_text())
            self._token = self._ask("auth/token", {"username": "admin", "password": passwords["admin"]})["access_token"]
        return self._ask(f"api/v2/{path}", body, method, {"Authorization": f"Bearer {self._token}"})

    def _ask(
        self, path: str, body: object = None, method: str | None = None, headers: dict[str, str] | None = None
    ) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", **(headers or {})},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def backfill(self, feed: str, hours: Iterable[str], *more: str) -> None:
        """``airflow backfill create`` over the hours, both ends included, by the command line."""
        first, *_, last = [f"{hour}:00:00Z" for hour in hours]
        dates = ("--from-date", first, "--to-date", last)
        self.run("airflow", "backfill", "create", "--dag-id", f"ingest_{feed}", *dates, *more)

    def runs(self, feed: str) -> dict[str, dict[str, Any]]:
        """The feed's runs by hour."""
        runs = self.call(f"dags/ingest_{feed}/dagRuns?limit=100")["dag_runs"]
        return {Hour.parse(run["logical_date"][:13]): run for run in runs}

    def tasks(self, feed: str, run: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """The tasks of a run by name."""
        listed = self.call(f"dags/ingest_{feed}/dagRuns/{run['dag_run_id']}/taskInstances")["task_instances"]
        return {task["task_id"]: task for task in listed}

    def worker_of(self, stage: str, feed: str) -> tuple[psutil.Process, str] | None:
        """The scheduler's worker whose Spark driver runs this stage of the feed, and the hour."""
        (scheduler,) = [p for p in self._services() if "scheduler" in " ".join(p.cmdline())]
        for worker in scheduler.children():
            for process in _family(worker):
                line = _command(process)
                job = next((i for i, word in enumerate(line) if word.endswith(f"jobs/{stage}.py")), None)
                if job is not None and line[job + 1 : job + 2] == [feed]:
                    return worker, line[job + 2]
        return None

    def _services(self) -> list[psutil.Process]:
        record = json.loads((self.folder / "airflow/services.json").read_text())
        return [psutil.Process(entry["pid"]) for entry in record]


def kill(process: psutil.Process) -> None:
    """``kill -9`` of a process and of all it started, as when the machine dies."""
    for one in [process, *_family(process)]:
        kill_alone(one)


def kill_alone(process: psutil.Process) -> None:
    """``kill -9`` of one process. What it started lives on."""
    with suppress(psutil.NoSuchProcess):
        process.kill()


def retry(reached: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait until it is so."""
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end, f"after {seconds:.0f} s: {what}"
        time.sleep(0.5)


def _family(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return []
