"""An hour whose landed copy cannot be read goes on once it has landed anew."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tests.e2e.debezium_messages import HOURS, event, row
from tests.e2e.one_table_feed import OneTableFeed, rows
from tidemark.cli import app
from tidemark.errors import ExportError
from tidemark.ledger.manifest import load_manifest
from tidemark.operations.audit import audit
from tidemark.page.hour_view import show_hour
from tidemark.pipeline.hour import land_anew
from tidemark.pipeline.land import land
from tidemark.settings import Settings


@pytest.mark.full
@pytest.mark.promise(1)
def test_a_damaged_copy_is_named_and_the_hour_lands_anew(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    run = OneTableFeed("anew", tmp_path / "exports", settings)
    run(HOURS[0], [event("c", 10, row(1, 1))])
    folder = tmp_path / f"exports/t/dt={HOURS[1].date}/hr={HOURS[1].clock}"
    folder.mkdir(parents=True)
    feed = run.definition()
    (folder / "sub").mkdir()
    (folder / "sub/part-9.jsonl").write_text("{}")
    sent = [event("u", 20, row(1, 2)), event("c", 21, row(2, 2))]
    (folder / "part-0.jsonl.gz").write_bytes(gzip.compress("\n".join(map(json.dumps, sent)).encode()))
    landed = land(feed, HOURS[1], settings).objects[0]
    copy = Path(settings.landing_root, landed.path)
    copy.write_bytes(copy.read_bytes()[:-20])
    with pytest.raises(ExportError, match="cannot be read") as refused:
        run(HOURS[1], None)
    assert refused.value.object == landed.path and "tidemark land anew --hour 2026-11-20T01 --anew" in (
        refused.value.fix or ""
    )
    with pytest.raises(ExportError):  # the landing keeps its copy
        run(HOURS[1], None)
    land_anew(feed, HOURS[1], settings)
    receipt = run(HOURS[1], None)
    assert (receipt.landed, receipt.counts.applied) == (2, 2)
    assert [note.split(":")[0] for note in receipt.notes] == ["t", "landed anew"]
    assert [one["n"] for one in rows(settings, run)] == [2, 2]
    assert not audit(feed, settings).findings
    land_anew(feed, HOURS[1], settings)
    assert load_manifest(settings, "anew", HOURS[1]).version == 2, "what is published stays"


@pytest.mark.full
@pytest.mark.promise(1)
def test_what_has_landed_of_a_published_hour_and_is_not_published_is_told(
    run: OneTableFeed, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(HOURS[0], [event("c", 10, row(1, 1))])
    feed = run.export(HOURS[0], [event("c", 20, row(2, 2))])
    for name in ("home", "lake", "jars"):
        monkeypatch.setenv(f"TIDEMARK_{name.upper()}", str(getattr(settings, name)))
    monkeypatch.setattr("tidemark.feeds.loading.find_feed", lambda *_: feed)
    again = f"`tidemark run {feed.feed} --hour {HOURS[0]}` publishes it"
    landed = CliRunner().invoke(app, ["land", feed.feed, "--hour", HOURS[0]])
    assert f"version 2, 2 objects; the hour is published without it: {again}" in " ".join(landed.output.split())
    (found,) = audit(feed, settings).findings
    assert (found.kind, found.found, found.fix) == ("manifest", "is not published", again)
    assert found.where == f"hour {HOURS[0]}, version 2"
    assert show_hour(settings, feed, HOURS[0], None).notes == [f"version 2 of its export is not published: {again}"]
    assert run(HOURS[0], None).landed == 2
    assert not audit(feed, settings).findings
    assert "not published" not in " ".join(show_hour(settings, feed, HOURS[0], None).notes)
