"""Cuts under audit: every table of a feed has its tag for each published hour, and it points to a publication.

Read from the tables' metadata, without Spark.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.snapshots import Snapshot

from tidemark.feeds.model import Feed
from tidemark.hours import tag_of
from tidemark.identifiers import publication_name
from tidemark.lake.catalog import find_table
from tidemark.ledger.publication_history import PublicationHistory
from tidemark.ledger.receipts import Receipt
from tidemark.operations.audit_finding import AuditFinding
from tidemark.operations.retention import expired_hours
from tidemark.settings import Settings
from tidemark.snapshots.parquet_pointers import ParquetPointers, cut_pointer

#: A publication that can no longer be told.
EXPIRED = "an expired snapshot"


def wrong_cuts(
    feed: Feed, published: PublicationHistory, receipts: Mapping[str, Receipt], settings: Settings
) -> list[AuditFinding]:
    """Differences of the cuts of the hours, and of what readers see now."""
    told: list[AuditFinding] = []
    for table in sorted({t.table for r in published.receipts for t in r.tables}):
        if feed.declared(table).storage == "parquet":
            told += _wrong_pointers(feed, table, published, receipts, settings)
        else:
            told += _wrong_tags(feed, table, published, receipts, settings)
    return told


def publication_of(table: IcebergTable, snapshot: Snapshot | None) -> str | None:
    """The publication that made a snapshot, or the one whose rows maintenance wrote anew in it: :data:`EXPIRED` where
    that one's snapshot is gone by now. None: nobody's."""
    while snapshot is not None:
        summary = snapshot.summary
        if summary is not None and summary.operation.value != "replace":
            return summary.additional_properties.get("tidemark.publication")
        parent = snapshot.parent_snapshot_id
        snapshot = table.metadata.snapshot_by_id(parent) if parent is not None else None
        if snapshot is None and parent is not None:
            return EXPIRED
    return None


def _wrong_tags(
    feed: Feed, table: str, published: PublicationHistory, receipts: Mapping[str, Receipt], settings: Settings
) -> list[AuditFinding]:
    found, wrote = find_table(settings, *table.split(".", 1)), _wrote(published, table)
    if found is None:
        restore = "restore it from a backup of the catalog and the lake"
        return [AuditFinding("table", table, "is gone", restore)] if wrote else []
    names = {publication_name(r.feed, r.hour, r.sequence): r.sequence for r in published.receipts}
    expired = expired_hours(feed, published)
    told = []
    for hour, receipt in receipts.items():
        if hour in expired or not any(sequence <= receipt.sequence for sequence in wrote):
            continue
        where, ref = f"hour {hour}, table {table}", found.metadata.refs.get(tag_of(hour))
        newest = max(sequence for sequence in wrote if sequence <= receipt.sequence)
        again = f"ALTER TABLE {table} CREATE OR REPLACE TAG {tag_of(hour)} AS OF VERSION <the snapshot of publication "
        again += f"{newest}: its summary names it as tidemark.publication>"
        if ref is None:
            told.append(AuditFinding("cut", where, f"its tag {tag_of(hour)} is gone", again))
            continue
        made_by = publication_of(found, found.metadata.snapshot_by_id(ref.snapshot_id))
        if made_by != EXPIRED and not newest <= names.get(made_by or "", 0) <= receipt.sequence:
            said = f"its tag {tag_of(hour)} points to {made_by or 'no publication'}, not to publication {newest}"
            told.append(AuditFinding("cut", where, said, again))
    known = {tag_of(receipt.hour) for receipt in published.receipts}
    fix = "if its receipt was lost, restore it; if a run died before its receipt, run the hour again"
    for stray in sorted(name for name in found.metadata.refs if name.startswith("hour_") and name not in known):
        told.append(AuditFinding("cut", f"table {table}", f"its tag {stray} has no receipt", fix))
    now = publication_of(found, found.current_snapshot())
    if wrote and now != EXPIRED and names.get(now or "", 0) < max(wrote):
        said = f"readers see {now or 'no publication'}, not the last one, number {max(wrote)}"
        back = f"CALL lake.system.rollback_to_snapshot('{table}', <the snapshot of the last publication>)"
        told.append(AuditFinding("table", table, said, back))
    return told


def _wrote(published: PublicationHistory, table: str) -> list[int]:
    """The publications that surely made a snapshot of the table, oldest first: they wrote rows."""
    return [
        receipt.sequence
        for receipt in published.receipts
        if any(t.table == table and t.rows_written and t.staged_in == receipt.sequence for t in receipt.tables)
    ]


def _wrong_pointers(
    feed: Feed, table: str, published: PublicationHistory, receipts: Mapping[str, Receipt], settings: Settings
) -> list[AuditFinding]:
    """The same of a table in Parquet folders."""
    pointers = ParquetPointers(table, settings)
    wrote, expired = _wrote(published, table), expired_hours(feed, published)
    told = []
    restore = "restore the lake's folder of the table from a backup"
    for hour, receipt in receipts.items():
        if hour in expired or not any(sequence <= receipt.sequence for sequence in wrote):
            continue
        where, folder = f"hour {hour}, table {table}", pointers.at_cut(hour)
        if folder is None:
            told.append(AuditFinding("cut", where, f"the pointer {pointers.root}/{cut_pointer(hour)} is gone", restore))
        elif not pointers.is_whole(folder):
            found = folder.removeprefix(f"{pointers.root}/")
            told.append(AuditFinding("cut", where, f"its folder {found} is not whole", restore))
    return told
