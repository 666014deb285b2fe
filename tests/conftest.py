"""One Spark session for the whole test process: a start costs seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidemark.lake.session import open_session
from tidemark.lake.spark_conf import QUICK_JAVA
from tidemark.settings import Settings

PROJECT = Path(__file__).parent.parent


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes are no name: gzip writes the clock into them, and each process of a run would collect other tests."""
    return argname if isinstance(val, bytes) else None


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """An installation of its own: lake, landing and exports in a temporary folder, feeds and jars of the project."""
    home = tmp_path_factory.mktemp("home")
    # Many short jobs: the JVM's quick compiler costs them less than its good one.
    quick = {
        "spark.driver.extraJavaOptions": QUICK_JAVA,
        "spark.sql.shuffle.partitions": "2",
    }
    return Settings(home=home, feeds=PROJECT / "include/feeds", jars=PROJECT / ".tidemark/jars", spark_conf=quick)


@pytest.fixture(scope="session")
def spark(settings: Settings) -> Iterator[SparkSession]:
    session = open_session(settings, "tests")
    yield session
    session.stop()
