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
from tidemark.storage import S3Objects, storage_of

_POLL = 0.2
_PATIENCE = timedelta(hours=1)
#: On S3: not renewed for so long, a turn is over. Clocks are not compared; who waits watches for so long.
_LEASE = timedelta(seconds=90)


def _nothing() -> None:
    """A lock of the operating system is not lost."""


@dataclass
class Turn:
    """A turn that is held. ``check`` raises ConflictError when it was lost."""

    check: Callable[[], None] = field(default=_nothing)


@contextmanager
def turn(settings: Settings, feed: str, hour: str | None = None, *, patience: timedelta = _PATIENCE) -> Iterator[Turn]:
    """Hold the turn of a feed's tables; with ``hour`` that of the hour's part of the change log.

    Waits for the one that has it. ConflictError when that lasts for longer than ``patience``. Not to be held twice.
    """
    location = f"{settings.lake_root}/_turns/{feed}{f'.{hour}' if hour else ''}"
    storage = storage_of(location, settings)
    until = time.monotonic() + patience.total_seconds()
    hold = _lease(storage, location, until) if isinstance(storage, S3Objects) else _lock(location, until)
    with hold as held:
        yield held


@contextmanager
def _lock(location: str, until: float) -> Iterator[Turn]:
    Path(location).parent.mkdir(parents=True, exist_ok=True)
    with Path(location).open("ab") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                _wait(location, until)
        yield Turn()


@contextmanager
def _lease(storage: S3Objects, location: str, until: float) -> Iterator[Turn]:
    mine = uuid.uuid4().hex
    mark = _acquired(storage, location, mine, until)
    over, lost = threading.Event(), threading.Event()

    def renew() -> None:
        nonlocal mark
        beat = 0
        while not over.wait(_LEASE.total_seconds() / 6):
            beat += 1
            try:
                renewed = storage.swap(location, json.dumps({"holder": mine, "beat": beat}), mark)
                if renewed is None:  # or was it this holder itself, and did not hear of it?
                    renewed = _mark_of(storage, location, mine)
            except TransientError:
                continue  # there is time for some more tries
            if renewed is None:
                lost.set()
                return
            mark = renewed

    def check() -> None:
        if lost.is_set() or _mark_of(storage, location, mine) is None:
            raise ConflictError("another run took the turn over", object=location, mend="run the hour again")

    renewing = threading.Thread(target=renew, daemon=True)
    renewing.start()
    try:
        yield Turn(check)
    finally:
        over.set()
        renewing.join()
        if not lost.is_set():
            with suppress(TransientError):  # what was done is done: the turn then ends by itself
                storage.swap(location, json.dumps({"holder": None}), mark)


def _acquired(storage: S3Objects, location: str, mine: str, until: float) -> str:
    """The mark of the object that says the turn is ours."""
    text, seen, since = json.dumps({"holder": mine}), "", time.monotonic()
    while True:
        holder, mark = _read(storage, location) if storage.find(location) else (None, None)
        if holder == mine and mark:  # written by an earlier try, whose answer was lost
            return mark
        if mark and mark != seen:
            seen, since = mark, time.monotonic()
        if (holder is None or time.monotonic() - since > _LEASE.total_seconds()) and (
            swapped := storage.swap(location, text, mark)
        ):
            return swapped
        _wait(location, until)


def _mark_of(storage: S3Objects, location: str, mine: str) -> str | None:
    """The mark of the object if it says that the turn is ours."""
    holder, mark = _read(storage, location)
    return mark if holder == mine else None


def _read(storage: S3Objects, location: str) -> tuple[str | None, str]:
    """Whose turn it is, and the mark of the object that says so."""
    text, mark = storage.read_marked(location)
    return json.loads(text).get("holder"), mark


def _wait(location: str, until: float) -> None:
    if time.monotonic() > until:
        raise ConflictError(
            "another run has the turn", object=location, mend="wait until it has ended, then run the hour again"
        )
    time.sleep(_POLL)
