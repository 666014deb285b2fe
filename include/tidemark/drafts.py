"""Drafts: what compact did in an hour and validate found, handed from job to job before a receipt says it for good.

A draft lives beside the lake's tables, at ``_drafts/<feed>/<hour>.json``. With ``validated`` set it is the point of
no return: from then on a publication is only ever carried forward, never made again.
"""

from __future__ import annotations

from pydantic import BaseModel

from tidemark.receipts import Receipt
from tidemark.settings import Settings
from tidemark.storage import storage_of


class Draft(BaseModel):
    """A receipt in the making. ``publication`` names its audit branches; ``staged``: tables that have one."""

    receipt: Receipt
    publication: str
    staged: list[str]
    released_hours: list[str] = []
    validated: bool = False


def save_draft(settings: Settings, draft: Draft) -> None:
    """Written whole or not at all."""
    location = _location(settings, draft.receipt.feed, draft.receipt.hour)
    storage_of(location, settings).write_text(location, draft.model_dump_json(indent=1))


def load_draft(settings: Settings, feed: str, hour: str) -> Draft | None:
    """The hour's draft, if there is one."""
    location = _location(settings, feed, hour)
    storage = storage_of(location, settings)
    if storage.find(location) is None:
        return None
    return Draft.model_validate_json(storage.read_text(location))


def _location(settings: Settings, feed: str, hour: str) -> str:
    return f"{settings.lake_root}/_drafts/{feed}/{hour}.json"
