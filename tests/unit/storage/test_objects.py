from __future__ import annotations

import errno
import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tidemark.errors import ConflictError, ExportError, TerminalError, TransientError
from tidemark.storage.contract import StoredObject
from tidemark.storage.local_files import LocalFiles

FILES = LocalFiles()


def stored(path: Path) -> StoredObject:
    found = FILES.find(str(path))
    assert found is not None
    return found


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_lists_the_files_of_a_folder_that_match_by_name(tmp_path: Path) -> None:
    for name in ("b.gz", "a.gz", "A.GZ", "c.txt"):
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "folder.gz").mkdir()
    (tmp_path / "folder.gz" / "d.gz").touch()
    found = FILES.list_objects(str(tmp_path), "*.gz")
    assert FILES.list_names(str(tmp_path), "*.gz") == [one.name for one in found]
    assert FILES.list_names(str(tmp_path / "nowhere")) == []
    assert [(one.name, one.size) for one in found] == [("a.gz", 4), ("b.gz", 4)]
    assert found[0].location == str(tmp_path / "a.gz")
    assert FILES.list_objects(str(tmp_path / "nowhere")) == []
    assert FILES.list_objects(str(tmp_path / "c.txt")) == []


def test_links_may_stay_inside_the_root_only(tmp_path: Path) -> None:
    folder, outside = tmp_path / "root" / "hour", tmp_path / "secret"
    folder.mkdir(parents=True)
    outside.write_text("secret")
    (tmp_path / "root" / "shared").write_text("shared")
    (folder / "in").symlink_to(tmp_path / "root" / "shared")
    assert [one.name for one in FILES.list_objects(str(folder), root=str(tmp_path / "root"))] == ["in"]
    (folder / "out").symlink_to(outside)
    with pytest.raises(ExportError, match="leads out"):
        FILES.list_objects(str(folder), root=str(tmp_path / "root"))
    (folder / "out").unlink()
    (folder / "dead").symlink_to(folder / "nothing")
    with pytest.raises(ExportError, match="or nowhere"):
        FILES.list_objects(str(folder), root=str(tmp_path / "root"))


def test_a_loop_of_links_and_a_name_that_is_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to(tmp_path / "other")
    (tmp_path / "other").symlink_to(tmp_path / "one")
    with pytest.raises(ExportError, match="leads out") as refused:
        FILES.list_objects(str(tmp_path))
    assert refused.value.object == str(tmp_path / "one")
    for name in ("one", "other"):
        (tmp_path / name).unlink()
    (tmp_path / os.fsdecode(b"part-\xff.gz")).touch()
    with pytest.raises(ExportError, match="not UTF-8") as refused:
        FILES.list_objects(str(tmp_path), "*.gz")
    assert str(refused.value.object).endswith("part-\\xff.gz") and refused.value.fix


@pytest.mark.parametrize(
    ("number", "kind", "told"),
    [
        (errno.EROFS, TerminalError, "is on a read-only file system\n  To fix: mount it for writing"),
        (errno.ENOSPC, TransientError, "No space left on device\n  To fix: make room on the disk"),
        (errno.EIO, TransientError, "the file system failed: [Errno 5] Input/output error"),
    ],
)
def test_a_disk_that_takes_nothing_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Exception], told: str
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "mkdir", fails)
    with pytest.raises(kind) as raised:
        FILES.write_text(str(tmp_path / "folder" / "state.json"), "{}")
    assert str(raised.value).endswith(told)


def test_a_folder_that_links_out_of_the_root_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a").touch()
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "hour").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ExportError, match="leads out"):
        FILES.list_objects(str(tmp_path / "root" / "hour"), root=str(tmp_path / "root"))


def test_the_fingerprint_changes_with_content_of_the_same_size_and_time(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("one")
    os.utime(path, (1, 1))
    before = stored(path)
    path.write_text("two")
    os.utime(path, (1, 1))
    assert (stored(path).size, stored(path).modified) == (before.size, before.modified)
    assert stored(path).fingerprint != before.fingerprint


def test_of_many_writers_of_a_new_object_one_wins_and_it_is_whole(tmp_path: Path) -> None:
    target = str(tmp_path / "deep" / "v1.json")
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda i: FILES.write_new(target, str(i) * 1000), range(8)))
    assert won.count(True) == 1
    assert FILES.read_text(target) == str(won.index(True)) * 1000
    assert names(tmp_path / "deep") == ["v1.json"]


def test_bytes_are_on_the_disk_before_a_name_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, forced = tmp_path / "state.json", []
    monkeypatch.setattr(os, "fsync", lambda file: forced.append((os.fstat(file).st_size, target.exists())))
    FILES.write_new(str(target), "x" * 1000)
    assert forced == [(1000, False)]


def test_write_text_replaces(tmp_path: Path) -> None:
    FILES.write_text(str(tmp_path / "latest"), "1")
    FILES.write_text(str(tmp_path / "latest"), "2")
    assert FILES.read_text(str(tmp_path / "latest")) == "2"
    assert names(tmp_path) == ["latest"]


def test_a_copy_is_verified(tmp_path: Path) -> None:
    content = os.urandom(100_000)
    (tmp_path / "source").write_bytes(content)
    FILES.copy_from(FILES, stored(tmp_path / "source"), str(tmp_path / "to" / "copy"), sha256(content))
    assert (tmp_path / "to" / "copy").read_bytes() == content
    assert names(tmp_path / "to") == ["copy"]


def test_copy_from_leaves_nothing_when_the_bytes_are_others(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"changed")
    with pytest.raises(ConflictError, match="changed while it was copied"):
        FILES.copy_from(FILES, stored(tmp_path / "source"), str(tmp_path / "to" / "copy"), sha256(b"listed"))
    assert names(tmp_path / "to") == []


def test_failures_name_the_object_and_say_whether_a_retry_helps(tmp_path: Path) -> None:
    with pytest.raises(TerminalError, match="is not there") as raised:
        FILES.read_text(str(tmp_path / "none"))
    assert raised.value.object == str(tmp_path / "none")
    (tmp_path / "file").touch()
    with pytest.raises(TerminalError):
        FILES.write_new(str(tmp_path / "file" / "below"), "")
    with pytest.raises(TransientError, match="the file system failed"):
        FILES.write_text(str(tmp_path / ("x" * 300)), "")
