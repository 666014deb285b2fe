"""JSON messages, data and metadata, in their three shapes, all read into one: MESSAGE.

Shapes: an envelope (``magic``, ``type``, …, ``message``), bare (``data``, ``beforeData``, ``headers``), and flattened
(the fields of those sections side by side, with or without the section's name in front).

MESSAGE, one row per record: the columns that pass through (object, record, raw, topic, partition, offset, problem) and
``form`` data, metadata, tombstone, or null where it is none of them · ``data``, ``before`` maps of column → text ·
``h`` map of header → text, without those sent empty · ``named`` schema.table as the message names it · ``schema_id`` of
the envelope · ``version``, ``metadata_time`` of a metadata message · ``text`` a metadata message whole · ``body`` the
bytes of Avro.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.containers.contract import holds_text
from tidemark.values.strict_json import NOT_UTF_8, holds_fragile_numbers, marked, unmarked

_IMAGE = "map<string, string>"

#: The columns of MESSAGE that pass through.
PASSED = ("object", "record", "raw", "topic", "partition", "offset", "problem")

#: The columns of MESSAGE that are read from the message.
READ = ("form", "data", "before", "h", "named", "schema_id", "version", "metadata_time", "text", "body")

#: Header fields of Replicate on Kafka and Pub/Sub, and of Talend Data Integration.
HEADERS = (
    "operation", "changeSequence", "timestamp", "streamPosition", "transactionId", "changeMask", "columnMask",
    "externalSchemaId", "schemaId", "tableVersion", "transactionEventCounter", "transactionLastEvent",
)  # fmt: skip
_IN_HEADERS = rf"(?:{'|'.join((*HEADERS, 'schema', 'table'))})\z"


def json_messages(records: DataFrame, also: Sequence[str] = ()) -> DataFrame:
    """RECORDS whose values are JSON → MESSAGE, and the columns ``also`` named, untouched.

    A variant has no exponents, no zeros at the end of a fraction and 38 digits at most: texts with such numbers are read
    as :func:`tidemark.values.strict_json.exact_json` reads them.
    """
    passed = (*PASSED, *also)
    text = F.col("value").cast("string")
    valid = text if holds_text(records) else F.when(F.is_valid_utf8(text), text)
    looked_at = records.select(
        *passed, text.alias("text"), holds_fragile_numbers(text).alias("fragile"), valid.alias("j")
    )
    parsed = looked_at.select(
        *(name for name in passed if name != "problem"),
        "text",
        "fragile",
        F.coalesce("problem", F.when(F.col("text").isNotNull() & F.col("j").isNull(), F.lit(NOT_UTF_8))).alias(
            "problem"
        ),
        F.try_parse_json(F.when(F.col("fragile"), marked("j")).otherwise(F.col("j"))).alias("v"),
    )
    v = F.col("v")
    enveloped = (_text(v, "$.magic") == "atMSG") | (
        _text(v, "$.type").isin("DT", "MD") & _get(v, "$.message", "variant").isNotNull()
    )
    enveloped = F.coalesce(enveloped, F.lit(False))
    bodies = parsed.select(
        *passed,
        "text",
        "fragile",
        F.when(enveloped, _text(v, "$.type")).alias("type"),
        F.when(enveloped, _text(v, "$.messageSchemaId")).alias("schema_id"),
        F.when(enveloped, _get(v, "$.message", "variant")).otherwise(v).alias("b"),
    )
    b = F.col("b")
    opened = bodies.select(
        *passed, "text", "fragile", "type", "schema_id",
        _image(b, "$.data").alias("data"),
        _image(b, "$.beforeData").alias("before"),
        _image(b, "$.headers").alias("headers"),
        table_name(_text(b, "$.lineage.schema"), _text(b, "$.lineage.table")).alias("lineage_table"),
        table_name(_text(b, "$.schema"), _text(b, "$.table")).alias("top_table"),
        _text(b, "$.lineage.tableVersion").alias("lineage_version"),
        _text(b, "$.lineage.timestamp").alias("lineage_time"),
        (_get(b, "$.lineage", "variant").isNotNull() | _get(b, "$.tableStructure", "variant").isNotNull()).alias("describes"),
        _get(b, "$.tableStructure.tableColumns", "variant").isNotNull().alias("columns"),
        "b",
    )  # fmt: skip
    is_metadata = F.col("headers").isNull() & ((F.col("type") == "MD") | F.col("describes"))
    judged = opened.withColumn("is_metadata", F.coalesce(is_metadata, F.lit(False)))
    flat = F.col("headers").isNull() & ~F.col("is_metadata")
    every = F.when(flat, _image(b, "$"))
    return _one_shape(judged.withColumn("every", every).drop("b"), passed)


def _one_shape(opened: DataFrame, passed: Sequence[str]) -> DataFrame:
    """Puts the fields of flattened messages back into sections."""
    c, every = F.col, F.col("every")
    # A pattern that is not the same for all rows is compiled for each name: here patterns are texts, and asked last.
    prefixed = F.coalesce(
        F.exists(F.map_keys(every), lambda name: _matches(name, "headers", r"operation\z")), F.lit(False)
    )
    flat = F.coalesce(prefixed | F.map_contains_key(every, "operation"), F.lit(False))
    operation = F.get(
        F.filter(F.map_keys(every), lambda n: n.startswith("headers") & n.endswith("operation")), F.lit(0)
    )
    marked = opened.withColumns(
        # What stands between a section and a field: a column's own name may begin with it too.
        {
            "prefixed": prefixed,
            "flat": flat,
            "between": F.substring(operation, F.lit(len("headers") + 1), F.length(operation) - len("headersoperation")),
        }
    )

    def is_header(name: Column) -> Column:
        return F.when(c("prefixed"), _matches(name, "headers", _IN_HEADERS)).otherwise(name.isin(*HEADERS))

    before = _section(every, lambda name: _matches(name, "beforeData"), "beforeData", F.lit(True))
    data = _section(
        every,
        lambda name: ~(is_header(name) | _matches(name, "beforeData") | (name == "beforeData")),
        "data",
        c("prefixed"),
    )
    headers = _section(every, is_header, "headers", c("prefixed"))
    restored = marked.withColumns(
        {
            "data": F.coalesce("data", F.when(c("flat"), data)),
            "before": F.coalesce("before", F.when(c("flat") & (F.size(before) > 0), before)),
            "h": F.map_filter(F.coalesce("headers", F.when(c("flat"), headers)), lambda _, value: F.length(value) > 0),
        }
    )
    is_metadata = c("is_metadata")
    form = (
        F.when(c("text").isNull(), "tombstone")
        .when(~F.coalesce(c("type").isin("DT", "MD"), F.lit(True)), None)
        .when(is_metadata, F.when(c("columns"), "metadata"))
        .when(F.map_contains_key("h", "operation"), "data")
    )
    in_headers = table_name(F.element_at("h", F.lit("schema")), F.element_at("h", F.lit("table")))
    # In a flattened message, `schema` and `table` may be columns of the table.
    named = F.coalesce(in_headers, F.when(~c("flat"), c("top_table")))
    return restored.select(
        *passed,
        form.alias("form"),
        "data",
        "before",
        "h",
        F.when(is_metadata, c("lineage_table")).otherwise(named).alias("named"),
        "schema_id",
        F.when(is_metadata, c("lineage_version")).alias("version"),
        F.when(is_metadata, c("lineage_time")).alias("metadata_time"),
        F.when(is_metadata, c("text")).alias("text"),
        F.lit(None).cast("binary").alias("body"),
    )


def table_name(schema: Column, table: Column) -> Column:
    """``schema.table``; ``table`` alone where the source has no schemas; null where none is named."""
    return F.when(F.length(table) > 0, F.concat_ws(".", F.when(F.length(schema) > 0, schema), table))


def _get(value: Column, path: str, kind: str) -> Column:
    """A part of a variant; null where it is not there, is null, or is of another kind."""
    found = F.try_variant_get(value, path, kind)
    return F.when(~F.is_variant_null(found), found) if kind == "variant" else found


def _image(value: Column, path: str) -> Column:
    found = _get(value, path, _IMAGE)
    exact = F.transform_values(found, lambda _, text: unmarked(text, T.StringType()))
    return F.when(F.col("fragile"), exact).otherwise(found)


def _text(value: Column, path: str) -> Column:
    return _get(value, path, "string")


def _section(every: Column, belongs: Callable[[Column], Column], section: str, prefixed: Column) -> Column:
    """The fields of a flattened section, where it is ``prefixed`` without the section's name in front."""
    own = F.map_filter(every, lambda name, _: belongs(name))

    def bare(name: Column) -> Column:
        begin = F.concat(F.lit(section), F.col("between"))
        rest = F.substring(name, F.length(begin) + 1, F.length(name))
        return F.when(name.startswith(begin), rest).otherwise(F.regexp_replace(name, f"^{section}[._]+", ""))

    return F.when(prefixed, F.transform_keys(own, lambda name, _: bare(name))).otherwise(own)


def _matches(name: Column, section: str, field: str = "") -> Column:
    """Whether a field's name begins with that of its section, and goes on as the pattern ``field`` says."""
    return name.startswith(section) & name.rlike(f"^{section}[._]+{field}")
