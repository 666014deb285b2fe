"""Files of this machine, or of a file system that several machines share."""

from __future__ import annotations

import errno
import io
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import BinaryIO

from tidemark.errors import ExportError, TerminalError, TransientError
from tidemark.storage.contract import MOST_LOOKED_AT, PART_BYTES, Storage, StoredObject, is_below
from tidemark.storage.verified_stream import Readable, VerifiedStream


class LocalFiles(Storage):
    """Files of this machine, or of a shared file system."""

    def list_objects(self, folder: str, pattern: str = "*", *, root: str | None = None) -> list[StoredObject]:
        top = Path(root or folder).resolve()
        found = []
        with _file_errors(folder):
            entries = sorted(Path(folder).iterdir()) if Path(folder).is_dir() else []
        for path in entries:
            if not fnmatchcase(path.name, pattern):
                continue
            if not _is_utf8(path.name):
                shown = os.fsencode(path).decode("utf-8", "backslashreplace")
                raise ExportError("has a name that is not UTF-8", object=shown, fix="rename the file")
            if not _leads_into(top, path):
                fix = "replace the link by a copy of the file, or remove the link"
                raise ExportError(f"is a link that leads out of {top}, or nowhere", object=str(path), fix=fix)
            stored = self.find(str(path))
            if stored:
                found.append(stored)
        return found

    def list_names(self, folder: str, pattern: str = "*") -> list[str]:
        if not Path(folder).is_dir():
            return []
        with _file_errors(folder), os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if fnmatchcase(entry.name, pattern) and entry.is_file())

    def list_below(self, folder: str, pattern: str = "*") -> list[str]:
        found: list[str] = []
        seen = 0
        for where, folders, names in os.walk(folder):
            folders[:] = sorted(name for name in folders if not name.startswith(("_", ".")))
            for path in (Path(where, name) for name in sorted(names)):
                if is_below(str(path.relative_to(folder)), pattern) and self._holds_bytes(path):
                    found.append(str(path))
            seen += len(names) + 1
            if seen >= MOST_LOOKED_AT:
                break
        return sorted(found)

    @staticmethod
    def _holds_bytes(path: Path) -> bool:
        try:
            return path.is_file() and path.stat().st_size > 0
        except OSError:  # it went meanwhile, or is a loop of links
            return False

    def find(self, location: str) -> StoredObject | None:
        path = Path(location)
        with _file_errors(location):
            try:
                state = path.stat()
            except (FileNotFoundError, NotADirectoryError):
                return None
            if not path.is_file():
                return None
        fingerprint = f"{state.st_size}-{state.st_mtime_ns}-{state.st_ctime_ns}"
        return StoredObject(
            location=location,
            name=path.name,
            size=state.st_size,
            fingerprint=fingerprint,
            modified=datetime.fromtimestamp(state.st_mtime, UTC),
        )

    @contextmanager
    def open(self, stored: StoredObject) -> Iterator[BinaryIO]:
        with _file_errors(stored.location), Path(stored.location).open("rb") as stream:
            yield stream

    def read_text(self, location: str) -> str:
        with _file_errors(location):
            return Path(location).read_text("utf-8")

    def write_text(self, location: str, text: str) -> None:
        with self._written(location, io.BytesIO(text.encode())) as temporary:
            temporary.replace(location)

    def write_new(self, location: str, text: str) -> bool:
        with self._written(location, io.BytesIO(text.encode())) as temporary:
            try:
                os.link(temporary, location)  # unlike a rename it fails where something is
            except FileExistsError:
                return False
        return True

    def remove(self, location: str) -> None:
        with _file_errors(location):
            Path(location).unlink(missing_ok=True)

    def copy_from(self, source: Storage, stored: StoredObject, target: str, sha256: str) -> None:
        with source.open(stored) as stream, self._written(target, VerifiedStream(stream, stored, sha256)) as temporary:
            temporary.replace(target)

    @contextmanager
    def _written(self, target: str, content: Readable) -> Iterator[Path]:
        """A temporary file beside the target with this content; removed afterwards unless it was renamed."""
        temporary = Path(target).with_name(f".{uuid.uuid4().hex}.tmp")
        with _file_errors(target):
            try:
                temporary.parent.mkdir(parents=True, exist_ok=True)
                with temporary.open("wb") as file:
                    shutil.copyfileobj(content, file, PART_BYTES)
                    file.flush()
                    os.fsync(file.fileno())  # else a name may outlive a power loss, and its bytes not
                yield temporary
            finally:
                temporary.unlink(missing_ok=True)


def _is_utf8(name: str) -> bool:
    """Whether a name can be written down; Python keeps bytes that are not UTF-8 as surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _leads_into(top: Path, path: Path) -> bool:
    """Whether a path is within a folder and, where it is a link, leads to something there."""
    try:
        return path.resolve().is_relative_to(top) and (not path.is_symlink() or path.exists())
    except (OSError, RuntimeError):  # a loop of links
        return False


@contextmanager
def _file_errors(location: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise TerminalError("is not there, or is not a file", object=location, fix="check the path") from error
    except PermissionError as error:
        raise TerminalError("may not be read or written", object=location, fix="give this user the right") from error
    except OSError as error:
        if error.errno == errno.EROFS:
            raise TerminalError("is on a read-only file system", object=location, fix="mount it for writing") from error
        fix = "make room on the disk" if error.errno in (errno.ENOSPC, errno.EDQUOT) else None
        raise TransientError(f"the file system failed: {error}", object=location, fix=fix) from error
