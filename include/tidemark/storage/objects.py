"""One small interface over local files and ``s3://``: list, read, write once, copy with proof.

What goes wrong comes out as :class:`TransientError` (trying again can help) or :class:`TerminalError`, with the
object's name. A read or copy that meets other bytes than the listing saw is a :class:`ConflictError`.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, cast

from tidemark.errors import ConflictError, ExportError, TerminalError, TidemarkError, TransientError
from tidemark.settings import Settings
from tidemark.storage.retry import retry

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

#: From this size on an object is copied and uploaded in parts of this size, several at once.
PART_BYTES = 16 * 2**20


@dataclass(frozen=True)
class StoredObject:
    """One object. ``mark`` changes whenever the content may have: ETag, or size and times of a local file."""

    location: str
    name: str
    size: int
    fingerprint: str
    modified: datetime


class Storage(ABC):
    """Files or objects. Locations are absolute: a path, or ``s3://bucket/key``."""

    @abstractmethod
    def list_objects(self, folder: str, pattern: str = "*", *, root: str | None = None) -> list[StoredObject]:
        """The objects directly in a folder whose names match, by name; [] when there is no such folder.

        ExportError for a name that leads out of ``root`` (default: the folder): ``..``, or a symbolic link.
        """

    @abstractmethod
    def find(self, location: str) -> StoredObject | None:
        """The object, or None where there is none."""

    @abstractmethod
    def open(self, stored: StoredObject) -> AbstractContextManager[BinaryIO]:
        """Its bytes as a stream. On S3 a ConflictError when it is no longer the object that was listed."""

    @abstractmethod
    def read_text(self, location: str) -> str:
        """A small object's text."""

    @abstractmethod
    def write_text(self, location: str, text: str) -> None:
        """Write a small object, over one that is there. Readers see the old or the new text, whole."""

    @abstractmethod
    def write_new(self, location: str, text: str) -> bool:
        """Write a small object only where none is. False: somebody was there first. Of many at once one wins."""

    @abstractmethod
    def copy_from(self, source: Storage, stored: StoredObject, target: str, sha256: str) -> None:
        """Copy an object here, byte for byte. It appears whole or not at all.

        ConflictError when what was copied is not what ``sha256`` says, or no longer the object that was listed.
        """


def storage_of(location: str, settings: Settings) -> Storage:
    """The storage that holds a location."""
    if location.startswith("s3://"):
        return S3Objects(_client(settings.s3_endpoint, settings.s3_region))
    return LocalFiles()


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
            if not path.resolve().is_relative_to(top) or (path.is_symlink() and not path.exists()):
                fix = "put a copy of the file in its place, or remove the link"
                raise ExportError(f"is a link that leads out of {top}, or nowhere", object=str(path), fix=fix)
            stored = self.find(str(path))
            if stored:
                found.append(stored)
        return found

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
            location, path.name, state.st_size, fingerprint, datetime.fromtimestamp(state.st_mtime, UTC)
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

    def copy_from(self, source: Storage, stored: StoredObject, target: str, sha256: str) -> None:
        with source.open(stored) as stream, self._written(target, _Proved(stream, stored, sha256)) as temporary:
            temporary.replace(target)

    @contextmanager
    def _written(self, target: str, content: Any) -> Iterator[Path]:
        """A temporary file beside the target with this content; gone afterwards unless it was renamed."""
        temporary = Path(target).with_name(f".{uuid.uuid4().hex}.tmp")
        with _file_errors(target):
            try:
                temporary.parent.mkdir(parents=True, exist_ok=True)
                with temporary.open("wb") as file:
                    shutil.copyfileobj(content, file, PART_BYTES)
                yield temporary
            finally:
                temporary.unlink(missing_ok=True)


class S3Objects(Storage):
    """Objects of S3 or a server that speaks like it."""

    def __init__(self, client: S3Client, part_bytes: int = PART_BYTES) -> None:
        from boto3.s3.transfer import TransferConfig

        self._s3 = client
        self._transfer = TransferConfig(part_bytes, max_concurrency=4, multipart_chunksize=part_bytes)
        self._transfer.max_in_memory_upload_chunks = 4  # bounds the memory of an upload from a stream

    @retry
    def list_objects(self, folder: str, pattern: str = "*", *, root: str | None = None) -> list[StoredObject]:
        bucket, prefix = _split(f"{folder}/")
        found = []
        with _s3_errors(folder):
            pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix, Delimiter="/")
            for entry in (entry for page in pages for entry in _whole(page, "Name").get("Contents", [])):
                name = entry["Key"].removeprefix(prefix)
                if not name or not fnmatchcase(name, pattern):
                    continue
                location = f"{folder}/{name}"
                if name in (".", "..") or "/" in name:
                    raise ExportError(f"has a name that is a path: {name!r}", object=location, fix="rename the object")
                found.append(StoredObject(location, name, entry["Size"], entry["ETag"], entry["LastModified"]))
        return sorted(found, key=lambda stored: stored.name)

    @retry
    def find(self, location: str) -> StoredObject | None:
        from botocore.exceptions import ClientError

        bucket, key = _split(location)
        with _s3_errors(location):
            try:
                head = self._s3.head_object(Bucket=bucket, Key=key)
            except ClientError as error:
                if error.response["ResponseMetadata"]["HTTPStatusCode"] == 404:
                    return None
                raise
            _whole(head, "ContentLength", "ETag", "LastModified")
        name = key.rpartition("/")[2]
        return StoredObject(location, name, head["ContentLength"], head["ETag"], head["LastModified"])

    @contextmanager
    def open(self, stored: StoredObject) -> Iterator[BinaryIO]:
        bucket, key = _split(stored.location)
        with _s3_errors(stored.location):
            said = _whole(self._s3.get_object(Bucket=bucket, Key=key, IfMatch=stored.fingerprint), "ContentLength")
            with said["Body"]:  # which, entered, would give what it wraps
                yield cast(BinaryIO, said["Body"])

    def read_text(self, location: str) -> str:
        return self.read_marked(location)[0]

    @retry
    def read_marked(self, location: str) -> tuple[str, str]:
        """The whole of a small object, and its mark."""
        bucket, key = _split(location)
        with _s3_errors(location):
            said = _whole(self._s3.get_object(Bucket=bucket, Key=key), "ContentLength", "ETag")
            return said["Body"].read().decode("utf-8"), said["ETag"]

    def write_text(self, location: str, text: str) -> None:
        bucket, key = _split(location)
        with _s3_errors(location):
            self._s3.put_object(Bucket=bucket, Key=key, Body=text.encode(), ChecksumAlgorithm="SHA256")

    def write_new(self, location: str, text: str) -> bool:
        from botocore.exceptions import ClientError

        bucket, key = _split(location)
        with _s3_errors(location):
            try:
                self._s3.put_object(
                    Bucket=bucket, Key=key, Body=text.encode(), ChecksumAlgorithm="SHA256", IfNoneMatch="*"
                )
            except ClientError as error:
                if error.response["ResponseMetadata"]["HTTPStatusCode"] == 412:
                    return False
                raise
        return True

    def swap(self, location: str, text: str, fingerprint: str | None) -> str | None:
        """Write a small object over the one with this mark (None: where none is), and no other. Its new mark, or None
        where somebody was faster; that may have been an earlier try of this call, whose answer was lost."""
        from botocore.exceptions import ClientError

        bucket, key = _split(location)
        condition = {"IfNoneMatch": "*"} if fingerprint is None else {"IfMatch": fingerprint}
        with _s3_errors(location):
            try:
                said = self._s3.put_object(
                    Bucket=bucket, Key=key, Body=text.encode(), ChecksumAlgorithm="SHA256", **cast(Any, condition)
                )
            except ClientError as error:
                if error.response["ResponseMetadata"]["HTTPStatusCode"] in (404, 409, 412):
                    return None
                raise
            return str(_whole(said, "ETag")["ETag"])

    def copy_from(self, source: Storage, stored: StoredObject, target: str, sha256: str) -> None:
        """From S3 the server copies by itself, held to the ETag that was listed; files are uploaded with SHA-256."""
        bucket, key = _split(target)
        with _s3_errors(target):
            if isinstance(source, S3Objects):
                from_bucket, from_key = _split(stored.location)
                self._s3.copy(
                    {"Bucket": from_bucket, "Key": from_key},
                    bucket,
                    key,
                    ExtraArgs={"CopySourceIfMatch": stored.fingerprint, "ChecksumAlgorithm": "SHA256"},
                    SourceClient=source._s3,
                    Config=self._transfer,
                )
            else:
                with source.open(stored) as stream:
                    self._s3.upload_fileobj(
                        cast(BinaryIO, _Proved(stream, stored, sha256)),
                        bucket,
                        key,
                        ExtraArgs={"ChecksumAlgorithm": "SHA256"},
                        Config=self._transfer,
                    )
        copy = self.find(target)
        if copy is None or copy.size != stored.size:
            raise TransientError(f"arrived as {copy.size if copy else 'no'} bytes of {stored.size}", object=target)


class _Proved:
    """A stream that ends in a ConflictError, not in its end, when its bytes were not those of the SHA-256."""

    def __init__(self, stream: BinaryIO, stored: StoredObject, sha256: str) -> None:
        self._stream, self._stored, self._sha256 = stream, stored, sha256
        self._digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        """``size`` bytes, fewer only at the end."""
        parts, left = [], size
        while left:
            part = self._stream.read(left)
            if not part:
                self._prove()
                break
            self._digest.update(part)
            parts.append(part)
            left -= len(part) if size > 0 else 0
        return b"".join(parts)

    def _prove(self) -> None:
        if self._digest.hexdigest() != self._sha256:
            raise ConflictError("changed while it was copied", object=self._stored.location, fix=_LATER)


_LATER = "wait until the exporter has written it whole, then run the hour again"


@lru_cache
def _client(endpoint: str, region: str) -> S3Client:
    """One client per server: it is safe to share among threads. Credentials come from AWS's usual chain."""
    import boto3
    from botocore.config import Config

    config = Config(
        retries={"mode": "standard", "total_max_attempts": 5},
        s3={"addressing_style": "path"} if endpoint else {},
        max_pool_connections=32,
    )
    return boto3.session.Session().client("s3", endpoint_url=endpoint or None, region_name=region, config=config)


def _split(location: str) -> tuple[str, str]:
    bucket, _, key = location.removeprefix("s3://").partition("/")
    return bucket, key


@contextmanager
def _file_errors(location: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise TerminalError("is not there, or is not a file", object=location, fix="check the path") from error
    except PermissionError as error:
        raise TerminalError("may not be read or written", object=location, fix="give this user the right") from error
    except OSError as error:
        raise TransientError(f"the file system failed: {error}", object=location) from error


def _whole(answer: Any, *needed: str) -> Any:
    """An answer of S3, unless it lacks what every such answer has: Python's HTTP takes the end of a broken connection
    for the end of the headers, and what was to follow for empty."""
    if any(name not in answer for name in needed):
        raise ConnectionError("its answer was cut off")
    return answer


@contextmanager
def _s3_errors(location: str) -> Iterator[None]:
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import (
        BotoCoreError,
        ClientError,
        NoCredentialsError,
        ParamValidationError,
        PartialCredentialsError,
    )
    from s3transfer.exceptions import S3CopyFailedError

    try:
        yield
    except TidemarkError:
        raise
    except ClientError as error:
        _raise_answer(error.response, location, error)
    except S3CopyFailedError as error:
        raise ConflictError("changed while it was copied", object=location, fix=_LATER) from error
    except (NoCredentialsError, PartialCredentialsError) as error:
        fix = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or a role"
        raise TerminalError("there are no credentials for S3", object=location, fix=fix) from error
    except ParamValidationError as error:
        raise TerminalError(f"S3 cannot be asked for this: {error}", object=location) from error
    except (BotoCoreError, Boto3Error, OSError, KeyError) as error:  # KeyError: s3transfer on an answer cut off
        fix = "check TIDEMARK_S3_ENDPOINT and the network; it is tried again"
        raise TransientError(f"S3 did not answer: {error}", object=location, fix=fix) from error


def _raise_answer(response: Any, location: str, error: Exception) -> NoReturn:
    """An answer of S3 that is no success, as ours."""
    code, status = response.get("Error", {}).get("Code", ""), response["ResponseMetadata"]["HTTPStatusCode"]
    said = f"S3 answered {status} {code}"
    if status == 412:
        raise ConflictError("changed since it was listed", object=location, fix=_LATER) from error
    if status in (408, 409, 429) or status >= 500:
        raise TransientError(said, object=location, fix="it is tried again") from error
    if status == 404:
        raise TerminalError(f"is not there ({said})", object=location, fix="check bucket and path") from error
    if status in (401, 403):
        fix = "give the credentials in use the right to list, read and write there"
        raise TerminalError(f"may not be read or written ({said})", object=location, fix=fix) from error
    raise TerminalError(said, object=location) from error
