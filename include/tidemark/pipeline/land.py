"""Land: the objects of a feed's hour are copied byte for byte, with a manifest that says what came.

Every object is read once from end to end before anything is copied: for its SHA-256, its number of records, and to see
that its compression is whole. The manifest is written last; without it nothing has landed.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, TypeVar, cast

import pyarrow as pa
from isal.igzip_lib import DECOMP_GZIP, IgzipDecompressor, IsalError

from tidemark.containers import load_container
from tidemark.containers.contract import Contents
from tidemark.errors import ConflictError, ExportError, TidemarkError, TransientError
from tidemark.feeds.model import Feed
from tidemark.hours import Hour
from tidemark.lake.lake_marker import open_lake
from tidemark.ledger.manifest import LandedObject, Manifest, counted_objects, load_manifests, save_manifest
from tidemark.logs import get_logger, log_stage
from tidemark.pipeline.exports import look_at, require_complete
from tidemark.pipeline.hour_export import HourExport
from tidemark.settings import Settings
from tidemark.storage.contract import StoredObject
from tidemark.storage.landing_layout import object_folder
from tidemark.storage.objects import storage_of
from tidemark.storage.retry import retry

R = TypeVar("R")

log = get_logger()

_AT_ONCE = 4
_CHUNK = 2**20
_MAGIC = {b"\x1f\x8b": ("gzip", ".gz"), b"\x28\xb5\x2f\xfd": ("zstd", ".zst")}
_CODECS = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}
#: Names that Spark would take for compressed. Of these only gzip and zstd can land.
_COMPRESSED = re.compile(r"\.(?:gz|zst|zstd|bz2|lz4|snappy|deflate|xz)$", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class ReadObject:
    """One object of the source, read from end to end."""

    topic: str
    """The topic that it is of."""
    listed: StoredObject
    """The object as the source listed it."""
    stored: StoredObject
    """Where its bytes were read: the same object, or what was fetched of it."""
    sha256: str
    """The SHA-256 of its bytes as they are stored, in hex."""
    contents: Contents
    """What its container says of its records."""
    suffix: str
    """The ending that tells Spark its compression; empty: it has none."""


def land(feed: Feed, hour: str, settings: Settings, *, anew_behind: int | None = None) -> Manifest:
    """Copy the hour's export to the landing and return its manifest.

    Reads the source's objects; writes ``<landing>/<feed>/<topic>/dt=…/hr=…/v00001/…`` and the manifest. The same export
    again writes nothing and returns the manifest that is there. A changed source gives a new version that lists the
    export as it is now; an object that did not change keeps its first copy, and one that was removed from the source stays
    in the landing and in its version (:func:`tidemark.ledger.manifest.all_objects`). An export that the source has removed
    since it landed is nothing new. Of two runs at once one writes the version; the other finds it and returns it.

    ``anew_behind``: all that landed with later versions than this one is withdrawn, and the export lands as if it never
    had: see :func:`tidemark.pipeline.hour.land_anew`.

    NotReadyError while the export is not complete. ExportError for a topic without objects (``exports.missing: fail``)
    and for an object that is damaged. ConflictError when an object changes while it is read.
    """
    with log_stage("land", "landed", feed=feed.feed, hour=hour) as counts:
        manifest = _land(feed, Hour.parse(hour), settings, anew_behind)
        counts |= {
            "objects": len(manifest.objects),
            "bytes": sum(object_.bytes for object_ in manifest.objects),
            "version": manifest.version,
        }
        records = [object_.records for object_ in manifest.objects if object_.records is not None]
        if len(records) == len(manifest.objects):  # of some containers only decoding can tell
            counts["records"] = sum(records)
    return manifest


def _land(feed: Feed, hour: Hour, settings: Settings, anew_behind: int | None) -> Manifest:
    try:
        open_lake(settings)
        for _ in range(3):  # again when another run wrote the version meanwhile
            former = load_manifests(settings, feed.feed, hour)
            withdrawn = [] if anew_behind is None else [o for o in counted_objects(former) if o.version > anew_behind]
            export = look_at(feed, hour, settings, anew=bool(withdrawn))
            require_complete(export)
            _require_topics(feed, export)
            if not export.keep():
                continue
            notes = export.notes()
            for note in notes:
                log.warning(note)
            if removed := [topic.topic for topic in export.topics if topic.removed]:
                log.info(
                    "the source has removed topics since they landed: what landed counts", topics=", ".join(removed)
                )
            if withdrawn:
                notes.append(
                    f"landed anew: {len(withdrawn)} objects that had landed and were not published do not count, the first "
                    f"is {withdrawn[0].path}"
                )
            told = {"notes": notes, "withdrawn": [object_.path for object_ in withdrawn]}
            manifest = _land_changed(feed, hour, settings, export, former, told)
            if former and manifest is former[-1]:
                log.info("nothing new to land", version=manifest.version)
                return manifest
            if save_manifest(settings, manifest):
                return manifest
        raise ConflictError("other runs land this hour at the same time", fix="run it again when they have ended")
    except TidemarkError as error:
        error.feed, error.hour = feed.feed, hour
        raise


def _require_topics(feed: Feed, export: HourExport) -> None:
    absent = [topic for topic in export.topics if topic.missing]
    if absent and feed.exports.missing == "fail":
        raise ExportError(
            f"no object of topic {', '.join(topic.topic for topic in absent)}",
            object=f"{absent[0].place}/",
            fix="export the hour again (from Kafka: mend the topic's name), or set `exports.missing: empty` if an hour may "
            "have none",
        )


def _land_changed(
    feed: Feed,
    hour: Hour,
    settings: Settings,
    export: HourExport,
    former: list[Manifest],
    told: dict[str, list[str]],
) -> Manifest:
    """The manifest of the export as it is now, its new objects copied. ``former[-1]`` when there is nothing new. ``told``:
    its ``notes``, and the paths that it has ``withdrawn``."""
    landed = {object_.path: object_ for object_ in counted_objects(former) if object_.path not in told["withdrawn"]}
    unchanged = {(object_.topic, object_.source, object_.fingerprint): object_ for object_ in landed.values()}
    known: list[LandedObject] = []
    unread: list[tuple[str, StoredObject]] = []
    for topic in export.topics:
        for stored in topic.objects:
            if object_ := unchanged.get((topic.topic, stored.location, stored.fingerprint)):
                known.append(landed.pop(object_.path))
            else:
                unread.append((topic.topic, stored))
    with TemporaryDirectory(prefix="tidemark-land-") as folder:

        def read_whole(topic: str, stored: StoredObject) -> ReadObject:
            fetched = export.fetch(topic, stored, Path(folder))
            return replace(read_object(topic, fetched, feed, settings), listed=stored)

        read = _at_once(read_whole, unread)
        same, new = _split_known(read, landed.values())
        if former and former[-1].landed and not new and not told["withdrawn"]:
            return former[-1]
        version = former[-1].version + 1 if former else 1
        copied = _at_once(lambda one: _copy(one, feed, hour, version, settings), [(one,) for one in new])
    return Manifest(
        feed=feed.feed,
        hour=hour,
        version=version,
        objects=sorted([*known, *same, *copied], key=lambda object_: (object_.topic, object_.path)),
        offsets=export.offsets,
        created_at=datetime.now(UTC),
        **told,
    )


def _at_once(work: Callable[..., R], items: Sequence[tuple[Any, ...]]) -> list[R]:
    """The work done on several items at once, each tried again when it failed on the way (a source that changes is for
    the next run). The first failure that stays stops what has not begun."""

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        futures = [pool.submit(retry(work), *item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _split_known(read: list[ReadObject], landed: Iterable[LandedObject]) -> tuple[list[LandedObject], list[ReadObject]]:
    """Objects whose bytes have landed before, under this or another name, and those that are new.

    A landed object answers for one object of the source: two that hold the same bytes are two.
    """
    by_content: dict[tuple[str, str], list[LandedObject]] = defaultdict(list)
    for object_ in landed:
        by_content[object_.topic, object_.sha256].append(object_)
    same: list[LandedObject] = []
    new: list[ReadObject] = []
    for one in read:
        copies = by_content[one.topic, one.sha256]
        same_name = [object_ for object_ in copies if object_.source == one.listed.location]
        if copies:
            same.append((same_name or copies)[0])
            copies.remove(same[-1])
        else:
            new.append(one)
    return same, new


def read_object(
    topic: str, stored: StoredObject, feed: Feed, settings: Settings, *, inspect: bool = True
) -> ReadObject:
    """Read one object from end to end. ExportError where it is damaged, ConflictError where it changes meanwhile.
    ``inspect``: whether it is of the feed's container, which then says what it holds."""
    container = load_container(feed.container["type"])
    with storage_of(stored.location, settings).open(stored) as stream:
        raw = _Hashed(stream)
        whole = io.BufferedReader(raw, _CHUNK)
        codec, suffix = _compression(whole.peek(4), stored)
        if inspect and codec and container.OWN_COMPRESSION:
            problem = f"is compressed as a whole ({codec}), which its container does inside"
            raise ExportError(problem, object=stored.location, fix="export it as it is")
        chunks = _chunks(cast(BinaryIO, whole), codec)
        try:
            contents: Contents = container.inspect(chunks, feed.container_options) if inspect else Contents(None)
            for _ in chunks:  # what it left unread
                pass
        except ExportError as error:
            error.object = stored.location
            raise
        except OSError as error:  # of the decompressor; those of the source come out of _Hashed as ours
            problem, fix = f"its {codec} is damaged or cut off: {error}", "export the object again, then run the hour"
            raise ExportError(problem, object=stored.location, fix=fix) from error
    if raw.size != stored.size:
        problem = f"had {stored.size} bytes when it was listed, now {raw.size}"
        raise ConflictError(problem, object=stored.location, fix="wait until the exporter has ended, then run the hour")
    return ReadObject(
        topic=topic, listed=stored, stored=stored, sha256=raw.digest.hexdigest(), contents=contents, suffix=suffix
    )


def _copy(one: ReadObject, feed: Feed, hour: Hour, version: int, settings: Settings) -> LandedObject:
    # Content and origin are in the name: two runs at once write the same bytes to the same path, or to another path.
    # The rest of the name is cut to what no file system, URI or Spark glob takes for something else.
    unique = hashlib.sha256(f"{one.sha256}/{one.listed.name}".encode()).hexdigest()[:12]
    name = re.sub(r"[^A-Za-z0-9._=-]", "_", one.listed.name)[-120:]
    ending = "" if name.endswith(one.suffix) else one.suffix
    path = f"{object_folder(feed.feed, one.topic, hour, version)}/{unique}-{name}{ending}"
    target = f"{settings.landing_root}/{path}"
    source = storage_of(one.stored.location, settings)
    storage_of(target, settings).copy_from(source, one.stored, target, one.sha256)
    return LandedObject(
        path=path,
        topic=one.topic,
        source=one.listed.location,
        fingerprint=one.listed.fingerprint,
        bytes=one.stored.size,
        sha256=one.sha256,
        records=one.contents.records,
        plain=one.contents.plain,
        contained_by=feed.contained_by,
    )


def _compression(head: bytes, stored: StoredObject) -> tuple[str | None, str]:
    """What the first bytes say, and the ending a reader needs. A name that says something else is a mistake."""
    codec, suffix = next((found for magic, found in _MAGIC.items() if head.startswith(magic)), (None, ""))
    named = _COMPRESSED.search(stored.name)
    if head and named and codec != _CODECS.get(named[0].lower(), "another"):
        fix = "export it plain, gzip (.gz) or zstd (.zst), and name it so"
        raise ExportError(f"is {codec or 'neither gzip nor zstd'} by its content", object=stored.location, fix=fix)
    return codec, suffix


def _chunks(stream: BinaryIO, codec: str | None) -> Iterator[bytes]:
    """The decompressed bytes. OSError for a stream that is damaged or ends too early."""
    if codec == "gzip":
        try:
            yield from _gunzip(stream)
        except (EOFError, IsalError) as error:  # type: ignore[misc]
            raise OSError(str(error)) from error
        return
    source: Any = pa.CompressedInputStream(pa.PythonFile(stream, "r"), codec) if codec else stream
    while chunk := source.read(_CHUNK):
        yield chunk


def _gunzip(stream: BinaryIO) -> Iterator[bytes]:
    """The bytes of all members. Other tools pass over zeros between and behind them; Spark's reader does not, and an object
    that it cannot read must not land."""
    data = stream.read(_CHUNK)
    while data:
        member = IgzipDecompressor(flag=DECOMP_GZIP)
        while not member.eof:
            if member.needs_input and not data and not (data := stream.read(_CHUNK)):
                raise EOFError("it ends before the end of its last member")
            if chunk := member.decompress(data, _CHUNK):
                yield chunk
            data = b""
        data = member.unused_data or stream.read(_CHUNK)


class _Hashed(io.RawIOBase):
    """A stream that keeps the SHA-256 and the size of what was read from it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self.digest, self.size = stream, hashlib.sha256(), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        try:
            data = self._stream.read(len(buffer))
        except OSError as error:
            raise TransientError(f"cannot be read: {error}") from error
        buffer[: len(data)] = data
        self.digest.update(data)
        self.size += len(data)
        return len(data)
