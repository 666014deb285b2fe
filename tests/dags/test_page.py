"""The Tidemark page: what its views show of a small lake, to whom, and that nothing from a message runs in a browser."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from pyspark.sql import SparkSession

from tests.dags.conftest import PROJECT
from tidemark.feeds.loading import load_feed
from tidemark.ledger import state_store
from tidemark.operations import feed_health
from tidemark.operations.explained_rows import answer_name, clear_explained, explain_for_page, find_explained
from tidemark.page import overview
from tidemark.pipeline.hour import run_hour
from tidemark.settings import Settings

HOUR = "2026-11-20T07"
HOSTILE = "<script>alert(1)</script>"
ESCAPED = "&lt;script&gt;alert(1)&lt;/script&gt;"
FEED = """\
feed: {name}
description: "{hostile} of the shop"
owner: shop-data
topics: [t]
exports: {{path: "{exports}/{{topic}}/dt={{date}}/hr={{hour}}/*", marker: null, settle: 0s}}
container: {{type: kafka_json}}
format: {{type: debezium}}
tables:
  s.items:
    name: {name}.items
    columns: {{id: bigint}}
    checks: [{{column: id, min: 0, consequence: quarantine}}]
"""
#: All views of the feed that has an hour, and what each is about.
VIEWS = {
    "/": "All feeds",
    "/page_seen/": "page_seen",
    f"/page_seen/hours/{HOUR}/": "page_seen 2026-11-20T07",
    "/page_seen/hours/2026-11-20T06/": "page_seen 2026-11-20T06",
    "/page_seen/quarantine/": "In quarantine: 1",
    "/page_seen/tables/page_seen.items/": "page_seen.items",
}


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


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, settings: Settings) -> Settings:
    """Feed ``page_seen`` with one hour of two good records and a bad one, feed ``page_unseen`` with none."""
    home = tmp_path_factory.mktemp("page")
    for name in ("page_seen", "page_unseen"):
        (home / f"{name}.yaml").write_text(FEED.format(name=name, hostile=HOSTILE, exports=home))
    folder = home / "t/dt=2026-11-20/hr=07"
    folder.mkdir(parents=True)
    lines = [record("c", 1), record("c", 2), record(HOSTILE, 3)]
    (folder / "part.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    run_hour(load_feed(home / "page_seen.yaml"), HOUR, settings)
    return settings.model_copy(update={"feeds": home})


@pytest.fixture
def published(lake: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("TIDEMARK_HOME", str(lake.home))
    monkeypatch.setenv("TIDEMARK_FEEDS", str(lake.feeds))
    monkeypatch.setenv("TIDEMARK_JARS", str(lake.jars))
    return lake


def let_in(page: ModuleType, monkeypatch: pytest.MonkeyPatch, *dags: str) -> TestClient:
    """Somebody is logged in, and may see these DAGs."""
    from airflow.api_fastapi.core_api.security import get_user

    page.app.dependency_overrides[get_user] = lambda: SimpleNamespace(name="ada")

    def may(*, method: str, details: Any, user: Any) -> bool:
        assert (method, user.name) == ("GET", "ada")
        return details.id in dags

    monkeypatch.setattr(page, "get_auth_manager", lambda: SimpleNamespace(is_authorized_dag=may))
    return TestClient(page.app, root_path="/tidemark", raise_server_exceptions=False)


class Outline(HTMLParser):
    """What a page is built of, for the rules below."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def named(self, *names: str) -> list[dict[str, str | None]]:
        return [attrs for tag, attrs in self.tags if tag in names]


def test_the_overview_says_who_needs_a_person_and_why(
    page: ModuleType, published: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = let_in(page, monkeypatch, "ingest_page_seen", "ingest_page_unseen")
    shown = client.get("/").text
    assert '<a href="/tidemark/page_seen/">page_seen</a>' in shown and HOUR in shown
    assert re.findall(r'<td><span class="pill (\w+)', shown) == ["waiting", "never"]
    assert "1 in quarantine: <code>tidemark quarantine list page_seen</code>" in shown
    assert f"{HOUR} to {HOUR}: 3 to 3 records an hour" in shown
    found = client.get("/?format=json").json()["feeds"]
    assert [(one["feed"], one["health"], one["since"], one["quarantined"]) for one in found] == [
        ("page_seen", "waiting", HOUR, 1), ("page_unseen", "never ran", None, 0),
    ]  # fmt: skip
    assert found[0]["recent"] == [{"hour": HOUR, "landed": 3}]


def test_an_hour_adds_up_before_ones_eyes(
    page: ModuleType, published: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = let_in(page, monkeypatch, "ingest_page_seen")
    shown = client.get(f"/page_seen/hours/{HOUR}/").text
    words = re.sub(r"<[^>]+>|\s+", " ", shown)
    assert re.search(r"3 landed = 2 applied \+ 0 duplicate \+ 0 superseded \+ 0 control \+ 0 held \+ 1 quarantined",
                     re.sub(" +", " ", words))  # fmt: skip
    assert 'aria-label="3 entries: 2 applied, 1 quarantined"' in shown and "1 could not be decoded" in shown
    told = client.get(f"/page_seen/hours/{HOUR}/?format=json").json()
    assert told["landed"] + told["split"] == sum(fate["count"] for fate in told["fates"]) == 3
    assert [(table["table"], table["applied"], table["rows_written"]) for table in told["tables"]] == [
        ("page_seen.items", 2, 2)
    ]
    missing = client.get("/page_seen/hours/2026-11-20T06/").text
    assert "There is no receipt of this hour" in missing and "tidemark run page_seen --hour 2026-11-20T06" in missing


def test_the_quarantine_says_what_and_where_from_and_how_to_replay(
    page: ModuleType, published: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = let_in(page, monkeypatch, "ingest_page_seen")
    (reason,) = client.get("/page_seen/quarantine/?format=json").json()["reasons"]
    (entry,) = reason["entries"]
    assert "unknown op" in reason["reason"] and (reason["count"], entry["hour"], entry["record"]) == (1, HOUR, 3)
    assert entry["command"] == f"tidemark quarantine show page_seen {entry['object']} 3"
    assert json.loads(json.loads(entry["raw"])["value"])["after"] == {"id": 3}
    shown = client.get(f"/page_seen/quarantine/?hour={HOUR}").text
    assert f"tidemark quarantine replay page_seen --hour {HOUR}" in shown
    assert 'target="_top" href="/dags/replay_page_seen"' in shown
    assert "Every record that landed was read" in client.get("/page_seen/quarantine/?hour=2026-11-20T06").text


def test_a_table_is_told_from_its_metadata(
    page: ModuleType, published: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = let_in(page, monkeypatch, "ingest_page_seen")
    told = client.get("/page_seen/tables/page_seen.items/?format=json").json()
    assert (told["rows"], told["files"]) == (2, 1) and told["bytes"] > 0
    assert told["columns"] == [{"name": "id", "type": "long", "key": True}]
    checked = {"check": "id >= 0", "consequence": "quarantine", "rows": 2, "failed": 0, "keys": []}
    assert told["checks"] == [checked]
    assert [(cut["hour"], cut["sql"]) for cut in told["cuts"]] == [
        (HOUR, "SELECT * FROM page_seen.items VERSION AS OF 'hour_2026_11_20T07'")
    ]
    assert client.get("/page_seen/tables/page_seen.nothing/").status_code == 404
    shown = client.get("/page_seen/tables/page_seen.items/").text
    assert f'Last changed by hour <a href="/tidemark/page_seen/hours/{HOUR}/">' in shown


def test_a_row_that_is_asked_for_has_its_command_whatever_its_key(
    page: ModuleType, published: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = let_in(page, monkeypatch, "ingest_page_seen")

    def asked(*key: str) -> Any:
        return client.get("/page_seen/tables/page_seen.items/", params={"key": key, "format": "json"}).json()

    for key in ("1", "-1", "--json", "'; rm -rf / #", "$(id)`id`", '"', "\\", "ü €", HOSTILE, ""):
        assert shlex.split(asked(key)["explain"]) == ["tidemark", "explain", "page_seen.items", "--", key]
    assert asked()["explain"] == "tidemark explain page_seen.items" and asked()["key"] == ["id"]
    for key in (("1", "2"), ("1\n",), ("\x1b[2J",)):
        told = asked(*key)
        assert told["explain"] == "tidemark explain page_seen.items" and told["explain_problem"]
    shown = client.get("/page_seen/tables/page_seen.items/", params={"key": HOSTILE}).text
    assert HOSTILE not in shown and f'value="{ESCAPED}"' in shown


@pytest.fixture
def explained(page: ModuleType, published: Settings, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Asks the page for a row of ``page_seen.items``, by a run that Airflow knows to be in a state."""
    client = let_in(page, monkeypatch, "ingest_page_seen", "explain_page_seen")

    def ask(key: str, run: str, state: str | None = "success", answer: str = "json") -> Any:
        monkeypatch.setattr(page, "run_state", lambda dag, run: state if dag == "explain_page_seen" else None)
        asked = {"key": key, "run": run, "format": answer}
        return client.get("/page_seen/tables/page_seen.items/", params=asked)

    return ask


def test_a_run_finds_out_where_a_row_comes_from(explained: Callable[..., Any], published: Settings) -> None:
    told = explained("1", "run 1", "queued").json()["row"]
    assert (told["state"], told["answer"]) == ("waiting", None)
    assert 'role="status" data-again>' in explained("1", "run 1", "running", "html").text, "it looks again by itself"
    explain_for_page("page_seen", "page_seen.items", ["1"], answer_name("run 1"))
    told = explained("1", "run 1").json()["row"]
    assert told["state"] == "told" and told["answer"]["there"] and told["answer"]["problem"] == ""
    (change,) = told["answer"]["changes"]
    assert (change["op"], change["sent"], change["gives"], change["fate"]) == ("insert", {"id": "1"}, ["id"], "applied")
    assert (change["hour"], change["record"]) == (HOUR, 1) and change["object"].endswith("part.jsonl.gz")
    shown = explained("1", "run 1", answer="html").text
    assert 'role="status" data-again>' not in shown and "The row is there" in shown and "record 1 of" in shown
    explain_for_page("page_seen", "page_seen.items", ["9"], answer_name("run 9"))
    assert "There is no such row" in explained("9", "run 9", answer="html").text


def test_what_a_row_holds_is_no_markup(explained: Callable[..., Any], published: Settings) -> None:
    answer = {
        "place": "1", "op": "insert", "key": HOSTILE, "came_from": HOSTILE, "hour": HOUR, "tx": HOSTILE, "object": HOSTILE,
        "record": 1, "entry": 0, "sent": {HOSTILE: f"{HOSTILE}\u202e\x00", "n": None}, "unsent": [HOSTILE],
        "fate": f"in quarantine: {HOSTILE}", "gives": [HOSTILE, "n"],
    }  # fmt: skip
    row = {"table": "page_seen.items", "key": ["1"], "there": True, "changes": [answer], "more": 7}
    folder = Path(published.lake_root) / "_explained/page_seen"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{answer_name('../r')}.json").write_text(json.dumps(row))
    shown = explained("1", "../r", answer="html").text
    assert HOSTILE not in shown and shown.count(ESCAPED) >= 9
    assert "\u202e" not in shown and "\x00" not in shown and "8 changes spoke of its key" in shown


def test_what_cannot_be_found_out_of_a_row_is_said(
    explained: Callable[..., Any], page: ModuleType, published: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    explain_for_page("page_seen", "page_seen.items", ["plugh"], answer_name("no key"))
    assert "no key of page_seen.items: id (bigint)" in explained("plugh", "no key", answer="html").text
    # Another feed's table may be one that the reader may not see.
    explain_for_page("page_unseen", "page_seen.items", ["1"], answer_name("not its own"))
    of_it = published.lake_root + "/_explained/page_unseen/" + answer_name("not its own")
    assert "page_unseen has published no table page_seen.items" in Path(f"{of_it}.json").read_text()
    explain_for_page("page_seen", "page_seen.items", ["2"], answer_name("of 2"))
    other = explained("1", "of 2")
    assert other.status_code == 404 and "explains another row" in other.json()["error"]
    assert "its log says why" in explained("1", "r", "failed", "html").text
    assert [explained("1", "r", state).json()["row"]["state"] for state in ("success", None)] == ["gone", "gone"]
    client = let_in(page, monkeypatch, "ingest_page_seen")
    refused = client.get("/page_seen/tables/page_seen.items/", params={"key": "2", "run": "of 2"})
    assert refused.status_code == 404, "they may see the feed, and not what was found out of its rows"


def test_answers_are_kept_for_a_day(published: Settings) -> None:
    explain_for_page("page_seen", "page_seen.items", ["2"], answer_name("kept"))
    now = datetime.now(UTC)
    clear_explained(published, "page_seen", now + timedelta(hours=23))
    found = find_explained(published, "page_seen", "kept")
    assert found is not None and found.key == ["2"]
    clear_explained(published, "page_seen", now + timedelta(hours=25))
    assert find_explained(published, "page_seen", "kept") is None


def test_tables_are_sorted_by_links(page: ModuleType, published: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    client = let_in(page, monkeypatch, "ingest_page_seen", "ingest_page_unseen")

    def feeds(query: str) -> list[str]:
        return re.findall(r'<th scope="row"><a href="/tidemark/(\w+)/">', client.get(query).text)

    assert feeds("/?sort=-feeds.feed") == ["page_unseen", "page_seen"]
    assert feeds("/?sort=feeds.since") == feeds("/?sort=feeds.__dict__") == feeds("/") == ["page_seen", "page_unseen"]
    turned = client.get("/?sort=feeds.feed").text
    assert '<th scope="col" aria-sort="ascending"><a href="?sort=-feeds.feed#feeds">feed</a></th>' in turned
    assert HOSTILE not in client.get("/", params={"sort": HOSTILE, HOSTILE: HOSTILE}).text


@pytest.mark.parametrize("path", VIEWS)
def test_nothing_from_messages_and_files_is_markup(
    page: ModuleType, published: Settings, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    answer = let_in(page, monkeypatch, "ingest_page_seen").get(path)
    assert HOSTILE not in answer.text and not Outline(answer.text).named("link", "img", "iframe")
    (script,) = re.findall(r"<script>(.*?)</script>", answer.text, re.DOTALL)
    hashed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = answer.headers["content-security-policy"]
    assert f"default-src 'none'; script-src 'sha256-{hashed}'; connect-src 'self';" in policy, (
        "the page's own script runs, and no other"
    )
    if path == "/page_seen/":
        assert f"{ESCAPED} of the shop" in answer.text and f"unknown op {ESCAPED}" in answer.text


@pytest.mark.parametrize(("path", "title"), VIEWS.items())
def test_a_view_can_be_heard_and_walked_by_keyboard(
    page: ModuleType, published: Settings, monkeypatch: pytest.MonkeyPatch, path: str, title: str
) -> None:
    answer = let_in(page, monkeypatch, "ingest_page_seen", "ingest_page_unseen").get(path)
    assert answer.status_code == 200
    found = Outline(answer.text)
    assert re.search(rf"<h1>{re.escape(title)}", answer.text) and len(found.named("h1")) == 1
    assert found.named("html")[0]["lang"] == "en" and found.named("main")[0]["id"] == "main"
    assert [one for one in found.named("a") if one.get("class") == "skip"] == [{"class": "skip", "href": "#main"}]
    assert all(one.get("scope") in ("col", "row") for one in found.named("th"))
    assert all(one.get("aria-label") or one.get("aria-hidden") for one in found.named("svg"))
    levels = [int(tag[1]) for tag, _ in found.tags if re.fullmatch(r"h\d", tag)]
    assert all(after - before <= 1 for before, after in pairwise(levels))
    ids = [attrs["id"] for _, attrs in found.tags if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_a_feed_is_shown_to_whoever_may_see_its_dag(
    page: ModuleType, feeds: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = let_in(page, monkeypatch, "ingest_timed")
    assert "timed" in client.get("/").text and "shop" not in client.get("/").text.replace("shop-data", "")
    assert client.get("/timed/").status_code == 200
    below = ("", f"hours/{HOUR}/", "quarantine/", "tables/shop.orders/")
    assert [client.get(f"/shop/{path}").status_code for path in below] == [404] * 4
    assert client.get("/shop/?format=json").json() == {"error": "There is no such feed, or you may not see its DAG."}


def test_nobody_sees_anything_without_logging_in(page: ModuleType, feeds: Path) -> None:
    client = TestClient(page.app)
    paths = ("/", "/timed/", f"/timed/hours/{HOUR}/", "/timed/quarantine/", "/timed/tables/timed.orders/")
    assert [client.get(path).status_code for path in paths] == [401] * 5


def test_what_cannot_be_read_is_said_in_a_sentence(
    page: ModuleType, feeds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = let_in(page, monkeypatch, "ingest_timed", "ingest_shop")
    state = tmp_path / ".tidemark/lake/_state/timed/00000001.json"
    state.parent.mkdir(parents=True)
    state.write_text("{")
    assert "is damaged" in client.get("/").text, "the other feeds are shown all the same"
    assert client.get("/timed/").status_code == 200 and "is damaged" in client.get("/timed/").text
    hour = client.get(f"/timed/hours/{HOUR}/")
    assert hour.status_code == 503 and "tidemark audit timed --rebuild-state" in hour.text
    assert client.get("/timed/hours/yesterday/").status_code == 404
    (tmp_path / ".tidemark/lake/_lake.json").write_text('{"format": 99, "made_by": "9.9", "id": "x"}')
    for path in ("/", "/timed/", f"/timed/hours/{HOUR}/", "/timed/quarantine/", "/timed/tables/timed.orders/"):
        newer = client.get(path)
        assert newer.status_code == 503 and "its stored format is 99" in newer.text, path
    (tmp_path / ".tidemark/lake/_lake.json").unlink()
    (feeds / "wrong.yaml").write_text("feed: [")
    assert "1 feed file has mistakes" in client.get("/").text
    monkeypatch.setattr(overview, "show_overview", lambda *_: 1 / 0)
    crashed = client.get("/")
    assert crashed.status_code == 500 and "ZeroDivisionError" in crashed.text and "<h1>The page failed" in crashed.text


def test_without_feeds_the_page_says_what_to_do(
    page: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_FEEDS", str(tmp_path))
    assert "There is no feed to show" in let_in(page, monkeypatch).get("/").text


def test_the_overview_reads_one_document_of_each_feed(published: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """With hundreds of feeds it must stay quick: no table is opened where the states tell all, no feed file read twice."""
    read: list[str] = []
    load = state_store.storage_of

    def storage(location: str, settings: Settings) -> Any:
        read.append(location.rpartition("/_state/")[2])
        return load(location, settings)

    monkeypatch.setattr(state_store, "storage_of", storage)
    feeds, broken = overview.known_feeds(published.feeds)
    for module, name in ((feed_health, "list_kept_back"), (state_store, "read_rows"), (overview, "load_feed")):
        monkeypatch.setattr(module, name, lambda *_, name=name, **__: pytest.fail(name))
    feeds, _ = overview.known_feeds(published.feeds)
    seen = [feed for feed in feeds if feed.feed == "page_seen"]
    overview.show_overview(published, seen, broken, datetime.now(UTC))
    assert len(read) == 2 and read[0] == "page_seen" and read[1].startswith("page_seen/"), "listed, and read"


def test_a_run_of_airflow_is_found_by_its_hour(page: ModuleType, airflow_database: None) -> None:
    import tidemark_runs
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import delete, insert

    def run(number: int, hour: int, **more: Any) -> dict[str, Any]:
        at = datetime(2026, 11, 20, hour, tzinfo=UTC)
        return {
            "dag_id": "ingest_runs", "run_id": f"r{number}", "logical_date": at, "data_interval_start": at, "run_after": at,
            "run_type": "scheduled", "state": "success", "clear_number": 0, "triggered_by": "TIMETABLE", "conf": {},
            "span_status": "not_started", **more,
        }  # fmt: skip

    by_hand = run(3, 9, run_type="manual", conf={"hour": "2026-11-20T07"}, logical_date=None, state="failed")
    at_a_quarter = run(4, 10) | {"logical_date": datetime(2026, 11, 20, 10, 15, tzinfo=UTC)}
    by_another_dag = run(5, 12, run_type="operator_triggered", conf={"hour": "2026-11-20T11"})
    try:
        with create_session() as session:
            for values in (run(1, 7), run(2, 8), by_hand, at_a_quarter, by_another_dag):
                session.execute(insert(DagRun).values(**values))
        found, problem = tidemark_runs.newest_runs("runs", _hour(HOUR))
        assert ({hour: (one.run_id, one.state) for hour, one in found.items()}, problem) == (
            {HOUR: ("r3", "failed"), "2026-11-20T08": ("r2", "success"), "2026-11-20T10": ("r4", "success"),
             "2026-11-20T11": ("r5", "success")}, "",
        )  # fmt: skip
        for hour in ("2026-11-20T08", "2026-11-20T10", "2026-11-20T11"):
            assert list(tidemark_runs.newest_runs("runs", _hour(hour), hours=1)[0]) == [hour]
        states = [tidemark_runs.run_state(dag, "r3") for dag in ("ingest_runs", "ingest_other")]
        assert states == ["failed", None]
    finally:
        with create_session() as session:
            session.execute(delete(DagRun).where(DagRun.dag_id == "ingest_runs"))


def _hour(text: str) -> Any:
    from tidemark.hours import Hour

    return Hour.parse(text)


def test_airflow_mounts_the_page_and_links_to_it(airflow_database: None) -> None:
    from airflow import plugins_manager

    apps, _ = plugins_manager.get_fastapi_plugins()
    assert [one["url_prefix"] for one in apps if one["name"] == "Tidemark"] == ["/tidemark"]
    views, _ = plugins_manager._get_ui_plugins()
    assert [view["href"] for view in views if view["name"] == "Tidemark"] == ["/tidemark/"]


def test_airflow_loads_the_plugin_without_spark() -> None:
    """Each of its processes does, and most of them never show the page."""
    heavy = ("pyspark", "pandera", "boto3", "pyiceberg")
    code = f"import sys, tidemark_page; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=PROJECT / "plugins",
        env=os.environ,
    )
    assert done.stdout.splitlines()[-1] == "[]"
