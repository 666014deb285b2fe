"""Avro messages: the envelope, whose schema is published, and what can be read of a message before its schema is known.

A data message needs the schema of its table, which a metadata message brings, perhaps in another hour. But its headers
are its last field, and they are the same for every table: they are found at the end of its bytes, and trusted only when
writing them again gives the same bytes. The columns wait for :mod:`tidemark.formats.qlik.bind`.

A metadata message carries its own schema; of it only the beginning (``schemaId``, ``lineage``) is read here.
https://help.qlik.com/en-US/replicate (Kafka Avro consumers API, the Replicate envelope)
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro, to_avro

from tidemark.formats.qlik.messages import PASSED, table_name

_PERMISSIVE = {"mode": "PERMISSIVE"}
_MAGIC = "atMSG"


def _record(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields.items()]}


_ENVELOPE = json.dumps(
    _record(
        "MessageEnvelope",
        {
            "magic": {"type": "fixed", "name": "Magic", "size": 5},
            "type": "string",
            "headers": ["null", {"type": "map", "values": "string"}],
            "messageSchemaId": ["null", "string"],
            "messageSchema": ["null", "string"],
            "message": "bytes",
        },
    )
)


def _headers_schema(external_id: Any) -> str:
    operation = {"type": "enum", "name": "operation", "symbols": ["INSERT", "UPDATE", "DELETE", "REFRESH"]}
    texts = dict.fromkeys(("changeSequence", "timestamp", "streamPosition", "transactionId"), "string")
    masks = {name: ["null", "bytes"] for name in ("changeMask", "columnMask")}
    ids = {"externalSchemaId": external_id} if external_id else {}
    counters = {"transactionEventCounter": ["null", "long"], "transactionLastEvent": ["null", "boolean"]}
    return json.dumps(_record("Headers", {"operation": operation, **texts, **masks, **ids, **counters}))


#: With the header of the external schema's id switched off, and on.
_HEADERS = [_headers_schema(None), _headers_schema(["null", "string"]), _headers_schema("string")]

_NO_TEXT = ("operation", "changeMask", "columnMask", "transactionEventCounter", "transactionLastEvent")

# Where headers may begin: the operation, then a change sequence of 35 digits, or none on a row of the full load.
_TAIL = r"(?s)^.*((?:[\x00\x02\x04\x06]F[0-9]{35}|\x06\x00(?:\x00|[\x14-\x50][0-9][0-9T:. Z+-]{8,39})).{6,})$"


def _lineage(text: Any) -> str:
    named = dict.fromkeys(("server", "task", "schema", "table"), text)
    lineage = _record("Lineage", {**named, "tableVersion": "int", "timestamp": text})
    return json.dumps(_record("Metadata", {"schemaId": text, "lineage": lineage}))


_NULLABLE = ["null", "string"]
_SCHEMA_OF_METADATA = "struct<fields: array<struct<name: string, type: string>>>"
_LINEAGE_FIELDS = ["server", "task", "schema", "table", "tableVersion", "timestamp"]


def is_avro(value: Column) -> Column:
    """Whether a value is Avro: in the envelope, or at least no JSON object."""
    return in_envelope(value) | ~value.cast("string").rlike(r'^\s*\{\s*"')


def in_envelope(value: Column) -> Column:
    """Whether a value begins as the Avro envelope does."""
    return F.substring(value.cast("binary"), 1, 5) == F.lit(_MAGIC.encode())


def one_line_base64(value: Column) -> Column:
    """Base64 without the line ends that Spark puts in."""
    return F.translate(F.base64(value), "\r\n", "")


def avro_messages(records: DataFrame, *, little_endian: bool, also: Sequence[str] = ()) -> DataFrame:
    """RECORDS whose values are Avro (others: null) → MESSAGE, data without its columns, and the columns ``also`` named.

    ``little_endian``: the first byte of a mask holds the first ordinals.
    """
    passed = (*PASSED, *also)
    value = F.col("value")
    enveloped = in_envelope(value)
    opened = records.select(
        *passed, enveloped.alias("enveloped"), value.alias("bytes"),
        F.when(enveloped, from_avro(value, _ENVELOPE, _PERMISSIVE)).alias("e"),
    )  # fmt: skip
    e, enveloped = F.col("e"), F.col("enveloped")
    bodies = opened.select(
        *passed,
        F.when(enveloped, e["type"]).when(F.col("bytes").isNotNull(), "DT").alias("type"),
        e["messageSchemaId"].alias("schema_id"),
        e["messageSchema"].alias("own_schema"),
        F.when(enveloped, e["message"]).otherwise(F.col("bytes")).alias("body"),
    )
    is_data, is_metadata = F.col("type") == "DT", F.col("type") == "MD"
    tail = F.encode(F.regexp_extract(F.decode(F.col("body"), "ISO-8859-1"), _TAIL, 1), "ISO-8859-1")
    parts = bodies.select(
        *passed, "type", "schema_id", "own_schema", "body",
        F.when(is_data, tail).alias("tail"),
        F.when(is_metadata, _beginning(F.col("body"), F.col("own_schema"))).alias("m"),
    )  # fmt: skip
    candidates = [F.when(F.length("tail") > 0, from_avro(F.col("tail"), schema, _PERMISSIVE)) for schema in _HEADERS]
    read = parts.select(
        *passed, "type", "schema_id", "own_schema", "body", "tail", "m",
        *(candidate.alias(f"h{i}") for i, candidate in enumerate(candidates)),
    )  # fmt: skip
    h = F.coalesce(
        *(
            F.when(_is_whole(F.col(f"h{i}"), schema), _as_text(F.col(f"h{i}"), schema, little_endian))
            for i, schema in enumerate(_HEADERS)
        )
    )
    whole = read.select(*passed, "type", "schema_id", "own_schema", "body", "m", h.alias("h"))
    m = F.col("m")
    form = F.when(F.col("h").isNotNull(), "data").when(m["lineage"]["table"].isNotNull(), "metadata")
    text = F.to_json(
        F.struct(F.col("own_schema").alias("messageSchema"), one_line_base64(F.col("body")).alias("message"))
    )
    return whole.select(
        *passed,
        form.alias("form"),
        F.lit(None).cast("map<string, string>").alias("data"),
        F.lit(None).cast("map<string, string>").alias("before"),
        "h",
        table_name(m["lineage"]["schema"], m["lineage"]["table"]).alias("named"),
        "schema_id",
        m["lineage"]["tableVersion"].cast("string").alias("version"),
        m["lineage"]["timestamp"].alias("metadata_time"),
        F.when(form == "metadata", text).alias("text"),
        F.when(form == "data", F.col("body")).alias("body"),
    )


def _is_whole(headers: Column, schema: str) -> Column:
    """Whether these are all bytes of the tail: writing them gives it again. What cannot be read is null, field by field.

    Bytes shifted by one can be well-formed as well; their texts then hold lengths and marks, which are no characters.
    """
    texts = [field["name"] for field in json.loads(schema)["fields"] if field["name"] not in _NO_TEXT]
    joined = F.concat(*(F.coalesce(headers[name], F.lit("")) for name in texts))
    return F.when(
        headers["operation"].isNotNull(), joined.rlike(r"^[ -~]*\z") & (to_avro(headers, schema) == F.col("tail"))
    )


def _beginning(body: Column, own_schema: Column) -> Column:
    """``schemaId`` and ``lineage`` of a metadata message whose own schema begins with them, as documented."""
    fields = F.from_json(own_schema, _SCHEMA_OF_METADATA)["fields"]
    lineage = F.from_json(F.get(fields, F.lit(1))["type"], _SCHEMA_OF_METADATA)["fields"]
    begins = (F.get(fields, F.lit(0))["name"] == "schemaId") & (F.get(fields, F.lit(1))["name"] == "lineage")
    listed = F.slice(lineage, 1, 6)
    names = F.transform(listed, lambda field: field["name"]) == F.array(*map(F.lit, _LINEAGE_FIELDS))
    kinds = F.array_distinct(
        F.transform(F.filter(listed, lambda field: field["name"] != "tableVersion"), lambda field: field["type"])
    )
    kinds = F.array_union(kinds, F.array(F.get(fields, F.lit(0))["type"]))
    plain = kinds == F.array(F.lit("string"))
    nullable = F.transform(kinds, lambda kind: F.replace(kind, F.lit(" "), F.lit(""))) == F.array(
        F.lit('["null","string"]')
    )
    read_plain, read_nullable = (from_avro(body, _lineage(kind), _PERMISSIVE) for kind in ("string", _NULLABLE))
    return F.when(begins & names & plain, read_plain).when(begins & names & nullable, read_nullable)


def _as_text(headers: Column, schema: str, little_endian: bool) -> Column:
    """Headers as the map of texts that JSON gives; masks as hexadecimal text, last digit first."""
    entries = []
    for field in json.loads(schema)["fields"]:
        name = field["name"]
        value = headers[name]
        if name.endswith("Mask"):
            value = F.hex(value)
            if little_endian:
                value = F.array_join(F.reverse(F.regexp_extract_all(value, F.lit("(..)"), F.lit(1))), "")
        entries += [F.lit(name), value.cast("string")]
    return F.map_filter(F.create_map(*entries), lambda _, value: F.length(value) > 0)
