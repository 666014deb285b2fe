"""Kafka Connect's Parquet and Avro files, in the two layouts that its S3 sinks leave.

Whole records (a column ``value``, and besides it only ``key``, ``headers``, ``topic``, ``partition``, ``offset``,
``timestamp``): each column is what it says. Bytes and text are taken as they are, a struct as its JSON text.

Values (any other columns): a row is the message's value, written by a converter that knows schemas, and is taken as the
JSON text of its columns. There is no key and no header.

What a file does not hold follows from its folder and name: the topic from the landing, partition and first offset from
``<topic>+<partition>+<first offset>.<ending>``. The following offsets are counted: they keep the order, and are
exact where the topic has no gaps. The sink's ``store.kafka.keys`` and ``store.kafka.headers`` write files beside the values
(``….keys.avro``, ``….headers.avro``), whose rows belong to the values only by their order: these records are refused.
Leave such files out by the feed's path (``*[0-9].avro``).

A text whose bytes are not UTF-8 cannot stand in JSON: its record is refused.

JSON text of columns: nulls are written, bytes are base64, decimals are texts with all their digits, timestamps have
microseconds and a zone.
"""

from __future__ import annotations

from functools import reduce
from operator import and_

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.containers.contract import RECORDS
from tidemark.containers.objects import exactly, object_name, record_number
from tidemark.errors import ExportError
from tidemark.identifiers import quote
from tidemark.storage.landed_columns import landed_topic
from tidemark.values.encodings import time_of_millis
from tidemark.values.strict_json import NOT_UTF_8
from tidemark.values.whole_json import whole_json

_RECORD = {"key", "value", "headers", "topic", "partition", "offset", "timestamp"}
# The landing writes a plus sign as an underscore.
_PARTITION_AND_OFFSET = r"[+_](\d{1,9})[+_](\d{10,19})\.[^/]*$"
_BESIDE = r"\.(?:keys|headers)\.[^/]*$"


def read_files(spark: SparkSession, paths: list[str], file_format: str) -> DataFrame:
    """RECORDS of Parquet or Avro objects; see :mod:`tidemark.containers.contract`.

    Every object has a schema of its own (topics carry different tables, and tables change): those of one schema are
    read together, so that a column an object does not have is not taken for a null.
    """
    by_schema: dict[str, tuple[T.StructType, list[str]]] = {}
    for path in paths:
        schema = _schema(spark, path, file_format)
        by_schema.setdefault(schema.json(), (schema, []))[1].append(path)
    records = None
    for schema, alike in by_schema.values():
        rows = spark.read.format(file_format).schema(schema).load(exactly(alike))
        found = _records(rows, schema, alike)
        records = found if records is None else records.unionByName(found)
    return spark.createDataFrame([], RECORDS) if records is None else records


def _schema(spark: SparkSession, path: str, file_format: str) -> T.StructType:
    """The schema of one object. ExportError where Spark has none: for two columns of one name, but for upper and lower case,
    or for a type that it does not know."""
    try:
        return spark.read.format(file_format).load(exactly([path])).schema
    except AnalysisException as error:
        told, fix = str(error).partition("\n")[0], "have the sink leave that column out, or write it otherwise"
        raise ExportError(
            f"its columns cannot be read: {told}",
            object=path,
            fix=f"{fix}; then land the hour with `tidemark land --anew`",
        ) from error


def _records(rows: DataFrame, schema: T.StructType, paths: list[str]) -> DataFrame:
    names = set(schema.names)
    whole = "value" in names and names <= _RECORD
    row = _json(F.struct(*(F.col(quote(name)) for name in schema.names)), T.StructType(schema.fields))
    fields = [field for field in schema.fields if not whole or field.name in ("key", "value")]
    # Texts that are a key or a value by themselves are its bytes, which are for the format to judge.
    read = [field for field in fields if not whole or not isinstance(field.dataType, T.StringType)]
    valid = reduce(and_, (_valid(F.col(quote(field.name)), field.dataType) for field in read), F.lit(True))
    columns = {
        "object": object_name(paths),
        "record": record_number(),
        "raw": row,
        "value": row,
    }
    if whole:
        columns |= {field.name: _given(field) for field in schema.fields if field.name != "timestamp"}
        if "timestamp" in names:
            columns["sent_at"] = _time(schema["timestamp"])
    columns["problem"] = F.when(~valid, F.lit(NOT_UTF_8))
    numbered = rows.select(*(columns.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in RECORDS))
    name = F.col("object")
    partition = F.regexp_extract(name, _PARTITION_AND_OFFSET, 1).try_cast("int")
    offset = F.regexp_extract(name, _PARTITION_AND_OFFSET, 2).try_cast("bigint") + F.col("record") - 1
    beside = F.lit("keys and headers that the sink wrote beside the values are not read: leave them out by the path")
    from_name = {
        "topic": F.coalesce("topic", landed_topic(name)),
        "partition": F.coalesce("partition", partition),
        "offset": F.coalesce("offset", offset),
        "problem": F.when(name.rlike(_BESIDE), beside).otherwise(F.col("problem")),
    }
    return numbered.select(*(from_name.get(f.name, F.col(f.name)).alias(f.name) for f in RECORDS))


def _given(field: T.StructField) -> Column:
    """A column of a whole record as RECORDS wants it."""
    column = F.col(quote(field.name))
    if field.name in ("key", "value"):
        return _content(column, field.dataType)
    if field.name == "headers":
        return _headers(column, field.dataType)
    return column.try_cast({"topic": "string", "partition": "int", "offset": "bigint"}[field.name])


def _content(column: Column, kind: T.DataType) -> Column:
    """Bytes of a message's part: its own, those of its text, or those of its JSON."""
    if isinstance(kind, T.BinaryType):
        return column
    if isinstance(kind, T.StructType | T.MapType | T.ArrayType):
        return _json(column, kind)
    return column.cast("string").cast("binary")


def _json(column: Column, kind: T.DataType) -> Column:
    """A value as JSON text, in bytes."""
    return whole_json(_with_written_decimals(column, kind), nulls=True).cast("binary")


def _valid(value: Column, kind: T.DataType) -> Column:
    """Whether all texts in a value are UTF-8: Spark would write U+FFFD for other bytes."""
    if isinstance(kind, T.StringType):
        valid = F.is_valid_utf8(value)
    elif isinstance(kind, T.ArrayType):
        valid = F.forall(value, lambda item: _valid(item, kind.elementType))
    elif isinstance(kind, T.MapType):
        valid = _valid(F.map_keys(value), T.ArrayType(kind.keyType))
        valid &= _valid(F.map_values(value), T.ArrayType(kind.valueType))
    elif isinstance(kind, T.StructType):
        valid = reduce(and_, (_valid(value[field.name], field.dataType) for field in kind.fields), F.lit(True))
    else:
        return F.lit(True)
    return F.coalesce(valid, F.lit(True))


def _with_written_decimals(column: Column, kind: T.DataType) -> Column:
    """A value whose decimals are texts: as numbers of JSON, small ones would have an exponent, and readers may take them
    for doubles."""
    if isinstance(kind, T.DecimalType):
        return column.cast("string")
    if not _holds_decimals(kind):
        return column
    if isinstance(kind, T.ArrayType):
        return F.transform(column, lambda item: _with_written_decimals(item, kind.elementType))
    if isinstance(kind, T.MapType):
        return F.transform_values(column, lambda _, value: _with_written_decimals(value, kind.valueType))
    assert isinstance(kind, T.StructType)
    fields = (_with_written_decimals(column[field.name], field.dataType).alias(field.name) for field in kind.fields)
    return F.when(column.isNotNull(), F.struct(*fields))


def _holds_decimals(kind: T.DataType) -> bool:
    if isinstance(kind, T.StructType):
        return any(_holds_decimals(field.dataType) for field in kind.fields)
    if isinstance(kind, T.ArrayType):
        return _holds_decimals(kind.elementType)
    return _holds_decimals(kind.valueType) if isinstance(kind, T.MapType) else isinstance(kind, T.DecimalType)


def _headers(column: Column, kind: T.DataType) -> Column:
    """A map of headers, or a list of ``{"key", "value"}``; null for anything else, and where there is none."""
    if isinstance(kind, T.MapType):
        listed, value = F.map_entries(column), kind.valueType
    elif (
        isinstance(kind, T.ArrayType)
        and isinstance(kind.elementType, T.StructType)
        and {"key", "value"} <= set(kind.elementType.names)
    ):
        listed, value = column, kind.elementType["value"].dataType
    else:
        return F.lit(None)

    def header(held: Column) -> Column:
        text = _content(held["value"], value).cast("string")
        return F.struct(held["key"].cast("string").alias("key"), text.alias("value"))

    return F.when(F.size(column) > 0, F.transform(listed, header)).cast(RECORDS["headers"].dataType)


def _time(field: T.StructField) -> Column:
    column = F.col(quote(field.name))
    if isinstance(field.dataType, T.TimestampType | T.TimestampNTZType):
        return column.cast("timestamp")
    return time_of_millis(column.try_cast("bigint"))
