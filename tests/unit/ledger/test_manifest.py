from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tidemark.errors import ConfigError, ExportError
from tidemark.ledger import manifest as manifest_module
from tidemark.ledger.manifest import LandedObject, Manifest, all_objects, load_manifest, load_manifests, save_manifest
from tidemark.settings import Settings

HOUR = "2026-11-20T07"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, lake="lake")


def manifest(version: int, *paths: str) -> Manifest:
    objects = [
        LandedObject(path=path, topic="t", source=f"/x/{path}", fingerprint="m", bytes=1, sha256=path, records=None)
        for path in paths
    ]
    created_at = datetime(2026, 11, 20, 8, version, tzinfo=UTC)
    return Manifest(feed="shop", hour=HOUR, version=version, objects=objects, created_at=created_at)


def test_a_version_is_written_once_and_read_back(settings: Settings) -> None:
    assert save_manifest(settings, manifest(1, "a"))
    assert not save_manifest(settings, manifest(1, "other"))
    assert load_manifest(settings, "shop", HOUR) == manifest(1, "a")
    assert Path(settings.landing_root, "shop", "_manifests", HOUR, "v00001.json").is_file()


def test_versions_are_in_order_and_nothing_of_them_is_lost(settings: Settings) -> None:
    for version, paths in ((10, "cd"), (2, "bc"), (1, "ab")):
        save_manifest(settings, manifest(version, *paths))
    assert [one.version for one in load_manifests(settings, "shop", HOUR)] == [1, 2, 10]
    union = all_objects(settings, "shop", HOUR)
    assert (union.version, [one.path for one in union.objects]) == (10, ["a", "b", "c", "d"])


def test_all_versions_are_read_once(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    for version, paths in ((1, "ab"), (2, "bc")):
        save_manifest(settings, manifest(version, *paths))
    read: list[str] = []
    parse = manifest_module.parse_document

    def counted(model: type[Manifest], text: str, location: str) -> Manifest:
        read.append(location)
        return parse(model, text, location)

    monkeypatch.setattr(manifest_module, "parse_document", counted)
    all_objects(settings, "shop", HOUR)
    assert len(read) == 2


def test_an_hour_without_objects_is_empty_not_missing(settings: Settings) -> None:
    save_manifest(settings, manifest(1))
    assert load_manifest(settings, "shop", HOUR).empty
    assert not manifest(1, "a").empty


def test_an_hour_that_has_not_landed(settings: Settings) -> None:
    assert load_manifests(settings, "shop", HOUR) == []
    with pytest.raises(ExportError, match="has not landed") as raised:
        all_objects(settings, "shop", HOUR)
    assert (raised.value.feed, raised.value.hour) == ("shop", HOUR)
    assert raised.value.fix == f"`tidemark run shop --hour {HOUR}` lands and runs it"


def test_a_damaged_manifest_is_named(settings: Settings) -> None:
    save_manifest(settings, manifest(1, "a"))
    path = Path(settings.landing_root, "shop", "_manifests", HOUR, "v00001.json")
    path.write_text(path.read_text()[:-20])
    with pytest.raises(ExportError, match="damaged") as raised:
        load_manifest(settings, "shop", HOUR)
    assert raised.value.object == str(path)


def test_an_hour_is_no_path(settings: Settings) -> None:
    with pytest.raises(ConfigError):
        load_manifests(settings, "shop", "../2026-11-20T07")
