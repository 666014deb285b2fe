"""Turns: of all processes that write a feed's tables, or decode an hour of it, one does so at a time.

A publication is made of many commits, in branches and books that go by its number; two that were made at once under one
number would mix. Airflow's pool keeps the hours of a feed apart, but not a `tidemark run` beside it, nor the same hour
started twice.

On files a turn is a lock of the operating system, which ends with its process however that ends. On S3 it is an object
that its holder renews; one that nobody has renewed for a while is taken over, so the holder looks whether it still has
it before what cannot be undone.
"""

from __future__ import annotations

import fcntl
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from tidemark.errors import ConflictError, TransientError
from tidemark.settings import Settings
from tidemark.storage.objects import S3Objects, storage_of

_POLL = 0.2
_TIMEOUT = timedelta(hours=1)
#: On S3: not renewed for so long, a turn is over. Clocks are not compared; who waits watches for so long.
_LEASE = timedelta(seconds=90)


def _nothing() -> None:
    """A lock of the operating system is not lost."""


@dataclass
class FeedLock:
    """A turn that is held. ``check`` raises ConflictError when it was lost."""

    check: Callable[[], None] = field(default=_nothing)


@contextmanager
def feed_lock(
    settings: Settings, feed: str, hour: str | None = None, *, timeout: timedelta = _TIMEOUT
) -> Iterator[FeedLock]:
    """Hold the turn of a feed's tables; with ``hour`` that of the hour's part of the change log.

    Waits for the one that has it. ConflictError when that lasts for longer than ``patience``. Not to be held twice.
    """
    location = f"{settings.lake_root}/_locks/{feed}{f'.{hour}' if hour else ''}"
    storage = storage_of(location, settings)
    until = time.monotonic() + timeout.total_seconds()
    hold = _lease(storage, location, until) if isinstance(storage, S3Objects) else _lock(location, until)
    with hold as held:
        yield held


@contextmanager
def _lock(location: str, until: float) -> Iterator[FeedLock]:
    Path(location).parent.mkdir(parents=True, exist_ok=True)
    with Path(location).open("ab") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                _wait(location, until)
        yield FeedLock()


@contextmanager
def _lease(storage: S3Objects, location: str, until: float) -> Iterator[FeedLock]:
    mine = uuid.uuid4().hex
    fingerprint = _acquired(storage, location, mine, until)
    over, lost = threading.Event(), threading.Event()

    def renew() -> None:
        nonlocal fingerprint
        beat = 0
        while not over.wait(_LEASE.total_seconds() / 6):
            beat += 1
            try:
                renewed = storage.swap(location, json.dumps({"holder": mine, "beat": beat}), fingerprint)
                if renewed is None:  # or was it this holder itself, and did not hear of it?
                    renewed = _mark_of(storage, location, mine)
            except TransientError:
                continue  # there is time for some more tries
            if renewed is None:
                lost.set()
                return
            fingerprint = renewed

    def check() -> None:
        if lost.is_set() or _mark_of(storage, location, mine) is None:
            raise ConflictError("another run took the turn over", object=location, fix="run the hour again")

    renewing = threading.Thread(target=renew, daemon=True)
    renewing.start()
    try:
        yield FeedLock(check)
    finally:
        over.set()
        renewing.join()
        if not lost.is_set():
            with suppress(TransientError):  # what was done is done: the turn then ends by itself
                storage.swap(location, json.dumps({"holder": None}), fingerprint)


def _acquired(storage: S3Objects, location: str, mine: str, until: float) -> str:
    """The mark of the object that says the turn is ours."""
    text, seen, since = json.dumps({"holder": mine}), "", time.monotonic()
    while True:
        holder, fingerprint = _read(storage, location) if storage.find(location) else (None, None)
        if holder == mine and fingerprint:  # written by an earlier try, whose answer was lost
            return fingerprint
        if fingerprint and fingerprint != seen:
            seen, since = fingerprint, time.monotonic()
        if (holder is None or time.monotonic() - since > _LEASE.total_seconds()) and (
            swapped := storage.swap(location, text, fingerprint)
        ):
            return swapped
        _wait(location, until)


def _mark_of(storage: S3Objects, location: str, mine: str) -> str | None:
    """The mark of the object if it says that the turn is ours."""
    holder, fingerprint = _read(storage, location)
    return fingerprint if holder == mine else None


def _read(storage: S3Objects, location: str) -> tuple[str | None, str]:
    """Whose turn it is, and the mark of the object that says so."""
    text, fingerprint = storage.read_marked(location)
    return json.loads(text).get("holder"), fingerprint


def _wait(location: str, until: float) -> None:
    if time.monotonic() > until:
        raise ConflictError(
            "another run has the turn", object=location, fix="wait until it has ended, then run the hour again"
        )
    time.sleep(_POLL)
