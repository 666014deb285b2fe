"""Objects of S3, or of a server with the same interface. boto3 is imported on first use: local lakes never need it."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, cast

from tidemark.errors import ConflictError, ExportError, TerminalError, TidemarkError, TransientError
from tidemark.storage.contract import CONDITIONAL_WRITES, MOST_LOOKED_AT, PART_BYTES, Storage, StoredObject, is_below
from tidemark.storage.retry import retry
from tidemark.storage.verified_stream import FIX_CHANGED, VerifiedStream

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


_KEYS = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile or role, to those of this server"
#: What to do about answers whose status alone says something else.
_ANSWERS: dict[str, tuple[type[TidemarkError], str, str]] = {
    "NotImplemented": (TerminalError, "the server does not know what was asked with the request", CONDITIONAL_WRITES),
    "ExpiredToken": (TransientError, "the credentials have expired", "renew the credentials; it is tried again"),
    "RequestTimeTooSkewed": (
        TerminalError,
        "the clocks differ",
        "set this machine's clock and the server's by a time server",
    ),
    "InvalidAccessKeyId": (TerminalError, "the server does not know the access key", _KEYS),
    "SignatureDoesNotMatch": (TerminalError, "the secret key is not that of the access key", _KEYS),
    "AuthorizationHeaderMalformed": (TerminalError, "the region is another", "set TIDEMARK_S3_REGION to the bucket's"),
}


class S3Objects(Storage):
    """Objects of S3 or a server with the same interface."""

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
                found.append(
                    StoredObject(
                        location=location,
                        name=name,
                        size=entry["Size"],
                        fingerprint=entry["ETag"],
                        modified=entry["LastModified"],
                    )
                )
        return sorted(found, key=lambda stored: stored.name)

    @retry
    def list_below(self, folder: str, pattern: str = "*") -> list[str]:
        bucket, prefix = _split(f"{folder}/")
        most = {"MaxItems": MOST_LOOKED_AT}
        with _s3_errors(folder):
            lister = self._s3.get_paginator("list_objects_v2")
            pages = lister.paginate(Bucket=bucket, Prefix=prefix, PaginationConfig=most)  # type: ignore[arg-type]
            entries = [entry for page in pages for entry in _whole(page, "Name").get("Contents", [])]
        names = (entry["Key"].removeprefix(prefix) for entry in entries if entry["Size"])
        return [f"{folder}/{name}" for name in names if is_below(name, pattern)]

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
        return StoredObject(
            location=location,
            name=name,
            size=head["ContentLength"],
            fingerprint=head["ETag"],
            modified=head["LastModified"],
        )

    @contextmanager
    def open(self, stored: StoredObject) -> Iterator[BinaryIO]:
        bucket, key = _split(stored.location)
        with _s3_errors(stored.location):
            answer = _whole(self._s3.get_object(Bucket=bucket, Key=key, IfMatch=stored.fingerprint), "ContentLength")
            body = answer["Body"]
            with body:  # `with … as` would give the raw stream that it wraps, which checks no length
                yield cast(BinaryIO, body)

    def read_text(self, location: str) -> str:
        return self.read_with_fingerprint(location)[0]

    @retry
    def read_with_fingerprint(self, location: str) -> tuple[str, str]:
        """The text of a small object, and its fingerprint."""
        bucket, key = _split(location)
        with _s3_errors(location):
            answer = _whole(self._s3.get_object(Bucket=bucket, Key=key), "ContentLength", "ETag")
            return answer["Body"].read().decode("utf-8"), answer["ETag"]

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
        """Write a small object only over the one with this fingerprint (None: only where there is none).

        Returns the new fingerprint, or None where another writer was faster; that may have been an earlier attempt of
        this very call, whose answer was lost.
        """
        from botocore.exceptions import ClientError

        bucket, key = _split(location)
        condition = {"IfNoneMatch": "*"} if fingerprint is None else {"IfMatch": fingerprint}
        with _s3_errors(location):
            try:
                answer = self._s3.put_object(
                    Bucket=bucket, Key=key, Body=text.encode(), ChecksumAlgorithm="SHA256", **cast(Any, condition)
                )
            except ClientError as error:
                if error.response["ResponseMetadata"]["HTTPStatusCode"] in (404, 409, 412):
                    return None
                raise
            return str(_whole(answer, "ETag")["ETag"])

    @retry
    def remove(self, location: str) -> None:
        bucket, key = _split(location)
        with _s3_errors(location):
            self._s3.delete_object(Bucket=bucket, Key=key)

    def copy_from(self, source: Storage, stored: StoredObject, target: str, sha256: str) -> None:
        """From S3 the server copies by itself, held to the ETag that was listed and, where it went in one part, to the
        SHA-256 that the server has of it; files are uploaded with SHA-256."""
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
                if stored.size < self._transfer.multipart_threshold:  # not every server keeps the condition on the ETag
                    head = self._s3.head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED")
                    if b64decode(head.get("ChecksumSHA256", "")).hex() not in ("", sha256):
                        raise ConflictError("changed while it was copied", object=stored.location, fix=FIX_CHANGED)
            else:
                with source.open(stored) as stream:
                    self._s3.upload_fileobj(
                        cast(BinaryIO, VerifiedStream(stream, stored, sha256)),
                        bucket,
                        key,
                        ExtraArgs={"ChecksumAlgorithm": "SHA256"},
                        Config=self._transfer,
                    )
        copy = self.find(target)
        if copy is None or copy.size != stored.size:
            raise TransientError(f"arrived as {copy.size if copy else 'no'} bytes of {stored.size}", object=target)


@lru_cache
def s3_client(endpoint: str, region: str) -> S3Client:
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


def _whole(answer: Any, *needed: str) -> Any:
    """The answer, or a ConnectionError when it lacks a field that every such answer has.

    When a connection breaks within the headers, Python's HTTP client takes that for their end and the body for empty.
    """
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
        raise ConflictError("changed while it was copied", object=location, fix=FIX_CHANGED) from error
    except (NoCredentialsError, PartialCredentialsError) as error:
        fix = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or a role"
        raise TerminalError("there are no credentials for S3", object=location, fix=fix) from error
    except ParamValidationError as error:
        raise TerminalError(f"S3 cannot be asked for this: {error}", object=location) from error
    except (BotoCoreError, Boto3Error, OSError, KeyError) as error:  # KeyError: s3transfer on an answer cut off
        fix = "check TIDEMARK_S3_ENDPOINT and the network; it is tried again"
        raise TransientError(f"S3 did not answer: {error}", object=location, fix=fix) from error


def _raise_answer(response: Any, location: str, error: Exception) -> NoReturn:
    """Raise the error of ours that fits an answer of S3 that is no success."""
    code, status = response.get("Error", {}).get("Code", ""), response["ResponseMetadata"]["HTTPStatusCode"]
    summary = f"S3 answered {status} {code}"
    if status == 412:
        raise ConflictError("changed since it was listed", object=location, fix=FIX_CHANGED) from error
    if code in _ANSWERS:
        kind, problem, fix = _ANSWERS[code]
        raise kind(f"{problem} ({summary})", object=location, fix=fix) from error
    if status in (408, 409, 429) or status >= 500:
        raise TransientError(summary, object=location, fix="it is tried again") from error
    if status == 404:
        raise TerminalError(f"is not there ({summary})", object=location, fix="check bucket and path") from error
    if status in (401, 403):
        fix = "give the credentials in use the right to list, read, write and delete there"
        raise TerminalError(f"may not be read or written ({summary})", object=location, fix=fix) from error
    raise TerminalError(summary, object=location) from error
