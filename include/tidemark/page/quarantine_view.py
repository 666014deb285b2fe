"""What a feed has in quarantine: by reason, the newest first, each with what it says and where it came from."""

from __future__ import annotations

import json
import shlex
from typing import Any

from pydantic import BaseModel, Field

from tidemark.feeds.model import Feed
from tidemark.lake.lake_marker import check_lake
from tidemark.ledger.quarantine import list_kept_back
from tidemark.page.texts import printable
from tidemark.settings import Settings

#: How many entries of each reason are shown, of how many reasons, and how much of a record.
_ENTRIES, _REASONS, _CHARACTERS = 5, 20, 1200


class Entry(BaseModel):
    """Something in quarantine. ``raw``: the beginning of the record's bytes, as text; of a decoded change, of the change as
    JSON. ``command`` prints all of it."""

    hour: str
    table: str | None
    topic: str | None
    object: str
    record: int
    position: str | None
    stage: str
    key: str | None
    raw: str
    shortened: bool
    command: str


class Reason(BaseModel):
    """A reason, and what is kept back for it. ``entries``: the newest of them."""

    reason: str
    count: int
    first_hour: str
    last_hour: str
    tables: list[str]
    entries: list[Entry]


class QuarantineView(BaseModel):
    """A feed's quarantine. ``replay``: the command that takes all of it up again."""

    feed: str
    total: int
    reasons: list[Reason]
    more_reasons: int = Field(0, description="How many reasons are not shown.")
    replay: str
    hour: str | None = Field(None, description="The hour that was asked for; null: all.")


def show_quarantine(settings: Settings, feed: Feed, hour: str | None = None) -> QuarantineView:
    """A feed's quarantine, of one hour or of all. Of what is not shown no record is read."""
    check_lake(settings)
    kept = list_kept_back(settings, feed.feed, hour, columns=("reason", "table"))
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in reversed(kept):
        groups.setdefault(row["reason"], []).append(row)
    newest = sorted(groups.items(), key=lambda group: group[1][0]["hour"], reverse=True)
    chosen = {
        (row["hour"], row["object"], row["record"], row["entry"])
        for _, rows in newest[:_REASONS]
        for row in rows[:_ENTRIES]
    }
    objects = {place[1] for place in chosen}
    whole = list_kept_back(settings, feed.feed, hour, objects=objects) if chosen else []
    entries = {(row["hour"], row["object"], row["record"], row["entry"]): row for row in whole}
    return QuarantineView(
        feed=feed.feed,
        total=len(kept),
        reasons=[
            Reason(
                reason=reason,
                count=len(rows),
                first_hour=min(row["hour"] for row in rows),
                last_hour=max(row["hour"] for row in rows),
                tables=sorted({row["table"] for row in rows if row["table"]}),
                entries=[
                    _entry(feed.feed, entries[place])
                    for row in rows[:_ENTRIES]
                    if (place := (row["hour"], row["object"], row["record"], row["entry"])) in entries
                ],
            )
            for reason, rows in newest[:_REASONS]
        ],
        more_reasons=max(0, len(newest) - _REASONS),
        replay=f"tidemark quarantine replay {feed.feed}" + (f" --hour {hour}" if hour else ""),
        hour=hour,
    )


def _entry(feed: str, row: dict[str, Any]) -> Entry:
    text = row["raw"].decode("utf-8", "backslashreplace") if row["raw"] is not None else _pretty(row["change"])
    place = (row["object"], str(row["record"]))
    return Entry(
        **{name: row[name] for name in ("hour", "table", "topic", "object", "record", "position", "stage")},
        key=_key(row["change"]),
        raw=printable(text[:_CHARACTERS]),
        shortened=len(text) > _CHARACTERS,
        command=f"tidemark quarantine show {feed} " + " ".join(map(shlex.quote, place)),
    )


def _pretty(change: str | None) -> str:
    try:
        return json.dumps(json.loads(change or "{}"), ensure_ascii=False, indent=1)
    except ValueError:
        return change or ""


def _key(change: str | None) -> str | None:
    """The key that a change speaks of, as JSON; None where it is not known."""
    try:
        found = json.loads(change or "{}").get("key")
    except (ValueError, AttributeError):
        return None
    return printable(json.dumps(found, ensure_ascii=False)) if found else None
