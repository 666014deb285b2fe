"""Pending publications: what compact did in an hour and what validate found, handed from job to job until a receipt
makes it final.

A feed has one pending publication at a time, beside the lake's tables at ``_pending/<feed>.json``: a publication's rows
in the system tables go by its sequence number, and only one hour can have the next number. An hour that compacts
replaces the pending publication; the hour that it belonged to, if it is not published by then, is compacted again. With
``validated`` set it has reached the point of no return: from then on the publication is only ever finished, never made
again.
"""

from __future__ import annotations

from pydantic import Field

from tidemark.lake.stored_formats import StoredDocument, parse_document
from tidemark.ledger.manifest import Manifest
from tidemark.ledger.publication_history import PublicationHistory
from tidemark.ledger.receipts import Receipt
from tidemark.settings import Settings
from tidemark.storage.objects import storage_of


class PendingPublication(StoredDocument):
    """A receipt in the making. ``publication`` names its audit branches; ``staged``: tables that have one; ``retired``:
    by table, columns that hold nothing once it is published. ``discarded``: nobody goes on with it, its hour is to be
    compacted again."""

    receipt: Receipt
    publication: str
    staged: list[str]
    retired: dict[str, list[str]] = Field({})
    validated: bool = False
    discarded: bool = False

    def of(self, manifest: Manifest) -> bool:
        """Whether it is of this version of this hour's export."""
        return (self.receipt.hour, self.receipt.manifest_version) == (manifest.hour, manifest.version)

    def follows(self, history: PublicationHistory) -> bool:
        """Whether this is the publication that comes next: not one that is done, was overtaken or was discarded."""
        return not self.discarded and self.receipt.sequence == history.last_sequence + 1


def save_pending(settings: Settings, pending: PendingPublication) -> None:
    """Write it, whole or not at all."""
    location = _location(settings, pending.receipt.feed)
    storage_of(location, settings).write_text(location, pending.model_dump_json(indent=1))


def discard_pending(settings: Settings, pending: PendingPublication) -> None:
    """Mark it as discarded: nobody goes on with it, so that its branches and rows may be replaced."""
    save_pending(settings, pending.model_copy(update={"discarded": True}))


def load_pending(settings: Settings, feed: str) -> PendingPublication | None:
    """The feed's pending publication: that of its last publication, or of the one in the making."""
    location = _location(settings, feed)
    storage = storage_of(location, settings)
    if storage.find(location) is None:
        return None
    return parse_document(PendingPublication, storage.read_text(location), location)


def _location(settings: Settings, feed: str) -> str:
    return f"{settings.lake_root}/_pending/{feed}.json"
