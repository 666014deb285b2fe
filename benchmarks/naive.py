"""The peer of each format's sample: the job that someone writes by hand for its tables. Read, parse, newest per key, MERGE.

Its author has looked at some messages: Spark has inferred their schema, and he knows where they say which table, row and
operation, and what orders them. He parses an hour once and merges each table that has a key, in Iceberg's merge-on-read. Like
:mod:`benchmarks.merge` it keeps no log, checks nothing, and knows no transactions; besides, here it does not see keys that
change, truncates and tables without a key, types are what Spark infers, and a record with a line feed in it is two broken
ones. So its tables are not the source's. It is a measure of cost, and a strict one, for what it leaves out is free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from benchmarks.floor import RECORD
from benchmarks.merge import CATALOG
from tidemark.identifiers import quote

#: Fields of an IBM record before its columns, and of the longest one.
_HEAD, FIELDS = 12, 40


@dataclass(frozen=True)
class Shape:
    """Where a format's message says what, as SQL over the message ``v`` and the record's ``offset``."""

    rows: str
    """An array of rows, each with all columns of all tables."""
    table: str
    """The published table's name."""
    deleted: str
    """Whether the rows are gone."""
    applies: str
    """Whether the message is a change."""
    order: tuple[str, ...]
    """What tells which of two changes is newer, most important first."""
    partial: bool = False
    """Whether an update leaves columns out that did not change."""
    places: Mapping[str, str] = field(default_factory=dict)
    """By table, where a column is in the row; by its name, unless this says otherwise."""


_QLIK_HEADER = "coalesce(v.message.headers.{0}, v.headers.{0}, v.headers_{0})"
_DATAWORKS_ROW = "coalesce(v.payload.after, v.payload.before).dataColumn"
#: IBM's records have none; the job for Debezium is :mod:`benchmarks.merge`.
SHAPES = {
    "canal": Shape(
        "v.data", "concat(v.database, '.', v.table)", "v.type = 'DELETE'",
        "v.type IN ('INSERT', 'UPDATE', 'DELETE')", ("v.ts", "offset"),
    ),
    "dataworks": Shape(
        f"array({_DATAWORKS_ROW})", "concat(v.schema.source.dbName, '.', v.schema.source.tableName)",
        "v.payload.op = 'DELETE'", "v.payload.op IN ('INSERT', 'UPDATE_AFTER', 'DELETE')", ("v.payload.sequenceId",),
    ),
    # Three topics, with messages of three shapes.
    "qlik": Shape(
        "array(v)", "topic", f"{_QLIK_HEADER.format('operation')} = 'DELETE'",
        f"{_QLIK_HEADER.format('operation')} IN ('REFRESH', 'INSERT', 'UPDATE', 'DELETE')",
        (_QLIK_HEADER.format("changeSequence"), "offset"), partial=True,
        places={"crm.accounts": "message.data.{}", "crm.orders": "data.{}", "crm.profile": "data_{}"},
    ),
}  # fmt: skip


class HandWritten:
    """The job on the tables of a sample that have a key, in tables of its own (``peer.<table>``).

    ``columns``: by published table, its columns in their order; one that was renamed is in no message, and left out.
    ``keys``: those of its key. ``schema``: of a message; None for IBM's records, which are lines.
    """

    def __init__(
        self, spark: SparkSession, format_: str, columns: Mapping[str, Sequence[str]], keys: Mapping[str, Sequence[str]],
        schema: StructType | None,
    ) -> None:  # fmt: skip
        self.spark, self.keys, self.schema, self.shape = spark, keys, schema, SHAPES.get(format_)
        self.columns = {
            table: [name for name in names if schema is None or self._is_in(schema, table, name)]
            for table, names in columns.items()
        }

    def _is_in(self, schema: StructType, table: str, column: str) -> bool:
        return f'"name":"{self._place(table, column).split(".")[-1]}"' in schema.json()

    def _place(self, table: str, column: str) -> str:
        """Where a column is in the row."""
        assert self.shape is not None, "the messages are documents"
        return self.shape.places.get(table, "{}").format(column)

    def reset(self, objects: list[str]) -> None:
        """The tables anew and empty. ``objects``: of which Spark sees the types of their columns."""
        parsed = self._parse(objects)
        for table in self.keys:
            self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.{quote(table.split('.')[0])}")
            self.spark.sql(f"DROP TABLE IF EXISTS {_own(table)} PURGE")
            writer = self._newest(parsed, table).drop("deleted").limit(0).writeTo(_own(table)).using("iceberg")
            writer.tableProperty("format-version", "3").tableProperty("write.merge.mode", "merge-on-read").create()

    def run(self, objects: list[str]) -> None:
        """The measured job."""
        parsed = self._parse(objects).persist()
        for table in self.keys:
            self._newest(parsed, table).createOrReplaceTempView("newest")
            self.spark.sql(self._merge(table))
        parsed.unpersist()

    def _merge(self, table: str) -> str:
        is_partial = self.shape is not None and self.shape.partial
        names = [quote(name) for name in self.columns[table]]
        values = {name: f"coalesce(s.{name}, t.{name})" if is_partial else f"s.{name}" for name in names}
        same = " AND ".join(f"t.{quote(name)} = s.{quote(name)}" for name in self.keys[table])
        return (
            f"MERGE INTO {_own(table)} t USING newest s ON {same} WHEN MATCHED AND s.deleted THEN DELETE "  # noqa: S608
            f"WHEN MATCHED THEN UPDATE SET {', '.join(f't.{name} = {value}' for name, value in values.items())} "
            f"WHEN NOT MATCHED AND NOT s.deleted THEN INSERT ({', '.join(names)}) "
            f"VALUES ({', '.join(f's.{name}' for name in names)})"
        )

    def _parse(self, objects: list[str]) -> DataFrame:
        """``table``, ``deleted``, ``place`` (its order, last first) and ``row`` of each row of each message."""
        lines = self.spark.read.text(objects)
        if self.shape is None or self.schema is None:
            fields = ", ".join(f"f{number} string" for number in range(FIELDS))
            records = lines.select(
                F.from_csv("value", fields).alias("row"), F.monotonically_increasing_id().alias("line")
            )
            return records.where("row.f6 IN ('ISRT', 'REPL', 'DLET')").selectExpr(
                "lower(concat(row.f4, '.', row.f5)) AS table", "row.f6 = 'DLET' AS deleted",
                "struct(row.f7, row.f3, line) AS place", "row",
            )  # fmt: skip
        shape = self.shape
        records = lines.select(F.from_json("value", RECORD).alias("r")).select("r.topic", "r.offset", "r.value")
        messages = records.select("topic", "offset", F.from_json("value", self.schema).alias("v")).where(shape.applies)
        rows = messages.selectExpr(
            f"{shape.table} AS table", f"coalesce({shape.deleted}, false) AS deleted",
            f"struct({', '.join(shape.order)}) AS of_message", f"posexplode({shape.rows}) AS (number, row)",
        )  # fmt: skip
        return rows.select("table", "deleted", F.struct("of_message", "number").alias("place"), "row")

    def _newest(self, parsed: DataFrame, table: str) -> DataFrame:
        """``deleted`` and the columns of the newest row of each key."""
        columns = self.columns[table]
        own = parsed.where(F.col("table") == table)
        if self.shape is None:
            images = _HEAD, _HEAD + len(columns)
            values = [
                F.when(F.col("deleted"), F.col(f"row.f{images[0] + at}")).otherwise(F.col(f"row.f{images[1] + at}"))
                for at in range(len(columns))
            ]
        else:
            values = [F.col(f"row.{self._place(table, name)}") for name in columns]
        rows = own.select("deleted", "place", *(value.alias(name) for name, value in zip(columns, values, strict=True)))
        order = Window.partitionBy(*self.keys[table]).orderBy(F.desc("place"))
        return rows.withColumn("at", F.row_number().over(order)).where("at = 1").drop("place", "at")


def _own(table: str) -> str:
    return ".".join(map(quote, (CATALOG, *table.split("."))))
