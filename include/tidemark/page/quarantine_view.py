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
    """Something in quarantine."""

    hour: str = Field(description="The hour that it landed in.")
    table: str | None = Field(description="The published table that it is of; null: not known.")
    topic: str | None = Field(description="The topic that it came in; null: its container does not say.")
    object: str = Field(description="The landed object that holds it.")
    record: int = Field(description="The number of its record in the object, from 1.")
    position: str | None = Field(description="Where it stands in the source's order; null: not known.")
    stage: str = Field(description="Who kept it back: decode, assemble, screen, transaction or stopped.")
    key: str | None = Field(description="The key that it speaks of, as JSON; null: not known.")
    raw: str = Field(
        description="The beginning of the record's bytes, as text; of a decoded change, of the change as JSON."
    )
    shortened: bool = Field(description="Whether there is more than this beginning.")
    command: str = Field(description="The command that prints all of it.")


class Reason(BaseModel):
    """A reason, and what is kept back for it."""

    reason: str = Field(description="Why, for a person.")
    count: int = Field(description="How many entries are kept back for it.")
    first_hour: str = Field(description="The oldest hour that any of them landed in.")
    last_hour: str = Field(description="The newest hour that any of them landed in.")
    tables: list[str] = Field(description="The published tables that they are of, as far as these are known.")
    entries: list[Entry] = Field(description="The newest of them.")


class QuarantineView(BaseModel):
    """A feed's quarantine."""

    feed: str = Field(description="The feed's name.")
    total: int = Field(description="How many entries are in quarantine, of the hour asked for or of all.")
    reasons: list[Reason] = Field(description="The reasons for it, that of the newest entry first.")
    more_reasons: int = Field(0, description="How many reasons are not shown.")
    replay: str = Field(description="The command that takes all of these up again.")
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
