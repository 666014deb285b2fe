"""Answers of S3 that break off in their headers, or in their bodies: nothing of them is believed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.proxy import Link, Proxy, proxy
from tidemark.errors import TransientError
from tidemark.storage.contract import StoredObject
from tidemark.storage.s3 import S3Objects, s3_client

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

pytestmark = pytest.mark.promise(1)

TEXT = "all of it\n" * 1000


@contextmanager
def cut_off(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch, behind: bytes) -> Iterator[S3Objects]:
    """A storage whose every answer ends behind the first of these bytes."""

    def treat(link: Link, _: Proxy) -> None:
        answer = link.answer()
        at = answer.index(behind) + len(behind)
        link.client.sendall(answer[:at])
        link.close()

    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with proxy(int(s3_endpoint.rpartition(":")[2]), treat) as between:
        yield S3Objects(s3_client(f"http://127.0.0.1:{between.port}", "us-east-1"))


def read(storage: S3Objects, stored: StoredObject) -> bytes:
    with storage.open(stored) as stream:
        return stream.read()


ASKED: dict[str, Callable[[S3Objects, StoredObject], Any]] = {
    "listed": lambda storage, stored: storage.list_objects(stored.location.rpartition("/")[0]),
    "found": lambda storage, stored: storage.find(stored.location),
    "opened": read,
    "read": lambda storage, stored: storage.read_text(stored.location),
    "copied": lambda storage, stored: storage.copy_from(storage, stored, f"{stored.location}.copy", ""),
    "swapped": lambda storage, stored: storage.swap(f"{stored.location}.new", "{}", None),
}


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("behind", [b"HTTP/1.1 200 OK\r\n", b"Server: "], ids=["the status", "a header's name"])
def test_an_answer_that_is_cut_off_is_none(
    s3_endpoint: str, s3: S3Client, bucket: str, monkeypatch: pytest.MonkeyPatch, asked: str, behind: bytes
) -> None:
    s3.put_object(Bucket=bucket, Key="folder/object", Body=TEXT.encode())
    stored = S3Objects(s3).find(f"s3://{bucket}/folder/object")
    assert stored is not None
    with cut_off(s3_endpoint, monkeypatch, behind) as storage, pytest.raises(TransientError, match="s3://"):
        ASKED[asked](storage, stored)


@pytest.mark.parametrize("asked", ["opened", "read"])
def test_half_an_object_is_none(
    s3_endpoint: str, s3: S3Client, bucket: str, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    s3.put_object(Bucket=bucket, Key="folder/object", Body=TEXT.encode())
    stored = S3Objects(s3).find(f"s3://{bucket}/folder/object")
    assert stored is not None
    with cut_off(s3_endpoint, monkeypatch, b"\r\n\r\nall of it") as storage, pytest.raises(TransientError, match="s3:"):
        ASKED[asked](storage, stored)
