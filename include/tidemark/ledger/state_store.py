"""Where a feed's state is kept, and how it is replaced: whoever began from another state than it finds is refused.

Each revision is a document of its own beside the lake's tables, ``_state/<feed>/00000042.json``, written only where none
is. So of two writers that began from the same revision one fails, on S3 (a conditional write) as on files (a hard link),
with or without working locks. Old revisions are removed, never the newest.
"""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from tidemark.errors import ConflictError, StateError, TidemarkError, TransientError
from tidemark.lake.catalog import read_rows
from tidemark.lake.stored_formats import parse_document
from tidemark.ledger.feed_state import FeedState
from tidemark.logs import current_context, get_logger
from tidemark.settings import Settings
from tidemark.storage.objects import storage_of

log = get_logger()

#: Tells processes apart that have the same number, on machines of the same name.
_RUN = uuid.uuid4().hex[:12]
#: How many revisions are kept.
_KEPT = 50


def load_state(settings: Settings, feed: str) -> FeedState:
    """The feed's state as it is now; an empty one before its first publication.

    StateError where the feed has published hours and its state is missing or damaged.
    """
    if (found := find_state(settings, feed)) is not None:
        return found
    published = read_rows(settings, "tidemark", "receipts", columns=("sequence",), where=[("feed", "=", feed)])
    if published:
        raise StateError(
            f"it has receipts of {len(published)} publications, and no state in {_folder(settings, feed)}",
            fix=f"`tidemark audit {feed} --rebuild-state` makes it again from the receipts",
            feed=feed,
        )
    return FeedState(feed=feed)


def find_state(settings: Settings, feed: str) -> FeedState | None:
    """The feed's state as it is now; None where none is stored, whether there should be one or not: the catalog is not asked.
    StateError where it is damaged."""
    revisions = _revisions(settings, feed)
    if not revisions:
        return None
    location = _location(settings, feed, revisions[-1])
    try:
        return parse_document(FeedState, storage_of(location, settings).read_text(location), location)
    except ValueError as error:  # not UTF-8, no JSON, or no state
        raise StateError(
            "the feed's state is damaged",
            fix=f"`tidemark audit {feed} --rebuild-state` makes it again from the receipts",
            feed=feed,
            object=location,
        ) from error


def save_state(settings: Settings, state: FeedState) -> FeedState:
    """Replace the state that ``state`` was made from; what is stored now. ConflictError where another writer did so."""
    state = state.model_copy(update={"revision": state.revision + 1, "writer": _writer(), "token": uuid.uuid4().hex})
    location, text = _location(settings, state.feed, state.revision), state.model_dump_json(indent=1)
    storage = storage_of(location, settings)
    try:
        written = storage.write_new(location, text) or storage.read_text(location) == text  # its answer was lost
    except TransientError:
        written = storage.find(location) is not None and storage.read_text(location) == text
        if not written:
            raise
    revisions = _revisions(settings, state.feed)
    if not written or revisions[-1] != state.revision:
        raise _overtaken(state)
    try:
        for old in revisions[:-_KEPT]:
            storage.remove(_location(settings, state.feed, old))
    except TidemarkError as error:  # the state is stored; the next one removes them
        log.warning("old revisions of the feed's state stay", why=error.problem, fix=error.fix, object=error.object)
    return state


def check_state(settings: Settings, state: FeedState) -> None:
    """ConflictError where the state is another by now."""
    if newest_revision(settings, state.feed) != state.revision:
        raise _overtaken(state)


def newest_revision(settings: Settings, feed: str) -> int:
    """The newest revision of the feed's state, whatever it holds; 0: there is none."""
    return max(_revisions(settings, feed), default=0)


def is_own(state: FeedState) -> bool:
    """Whether a state that was read was written by this process."""
    return state.writer == _writer()


@contextmanager
def stops_when_overtaken(settings: Settings, state: FeedState) -> Iterator[None]:
    """Within, whatever fails because another run has gone on since ``state`` fails with a ConflictError."""
    try:
        yield
    except TidemarkError:
        raise
    except Exception as error:
        newest = load_state(settings, state.feed)
        if newest.revision > state.revision and not is_own(newest):
            raise _overtaken(state) from error
        raise


def _overtaken(state: FeedState) -> ConflictError:
    return ConflictError(
        "another run has gone on with the feed meanwhile, and what this one has written counts for nobody",
        fix="run the hour again",
        feed=state.feed,
        hour=current_context().get("hour"),
    )


def _writer() -> str:
    return f"process {os.getpid()} on {socket.gethostname()} ({_RUN})"


def _revisions(settings: Settings, feed: str) -> list[int]:
    """The revisions that are there, oldest first."""
    folder = _folder(settings, feed)
    listed = storage_of(folder, settings).list_names(folder, "*.json")
    return sorted(int(stem) for name in listed if (stem := name.removesuffix(".json")).isdecimal())


def _location(settings: Settings, feed: str, revision: int) -> str:
    return f"{_folder(settings, feed)}/{revision:08d}.json"


def _folder(settings: Settings, feed: str) -> str:
    return f"{settings.lake_root}/_state/{feed}"
