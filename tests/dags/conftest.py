"""Airflow of its own for the tests: its settings must be in the environment before its first import."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent.parent
_FOLDER = tempfile.TemporaryDirectory(prefix="tidemark-airflow-")

assert "airflow" not in sys.modules, "another test imported Airflow before its settings were made"
os.environ |= {
    "AIRFLOW_HOME": _FOLDER.name,
    "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "dags"),
    "AIRFLOW__CORE__PLUGINS_FOLDER": str(PROJECT / "plugins"),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{_FOLDER.name}/airflow.db",
    "AIRFLOW__LOGGING__BASE_LOG_FOLDER": f"{_FOLDER.name}/logs",
    "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2]"}',
}


@pytest.fixture(scope="session", autouse=True)
def airflow_folder() -> Iterator[None]:
    yield
    _FOLDER.cleanup()


@pytest.fixture(scope="session")
def airflow_database() -> None:
    """Airflow's metadata database, made as ``airflow db migrate`` makes it."""
    from airflow.utils.db import initdb

    initdb()


FEED = """\
feed: {name}
description: Orders of the shop
owner: shop-data
tags: [orders]
topics: [srv.shop.orders, srv.shop.customers]
exports: {{path: "{{topic}}/dt={{date}}/hr={{hour}}/*"}}
container: {{type: kafka_json}}
format: {{type: debezium}}
tables:
  {name}.orders: {{}}
  {name}.customers: {{name: {name}.people}}
retries: 2
"""


@pytest.fixture
def feeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of feed files with one feed on request (shop) and one on schedule (timed)."""
    folder = tmp_path / "feeds"
    folder.mkdir()
    (folder / "shop.yaml").write_text(FEED.format(name="shop"))
    (folder / "timed.yaml").write_text(FEED.format(name="timed") + "start: 2026-11-20T00:00:00Z\n")
    monkeypatch.setenv("TIDEMARK_FEEDS", str(folder))
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path))
    return folder
