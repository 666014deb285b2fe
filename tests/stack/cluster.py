"""``make stack`` for the tests: services of its own, with feeds of its own, and commands in them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tidemark_samples import load_sample
from tidemark_samples.exporting import Sample

PROJECT = Path(__file__).parent.parent.parent


class Cluster:
    """The services, with data in ``folder``, which another user can see into (PostgreSQL's, where this one is root)."""

    def __init__(self, folder: Path, feeds: Path) -> None:
        self.folder = folder
        usual = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "TIDEMARK_"))}
        self.environment = usual | {
            "TIDEMARK_STACK_FOLDER": str(folder),
            "TIDEMARK_STACK_NET": f"127.{100 + os.getpid() % 100}.{os.getpid() // 100 % 250}",
            "TIDEMARK_STACK_S3": "moto",  # or versitygw where it is there: tests do not build it
            "TIDEMARK_FEEDS": str(feeds),
            "TIDEMARK_DRIVER_MEMORY": "1g",
        }

    def start(self) -> None:
        self.call(PROJECT / "scripts/in-project", "python", PROJECT / "scripts/stack.py", "start")

    def stop(self) -> None:
        """Raises where a port is left."""
        self.call(PROJECT / "scripts/in-project", "python", PROJECT / "scripts/stack.py", "stop")

    def run(self, *command: str | Path, seconds: float = 900) -> str:
        """A command with the scheduler's settings; what it printed."""
        return self.call(PROJECT / "scripts/in-stack", *command, seconds=seconds)

    def call(self, *command: str | Path, seconds: float = 900) -> str:
        done = subprocess.run(
            command, cwd=PROJECT, env=self.environment, capture_output=True, text=True, timeout=seconds, check=False
        )
        assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-6000:]}\n{self.logs()}"
        return done.stdout

    def begin(self, *command: str | Path) -> subprocess.Popen[str]:
        """A command with the scheduler's settings, which goes on; its output and errors are one."""
        return subprocess.Popen(
            [PROJECT / "scripts/in-stack", *command],
            env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def on(self, what: str, *arguments: str | Path) -> str:
        """What :mod:`tests.stack.on_cluster` prints."""
        return self.run("python", "-m", "tests.stack.on_cluster", what, *arguments)

    def differences(self, root: Path, *hours: str) -> dict[str, object]:
        """By hour and table, what is not as the truth of a sample says."""
        found: dict[str, object] = json.loads(self.on("compare", root, *hours))
        return found

    def logs(self) -> str:
        """The last lines of executors, which tell what a task failed of."""
        found = sorted(self.folder.glob("spark-work/*/*/stderr"))
        return "\n".join(f"{file}:\n{file.read_text(errors='replace')[-1500:]}" for file in found[-4:])

    def settings(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self.run("env", "-0").split("\0") if "=" in line)


class Api:
    """Airflow's, as the administrator."""

    def __init__(self, settings: dict[str, str]) -> None:
        self.base = settings["AIRFLOW__API__BASE_URL"]
        passwords = json.loads(Path(settings["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"]).read_text())
        login = {"username": "admin", "password": passwords["admin"]}
        self.headers: dict[str, str] = {}
        self.headers = {"Authorization": f"Bearer {self.call('auth/token', login)['access_token']}"}

    def call(self, path: str, body: object = None, method: str | None = None) -> Any:
        request = urllib.request.Request(
            f"{self.base}/{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", **self.headers},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)


@contextmanager
def cluster_with_samples(hours: Mapping[str, int]) -> Iterator[tuple[Cluster, Path]]:
    """The services, with exports on S3 of so many hours of formats; and the folder with the samples, by format."""
    place = Path(tempfile.mkdtemp(prefix="tidemark-cluster-"))
    place.chmod(0o755)
    for name, number in hours.items():
        load_sample(name).generate(place / name, Sample(hours=number, events=40, seed=23))
        shutil.copytree(place / name / "feeds", place / "feeds", dirs_exist_ok=True)
    cluster = Cluster(place / "stack", place / "feeds")
    cluster.start()
    try:
        cluster.on("upload", *(place / name for name in hours))
        yield cluster, place
    finally:
        cluster.stop()
        shutil.rmtree(place)
