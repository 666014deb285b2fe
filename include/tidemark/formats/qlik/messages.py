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

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.containers.contract import holds_text
from tidemark.values.strict_json import NOT_UTF_8, broken, is_broken, one_document, repeats_name

_TWICE = "an image names a column twice, or a header is there twice"
_DOUBTFUL = (
    ": of a column and of a header alike, and which one it is here nothing says: have the task put the names of the sections "
    "before those of their fields (`headers_timestamp`), or not flatten its messages"
)

_IMAGE = "map<string, string>"
_BODY = (
    f"data: {_IMAGE}, beforeData: {_IMAGE}, headers: {_IMAGE}, schema: string, table: string, "
    "lineage: struct<schema: string, table: string, tableVersion: string, timestamp: string>, "
    "tableStructure: struct<tableColumns: string>"
)
_MESSAGE = f"struct<magic: string, type: string, messageSchemaId: string, message: struct<{_BODY}>, {_BODY}>"

#: The columns of MESSAGE that pass through.
PASSED = ("object", "record", "raw", "topic", "partition", "offset", "problem")

#: The columns of MESSAGE that are read from the message.
READ = ("form", "data", "before", "h", "named", "schema_id", "version", "metadata_time", "text", "body")

#: Header fields of Replicate on Kafka and Pub/Sub, and of Talend Data Integration.
HEADERS = (
    "operation", "changeSequence", "timestamp", "streamPosition", "transactionId", "changeMask", "columnMask",
    "externalSchemaId", "schemaId", "tableVersion", "transactionEventCounter", "transactionLastEvent",
)  # fmt: skip
_OPERATION = r"^headers[._]+operation\z"


def json_messages(
    records: DataFrame, named_as_headers: Mapping[str, Sequence[str]], also: Sequence[str] = ()
) -> DataFrame:
    """RECORDS whose values are JSON → MESSAGE, and the columns ``also`` named, untouched. ``named_as_headers``: by topic, the
    columns of its table that have the name of a header."""
    passed, text, checked = (*PASSED, *also), F.col("value").cast("string"), holds_text(records)
    parsed = records.select(
        *passed, text.alias("text"), one_document(text, _MESSAGE, exact=True, checked=checked).alias("v")
    )
    v = F.col("v.d")
    enveloped = (v["magic"] == "atMSG") | (v["type"].isin("DT", "MD") & v["message"].isNotNull())
    opened = parsed.withColumn("enveloped", F.coalesce(enveloped, F.lit(False)))

    def body(*names: str) -> Column:
        inside, outside = v["message"], v
        for name in names:
            inside, outside = inside[name], outside[name]
        return F.when(F.col("enveloped"), inside).otherwise(outside)

    described = body("lineage").isNotNull() | body("tableStructure").isNotNull()
    is_metadata = body("headers").isNull() & F.coalesce(
        F.when(F.col("enveloped"), v["type"] == "MD") | described, F.lit(False)
    )
    # Columns of a flattened message may be named as sections are: whether it is JSON shows when they are read as texts.
    in_sections = ~is_broken(F.col("v")) & (body("headers").isNotNull() | is_metadata)
    not_utf_8 = broken(F.col("v"), otherwise="") == NOT_UTF_8
    return _one_shape(
        opened.select(
            *(name for name in passed if name != "problem"),
            F.coalesce("problem", F.when(F.col("text").isNotNull() & not_utf_8, F.lit(NOT_UTF_8))).alias("problem"),
            "text",
            F.when(F.col("enveloped"), v["type"]).alias("type"),
            F.when(F.col("enveloped"), v["messageSchemaId"]).alias("schema_id"),
            body("data").alias("data"), body("beforeData").alias("before"), body("headers").alias("headers"),
            table_name(body("lineage", "schema"), body("lineage", "table")).alias("lineage_table"),
            table_name(body("schema"), body("table")).alias("top_table"),
            body("lineage", "tableVersion").alias("lineage_version"),
            body("lineage", "timestamp").alias("lineage_time"),
            body("tableStructure", "tableColumns").isNotNull().alias("columns"),
            is_metadata.alias("is_metadata"),
            F.when(~in_sections, one_document(F.col("text"), _IMAGE, exact=True, checked=checked)).alias("whole"),
        ),
        passed, named_as_headers,
    )  # fmt: skip


def _one_shape(opened: DataFrame, passed: Sequence[str], named_as_headers: Mapping[str, Sequence[str]]) -> DataFrame:
    """Puts the fields of flattened messages back into sections."""
    c, every = F.col, F.col("whole.d")
    is_json = c("whole").isNull() | ~is_broken(c("whole"))
    looks_flat = c("headers").isNull() & ~c("is_metadata")
    named_so = F.filter(F.map_keys(every), lambda name: name.startswith("headers") & name.rlike(_OPERATION))
    operation = F.get(named_so, F.lit(0))
    prefixed = F.coalesce(looks_flat & operation.isNotNull(), F.lit(False))
    # What stands between a section and a field: a column's own name may begin with it too.
    between = F.substring(operation, F.lit(len("headers") + 1), F.length(operation) - len("headersoperation"))
    marked = opened.withColumns(
        {
            "prefixed": prefixed,
            "flat": prefixed | F.coalesce(looks_flat & F.map_contains_key(every, "operation"), F.lit(False)),
            "headers": F.when(is_json, c("headers")),
            "is_metadata": is_json & c("is_metadata"),
            **{f"begin_{section}": F.concat(F.lit(section), between) for section in ("data", "beforeData", "headers")},
        }
    )

    def begun(name: Column, *sections: str) -> Column:
        return reduce(or_, (name.startswith(c(f"begin_{section}")) for section in sections))

    begin_data = c("begin_data")
    own_before = F.map_filter(every, lambda name, _: begun(name, "beforeData"))
    own_headers = F.map_filter(every, lambda name, _: begun(name, "headers"))
    others = F.map_filter(every, lambda name, _: ~begun(name, "beforeData", "headers"))
    before = F.when(c("prefixed") & (F.size(own_before) > 0), _bare(own_before, c("begin_beforeData")))
    headers = F.when(c("prefixed"), _bare(own_headers, c("begin_headers"))).otherwise(
        F.map_filter(every, lambda name, _: name.isin(*HEADERS))
    )
    data = F.when(c("prefixed"), _bare(others, begin_data)).otherwise(
        F.map_filter(every, lambda name, _: ~name.isin(*HEADERS, "beforeData"))
    )
    both_ways = F.exists(
        F.map_keys(every),
        lambda name: (
            ~begun(name, "data", "beforeData", "headers") & F.map_contains_key(every, F.concat(begin_data, name))
        ),
    )
    twice = repeats_name("data", "before", "headers", every) | F.coalesce(c("prefixed") & both_ways, F.lit(False))
    problem = F.when(twice, F.lit(_TWICE))
    for topic, names in named_as_headers.items():
        doubtful = (c("topic") == topic) & c("flat") & ~c("prefixed")
        here = F.array_join(F.array_intersect(F.map_keys(every), F.array(*map(F.lit, names))), ", ")
        problem = F.coalesce(problem, F.when(doubtful & (here != ""), F.concat(here, F.lit(_DOUBTFUL))))
    restored = marked.withColumns(
        {
            "data": F.coalesce("data", F.when(c("flat"), data)),
            "before": F.coalesce("before", before),
            "h": F.map_filter(F.coalesce("headers", F.when(c("flat"), headers)), lambda _, value: F.length(value) > 0),
            "problem": F.coalesce("problem", problem),
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


def _bare(fields: Column, begin: Column) -> Column:
    """A flattened section's fields, without what stands in front of their names."""

    def bare(name: Column) -> Column:
        return F.when(name.startswith(begin), F.substr(name, F.length(begin) + 1)).otherwise(name)

    return F.transform_keys(fields, lambda name, _: bare(name))
