"""A feed's state held against its receipts, and made again from them where it is lost or damaged."""

from __future__ import annotations

import pyarrow.compute as pc

from tidemark.errors import StateError
from tidemark.lake.catalog import find_table, reading
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.publication_history import PublicationHistory, load_history
from tidemark.ledger.state_store import load_state, newest_revision, save_state
from tidemark.ledger.system_tables import SYSTEM_TABLES
from tidemark.operations.audit_finding import AuditFinding
from tidemark.settings import Settings
from tidemark.storage.feed_lock import feed_lock

#: What of a state does not follow from receipts.
_OWN = {"feed", "format", "revision", "writer", "token", "taken", "next", "unrecorded"}


def wrong_state(
    feed: str, history: PublicationHistory, settings: Settings, *, whole: bool
) -> tuple[list[AuditFinding], PublicationHistory]:
    """What is wrong with the feed's state; and the history with what that alone knows. ``whole``: all receipts were read."""
    rebuild = f"`tidemark audit {feed} --rebuild-state` makes it again from the receipts"
    try:
        state = load_state(settings, feed)
    except StateError as error:
        return [AuditFinding("state", f"feed {feed}", error.problem, rebuild)], history
    findings = []
    if (made := state.next) is not None and made.validated:
        fix = f"wait for it, or finish it: `tidemark run {feed} --hour {made.hour}`; then audit again"
        findings.append(AuditFinding("publication", f"hour {made.hour}", "is under way or stopped half-way", fix))
    every = history.with_unrecorded(state)
    if (last := state.unrecorded) is not None and every is not history:
        fix = f"the next hour writes it, or `tidemark run {feed} --hour {last.hour}`; then audit again"
        findings.append(AuditFinding("receipt", f"publication {last.sequence}", "is not written yet", fix))
    history = every
    recorded = {receipt.sequence for receipt in history.receipts}
    restore = "restore the row of tidemark.receipts from a backup, or take that table back to a snapshot of before"
    lost = [number for number in range(1, state.last_sequence + 1) if state.counts(number) and number not in recorded]
    findings += [AuditFinding("receipt", f"publication {number}", "has no receipt", restore) for number in lost]
    if whole and not lost and (differing := _differing(state, history.state)):
        found = f"is not what its receipts add up to: {', '.join(differing)}"
        findings.append(AuditFinding("state", f"feed {feed}", found, rebuild))
    return findings, history


def rebuild_state(feed: str, settings: Settings) -> FeedState:
    """Make the feed's state again from its receipts, and store it. A publication that was in the making is begun again by
    its next run."""
    with feed_lock(settings, feed):
        history = load_history(settings, feed)
        try:
            stored = load_state(settings, feed)
        except StateError:
            every, unrecorded = history, None
        else:  # of a run that died, it may have the only copy of a receipt
            every = history.with_unrecorded(stored)
            unrecorded = stored.unrecorded if every is not history else None
        state = FeedState.of(feed, every.receipts)
        own = {
            "taken": max(state.last_sequence, _highest_number(feed, settings)),
            "revision": newest_revision(settings, feed),
            "unrecorded": unrecorded,
        }
        return save_state(settings, state.model_copy(update=own))


def _highest_number(feed: str, settings: Settings) -> int:
    """The highest number of a publication in the feed's system tables: an attempt took it, whatever became of it."""
    highest = 0
    for name in SYSTEM_TABLES:
        table = find_table(settings, "tidemark", feed, name)
        if table is not None and table.current_snapshot() is not None:
            with reading("tidemark", feed, name):
                numbers = table.scan(selected_fields=("sequence",)).to_arrow()["sequence"]
            highest = max(highest, pc.max(numbers).as_py() or 0)
    return highest


def _differing(stored: FeedState, rebuilt: FeedState) -> list[str]:
    """The names of what differs, but for :data:`_OWN`."""
    one, other = (state.model_dump(exclude=_OWN) for state in (stored, rebuilt))
    return [name for name in one if one[name] != other[name]]
