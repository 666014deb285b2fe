"""What the doctor finds, on an installation that is well and on one that is not."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tidemark.hours import Hour
from tidemark.lake.lake_marker import open_lake
from tidemark.ledger.feed_state import FeedState, HourRange
from tidemark.ledger.state_store import save_state
from tidemark.operations import doctor
from tidemark.operations.doctor import Finding, examine
from tidemark.settings import Settings
from tidemark.storage.local_files import LocalFiles

HOUR = Hour("2026-11-20T07")


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://127.0.0.1:9")
    (tmp_path / "feeds").mkdir()
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars/org.apache.iceberg_iceberg-spark-runtime-4.1_2.13-1.12.0.jar").touch()
    return Settings(home=tmp_path, feeds=Path("feeds"), jars=Path("jars"), lake="lake", exports="exports")


def found(settings: Settings, what: str) -> Finding:
    return next(one for one in examine(settings) if one.what == what)


def test_a_jar_for_another_spark(settings: Settings) -> None:
    well = found(settings, "versions")
    assert well.good and "PySpark 4.1" in well.found and "Airflow 3." in well.found
    (settings.path(settings.jars) / "iceberg-spark-runtime-3.5_2.12-1.5.0.jar").touch()
    other = found(settings, "versions")
    assert not other.good and other.found.endswith("the Iceberg jar is for Spark 3.5")


def test_a_variable_that_is_no_setting(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TIDEMARK_LAKE", "tidemark_landing", "TIDEMARK_STACK_NET"):
        monkeypatch.setenv(name, "x")
    assert found(settings, "settings").good
    monkeypatch.setenv("TIDEMARK_LAKES", "s3://bucket/lake")
    told = found(settings, "settings")
    assert (
        not told.good and told.found.startswith("TIDEMARK_LAKES: no setting") and "; TIDEMARK_LAKE is one" in told.found
    )
    monkeypatch.delenv("TIDEMARK_LAKES")
    monkeypatch.setenv("TIDEMARK_XYZZY", "1")
    assert "docs/settings-reference.md" in found(settings, "settings").found


def test_what_spark_is_started_with(settings: Settings) -> None:
    assert found(settings, "Spark") == Finding("Spark", True, "on local[2]")
    conf = {"spark.sql.session.timeZone": "Europe/Berlin"}
    wrong = found(settings.model_copy(update={"spark_conf": conf}), "Spark")
    assert not wrong.good and wrong.found.startswith("TIDEMARK_SPARK_CONF sets spark.sql.session.timeZone")
    nobody = found(settings.model_copy(update={"spark_master": "spark://127.0.0.1:9"}), "Spark")
    assert not nobody.good and nobody.found.startswith("spark://127.0.0.1:9 does not answer")
    with socket.create_server(("127.0.0.1", 0)) as master:
        cluster = {"spark_master": f"spark://127.0.0.1:{master.getsockname()[1]}"}
        told = found(settings.model_copy(update=cluster), "Spark")
        assert told.good and f"its executors must see {settings.lake_root} and" in told.found
        on_s3 = Settings(home=settings.home, lake="s3://bucket/lake", **cluster)
        assert doctor._spark(on_s3) == Finding("Spark", True, f"on {on_s3.spark_master}")


def test_a_clock_that_is_off(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(settings, "clock") == Finding("clock", True, "agrees with the lake's storage")
    lake = doctor._lake

    def written_long_ago(settings: Settings) -> Finding:
        said = lake(settings)
        os.utime(Path(settings.lake_root) / "_doctor", (time.time() - 600,) * 2)
        return said

    monkeypatch.setattr(doctor, "_lake", written_long_ago)
    off = found(settings, "clock")
    assert not off.good and "600 s off: set both clocks by a time server" in off.found


def test_a_lake_that_cannot_be_written_says_nothing_of_the_clock(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file is of an earlier look."""
    assert found(settings, "clock").good
    os.utime(Path(settings.lake_root) / "_doctor", (time.time() - 600,) * 2)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(LocalFiles, "write_new", full)
    assert found(settings, "clock") == Finding("clock", False, "it is compared with the storage of a lake that is well")
    assert "No space left" in found(settings, "lake").found


def test_what_a_catalogs_address_asks_for_is_not_shown(settings: Settings) -> None:
    """It may be a secret of a REST catalog."""
    told = found(
        settings.model_copy(update={"catalog_uri": "ftp://127.0.0.1/api?s3.secret-access-key=sesame"}), "catalog"
    )
    assert not told.good and "ftp://127.0.0.1/api" in told.found and "sesame" not in told.found


def test_a_disk_that_is_nearly_full(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(settings, "disk").good
    monkeypatch.setattr(doctor, "_LITTLE_ROOM", 1 << 60)
    assert not found(settings, "disk").good


@contextmanager
def airflow(health: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(health).encode())

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("AIRFLOW__API__BASE_URL", f"http://127.0.0.1:{server.server_port}/")
        yield
        server.shutdown()


def test_airflow(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(settings, "Airflow").found.startswith("none answers at http://127.0.0.1:9:")
    well = {"metadatabase": {"status": "healthy"}, "triggerer": {"status": None}, "scheduler": {"status": "healthy"}}
    with airflow(well, monkeypatch):
        assert found(settings, "Airflow").found.endswith("all services are healthy")
    with airflow(well | {"triggerer": {"status": "unhealthy"}}, monkeypatch):
        ill = found(settings, "Airflow")
        assert not ill.good and ill.found.endswith("triggerer is unhealthy")


def test_what_the_next_hour_of_a_feed_waits_for(settings: Settings) -> None:
    feed = {
        "feed": "shop", "description": "d", "owner": "o", "topics": ["t"], "format": {"type": "canal"},
        "container": {"type": "kafka_json"}, "exports": {"path": "{topic}/dt={date}/hr={hour}/*"},
    }  # fmt: skip
    (settings.path(settings.feeds) / "shop.yaml").write_text(yaml.safe_dump(feed))
    an_hour_ago = datetime.now(UTC) - timedelta(hours=1)
    assert found(settings, "export").found.startswith(f"shop {an_hour_ago:%Y-%m-%dT%H}: "), "it ended last"
    feed |= {"start": "2026-11-19T05:00:00Z"}
    (settings.path(settings.feeds) / "shop.yaml").write_text(yaml.safe_dump(feed))
    assert found(settings, "export").found.startswith("shop 2026-11-19T05: "), "it has published nothing"
    open_lake(settings)
    hours = [HourRange(first=HOUR, last=HOUR, sequence=1, version=1)]
    save_state(settings, FeedState(feed="shop", last_sequence=1, hours=hours))
    assert "shop 2026-11-20T08: " in found(settings, "export").found
    assert "there is no folder" in found(settings, "export").found
    settings.path("exports").mkdir()
    assert "_SUCCESS" in found(settings, "export").found
