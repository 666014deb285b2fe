"""Spark's own floor: what it costs merely to read the records and parse both layers of JSON, kept nowhere."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

RECORD = (
    "topic string, partition int, offset bigint, timestamp bigint, key string, value string, "
    "headers array<struct<key: string, value: string>>"
)
ROW = (
    "struct<id: bigint, customer_id: bigint, status: string, total: decimal(14,2), tax_rate: decimal(9,4), "
    "quantity: int, is_gift: boolean, placed_at: timestamp, updated_at: bigint, ship_on: int, contact: string, "
    "note: string>"
)
EVENT = (
    f"before {ROW}, after {ROW}, source struct<version: string, connector: string, name: string, ts_ms: bigint, "
    "snapshot: string, db: string, sequence: string, ts_us: bigint, ts_ns: bigint, schema: string, `table`: string, "
    "txId: bigint, lsn: bigint, xmin: bigint, origin: string, origin_lsn: bigint>, "
    "transaction struct<id: string, total_order: bigint, data_collection_order: bigint>, "
    "op string, ts_ms bigint, ts_us bigint, ts_ns bigint"
)


def parse(spark: SparkSession, objects: list[str]) -> DataFrame:
    """Every field of the record and of the event, with the types that a reader of this table would write down."""
    record = spark.read.text(objects).select(F.from_json("value", RECORD).alias("record")).select("record.*")
    return record.withColumn("value", F.from_json("value", EVENT))


def to_nothing(rows: DataFrame) -> None:
    """Compute every row and column, and keep none."""
    rows.write.format("noop").mode("overwrite").save()
