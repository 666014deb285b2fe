"""The feed lock: of all processes that write a feed's tables, or decode the same hour of it, one works at a time.

A publication consists of many commits, to audit branches and system tables that carry its number; two publications made
at once under the same number would mix. Airflow's pool keeps the hours of a feed apart, but not a `tidemark run` beside
Airflow, nor the same hour started twice.

On files the feed lock is a lock of the operating system, which ends with its process, however that ends. On S3 it is an
object that its holder renews. Either names its holder, so that whoever waits is told for whom, and since when. A lock
that nobody has renewed for a while is taken over, so a holder checks that it still has the lock before it does what
cannot be undone.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tidemark.errors import ConflictError, TransientError
from tidemark.logs import current_context, get_logger
from tidemark.settings import Settings
from tidemark.storage.objects import storage_of
from tidemark.storage.s3 import S3Objects

log = get_logger()

_POLL = 0.2
_TIMEOUT = timedelta(hours=1)
#: On S3: a lock that is not renewed for this long may be taken over. Who waits measures it by watching the object, so
#: the clocks of two machines are never compared.
_LEASE = timedelta(seconds=90)
#: With its number, tells a process from others, on whatever machine: those that it forks have the same.
_RUN = uuid.uuid4().hex
#: Processes whose locks were taken over: for their other locks nobody waits another lease.
_GONE: set[Any] = set()
#: Who has waited for longer than this (s) says so.
_WORTH_A_LINE = 2.0


def _never_lost() -> None:
    """A lock of the operating system lasts as long as its process."""


@dataclass
class FeedLock:
    """A feed lock that is held."""

    check: Callable[[], None] = field(default=_never_lost)
    """Raises ConflictError when the lock was lost. To be called before what cannot be undone."""


@contextmanager
def feed_lock(
    settings: Settings, feed: str, hour: str | None = None, *, timeout: timedelta = _TIMEOUT
) -> Iterator[FeedLock]:
    """Hold the lock of a feed's tables; with ``hour`` the lock of that hour's part of the change log.

    Waits for the run that holds it; ConflictError when that takes longer than ``timeout``. A process that takes the lock
    twice waits for itself.
    """
    location = f"{settings.lake_root}/_locks/{feed}{f'.{hour}' if hour else ''}"
    storage = storage_of(location, settings)
    until = time.monotonic() + timeout.total_seconds()
    hold = _s3_lock(storage, location, until) if isinstance(storage, S3Objects) else _file_lock(location, until)
    start = time.monotonic()
    with hold as held:
        if (waited := time.monotonic() - start) > _WORTH_A_LINE:
            log.info("another run held the feed lock", lock=Path(location).name, seconds=round(waited, 1))
        yield held


@contextmanager
def _file_lock(location: str, until: float) -> Iterator[FeedLock]:
    Path(location).parent.mkdir(parents=True, exist_ok=True)
    waits = _Wait(location, until)
    with Path(location).open("a+") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                file.seek(0)
                waits.on(_parse(file.read()))
        file.truncate(0)
        file.write(json.dumps(_myself()))
        file.flush()
        yield FeedLock()


@contextmanager
def _s3_lock(storage: S3Objects, location: str, until: float) -> Iterator[FeedLock]:
    mine = uuid.uuid4().hex
    ours = {"holder": mine, **_myself()}
    fingerprint = _acquired(storage, location, ours, until)
    over, lost = threading.Event(), threading.Event()

    def renew() -> None:
        nonlocal fingerprint
        beat = 0
        while not over.wait(_LEASE.total_seconds() / 6):
            beat += 1
            try:
                renewed = storage.swap(location, json.dumps(ours | {"beat": beat}), fingerprint)
                if renewed is None:  # perhaps an earlier attempt of ours did it and its answer was lost
                    renewed = _fingerprint_if_held(storage, location, mine)
            except TransientError:
                continue  # the lease lasts for some more attempts
            if renewed is None:
                log.warning("lost the feed lock", lock=location, reason="another run took it over")
                lost.set()
                return
            fingerprint = renewed

    def check() -> None:
        if lost.is_set() or _fingerprint_if_held(storage, location, mine) is None:
            raise ConflictError("another run took the feed lock over", object=location, fix="run the hour again")

    renewing = threading.Thread(target=renew, daemon=True)
    renewing.start()
    try:
        yield FeedLock(check)
    finally:
        over.set()
        renewing.join()
        if not lost.is_set():
            with suppress(TransientError):  # the work is done; the lock then ends by itself
                storage.swap(location, json.dumps({"holder": None}), fingerprint)


def _acquired(storage: S3Objects, location: str, ours: dict[str, Any], until: float) -> str:
    """Wait for the lock and take it. The fingerprint of the object that says it is ours."""
    seen, since, waits = "", time.monotonic(), _Wait(location, until)
    while True:
        found, fingerprint = _read(storage, location) if storage.find(location) else ({}, None)
        holder = found.get("holder")
        if holder == ours["holder"] and fingerprint:  # written by an earlier attempt, whose answer was lost
            return fingerprint
        if fingerprint and fingerprint != seen:
            seen, since = fingerprint, time.monotonic()
        idle = time.monotonic() - since
        free = holder is None or idle > _LEASE.total_seconds() or found.get("run") in _GONE
        if free and (swapped := storage.swap(location, json.dumps(ours), fingerprint)):
            if holder is not None:
                _GONE.update({found.get("run")} - {ours["run"]})
                log.warning(
                    "took the feed lock over", lock=location, reason="its holder has not renewed it", idle=round(idle)
                )
            return swapped
        waits.on(found)


def _fingerprint_if_held(storage: S3Objects, location: str, mine: str) -> str | None:
    """The fingerprint of the lock's object if it says that the lock is ours."""
    found, fingerprint = _read(storage, location)
    return fingerprint if found.get("holder") == mine else None


def _read(storage: S3Objects, location: str) -> tuple[dict[str, Any], str]:
    """What the lock's object says of its holder, and the object's fingerprint."""
    text, fingerprint = storage.read_with_fingerprint(location)
    return _parse(text), fingerprint


def _myself() -> dict[str, Any]:
    """What others are told of this process while it holds the lock."""
    began = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return {
        "run": f"{os.getpid()} {_RUN}",
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "hour": current_context().get("hour"),
        "since": began,
    }


def _parse(text: str) -> dict[str, Any]:
    """What a lock says; nothing where its holder has not written yet."""
    with suppress(ValueError):
        found = json.loads(text)
        if isinstance(found, dict):
            return found
    return {}


def _told(found: dict[str, Any]) -> str:
    """The holder of a lock in words."""
    if not found.get("pid"):
        return "another run"
    hour = f" with hour {found['hour']}" if found.get("hour") else ""
    return f"process {found['pid']} on {found.get('host')}{hour}, since {found.get('since')}"


class _Wait:
    """The wait for one lock: says once for whom, and ends when its time is over."""

    def __init__(self, location: str, until: float) -> None:
        self._location, self._until, self._said_at = location, until, time.monotonic() + _WORTH_A_LINE

    def on(self, found: dict[str, Any]) -> None:
        """Wait a moment for the holder that a lock names."""
        now = time.monotonic()
        if now > self._until:
            raise ConflictError(
                f"{_told(found)} holds the feed lock",
                object=self._location,
                fix="wait until it has ended, then run the hour again",
            )
        if now > self._said_at:
            log.info("waits for the feed lock", lock=Path(self._location).name, holder=_told(found))
            self._said_at = float("inf")
        time.sleep(_POLL)
