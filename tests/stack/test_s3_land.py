"""Landing on S3, against a real server over HTTP."""

from __future__ import annotations

import gzip
import hashlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from botocore.awsrequest import AWSResponse

from tidemark.errors import ConfigError, ConflictError, ExportError, NotReadyError, TerminalError, TransientError
from tidemark.feeds.model import Feed
from tidemark.ledger.manifest import all_objects, load_manifest
from tidemark.operations.doctor import Finding, examine
from tidemark.pipeline.exports import is_complete
from tidemark.pipeline.land import land
from tidemark.settings import Settings
from tidemark.storage.contract import Storage, StoredObject
from tidemark.storage.local_files import LocalFiles
from tidemark.storage.objects import storage_of
from tidemark.storage.s3 import S3Objects, s3_client

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

pytestmark = pytest.mark.promise(1)

HOUR = "2026-11-20T07"
PLACE = "exports/a/dt=2026-11-20/hr=07"


def feed(**exports: Any) -> Feed:
    where = {"path": "{topic}/dt={date}/hr={hour}/*", **exports}
    given = {"feed": "shop", "description": "", "owner": "me", "topics": ["a"], "exports": where}
    return Feed.model_validate({**given, "container": {"type": "lines"}, "format": {"type": "debezium"}})


@pytest.fixture
def settings(s3_endpoint: str, bucket: str, tmp_path: Path) -> Settings:
    lake, exports = f"s3://{bucket}/lake", f"s3://{bucket}/exports"
    return Settings(home=tmp_path, lake=lake, exports=exports, s3_endpoint=s3_endpoint)


def put(s3: S3Client, bucket: str, name: str, content: bytes = b"one\ntwo\n") -> None:
    s3.put_object(Bucket=bucket, Key=f"{PLACE}/{name}", Body=content)


def keys(s3: S3Client, bucket: str, prefix: str = "lake/landing/") -> list[str]:
    """What lies under a prefix: by default what has landed, not the lake's own marker beside it."""
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    return [entry["Key"] for page in pages for entry in page.get("Contents", [])]


Answer = Callable[[Any], AWSResponse | None]


@pytest.fixture
def on_wire(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[list[str], Callable[[Answer], None]]]:
    """What the library sends to the server, and a way to answer in the server's place (None: the server answers).

    Between two attempts there is no pause: boto's go up to 20 seconds.
    """
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0.0)
    client = s3_client(settings.s3_endpoint, settings.s3_region)
    sent: list[str] = []
    answers: list[Answer] = []

    def before_send(request: Any, **_: Any) -> AWSResponse | None:
        answer = next((given for one in answers if (given := one(request)) is not None), None)
        how = "COPY" if "x-amz-copy-source" in request.headers else request.method
        sent.append(f"{how} {request.url}")
        return answer

    client.meta.events.register("before-send.s3", before_send)
    yield sent, answers.append
    client.meta.events.unregister("before-send.s3", before_send)


def failure(status: int, code: str) -> AWSResponse:
    class Raw:
        def stream(self, *_: Any, **__: Any) -> list[bytes]:
            return [f"<Error><Code>{code}</Code><Message>injected</Message></Error>".encode()]

    return AWSResponse("", status, {}, Raw())


def test_from_s3_to_s3_by_server_side_copy(
    s3: S3Client, bucket: str, settings: Settings, on_wire: tuple[list[str], Any]
) -> None:
    content = gzip.compress(b"row\n" * 1000)
    put(s3, bucket, "p1.jsonl.gz", content)
    put(s3, bucket, "p2.json")
    with pytest.raises(NotReadyError):
        land(feed(), HOUR, settings)
    assert keys(s3, bucket) == []
    put(s3, bucket, "_SUCCESS", b"")
    assert is_complete(feed(), HOUR, settings).ready
    manifest = land(feed(), HOUR, settings)
    assert [o.records for o in sorted(manifest.objects, key=lambda o: o.source)] == [1000, 2]
    for object_ in manifest.objects:
        body = s3.get_object(Bucket=bucket, Key=f"lake/landing/{object_.path}")["Body"].read()
        assert hashlib.sha256(body).hexdigest() == object_.sha256
    assert object_.source.startswith(f"s3://{bucket}/{PLACE}/")
    sent = on_wire[0]
    assert [
        line.split()[0] for line in sent if "/_manifests/" not in line and "/_conditional_writes" not in line
    ].count("COPY") == 2
    written = [
        line
        for line in sent
        if line.startswith("PUT") and "/_manifests/" not in line and "/_conditional_writes" not in line
    ]
    assert [line for line in written if not line.endswith("/_lake.json")] == [], "no bytes pass through here"
    sent.clear()
    assert land(feed(), HOUR, settings) == manifest
    assert load_manifest(settings, "shop", HOUR) == manifest
    assert {line.split()[0] for line in sent} <= {"GET", "HEAD"}
    assert not any("/p1.jsonl.gz" in line for line in sent), "what did not change is not read again"


def test_a_changed_export_is_a_version_beside_the_old(s3: S3Client, bucket: str, settings: Settings) -> None:
    put(s3, bucket, "p1", b"1\n")
    put(s3, bucket, "p2", b"2\n")
    unmarked = feed(marker=None, settle="0s")
    land(unmarked, HOUR, settings)
    before = set(keys(s3, bucket))
    put(s3, bucket, "p2", b"2\n3\n")
    assert land(unmarked, HOUR, settings).version == 2
    assert before < set(keys(s3, bucket))
    assert len(keys(s3, bucket)) == len(before) + 2
    assert len(all_objects(settings, "shop", HOUR).objects) == 3


def test_objects_in_folders_below_are_told(s3: S3Client, bucket: str, settings: Settings) -> None:
    for name in ("part-0", "_SUCCESS", "_temporary/0/part-0", "sub/", "sub/_SUCCESS", "sub/none"):
        put(s3, bucket, name, b"" if name.endswith(("/", "none")) else b"one\n")
    assert land(feed(), HOUR, settings).notes == []
    for name in ("sub/part-1", "part-2"):
        put(s3, bucket, name)
    manifest = land(feed(), HOUR, settings)
    assert len(manifest.objects) == 2
    assert manifest.notes[0].startswith("a: 1 objects in folders below") and f"{PLACE}/sub/part-1" in manifest.notes[0]


def test_more_objects_than_one_page_of_a_listing(s3: S3Client, bucket: str, settings: Settings) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: put(s3, bucket, f"p{i:04d}", b""), range(1005)))
    found = storage_of("s3://x", settings).list_objects(f"s3://{bucket}/{PLACE}", "p*")
    assert [one.name for one in found] == [f"p{i:04d}" for i in range(1005)]
    assert storage_of("s3://x", settings).list_objects(f"s3://{bucket}/exports/a") == [], "folders are no objects"


@pytest.mark.parametrize("size", [0, 1, 5 * 2**20, 12 * 2**20 + 1])
def test_large_objects_go_in_parts(
    s3: S3Client, bucket: str, settings: Settings, tmp_path: Path, on_wire: tuple[list[str], Any], size: int
) -> None:
    content = os.urandom(size)
    sha256 = hashlib.sha256(content).hexdigest()
    (tmp_path / "file").write_bytes(content)
    objects = S3Objects(s3_client(settings.s3_endpoint, settings.s3_region), part_bytes=5 * 2**20)
    files = LocalFiles()
    uploaded, copied = f"s3://{bucket}/up", f"s3://{bucket}/copy"
    objects.copy_from(files, found(files, str(tmp_path / "file")), uploaded, sha256)
    objects.copy_from(objects, found(objects, uploaded), copied, sha256)
    files.copy_from(objects, found(objects, copied), str(tmp_path / "back"), sha256)
    assert (tmp_path / "back").read_bytes() == content
    parts = [line for line in on_wire[0] if "partNumber=" in line]
    assert len(parts) == (2 * -(-size // (5 * 2**20)) if size >= 5 * 2**20 else 0)
    assert (found(objects, copied).size, found(objects, copied).name) == (size, "copy")


def found(where: Storage, location: str) -> StoredObject:
    stored = where.find(location)
    assert stored is not None
    return stored


def test_from_files_to_s3(s3: S3Client, bucket: str, settings: Settings, tmp_path: Path) -> None:
    folder = tmp_path / "files" / "a" / "dt=2026-11-20" / "hr=07"
    folder.mkdir(parents=True)
    content = gzip.compress(b"row\n" * 10)
    (folder / "p1.gz").write_bytes(content)
    (folder / "_SUCCESS").touch()
    here = settings.model_copy(update={"exports": str(tmp_path / "files")})
    (object_,) = land(feed(), HOUR, here).objects
    assert object_.records == 10
    head = s3.get_object(Bucket=bucket, Key=f"lake/landing/{object_.path}", ChecksumMode="ENABLED")
    assert (head["Body"].read(), "ChecksumSHA256" in head) == (content, True)


def test_from_s3_to_files(s3: S3Client, bucket: str, settings: Settings) -> None:
    put(s3, bucket, "p1")
    here = settings.model_copy(update={"lake": "lake"})
    (object_,) = land(feed(marker=None, settle="0s"), HOUR, here).objects
    assert Path(here.landing_root, object_.path).read_bytes() == b"one\ntwo\n"


@pytest.mark.parametrize("size", [10, 11 * 2**20])
def test_an_upload_of_other_bytes_than_were_read_is_never_seen(
    s3: S3Client, bucket: str, settings: Settings, tmp_path: Path, size: int
) -> None:
    (tmp_path / "file").write_bytes(os.urandom(size))
    objects = S3Objects(s3_client(settings.s3_endpoint, settings.s3_region), part_bytes=5 * 2**20)
    files = LocalFiles()
    with pytest.raises(ConflictError, match="changed while it was copied"):
        objects.copy_from(files, found(files, str(tmp_path / "file")), f"s3://{bucket}/up", "0" * 64)
    assert keys(s3, bucket, "") == []
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket), "the parts are thrown away"


def test_an_object_that_changed_since_it_was_listed(s3: S3Client, bucket: str, settings: Settings) -> None:
    put(s3, bucket, "p1")
    objects = storage_of("s3://x", settings)
    stored = found(objects, f"s3://{bucket}/{PLACE}/p1")
    put(s3, bucket, "p1", b"other\n")
    with pytest.raises(ConflictError) as raised, objects.open(stored):
        pass
    assert raised.value.object == stored.location
    with pytest.raises(ConflictError):
        objects.copy_from(objects, stored, f"s3://{bucket}/copy", "")
    assert keys(s3, bucket, "copy") == []


@pytest.mark.parametrize("place", ["lake", "landing"])
def test_a_storage_without_conditional_writes_is_refused(
    settings: Settings, on_wire: tuple[Any, Any], place: str
) -> None:
    def ignore_it(request: Any) -> None:
        if request.method == "PUT":
            request.headers.pop("If-None-Match", None)

    on_wire[1](ignore_it)
    here = settings if place == "lake" else settings.model_copy(update={"lake": "lake", "landing": settings.lake})
    for _ in range(2):
        with pytest.raises(ConfigError, match="only where none is") as raised:
            land(feed(), HOUR, here)
        assert raised.value.object == f"{settings.lake}/_conditional_writes"
    assert place == "landing" or not next(one for one in examine(here) if one.what == "lake").good


@pytest.mark.parametrize(
    ("status", "code", "kind", "says"),
    [
        (400, "ExpiredToken", TransientError, "renew the credentials"),
        (403, "RequestTimeTooSkewed", TerminalError, "clock"),
        (403, "InvalidAccessKeyId", TerminalError, "AWS_ACCESS_KEY_ID"),
        (403, "SignatureDoesNotMatch", TerminalError, "AWS_SECRET_ACCESS_KEY"),
        (400, "AuthorizationHeaderMalformed", TerminalError, "TIDEMARK_S3_REGION"),
        (403, "AccessDenied", TerminalError, "right to list, read, write and delete"),
    ],
)
def test_an_answer_says_what_to_do(
    s3: S3Client, bucket: str, settings: Settings, on_wire: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch,
    status: int, code: str, kind: type[Exception], says: str,
) -> None:  # fmt: skip
    monkeypatch.setattr("time.sleep", lambda _: None)
    on_wire[1](lambda request: failure(status, code) if request.method == "GET" else None)
    with pytest.raises(kind, match=says) as raised:
        storage_of("s3://x", settings).list_objects(f"s3://{bucket}/{PLACE}")
    assert code in str(raised.value)


def test_a_server_that_does_not_know_conditional_writes_is_no_passing_failure(
    settings: Settings, on_wire: tuple[Any, Any]
) -> None:
    on_wire[1](lambda request: failure(501, "NotImplemented") if "If-None-Match" in request.headers else None)
    with pytest.raises(TerminalError, match="a storage with conditional writes"):
        land(feed(), HOUR, settings)


def test_the_doctor_tells_that_the_right_to_delete_is_missing(settings: Settings, on_wire: tuple[Any, Any]) -> None:
    def lake() -> Finding:
        return next(one for one in examine(settings) if one.what == "lake")

    assert lake().good and lake().good
    on_wire[1](lambda request: failure(403, "AccessDenied") if request.method == "DELETE" else None)
    assert not lake().good and "read, write and delete" in lake().found


def test_an_object_that_is_replaced_before_its_copy_does_not_land(
    s3: S3Client, bucket: str, settings: Settings, on_wire: tuple[Any, Any]
) -> None:
    """By one of the same size, on a server that ignores x-amz-copy-source-if-match, as this one does."""
    put(s3, bucket, "p1", b"one\n")

    def replaced(request: Any) -> None:
        if "x-amz-copy-source" in request.headers:
            put(s3, bucket, "p1", b"two\n")

    on_wire[1](replaced)
    with pytest.raises(ConflictError, match="changed while it was copied"):
        land(feed(marker=None, settle="0s"), HOUR, settings)


def test_a_damaged_object_lands_nothing(s3: S3Client, bucket: str, settings: Settings) -> None:
    put(s3, bucket, "p1")
    put(s3, bucket, "p2.gz", gzip.compress(os.urandom(100_000))[:50_000])
    with pytest.raises(ExportError, match="damaged or cut off") as raised:
        land(feed(marker=None, settle="0s"), HOUR, settings)
    assert raised.value.object == f"s3://{bucket}/{PLACE}/p2.gz"
    assert keys(s3, bucket) == []


def test_of_many_writers_of_a_new_object_one_wins(bucket: str, settings: Settings) -> None:
    objects, target = storage_of("s3://x", settings), f"s3://{bucket}/v1.json"
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda i: objects.write_new(target, str(i)), range(8)))
    assert won.count(True) == 1
    assert objects.read_text(target) == str(won.index(True))
    objects.write_text(target, "over")
    assert objects.read_text(target) == "over"


def test_of_many_lands_at_once_one_writes_and_all_agree(s3: S3Client, bucket: str, settings: Settings) -> None:
    for i in range(5):
        put(s3, bucket, f"p{i}", f"{i}\n".encode())
    with ThreadPoolExecutor(4) as pool:
        manifests = list(pool.map(lambda _: land(feed(marker=None, settle="0s"), HOUR, settings), range(4)))
    assert all(manifest == manifests[0] for manifest in manifests)
    assert len(keys(s3, bucket)) == 6


@pytest.mark.parametrize(("status", "code"), [(503, "SlowDown"), (500, "InternalError")])
def test_failures_that_pass_are_ridden_out(
    s3: S3Client, bucket: str, settings: Settings, on_wire: tuple[list[str], Any], status: int, code: str
) -> None:
    put(s3, bucket, "p1")
    failed: set[str] = set()

    def once_each(request: Any) -> AWSResponse | None:
        name = f"{request.method} {request.url}"
        if name in failed:
            return None
        failed.add(name)
        return failure(status, code)

    on_wire[1](once_each)
    assert len(land(feed(marker=None, settle="0s"), HOUR, settings).objects) == 1
    assert len(failed) >= 4


def test_a_stream_that_breaks_off_is_read_again(
    s3: S3Client, bucket: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    from botocore.exceptions import ResponseStreamingError
    from botocore.response import StreamingBody

    put(s3, bucket, "p1.gz", gzip.compress(b"row\n" * 1000))
    read, broken = StreamingBody.read, [1, 2]

    def breaking(self: StreamingBody, amt: int | None = None) -> bytes:
        if broken and amt:
            broken.pop()
            raise ResponseStreamingError(error="connection reset")
        return read(self, amt)

    monkeypatch.setattr(StreamingBody, "read", breaking)
    (object_,) = land(feed(marker=None, settle="0s"), HOUR, settings).objects
    assert (object_.records, broken) == (1000, [])


@pytest.mark.parametrize(
    ("status", "code", "kind", "says"),
    [
        (503, "SlowDown", TransientError, "503 SlowDown"),
        (403, "AccessDenied", TerminalError, "may not be read or written"),
        (404, "NoSuchBucket", TerminalError, "is not there"),
        (400, "InvalidRequest", TerminalError, "400 InvalidRequest"),
    ],
)
def test_failures_that_stay_say_whether_a_retry_helps(
    bucket: str, settings: Settings, on_wire: tuple[list[str], Any], monkeypatch: pytest.MonkeyPatch,
    status: int, code: str, kind: type, says: str,
) -> None:  # fmt: skip
    monkeypatch.setattr("time.sleep", lambda _: None)  # between botocore's tries
    on_wire[1](lambda request: failure(status, code))
    with pytest.raises(kind, match=says) as raised:
        land(feed(marker=None, settle="0s"), HOUR, settings)
    assert (raised.value.feed, raised.value.hour) == ("shop", HOUR)
    assert raised.value.object.startswith(f"s3://{bucket}/")


def test_a_server_that_is_not_there(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = settings.model_copy(update={"s3_endpoint": "http://127.0.0.1:9"})
    with pytest.raises(TransientError, match="S3 did not answer"):
        is_complete(feed(), HOUR, gone)


def test_without_credentials(settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    other = settings.model_copy(update={"s3_region": "eu-central-1"})  # a client that has none cached
    with pytest.raises(TerminalError, match="no credentials"):
        is_complete(feed(), HOUR, other)


@pytest.mark.parametrize("name", ["..", "a b+ü%41.txt", "[x]{y}*?", "x" * 900])
def test_hostile_keys(s3: S3Client, bucket: str, settings: Settings, name: str) -> None:
    put(s3, bucket, name)
    unmarked = feed(marker=None, settle="0s")
    if name == "..":  # hidden by its first character, and refused wherever it is listed
        with pytest.raises(ExportError, match="a name that is a path"):
            land(unmarked, HOUR, settings)
        return
    (object_,) = land(unmarked, HOUR, settings).objects
    assert object_.source == f"s3://{bucket}/{PLACE}/{name}"
    assert s3.get_object(Bucket=bucket, Key=f"lake/landing/{object_.path}")["Body"].read() == b"one\ntwo\n"
