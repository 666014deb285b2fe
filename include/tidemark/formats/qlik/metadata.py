"""Metadata messages: which column has which ordinal, type and place in the key. Pure.

The structure is documented under "Metadata message" of Qlik's Kafka target: ``schemaId``, ``lineage`` (schema, table,
tableVersion, timestamp), ``tableStructure.tableColumns`` (by name) and ``dataSchema`` (an Avro schema, as text).
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import fastavro

from tidemark.formats.qlik.types import column_type
from tidemark.values.columns import ColumnType
from tidemark.values.table_changes import TableChange

#: A table has no more columns than this: a larger ordinal is a mistake, and its mask would be a text of that length.
_MOST_COLUMNS = 65_536


@dataclass(frozen=True, kw_only=True)
class Metadata:
    """A table as one metadata message describes it."""

    schema_id: str | None
    """The id by which rows name the message; None: it gives none."""
    version: str | None
    """The table's version (``lineage.tableVersion``), by which rows may name it too; None: it gives none."""
    ordinals: Mapping[str, int]
    """By column, its bit in the masks of rows, counted from 1."""
    columns: Mapping[str, ColumnType] = field(default_factory=dict)
    """Column → type, in the order of the ordinals."""
    key: tuple[str, ...] = ()
    """The columns of the primary key, in its order; empty: the table has none."""
    data_schema: str | None = None
    """The Avro schema of rows, as JSON text; None: it gives none."""


def read_metadata(text: str) -> Metadata:
    """Read the message's JSON, with or without its envelope. ValueError, for a person, where it describes no table."""
    content = _content(text)
    structure = _object(content, "tableStructure")
    listed = structure.get("tableColumns")
    if isinstance(listed, list):
        listed = {str(column.get("name")): column for column in listed if isinstance(column, dict)}
    listed = _object({"tableColumns": listed}, "tableColumns")
    found: list[tuple[int, str, ColumnType, int]] = []
    for name, column in listed.items():
        if not isinstance(column, dict):
            raise ValueError(f"a metadata message says nothing of column {name}")
        ordinal = _number(column, "ordinal", name)
        if ordinal is None or not 1 <= ordinal <= _MOST_COLUMNS:
            raise ValueError(f"a metadata message gives column {name} the ordinal {ordinal}")
        kind = column.get("type")
        if not isinstance(kind, str):
            raise ValueError(f"a metadata message gives column {name} no type")
        try:
            type_ = column_type(kind, _number(column, "precision", name), _number(column, "scale", name))
        except ValueError as error:
            raise ValueError(f"column {name}: {error}") from error
        found.append((ordinal, name, type_, _number(column, "primaryKeyPosition", name) or 0))
    found.sort(key=lambda column: column[:2])
    if len({ordinal for ordinal, *_ in found}) < len(found):
        raise ValueError("a metadata message gives two columns one ordinal")
    schema_id, version = content.get("schemaId"), content.get("lineage")
    version = version.get("tableVersion") if isinstance(version, dict) else None
    data_schema = content.get("dataSchema")
    if data_schema is not None and not isinstance(data_schema, str):
        data_schema = json.dumps(data_schema)
    return Metadata(
        schema_id=None if schema_id in (None, "") else str(schema_id),
        version=None if version in (None, "") else str(version),
        ordinals={name: ordinal for ordinal, name, *_ in found},
        columns={name: type_ for _, name, type_, _ in found},
        key=tuple(
            name for _, name in sorted((key_position, name) for _, name, _, key_position in found if key_position > 0)
        ),
        data_schema=data_schema or None,
    )


def table_change(text: str) -> TableChange:
    """All columns and the key that the table has from this message on."""
    metadata = read_metadata(text)
    return TableChange(columns=metadata.columns, key=metadata.key, whole=True)


def _content(text: str) -> dict[str, Any]:
    """The metadata without their envelope; metadata in Avro are read with the schema that came with them."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"a metadata message is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError("a metadata message is no JSON object")
    message = value.get("message")
    if isinstance(message, dict):
        return message
    if not isinstance(message, str):
        return value
    try:
        schema = fastavro.parse_schema(json.loads(value["messageSchema"]))
        record = fastavro.schemaless_reader(io.BytesIO(base64.b64decode(message, validate=True)), schema, None)
    except Exception as error:  # whatever a broken schema or broken bytes do to the reader
        raise ValueError(f"a metadata message in Avro cannot be read with its own schema: {error}") from error
    return record if isinstance(record, dict) else {}


def _object(within: Any, name: str) -> dict[str, Any]:
    value = within.get(name) if isinstance(within, dict) else None
    if not isinstance(value, dict) or not value:
        raise ValueError(f"a metadata message has no {name}")
    return value


def _number(column: dict[str, Any], name: str, of: str) -> int | None:
    """Numbers come as numbers or as text."""
    value = column.get(name)
    if value in (None, ""):
        return None
    try:
        if isinstance(value, bool | float) or len(str(value)) > 9:
            raise ValueError
        return int(value)
    except (TypeError, ValueError):
        raise ValueError(f"a metadata message gives column {of} the {name} {value!r}") from None
