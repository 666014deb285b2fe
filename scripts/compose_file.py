"""docker-compose.yaml and the image's environment, as they hold on this machine without containers.

Each container becomes an address of its own in a network of this machine's loopback (``127.77.0.2``, …), so that every
port stays the one that the file says, and each of the image's folders a folder here.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

PROJECT = Path(__file__).resolve().parent.parent
FILE = PROJECT / "docker-compose.yaml"
#: How many containers of a service run, where that is not one.
SCALE = {"spark-worker": 2}


@dataclass(frozen=True)
class Service:
    """A container as a process: what it runs, with what, when it is well, and which services it waits for."""

    name: str
    address: str
    command: list[str]
    environment: dict[str, str]
    health: list[str]
    needs: list[str]

    @property
    def once(self) -> bool:
        """Whether it ends by itself, and others wait for that."""
        return not self.health


def resolve(env_file: Path) -> dict[str, dict[str, Any]]:
    """The file with variables filled in and extensions merged. ``RuntimeError`` with what the reader says."""
    command = [
        sys.executable,
        "-m",
        "podman_compose",
        "--dry-run",
        "--env-file",
        str(env_file),
        "-f",
        str(FILE),
        "config",
    ]
    bare = {"PATH": os.environ["PATH"], "HOME": str(env_file.parent)}
    done = subprocess.run(command, cwd=env_file.parent, env=bare, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"docker-compose.yaml cannot be read: {done.stderr[-2000:]}")
    resolved: dict[str, dict[str, Any]] = yaml.safe_load(done.stdout)
    return resolved


def image_environment() -> dict[str, str]:
    """What the Dockerfile's stage ``tidemark`` sets itself (Python's and Java's places are those of the base)."""
    text = (PROJECT / "Dockerfile").read_text().replace("\\\n", " ")
    stage = text.partition(" AS tidemark\n")[2].partition("\nFROM ")[0]
    lines = [line.removeprefix("ENV ") for line in stage.splitlines() if line.startswith("ENV ")]
    return dict(pair.split("=", 1) for line in lines for pair in shlex.split(line))


def image_version(image: str) -> str:
    """The version of an image that the Dockerfile begins a stage with."""
    found = re.search(rf"^FROM {re.escape(image)}:(\S+)", (PROJECT / "Dockerfile").read_text(), re.MULTILINE)
    if not found:
        raise RuntimeError(f"the Dockerfile has no stage from {image}")
    return found[1]


class Translation:
    """Texts of the file as they hold here. ``net``: the first three numbers of addresses; ``folder``: for data."""

    def __init__(self, names: list[str], net: str, folder: Path) -> None:
        self.addresses = {name: f"{net}.{number}" for number, name in enumerate(names, 2)}
        hosts = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
        # Alone, quoted, or in a URL; not the scheme of s3://.
        self._host = re.compile(rf"(?:(?<=//)|(?<=@)|(?<=\")|(?<=\s)|^)({hosts})(?=:\d|/|\"|$)")
        self._folders = {
            "/opt/tidemark/jars": str(PROJECT / ".tidemark/jars"),
            "/opt/tidemark": str(PROJECT),
            "/var/lib/airflow": str(folder / "airflow"),
            "/tmp/spark-work": str(folder / "spark-work"),
            "/data": str(folder / "s3"),
        }

    def text(self, text: str, own: str) -> str:
        """``own``: the address of the service that reads it, which in a container is its loopback and all there is."""
        for there, here in self._folders.items():
            text = re.sub(rf"(?<![\w/]){re.escape(there)}(?![\w-])", here, text)
        text = re.sub(r"\b(127\.0\.0\.1|0\.0\.0\.0)\b", own, text)
        text = re.sub(r"^(?=:\d+$)", own, text)
        return self._host.sub(lambda found: self.addresses[found[1]], text)


def containers(services: Mapping[str, Any]) -> dict[str, str]:
    """The names of all containers, each with its service's."""
    return {
        name if SCALE.get(name, 1) == 1 else f"{name}-{number}": name
        for name in services
        for number in range(1, SCALE.get(name, 1) + 1)
    }


def as_processes(given: Mapping[str, dict[str, Any]], net: str, folder: Path) -> list[Service]:
    """Every container of the file, as :func:`resolve` reads it, as a process on this machine."""
    names = containers(given)
    translation = Translation(list(names), net, folder)
    found = []
    for name, service in names.items():
        own, described = translation.addresses[name], given[service]
        environment = described.get("environment") or {}
        if described.get("image") == "tidemark":
            environment = image_environment() | environment
        test = (described.get("healthcheck") or {}).get("test") or []
        found.append(
            Service(
                name=name,
                address=own,
                command=[translation.text(str(word), own) for word in described.get("command") or []],
                environment={key: translation.text(str(value), own) for key, value in environment.items()},
                health=[translation.text(str(word), own) for word in test[1:]],
                needs=list(described.get("depends_on") or {}),
            )
        )
    return found
