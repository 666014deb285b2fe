"""Which cuts have expired."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.unit.formats.qlik_messages import feed
from tidemark.feeds.model import Retention
from tidemark.ledger.publication_history import PublicationHistory
from tidemark.ledger.receipts import Receipt
from tidemark.ledger.retention import expired_hours

NOW = datetime(2026, 11, 30, tzinfo=UTC)


def receipt(sequence: int, hour: str, days: float) -> Receipt:
    """The receipt of an hour that was published this many days ago."""
    return Receipt(
        feed="crm", hour=hour, sequence=sequence, manifest_version=1, objects=0, bytes=0, landed=0, split=0, control=0,
        bad=0, held=0, published_at=NOW - timedelta(days=days),
    )  # fmt: skip


def test_a_cut_is_as_old_as_the_publication_that_made_it() -> None:
    """An hour that runs again leaves it as it is, unless cuts are made again."""
    history = PublicationHistory(
        [
            receipt(1, "2026-11-20T00", 9),
            receipt(2, "2026-11-20T01", 9),
            receipt(3, "2026-11-20T02", 7),
            receipt(4, "2026-11-20T00", 1),
            receipt(5, "2026-11-20T01", 1).model_copy(update={"amended": ["2026-11-20T01", "2026-11-20T02"]}),
            receipt(6, "2026-11-20T03", 1),
        ]
    )
    kept = feed().model_copy(update={"retention": Retention(cuts=timedelta(days=7))})
    assert expired_hours(kept, history.cuts_made, NOW) == {"2026-11-20T00"}
    assert expired_hours(kept, history.cuts_made, NOW + timedelta(days=7)) == set(history.hours[:3])
    assert expired_hours(feed(), history.cuts_made, NOW) == set(), "forever, unless the feed file says otherwise"


def test_the_newest_cut_stays_however_old() -> None:
    """Also when an older hour was the last to be published."""
    receipts = [receipt(1, "2026-11-20T00", 90), receipt(2, "2026-11-20T01", 80), receipt(3, "2026-11-20T00", 1)]
    history = PublicationHistory(receipts)
    kept = feed().model_copy(update={"retention": Retention(cuts=timedelta(0))})
    assert expired_hours(kept, history.cuts_made, NOW) == {"2026-11-20T00"}
    assert expired_hours(kept, {}, NOW) == set()
