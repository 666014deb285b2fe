"""Maintenance of what lies in plain folders: copies of tables in Parquet, and what a land that died left behind."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime

from tidemark.feeds.model import Feed
from tidemark.ledger.manifest import load_manifests
from tidemark.settings import Settings
from tidemark.storage.landing_layout import parse_path
from tidemark.storage.trees import files_under, remove_file, remove_folder
from tidemark.tables.parquet_copies import copies_folder, read_copies


def clear_copies(feed: str, safe: datetime, settings: Settings) -> int:
    """Of the feed's copies in Parquet folders, remove the documents that were written before ``safe``, but for the newest,
    and folders that no document names any more and that nobody has written to since. How many folders."""
    root = copies_folder(settings, feed)
    files = files_under(root, settings)
    documents = sorted(path for path in files if "/" not in path and path.endswith(".json"))
    used: set[str] = set()
    for path in documents:
        if path != documents[-1] and files[path] < safe:
            remove_file(f"{root}/{path}", settings)
        else:
            used.update(read_copies(settings, feed, path).tables.values())
    written: dict[str, datetime] = {}
    for path, at in files.items():
        if path.count("/") > 1:
            folder = "/".join(path.split("/")[:2])
            written[folder] = max(at, written.get(folder, at))
    left = sorted(folder for folder, at in written.items() if folder not in used and at < safe)
    for folder in left:
        remove_folder(f"{root}/{folder}", settings)
    return len(left)


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
