"""The pending publication: what it belongs to, and that a discarded one is not gone on with."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tidemark.hours import Hour
from tidemark.ledger.manifest import Manifest
from tidemark.ledger.pending_publication import PendingPublication, discard_pending, load_pending, save_pending
from tidemark.ledger.publication_history import PublicationHistory
from tidemark.ledger.receipts import Receipt
from tidemark.settings import Settings

HOUR = Hour.parse("2026-11-20T07")


def receipt(sequence: int, version: int = 1) -> Receipt:
    return Receipt(
        feed="shop", hour=HOUR, sequence=sequence, manifest_version=version, objects=0, bytes=0, landed=0, split=0,
        control=0, bad=0, held=0,
    )  # fmt: skip


def manifest(version: int) -> Manifest:
    return Manifest(feed="shop", hour=HOUR, version=version, objects=[], created_at=datetime.now(UTC))


def test_it_follows_the_last_publication_until_it_is_discarded(tmp_path: Path) -> None:
    settings, history = Settings(home=tmp_path), PublicationHistory([receipt(1)])
    assert load_pending(settings, "shop") is None
    pending = PendingPublication(receipt=receipt(2), publication="p", staged=["shop.orders"])
    save_pending(settings, pending)
    saved = load_pending(settings, "shop")
    assert saved == pending and saved is not None and saved.follows(history)
    discard_pending(settings, saved)
    discarded = load_pending(settings, "shop")
    assert discarded is not None and discarded.discarded and not discarded.follows(history)


@pytest.mark.parametrize(("published", "follows"), [(0, False), (1, True), (2, False)])
def test_one_that_is_done_or_was_overtaken_does_not_follow(published: int, follows: bool) -> None:
    history = PublicationHistory([receipt(number) for number in range(1, published + 1)])
    assert PendingPublication(receipt=receipt(2), publication="p", staged=[]).follows(history) == follows


def test_it_is_of_one_version_of_its_hours_export() -> None:
    pending = PendingPublication(receipt=receipt(1, version=2), publication="p", staged=[])
    assert [pending.of(manifest(version)) for version in (1, 2, 3)] == [False, True, False]
