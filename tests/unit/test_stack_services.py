"""docker-compose.yaml as processes of this machine (``make stack``): the same services, commands and settings."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts.compose_file import (
    PROJECT,
    SCALE,
    Service,
    Translation,
    as_processes,
    image_environment,
    image_version,
    resolve,
)

NET = "127.78.9"


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    file = tmp_path_factory.mktemp("stack") / ".env"
    subprocess.run([PROJECT / "scripts/make-env", file], check=True, capture_output=True)
    return resolve(file)["services"]


@pytest.fixture(scope="module")
def services(given: dict[str, dict[str, Any]]) -> dict[str, Service]:
    return {service.name: service for service in as_processes(given, NET, Path("/stack"))}


def test_every_service_of_the_file_is_one_or_as_many_processes_as_are_said(
    given: dict[str, Any], services: dict[str, Service]
) -> None:
    numbers = {name: sum(re.fullmatch(rf"{name}(-\d+)?", one) is not None for one in services) for name in given}
    assert numbers == {name: SCALE.get(name, 1) for name in given}
    assert len({service.address for service in services.values()}) == len(services) == sum(numbers.values())


def test_commands_settings_checks_and_the_order_of_starts_are_the_file_s(
    given: dict[str, Any], services: dict[str, Service]
) -> None:
    """But for hosts and folders, which are blotted out on both sides."""
    hosts = sorted([*given, *services, *(service.address for service in services.values())], key=len, reverse=True)
    folders = [str(PROJECT / ".tidemark/jars"), str(PROJECT), "/opt/tidemark/jars", "/opt/tidemark"]
    folders += ["/var/lib/airflow", "/stack/airflow", "/tmp/spark-work", "/stack/spark-work", "/data", "/stack/s3"]
    same = re.compile("|".join(map(re.escape, [*folders, *hosts, "127.0.0.1", "0.0.0.0"])))
    for name, service in services.items():
        there = given[name if name in given else name.rpartition("-")[0]]
        command = [same.sub("*", str(word)) for word in there.get("command") or []]
        assert [same.sub("*", word) for word in service.command] == [
            re.sub(r"^:(?=\d+$)", "*:", word) for word in command
        ]
        test = [same.sub("*", str(word)) for word in (there.get("healthcheck") or {}).get("test") or []]
        assert [same.sub("*", word) for word in service.health] == test[1:]
        image = image_environment() if there.get("image") == "tidemark" else {}
        environment = {
            key: same.sub("*", str(value)) for key, value in (image | (there.get("environment") or {})).items()
        }
        assert {key: same.sub("*", value) for key, value in service.environment.items()} == environment
        assert service.needs == list(there.get("depends_on") or {})


def test_nothing_of_a_container_is_left(given: dict[str, Any], services: dict[str, Service]) -> None:
    for service in services.values():
        for text in (*service.command, *service.health, *service.environment.values()):
            for host in given:
                assert not re.search(rf"(//|@|^|\"|\s){host}(:\d|/|\"|$)", text), text
            assert not re.search(r"/opt/tidemark|/var/lib/airflow|/tmp/spark-work|0\.0\.0\.0|127\.0\.0\.1", text), text


def test_what_is_no_host_stays() -> None:
    translation = Translation(["s3", "postgres"], NET, Path("/stack"))
    same = ["s3://exports", "lake", "jdbc:sqlite:/lake/postgres.db", "/data-of-s3/x", "postgresql+psycopg2", "a:7070"]
    assert [translation.text(text, f"{NET}.7") for text in same] == same
    texts = [
        "http://s3:7070",
        "postgresql+psycopg2://a:b@postgres/a",
        '{"host": "s3"}',
        "s3",
        ":7070",
        "http://0.0.0.0:1/",
    ]
    assert [translation.text(text, f"{NET}.7") for text in texts] == [
        f"http://{NET}.2:7070", f"postgresql+psycopg2://a:b@{NET}.3/a", f'{{"host": "{NET}.2"}}', f"{NET}.2",
        f"{NET}.7:7070", f"http://{NET}.7:1/",
    ]  # fmt: skip


def test_the_image_s_own_settings_are_read(services: dict[str, Service]) -> None:
    assert image_environment()["TIDEMARK_JARS"] == "/opt/tidemark/jars"
    assert services["spark-worker-2"].environment["SPARK_WORKER_DIR"] == "/stack/spark-work"
    assert re.fullmatch(r"v\d+\.\d+\.\d+", image_version("versity/versitygw"))


def test_a_command_in_the_stack_has_the_feeds_that_it_was_started_with(tmp_path: Path) -> None:
    subprocess.run([PROJECT / "scripts/make-env", tmp_path / ".env"], check=True, capture_output=True)
    asks = "import stack; print(stack.environment(stack.services()['airflow-scheduler'])['TIDEMARK_FEEDS'])"
    told = []
    for feeds in ("/of/the/start", None, "/of/the/command"):
        given = {"TIDEMARK_STACK_FOLDER": str(tmp_path)} | ({"TIDEMARK_FEEDS": feeds} if feeds else {})
        clean = {name: value for name, value in os.environ.items() if not name.startswith("TIDEMARK_")}
        done = subprocess.run(
            [sys.executable, "-c", asks], cwd=PROJECT / "scripts", env=clean | given, check=True, capture_output=True
        )
        told.append(done.stdout.decode().strip())
    assert told == ["/of/the/start", "/of/the/start", "/of/the/command"]
