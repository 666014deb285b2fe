"""How an operator names a reload: a version of the hour's manifest that brings no object."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidemark.cli import app
from tidemark.errors import ConfigError, ExportError
from tidemark.feeds.model import Feed
from tidemark.hours import Hour
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.hour_order import comes_next
from tidemark.ledger.manifest import (
    LandedObject,
    Manifest,
    all_objects,
    first_landed,
    has_landed,
    load_manifests,
    save_manifest,
)
from tidemark.ledger.reloads import ALL, name_reloads
from tidemark.pipeline.land import land
from tidemark.settings import Settings

HOUR = Hour("2026-11-20T07")
FILE = """\
feed: crm
description: d
owner: o
topics: [crm.a]
exports: {path: "{topic}/dt={date}/hr={hour}/*", marker: null, settle: 0s, missing: empty}
container: {type: kafka_json}
format: {type: qlik}
tables:
  CRM.ACCOUNTS: {}
  CRM.ORDERS: {name: crm.bought}
"""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    (tmp_path / "exports").mkdir()
    (tmp_path / "feeds").mkdir()
    (tmp_path / "feeds/crm.yaml").write_text(FILE)
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path))
    monkeypatch.setenv("TIDEMARK_FEEDS", str(tmp_path / "feeds"))
    monkeypatch.setenv("TIDEMARK_LAKE", str(tmp_path / "lake"))
    monkeypatch.setenv("TIDEMARK_EXPORTS", str(tmp_path / "exports"))
    return Settings()


@pytest.fixture
def feed(settings: Settings) -> Feed:
    from tidemark.feeds.loading import find_feed

    return find_feed("crm", settings, deep=False)


def versions(settings: Settings) -> list[list[str] | None]:
    return [manifest.reloads for manifest in load_manifests(settings, "crm", HOUR)]


def test_a_table_is_named_as_published_or_as_at_the_source_and_once(feed: Feed, settings: Settings) -> None:
    assert name_reloads(feed, ["crm.bought"], HOUR, settings) == (["CRM.ORDERS"], False)
    assert name_reloads(feed, ["CRM.ORDERS"], HOUR, settings) == (["CRM.ORDERS"], False)
    assert versions(settings) == [["CRM.ORDERS"]]
    assert name_reloads(feed, ["crm.accounts"], HOUR, settings)[0] == ["CRM.ACCOUNTS", "CRM.ORDERS"]
    assert name_reloads(feed, [], HOUR, settings)[0] == [ALL, "CRM.ACCOUNTS", "CRM.ORDERS"]


def test_it_is_taken_back(feed: Feed, settings: Settings) -> None:
    name_reloads(feed, ["CRM.ACCOUNTS", "CRM.ORDERS"], HOUR, settings)
    assert name_reloads(feed, ["crm.accounts"], HOUR, settings, revoke=True)[0] == ["CRM.ORDERS"]
    with pytest.raises(ConfigError, match=r"names no reload of CRM.ACCOUNTS: it names CRM.ORDERS"):
        name_reloads(feed, ["CRM.ACCOUNTS"], HOUR, settings, revoke=True)
    assert name_reloads(feed, [], HOUR, settings, revoke=True) == ([], False)
    land(feed, HOUR, settings)
    assert all_objects(settings, "crm", HOUR).reloads == []


@pytest.mark.promise(2)
@pytest.mark.parametrize("exported", [True, False], ids=["with an export", "an empty hour"])
def test_an_hour_that_is_only_named_has_not_landed(feed: Feed, settings: Settings, exported: bool) -> None:
    """A job that goes on with the hours behind its own would publish it without its export."""
    state, before = FeedState(feed="crm"), HOUR.plus(-1)

    def landed() -> tuple[bool, Hour | None, bool]:
        return has_landed(settings, "crm", HOUR), first_landed(settings, "crm"), comes_next(settings, state, HOUR)

    for table in ("CRM.ACCOUNTS", "CRM.ORDERS"):  # the second finds what the first has said
        name_reloads(feed, [table], HOUR, settings)
        assert landed() == (False, None, False)
    with pytest.raises(ExportError, match="the hour has not landed"):
        all_objects(settings, "crm", HOUR)
    if exported:
        folder = Path(settings.exports, f"crm.a/dt={HOUR.date}/hr={HOUR.clock}")
        folder.mkdir(parents=True)
        (folder / "a").write_text("")
    assert land(feed, HOUR, settings).version == 3
    assert landed() == (True, HOUR, True)
    assert land(feed, HOUR, settings).version == 3, "again there is nothing new"
    whole = all_objects(settings, "crm", HOUR)
    assert (len(whole.objects), whole.reloads) == (int(exported), ["CRM.ACCOUNTS", "CRM.ORDERS"])
    name_reloads(feed, ["CRM.ORDERS"], HOUR, settings, revoke=True)
    assert landed() == (True, HOUR, True)
    name_reloads(feed, ["CRM.ORDERS"], before, settings)
    assert first_landed(settings, "crm") == HOUR


def test_what_lands_before_and_after_stays(feed: Feed, settings: Settings) -> None:
    def manifest(version: int, *paths: str) -> Manifest:
        objects = [
            LandedObject(path=path, topic="crm.a", source=path, fingerprint="-", bytes=1, sha256="0", records=1)
            for path in paths
        ]
        return Manifest(
            feed="crm", hour=HOUR, version=version, objects=objects, created_at=datetime(2026, 1, 1, tzinfo=UTC)
        )

    save_manifest(settings, manifest(1, "crm/a/v00001/a"))
    name_reloads(feed, ["CRM.ACCOUNTS"], HOUR, settings)
    save_manifest(settings, manifest(3, "crm/a/v00001/a", "crm/a/v00003/b"))
    whole = all_objects(settings, "crm", HOUR)
    assert (whole.version, whole.reloads, len(whole.objects)) == (3, ["CRM.ACCOUNTS"], 2)
    assert versions(settings) == [None, ["CRM.ACCOUNTS"], None]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["crn", "--hour", HOUR], "did you mean `crm`?"),
        (["crm", "crm.acounts", "--hour", HOUR], "did you mean `crm.accounts`?"),
        (["crm", "zzz", "--hour", HOUR], "it has: CRM.ACCOUNTS, CRM.ORDERS, crm.accounts, crm.bought"),
        (["crm", "crm.bought", "--hour", "2026-11-20 07:30"], "write it like 2026-11-20T07"),
        (["crm", "crm.bought", "--hour", HOUR, "--revoke"], "names no reload of CRM.ORDERS: it names none"),
    ],
)
def test_what_is_wrong_is_said(settings: Settings, arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["reload", *arguments])
    assert isinstance(result.exception, ConfigError) and said in str(result.exception)
    assert versions(settings) == []


def test_the_command_says_what_comes_next(settings: Settings) -> None:
    said = CliRunner().invoke(app, ["reload", "crm", "CRM.ORDERS", "--hour", HOUR]).output
    assert said == f"crm {HOUR}: reload of crm.bought; it counts when the hour is run, and in every later run\n"
    assert (
        CliRunner().invoke(app, ["reload", "crm", "--hour", HOUR, "--revoke"]).output
        == f"crm {HOUR}: no reload begins in it\n"
    )
