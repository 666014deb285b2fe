"""The refusal of what has another format than this release's, before anything is written."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tidemark import __version__
from tidemark.errors import StoredFormatError, TerminalError
from tidemark.lake.lake_marker import LakeMarker, check_lake, open_lake, read_marker, write_marker
from tidemark.lake.stored_formats import FORMAT, StoredDocument, check_table, parse_document
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.manifest import Manifest, load_manifests
from tidemark.ledger.receipts import Receipt
from tidemark.operations.doctor import examine
from tidemark.operations.reports import newest_receipts
from tidemark.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, lake="lake")


def _marker(settings: Settings) -> Path:
    return Path(settings.lake_root) / "_lake.json"


def test_the_first_use_marks_the_lake_and_no_later_one_does(settings: Settings) -> None:
    open_lake(settings)
    text = _marker(settings).read_text()
    marker = json.loads(text)
    assert len(marker.pop("id")) == 32
    assert marker == {"format": FORMAT, "made_by": __version__, "in_catalog": False}
    open_lake(settings)
    assert _marker(settings).read_text() == text


def test_two_that_open_a_new_lake_at_once_agree(settings: Settings) -> None:
    def ids(_: int) -> str | None:
        open_lake(settings)
        marker = read_marker(settings)
        return marker and marker.id

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(ids, range(40)))) == 1


def test_to_read_a_lake_that_is_not_made_yet_makes_nothing(settings: Settings) -> None:
    check_lake(settings)
    assert newest_receipts(settings) == []
    assert not Path(settings.lake_root).exists()


def test_a_newer_lake_is_refused_and_names_the_release_to_install(settings: Settings) -> None:
    write_marker(settings, LakeMarker(format=FORMAT + 1, made_by="7.8.9", id="its own"))
    for refuse in (open_lake, check_lake, newest_receipts):
        with pytest.raises(StoredFormatError) as raised:
            refuse(settings)
        assert f"its stored format is {FORMAT + 1}; this is Tidemark {__version__}" in raised.value.problem
        assert raised.value.fix == "install Tidemark 7.8.9 or newer"
    assert sorted(path.name for path in Path(settings.lake_root).iterdir()) == ["_lake.json"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": "x"}', '{"format": 1}', "\x00"])
def test_a_damaged_marker_is_no_new_lake(settings: Settings, text: str) -> None:
    open_lake(settings)
    _marker(settings).write_text(text)
    with pytest.raises(TerminalError, match="damaged"):
        open_lake(settings)
    assert _marker(settings).read_text() == text


@pytest.mark.parametrize("kind", [Manifest, Receipt, FeedState])
def test_documents_say_their_format_first(kind: type[StoredDocument]) -> None:
    assert next(iter(kind.model_fields)) == "format"
    assert kind.model_construct().model_dump()["format"] == FORMAT


def test_documents_of_another_format_are_refused(settings: Settings) -> None:
    class Note(StoredDocument):
        text: str

    text = Note(text="x").model_dump_json()
    assert parse_document(Note, text) == Note(text="x")
    newer = {"format": FORMAT + 1, "texts": ["x"]}
    with pytest.raises(StoredFormatError, match=f"stored format is {FORMAT + 1}") as raised:
        parse_document(Note, json.dumps(newer), "lake/note.json")
    assert (raised.value.object, raised.value.fix) == ("lake/note.json", "install a newer Tidemark")
    for none in ({"text": "x"}, {"text": "x", "format": None}, {"text": "x", "format": 0}):
        with pytest.raises(StoredFormatError, match="does not say which format"):
            parse_document(Note, json.dumps(none))
    for damaged in ("", "{", "[1]", f'{{"format": {FORMAT}}}'):
        with pytest.raises(ValueError):
            parse_document(Note, damaged)


def test_a_manifest_of_a_newer_release_is_not_called_damaged(settings: Settings) -> None:
    file = Path(settings.landing_root, "shop", "_manifests", "2026-11-20T07", "v00001.json")
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"format": FORMAT + 1, "everything": "else"}))
    with pytest.raises(StoredFormatError) as raised:
        load_manifests(settings, "shop", "2026-11-20T07")
    assert (raised.value.feed, raised.value.object) == ("shop", str(file))


@pytest.mark.parametrize("value", [None, "", "x", "0", str(FORMAT + 1)])
def test_tables_of_another_format_are_refused(value: str | None) -> None:
    check_table(str(FORMAT), "shop.orders")
    with pytest.raises(StoredFormatError, match=r"table shop\.orders"):
        check_table(value, "shop.orders")


def test_the_doctor_says_the_format(settings: Settings) -> None:
    def found() -> tuple[bool, str]:
        return next((one.good, one.found) for one in examine(settings) if one.what == "stored format")

    assert found() == (True, f"{FORMAT}, once the first hour is run")
    open_lake(settings)
    assert found() == (True, f"{FORMAT}, by Tidemark {__version__}")
    write_marker(settings, LakeMarker(format=FORMAT + 1, made_by="7.8.9", id="its own"))
    good, text = found()
    assert not good and text.endswith("install Tidemark 7.8.9 or newer")
