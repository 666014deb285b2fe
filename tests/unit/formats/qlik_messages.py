"""Messages as Qlik Replicate writes them, for the tests of its format."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
from pyspark.sql import DataFrame, Row, SparkSession

from tidemark.containers.contract import RECORDS
from tidemark.feeds.model import Feed
from tidemark.formats.contract import CHANGES, SchemaEntry
from tidemark.formats.qlik import decode as qlik
from tidemark_samples.qlik_wire import table_columns

SEQUENCE = "20261120010203000000000000000000001"
TABLES: dict[str, Any] = {
    "SALES.ACCOUNTS": {"topic": "accounts"},
    "SALES.ORDERS": {"topic": "orders"},
    "SALES.DECLARED": {"key": ["ID"], "columns": {"ID": "INT4", "NAME": "STRING(9)", "NOTE": "CLOB"}},
    "SALES.KEY_ONLY": {"key": ["ID"]},
    "SALES.LOG": {"key": [], "columns": {"A": "INT4", "B": "INT4"}},
    "SALES.OTHER_KEY": {"key": ["CODE"]},
    "SALES.GROWN": {"key": ["ID"], "columns": {"ID": "INT4", "NAME": "STRING(9)", "NOTE": "CLOB"}},
    "SALES.LEADING": {"key": ["ID"], "columns": {"ID": "INT4", "_A": "STRING(9)", "__B": "STRING(9)"}},
    "SALES.SECTIONS": {"key": ["ID"], "topic": "sections"},
    "SALES.STAMPED": {"topic": "stamped", "key": ["ID"], "columns": {"ID": "INT4", "timestamp": "DATETIME"}},
    "SALES.ONE": {"topic": "both"},
    "SALES.TWO": {"topic": "both"},
}


def headers(operation: str = "UPDATE", **changes: Any) -> dict[str, Any]:
    content = {
        "operation": operation, "changeSequence": SEQUENCE, "timestamp": "2026-11-20T01:02:03.000",
        "streamPosition": "00000000.00bb2531.00000001.0000.02.0000:154.6963.16",
        "transactionId": "00000000000000000000000000060008", "changeMask": None, "columnMask": None,
        "transactionEventCounter": 1, "transactionLastEvent": True,
    }  # fmt: skip
    return content | changes


def full_load(**changes: Any) -> dict[str, Any]:
    empty = dict.fromkeys(("changeSequence", "timestamp", "streamPosition", "transactionId"), "")
    return headers("REFRESH", **empty, transactionEventCounter=None, transactionLastEvent=None) | changes


def enveloped(message: dict[str, Any], type_: str = "DT", schema_id: str | None = None) -> dict[str, Any]:
    return {
        "magic": "atMSG", "type": type_, "headers": None, "messageSchemaId": schema_id, "messageSchema": None,
        "message": message,
    }  # fmt: skip


def message(data: Any, headers: dict[str, Any], before: Any = None) -> dict[str, Any]:
    return {"data": data, "beforeData": before, "headers": headers}


def metadata(
    table: str,
    columns: dict[str, str],
    key: list[str],
    *,
    version: int = 1,
    schema_id: str | None = None,
    timestamp: str = "2026-11-20T00:00:00.000",
    data_schema: str = "",
) -> dict[str, Any]:
    """A metadata message: columns in order with their types as ``NUMERIC(9,2)``."""
    schema, _, name = table.partition(".")
    lineage = {
        "server": "repl1", "task": "crm", "schema": schema, "table": name, "tableVersion": version,
        "timestamp": timestamp,
    }  # fmt: skip
    return {
        "schemaId": schema_id,
        "lineage": lineage,
        "tableStructure": {"tableColumns": table_columns(columns, key)},
        "dataSchema": data_schema,
    }


def data_schema(columns: dict[str, Any], *, external_id: bool = False) -> dict[str, Any]:
    """The Avro schema of a table's data messages, by its columns' Avro types (each may be null)."""
    fields = [{"name": name, "type": ["null", kind], "default": None} for name, kind in columns.items()]
    operation = {"type": "enum", "name": "operation", "symbols": ["INSERT", "UPDATE", "DELETE", "REFRESH"]}
    texts = ["changeSequence", "timestamp", "streamPosition", "transactionId"]
    header_fields: list[dict[str, Any]] = [{"name": "operation", "type": operation}]
    header_fields += [{"name": name, "type": "string"} for name in texts]
    header_fields += [{"name": name, "type": ["null", "bytes"]} for name in ("changeMask", "columnMask")]
    header_fields += [{"name": "externalSchemaId", "type": ["null", "string"]}] if external_id else []
    header_fields += [
        {"name": "transactionEventCounter", "type": ["null", "long"]},
        {"name": "transactionLastEvent", "type": ["null", "boolean"]},
    ]
    return {
        "type": "record", "name": "DataRecord", "namespace": "com.attunity.queue.msg.SALES.ACCOUNTS",
        "fields": [
            {"name": "data", "type": {"type": "record", "name": "Data", "fields": fields}},
            {"name": "beforeData", "type": ["null", "Data"], "default": None},
            {"name": "headers", "type": {"type": "record", "name": "Headers", "namespace": "com.attunity.queue.msg",
                                         "fields": header_fields}},
        ],
    }  # fmt: skip


ENVELOPE = {
    "type": "record", "name": "MessageEnvelope",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": 5}},
        {"name": "type", "type": "string"},
        {"name": "headers", "type": ["null", {"type": "map", "values": "string"}]},
        {"name": "messageSchemaId", "type": ["null", "string"]},
        {"name": "messageSchema", "type": ["null", "string"]},
        {"name": "message", "type": "bytes"},
    ],
}  # fmt: skip

METADATA = {
    "type": "record", "name": "MetadataRecord",
    "fields": [
        {"name": "schemaId", "type": "string"},
        {"name": "lineage", "type": {"type": "record", "name": "Lineage", "fields": [
            {"name": name, "type": "int" if name == "tableVersion" else "string"}
            for name in ("server", "task", "schema", "table", "tableVersion", "timestamp")
        ]}},
        {"name": "tableStructure", "type": {"type": "record", "name": "Structure", "fields": [
            {"name": "tableColumns", "type": {"type": "map", "values": {"type": "record", "name": "Column", "fields": [
                {"name": name, "type": "string" if name == "type" else "int"}
                for name in ("ordinal", "type", "length", "precision", "scale", "primaryKeyPosition")
            ]}}}
        ]}},
        {"name": "dataSchema", "type": "string"},
    ],
}  # fmt: skip


def avro(schema: Any, record: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), record)
    return out.getvalue()


def avro_envelope(body: bytes, type_: str = "DT", schema_id: str | None = None, schema: Any = None) -> bytes:
    written = None if schema is None else json.dumps(schema)
    record = {
        "magic": b"atMSG", "type": type_, "headers": None, "messageSchemaId": schema_id, "messageSchema": written,
        "message": body,
    }  # fmt: skip
    return avro(ENVELOPE, record)


def feed(tables: dict[str, Any] | None = None, **options: Any) -> Feed:
    return Feed.model_validate(
        {
            "feed": "crm", "description": "-", "owner": "-", "topics": ["accounts", "orders", "both", "metadata"],
            "exports": {"path": "{topic}/dt={date}/hr={hour}/*"}, "container": {"type": "kafka_json"},
            "format": {"type": "qlik", **options}, "tables": tables or {},
        }
    )  # fmt: skip


def records_of(spark: SparkSession, values: dict[str, tuple[str, bytes | None]]) -> DataFrame:
    """One Kafka record each; its name as the object."""
    rows = [(name, 1, value, topic, 0, 5, None, None, value, None, None) for name, (topic, value) in values.items()]
    return spark.createDataFrame(rows, RECORDS)


def decode_and_bind(
    spark: SparkSession, values: dict[str, tuple[str, bytes | None]], of: Feed
) -> tuple[dict[str, Row], ...]:
    """The rows as decoded, and as bound to their metadata, by the names of their messages."""
    decoded = qlik.decode(records_of(spark, values), of, of.format_options).localCheckpoint()
    assert decoded.schema.simpleString() == CHANGES.simpleString()
    rows = {row["object"]: row for row in decoded.collect()}
    assert len(rows) == len(values)
    schemas = [SchemaEntry(r.source_table, r.position, r.message_schema) for r in rows.values() if r.op == "schema"]
    bound = qlik.bind(decoded, schemas, of, of.format_options)
    assert bound.schema.fieldNames() == [*CHANGES.fieldNames(), "waits_for"]
    return rows, {row["object"]: row for row in bound.collect()}
