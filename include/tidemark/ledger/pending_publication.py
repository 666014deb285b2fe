"""Drafts: what compact did in an hour and validate found, handed from job to job before a receipt says it for good.

A feed has one draft at a time, beside the lake's tables at ``_pending/<feed>.json``, for a publication's pages in the
books go by its sequence number, and the next number can be only one hour's. An hour that compacts takes the draft's
place; the hour it belonged to, if it is not published by then, is compacted again. With ``validated`` set it is the
point of no return: from then on a publication is only ever carried forward, never made again.
"""

from __future__ import annotations

from pydantic import BaseModel

from tidemark.ledger.manifest import Manifest
from tidemark.ledger.publication_history import PublicationHistory
from tidemark.ledger.receipts import Receipt
from tidemark.settings import Settings
from tidemark.storage.objects import storage_of


class PendingPublication(BaseModel):
    """A receipt in the making. ``publication`` names its audit branches; ``staged``: tables that have one; ``retired``:
    by table, columns that hold nothing once it is published. ``held_back``: tables in which checks put rows back, or
    began to; then the quarantine may hold a page of it. ``discarded``: it is no draft any more, its hour is to be
    compacted again."""

    receipt: Receipt
    publication: str
    staged: list[str]
    retired: dict[str, list[str]] = {}
    held_back: list[str] = []
    validated: bool = False
    discarded: bool = False

    def of(self, manifest: Manifest) -> bool:
        """Whether it is of this version of this hour's export."""
        return (self.receipt.hour, self.receipt.manifest_version) == (manifest.hour, manifest.version)

    def follows(self, published: PublicationHistory) -> bool:
        """Whether this is the publication that comes next, and not one that is done, was overtaken or withdrawn."""
        return not self.discarded and self.receipt.sequence == published.last_sequence + 1


def save_pending(settings: Settings, pending: PendingPublication) -> None:
    """Written whole or not at all."""
    location = _location(settings, pending.receipt.feed)
    storage_of(location, settings).write_text(location, pending.model_dump_json(indent=1))


def discard_pending(settings: Settings, pending: PendingPublication) -> None:
    """From here on nobody goes on with it: its branches and pages may be touched."""
    save_pending(settings, pending.model_copy(update={"discarded": True}))


def load_pending(settings: Settings, feed: str) -> PendingPublication | None:
    """The feed's draft: of its last publication, or of the one in the making."""
    location = _location(settings, feed)
    storage = storage_of(location, settings)
    if storage.find(location) is None:
        return None
    return PendingPublication.model_validate_json(storage.read_text(location))


def _location(settings: Settings, feed: str) -> str:
    return f"{settings.lake_root}/_pending/{feed}.json"
