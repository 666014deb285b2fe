"""A snapshot in Parquet folders: ``snapshots/<table>/hour=…/`` written whole, and a ``latest`` pointer that readers follow.

For readers that know no Iceberg. Each publication rewrites the table, so it suits small ones.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.errors import ConflictError
from tidemark.hours import Hour
from tidemark.identifiers import TIDEMARK, quote
from tidemark.logs import get_logger
from tidemark.merge.contract import TIDEMARK_TYPE
from tidemark.merge.row_join import merge_rows, stamp_names
from tidemark.schema.type_changes import reconcile, refuse_other_key
from tidemark.settings import Settings
from tidemark.snapshots.contract import StagedChange
from tidemark.snapshots.parquet_pointers import ParquetPointers

log = get_logger()


class ParquetSnapshot:
    """One published table."""

    def __init__(self, spark: SparkSession, table: str, feed: str, settings: Settings) -> None:
        self.spark, self.table, self.feed = spark, table, feed
        self._pointers = ParquetPointers(table, settings)
        self._evolved: dict[str, str] = {}
        self._was: dict[str, str] = {}

    def columns(self) -> dict[str, str]:
        """Source columns and their Spark types; empty before the first publication."""
        folder = self._pointers.latest()
        if folder is None:
            return {}
        fields = self.spark.read.parquet(folder).schema.fields
        return {f.name: f.dataType.simpleString() for f in fields if f.name != TIDEMARK}

    def key(self) -> list[str]:
        """The key columns, as when the table was first staged."""
        return self._pointers.key()

    def evolve(self, columns: dict[str, str], key: tuple[str, ...], renamed: Sequence[tuple[str, str]] = ()) -> None:
        """Note the columns that the next folder will have, in order: Parquet folders are written whole. ``renamed``:
        old and new names."""
        stored = self.columns()
        if stored:
            refuse_other_key(self.table, self.feed, self.key(), key)
        for old, new in renamed:
            stored = {new if name == old else name: kind for name, kind in stored.items()}
            self._was[new] = self._was.pop(old, old)
        self._pointers.write_key(key)
        add, widen = reconcile(self.table, stored, columns)
        if stored and (renamed or add or widen):
            log.info(
                "the next folder has other columns", table=self.table, renamed=len(renamed), added=len(add),
                widened=len(widen), reason="the stream says so",
            )  # fmt: skip
        evolved = stored | add | widen
        self._evolved = {name: evolved[name] for name in columns}

    def discard(self) -> None:
        """Nothing to do: what was evolved is in no folder that readers are led to."""

    def read(self) -> DataFrame:
        """What readers see now, in the evolved columns."""
        return self._stored(self._pointers.latest(), self._evolved or self.columns())

    def _stored(self, folder: str | None, columns: dict[str, str]) -> DataFrame:
        """The rows of a folder in these columns; none without a folder."""
        if folder is None:
            types = {**columns, TIDEMARK: TIDEMARK_TYPE.simpleString()}
            return self.spark.createDataFrame([], ", ".join(f"{quote(name)} {kind}" for name, kind in types.items()))
        stored = self.spark.read.parquet(folder)
        have = set(stored.columns)
        names = {name: self._was.get(name, name) for name in columns}
        picked = [
            (F.col(quote(names[n])) if names[n] in have else F.lit(None)).cast(kind).alias(n)
            for n, kind in columns.items()
        ]
        return stored.select(*picked, TIDEMARK)

    def _altered(self, change: StagedChange) -> DataFrame:
        """What readers see now, without the values of dropped columns and with those of filled ones."""
        values = {name: F.lit(None).cast(self._evolved[name]) for name in change.dropped} | dict(change.filled)
        if change.names_now:
            concerned, fields = stamp_names(change.names_now)
            stamp = F.col(TIDEMARK)
            for name, value in fields.items():
                stamp = stamp.withField(name, F.expr(value))
            values[TIDEMARK] = F.when(F.expr(concerned), stamp).otherwise(F.col(TIDEMARK))
        return self.read().withColumns(values) if values else self.read()

    def stage(self, publication: str, change: StagedChange) -> None:
        """Write the whole table as it will be, where no pointer leads yet."""
        merged = self._merged(self._altered(change), change, self._evolved)
        merged.write.mode("overwrite").parquet(self._staged_folder(publication))

    def _merged(self, stored: DataFrame, change: StagedChange, columns: dict[str, str]) -> DataFrame:
        """Stored rows with a change merged into them."""
        if change.truncated is not None:
            # Rows of a table without a key have no order: they are all written again.
            stored = stored.where(F.col(f"{TIDEMARK}.sort_key") >= change.truncated) if change.key else stored.limit(0)
        return merge_rows(
            stored, change.settled, key=change.key, columns=columns, joined=change.joined, late=change.late
        )

    def staged(self, publication: str) -> DataFrame:
        """The table as it would be after this publication."""
        return self.spark.read.parquet(self._staged_folder(publication))

    def check(self, hour: Hour, publication: str) -> None:
        """A folder that is whole can always be led to."""
        if not self._pointers.is_whole(self._staged_folder(publication)):
            raise ConflictError(
                "its staged folder is missing, or was not written to its end", fix="run the hour again from compact",
                feed=self.feed, hour=hour, table=self.table,
            )  # fmt: skip

    def publish(self, hour: Hour, publication: str, *, cut: bool = True, retired: Sequence[str] = ()) -> None:
        """Have the pointers lead to the staged folder, which has the columns of :meth:`evolve` alone. Done before: does
        nothing again."""
        folder = _folder_name(publication)
        if cut:
            self._pointers.write_cut(hour, folder)
        self._pointers.publish(hour, folder)

    def has_cut(self, hour: Hour) -> bool:
        """Whether the hour has a cut in columns that the table still has: its folder has no others."""
        folder = self._pointers.at_cut(hour)
        return folder is not None and set(self.spark.read.parquet(folder).columns) <= {*self.columns(), TIDEMARK}

    def cut(self, hour: Hour, publication: str, base: Hour | None, change: StagedChange | None) -> None:
        """Write the cut to a folder of its own, where no other pointer leads."""
        folder = self._pointers.at_cut(base) if base is not None else None
        made = _cut_folder_name(hour, publication)
        if self._pointers.at_cut(hour) == f"{self._pointers.root}/{made}":
            return  # it cannot be written while it is read
        if change is None:
            assert folder is not None, "the cut of base is there"
            self._pointers.write_cut(hour, folder.removeprefix(f"{self._pointers.root}/"))
            return
        columns = self.columns()
        merged = self._merged(self._stored(folder, columns), change, columns)
        merged.write.mode("overwrite").parquet(f"{self._pointers.root}/{made}")
        self._pointers.write_cut(hour, made)

    def tag(self, hour: Hour) -> None:
        """The cut of an hour that did not touch the table."""
        self._pointers.tag(hour)

    def _staged_folder(self, publication: str) -> str:
        return f"{self._pointers.root}/{_folder_name(publication)}"


def _folder_name(publication: str) -> str:
    """``hour=2026-11-20T07/publication=12`` of ``<feed>_2026_11_20T07_12``."""
    _, year, month, day_and_hour, number = publication.rsplit("_", 4)
    return f"hour={year}-{month}-{day_and_hour}/publication={number}"


def _cut_folder_name(hour: Hour, publication: str) -> str:
    """The folder of an hour's cut that a publication makes, of this hour or of one before it."""
    return f"hour={hour}/publication={publication.rpartition('_')[2]}{_CUT}"


#: The end of the name of the folder of a cut that is not what the publication made of the table.
_CUT = "-cut"
