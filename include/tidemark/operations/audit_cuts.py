"""Cuts under audit: every table of a feed has its tag for each published hour, and it points to a publication.

Read from the tables' metadata, without Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.snapshots import Snapshot

from tidemark.feeds.model import Feed
from tidemark.hours import Hour
from tidemark.identifiers import publication_name
from tidemark.lake.catalog import find_table
from tidemark.lake.spark_conf import CATALOG
from tidemark.ledger.publication_history import Cut, PublicationHistory
from tidemark.ledger.receipts import Receipt
from tidemark.ledger.retention import CUTS_DROPPED, expired_hours
from tidemark.operations.audit_finding import AuditFinding
from tidemark.settings import Settings
from tidemark.tables.published_table import PUBLISHED

#: In place of a publication's name: its snapshot has expired, so the name is no longer known.
EXPIRED = "an expired snapshot"


def wrong_cuts(
    feed: Feed, history: PublicationHistory, receipts: Mapping[Hour, Receipt], settings: Settings
) -> list[AuditFinding]:
    """What is wrong with the cuts of the hours, and with what readers see now."""
    of_table = {t.table: t.progress.sources for r in history.receipts for t in r.tables if t.progress.sources}
    # The cuts of late hours are made under the names that the feed file gives now.
    former = {table for table, sources in of_table.items() if table not in map(feed.published_name, sources)}
    findings: list[AuditFinding] = []
    for table in sorted(history.tables - former):
        findings += _wrong_tags(feed, table, history, receipts, settings)
    return findings


def publication_of(table: IcebergTable, snapshot: Snapshot | None) -> str | None:
    """The publication that made a snapshot, or the one whose files maintenance rewrote into it.

    :data:`EXPIRED` where the snapshot of that publication has expired; None for a snapshot that no publication made.
    """
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
    feed: Feed, table: str, history: PublicationHistory, receipts: Mapping[Hour, Receipt], settings: Settings
) -> list[AuditFinding]:
    found, wrote = find_table(settings, *table.split(".", 1)), _wrote(history, table)
    if found is None:
        restore = "restore it from a backup of the catalog and the lake"
        return [AuditFinding("table", table, "is missing", restore)] if wrote else []
    names = {publication_name(r.feed, r.hour, r.sequence): r.sequence for r in history.receipts}
    expired = expired_hours(feed, history.cuts_made)
    dropped = datetime.fromisoformat(str(found.properties.get(CUTS_DROPPED, "0001-01-01T00:00:00+00:00")))
    findings = []
    for hour in receipts:
        cut = history.cut(hour)
        shown = [receipt.sequence for receipt in wrote if cut.shows(receipt)]
        if hour in expired or not shown:
            continue
        where, ref = f"hour {hour}, table {table}", found.metadata.refs.get(hour.tag)
        newest = shown[-1]
        restore_tag = (
            f"ALTER TABLE {table} CREATE OR REPLACE TAG {hour.tag} AS OF VERSION <the snapshot of publication "
        )
        restore_tag += f"{newest}: its summary names it as tidemark.publication>"
        if ref is None and (made := history.cuts_made.get(hour)) is not None and made < dropped:
            continue
        if ref is None:
            findings.append(AuditFinding("cut", where, f"its tag {hour.tag} is missing", restore_tag))
            continue
        made_by = publication_of(found, found.metadata.snapshot_by_id(ref.snapshot_id))
        if made_by != EXPIRED and names.get(made_by or "", 0) not in _may_be(cut, history, newest):
            found_there = f"its tag {hour.tag} points to {made_by or 'no publication'}, not to publication {newest}"
            findings.append(AuditFinding("cut", where, found_there, restore_tag))
    known = {receipt.hour.tag for receipt in history.receipts}
    fix = "if its receipt was lost, restore it; if a run died before its receipt, run the hour again"
    for stray in sorted(name for name in found.metadata.refs if name.startswith("hour_") and name not in known):
        findings.append(AuditFinding("cut", f"table {table}", f"its tag {stray} has no receipt", fix))
    now = publication_of(found, found.current_snapshot())
    if wrote and now != EXPIRED and names.get(now or "", 0) < wrote[-1].sequence:
        current = f"readers see {now or 'no publication'}, not the last one, number {wrote[-1].sequence}"
        published = str(found.properties.get(PUBLISHED, "")).partition(" ")[0] or "<that of the last publication>"
        back = (
            f"CALL {CATALOG}.system.set_current_snapshot('{table}', {published}); or leave it: the next hour with a change "
            "of the table folds all of it again from the change log"
        )
        findings.append(AuditFinding("table", table, current, back))
    return findings


def _may_be(cut: Cut, history: PublicationHistory, newest: int) -> set[int]:
    """The publications whose snapshot a cut may be: the ``newest`` it shows that wrote rows, or one after it that wrote
    none. The cut of a late hour shows less of its publications than they wrote: it may be any of them."""
    shown = {receipt.sequence for receipt in history.receipts if cut.shows(receipt)}
    late = len(shown) < sum(receipt.sequence <= cut.made_by for receipt in history.receipts)
    return shown if late else {sequence for sequence in shown if sequence >= newest}


def _wrote(history: PublicationHistory, table: str) -> list[Receipt]:
    """The publications that wrote rows of the table, and so made a snapshot of it, oldest first."""
    return [
        receipt
        for receipt in history.receipts
        if any(t.table == table and t.rows_written and t.staged_in == receipt.sequence for t in receipt.tables)
    ]
