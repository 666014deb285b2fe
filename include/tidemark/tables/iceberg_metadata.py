"""Changes of an Iceberg table's metadata, each one commit, which an attempt that was overtaken cannot make.

SQL has neither: a statement is a commit of its own, and knows nothing of attempts. A table carries the highest number of an
attempt that has committed to it; a lower one is refused. Iceberg refuses a commit that was made on other metadata than
those that are there, in every catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from tidemark.errors import ConflictError
from tidemark.logs import get_logger

log = get_logger()

#: The highest number of an attempt that has committed metadata.
ATTEMPT = "tidemark.attempt"
#: How often a commit is tried.
_TRIES = 4

#: Alters a builder of metadata, given the metadata as they are now; False: there is nothing to do.
Alter = Callable[[Any, Any], bool]


class IcebergMetadata:
    """Of one table, ``name`` in SQL. ``attempt``: the number under which it is written to."""

    def __init__(self, spark: SparkSession, name: str, attempt: int) -> None:
        self.jvm: Any = spark._jvm
        self._spark, self._name, self._attempt = spark, name, attempt

    def table(self) -> Any:
        """The table in Iceberg's own interface."""
        loader = getattr(self.jvm, "org.apache.iceberg.spark.Spark3Util")
        return loader.loadIcebergTable(self._spark._jsparkSession, self._name)

    def rows_of(self, ref: str) -> int:
        """How many rows a branch or tag has, by the summary of its commit; 0: it is empty."""
        found = self.table().snapshot(ref)
        summary = found.summary() if found is not None else {}
        return int(summary.get("total-records") or 0) - int(summary.get("total-position-deletes") or 0)

    def commit(self, what: str, alter: Alter) -> None:
        """Commit what ``alter`` does. Another commit in between: again, from what is there then.

        ConflictError where an attempt with a higher number has committed."""
        operations = self.table().operations()
        for tried in range(1, _TRIES + 1):
            now = operations.refresh()
            newest = int(now.properties().get(ATTEMPT) or 0)
            if newest > self._attempt:
                raise ConflictError(
                    f"publication {newest} has gone on with the table, and publication {self._attempt} counts for nobody",
                    fix="run the hour again",
                    table=self._name.replace("`", ""),
                )
            build = self.jvm.org.apache.iceberg.TableMetadata.buildFrom(now)
            build.setProperties({ATTEMPT: str(self._attempt)})
            if not alter(now, build):
                return
            try:
                self.write(what, operations, now, build.build())
                return
            except Exception as error:
                if "CommitFailedException" not in str(error) or tried == _TRIES:
                    raise

    def write(self, what: str, operations: Any, now: Any, new: Any) -> None:
        """Replace the metadata, unless they are others than ``now`` by then."""
        operations.commit(now, new)
        log.debug("committed", table=self._name.replace("`", ""), what=what)

    def set_tag(self, build: Any, tag: str, snapshot: int) -> None:
        """Have a tag lead to a snapshot."""
        build.setRef(tag, self.jvm.org.apache.iceberg.SnapshotRef.tagBuilder(snapshot).build())

    def remove_property(self, build: Any, name: str) -> None:
        """Remove a property."""
        build.removeProperties(self.jvm.java.util.Collections.singleton(name))

    def rename_columns(self, names: Sequence[str], renamed: Sequence[tuple[str, str]], now: Any, build: Any) -> None:
        """Rename columns, of the table's ``names``, one after the other: a name may pass from one to another."""
        was = {name: name for name in names}
        for old, new in renamed:
            was[new] = was.pop(old)
        update = self.table().updateSchema()
        for name, before in was.items():
            if name != before:
                update = update.renameColumn(before, name)
        _set_schema(update, now, build)

    def add_columns(
        self, add: Mapping[str, str], widen: Mapping[str, str], order: Sequence[str], now: Any, build: Any
    ) -> None:
        """Add columns, with their types in Spark, where they stand in ``order``, and widen others."""
        update = self.table().updateSchema()
        for name, kind in add.items():
            update = update.addColumn(None, name, self._type(kind))
            at = order.index(name)
            update = update.moveAfter(name, order[at - 1]) if at else update.moveFirst(name)
        for name, kind in widen.items():
            update = update.updateColumn(name, self._type(kind))
        _set_schema(update, now, build)

    def drop_columns(self, names: Sequence[str], now: Any, build: Any) -> None:
        """Drop columns."""
        update = self.table().updateSchema()
        for name in names:
            update = update.deleteColumn(name)
        _set_schema(update, now, build)

    def lost_columns(self, snapshot: int, dropped: Collection[int], now: Any) -> list[str]:
        """The columns that a snapshot has and main has no more, whatever they are named now, without those ``dropped`` (ids).
        None are told of a snapshot that has expired."""
        made = now.snapshot(snapshot)
        if made is None or made.schemaId() is None or made.schemaId() == now.currentSchemaId():
            return []
        columns = now.schemasById().get(made.schemaId()).columns()
        left = {int(field.fieldId()) for field in now.schema().columns()} | set(dropped)
        return [str(field.name()) for field in columns if int(field.fieldId()) not in left]

    def _type(self, kind: str) -> Any:
        """Iceberg's type of a type of Spark."""
        of_spark = self.jvm.org.apache.spark.sql.types.DataType.fromDDL(kind)
        return self.jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert(of_spark)

    def goes_on_from_main(self, staged: int, now: Any) -> bool:
        """Whether a snapshot goes on from main as it is, or as it was before maintenance rewrote its files: then it holds
        the same rows."""
        main, util = now.currentSnapshot(), self.jvm.org.apache.iceberg.util.SnapshotUtil
        if main is None:
            return True
        newest, table = int(main.snapshotId()), self.table()
        while main is not None and not util.isAncestorOf(table, staged, main.snapshotId()):
            if main.operation() != "replace" or main.parentId() is None:
                return False
            main = now.snapshot(main.parentId())
        if main is not None and int(main.snapshotId()) != newest:
            log.warning(
                "took main back", table=self._name.replace("`", ""), to=int(main.snapshotId()),
                reason="maintenance rewrote its files",
            )  # fmt: skip
        return main is not None

    def goes_on_from(self, snapshot: int, sequence: int, now: Any) -> bool:
        """Whether main is a snapshot, with this sequence number, or was made on it, as far as its history is kept."""
        if (made := now.currentSnapshot()) is None:
            return False
        while made is not None and int(made.snapshotId()) != snapshot:
            parent = made.parentId()
            if parent is None or int(made.sequenceNumber()) < sequence:
                return parent is not None and int(parent) == snapshot
            made = now.snapshot(parent)
        return True


def _set_schema(update: Any, now: Any, build: Any) -> None:
    schema = update.apply()
    build.setCurrentSchema(schema, max(now.lastColumnId(), schema.highestFieldId()))
