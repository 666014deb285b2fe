from __future__ import annotations

import bz2
import gzip
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import pytest
import zstandard

from tidemark.containers.contract import Contents
from tidemark.errors import ConflictError, ExportError, NotReadyError, TransientError
from tidemark.feeds.model import Feed
from tidemark.ledger.manifest import Manifest, all_objects, load_manifests
from tidemark.pipeline import land as stage
from tidemark.pipeline import path_exports
from tidemark.pipeline.exports import is_complete
from tidemark.pipeline.land import land
from tidemark.settings import Settings
from tidemark.storage.contract import StoredObject
from tidemark.storage.local_files import LocalFiles

HOUR = "2026-11-20T07"
LINES = b"one\ntwo\nthree"


def feed(**more: Any) -> Feed:
    where = {"path": "{topic}/dt={date}/hr={hour}/*", "marker": None, "settle": "0s", **more.pop("exports", {})}
    given = {
        "feed": "shop", "description": "", "owner": "me", "topics": ["a"], "exports": where,
        "container": {"type": "lines"}, "format": {"type": "debezium"}, **more,
    }  # fmt: skip
    return Feed.model_validate(given)


class Source:
    """The exporter's side: writes objects of the hour."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def folder(self, topic: str = "a") -> Path:
        folder = self.root / topic / "dt=2026-11-20" / "hr=07"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def put(self, name: str, content: bytes = LINES, topic: str = "a") -> Path:
        path = self.folder(topic) / name
        path.write_bytes(content)
        return path


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(tmp_path / "exports")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, lake="lake", exports="exports")


def landed_files(settings: Settings) -> dict[str, tuple[bytes, int]]:
    """Everything in the landing: path → content and time of its last change."""
    root = Path(settings.landing_root)
    files = [path for path in root.rglob("*") if path.is_file()]
    return {str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def test_objects_land_byte_for_byte_with_their_hash_and_records(source: Source, settings: Settings) -> None:
    source.put("p1.txt")
    source.put("p2.txt.gz", gzip.compress(b"x\n" * 5), "b")
    manifest = land(feed(topics=["a", "b"]), HOUR, settings)
    assert (manifest.feed, manifest.hour, manifest.version) == ("shop", HOUR, 1)
    assert [(o.topic, o.records) for o in manifest.objects] == [("a", 3), ("b", 5)]
    for object_ in manifest.objects:
        content = Path(settings.landing_root, object_.path).read_bytes()
        assert content == Path(object_.source).read_bytes()
        assert (object_.bytes, object_.sha256) == (len(content), sha256(content).hexdigest())
        assert object_.path.startswith(f"shop/{object_.topic}/dt=2026-11-20/hr=07/v00001/")
    assert len(landed_files(settings)) == 3


def test_the_same_export_again_writes_nothing(source: Source, settings: Settings) -> None:
    path = source.put("p1.txt")
    first = land(feed(), HOUR, settings)
    before = landed_files(settings)
    assert land(feed(), HOUR, settings) == first
    path.write_bytes(LINES)  # other times, same bytes
    assert land(feed(), HOUR, settings) == first
    path.rename(path.with_name("p2.txt"))
    assert land(feed(), HOUR, settings) == first
    assert landed_files(settings) == before


def test_an_unchanged_object_is_not_read_again(
    source: Source, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.put("p1.txt")
    first = land(feed(), HOUR, settings)
    monkeypatch.setattr(LocalFiles, "open", None)
    assert land(feed(), HOUR, settings) == first


def test_a_changed_source_gives_a_version_beside_the_old_one(source: Source, settings: Settings) -> None:
    source.put("p1.txt", b"same\n")
    source.put("p2.txt", b"old\n")
    first = land(feed(), HOUR, settings)
    before = landed_files(settings)
    source.put("p2.txt", b"new\nrows\n")
    second = land(feed(), HOUR, settings)
    assert second.version == 2
    assert {Path(o.source).name: o.records for o in second.objects} == {"p1.txt": 1, "p2.txt": 2}
    assert first.objects[0] in second.objects or first.objects[1] in second.objects, "p1 keeps its first copy"
    after = landed_files(settings)
    assert {path: after[path] for path in before} == before
    assert len(after) == len(before) + 2, "one object and one manifest"
    assert {o.records for o in all_objects(settings, "shop", HOUR).objects} == {1, 2}
    assert len(all_objects(settings, "shop", HOUR).objects) == 3


def test_back_to_an_older_content_is_nothing_new(source: Source, settings: Settings) -> None:
    for content in (b"1\n", b"2\n", b"1\n"):
        source.put("p", content)
        manifest = land(feed(), HOUR, settings)
    assert manifest.version == 2
    assert len(all_objects(settings, "shop", HOUR).objects) == 2


def test_what_landed_stays_when_the_source_loses_it(source: Source, settings: Settings) -> None:
    gone = source.put("p1", b"1\n")
    source.put("p2", b"2\n")
    first = land(feed(), HOUR, settings)
    gone.unlink()
    assert land(feed(), HOUR, settings) == first
    source.put("p3", b"3\n")
    second = land(feed(), HOUR, settings)
    assert {Path(o.source).name for o in second.objects} == {"p2", "p3"}
    assert len(all_objects(settings, "shop", HOUR).objects) == 3


@pytest.mark.promise(6)
@pytest.mark.parametrize("marker", [None, "_SUCCESS"])
@pytest.mark.parametrize("missing", ["fail", "empty"])
def test_an_hour_whose_export_the_source_has_removed_is_what_landed(
    source: Source, settings: Settings, marker: str | None, missing: str
) -> None:
    """A bucket's lifecycle takes exports away; their hours can run again."""

    def of(*topics: str, wait: str = "0s") -> Feed:
        return feed(topics=topics, exports={"marker": marker, "missing": missing, "wait": wait})

    for topic in "ab":
        source.put("p1", f"{topic}\n".encode(), topic)
        source.put("_SUCCESS", b"", topic)
    first = land(of("a", "b"), HOUR, settings)
    shutil.rmtree(source.folder("a"))
    both = of("a", "b", wait="999999d")  # a topic that must not be missing is waited for
    assert is_complete(both, HOUR, settings).why == (
        "of a there is nothing new to land: it has landed, and the source has removed it since"
    )
    assert land(both, HOUR, settings) == first
    source.put("p2", b"new\n", "b")
    (source.folder("b") / "p1").unlink()
    assert [Path(o.source).name for o in land(both, HOUR, settings).objects] == ["p2"]
    assert len(all_objects(settings, "shop", HOUR).objects) == 3, "nothing of what landed is lost"
    shutil.rmtree(source.root)
    assert is_complete(both, HOUR, settings).ready
    assert land(both, HOUR, settings).version == 2
    source.put("p3")
    assert is_complete(both, HOUR, settings).ready == (marker is None), "an export that is being written is waited for"


@pytest.mark.parametrize("marker", [None, "_SUCCESS"])
def test_what_has_not_landed_is_waited_for_as_ever(source: Source, settings: Settings, marker: str | None) -> None:
    exports = {"marker": marker, "missing": "fail", "wait": "999999d"}
    one, more = feed(exports=exports), feed(topics=["a", "b"], exports=exports)
    source.put("p1")
    source.put("_SUCCESS", b"")
    land(one, HOUR, settings)
    shutil.rmtree(source.root)
    assert is_complete(one, HOUR, settings).ready
    for unlanded, hour in ((one, "2026-11-20T06"), (more, HOUR)):
        assert not is_complete(unlanded, hour, settings).ready, "another hour, a topic that is new to the feed"
    with pytest.raises(NotReadyError):
        land(one, HOUR, settings, anew_behind=0)
    assert len(all_objects(settings, "shop", HOUR).objects) == 1, "nothing is withdrawn for what is not there"


def test_how_often_the_same_bytes_land_does_not_depend_on_when_they_came(source: Source, settings: Settings) -> None:
    source.put("p1")
    source.put("p2")
    at_once = land(feed(), HOUR, settings)
    later_settings = settings.model_copy(update={"lake": "lake2"})
    (source.folder() / "p2").unlink()
    land(feed(), HOUR, later_settings)
    source.put("p2")
    land(feed(), HOUR, later_settings)
    one_by_one = all_objects(later_settings, "shop", HOUR)
    assert len({o.path for o in at_once.objects}) == len({o.path for o in one_by_one.objects}) == 2
    land(feed(), HOUR, later_settings)
    assert all_objects(later_settings, "shop", HOUR) == one_by_one


def test_a_landed_object_answers_for_one_object_of_the_source(source: Source, settings: Settings) -> None:
    path = source.put("p1")
    first = land(feed(), HOUR, settings)
    path.rename(path.with_name("renamed"))
    source.put("copied")
    second = land(feed(), HOUR, settings)
    assert len(second.objects) == len(all_objects(settings, "shop", HOUR).objects) == 2
    assert first.objects[0] in second.objects


def test_markers_and_hidden_objects_are_no_data(source: Source, settings: Settings) -> None:
    for name in ("_SUCCESS", "_temporary", ".part.crc", "done.ok", "p1"):
        source.put(name)
    manifest = land(feed(exports={"marker": "done.ok"}), HOUR, settings)
    assert [Path(o.source).name for o in manifest.objects] == ["p1"]


def test_objects_in_folders_below_are_told(
    source: Source, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """They are not read, and the receipt says so. What exporters leave beside their data is not meant."""
    source.put("part-0.gz", gzip.compress(LINES))
    left = ("_temporary/0/part-0.gz", ".spark-staging-1/part-0.gz", "sub/_SUCCESS", "sub/.part-0.gz.crc", "none/x.json")
    for name in left:
        (source.folder() / name).parent.mkdir(parents=True, exist_ok=True)
        source.put(name)
    source.put("none/empty.gz", b"")
    only = feed(exports={"path": "{topic}/dt={date}/hr={hour}/*.gz"})
    assert land(only, HOUR, settings).notes == []
    for name in ("sub/part-1.gz", "sub/deeper/part-2.gz"):
        (source.folder() / name).parent.mkdir(parents=True, exist_ok=True)
        source.put(name)
    source.put("part-3.gz", gzip.compress(LINES))
    manifest = land(only, HOUR, settings)
    assert len(manifest.objects) == 2
    (note,) = manifest.notes
    assert note.startswith("a: 2 objects in folders below") and f"{source.folder()}/sub/deeper/part-2.gz" in note


def test_only_names_that_match_the_pattern_are_data(source: Source, settings: Settings) -> None:
    for name in ("p1.json", "p1.json.md5"):
        source.put(name)
    manifest = land(feed(exports={"path": "{topic}/dt={date}/hr={hour}/*.json"}), HOUR, settings)
    assert [Path(o.source).name for o in manifest.objects] == ["p1.json"]


@pytest.mark.promise(1)
def test_an_object_is_of_one_topic(source: Source, settings: Settings) -> None:
    """Taken for two topics' it would count twice, and hide that the one has none."""
    two = feed(topics=["shop.orders", "shop.orders.items"], exports={"path": "{date}/{hour}/{topic}.*"})
    folder = source.root / "2026-11-20" / "07"
    folder.mkdir(parents=True)
    (folder / "shop.orders.items.0").write_bytes(LINES)
    with pytest.raises(ExportError, match=r"object of shop\.orders and of shop\.orders\.items") as raised:
        land(two, HOUR, settings)
    assert (raised.value.object, raised.value.hour) == (str(folder / "shop.orders.items.0"), HOUR)


def test_an_absolute_template_with_one_topic_in_its_folder(source: Source, settings: Settings) -> None:
    source.put("20-07-p.txt")
    path = f"{source.root}/a/dt={{date}}/hr=07/20-{{hour}}-*"
    assert len(land(feed(exports={"path": path}), HOUR, settings).objects) == 1


@pytest.mark.parametrize(
    ("name", "content", "ending"),
    [
        ("p.gz", gzip.compress(LINES), ".gz"),
        ("p.gz", gzip.compress(b"one\n") + gzip.compress(b"two\nthree"), ".gz"),
        ("p.zst", zstandard.compress(LINES), ".zst"),
        ("p.zst", zstandard.compress(b"one\n") + zstandard.compress(b"two\nthree"), ".zst"),
        ("p.zstd", zstandard.compress(LINES), ".zstd.zst"),
        ("p.GZ", gzip.compress(LINES), ".GZ.gz"),
        ("p", gzip.compress(LINES), ".gz"),
        ("p.json", zstandard.compress(LINES), ".json.zst"),
        ("p.json", LINES, ".json"),
    ],
)
def test_compression_is_seen_by_content_and_named_for_spark(
    source: Source, settings: Settings, name: str, content: bytes, ending: str
) -> None:
    source.put(name, content)
    (object_,) = land(feed(), HOUR, settings).objects
    assert object_.records == 3
    assert object_.path.endswith(f"-p{ending}")
    assert Path(settings.landing_root, object_.path).read_bytes() == content


WHOLE = {
    "gz": gzip.compress(os.urandom(200_000)),
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress(os.urandom(200_000)),
}


@pytest.mark.parametrize("ending", ["gz", "zst"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: whole[:-5],
        lambda whole: whole[:100_000],
        lambda whole: whole[:2] if whole[:1] == b"\x1f" else whole[:4],
        lambda whole: whole[:100_000] + bytes(1000) + whole[101_000:],
        lambda whole: whole[:-8] + bytes(8) if whole[:1] == b"\x1f" else whole[:-1] + b"\xff\xff",
        lambda whole: whole + b"trailing",
        lambda whole: whole + bytes(512),
        lambda whole: whole + b"\0",
        lambda whole: whole + bytes(10) + whole,
        lambda whole: b"plain text in a compressed name",
    ],
    ids=[
        "tail cut",
        "half",
        "magic only",
        "zeros inside",
        "checksum",
        "garbage behind",
        "zeros behind",
        "a zero behind",
        "zeros between",
        "not compressed",
    ],
)
def test_a_damaged_object_is_named_and_nothing_lands(
    source: Source, settings: Settings, ending: str, damage: Callable[[bytes], bytes]
) -> None:
    source.put("p0.txt")
    path = source.put(f"p1.{ending}", damage(WHOLE[ending]))
    with pytest.raises(ExportError) as raised:
        land(feed(), HOUR, settings)
    assert (raised.value.object, raised.value.feed, raised.value.hour) == (str(path), "shop", HOUR)
    assert raised.value.fix
    assert landed_files(settings) == {}


def test_a_compression_that_no_container_reads_is_refused(source: Source, settings: Settings) -> None:
    source.put("p.bz2", bz2.compress(LINES))
    with pytest.raises(ExportError, match="neither gzip nor zstd"):
        land(feed(), HOUR, settings)


def test_an_empty_object_lands_with_no_records(source: Source, settings: Settings) -> None:
    source.put("p1.gz", b"")
    source.put("p2.txt", b"")
    source.put("p3.gz", gzip.compress(b""))
    assert [o.records for o in land(feed(), HOUR, settings).objects] == [0, 0, 0]


def test_a_topic_without_objects_fails_or_is_empty_as_the_feed_says(source: Source, settings: Settings) -> None:
    source.put("p1")
    with pytest.raises(NotReadyError, match="no object yet of b"):
        land(feed(topics=["a", "b"], exports={"wait": "999999d"}), HOUR, settings)
    with pytest.raises(ExportError, match="no object of topic a, b") as raised:
        land(feed(topics=["a", "b"]), "2020-01-01T00", settings)
    assert raised.value.object == str(source.root / "a" / "dt=2020-01-01" / "hr=00") + "/"
    empty = feed(topics=["a", "b"], exports={"missing": "empty"})
    assert [o.topic for o in land(empty, HOUR, settings).objects] == ["a"]
    nothing = land(empty, "2020-01-01T00", settings)
    assert nothing.empty
    assert land(empty, "2020-01-01T00", settings) == nothing


@pytest.mark.promise(1)
@pytest.mark.parametrize("where", ["exports", "path"])
def test_a_root_of_exports_that_is_not_there_is_no_empty_hour(settings: Settings, tmp_path: Path, where: str) -> None:
    """A mount that is missing. An hour that landed without it would never be read again."""
    path = {"path": f"{tmp_path}/exports/{{topic}}/dt={{date}}/hr={{hour}}/*"} if where == "path" else {}
    lenient = feed(exports={"missing": "empty", **path})
    with pytest.raises(NotReadyError, match=f"there is no folder {tmp_path}/exports: mount it"):
        land(lenient, HOUR, settings)
    (tmp_path / "exports").mkdir()
    assert land(lenient, HOUR, settings).empty


def test_objects_that_come_after_an_empty_hour_make_a_version(source: Source, settings: Settings) -> None:
    source.root.mkdir()
    late = feed(exports={"missing": "empty", "path": "{topic}/dt={date}/hr={hour}/p*"})
    hour = "2020-01-01T07"
    assert land(late, hour, settings).empty
    folder = source.root / "a" / "dt=2020-01-01" / "hr=07"
    folder.mkdir(parents=True)
    (folder / "p1").write_bytes(LINES)
    assert (land(late, hour, settings).version, len(load_manifests(settings, "shop", hour))) == (2, 2)


def test_with_a_marker_every_topic_needs_its_own(source: Source, settings: Settings) -> None:
    marked = feed(topics=["a", "b"], exports={"marker": "_SUCCESS", "settle": "1h"})
    source.put("p1")
    source.put("p1", topic="b")
    source.put("_SUCCESS", b"")
    found = is_complete(marked, HOUR, settings)
    assert not found.ready
    assert str(source.folder("b") / "_SUCCESS") in found.why
    with pytest.raises(NotReadyError, match="no marker yet"):
        land(marked, HOUR, settings)
    assert landed_files(settings) == {}
    source.put("_SUCCESS", b"", "b")
    assert is_complete(marked, HOUR, settings).ready
    assert len(land(marked, HOUR, settings).objects) == 2


def test_a_marker_may_name_its_hour(source: Source, settings: Settings) -> None:
    named = feed(exports={"path": "{topic}/{date}-{hour}-*", "marker": "{date}-{hour}.ok"})
    (source.root / "a").mkdir(parents=True)
    (source.root / "a" / "2026-11-20-07-p1").write_bytes(LINES)
    (source.root / "a" / "2026-11-20-06.ok").touch()
    assert not is_complete(named, HOUR, settings).ready
    (source.root / "a" / "2026-11-20-07.ok").touch()
    assert len(land(named, HOUR, settings).objects) == 1


def test_without_a_marker_nothing_may_have_changed_for_the_settle_time(
    source: Source, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settling = feed(topics=["a", "b"], exports={"settle": "10m", "wait": "6h"})
    end = datetime(2026, 11, 20, 8, tzinfo=UTC)

    def ready_at(minutes: float) -> bool:
        monkeypatch.setattr(path_exports, "_now", lambda: end + timedelta(minutes=minutes))
        return is_complete(settling, HOUR, settings).ready

    for minutes, topic in ((1, "a"), (5, "b")):
        moment = (end + timedelta(minutes=minutes)).timestamp()
        os.utime(source.put("p", topic=topic), (moment, moment))
    assert not ready_at(14.9)
    assert ready_at(15)
    os.utime(source.folder("b") / "p", ((end - timedelta(minutes=45)).timestamp(),) * 2)
    os.utime(source.folder("a") / "p", ((end - timedelta(minutes=40)).timestamp(),) * 2)
    assert not ready_at(-20) and not ready_at(9), "an hour that is not over may get more"
    assert ready_at(10)
    (source.folder("b") / "p").unlink()
    assert not ready_at(15), "a topic that must not be missing is waited for"
    assert ready_at(6 * 60), "until the wait is over: then land says what is missing"
    settling = feed(topics=["a", "b"], exports={"settle": "10m", "missing": "empty"})
    assert ready_at(10), "a topic that may be missing is not"
    (source.folder("a") / "p").unlink()
    assert not ready_at(9), "an hour without any object is empty only after its end"
    assert ready_at(10)


def test_an_object_that_changes_while_it_is_read_is_for_the_next_run(
    source: Source, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = source.put("p1")

    def inspect(chunks: Iterable[bytes], options: object) -> Contents:
        read = len(b"".join(chunks))
        path.write_bytes(b"ONE\ntwo\nthree")  # as long as before
        return Contents(read)

    monkeypatch.setattr(stage, "load_container", lambda name: SimpleNamespace(OWN_COMPRESSION=False, inspect=inspect))
    with pytest.raises(ConflictError, match="changed while it was copied") as raised:
        land(feed(), HOUR, settings)
    assert raised.value.object == str(path)
    assert landed_files(settings) == {}


def test_an_object_that_grows_before_it_is_read_is_for_the_next_run(
    source: Source, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = source.put("p1")
    listed = stage.look_at

    def then_grown(*given: Any, **more: Any) -> Any:
        found = listed(*given, **more)
        path.write_bytes(LINES + b"more")
        return found

    opened, opens = LocalFiles.open, []
    monkeypatch.setattr(LocalFiles, "open", lambda self, stored: opens.append(stored) or opened(self, stored))
    monkeypatch.setattr(stage, "look_at", then_grown)
    with pytest.raises(ConflictError, match="had 13 bytes when it was listed, now 17"):
        land(feed(), HOUR, settings)
    assert len(opens) == 1, "trying again at once would not help"
    assert landed_files(settings) == {}


def test_an_inspection_that_reads_nothing_still_lands_the_whole(
    source: Source, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.put("p1.gz", gzip.compress(os.urandom(3 * 2**20)))
    reads_nothing = SimpleNamespace(OWN_COMPRESSION=False, inspect=lambda *_: Contents(None))
    monkeypatch.setattr(stage, "load_container", lambda name: reads_nothing)
    (object_,) = land(feed(), HOUR, settings).objects
    content = Path(settings.landing_root, object_.path).read_bytes()
    assert (object_.records, object_.sha256) == (None, sha256(content).hexdigest())


def test_a_killed_land_leaves_no_manifest_and_the_next_one_is_whole(
    source: Source, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(5):
        source.put(f"p{i}", f"{i}\n".encode())
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(stage, "save_manifest", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        land(feed(), HOUR, settings)
    assert load_manifests(settings, "shop", HOUR) == []
    manifest = land(feed(), HOUR, settings)
    assert (manifest.version, len(manifest.objects)) == (1, 5)
    assert len(landed_files(settings)) == 6, "the first run's copies are the second's"


def test_runs_that_read_different_contents_never_write_to_the_same_place(
    source: Source, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.put("p1", b"first\n")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(stage, "save_manifest", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        land(feed(), HOUR, settings)
    (orphan,) = landed_files(settings)
    source.put("p1", b"second\n")
    (object_,) = land(feed(), HOUR, settings).objects
    assert object_.path != orphan


def test_of_many_lands_at_once_one_writes_and_all_agree(source: Source, settings: Settings) -> None:
    for i in range(20):
        source.put(f"p{i}", f"{i}\n".encode() * 1000)
    with ThreadPoolExecutor(6) as pool:
        manifests = list(pool.map(lambda _: land(feed(), HOUR, settings), range(6)))
    assert all(manifest == manifests[0] for manifest in manifests)
    assert len(load_manifests(settings, "shop", HOUR)) == 1
    assert len(landed_files(settings)) == 21


def test_the_loser_of_a_race_looks_again(source: Source, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    source.put("p1", b"first\n")
    save, winners = stage.save_manifest, []

    def beaten(given: Settings, manifest: Manifest) -> bool:
        if not winners:  # another run lands another content between this one's copies and its manifest
            winners.append(None)
            source.put("p1", b"second\n")
            winners[0] = land(feed(), HOUR, given)
        return save(given, manifest)

    monkeypatch.setattr(stage, "save_manifest", beaten)
    assert [land(feed(), HOUR, settings)] == winners
    (object_,) = all_objects(settings, "shop", HOUR).objects
    assert Path(settings.landing_root, object_.path).read_bytes() == b"second\n"


def test_what_fails_on_the_way_is_tried_again(
    source: Source, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.put("p1")
    opened, failures = LocalFiles.open, [TransientError("no answer"), TransientError("no answer")]

    @contextmanager
    def failing(self: LocalFiles, stored: StoredObject) -> Iterator[BinaryIO]:
        if failures:
            raise failures.pop()
        with opened(self, stored) as stream:
            yield stream

    monkeypatch.setattr(LocalFiles, "open", failing)
    assert len(land(feed(), HOUR, settings).objects) == 1
    failures[:] = [TransientError("no answer")] * 9  # more than two objects are tried
    source.put("p2", b"other")
    with pytest.raises(TransientError, match="no answer"):
        land(feed(), HOUR, settings)


@pytest.mark.parametrize(
    "name", ["a b.txt", "[x]{y}*?.txt", "ü+%41:;`$(x).txt", "x" * 250, "line\nbreak", "-rf", "a=b"]
)
def test_hostile_names_land_under_safe_ones(source: Source, settings: Settings, name: str) -> None:
    source.put(name)
    (object_,) = land(feed(), HOUR, settings).objects
    assert object_.source.endswith(name)
    safe = object_.path.rpartition("/")[2]
    assert set(safe) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._=-")
    assert len(safe) < 140
    assert Path(settings.landing_root, object_.path).read_bytes() == LINES


def test_names_that_become_the_same_do_not_meet(source: Source, settings: Settings) -> None:
    source.put("a+b")
    source.put("a:b")
    assert len({o.path for o in land(feed(), HOUR, settings).objects}) == 2


def test_a_link_out_of_the_exports_is_refused(source: Source, settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (source.folder() / "p1").symlink_to(tmp_path / "secret")
    with pytest.raises(ExportError, match="leads out"):
        land(feed(), HOUR, settings)
    assert landed_files(settings) == {}
