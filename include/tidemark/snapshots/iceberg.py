"""A snapshot in an Iceberg v3 table: merge-on-read with deletion vectors, an audit branch per publication, tags.

An explicit branch name is used everywhere and never ``spark.wap.branch``: on Spark 4.1 mixing them lets one win in
silence.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.errors import ConfigError, ConflictError
from tidemark.hours import Hour
from tidemark.identifiers import TIDEMARK, quote
from tidemark.lake.session import create_namespace, full_name
from tidemark.lake.spark_conf import CATALOG
from tidemark.lake.stored_formats import FORMAT, TABLE_FORMAT, check_table
from tidemark.logs import get_logger
from tidemark.merge.contract import TIDEMARK_TYPE
from tidemark.schema.type_changes import reconcile, refuse_other_key, renames
from tidemark.snapshots.contract import StagedChange
from tidemark.snapshots.iceberg_merge import SETTLED_VIEW, fill, merge_sql, new_rows

log = get_logger()

_PROPERTIES = {
    TABLE_FORMAT: str(FORMAT),
    "format-version": "3",
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
#: While an hour that is not published has evolved the table: the id of the schema that it had before.
_BEFORE = "tidemark.schema-before"
#: It was made by that hour.
_NO_TABLE = "none"


class IcebergSnapshot:
    """One published table."""

    def __init__(self, spark: SparkSession, table: str, feed: str) -> None:
        self.spark, self.table, self.feed = spark, table, feed
        self.namespace, self.short = table.split(".", 1)
        self.name = full_name(self.namespace, self.short)
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

    def evolve(self, columns: dict[str, str], key: tuple[str, ...], renamed: Sequence[tuple[str, str]] = ()) -> None:
        """Make the table, or rename, add and widen columns in place (before the branch is written: a MERGE cannot, on
        one). ``columns``: all, in order; added ones are put where they stand in it. ``renamed``: old and new names."""
        if not self.exists():
            reconcile(self.table, {}, columns)
            create_namespace(self.spark, self.namespace)
            listed = ", ".join(f"{quote(name)} {kind}" for name, kind in columns.items())
            properties = ", ".join(f"'{k}' = '{v}'" for k, v in {**_PROPERTIES, "tidemark.feed": self.feed}.items())
            key_columns = json.dumps(list(key)).replace("\\", "\\\\").replace("'", "\\'")
            properties += f", '{_KEY}' = '{key_columns}', '{_BEFORE}' = '{_NO_TABLE}'"
            self.spark.sql(
                f"CREATE TABLE {self.name} ({listed}, {TIDEMARK} {TIDEMARK_TYPE.simpleString()}) USING iceberg "
                f"TBLPROPERTIES ({properties})"
            )
            log.info("created the table", table=self.table, columns=len(columns), key=", ".join(key) or "none")
            return
        refuse_other_key(self.table, self.feed, self.key(), key)
        if renamed:
            self._note_schema()
        for old, new in renamed:
            for before, after in renames(old, new):
                self.spark.sql(f"ALTER TABLE {self.name} RENAME COLUMN {quote(before)} TO {quote(after)}")
            log.info("renamed a column", table=self.table, column=old, to=new, reason="the source renamed it")
        add, widen = reconcile(self.table, self.columns(), columns)
        if add or widen:
            self._note_schema()
        if add:
            order = list(columns)
            where = {name: f"AFTER {quote(order[i - 1])}" if i else "FIRST" for i, name in enumerate(order)}
            listed = ", ".join(f"{quote(name)} {kind} {where[name]}" for name, kind in add.items())
            self.spark.sql(f"ALTER TABLE {self.name} ADD COLUMNS ({listed})")
            log.info("added columns", table=self.table, columns=add, reason="the stream has them now")
        for name, kind in widen.items():
            self.spark.sql(f"ALTER TABLE {self.name} ALTER COLUMN {quote(name)} TYPE {kind}")
            log.info("widened a column", table=self.table, column=name, type=kind, reason="the source's type grew")

    def _note_schema(self) -> None:
        """Note the schema that :meth:`discard` goes back to: Iceberg can set a whole schema, but not narrow a type."""
        if self._property(_BEFORE) is None:
            now = self._loaded().schema().schemaId()
            self.spark.sql(f"ALTER TABLE {self.name} SET TBLPROPERTIES ('{_BEFORE}' = '{now:d}')")
            self._known = None

    def discard(self) -> None:
        """Go back to the published columns, without what an unpublished hour has evolved; drop a table that it made.
        Its audit branch is of no use then."""
        if not self.exists():
            return
        self._refuse_foreign()
        before = self._property(_BEFORE)
        if before == _NO_TABLE:
            self.spark.sql(f"DROP TABLE {self.name} PURGE")
            log.warning("dropped the table", table=self.table, reason="the hour that made it was not published")
        elif before is not None:
            operations = self._loaded().operations()
            now = operations.current()
            metadata = self.spark._jvm.org.apache.iceberg.TableMetadata  # type: ignore[union-attr]
            noted = self.spark._jvm.java.util.Collections.singleton(_BEFORE)  # type: ignore[union-attr]
            was = metadata.buildFrom(now).setCurrentSchema(int(before)).removeProperties(noted).build()
            operations.commit(now, was)
            log.warning("restored the published columns", table=self.table, reason="their hour was not published")
        self._known = None

    def _loaded(self) -> Any:
        """The table in Iceberg's own interface: SQL cannot go back to a schema."""
        loader = getattr(self.spark._jvm, "org.apache.iceberg.spark.Spark3Util")
        return loader.loadIcebergTable(self.spark._jsparkSession, self.name)

    def retire(self, columns: list[str]) -> None:
        """Remove columns that nothing holds any more: their values are under other names. Done before: does nothing."""
        for name in [name for name in columns if name in self.columns()]:
            self.spark.sql(f"ALTER TABLE {self.name} DROP COLUMN {quote(name)}")
            log.info("dropped a column", table=self.table, column=name, reason="its values have another name now")

    def read(self) -> DataFrame:
        """What readers see now."""
        return self.spark.table(self.name)

    def stage(self, publication: str, change: StagedChange) -> None:
        """Write a publication to a new audit branch of main: delete what is truncated or dropped, fill what is added, then
        one MERGE."""
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
        if change.filled:
            fill(self.spark, target, change.filled)
        self._merge(target, change)

    def _merge(self, target: str, change: StagedChange) -> None:
        """Merge settled rows into a branch."""
        if change.first:  # nothing to merge with
            new_rows(change.settled, self.columns()).writeTo(target).append()
            return
        change.settled.createOrReplaceTempView(SETTLED_VIEW)
        self.spark.sql(merge_sql(target, list(self.columns()), change))
        self.spark.catalog.dropTempView(SETTLED_VIEW)

    def _name_publication(self, publication: str) -> None:
        """Have the commits that follow carry the publication's name in their summaries."""
        self.spark.conf.set(f"spark.sql.iceberg.snapshot-property.{_MARK}", publication)

    def staged(self, publication: str) -> DataFrame:
        """The table as compact staged it."""
        return self.spark.table(f"{self.name}.{quote('branch_' + _branch(publication))}")

    def _ref(self, name: str) -> int | None:
        """The snapshot id of a branch or tag; None where there is none of this name."""
        found = self._loaded().snapshot(name)
        return None if found is None else int(found.snapshotId())

    def publish(self, hour: Hour, publication: str, *, cut: bool = True) -> None:
        """Fast-forward main to the branch, tag it where it is the hour's ``cut``, drop the branch. Done before: does
        nothing again."""
        branch = _branch(publication)
        staged = self._ref(branch)
        if staged is not None:
            self._fast_forward(branch)
            if cut:
                self._tag(hour, staged)
            self.spark.sql(f"ALTER TABLE {self.name} DROP BRANCH {quote(branch)}")
        elif not self._has_published(publication):
            raise ConflictError(
                f"its audit branch {branch} is missing",
                fix="run the hour again from compact",
                feed=self.feed,
                hour=hour,
                table=self.table,
            )
        if self._property(_BEFORE) is not None:
            self.spark.sql(f"ALTER TABLE {self.name} UNSET TBLPROPERTIES ('{_BEFORE}')")
            self._known = None

    def _fast_forward(self, branch: str) -> None:
        table = f"table => '{self.namespace}.{self.short}'"
        forward = f"CALL {quote(CATALOG)}.system.fast_forward({table}, branch => 'main', to => '{branch}')"
        try:
            self.spark.sql(forward)
        except Exception as error:
            # Maintenance has compacted files since the branch was made: main holds the same rows as before.
            if "not an ancestor" not in str(error) or (base := self._before_rewrite(branch)) is None:
                raise
            log.warning("rolled main back", table=self.table, to=base, reason="maintenance rewrote its files")
            self.spark.sql(f"CALL {quote(CATALOG)}.system.rollback_to_snapshot({table}, snapshot_id => {base:d})")
            self.spark.sql(forward)

    def _before_rewrite(self, branch: str) -> int | None:
        """The snapshot of main that the branch goes on from, when all that main has had since holds the same rows."""
        snapshots = {row["snapshot_id"]: row for row in self.spark.table(f"{self.name}.snapshots").collect()}
        at, ancestors = self._ref(branch), set()
        while at in snapshots:
            ancestors.add(at)
            at = snapshots[at]["parent_id"]
        at = self._ref("main")
        while at in snapshots and at not in ancestors and snapshots[at]["operation"] == "replace":
            at = snapshots[at]["parent_id"]
        return at if at in ancestors else None

    def _has_published(self, publication: str) -> bool:
        """Whether main holds a commit of the publication."""
        made = self.spark.table(f"{self.name}.snapshots").where(F.col("summary")[_MARK] == publication)
        history = self.spark.table(f"{self.name}.history").where("is_current_ancestor")
        return not made.join(history, "snapshot_id", "left_semi").isEmpty()

    def _tag(self, hour: Hour, snapshot: int) -> None:
        self.spark.sql(f"ALTER TABLE {self.name} CREATE OR REPLACE TAG {quote(hour.tag)} AS OF VERSION {snapshot:d}")

    def has_cut(self, hour: Hour) -> bool:
        """Whether the hour's tag is there."""
        return self._ref(hour.tag) is not None

    def cut(self, hour: Hour, publication: str, base: Hour | None, change: StagedChange | None) -> None:
        """Make a cut on a branch of its own, which goes on from the cut of ``base``, and tag it."""
        begin = self._ref(base.tag) if base is not None else None
        if change is None:
            assert begin is not None, "the cut of base is there"
            self._tag(hour, begin)
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
        made = self._ref(branch)
        assert made is not None, "it was just written"
        self._tag(hour, made)
        self.spark.sql(f"ALTER TABLE {self.name} DROP BRANCH {quote(branch)}")

    def tag(self, hour: Hour) -> None:
        """Tag the current table for an hour that did not touch it, so that every table of a feed has the cut."""
        self.spark.sql(f"ALTER TABLE {self.name} CREATE OR REPLACE TAG {quote(hour.tag)}")

    def _property(self, name: str) -> str | None:
        """One of the table's properties, read once: only this class changes them."""
        if self._known is None:
            self._known = self._loaded().properties()
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
