"""docker-compose.yaml as compose implementations read it, and what holds for every service in it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose

from scripts.compose_file import resolve

PROJECT = Path(__file__).parent.parent.parent
ONCE = {"airflow-init"}


@pytest.fixture(scope="module")
def env_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What scripts/make-env writes."""
    folder = tmp_path_factory.mktemp("compose")
    (folder / "scripts").mkdir()
    for name in (".env.example", "scripts/make-env"):
        (folder / name).write_bytes((PROJECT / name).read_bytes())
    subprocess.run(["sh", "scripts/make-env"], cwd=folder, check=True, capture_output=True)
    return folder / ".env"


@pytest.fixture(scope="module")
def resolved(env_file: Path) -> dict[str, dict[str, Any]]:
    return resolve(env_file)


@pytest.fixture(scope="module")
def services(resolved: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return resolved["services"]


def secrets(env_file: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in env_file.read_text().splitlines() if re.match(r"[A-Z0-9_]+=", line))


def test_it_is_a_compose_file(resolved: dict[str, dict[str, Any]]) -> None:
    parsed = PyCompose.from_yaml(yaml.safe_dump(resolved))
    parsed.validate()
    assert {"postgres", "s3", "spark-master", "spark-worker", "airflow-scheduler"} <= set(parsed.service_names())


def test_the_parser_sees_mistakes(resolved: dict[str, dict[str, Any]]) -> None:
    with pytest.raises(ValueError, match="healthchek"):
        PyCompose.from_yaml(yaml.safe_dump(resolved).replace("healthcheck:", "healthchek:", 1))


@pytest.mark.parametrize(
    "name",
    re.findall(r"^([A-Z0-9_]+)=$", (PROJECT / ".env.example").read_text(), re.MULTILINE),
)
def test_no_secret_has_a_default(name: str, env_file: Path, tmp_path: Path) -> None:
    without = tmp_path / ".env"
    without.write_text("".join(line for line in env_file.open() if not line.startswith(f"{name}=")))
    with pytest.raises(RuntimeError, match=name):
        resolve(without)


def test_made_secrets_are_all_different_and_for_the_owner_only(env_file: Path) -> None:
    made = [value for name, value in secrets(env_file).items() if not name.startswith("SPARK_WORKER")]
    assert len(made) == len(set(made)) == 7
    assert all(len(value) >= 44 for value in made)
    assert env_file.stat().st_mode & 0o077 == 0


def test_secrets_stand_in_no_file(services: dict[str, dict[str, Any]], env_file: Path) -> None:
    """Whatever is called a secret comes from .env, in every service."""
    values = set(secrets(env_file).values())
    for name, service in services.items():
        for key, value in (service.get("environment") or {}).items():
            if re.search(r"PASSWORD$|SECRET|FERNET|_KEY$", key) and key not in ("AWS_ACCESS_KEY_ID", "ROOT_ACCESS_KEY"):
                assert value in values, f"{name}: {key}"
            if match := re.search(r"://[^:/@]+:([^@]+)@", str(value)):
                assert match[1] in values, f"{name}: {key}"


def test_services_are_healthy_or_over(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        if name in ONCE:
            assert service["restart"] == "no"
            continue
        assert service["restart"] == "unless-stopped", name
        assert {"test", "interval", "timeout", "retries"} <= set(service["healthcheck"]), name


def test_services_wait_for_what_they_need(services: dict[str, dict[str, Any]]) -> None:
    waited: dict[str, dict[str, str]] = {
        name: {other: rule["condition"] for other, rule in (service.get("depends_on") or {}).items()}
        for name, service in services.items()
    }
    for name, others in waited.items():
        for other, condition in others.items():
            wanted = "service_completed_successfully" if other in ONCE else "service_healthy"
            assert condition == wanted, f"{name} → {other}"
    assert set(waited["airflow-init"]) == {"postgres", "s3"}
    for name in services:
        if name.startswith("airflow-") and name not in ONCE:
            assert "airflow-init" in waited[name], name
    assert {"airflow-api-server", "spark-master"} <= set(waited["airflow-scheduler"])
    assert "spark-master" in waited["spark-worker"]


def test_no_check_needs_a_service_that_waits_for_it(services: dict[str, dict[str, Any]]) -> None:
    """Airflow's monitor is unhealthy until a scheduler runs."""
    for name in services["airflow-scheduler"]["depends_on"]:
        asked = " ".join(map(str, (services[name].get("healthcheck") or {}).get("test") or []))
        assert "/monitor/health" not in asked, name


def test_nothing_runs_as_root_or_may_become_it(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", service["user"]), name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert "privileged" not in service, name


def test_only_airflows_pages_are_reached_from_outside_and_only_from_this_machine(
    services: dict[str, dict[str, Any]],
) -> None:
    published = {name: service["ports"] for name, service in services.items() if service.get("ports")}
    assert published == {"airflow-api-server": ["127.0.0.1:8080:8080"]}


def test_images_have_a_version(services: dict[str, dict[str, Any]]) -> None:
    pulled = [service["image"] for service in services.values() if "image" in service and "build" not in service]
    pulled += re.findall(r"^FROM (\S+[:/]\S+)", (PROJECT / "Dockerfile").read_text(), re.MULTILINE)
    assert len(pulled) == 3
    assert all(re.search(r":v?\d+\.?\d*", image) for image in pulled), pulled


def test_what_services_run_and_mount_is_there(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        words = [*(service.get("command") or []), *((service.get("healthcheck") or {}).get("test") or [])]
        for word in words:
            if str(word).startswith("scripts/"):
                assert (PROJECT / word).is_file(), f"{name}: {word}"
        for volume in service.get("volumes") or []:
            source = volume["source"] if isinstance(volume, dict) else str(volume).split(":")[0]
            if "/" in source:
                assert (PROJECT / source).exists(), f"{name}: {source}"


def test_the_image_runs_without_root_too() -> None:
    stages = re.split(r"^FROM ", (PROJECT / "Dockerfile").read_text(), flags=re.MULTILINE)[1:]
    final = {stage.split("AS ")[1].split()[0]: stage for stage in stages if "AS " in stage.splitlines()[0]}
    assert "USER 10001:10001" in final["tidemark"]
    assert "USER 10001:10001" in final["s3"]
