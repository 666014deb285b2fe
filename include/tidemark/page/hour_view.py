"""One hour of a feed: from what landed to what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, TypeAlias

from pydantic import BaseModel, Field

from tidemark.feeds.model import Feed
from tidemark.hours import Hour, hours_came_later
from tidemark.lake.lake_marker import check_lake
from tidemark.ledger.manifest import newest_version
from tidemark.ledger.publication_history import PublicationHistory, load_receipts_from
from tidemark.ledger.receipts import Receipt, TableReceipt
from tidemark.ledger.state_store import load_state
from tidemark.operations.feed_health import hours_with_quarantine
from tidemark.page.feed_view import KINDS, HourKind, judge_hour, out_of_order, unpublished_kind
from tidemark.page.runs import Run
from tidemark.page.shapes import Flow, flow
from tidemark.settings import Settings

FateName: TypeAlias = Literal["applied", "duplicate", "superseded", "control", "held", "quarantined"]
#: What becomes of what lands, in the order of the receipt's sum, and what it means.
FATES: dict[FateName, str] = {
    "applied": "changes that the tables rest on",
    "duplicate": "the same change delivered again",
    "superseded": "older than what the table already held",
    "control": "no change of a row: markers, heartbeats, rolled back",
    "held": "their transaction, or what describes them, is not complete",
    "quarantined": "kept back, whole and with the reason",
}


class Fate(BaseModel):
    """What became of entries of an hour."""

    name: FateName = Field(description="What the receipt calls it.")
    count: int = Field(description="How many entries had this fate.")
    meaning: str = Field(description="What it means, for a person.")


class TablePart(BaseModel):
    """A table's part of an hour, by the hour's newest receipt. Of changes that earlier hours held only the applied count."""

    table: str = Field(description="Its published name.")
    sources: list[str] = Field(
        description="The source's tables that the hour's newest publication published under its name; empty: it did "
        "not touch the table."
    )
    applied: int = Field(description="Changes that the table rests on.")
    duplicate: int = Field(description="Changes that are another delivery of one that counts.")
    superseded: int = Field(description="Changes that were older than what the table already held.")
    quarantined: int = Field(description="Changes of the table that were kept back.")
    released: int = Field(description="Changes of earlier hours that were held until now, and are applied.")
    rows_written: int = Field(description="Rows that the hour's last publication of the table wrote.")
    rows_deleted: int = Field(description="Rows that the hour's last publication of the table deleted.")
    warnings: list[str] = Field(
        description="What the receipt says of the table for a person, failed checks that only warn among it."
    )
    stopped: str | None = Field(None, description="Why the table stays as it was; null: it goes on.")


class Publication(BaseModel):
    """A time that the hour was published."""

    sequence: int = Field(description="The publication's number in its feed.")
    export_version: int = Field(description="The version of the hour's export that it published.")
    published_at: datetime | None = Field(description="When it was published; null: its receipt does not say.")


class HourView(BaseModel):
    """An hour. What its receipt says is null and empty where the hour is not published."""

    feed: str = Field(description="The feed's name.")
    hour: str = Field(description="The hour, in UTC: `2026-11-20T07`.")
    kind: HourKind = Field(description="How it went.")
    words: str = Field(description="What its kind is in words.")
    run: Run | None = Field(None, description="Its newest run in Airflow; null: none is known.")
    landed: int | None = Field(None, description="Records in its objects.")
    split: int = Field(0, description="Changes beyond the first in records that hold several.")
    fates: list[Fate] = Field(
        [], description="What became of all its entries: every fate, in the order of the receipt's sum."
    )
    bad: int = Field(0, description="Records that could not be decoded. They are among those in quarantine.")
    refused: int = Field(
        0, description="Changes kept back before they reached a table. They are among those in quarantine."
    )
    released: dict[str, int] = Field({}, description="What became of changes that earlier hours held, by fate.")
    held_transactions: int = Field(
        0, description="How many transactions of the feed stayed open after the hour's newest publication."
    )
    objects: int = Field(0, description="How many objects landed for it, in all versions of its export.")
    bytes: int = Field(0, description="The bytes of these objects together.")
    newest: datetime | None = Field(
        None, description="The newest source time in it, heartbeats included; null: its records tell none."
    )
    tables: list[TablePart] = Field([], description="The tables that it had changes of.")
    notes: list[str] = Field(
        [],
        description="Remarks of the receipt for people, how many hours came later than its cut, and a version of its export "
        "that is not published.",
    )
    publications: list[Publication] = Field([], description="Each time that it was published, the oldest first.")
    before: str | None = Field(None, description="The hour before it, published or not.")
    after: str | None = Field(None, description="The hour after it, published or not.")
    cut: str | None = Field(None, description="The tag of its cut. Tables have it as long as the feed keeps the cut.")

    @property
    def total(self) -> int:
        """All entries: what landed, and what was split off it."""
        return (self.landed or 0) + self.split

    @property
    def quarantine_words(self) -> str:
        """What is in quarantine, by how far it came."""
        of_tables = sum(table.quarantined for table in self.tables)
        parts = ((self.bad, "could not be decoded"), (self.refused, "could reach no table"), (of_tables, "of tables"))
        return ", ".join(f"{count:,} {words}" for count, words in parts if count)

    @property
    def flow(self) -> Flow:
        """The picture, 480 wide: the whole at the left, its fates at the right."""
        return flow([(fate.name, fate.count) for fate in self.fates], left=95, right=290, tall=200)


def show_hour(settings: Settings, feed: Feed, hour: Hour, run: Run | None) -> HourView:
    """An hour's view: its own receipts, and those of hours around it, are read."""
    check_lake(settings)
    state = load_state(settings, feed.feed)
    around = load_receipts_from(settings, state, hour.plus(-_AROUND), hour.plus(_AROUND))
    by_hour: dict[str, list[Receipt]] = {}
    for receipt in around:
        by_hour.setdefault(receipt.hour, []).append(receipt)
    neighbours = {"before": hour.plus(-1), "after": hour.plus(1)}
    if hour not in by_hour:
        kind = unpublished_kind(hour, state, run)
        return HourView(feed=feed.feed, hour=hour, kind=kind, words=KINDS[kind], run=run, **neighbours)
    kept = hour in hours_with_quarantine(settings, state)
    kind = judge_hour(by_hour[hour], kept_back=kept, out_of_order=hour in out_of_order(by_hour))
    view = HourView(feed=feed.feed, hour=hour, kind=kind, words=KINDS[kind], run=run, **neighbours)
    told = _told(by_hour[hour], view, PublicationHistory(around, state.unpublished).after_cut(hour))
    if (version := newest_version(settings, feed.feed, hour)) > state.version_of(hour):
        again = f"`tidemark run {feed.feed} --hour {hour}` publishes it"
        told.notes.append(f"version {version} of its export is not published: {again}")
    return told


#: Whether an hour is late, and what came after its cut, is told from so many hours around it.
_AROUND = 72


def _told(receipts: Sequence[Receipt], view: HourView, later: Sequence[Hour]) -> HourView:
    """A view with what the newest of the hour's receipts says."""
    newest, counts = receipts[-1], receipts[-1].counts
    numbers: dict[FateName, int] = {
        "applied": counts.applied, "duplicate": counts.duplicate, "superseded": counts.superseded,
        "control": newest.control, "held": newest.held, "quarantined": newest.quarantined,
    }  # fmt: skip
    released = {
        name: getattr(counts, f"released_{name}") for name in ("applied", "duplicate", "superseded", "quarantined")
    }
    return view.model_copy(
        update={
            "landed": newest.landed, "split": newest.split,
            "fates": [Fate(name=name, count=numbers[name], meaning=meaning) for name, meaning in FATES.items()],
            "bad": newest.bad, "refused": newest.refused,
            "released": {name: count for name, count in released.items() if count},
            "held_transactions": newest.held_transactions, "objects": newest.objects, "bytes": newest.bytes,
            "newest": newest.newest, "tables": [_part(table, newest) for table in newest.tables],
            "notes": [*newest.notes, *([f"its cut: {hours_came_later(list(later))}"] if later else [])],
            "publications": [
                Publication(sequence=one.sequence, export_version=one.manifest_version, published_at=one.published_at)
                for one in receipts
            ],
            "cut": Hour.parse(newest.hour).tag,
        }
    )  # fmt: skip


def _part(table: TableReceipt, receipt: Receipt) -> TablePart:
    counts = table.counts
    return TablePart(
        table=table.table, sources=table.progress.sources, applied=counts.applied, duplicate=counts.duplicate,
        superseded=counts.superseded, quarantined=counts.quarantined, released=counts.released_applied,
        rows_written=table.rows_written, rows_deleted=table.rows_deleted, warnings=table.warnings,
        stopped=receipt.stopped.get(table.table),
    )  # fmt: skip
