"""Quarantine: what a feed's hours kept back, whole and with its reason, and the way back.

Each row of the system table ``quarantine`` names the stage that kept it back: decode (a record that cannot be decoded),
assemble (a change that its metadata do not fit, or whose transaction never completed), screen (a key or value that
cannot be read, or that fails a check); or it is ``transaction``: not the change itself was refused, but
another one of its transaction; or ``stopped``: its table cannot go on. ``hour`` is the hour it landed in.
``released`` says of a row of before that it counts no more: a good copy of what was refused has come, so that its transaction
waits for nothing.
``landed_this_hour`` is true when that hour's own publication kept it back, and false when a later one did that released
it.

A replay is a new version of the hour's manifest that brings no object and *recalls* the quarantine. From there on the
hour goes the ordinary way through all stages, whoever runs it: decode replaces the recalled entries of the change log
by what they are today, and the account of the hour is made without them first. Rows are never removed from the
quarantine: they count until a publication of their hour has recalled them.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

from tidemark.errors import ConfigError, ConflictError
from tidemark.feeds.model import Feed
from tidemark.hours import Hour
from tidemark.lake.catalog import Where, read_rows
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.manifest import all_objects, load_manifest, save_manifest
from tidemark.ledger.state_store import load_state
from tidemark.settings import Settings

#: The columns that identify an entry of the change log, and a row of the quarantine.
ENTRY = ["object", "record", "entry"]

#: The stage of changes that are refused for what they sent.
SCREEN = "screen"

#: With this begins the reason of changes of which a value fails a check.
CHECK_FAILED = "check failed: "

#: With this begins the reason of changes that are not refused themselves, but wait with the other half of their key change.
OTHER_HALF = "the other half of its key change is refused: "

#: The stage of changes that are not refused themselves, but wait with their transaction.
ALONGSIDE = "transaction"

#: The stage of changes whose table is stopped.
STOPPED = "stopped"

#: The stage of rows that take an entry out of quarantine again, with its transaction.
RELEASED = "released"

#: The stages of changes that are not bad: they are not counted against the feed's limit.
NOT_BAD = (ALONGSIDE, STOPPED)

#: The stages whose rows count as quarantined in their table's part of the receipt.
OF_TABLES = (SCREEN, *NOT_BAD)

#: With this begins the reason of changes that are given up by the feed's policy for overdue transactions.
NEVER_COMPLETED = "its transaction never completed"

#: Before the record that such a transaction may lack.
PERHAPS = "; perhaps it lacks "


def list_kept_back(
    settings: Settings,
    feed: str,
    hour: str | None = None,
    columns: tuple[str, ...] = ("*",),
    objects: Collection[str] | None = None,
) -> list[dict[str, Any]]:
    """The rows that count, read without Spark, by hour, object, record and entry; or some of their columns beside these.
    ``hour`` and ``objects``: only those that landed in it, and in these objects.
    Those of the last attempt are among them, though its hour stopped before it was published: an entry that it looked at
    again is listed as the attempt saw it."""
    state = load_state(settings, feed)
    where: Where = [("hour", "=", hour)] if hour else []
    if objects is not None:
        where.append(("object", "in", list(objects)))
    if columns != ("*",):
        columns = tuple(dict.fromkeys(("sequence", "hour", "stage", *ENTRY, *columns)))
    newest: dict[tuple[Any, ...], dict[str, Any]] = {}
    rows = read_rows(settings, "tidemark", feed, "quarantine", where=where, columns=columns)
    for row in sorted(rows, key=lambda r: r["sequence"]):
        shown = state.counts(row["sequence"]) or row["sequence"] == state.taken
        if shown and row["sequence"] > state.recalls.get(row["hour"], 0):
            newest[tuple(row[name] for name in ("hour", *ENTRY))] = row
    return [newest[at] for at in sorted(newest) if newest[at]["stage"] != RELEASED]


def waits_for(hour: str, reason: str) -> str:
    """Why changes of a stopped table wait where those of another hour do."""
    return f"changes of {hour} wait: {first_reason(reason)}"


def first_reason(reason: str) -> str:
    """Why a table was stopped first: the hour that it waited for since may be published by now."""
    return re.sub(r"\Achanges of \S+ wait: ", "", reason)


def list_stopped(settings: Settings, state: FeedState) -> dict[str, tuple[Hour, str]]:
    """The tables that stay as they were, by the names that they were stopped under, each with the oldest hour whose changes
    of it wait, and why they do. A statement stops its table also before any change of it waits."""
    found: dict[str, tuple[Hour, str]] = {}
    if state.stopped:
        for row in list_kept_back(settings, state.feed, columns=("stage", "table", "reason")):
            if row["stage"] == STOPPED:
                found.setdefault(row["table"], (Hour.parse(row["hour"]), first_reason(row["reason"])))
    for table, why in state.stopped_tables.items():
        found.setdefault(
            table, (min(Hour(hour) for hour, told in state.stopped.items() if table in told), first_reason(why))
        )
    return dict(sorted(found.items()))


def list_unplaced(settings: Settings, feed: str) -> list[dict[str, Any]]:
    """Of these, the records that cannot be decoded and do not say what they are of: hour, object and record."""
    rows = list_kept_back(settings, feed, columns=("stage", "change", "position"))
    return [row for row in rows if row["stage"] == "decode" and row["change"] is None and row["position"] is None]


def hours_in_quarantine(settings: Settings, feed: str, first: str | None = None, last: str | None = None) -> list[Hour]:
    """The hours, oldest first, of which anything is in quarantine; from ``first`` to ``last``, both included."""
    state = load_state(settings, feed)
    rows = read_rows(
        settings, "tidemark", feed, "quarantine", columns=("sequence", "hour", "stage", *ENTRY),
        where=[("sequence", "<=", state.last_sequence)],
    )  # fmt: skip
    counted = [row for row in rows if state.counts(row["sequence"])]
    taken_out = {
        tuple(row[name] for name in ENTRY): row["sequence"]
        for row in sorted(counted, key=lambda r: r["sequence"]) if row["stage"] == RELEASED
    }  # fmt: skip
    hours = {
        Hour.parse(row["hour"])
        for row in counted
        if row["sequence"] > max(state.recalls.get(row["hour"], 0), taken_out.get(tuple(row[n] for n in ENTRY), 0))
    }
    return sorted(hour for hour in hours if (first or hour) <= hour <= (last or hour))


def recall(feed: Feed, hour: str, settings: Settings) -> bool:
    """Write the manifest version that recalls what the hour has in quarantine. False when there is nothing to recall
    and no replay of the hour waits to be run.

    ConfigError for an hour that was never published: to run it is enough.
    """
    for _ in range(3):  # again when another run wrote the version meanwhile
        state, manifest = load_state(settings, feed.feed), all_objects(settings, feed.feed, hour)
        if not state.has(hour):
            raise ConfigError(
                "the hour was never published, so that nothing of it has to be replayed",
                fix=f"`tidemark run {feed.feed} --hour {hour}` decodes all of it as the feed file is now",
                feed=feed.feed,
                hour=hour,
            )
        if manifest.recalls > state.recalls.get(hour, 0):
            return True
        if hour not in hours_in_quarantine(settings, feed.feed, hour, hour):
            return False
        newest = load_manifest(settings, feed.feed, hour)
        again = newest.model_copy(
            update={
                "version": newest.version + 1,
                "created_at": datetime.now(UTC),
                "recalls": state.last_sequence,
            }
        )
        if save_manifest(settings, again):
            return True
    raise ConflictError(
        "other runs land or replay this hour at the same time", fix="replay it again when they have ended",
        feed=feed.feed, hour=hour,
    )  # fmt: skip
