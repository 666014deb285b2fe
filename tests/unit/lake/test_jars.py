"""The jars are fetched once, whole or not at all."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from zipfile import ZipFile

import pytest

from tidemark.errors import TransientError
from tidemark.lake import jars
from tidemark.settings import Settings

PROJECT = Path(__file__).parent.parent.parent.parent


@pytest.fixture
def resolved(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A stand-in for Spark's resolver: what it resolves, and (by its length) how often it was asked."""
    asked: list[str] = []

    def resolve(ivy: Path, coordinates: Sequence[str], excluded: Sequence[str]) -> list[Path]:
        asked.append("asked")
        jar = ivy / "org_new-1.jar"
        jar.write_bytes(b"jar")
        return [jar]

    monkeypatch.setattr(jars, "resolve", resolve)
    return asked


def test_what_is_there_is_not_fetched_again(tmp_path: Path, resolved: list[str]) -> None:
    assert jars.fetch(tmp_path / "jars")
    assert not jars.fetch(tmp_path / "jars")
    assert len(resolved) == 1


def test_another_set_replaces_the_old_one(tmp_path: Path, resolved: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    jars.fetch(tmp_path)
    (tmp_path / "org_old-1.jar").touch()
    monkeypatch.setattr(jars, "COORDINATES", ("org:new:2",))
    assert jars.fetch(tmp_path)
    assert [jar.name for jar in tmp_path.glob("*.jar")] == ["org_new-1.jar"]


def test_a_set_that_was_interrupted_is_fetched_again(tmp_path: Path, resolved: list[str]) -> None:
    jars.fetch(tmp_path)
    (tmp_path / jars.STAMP).unlink()
    assert jars.fetch(tmp_path)


def test_what_cannot_be_fetched_says_so_and_leaves_the_old_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "org_old-1.jar").touch()
    refused = subprocess.CompletedProcess([], 1, stdout="", stderr="Host not found")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: refused)
    with pytest.raises(TransientError, match="could not be fetched:\nHost not found"):
        jars.fetch(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["org_old-1.jar"]


def test_no_class_of_the_aws_sdk_is_there_twice() -> None:
    """An executor's class path has no order: with two, a task fails or works by chance."""
    settings = Settings(home=PROJECT)
    found = Counter(
        name
        for jar in settings.path(settings.jars).glob("*.jar")
        for name in ZipFile(jar).namelist()
        if name.startswith("software/amazon/") and name.endswith(".class")
    )
    assert found["software/amazon/awssdk/services/s3/S3Client.class"] == 1
    assert [name for name, times in found.items() if times > 1] == []
