"""The publication history of a feed: its receipts, oldest first, for people and for audits. No stage of
an hour reads it: see :mod:`tidemark.ledger.feed_state`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import accumulate

from tidemark.hours import Hour
from tidemark.lake.catalog import Where, read_rows
from tidemark.lake.stored_formats import parse_document
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.receipts import Receipt
from tidemark.settings import Settings


@dataclass(frozen=True)
class Cut:
    """What the cut of an hour shows."""

    hour: str
    """The hour after which it shows the tables."""
    made_by: int
    """The publication that made it; 0: there is none."""

    def shows(self, receipt: Receipt) -> bool:
        """Whether it shows a publication's changes."""
        return receipt.sequence <= self.made_by and receipt.hour <= self.hour


@dataclass(frozen=True)
class PublicationHistory:
    """A feed's publications, all or some of them, as their receipts tell."""

    receipts: list[Receipt] = field(default_factory=list)
    """One of each publication, oldest first."""
    unpublished: Sequence[int] | None = None
    """Numbers that attempts have taken and that were never published. None: those that have no receipt here, because these
    are all there are."""

    @cached_property
    def state(self) -> FeedState:
        """The feed's state after these publications."""
        feed = self.receipts[0].feed if self.receipts else ""
        return FeedState.of(feed, self.receipts, self.unpublished)

    def with_unrecorded(self, state: FeedState) -> PublicationHistory:
        """With the publication whose receipt ``state`` alone may have. A run that died may have written it all the same."""
        newest = state.unrecorded
        if newest is None or any(receipt.sequence == newest.sequence for receipt in self.receipts):
            return self
        return PublicationHistory([*self.receipts, newest], self.unpublished)

    def of(self, receipts: Iterable[Receipt]) -> PublicationHistory:
        """Some of the feed's publications, of which these are all."""
        return PublicationHistory(list(receipts), self.state.unpublished)

    @property
    def hours(self) -> list[Hour]:
        """Hours with a receipt."""
        return sorted({receipt.hour for receipt in self.receipts})

    @property
    def cuts_made(self) -> dict[Hour, datetime | None]:
        """When the cut of each hour was made."""
        published = {receipt.sequence: receipt.published_at for receipt in self.receipts}
        return {hour: published.get(self.state.cut_by(hour)) for hour in self.hours}

    @property
    def tables(self) -> set[str]:
        """The tables that any publication names."""
        return {table.table for receipt in self.receipts for table in receipt.tables}

    def of_hour(self, hour: str) -> Receipt | None:
        """The newest receipt of an hour."""
        return next((receipt for receipt in reversed(self.receipts) if receipt.hour == hour), None)

    def cut(self, hour: str) -> Cut:
        """What an hour's cut shows."""
        return Cut(hour, self.state.cut_by(hour))

    def in_cut(self, hour: str) -> PublicationHistory:
        """The publications whose changes an hour's cut shows."""
        cut = self.cut(hour)
        return self.of(receipt for receipt in self.receipts if cut.shows(receipt))

    def after_cut(self, hour: str, table: str | None = None) -> list[Hour]:
        """The hours up to this one that have brought changes, of a table or any, since the hour's cut was made."""
        made_by = self.cut(hour).made_by
        later = [r for r in self._late if r.sequence > made_by and r.hour <= hour] if made_by else []
        return sorted(
            {r.hour for r in later if any(t.staged_in == r.sequence for t in r.tables if table in (None, t.table))}
        )

    @cached_property
    def _late(self) -> list[Receipt]:
        """Receipts of hours that were published after a later hour, or again."""
        newest = list(accumulate((receipt.hour for receipt in self.receipts), max))
        return [r for r, before in zip(self.receipts[1:], newest, strict=False) if r.hour <= before]


def load_history(settings: Settings, feed: str) -> PublicationHistory:
    """The feed's receipts, by sequence."""
    rows = read_rows(settings, "tidemark", "receipts", where=[("feed", "=", feed)])
    receipts = [parse_document(Receipt, row["receipt"]) for row in rows]
    return PublicationHistory(sorted(receipts, key=lambda receipt: receipt.sequence))


def cuts_made(settings: Settings, state: FeedState) -> dict[Hour, datetime | None]:
    """When the cut of each of a feed's hours was made. Reads no receipt, but the columns beside it."""
    columns = ("feed", "sequence", "published_at")
    rows = read_rows(settings, "tidemark", "receipts", where=[("feed", "=", state.feed)], columns=columns)
    found = {row["sequence"]: row["published_at"] for row in rows}
    if (newest := state.unrecorded) is not None:
        found[newest.sequence] = newest.published_at
    return {hour: found.get(state.cut_by(hour)) for hour in state.published_hours()}


def load_receipts_from(settings: Settings, state: FeedState, first: str, last: str | None = None) -> list[Receipt]:
    """All receipts of a feed's hours from ``first`` on, to ``last`` where it is given, by sequence."""
    where: Where = [("feed", "=", state.feed), ("hour", ">=", first)]
    if last is not None:
        where.append(("hour", "<=", last))
    rows = read_rows(settings, "tidemark", "receipts", where=where, columns=("feed", "hour", "receipt"))
    found = {one.sequence: one for one in (parse_document(Receipt, row["receipt"]) for row in rows)}
    if (newest := state.unrecorded) is not None and first <= newest.hour <= (last or newest.hour):
        found[newest.sequence] = newest
    return [found[sequence] for sequence in sorted(found)]


def load_receipt(settings: Settings, feed: str, hour: str) -> Receipt | None:
    """The newest receipt of an hour; None where it has none."""
    rows = read_rows(settings, "tidemark", "receipts", where=[("feed", "=", feed), ("hour", "=", hour)])
    newest = max(rows, key=lambda row: row["sequence"], default=None)
    return None if newest is None else parse_document(Receipt, newest["receipt"])
