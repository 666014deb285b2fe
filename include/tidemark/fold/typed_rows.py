"""Text to values: log rows of one table become ROWS with a typed key, and FOLDED become SETTLED with typed columns.

For these shapes see :mod:`tidemark.fold.contract`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.fold.contract import COUNTED, RESTING, tidemark
from tidemark.fold.fold_rows import sort_key
from tidemark.identifiers import quote
from tidemark.values.columns import ColumnType, Reading
from tidemark.values.encodings import REWRITTEN, Encoding, loses_digits, rewrite, write


@dataclass(frozen=True, kw_only=True)
class TableShape:
    """How a table's text is read."""

    key: tuple[str, ...]
    """The key's columns, in its order. Empty: the table has no key, and is a multiset."""
    columns: Mapping[str, ColumnType]
    """Column → what it is and how its texts are read, in the table's order."""
    encodings: Mapping[str, Encoding]
    """By name, the encodings that columns may have: those that all formats share, and the format's own."""
    rewrites: Mapping[str | None, Mapping[str, ColumnType]] = field(default_factory=dict)
    """By message schema (None: for messages without one), the columns whose texts are first rewritten
    (:meth:`in_one_notation`), and how such messages write them."""
    live: frozenset[str] = frozenset()
    """The columns that the feed file, a message or the stream names. A column that only the stored table has is not one of
    them."""
    readings: Mapping[str, Reading] = field(default_factory=dict)
    """How columns are read: those of which anything is known in this hour, and those that were sent without a type."""

    def value(self, column: str, text: Column) -> Column:
        """The typed value of a column's text; null where the text is no such value. Of a key, also where the value has less
        digits than the text: two rows would become one."""
        kind = self.columns[column]
        value = self.encodings[kind.encoding](text, kind.spark, kind.arg)
        if column in self.key and kind.spark.startswith("timestamp"):
            return F.when(~loses_digits(text, kind.encoding), value)
        return value

    def is_text(self, column: str) -> bool:
        """Whether every text is a value of the column."""
        return self.columns[column] == ColumnType("string")

    def in_one_notation(self, image: Column) -> Column:
        """A map of texts of a log row, those that the table's messages write in several ways rewritten into one."""
        found = image
        for schema, kinds in self.rewrites.items():
            texts = F.transform_values(image, partial(_rewritten, self, kinds))
            own = F.col("message_schema").isNull() if schema is None else F.col("message_schema") == schema
            found = F.when(own, texts).otherwise(found)
        return found

    def by_value(self, image: Column) -> Column:
        """A map of texts in one notation, each by its value: equal values are equal texts, however they were written."""

        def written(name: Column, text: Column) -> Column:
            def of(column: str) -> Column:
                kind = self.columns[column]
                if kind.encoding == REWRITTEN:
                    return text
                return rewrite(text, self.value(column, text), kind.spark, kind.encoding)

            return self._by_kind(name, of, otherwise=text)

        return F.transform_values(image, written)

    def without_value(self, image: Column) -> Column:
        """Of a map of texts in one notation, those that are no value of their column's type. What it costs goes by the texts
        that are there, and not by the table's columns."""

        def has_none(name: Column, text: Column) -> Column:
            return self._by_kind(name, lambda column: self.value(column, text).isNull(), otherwise=F.lit(False))

        return F.map_filter(image, lambda name, text: text.isNotNull() & has_none(name, text))

    def wanted(self, name: Column) -> Column:
        """What the texts of a column are to be, for a person; null of one that takes every text."""

        def called(column: str) -> Column:
            kind = self.columns[column]
            return F.lit(kind.spark if kind.spark != "string" else kind.encoding)

        return self._by_kind(name, called, otherwise=F.lit(None).cast("string"))

    def _by_kind(self, name: Column, of: Callable[[str], Column], otherwise: Column) -> Column:
        """What ``of`` makes of a column, for the column of this ``name``: one branch for all that are read alike, of which it
        is given the first. ``otherwise``: for a column that takes every text, and for none."""
        alike: dict[tuple[ColumnType, bool], list[str]] = {}
        for column, kind in self.columns.items():
            if not self.is_text(column):
                alike.setdefault((kind, column in self.key), []).append(column)
        return _choose([(name.isin(columns), of(columns[0])) for columns in alike.values()], otherwise)

    def stored_images(self, stored: DataFrame) -> DataFrame:
        """Of rows of the published table, the ``key``, and ``image``: what :meth:`by_value` makes of the row."""
        texts = [
            (F.lit(name), write(F.col(quote(name)).cast(kind.spark), kind.spark))
            for name, kind in self.columns.items()
            if name in stored.columns
        ]
        image = F.create_map(*chain(*texts)).cast("map<string, string>")
        return stored.select(self.stored_key().alias("key"), image.alias("image"))

    def key_struct(self, texts: Column) -> Column:
        """The typed key of a map of texts; null when the map is null."""
        values = [self.value(name, F.element_at(texts, F.lit(name))).alias(name) for name in self.key]
        return F.when(texts.isNotNull(), F.struct(*values))

    def stored_key(self) -> Column:
        """The key of a row of the published table."""
        return F.struct(*(F.col(quote(name)).alias(name) for name in self.key))

    @property
    def spark_types(self) -> dict[str, str]:
        """Column → Spark type."""
        return {name: kind.spark for name, kind in self.columns.items()}


def in_one_notation(log_rows: DataFrame, shape: TableShape) -> DataFrame:
    """Log rows of a table, the texts of columns that its messages write in several ways rewritten into one."""
    if not shape.rewrites:
        return log_rows
    images = ("key", "prior_key", "before", "after")
    return log_rows.withColumns({name: shape.in_one_notation(F.col(name)) for name in images})


def _rewritten(shape: TableShape, kinds: Mapping[str, ColumnType], column: Column, text: Column) -> Column:
    alike: dict[ColumnType, list[str]] = {}
    for name, kind in kinds.items():
        alike.setdefault(kind, []).append(name)

    def written(kind: ColumnType) -> Column:
        value = shape.encodings[kind.encoding](text, kind.spark, kind.arg)
        return rewrite(text, value, kind.spark, kind.encoding)

    return _choose([(column.isin(names), written(kind)) for kind, names in alike.items()], text)


def _choose(branches: Sequence[tuple[Column, Column]], otherwise: Column) -> Column:
    """The value of the first branch whose condition holds."""
    if not branches:
        return otherwise
    (condition, value), *others = branches
    found = F.when(condition, value)
    for condition, value in others:
        found = found.when(condition, value)
    return found.otherwise(otherwise)


def keyed_rows(log_rows: DataFrame, shape: TableShape, *, expand: bool, came: Column | None = None) -> DataFrame:
    """Log rows of a table with a key → ROWS. ``came``: which publication brought a log row; None: the one in the making.

    ``expand``: an update that changes its key becomes the old key's delete and the new key's insert; some formats send
    these two as one change. A change whose key cannot be read has a null in its key, see :func:`key_is_whole`.
    """
    rows = in_one_notation(log_rows, shape)
    if expand:
        moved = (F.col("op") == "update") & F.col("prior_key").isNotNull()
        old = F.struct(F.lit("delete").alias("op"), F.col("prior_key").alias("key"), F.lit(None).alias("prior_key"),
                       F.lit(False).alias("counts"))  # fmt: skip
        new = F.struct(F.lit("insert").alias("op"), "key", "prior_key", F.lit(True).alias("counts"))
        same = F.struct("op", "key", "prior_key", F.lit(True).alias("counts"))
        # Outer, though there is always one: else Spark first makes all of them to ask whether there are any.
        steps = F.explode_outer(F.when(moved, F.array(old, new)).otherwise(F.array(same))).alias("step")
        others = [c for c in rows.columns if c not in ("op", "key", "prior_key")]
        rows = rows.select(*others, steps).select(*others, "step.*")
    else:
        rows = rows.withColumn("counts", F.lit(True))
    return rows.select(
        shape.key_struct(F.col("key")).alias("key"),
        sort_key(F.col("position"), F.col("op")).alias("sort_key"),
        "op",
        "before",
        _completed(shape).alias("after"),
        F.coalesce("absent", F.array().cast("array<string>")).alias("absent"),
        shape.key_struct(F.col("prior_key")).alias("prior"),
        "landed_this_hour", "counts", "tx", "tx_part", "committed_at",
        (F.lit(None).cast("long") if came is None else came).alias("came"),
        "object", "record", "entry", "topic", "position",
    )  # fmt: skip


def _completed(shape: TableShape) -> Column:
    """The ``after`` of a log row. Of a change that lacks columns also those that it neither sends nor lacks, as nulls: the
    source's table did not have them then. (A whole change says so without naming them.)"""
    after, absent = F.coalesce("after", F.create_map().cast("map<string, string>")), F.col("absent")
    said = F.concat(F.map_keys(after), absent)
    names = F.array(*(F.lit(name) for name in shape.columns if name not in shape.key)).cast("array<string>")
    others = F.array_except(names, said)
    nulls = F.map_from_arrays(others, F.transform(others, lambda _: F.lit(None).cast("string")))
    lacks = F.col("op").isin("insert", "update") & (F.size(absent) > 0) & (F.size(said) < len(shape.columns))
    return F.when(lacks, F.map_concat(after, nulls)).otherwise(after)


def key_is_whole(shape: TableShape) -> Column:
    """Whether every column of ``key`` has a value."""
    whole = F.col("key").isNotNull()
    for name in shape.key:
        whole &= F.col("key")[name].isNotNull()
    return whole


def texts_of(image: Column, names: Sequence[str]) -> Column:
    """The texts that an image has of columns, one after the other, null where it has none: to look each up in the map would
    take the square of the columns."""
    # Of a name that comes twice the place of the first counts, and the value of the last.
    nulls = F.array_repeat(F.lit(None).cast("string"), len(names))
    none = F.map_from_arrays(F.array(*map(F.lit, names)).cast("array<string>"), nulls)
    return F.map_values(F.map_concat(none, image))


def unreadable(shape: TableShape, texts: Mapping[str, Column], row: Column) -> Column:
    """The columns whose text is not a value of their type, as one text; empty: none. ``row``: the typed values."""
    # The names are no array, because Spark would filter an array uncompiled.
    without_value = [
        F.when(row[name].isNull() & texts[name].isNotNull(), F.lit(name)) for name in texts if not shape.is_text(name)
    ]
    return F.concat_ws(", ", *without_value)


def unreadable_in(shape: TableShape, image: Column) -> Column:
    """:func:`unreadable` of a map of texts in one notation, the key's own columns left out."""
    names = F.map_keys(F.map_filter(shape.without_value(image), lambda name, _: ~name.isin(list(shape.key))))
    return F.coalesce(F.array_join(F.array_sort(names), ", "), F.lit(""))


def settle(folded: DataFrame, shape: TableShape, hour: str, *, whole: bool = False) -> DataFrame:
    """FOLDED → SETTLED, plus what FOLDED counts and says of other keys, and ``unreadable``: the columns whose text is not a
    value of their type, as one text; empty: none.

    ``whole``: the rows were folded from all published changes of their keys, so they take the place of what is stored.
    """
    deleted, others = F.col("deleted"), [name for name in shape.columns if name not in shape.key]
    folded = folded.withColumn("texts", texts_of(F.col("after"), others))
    texts = {name: F.when(~deleted, F.col("texts")[number]) for number, name in enumerate(others)}
    values = {name: F.col("key")[name] for name in shape.key}
    values |= {name: shape.value(name, text) for name, text in texts.items()}
    typed = folded.withColumn("row", F.struct(*(values[name].alias(name) for name in shape.columns)))
    # Of a deleted row nothing is known: where it is not the newest, that is what its columns come to.
    absent = F.when(deleted, F.array(*map(F.lit, others)).cast("array<string>")).otherwise(F.col("absent"))
    newer = F.map_filter("newer", lambda name, _: ~name.isin(list(shape.key)))
    told = [name for name in (*COUNTED, *RESTING) if name in folded.columns]
    return typed.select(
        "key",
        "deleted",
        "row",
        F.lit(not whole).alias("joins"),
        tidemark(
            F.col("sort_key"), F.col("base_sort_key"), F.col("tx"), F.col("committed_at"), hour, absent, newer
        ).alias("tidemark"),
        F.when(deleted, F.lit("")).otherwise(unreadable(shape, texts, F.col("row"))).alias("unreadable"),
        *told,
    )
