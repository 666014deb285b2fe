"""Maintenance of what lies in plain folders: Parquet snapshots, and what a land that died left behind."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime

from tidemark.feeds.model import Feed
from tidemark.hours import Hour
from tidemark.ledger.manifest import load_manifests
from tidemark.ledger.publication_history import PublicationHistory
from tidemark.settings import Settings
from tidemark.snapshots.parquet_pointers import ParquetPointers, cut_pointer, is_pointer
from tidemark.storage.landing_layout import parse_path
from tidemark.storage.trees import files_under, remove_file, remove_folder


def clear_parquet(
    feed: Feed, history: PublicationHistory, expired: set[Hour], safe: datetime, settings: Settings
) -> int:
    """Remove the pointers of expired cuts, and folders that no pointer leads to and that nobody has written to since
    ``safe``. How many folders."""
    count = 0
    tables = {feed.published_name(source) for source, table in feed.tables.items() if table.storage == "parquet"}
    for table in sorted(tables & {t.table for receipt in history.receipts for t in receipt.tables}):
        pointers = ParquetPointers(table, settings)
        root = pointers.root
        files = files_under(root, settings)
        for hour in sorted(expired):
            if files.pop(cut_pointer(hour), None):
                remove_file(f"{root}/{cut_pointer(hour)}", settings)
        used = {pointers.target(path) for path in files if is_pointer(path)}
        written: dict[str, datetime] = {}
        for path, at in files.items():
            if path.startswith("hour="):
                folder = "/".join(path.split("/")[:2])
                written[folder] = max(at, written.get(folder, at))
        for folder in sorted(folder for folder, at in written.items() if folder not in used and at < safe):
            remove_folder(f"{root}/{folder}", settings)
            count += 1
    return count


def clear_landing(feed: Feed, safe: datetime, settings: Settings) -> int:
    """Remove files of the landing that no manifest lists and that were written before ``safe``: of a land that died
    before its manifest. How many.

    Only of versions that have a manifest: nothing lands in their folders any more. In that of the next version a land
    may be writing the same file again at this moment.
    """
    root = f"{settings.landing_root}/{feed.feed}"
    by_hour: dict[str, dict[str, int]] = defaultdict(dict)
    for path, at in files_under(root, settings).items():
        landed = parse_path(path)
        if landed and at < safe:
            by_hour[landed.hour][path] = landed.version
    count = 0
    for hour, versions in sorted(by_hour.items()):
        manifests = load_manifests(settings, feed.feed, hour)
        listed = {landed.path for manifest in manifests for landed in manifest.objects}
        newest = manifests[-1].version if manifests else 0
        for path, version in sorted(versions.items()):
            if version <= newest and f"{feed.feed}/{path}" not in listed:
                remove_file(f"{root}/{path}", settings)
                count += 1
    return count
