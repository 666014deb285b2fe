"""The peer: the job a competent engineer writes by hand for this one table. Read, parse, newest per key, MERGE.

It knows the table's types by heart and asks for nothing else: no log, no receipt, no checks, no audit branch, no
transactions, no order between hours. A text that was not sent keeps what the table stores; one that an earlier event
of the same hour sent is lost (README).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

from benchmarks.floor import EVENT
from benchmarks.generate import ABSENT

CATALOG = "peer"
_RECORD = "key string, value string, offset bigint"
_COLUMNS = {
    "id": "id", "customer_id": "customer_id", "status": "status", "total": "total", "tax_rate": "tax_rate",
    "quantity": "quantity", "is_gift": "is_gift", "placed_at": "placed_at",
    "updated_at": "timestamp_micros(updated_at)", "ship_on": "date_from_unix_date(ship_on)", "contact": "contact",
    "note": "note",
}  # fmt: skip
_PROPERTIES = {
    "merge-on-read": {"format-version": "3", "write.merge.mode": "merge-on-read"},
    "copy-on-write": {"format-version": "2", "write.merge.mode": "copy-on-write"},
}


def catalog_conf(folder: Path) -> dict[str, str]:
    """Spark's settings for :data:`CATALOG`, whose tables and SQLite database lie in a folder."""
    catalog = f"spark.sql.catalog.{CATALOG}"
    return {
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "jdbc",
        f"{catalog}.uri": f"jdbc:sqlite:{folder}/catalog.db",
        f"{catalog}.jdbc.schema-version": "V1",
        f"{catalog}.warehouse": str(folder),
        f"{catalog}.cache-enabled": "false",
    }


@dataclass
class HandWritten:
    """The job on one table, in one of Iceberg's two ways to write."""

    spark: SparkSession
    mode: str

    @property
    def table(self) -> str:
        return f"{CATALOG}.shop.orders_{self.mode.replace('-', '_')}"

    def load(self, objects: list[str]) -> None:
        """Make the table from the base hour, and remember it."""
        self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.shop")
        self.read_newest(objects)
        self.spark.sql(f"DROP TABLE IF EXISTS {self.table} PURGE")
        properties = ", ".join(f"'{key}' = '{value}'" for key, value in _PROPERTIES[self.mode].items())
        rows = ", ".join(_COLUMNS)
        self.spark.sql(
            f"CREATE TABLE {self.table} USING iceberg TBLPROPERTIES ({properties}) AS SELECT {rows} FROM newest"  # noqa: S608
        )
        (self.base,) = self.spark.table(f"{self.table}.snapshots").select("snapshot_id").collect()[0]

    def reset(self) -> None:
        """The table as the base hour left it: metadata only."""
        name = self.table.removeprefix(f"{CATALOG}.")
        self.spark.sql(f"CALL {CATALOG}.system.set_current_snapshot('{name}', {self.base})")

    def run(self, objects: list[str]) -> None:
        """The measured job."""
        self.read_newest(objects)
        columns = [name for name in _COLUMNS if name != "note"]
        updates = ", ".join(f"t.{name} = s.{name}" for name in columns)
        note = f"t.note = CASE WHEN s.note = '{ABSENT}' THEN t.note ELSE s.note END"
        names = ", ".join(_COLUMNS)
        self.spark.sql(
            f"MERGE INTO {self.table} t USING newest s ON t.id = s.id "  # noqa: S608 - constants of this module
            f"WHEN MATCHED AND s.op = 'd' THEN DELETE WHEN MATCHED THEN UPDATE SET {updates}, {note} "
            f"WHEN NOT MATCHED AND s.op <> 'd' THEN INSERT ({names}) VALUES (s.{', s.'.join(_COLUMNS)})"
        )

    def read_newest(self, objects: list[str]) -> None:
        """Make ``newest`` a view of the newest event of each key: ``op`` and the columns of the table."""
        record = self.spark.read.text(objects).select(F.from_json("value", _RECORD).alias("r")).select("r.*")
        event = record.where("value IS NOT NULL").select("offset", F.from_json("value", EVENT).alias("e"))
        commit = F.regexp_extract("e.source.sequence", r'^\["(\d+)"', 1).cast("bigint")
        order = Window.partitionBy("row.id").orderBy(F.desc_nulls_last("commit"), F.desc("lsn"), F.desc("offset"))
        newest = (
            event.select(
                "e.op",
                "e.source.lsn",
                "offset",
                commit.alias("commit"),
                F.coalesce("e.after", "e.before").alias("row"),
            )
            .withColumn("place", F.row_number().over(order))
            .where("place = 1")
        )
        newest.select("op", "row.*").selectExpr(
            "op", *(f"{value} AS {name}" for name, value in _COLUMNS.items())
        ).createOrReplaceTempView("newest")


def main() -> None:
    """The job as one would submit it: ``spark-submit benchmarks/merge.py load|run OBJECT…``."""
    what, *objects = sys.argv[1:]
    job = HandWritten(SparkSession.builder.getOrCreate(), "merge-on-read")
    (job.load if what == "load" else job.run)(objects)


if __name__ == "__main__":
    main()
