"""What a published table does with what is staged, published and cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.errors import ConflictError, SchemaError
from tidemark.fold.contract import settled_type
from tidemark.hours import Hour, hours_between
from tidemark.identifiers import TIDEMARK, publication_name
from tidemark.lake.catalog import find_table
from tidemark.lake.session import full_name
from tidemark.lake.spark_conf import CATALOG
from tidemark.settings import Settings
from tidemark.tables.published_table import PublishedTable, discard_columns
from tidemark.tables.staged_change import StagedChange

FEED = "stores"
COLUMNS = {"id": "int", "a": "string", "n": "int"}
HOURS = hours_between("2026-11-20T00", "2026-11-20T23")
_NUMBER = count(1)


@dataclass
class Store:
    """One table, and the hours that were published to it so far."""

    spark: SparkSession
    table: str
    key: tuple[str, ...] = ("id",)
    sequence: int = 0
    format_version: int = 3

    @property
    def published(self) -> PublishedTable:
        """Opened again each time, as every stage does."""
        return PublishedTable(self.spark, self.table, FEED, self.sequence)

    @property
    def hour(self) -> Hour:
        return HOURS[self.sequence]

    def stage(
        self, rows: Sequence[dict[str, Any]], columns: dict[str, str] = COLUMNS, *,
        renamed: Sequence[tuple[str, str]] = (), **change: Any,
    ) -> str:  # fmt: skip
        """Stage a publication of rows in brief (see :func:`settled`); its name."""
        self.sequence += 1
        published = self.published
        first = not published.columns()
        published.evolve(columns, self.key, renamed, format_version=self.format_version)
        publication = publication_name(FEED, self.hour, self.sequence)
        joined = set(columns) - set(self.key) if any(row.get("joins") for row in rows) else set()
        rows_settled = settled(self.spark, rows, columns, self.key, self.hour)
        changes = StagedChange(
            settled=rows_settled, key=self.key, only_new=first, joined=joined, renamed=dict(renamed), **change
        )
        published.stage(publication, changes)
        return publication

    def publish(self, rows: Sequence[dict[str, Any]], columns: dict[str, str] = COLUMNS, **change: Any) -> None:
        publication = self.stage(rows, columns, **change)
        self.published.publish(self.hour, publication)

    def rows(self, frame: DataFrame | None = None) -> list[tuple[Any, ...]]:
        """What readers see: the source's columns, in order."""
        shown = self.published.read() if frame is None else frame
        return sorted(tuple(row) for row in shown.drop(TIDEMARK).collect())

    def at_cut(self, hour: Hour) -> list[tuple[Any, ...]] | None:
        """What the cut of an hour holds; None where there is none."""
        name = full_name(*self.table.split("."))
        tags = {row["name"] for row in self.spark.table(f"{name}.refs").collect()}
        tag = hour.tag
        return self.rows(self.spark.read.option("versionAsOf", tag).table(name)) if tag in tags else None


@pytest.fixture
def store(spark: SparkSession) -> Store:
    return Store(spark, f"stores.table_{next(_NUMBER)}")


def settled(
    spark: SparkSession, rows: Sequence[dict[str, Any]], columns: dict[str, str], key: Sequence[str], hour: str
) -> DataFrame:
    """SETTLED of rows in brief: column values, and where it matters ``at`` (the sort key), ``base``, ``deleted``,
    ``absent``, ``newer``, ``joins``. In a table without a key each row's sort key is its key."""
    row_type = T.StructType().fromDDL(", ".join(f"`{name}` {kind}" for name, kind in columns.items()))
    key_type = T.StructType([row_type[name] for name in key]) if key else T.StructType.fromDDL("copy string")
    listed = []
    for row in rows:
        at, absent = row.get("at", "1#1"), row.get("absent", [])
        base = row.get("base", at)
        listed.append(
            (
                tuple(row[name] for name in key) if key else (at,),
                row.get("deleted", False),
                tuple(row.get(name) for name in columns),
                row.get("joins", False),
                (at, base, row.get("tx"), None, str(hour), absent, row.get("newer")),
            )
        )
    return spark.createDataFrame(listed, settled_type(key_type, row_type))


def test_a_table_is_made_and_shows_nothing_before_it_is_published(store: Store) -> None:
    assert store.published.columns() == {}
    publication = store.stage([{"id": 1, "a": "x", "n": 5}, {"id": 2, "deleted": True}])
    assert store.published.key() == ["id"]
    assert store.rows(store.published.staged(publication)) == [(1, "x", 5)]
    assert store.rows() == []
    store.published.publish(store.hour, publication)
    assert store.published.columns() == COLUMNS
    assert store.rows() == [(1, "x", 5)]


def test_rows_are_inserted_updated_and_deleted_by_key(store: Store) -> None:
    store.publish([{"id": key, "a": "old", "n": key} for key in (1, 2, 3)])
    store.publish(
        [
            {"id": 2, "a": "new", "at": "2#2"},
            {"id": 3, "deleted": True},
            {"id": 4, "a": "x"},
            {"id": 5, "deleted": True},
        ]
    )
    assert store.rows() == [(1, "old", 1), (2, "new", None), (4, "x", None)]
    stamps = {row["id"]: row[TIDEMARK] for row in store.published.read().collect()}
    assert (stamps[1]["hour"], stamps[2]["hour"], stamps[2]["sort_key"]) == (HOURS[1], HOURS[2], "2#2")


@pytest.mark.parametrize(("version", "deletes"), [(2, "PARQUET"), (3, "PUFFIN")])
def test_readers_that_know_no_deletion_vectors_have_a_format_of_their_own(
    store: Store, settings: Settings, version: int, deletes: str
) -> None:
    store.format_version = version
    store.publish([{"id": key, "a": "old", "n": key} for key in (1, 2, 3)])
    store.publish([{"id": 2, "a": "new", "at": "2#2"}, {"id": 3, "deleted": True}])
    assert store.rows() == [(1, "old", 1), (2, "new", None)]
    name = full_name(*store.table.split("."))
    files = store.spark.table(f"{name}.delete_files").select("file_format").distinct().collect()
    assert [row.file_format for row in files] == [deletes]
    found = find_table(settings, *store.table.split("."))
    assert found is not None and found.format_version == version
    assert sorted(found.scan().to_arrow()["id"].to_pylist()) == [1, 2]
    cut = found.snapshot_by_name(HOURS[1].tag)
    assert cut is not None and found.scan(snapshot_id=cut.snapshot_id).to_arrow().num_rows == 3


def test_columns_that_were_not_sent_keep_what_is_stored(store: Store) -> None:
    store.publish([{"id": 1, "a": "x", "n": 5}, {"id": 2, "a": None, "n": 6, "absent": ["a"]}])
    keeps = {"at": "2#2", "base": None, "joins": True}
    store.publish(
        [
            {"id": 1, "n": 7, "absent": ["a"], "newer": {"n": "2#2"}, **keeps},
            {"id": 2, "absent": ["a", "n"], **keeps},
            {"id": 3, "n": 8, "absent": ["a"], "newer": {"n": "2#2"}, **keeps},
        ]
    )
    assert store.rows() == [(1, "x", 7), (2, None, 6), (3, None, 8)]
    stamps = {row["id"]: row[TIDEMARK] for row in store.published.read().collect()}
    assert [stamps[key]["absent"] for key in (1, 2, 3)] == [[], ["a"], ["a"]], "what is stored is absent no more"
    assert [stamps[key]["base_sort_key"] for key in (1, 2, 3)] == ["1#1", "1#1", None]
    assert [stamps[key]["sort_key"] for key in (1, 2, 3)] == ["2#2"] * 3
    assert [stamps[key]["newer"] for key in (1, 2, 3)] == [{"n": "2#2"}, None, {"n": "2#2"}]


def test_what_comes_late_is_joined_column_by_column(store: Store) -> None:
    at_5 = {"a": "5", "n": 5, "at": "5#1"}
    store.publish([{"id": key, **at_5, "tx": "new"} for key in (1, 2, 3, 4)] + [
        {"id": 5, "a": "9", "at": "9#2", "base": None, "absent": ["n"], "newer": {"a": "9#2"}},
        {"id": 6, "a": "9", "n": 1, "at": "9#2", "base": "1#1", "newer": {"a": "9#2"}},
    ])  # fmt: skip
    late = {"joins": True, "tx": "late"}
    store.publish(
        [
            {"id": 1, "n": 3, "at": "3#2", "base": None, "absent": ["a"], "newer": {"n": "3#2"}, **late},  # older
            {"id": 2, "n": 7, "at": "7#2", "base": None, "absent": ["a"], "newer": {"n": "7#2"}, **late},
            {"id": 3, "deleted": True, "at": "7#0", "absent": ["a", "n"], **late},
            {"id": 4, "deleted": True, "at": "3#0", "absent": ["a", "n"], **late},  # older
            {"id": 5, "a": "3", "n": 3, "at": "3#1", **late},
            {"id": 6, "deleted": True, "at": "3#0", "absent": ["a", "n"], **late},
            {"id": 7, "a": "1", "n": 1, "at": "1#1", **late},
        ]
    )
    assert store.rows() == [(1, "5", 5), (2, "5", 7), (4, "5", 5), (5, "9", 3), (6, "9", None), (7, "1", 1)]
    stamps = {row["id"]: row[TIDEMARK] for row in store.published.read().collect()}
    fields = ("sort_key", "base_sort_key", "transaction", "absent", "newer")
    assert {key: tuple(stamps[key][name] for name in fields) for key in (1, 2, 5, 6)} == {
        1: ("5#1", "5#1", "new", [], None),
        2: ("7#2", "5#1", "late", [], {"n": "7#2"}),
        5: ("9#2", "3#1", None, [], {"a": "9#2"}),
        6: ("9#2", "3#0", None, ["n"], {"a": "9#2"}),
    }


def test_of_whole_rows_that_come_late_the_newer_one_stands(store: Store) -> None:
    store.publish([{"id": key, "a": "5", "n": 5, "at": "5#1"} for key in range(1, 6)])
    changes = [
        {"id": 1, "a": "4", "at": "4#2"}, {"id": 2, "a": "6", "at": "6#2"}, {"id": 3, "deleted": True, "at": "4#0"},
        {"id": 4, "deleted": True, "at": "6#0"}, {"id": 6, "a": "4", "at": "4#1"}, {"id": 7, "deleted": True, "at": "4#0"},
    ]  # fmt: skip
    store.publish(changes, late=True)
    assert store.rows() == [(1, "5", 5), (2, "6", None), (3, "5", 5), (5, "5", 5), (6, "4", None)]
    stamps = {row["id"]: row[TIDEMARK] for row in store.published.read().collect()}
    assert [stamps[key]["sort_key"] for key in (1, 2, 3, 6)] == ["5#1", "6#2", "5#1", "4#1"]
    assert stamps[1]["hour"] == HOURS[1], "a row that stands is not written again"


def test_what_is_known_of_columns_follows_their_names(store: Store) -> None:
    columns = {"id": "int", "a": "string", "b": "string", "c": "string"}
    store.publish([
        {"id": 1, "a": "x", "base": None, "absent": ["b", "c"], "newer": {"a": "1#1"}},
        {"id": 2, "b": "y", "c": "z", "base": None, "absent": ["a"], "newer": {"b": "1#1", "c": "1#1"}},
        {"id": 3, "a": "x", "b": "y", "c": "z"},
    ], columns)  # fmt: skip
    now = {"id": "int", "it's": "string", "b": "string", "c": "string"}
    store.publish([], now, renamed=[("a", "it's")], dropped=["b"])
    stamps = {row["id"]: row[TIDEMARK] for row in store.published.read().collect()}
    assert {key: (stamp["absent"], stamp["newer"]) for key, stamp in stamps.items()} == {
        1: (["c"], {"it's": "1#1"}), 2: (["it's"], {"c": "1#1"}), 3: ([], None),
    }  # fmt: skip


def test_a_truncate_takes_what_is_older(store: Store) -> None:
    store.publish([{"id": 1, "a": "old", "at": "1#1"}, {"id": 2, "a": "newer", "at": "9#1"}])
    store.publish([{"id": 3, "a": "x", "at": "6#1"}], truncated="5")
    assert store.rows() == [(2, "newer", None), (3, "x", None)]


def test_a_table_without_a_key_has_its_copies_for_keys(store: Store) -> None:
    store.key = ()
    copies = [
        {"id": 1, "a": "x", "at": "h1#01"},
        {"id": 1, "a": "x", "at": "h1#02"},
        {"id": 2, "a": "y", "at": "h2#01"},
    ]
    store.publish(copies)
    assert store.published.key() == []
    assert store.rows() == [(1, "x", None), (1, "x", None), (2, "y", None)]
    store.publish([{"at": "h1#02", "deleted": True}])
    assert store.rows() == [(1, "x", None), (2, "y", None)]
    store.publish([{"id": 3, "a": "z", "at": "h3#01"}], truncated="")
    assert store.rows() == [(3, "z", None)], "a truncate takes them all"


def test_columns_are_added_widened_and_renamed(store: Store) -> None:
    store.publish([{"id": 1, "a": "x", "n": 5}])
    wider = {"id": "int", "a": "string", "b": "date", "n": "bigint"}
    store.publish([{"id": 2, "a": "y", "n": 2**40}], wider)
    assert store.published.columns() == wider
    assert list(store.published.columns()) == list(wider), "an added column stands where it belongs"
    assert store.rows() == [(1, "x", None, 5), (2, "y", None, 2**40)]
    renamed = {"id": "int", "title": "string", "b": "date", "n": "bigint"}
    store.publish([{"id": 3, "title": "z"}], renamed, renamed=[("a", "title")])
    assert store.published.columns() == renamed
    assert store.rows() == [(1, "x", None, 5), (2, "y", None, 2**40), (3, "z", None, None)]


def test_what_would_lose_values_is_refused(store: Store) -> None:
    store.publish([{"id": 1, "a": "x", "n": 5}])
    with pytest.raises(SchemaError, match="column n is int and would become date"):
        store.published.evolve({**COLUMNS, "n": "date"}, ("id",))
    with pytest.raises(SchemaError, match="the key is id and would become a"):
        store.published.evolve(COLUMNS, ("a",))
    assert store.published.columns() == COLUMNS


def test_values_of_a_dropped_column_are_deleted_and_a_retired_column_is_removed(store: Store) -> None:
    store.publish([{"id": 1, "a": "x", "n": 5}, {"id": 2, "a": "y", "n": 6}])
    store.publish([{"id": 2, "a": "new", "at": "2#2"}], dropped=("n",))
    assert store.rows() == [(1, "x", None), (2, "new", None)]
    without = {"id": "int", "a": "string"}
    publication = store.stage([{"id": 3, "a": "z"}], without)
    for _ in range(2):
        store.published.publish(store.hour, publication, retired=["n"])
    assert store.published.columns() == without
    assert store.rows() == [(1, "x"), (2, "new"), (3, "z")]


def test_what_an_unpublished_hour_evolved_is_discarded(store: Store) -> None:
    store.stage([{"id": 1, "a": "x"}])
    discard_columns(store.spark, FEED, [store.table], store.sequence)
    assert store.published.columns() == {}, "the table that it made too"
    store.publish([{"id": 1, "a": "x", "n": 5}])
    evolved = {"id": "int", "title": "string", "n": "bigint", "more": "date"}
    store.published.evolve(evolved, ("id",), [("a", "title")])
    discard_columns(store.spark, FEED, [store.table], store.sequence)
    assert store.published.columns() == COLUMNS
    assert store.rows() == [(1, "x", 5)]
    store.publish([{"id": 2, "title": "y"}], evolved, renamed=[("a", "title")])
    discard_columns(store.spark, FEED, [store.table], store.sequence)
    assert store.rows() == [(1, "x", 5, None), (2, "y", None, None)], "what is published stays"


def test_a_publication_can_be_staged_again(store: Store) -> None:
    store.publish([{"id": 1, "a": "x"}])
    store.stage([{"id": 1, "a": "wrong", "at": "2#2"}, {"id": 2, "a": "wrong"}])
    store.sequence -= 1
    store.publish([{"id": 1, "a": "right", "at": "2#2"}])
    assert store.rows() == [(1, "right", None)]


def test_publishing_again_does_nothing(store: Store) -> None:
    publication = store.stage([{"id": 1, "a": "x"}])
    for _ in range(2):
        store.published.publish(store.hour, publication)
    assert store.rows() == [(1, "x", None)]
    assert store.at_cut(store.hour) == [(1, "x", None)]


def test_each_hour_has_its_cut(store: Store) -> None:
    store.publish([{"id": 1, "a": "x"}])
    store.published.tag(HOURS[5])
    store.publish([{"id": 1, "a": "y", "at": "2#2"}, {"id": 2, "a": "z"}])
    assert store.at_cut(HOURS[1]) == store.at_cut(HOURS[5]) == [(1, "x", None)], "an hour without changes has one too"
    assert store.at_cut(HOURS[2]) == [(1, "y", None), (2, "z", None)]
    assert store.at_cut(HOURS[9]) is None


def test_what_is_published_without_a_cut_leaves_the_cut_as_it_was(store: Store) -> None:
    store.publish([{"id": 1, "a": "x"}])
    publication = store.stage([{"id": 1, "a": "y", "at": "2#2"}])
    for _ in range(2):  # also when it stopped before the receipt
        store.published.publish(HOURS[1], publication, cut=False)
    assert store.rows() == [(1, "y", None)]
    assert store.at_cut(HOURS[1]) == [(1, "x", None)]
    assert store.at_cut(store.hour) is None


def test_a_cut_is_made_apart_from_the_table(store: Store) -> None:
    """It goes on from another cut, or from nothing; made again, it is the same."""
    store.publish([{"id": 1, "a": "x"}, {"id": 2, "a": "x"}])
    store.publish([{"id": 1, "a": "later", "at": "9#2"}, {"id": 2, "deleted": True}, {"id": 5, "a": "later"}])
    rows = [
        {"id": 1, "a": "y", "at": "2#2"},
        {"id": 2, "deleted": True},
        {"id": 3, "a": "z"},
        {"id": 4, "deleted": True},
    ]
    change = settled(store.spark, rows, COLUMNS, store.key, HOURS[7])
    for _ in range(2):
        store.published.cut(
            HOURS[7], "stores_2026_11_20T07_3", HOURS[1], StagedChange(settled=change, key=store.key, only_new=False)
        )
        store.published.cut(
            HOURS[8], "stores_2026_11_20T08_4", None, StagedChange(settled=change, key=store.key, only_new=True)
        )
        store.published.cut(HOURS[9], "stores_2026_11_20T09_5", HOURS[7], None)
    assert store.at_cut(HOURS[7]) == store.at_cut(HOURS[9]) == [(1, "y", None), (3, "z", None)]
    assert store.at_cut(HOURS[8]) == [(1, "y", None), (3, "z", None)]
    assert store.published.first_cut([HOURS[6], HOURS[7], HOURS[5]]) == HOURS[7]
    assert store.published.first_cut([HOURS[6]]) is None
    assert store.rows() == store.at_cut(HOURS[2]) == [(1, "later", None), (5, "later", None)]
    assert store.at_cut(HOURS[1]) == [(1, "x", None), (2, "x", None)]
    store.publish([{"id": 6, "a": "next"}])
    assert store.rows() == [(1, "later", None), (5, "later", None), (6, "next", None)]


def test_a_table_that_somebody_has_written_to_is_not_published(spark: SparkSession, store: Store) -> None:
    store.publish([{"id": 1, "a": "x"}])
    publication = store.stage([{"id": 2, "a": "y"}])
    store.published.check(store.hour, publication)
    table = full_name(*store.table.split("."))
    theirs = spark.newSession().table(table)
    theirs.limit(0).writeTo(table).overwrite(F.lit(True))
    for refuse in (store.published.check, store.published.publish):
        with pytest.raises(ConflictError, match="somebody has written to the table"):
            refuse(store.hour, publication)
    assert store.rows() == []
    store.publish([{"id": 3, "a": "z"}])
    with pytest.raises(ConflictError, match=r"its audit branch audit_\S+ is missing"):
        store.published.check(store.hour, publication)


@pytest.mark.promise(2)
def test_a_table_that_is_taken_back_is_told_from_one_that_was_rewritten(spark: SparkSession, store: Store) -> None:
    def call(procedure: str, given: str) -> None:
        spark.sql(f"CALL {CATALOG}.system.{procedure}(table => '{store.table}', {given})")

    def ref(name: str) -> int:
        refs = spark.table(f"{full_name(*store.table.split('.'))}.refs")
        return int(refs.where(F.col("name") == name).collect()[0].snapshot_id)

    for number in range(3):
        store.publish([{"id": number, "a": "x"}])
    first, last = ref(HOURS[1].tag), ref("main")
    assert not store.published.taken_back()
    call("rewrite_data_files", "options => map('rewrite-all', 'true')")
    assert ref("main") != last and not store.published.taken_back()
    call(
        "expire_snapshots", f"older_than => TIMESTAMP '{datetime.now(UTC) + timedelta(days=1):%F %T}', retain_last => 1"
    )
    assert not store.published.taken_back()
    spark.table(full_name(*store.table.split("."))).limit(1).writeTo(full_name(*store.table.split("."))).append()
    assert not store.published.taken_back(), "the audit tells of it"

    call("set_current_snapshot", f"snapshot_id => {first}")
    assert store.published.taken_back() and len(store.rows()) == 1
    store.published.tag(HOURS[9])
    assert len(store.at_cut(HOURS[9]) or []) == 3, "the cut is what was published"
    call("rewrite_data_files", "options => map('rewrite-all', 'true')")
    assert store.published.taken_back()
    store.publish([{"id": 9, "a": "x"}])
    assert not store.published.taken_back() and len(store.rows()) == 2


def test_a_column_that_somebody_drops_is_told_from_one_that_the_source_has_dropped(
    spark: SparkSession, store: Store
) -> None:
    name = full_name(*store.table.split("."))
    more = COLUMNS | {"old": "int"}
    store.publish([{"id": 1, "a": "x", "old": 1}], more)
    store.published.publish(store.hour, store.stage([{"id": 2, "a": "y"}], more), retired=["old"])
    assert "old" not in store.published.columns()
    assert store.published.lost_columns() == [] and not store.published.taken_back()
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN a TO b")
    assert store.published.lost_columns() == []
    spark.sql(f"ALTER TABLE {name} DROP COLUMN b")
    assert store.published.lost_columns() == ["a"] and store.published.taken_back()
    store.publish([{"id": 1, "a": "x"}])
    assert store.published.lost_columns() == [] and not store.published.taken_back()


def test_an_attempt_that_was_overtaken_writes_to_no_table(store: Store) -> None:
    store.publish([{"id": 1, "a": "x"}])
    old, publication = store.published, store.stage([{"id": 2, "a": "y"}])
    store.published.publish(store.hour, publication)
    store.published.publish(store.hour, publication)
    wider = COLUMNS | {"more": "int"}
    for late in (
        lambda: old.publish(store.hour, publication_name(FEED, HOURS[1], 1)),
        lambda: old.evolve(wider, ("id",)),
        lambda: old.tag(HOURS[5]),
        lambda: old.cut(HOURS[5], publication, HOURS[1], None),
    ):
        with pytest.raises(ConflictError, match="publication 2 has gone on with the table"):
            late()
    assert (store.published.columns(), store.at_cut(HOURS[5])) == (COLUMNS, None)
    assert store.rows() == [(1, "x", None), (2, "y", None)]


def test_of_listed_keys_no_file_is_read_that_cannot_hold_them(spark: SparkSession, store: Store) -> None:
    for first in (1, 1001):
        store.publish([{"id": first + number, "a": "old"} for number in range(3)])
    files = spark.table(f"{full_name(*store.table.split('.'))}.files")
    lower = files.where("readable_metrics.id.upper_bound < 1000").select("file_path").collect()
    for row in lower:  # whoever reads it fails
        Path(row.file_path.removeprefix("file:")).unlink()
    changed = [{"id": 1002, "a": "new"}, {"id": 1003, "deleted": True}, {"id": 1005, "a": "x"}]
    publication = store.stage(changed, key_values={"id": ["1002", "1003", "1005"]})
    staged = store.published.staged(publication).where("id > 1000")
    assert store.rows(staged) == [(1001, "old", None), (1002, "new", None), (1005, "x", None)]
    with pytest.raises(Exception, match="does not exist"):
        store.stage(changed)
