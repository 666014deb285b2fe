"""Which of a feed's cuts have expired. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from tidemark.feeds.model import Feed
from tidemark.hours import Hour
from tidemark.ledger.publication_history import PublicationHistory


def expired_hours(feed: Feed, history: PublicationHistory, now: datetime | None = None) -> set[Hour]:
    """Hours whose cuts are older than the feed keeps them, by the time of the hour's last publication.

    The cut of the newest publication never expires.
    """
    keep, last = feed.retention.cuts, history.receipts[-1].hour if history.receipts else None
    if keep is None:
        return set()
    oldest = (now or datetime.now(UTC)) - keep
    newest = {receipt.hour: receipt.published_at for receipt in history.receipts}
    return {hour for hour, at in newest.items() if at is not None and at < oldest and hour != last}
