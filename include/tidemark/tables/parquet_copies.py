"""Copies of published tables in Parquet folders, for readers that know no Iceberg.

``<lake>/parquet/<feed>/00000012.json`` names a folder for each table of the feed that has a copy, as they are after
publication 12: together they are one cut. Readers follow the document with the highest number. Documents and folders are
written once, by one run, under names of their own, so that a run that was overtaken cannot alter what others have written.
"""

from __future__ import annotations

import uuid

from pydantic import Field

from tidemark.feeds.model import Feed
from tidemark.hours import Hour
from tidemark.identifiers import TIDEMARK
from tidemark.lake.stored_formats import StoredDocument, parse_document
from tidemark.ledger.hour_run import HourRun
from tidemark.logs import log_stage
from tidemark.settings import Settings
from tidemark.storage.objects import storage_of
from tidemark.tables.published_table import PublishedTable


class ParquetCopies(StoredDocument):
    """The copies of a feed's tables after one publication."""

    feed: str = Field(description="The feed's name.")
    sequence: int = Field(description="The publication.")
    newest_hour: Hour = Field(description="The newest hour that the copies show.")
    tables: dict[str, str] = Field(description="By published table, its folder, relative to the document's.")


def write_copies(run: HourRun) -> None:
    """Copy the tables that the publication in the making has changed, which is in its tables already. Those that have no
    whole copy of the publication before it are copied too. Done before: does nothing again."""
    feed, settings, made = run.feed, run.settings, run.state.attempt
    wanted = sorted(copied_tables(feed) & (run.state.tables.keys() | set(made.staged)))
    if not wanted:
        return
    before = newest_copies(settings, feed.feed)
    if before is not None and before.sequence >= made.sequence:
        return
    root = copies_folder(settings, feed.feed)
    # Older copies lack what was published while no table had one.
    folders = dict(before.tables) if before is not None and before.sequence == run.state.last_sequence else {}
    copied = {}
    for table in wanted:
        published = PublishedTable(run.spark, table, feed.feed, made.sequence)
        if table in made.staged or table not in folders or not is_whole(f"{root}/{folders[table]}", settings):
            if not published.columns():  # only truncates have come of it so far
                continue
            folders[table] = f"{table}/{made.sequence:08d}-{uuid.uuid4().hex[:12]}"
            with log_stage("publish", "copied to a Parquet folder", table=table):
                published.read().drop(TIDEMARK).write.parquet(f"{root}/{folders[table]}")
        copied[table] = folders[table]
    newest_hour = max(made.hour, run.state.newest_hour or made.hour)
    copies = ParquetCopies(feed=feed.feed, sequence=made.sequence, newest_hour=newest_hour, tables=copied)
    location = f"{root}/{document_name(made.sequence)}"
    # Where there is one, another run has finished the same publication: its copies hold the same.
    storage_of(location, settings).write_new(location, copies.model_dump_json(indent=1))


def newest_copies(settings: Settings, feed: str) -> ParquetCopies | None:
    """The copies that readers see now; None: there are none."""
    folder = copies_folder(settings, feed)
    documents = [stored.name for stored in storage_of(folder, settings).list_objects(folder, "*.json")]
    if not documents:
        return None
    return read_copies(settings, feed, max(documents))


def read_copies(settings: Settings, feed: str, document: str) -> ParquetCopies:
    """What a document of the feed's copies says, by its name. ValueError where it is damaged."""
    location = f"{copies_folder(settings, feed)}/{document}"
    return parse_document(ParquetCopies, storage_of(location, settings).read_text(location), location)


def copied_tables(feed: Feed) -> set[str]:
    """The published tables of which the feed file wants a copy."""
    return {feed.published_name(source) for source, table in feed.tables.items() if table.parquet}


def is_whole(folder: str, settings: Settings) -> bool:
    """Whether Spark finished writing a folder."""
    return storage_of(folder, settings).find(f"{folder}/_SUCCESS") is not None


def copies_folder(settings: Settings, feed: str) -> str:
    """The folder of all copies of a feed."""
    return f"{settings.lake_root}/parquet/{feed}"


def document_name(sequence: int) -> str:
    """The name of a publication's document, by which documents sort."""
    return f"{sequence:08d}.json"
