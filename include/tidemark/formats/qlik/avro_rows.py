"""The columns of Avro data messages, read with the schema from the metadata. They become the text that JSON has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.avro.functions import from_avro

from tidemark.formats.qlik.loads import of_load
from tidemark.values.encodings import OR_SPAN, time_micros, time_millis
from tidemark.values.whole_json import whole_json

_IMAGE = "map<string, string>"


def readable(rows: DataFrame, schemas: list[str]) -> Mapping[int, tuple[str, T.StructType]]:
    """The schemas, by their number, that Spark can read and that have the sections of a data message. No job runs."""
    found = {}
    for number, schema in enumerate(schemas):
        try:
            kind = rows.select(from_avro(F.lit(b""), schema).alias("message")).schema["message"].dataType
        except (PySparkException, Py4JJavaError):  # by whether Spark or Avro refuses it
            continue
        sections = {field.name: field.dataType for field in kind.fields} if isinstance(kind, T.StructType) else {}
        if isinstance(sections.get("data"), T.StructType) and isinstance(sections.get("headers"), T.StructType):
            assert isinstance(kind, T.StructType)
            found[number] = (schema, kind)
    return found


def with_columns(rows: DataFrame, schemas: Mapping[int, tuple[str, T.StructType]], number: Column) -> DataFrame:
    """Rows with Avro's bytes in ``unbound``: their ``before``, ``after`` and ``image`` filled in. ``number``: of a row's
    schema.

    Adds ``decoded``: null where the bytes are no message of that schema; ``decoded.no_text``: whether one of its texts is
    not UTF-8.
    """
    kind = f"struct<data: {_IMAGE}, before: {_IMAGE}, sequence: string, no_text: boolean>"
    if not schemas:
        return rows.withColumn("decoded", F.lit(None).cast(kind))
    body = F.unbase64(F.element_at("u", F.lit("avro")))
    read = F.lit(None).cast(kind)
    for own, (schema, sections) in schemas.items():
        read = F.when(
            number == own, _sections(from_avro(body, schema, {"mode": "PERMISSIVE"}), schema, sections).cast(kind)
        ).otherwise(read)
    in_avro = F.element_at("u", F.lit("avro")).isNotNull()
    decoded = rows.withColumn("decoded", F.when(in_avro, read))
    # Bytes read by the schema of another state can look like a row; their headers then do not.
    sequence = F.when(of_load(), F.lit("")).otherwise(F.col("position"))
    same = (F.col("decoded.sequence") == sequence) & (F.size("decoded.data") > 0)
    decoded = decoded.withColumn("decoded", F.when(same, F.col("decoded")))
    data, before, op = F.col("decoded.data"), F.col("decoded.before"), F.col("op")
    images = {
        "before": F.when(op == "delete", data).when(op == "update", before),
        "after": F.when(op != "delete", data),
        "image": data,
    }
    return decoded.withColumns({name: F.when(in_avro, value).otherwise(F.col(name)) for name, value in images.items()})


def _sections(message: Column, schema: str, kind: T.StructType) -> Column:
    sections = {field.name: field.dataType for field in kind.fields}
    data, before = sections["data"], sections.get("beforeData")
    assert isinstance(data, T.StructType)
    clocks = _clocks(json.loads(schema))
    texts = [
        message[name][field.name]
        for name, section in sections.items()
        if name in ("data", "beforeData") and isinstance(section, T.StructType)
        for field in section.fields
        if isinstance(field.dataType, T.StringType)
    ]
    whole = F.struct(
        _texts(message["data"], data, clocks).alias("data"),
        (
            _texts(message["beforeData"], before, clocks)
            if isinstance(before, T.StructType)
            else F.lit(None).cast(_IMAGE)
        ).alias("before"),
        message["headers"]["changeSequence"].alias("sequence"),
        F.exists(F.array(*texts).cast("array<string>"), lambda text: ~F.is_valid_utf8(text)).alias("no_text"),
    )
    return F.when(message["headers"].isNotNull(), whole)


def _texts(section: Column, kind: T.StructType, clocks: Mapping[str, str]) -> Column:
    parts = [part for field in kind.fields for part in (F.lit(field.name), _text(section[field.name], field, clocks))]
    return F.when(section.isNotNull(), F.create_map(*parts).cast(_IMAGE))


def _text(value: Column, field: T.StructField, clocks: Mapping[str, str]) -> Column:
    kind = field.dataType
    if isinstance(kind, T.BinaryType):
        return F.hex(value)
    if isinstance(kind, T.StructType | T.ArrayType | T.MapType):
        return whole_json(value)
    clock = {"time-millis": time_millis, "time-micros": time_micros}.get(clocks.get(field.name, ""))
    return clock(value.cast("string"), "string", OR_SPAN) if clock else value.cast("string")


def _clocks(schema: Any) -> dict[str, str]:
    """Columns that are times of day, which Spark reads as plain numbers, and their logical type."""
    found = {}
    for section in schema.get("fields", []):
        if section.get("name") != "data" or not isinstance(section.get("type"), dict):
            continue
        for column in section["type"].get("fields", []):
            kinds = column["type"] if isinstance(column["type"], list) else [column["type"]]
            logical = [str(kind.get("logicalType")) for kind in kinds if isinstance(kind, dict)]
            for name in (name for name in logical if name.startswith("time-")):
                found[column["name"]] = name
    return found
