"""JSON messages in their three shapes, data and metadata, brought to one: MESSAGE.

Shapes: an envelope (``magic``, ``type``, …, ``message``), bare (``data``, ``beforeData``, ``headers``), and flattened
(the fields of those sections side by side, with or without the section's name in front).

MESSAGE, one row per record: the columns that pass through (object, record, raw, topic, partition, offset, problem) and
``form`` data, metadata, tombstone, or null where it is none of them · ``data``, ``before`` maps of column → text ·
``h`` map of header → text, without those sent empty · ``named`` schema.table as the message says it · ``schema_id`` the
envelope's · ``version``, ``told_at`` a metadata message's · ``text`` a metadata message whole · ``body`` Avro's bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

_IMAGE = "map<string, string>"
_SECTIONS = {
    "data": _IMAGE,
    "beforeData": _IMAGE,
    "headers": _IMAGE,
    "schema": "string",
    "table": "string",
    "lineage": "struct<schema: string, table: string, tableVersion: string, timestamp: string>",
    "tableStructure": "string",
}
_BODY = ", ".join(f"{name}: {type_}" for name, type_ in _SECTIONS.items())
_VALUE = (
    f"struct<{_BODY}, magic: string, type: string, messageSchemaId: string, message: struct<{_BODY}>, _broken: string>"
)
_PERMISSIVE = {"columnNameOfCorruptRecord": "_broken", "mode": "PERMISSIVE"}

PASSED = ("object", "record", "raw", "topic", "partition", "offset", "problem")

#: What MESSAGE says beside them.
SAID = ("form", "data", "before", "h", "named", "schema_id", "version", "told_at", "text", "body")

#: Header fields of Replicate on Kafka and Pub/Sub, and of Talend Data Integration.
HEADERS = (
    "operation", "changeSequence", "timestamp", "streamPosition", "transactionId", "changeMask", "columnMask",
    "externalSchemaId", "schemaId", "tableVersion", "transactionEventCounter", "transactionLastEvent",
)  # fmt: skip
_HEADER = f"^(?:headers[._]+)?(?:{'|'.join(HEADERS)})$"
_PREFIXED_HEADER = f"^headers[._]+(?:{'|'.join((*HEADERS, 'schema', 'table'))})$"


def json_messages(records: DataFrame, also: Sequence[str] = ()) -> DataFrame:
    """RECORDS whose values are JSON → MESSAGE, and the columns ``also`` named, untouched."""
    passed = (*PASSED, *also)
    text = F.col("value").cast("string")
    # An array of messages would be read as its first one, and bytes that are no text as other text.
    readable = F.is_valid_utf8(text) & text.rlike(r"^\s*\{")
    parsed = records.select(
        *passed, text.alias("text"), F.from_json(F.when(readable, text), _VALUE, _PERMISSIVE).alias("v")
    )
    v = F.col("v")
    enveloped = (v["magic"] == "atMSG") | (v["type"].isin("DT", "MD") & v["message"].isNotNull())
    body = F.when(F.coalesce(enveloped, F.lit(False)), v["message"]).otherwise(
        F.struct(*(v[name].alias(name) for name in _SECTIONS))
    )
    bodies = parsed.select(
        *passed,
        "text",
        (v.isNull() | v["_broken"].isNotNull()).alias("broken"),
        v["type"].alias("type"),
        v["messageSchemaId"].alias("schema_id"),
        body.alias("b"),
    )
    b = F.col("b")
    is_metadata = (F.col("type") == "MD") | b["tableStructure"].isNotNull() | b["lineage"].isNotNull()
    is_metadata = F.coalesce(is_metadata, F.lit(False)) & b["headers"].isNull()
    nested = b["headers"].isNotNull()
    flat = ~is_metadata & ~nested & ~F.col("broken")
    formed = bodies.select(
        *passed, "text", "broken", "type", "schema_id", "b",
        is_metadata.alias("is_metadata"),
        # The sections side by side: only such a message is read as a whole a second time.
        F.when(flat, F.from_json(F.col("text"), _IMAGE)).alias("all"),
    )  # fmt: skip
    return _one_shape(formed, passed)


def _one_shape(formed: DataFrame, passed: Sequence[str]) -> DataFrame:
    every = F.col("all")
    prefixed = F.exists(F.map_keys(every), lambda name: name.rlike("^headers[._]+operation$"))
    flat = formed.withColumn("prefixed", prefixed).withColumn(
        "is_flat", F.coalesce(prefixed | F.map_contains_key(every, "operation"), F.lit(False))
    )
    b = F.col("b")
    header = F.when(F.col("prefixed"), F.lit(_PREFIXED_HEADER)).otherwise(F.lit(_HEADER))
    own = F.when(F.col("prefixed"), F.lit("^data[._]+")).otherwise(F.lit("^$"))
    headers = _section(every, lambda name: F.rlike(name, header), F.lit("^headers[._]+"))
    before = _section(every, lambda name: F.rlike(name, F.lit("^beforeData[._]+")), F.lit("^beforeData[._]+"))
    data = _section(
        every,
        lambda name: ~F.rlike(name, header) & ~F.rlike(name, F.lit("^beforeData([._]|$)")) & (name != "data"),
        own,
    )
    is_flat = F.col("is_flat")
    shaped = flat.select(
        *passed, "text", "schema_id", "is_metadata", "is_flat",
        (F.col("broken") | (F.col("type").isNotNull() & ~F.col("type").isin("DT", "MD") & ~is_flat)).alias("broken"),
        F.when(is_flat, F.coalesce(b["data"], data)).otherwise(b["data"]).alias("data"),
        F.when(is_flat, F.coalesce(b["beforeData"], F.when(F.size(before) > 0, before)))
        .otherwise(b["beforeData"]).alias("before"),
        F.map_filter(
            F.when(is_flat, headers).otherwise(b["headers"]), lambda _, value: F.length(value) > 0
        ).alias("h"),
        # Where the sections lie side by side, `schema` and `table` may be columns.
        F.when(~is_flat, F.struct(b["schema"].alias("schema"), b["table"].alias("table"))).alias("top"),
        b["lineage"].alias("lineage"),
    )  # fmt: skip
    h, lineage, is_metadata = F.col("h"), F.col("lineage"), F.col("is_metadata")
    form = (
        F.when(F.col("text").isNull(), "tombstone")
        .when(F.col("broken"), None)
        .when(is_metadata, "metadata")
        .when(F.map_contains_key(h, "operation"), "data")
    )
    return shaped.select(
        *passed,
        form.alias("form"),
        "data",
        "before",
        "h",
        F.when(is_metadata, table_name(lineage["schema"], lineage["table"]))
        .otherwise(
            F.coalesce(
                table_name(F.element_at(h, "schema"), F.element_at(h, "table")),
                table_name(F.col("top.schema"), F.col("top.table")),
            )
        )
        .alias("named"),
        "schema_id",
        F.when(is_metadata, lineage["tableVersion"]).alias("version"),
        F.when(is_metadata, lineage["timestamp"]).alias("told_at"),
        F.when(is_metadata, F.col("text")).alias("text"),
        F.lit(None).cast("binary").alias("body"),
    )


def table_name(schema: Column, table: Column) -> Column:
    """``schema.table``; ``table`` alone where the source has no schemas; null where none is named."""
    return F.when(F.length(table) > 0, F.concat_ws(".", F.when(F.length(schema) > 0, schema), table))


def _section(every: Column, belongs: Callable[[Column], Column], prefix: Column) -> Column:
    """The fields of a flattened section, without the section's name in front."""
    own = F.map_filter(every, lambda name, _: belongs(name))
    return F.transform_keys(own, lambda name, _: F.regexp_replace(name, prefix, F.lit("")))
