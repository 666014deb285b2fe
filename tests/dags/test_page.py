"""The Tidemark page: what it shows of a published hour, to whom, and that nothing from a message runs in a browser."""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from pyspark.sql import SparkSession

from tests.dags.conftest import PROJECT
from tidemark.feeds.loading import load_feed
from tidemark.pipeline.hour import run_hour
from tidemark.settings import Settings

HOUR = "2026-11-20T07"
HOSTILE = "<script>alert(1)</script>"
FEED = """\
feed: {name}
description: "{hostile} of the shop"
owner: shop-data
topics: [t]
exports: {{path: "{exports}/{{topic}}/dt={{date}}/hr={{hour}}/*", marker: null, settle: 0s}}
container: {{type: kafka_json}}
format: {{type: debezium}}
tables: {{s.items: {{name: {name}.items}}}}
"""


def record(op: str, number: int) -> str:
    source = {"ts_ms": 1795132800000, "sequence": f'["1", "{number}"]', "schema": "s", "table": "items", "lsn": number}
    value = {"before": None, "after": {"id": number}, "source": source, "op": op, "transaction": None}
    return json.dumps(
        {"topic": "t", "partition": 0, "offset": number, "key": json.dumps({"id": number}), "value": json.dumps(value)}
    )


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(PROJECT / "plugins"))
    import tidemark_page

    yield tidemark_page
    tidemark_page.app.dependency_overrides.clear()
    sys.modules.pop("tidemark_page")


@pytest.fixture
def published(tmp_path: Path, spark: SparkSession, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Feed ``page_seen`` with one hour of two good records and a bad one, feed ``page_unseen`` with none."""
    for name in ("page_seen", "page_unseen"):
        text = FEED.format(name=name, hostile=HOSTILE, exports=tmp_path)
        (tmp_path / f"{name}.yaml").write_text(text)
    folder = tmp_path / "t/dt=2026-11-20/hr=07"
    folder.mkdir(parents=True)
    lines = [record("c", 1), record("c", 2), record(HOSTILE, 3)]
    (folder / "part.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    run_hour(load_feed(tmp_path / "page_seen.yaml"), HOUR, settings)
    monkeypatch.setenv("TIDEMARK_HOME", str(settings.home))
    monkeypatch.setenv("TIDEMARK_FEEDS", str(tmp_path))


def let_in(page: ModuleType, monkeypatch: pytest.MonkeyPatch, *dags: str) -> None:
    """Somebody is logged in, and may see these DAGs."""
    from airflow.api_fastapi.core_api.security import get_user

    page.app.dependency_overrides[get_user] = lambda: SimpleNamespace(name="ada")

    def may(*, method: str, details: Any, user: Any) -> bool:
        assert (method, user.name) == ("GET", "ada")
        return details.id in dags

    monkeypatch.setattr(page, "get_auth_manager", lambda: SimpleNamespace(is_authorized_dag=may))


def test_the_page_shows_what_became_of_an_hour(
    page: ModuleType, published: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_in(page, monkeypatch, "ingest_page_seen", "ingest_page_unseen")
    client = TestClient(page.app)
    overview = client.get("/").text
    assert '<a href="/tidemark/page_seen/">page_seen</a>' in overview and HOUR in overview
    assert re.findall(r'<td class="(\w*)">(waiting|never ran)</td>', overview) == [
        ("look", "waiting"),
        ("", "never ran"),
    ]
    assert "1 in quarantine: `tidemark quarantine list page_seen`" in overview
    shown = client.get("/page_seen/").text
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", shown)
    assert cells[:12] == ["page_seen", HOUR, "3", "0", "2", "0", "0", "0", "0", "1", "0", "2026-11-20 00:00:00"]
    assert '<b class="look">waiting</b>: 1 in quarantine' in shown
    assert "page_seen: 1 in quarantine" in shown and "unknown op" in shown
    assert "page_seen.items" in shown


def test_nothing_from_messages_and_files_is_markup(
    page: ModuleType, published: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_in(page, monkeypatch, "ingest_page_seen")
    answer = TestClient(page.app).get("/page_seen/")
    assert HOSTILE not in answer.text
    escaped = "&lt;script&gt;alert(1)&lt;/script&gt;"
    assert f"{escaped} of the shop" in answer.text and f"unknown op {escaped}" in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_a_feed_is_shown_to_whoever_may_see_its_dag(
    page: ModuleType, feeds: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_in(page, monkeypatch, "ingest_timed")
    client = TestClient(page.app)
    assert "timed" in client.get("/").text and "shop" not in client.get("/").text.replace("shop-data", "")
    assert client.get("/timed/").status_code == 200
    assert client.get("/shop/").status_code == 404


def test_nobody_sees_anything_without_logging_in(page: ModuleType, feeds: Path) -> None:
    client = TestClient(page.app)
    assert [client.get(path).status_code for path in ("/", "/timed/")] == [401, 401]


def test_airflow_mounts_the_page_and_links_to_it(airflow_database: None) -> None:
    from airflow import plugins_manager

    apps, _ = plugins_manager.get_fastapi_plugins()
    assert [one["url_prefix"] for one in apps if one["name"] == "Tidemark"] == ["/tidemark"]
    views, _ = plugins_manager._get_ui_plugins()
    assert [view["href"] for view in views if view["name"] == "Tidemark"] == ["/tidemark/"]
