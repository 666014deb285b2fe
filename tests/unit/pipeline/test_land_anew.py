"""An hour whose landed copies are of no use lands anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemark.feeds.model import Feed
from tidemark.ledger.manifest import all_objects, load_manifest
from tidemark.pipeline.land import land
from tidemark.settings import Settings

pytestmark = pytest.mark.promise(1)

HOUR = "2026-11-20T07"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path)


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    for name in ("one", "two"):
        write(tmp_path, name, name)
    return Feed.model_validate(
        {
            "feed": "shop", "description": "", "owner": "me", "topics": ["a"], "container": {"type": "lines"},
            "exports": {"path": f"{tmp_path}/exports/{{topic}}/dt={{date}}/hr={{hour}}/*", "marker": None, "settle": "0s"},
            "format": {"type": "debezium"},
        }
    )  # fmt: skip


def write(root: Path, name: str, text: str) -> None:
    folder = root / "exports/a/dt=2026-11-20/hr=07"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def contents(settings: Settings) -> list[str]:
    return sorted(Path(settings.landing_root, o.path).read_text() for o in all_objects(settings, "shop", HOUR).objects)


def test_a_spoilt_copy_is_replaced_by_the_same_export(feed: Feed, settings: Settings) -> None:
    first = land(feed, HOUR, settings)
    Path(settings.landing_root, first.objects[0].path).write_text("spoilt")
    land(feed, HOUR, settings)
    assert "spoilt" in contents(settings)
    again = land(feed, HOUR, settings, anew_behind=0)
    assert again.withdrawn == [landed.path for landed in first.objects]
    assert contents(settings) == ["one", "two"]
    assert again.notes[0].startswith("landed anew: 2 objects that had landed and were not published do not count")
    land(feed, HOUR, settings)
    assert load_manifest(settings, "shop", HOUR).version == 2, "what is withdrawn is not taken for the export's"


def test_a_mended_export_takes_the_place_of_what_landed(feed: Feed, settings: Settings, tmp_path: Path) -> None:
    land(feed, HOUR, settings)
    write(tmp_path, "two", "mended")
    land(feed, HOUR, settings)
    assert contents(settings) == ["mended", "one", "two"], "as usual nothing that landed is lost"
    land(feed, HOUR, settings, anew_behind=0)
    assert contents(settings) == ["mended", "one"]


def test_what_is_published_stays(feed: Feed, settings: Settings, tmp_path: Path) -> None:
    land(feed, HOUR, settings)
    write(tmp_path, "three", "spoilt")
    land(feed, HOUR, settings)
    write(tmp_path, "three", "mended")
    again = land(feed, HOUR, settings, anew_behind=1)
    assert contents(settings) == ["mended", "one", "two"]
    assert [path.split("/")[4] for path in again.withdrawn] == ["v00002"]


def test_with_nothing_unpublished_it_lands_as_usual(feed: Feed, settings: Settings) -> None:
    first = land(feed, HOUR, settings)
    assert land(feed, HOUR, settings, anew_behind=1) == first
