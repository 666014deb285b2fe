"""The assets of a feed, which other DAGs schedule on, and what their events tell of a publication.

`tidemark/<feed>` and, for each table, `tidemark/<schema.table>`: each publication. `tidemark/<feed>/hours`: hours, each as a
partition, for DAGs that wait for certain hours (Airflow starts no DAG without partitions by an event that has one).
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import Asset

from tidemark.feeds.model import Feed
from tidemark.ledger.receipts import Receipt
from tidemark.orchestration.dag_support import published_tables


def published_assets(feed: Feed) -> list[Asset]:
    """What changes with each publication: the feed, and the tables that its file names."""
    return [Asset(f"tidemark/{feed.feed}"), *(Asset(f"tidemark/{name}") for name in published_tables(feed))]


def hourly_asset(feed: str) -> Asset:
    """The hours of a feed, each a partition like ``2026-11-20T07``."""
    return Asset(f"tidemark/{feed}/hours")


def figures_of(receipt: Receipt) -> dict[str, dict[str, Any]]:
    """By asset's name, the figures of a receipt that its event carries."""
    published = receipt.published_at.isoformat() if receipt.published_at else None
    counts = receipt.counts
    feed = {
        "publication": receipt.sequence, "published_at": published, "source_time": str(receipt.newest or ""),
        "landed": receipt.landed, "applied": counts.applied, "duplicate": counts.duplicate,
        "superseded": counts.superseded, "held": receipt.held, "quarantined": receipt.quarantined,
    }  # fmt: skip
    tables = {
        f"tidemark/{table.table}": {
            "publication": receipt.sequence, "published_at": published, "rows_written": table.rows_written,
            "rows_deleted": table.rows_deleted, **table.counts.model_dump(), "warnings": table.warnings,
        }
        for table in receipt.tables
    }  # fmt: skip
    return {f"tidemark/{receipt.feed}": feed, hourly_asset(receipt.feed).name: feed, **tables}
