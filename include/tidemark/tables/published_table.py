"""A published table in Iceberg: merge-on-read, an audit branch per publication, tags.

An explicit branch name is used everywhere and never ``spark.wap.branch``: on Spark 4.1 mixing them lets one win in
silence.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.errors import ConfigError, ConflictError
from tidemark.fold.contract import TIDEMARK_TYPE
from tidemark.fold.row_join import stamp_names
from tidemark.hours import Hour
from tidemark.identifiers import TIDEMARK, publication_of_branch, quote
from tidemark.lake.session import create_namespace, full_name
from tidemark.lake.stored_formats import FORMAT, TABLE_FORMAT, check_table
from tidemark.logs import get_logger
from tidemark.tables.iceberg_merge import SETTLED_VIEW, fill, merge_sql, new_rows
from tidemark.tables.iceberg_metadata import ATTEMPT, Alter, IcebergMetadata
from tidemark.tables.staged_change import StagedChange
from tidemark.values.type_changes import reconcile, refuse_other_key

log = get_logger()

_PROPERTIES = {
    TABLE_FORMAT: str(FORMAT),
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
    "write.distribution-mode": "none",
    "write.merge.distribution-mode": "none",
    "write.parquet.compression-codec": "zstd",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
    # Nearly every row has a sort key of its own.
    f"write.parquet.dict-encoding-enabled.column.{TIDEMARK}.sort_key": "false",
    f"write.parquet.dict-encoding-enabled.column.{TIDEMARK}.base_sort_key": "false",
}
#: In the summary of a staged commit: which publication made it.
_MARK = "tidemark.publication"
_KEY = "tidemark.key"
#: The snapshot that the last publication made main, its sequence number, and the ids of the columns that it retired.
PUBLISHED = "tidemark.published"
#: The number of that publication.
_PUBLISHED_BY = "tidemark.published-by"
#: While an hour that is not published has evolved the table: the id of the schema that it had before.
_BEFORE = "tidemark.schema-before"
#: It was made by that hour.
_NO_TABLE = "none"


class PublishedTable:
    """One published table. ``attempt``: the number under which it is written to; who only reads has none."""

    def __init__(self, spark: SparkSession, table: str, feed: str, attempt: int = 0) -> None:
        self.spark, self.table, self.feed, self.attempt = spark, table, feed, attempt
        self.namespace, self.short = table.split(".", 1)
        self.name = full_name(self.namespace, self.short)
        self._metadata = IcebergMetadata(spark, self.name, attempt)
        self._known: Any = None

    def exists(self) -> bool:
        """Whether the table is there (published or not)."""
        return self.spark.catalog.tableExists(self.name)

    def columns(self) -> dict[str, str]:
        """Source columns and their Spark types; empty before the table is made."""
        if not self.exists():
            return {}
        self._refuse_foreign()
        fields = self.spark.table(self.name).schema.fields
        return {f.name: f.dataType.simpleString() for f in fields if f.name != TIDEMARK}

    def key(self) -> list[str]:
        """The key columns, as when the table was made."""
        return [str(name) for name in json.loads(self._property(_KEY) or "[]")]

    def evolve(
        self, columns: dict[str, str], key: tuple[str, ...], renamed: Sequence[tuple[str, str]] = (), *,
        format_version: int = 3,
    ) -> bool:  # fmt: skip
        """Make the table, or rename, add and widen columns in place (before the branch is written: a MERGE cannot, on
        one); whether there was anything to do. ``columns``: all, in order; added ones are put where they stand in it.
        ``renamed``: old and new names. ``format_version``: Iceberg's, of a table that is made."""
        if not self.exists():
            reconcile(self.table, {}, columns)
            create_namespace(self.spark, self.namespace)
            listed = ", ".join(f"{quote(name)} {kind}" for name, kind in columns.items())
            own = {
                **_PROPERTIES,
                "format-version": str(format_version),
                "tidemark.feed": self.feed,
                ATTEMPT: str(self.attempt),
            }
            properties = ", ".join(f"'{k}' = '{v}'" for k, v in own.items())
            key_columns = json.dumps(list(key)).replace("\\", "\\\\").replace("'", "\\'")
            properties += f", '{_KEY}' = '{key_columns}', '{_BEFORE}' = '{_NO_TABLE}'"
            self.spark.sql(
                f"CREATE TABLE {self.name} ({listed}, {TIDEMARK} {TIDEMARK_TYPE.simpleString()}) USING iceberg "
                f"TBLPROPERTIES ({properties})"
            )
            log.info("created the table", table=self.table, columns=len(columns), key=", ".join(key) or "none")
            return True
        refuse_other_key(self.table, self.feed, self.key(), key)
        if renamed:
            names = list(self.columns())
            self._evolve("rename columns", partial(self._metadata.rename_columns, names, renamed))
            for old, new in renamed:
                log.info("renamed a column", table=self.table, column=old, to=new, reason="the source renamed it")
        add, widen = reconcile(self.table, self.columns(), columns)
        if add or widen:
            self._evolve("add columns", partial(self._metadata.add_columns, add, widen, list(columns)))
        if add:
            log.info("added columns", table=self.table, columns=add, reason="the stream has them now")
        for name, kind in widen.items():
            log.info("widened a column", table=self.table, column=name, type=kind, reason="the source's type grew")
        return bool(renamed or add or widen)

    def _evolve(self, what: str, evolve: Callable[[Any, Any], None]) -> None:
        """Evolve the columns, and note the schema that :meth:`discard` goes back to."""

        def alter(now: Any, build: Any) -> bool:
            evolve(now, build)
            if now.properties().get(_BEFORE) is None:
                build.setProperties({_BEFORE: str(now.currentSchemaId())})
            return True

        self._commit(what, alter)

    def _commit(self, what: str, alter: Alter) -> None:
        self._metadata.commit(what, alter)
        self._known = None

    def discard(self) -> None:
        """Go back to the published columns, without what an unpublished hour has evolved; drop a table that it made.
        Its audit branch is of no use then."""
        if not self.exists():
            return
        self._metadata.table().refresh()
        self._known = None
        self._refuse_foreign()
        if self._property(_BEFORE) == _NO_TABLE and int(self._property(ATTEMPT) or 0) <= self.attempt:
            self.spark.sql(f"DROP TABLE {self.name} PURGE")
            log.warning("dropped the table", table=self.table, reason="the hour that made it was not published")
            self._known = None
            return

        def alter(now: Any, build: Any) -> bool:
            before = now.properties().get(_BEFORE)
            if before is None:
                return False
            build.setCurrentSchema(int(before))
            self._metadata.remove_property(build, _BEFORE)
            log.warning("restored the published columns", table=self.table, reason="their hour was not published")
            return True

        if self._property(_BEFORE) is not None:
            self._commit("discard", alter)

    def read(self) -> DataFrame:
        """What readers see now."""
        return self.spark.table(self.name)

    def stage(self, publication: str, change: StagedChange) -> int:
        """Write a publication to a new audit branch of main: delete what is truncated or dropped, fill what is added, then
        one MERGE. How many rows the branch then has."""
        branch = quote(_branch(publication))
        # Not CREATE OR REPLACE: Iceberg cannot replace a branch of a table whose main has no snapshot yet.
        self.spark.sql(f"ALTER TABLE {self.name} DROP BRANCH IF EXISTS {branch}")
        self.spark.sql(f"ALTER TABLE {self.name} CREATE BRANCH {branch}")
        target = f"{self.name}.{quote('branch_' + _branch(publication))}"
        self._name_publication(publication)
        if change.truncated is not None:
            # Rows of a table without a key have no order: they are all written again.
            older = f"{TIDEMARK}.sort_key < :truncated" if change.key else ":truncated IS NOT NULL"
            self.spark.sql(f"DELETE FROM {target} WHERE {older}", args={"truncated": change.truncated})  # noqa: S608 - quoted
        if change.dropped:
            nothing = ", ".join(f"{quote(name)} = NULL" for name in change.dropped)
            held = " OR ".join(f"{quote(name)} IS NOT NULL" for name in change.dropped)
            self.spark.sql(f"UPDATE {target} SET {nothing} WHERE {held}")  # noqa: S608 - quoted
        if change.names_now:
            concerned, stamp = stamp_names(change.names_now)
            fields = ", ".join(f"{TIDEMARK}.{name} = {value}" for name, value in stamp.items())
            self.spark.sql(f"UPDATE {target} SET {fields} WHERE {concerned}")  # noqa: S608 - quoted
        if change.filled:
            fill(self.spark, target, change.filled, change.filled_in)
        self._merge(target, change)
        return self._metadata.rows_of(_branch(publication))

    def _merge(self, target: str, change: StagedChange) -> None:
        """Merge settled rows into a branch."""
        if change.only_new:  # nothing to merge with
            new_rows(change.settled, self.columns()).writeTo(target).append()
            return
        change.settled.createOrReplaceTempView(SETTLED_VIEW)
        self.spark.sql(merge_sql(target, list(self.columns()), change))
        self.spark.catalog.dropTempView(SETTLED_VIEW)

    def _name_publication(self, publication: str) -> None:
        """Have the commits that follow carry the publication's name in their summaries."""
        self.spark.conf.set(f"spark.sql.iceberg.snapshot-property.{_MARK}", publication)

    def staged(self, publication: str) -> DataFrame:
        """The table as fold staged it."""
        return self.spark.table(f"{self.name}.{quote('branch_' + _branch(publication))}")

    def check(self, hour: Hour, publication: str) -> None:
        """ConflictError where the staged publication cannot become the table any more: its branch is gone, or somebody has
        written to main."""
        self._staged_snapshot(hour, publication, self._metadata.table().operations().refresh())

    def _staged_snapshot(self, hour: Hour, publication: str, now: Any) -> int | None:
        """The snapshot of the publication's branch, by the table's metadata; None where it is published."""
        staged = now.ref(_branch(publication))
        if staged is None:
            if self._has_published(publication):
                return None
            raise self._cannot_publish(f"its audit branch {_branch(publication)} is missing", hour)
        made = int(staged.snapshotId())
        if not self._metadata.goes_on_from_main(made, now):
            raise self._cannot_publish("somebody has written to the table since the hour was staged", hour)
        return made

    def publish(self, hour: Hour, publication: str, *, cut: bool = True, retired: Sequence[str] = ()) -> None:
        """In one commit: main is what is staged, it has the hour's tag where it is the hour's ``cut``, it is without
        ``retired`` columns, and the feed's branches are gone. Done before: does nothing again."""

        def alter(now: Any, build: Any) -> bool:
            made = self._staged_snapshot(hour, publication, now)
            if made is None:
                return False
            build.setBranchSnapshot(made, "main")
            if cut:  # one that is there is of a publication that does not count
                self._metadata.set_tag(build, hour.tag, made)
            for name in [str(name) for name in now.refs().keySet()]:
                if publication_of_branch(name, self.feed) is not None:
                    build.removeRef(name)
            self._metadata.remove_property(build, _BEFORE)
            left = [name for name in retired if name in self.columns()]
            ids = [int(now.schema().findField(name).fieldId()) for name in left]
            told = [made, now.snapshot(made).sequenceNumber(), *ids]
            build.setProperties({PUBLISHED: " ".join(map(str, told)), _PUBLISHED_BY: str(self.attempt)})
            if left:
                self._metadata.drop_columns(left, now, build)
            return True

        self._commit("publish", alter)

    def taken_back(self) -> bool:
        """Whether somebody has taken main back behind the last publication, as Iceberg's rollback_to_snapshot does, or has
        dropped columns that it had. What somebody has written on it, and what maintenance has rewritten, goes on from it."""
        now = self._metadata.table().operations().refresh()
        return self._taken_back_from(now) is not None or bool(self._lost_columns(now))

    def published_by(self) -> int | None:
        """The number of the publication that made main what it is; None where the table does not say."""
        number = self._property(_PUBLISHED_BY)
        return None if number is None else int(number)

    def lost_columns(self) -> list[str]:
        """The columns of the last publication that somebody has dropped since."""
        return self._lost_columns(self._metadata.table().operations().refresh())

    def _lost_columns(self, now: Any) -> list[str]:
        if (published := now.properties().get(PUBLISHED)) is None:
            return []
        snapshot, _, *retired = map(int, published.split())
        return self._metadata.lost_columns(snapshot, retired, now)

    def _taken_back_from(self, now: Any) -> int | None:
        """The snapshot of the last publication, where main does not go on from it; None where it does."""
        if (published := now.properties().get(PUBLISHED)) is None:
            return None
        snapshot, sequence, *_ = map(int, published.split())
        return None if self._metadata.goes_on_from(snapshot, sequence, now) else snapshot

    def _cannot_publish(self, why: str, hour: Hour) -> ConflictError:
        return ConflictError(why, fix="run the hour again from fold", feed=self.feed, hour=hour, table=self.table)

    def _ref(self, name: str) -> int | None:
        """The snapshot id of a branch or tag; None where there is none of this name."""
        found = self._metadata.table().snapshot(name)
        return None if found is None else int(found.snapshotId())

    def _has_published(self, publication: str) -> bool:
        """Whether main holds a commit of the publication."""
        made = self.spark.table(f"{self.name}.snapshots").where(F.col("summary")[_MARK] == publication)
        history = self.spark.table(f"{self.name}.history").where("is_current_ancestor")
        return not made.join(history, "snapshot_id", "left_semi").isEmpty()

    def first_cut(self, hours: Iterable[Hour]) -> Hour | None:
        """The first of these hours whose tag is there. Reads the table's metadata once."""
        table = self._metadata.table()
        return next((hour for hour in hours if table.snapshot(hour.tag) is not None), None)

    def cut(self, hour: Hour, publication: str, base: Hour | None, change: StagedChange | None) -> None:
        """Make a cut on a branch of its own, which goes on from the cut of ``base``, and tag it."""
        begin = self._ref(base.tag) if base is not None else None
        if change is None:
            assert begin is not None, "the cut of base is there"
            self._commit(f"cut {hour.tag}", lambda now, build: self._set_cut(hour, begin, build))
            return
        branch = _cut_branch(publication)
        self.spark.sql(f"ALTER TABLE {self.name} DROP BRANCH IF EXISTS {quote(branch)}")
        of = f" AS OF VERSION {begin:d}" if begin is not None else ""
        self.spark.sql(f"ALTER TABLE {self.name} CREATE BRANCH {quote(branch)}{of}")
        target = f"{self.name}.{quote('branch_' + branch)}"
        self._name_publication(publication)
        if begin is None:
            self.spark.sql(f"DELETE FROM {target}")  # noqa: S608 - quoted
        self._merge(target, change)

        def alter(now: Any, build: Any) -> bool:
            made = now.ref(branch)
            assert made is not None, "it was just written"
            build.removeRef(branch)
            return self._set_cut(hour, int(made.snapshotId()), build)

        self._commit(f"cut {hour.tag}", alter)

    def _set_cut(self, hour: Hour, snapshot: int, build: Any) -> bool:
        self._metadata.set_tag(build, hour.tag, snapshot)
        return True

    def tag(self, hour: Hour) -> None:
        """Tag the table as it is published for an hour that did not touch it, so that every table of a feed has the cut. Done
        before: does nothing again."""

        def alter(now: Any, build: Any) -> bool:
            main = now.currentSnapshot()
            if main is None or now.ref(hour.tag) is not None:
                return False
            shown = int(main.snapshotId())
            if (published := self._taken_back_from(now)) is not None:
                log.warning(
                    "the table was taken back to an older snapshot: its cut is what was published", table=self.table
                )
                shown = published if now.snapshot(published) is not None else shown
            self._metadata.set_tag(build, hour.tag, shown)
            return True

        self._commit(f"tag {hour.tag}", alter)

    def _property(self, name: str) -> str | None:
        """One of the table's properties, read once: only this class changes them."""
        if self._known is None:
            self._known = self._metadata.table().properties()
        return self._known.get(name)  # type: ignore[no-any-return]

    def _refuse_foreign(self) -> None:
        owner = self._property("tidemark.feed")
        if owner != self.feed:
            raise ConfigError(
                f"the table is not this feed's (tidemark.feed = {owner})",
                fix="publish under another name: tables.<source>.name in the feed file",
                feed=self.feed,
                table=self.table,
            )
        check_table(self._property(TABLE_FORMAT), self.table)


def _branch(publication: str) -> str:
    return "audit_" + publication


def _cut_branch(publication: str) -> str:
    """The branch on which the cut of a late hour is made."""
    return "cut_" + publication


def discard_columns(spark: SparkSession, feed: str, tables: Iterable[str], attempt: int) -> None:
    """Give published tables back the columns that they are published with. ``attempt``: the highest number that was taken.

    Columns are evolved before a publication is written. What an hour has evolved that is not published is not for
    readers."""
    for table in tables:
        PublishedTable(spark, table, feed, attempt).discard()
