"""Migration: a lake that an older release made is brought to the format of this one, one format after the other.

A step leads from a format to the next: what becomes of each JSON document, and of each Iceberg table. The migration
finds them all, applies the step, and writes the new format on each as it is done. So it may stop anywhere and be run
again: what has the new format already is left alone. Its locations are those of this release; a step that moves things
must look for them where they were.

From its first change to its last the lake's marker says that a migration has not ended, and every release refuses the
lake. The feed locks wait for the runs that began before.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from tidemark import __version__
from tidemark.errors import StoredFormatError
from tidemark.lake.catalog import is_ours, list_tables, load_table, reading
from tidemark.lake.lake_marker import read_marker, write_marker
from tidemark.lake.session import full_name, open_session
from tidemark.lake.stored_formats import FORMAT, TABLE_FORMAT, check_format
from tidemark.settings import Settings
from tidemark.snapshots.parquet_pointers import is_document, snapshots_folder
from tidemark.storage.feed_lock import feed_lock
from tidemark.storage.landing_layout import feed_manifests_folder
from tidemark.storage.objects import storage_of
from tidemark.storage.trees import files_under, folders_in

Document = dict[str, Any]


def _same_document(kind: str, fields: Document) -> Document:
    return fields


def _same_table(spark: SparkSession, kind: str, table: str) -> None:
    """The step changes no table."""


@dataclass(frozen=True)
class Step:
    """From the format ``before`` to the next. ``changes`` says to people what is different.

    ``document`` gives the new fields of a document of a kind: ``manifest``, ``state``, ``receipt`` or
    ``pointer``. ``table`` changes a table of a kind (``published``, ``changes``, ``held``, …, ``receipts``) by its full
    name; it may be run again on a table that it has changed already.
    """

    before: int
    changes: str
    document: Callable[[str, Document], Document] = _same_document
    table: Callable[[SparkSession, str, str], None] = _same_table


#: One step for each format that a release has left behind, oldest first. Format 1 is the first: there is none yet.
STEPS: tuple[Step, ...] = ()


def migrate(settings: Settings, progress: Callable[[str], None] = lambda doing: None) -> list[str]:
    """Bring the lake to this release's format. A sentence for each step that was made; [] when none was needed.

    StoredFormatError for a lake that is newer than this release. ConflictError when a run of a feed does not end.
    """
    marker = read_marker(settings)
    if marker is None or needs_migration(settings) is None:
        return []
    done: list[str] = []
    with ExitStack() as locks:
        locks.enter_context(feed_lock(settings, "_migration"))
        while (before := needs_migration(settings)) is not None:  # another migration may have ended meanwhile
            step = _step_from(before)
            new = marker.model_copy(update={"format": before + 1, "made_by": __version__, "migrating_from": None})
            write_marker(settings, new.model_copy(update={"migrating_from": before}))
            if not done:
                progress("waiting for the feeds' runs to end")
                _lock_feeds(settings, locks)
            documents, tables = _apply(step, settings, progress)
            write_marker(settings, new)
            done.append(f"format {before} to {before + 1}: {step.changes} ({documents} documents, {tables} tables)")
    return done


def needs_migration(settings: Settings) -> int | None:
    """The format from which the lake, or a part of it, has still to be brought to the next; None: it needs nothing.

    StoredFormatError for a lake that is newer than this release.
    """
    marker = read_marker(settings)
    if marker is None:
        return None
    if not 1 <= marker.format <= FORMAT:
        check_format(marker.format, object=settings.lake_root, made_by=marker.made_by)
    if marker.migrating_from is not None:
        return marker.migrating_from
    return marker.format if marker.format < FORMAT else None


def _step_from(before: int) -> Step:
    for step in STEPS:
        if step.before == before:
            return step
    raise StoredFormatError(
        f"Tidemark {__version__} has no migration from format {before}", fix="migrate it with an older release first"
    )


def _lock_feeds(settings: Settings, locks: ExitStack) -> None:
    """Hold the feed locks of all feeds, and see the runs end that hold the lock of an hour."""
    feeds = {name[1] for name in list_tables(settings) if name[0] == "tidemark" and len(name) == 3}
    for feed in sorted(feeds | set(folders_in(settings.landing_root, settings))):
        locks.enter_context(feed_lock(settings, feed))
        folder = f"{settings.lake_root}/_locks"
        for stored in storage_of(folder, settings).list_objects(folder, f"{feed}.*"):
            with feed_lock(settings, feed, stored.name.removeprefix(f"{feed}.")):
                pass  # its run has ended, and another one refuses the lake by its marker


def _apply(step: Step, settings: Settings, progress: Callable[[str], None]) -> tuple[int, int]:
    """How many documents and tables one step has changed."""
    progress(f"documents of format {step.before}")
    documents = sum(_rewrite(step, settings, kind, location) for kind, location in _documents(settings))
    tables = 0
    for name in list_tables(settings):
        table = load_table(settings, *name)
        if table is None or not is_ours(table, name):
            continue
        found = int(table.properties.get(TABLE_FORMAT, "0"))
        if _is_done(step, found, table=".".join(name)):
            continue
        progress(".".join(name))
        spark = open_session(settings, "migrate")
        if name == ("tidemark", "receipts"):
            documents += _rewrite_receipts(step, settings, spark)
        step.table(spark, name[-1] if name[0] == "tidemark" else "published", full_name(*name))
        spark.sql(f"ALTER TABLE {full_name(*name)} SET TBLPROPERTIES ('{TABLE_FORMAT}' = '{step.before + 1:d}')")
        tables += 1
    return documents, tables


def _is_done(step: Step, found: Any, *, table: str | None = None, object: str | None = None) -> bool:
    """Whether what has this format has been through the step. StoredFormatError for what cannot go through it."""
    if found not in (step.before, step.before + 1):
        raise StoredFormatError(
            f"its stored format is {found}, while the lake is brought from {step.before} to {step.before + 1}",
            fix="restore it from a backup of the lake as it was before the migration",
            table=table,
            object=object,
        )
    return bool(found == step.before + 1)


def _documents(settings: Settings) -> Iterator[tuple[str, str]]:
    """Kind and location of all documents that are objects of their own."""
    for feed in folders_in(settings.landing_root, settings):
        folder = f"{settings.landing_root}/{feed_manifests_folder(feed)}"
        yield from (("manifest", f"{folder}/{path}") for path in sorted(files_under(folder, settings)))
    folder = f"{settings.lake_root}/_state"
    yield from (("state", f"{folder}/{path}") for path in sorted(files_under(folder, settings)))
    folder = snapshots_folder(settings)
    for path in sorted(files_under(folder, settings)):
        if is_document(path.partition("/")[2]):
            yield "pointer", f"{folder}/{path}"


def _rewrite(step: Step, settings: Settings, kind: str, location: str) -> bool:
    """Whether the document was of the old format; it has the new one now."""
    storage = storage_of(location, settings)
    fields = json.loads(storage.read_text(location))
    if _is_done(step, fields.get("format", 0), object=location):
        return False
    storage.write_text(location, _changed(step, kind, fields))
    return True


def _changed(step: Step, kind: str, fields: Document) -> str:
    """The text of a document after the step."""
    if kind == "state":  # which holds receipts
        made = fields.get("next") or {}
        if made.get("receipt"):
            fields = fields | {"next": made | {"receipt": json.loads(_changed(step, "receipt", made["receipt"]))}}
        if fields.get("unrecorded"):
            fields = fields | {"unrecorded": json.loads(_changed(step, "receipt", fields["unrecorded"]))}
    return json.dumps({**step.document(kind, fields), "format": step.before + 1}, ensure_ascii=False)


def _rewrite_receipts(step: Step, settings: Settings, spark: SparkSession) -> int:
    """How many receipts were of the old format. They are few and small: a row for each publication."""
    changed = []
    for row in _receipts(settings):
        fields = json.loads(row["receipt"])
        where = f"receipt {row['sequence']} of {row['feed']}"
        if not _is_done(step, fields.get("format", 0), object=where):
            changed.append((row["feed"], row["sequence"], _changed(step, "receipt", fields)))
    if changed:
        rows = spark.createDataFrame(changed, "feed string, sequence bigint, receipt string")
        rows.dropDuplicates(["feed", "sequence"]).createOrReplaceTempView("tidemark_migrated")
        spark.sql(
            f"MERGE INTO {full_name('tidemark', 'receipts')} t USING tidemark_migrated s "
            "ON t.feed = s.feed AND t.sequence = s.sequence WHEN MATCHED THEN UPDATE SET t.receipt = s.receipt"
        )
        spark.catalog.dropTempView("tidemark_migrated")
    return len(changed)


def _receipts(settings: Settings) -> Iterable[Document]:
    table = load_table(settings, "tidemark", "receipts")
    if table is None or table.current_snapshot() is None:
        return []
    with reading("tidemark", "receipts"):
        rows: list[Document] = table.scan(selected_fields=("feed", "sequence", "receipt")).to_arrow().to_pylist()
    return rows
