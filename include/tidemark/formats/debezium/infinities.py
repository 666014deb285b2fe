"""PostgreSQL's infinite dates and timestamps, which no table can hold, as nulls where the feed says so.

The connector (its PostgresValueConverter) writes a timestamp with zone as the text ``infinity``; a timestamp without in the
numbers of :data:`tidemark.values.encodings.INFINITIES`; a date as a count of days that differs from release to release, and
between snapshots and changes, but is none that PostgreSQL has.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemark.values.columns import ColumnType
from tidemark.values.encodings import INFINITIES

#: The first and the last date that PostgreSQL has, 4713 BC and 5874897 AD, in days since 1970.
_FIRST_DAY, _LAST_DAY = -2_440_588, 2_145_042_905
_ZONED = "zoned"
#: By the name of a message schema's type.
_WAYS = {
    "io.debezium.time.Date": "epoch_days",
    "org.apache.kafka.connect.data.Date": "epoch_days",
    "io.debezium.time.Timestamp": "epoch_millis",
    "org.apache.kafka.connect.data.Timestamp": "epoch_millis",
    "io.debezium.time.MicroTimestamp": "epoch_micros",
    "io.debezium.time.NanoTimestamp": "epoch_nanos",
    "io.debezium.time.ZonedTimestamp": _ZONED,
}
_FIELDS = "struct<fields: array<struct<field: string, fields: array<struct<field: string, name: string>>>>>"
#: The way of a column that is declared as no date or timestamp: nothing in it is infinite.
_NONE = "none"


def declared_ways(types: Mapping[str, Mapping[str, ColumnType]]) -> dict[str, dict[str, str]]:
    """Table → column → how its dates or timestamps are written, by the types that the feed declares."""
    return {table: {name: _way(kind) for name, kind in columns.items()} for table, columns in types.items()}


def _way(kind: ColumnType) -> str:
    if kind.spark in ("date", "timestamp_ntz"):
        return kind.encoding
    return _ZONED if kind.spark == "timestamp" else _NONE


def infinite_columns(image: Column, schema: Column, table: Column, declared: Mapping[str, Mapping[str, str]]) -> Column:
    """The columns of an image whose values are infinite, by the message's own ``schema``, else by what is declared."""
    listed = F.from_json(F.lit(json.dumps(declared)), "map<string, map<string, string>>")
    of_feed = F.coalesce(F.element_at(listed, table), F.create_map().cast("map<string, string>"))
    images = F.filter(
        F.from_json(schema, _FIELDS)["fields"],
        lambda field: field["field"].isin("before", "after") & field["fields"].isNotNull(),
    )
    fields = F.flatten(images["fields"])
    ways = F.create_map(*(F.lit(text) for pair in _WAYS.items() for text in pair))

    def infinite(name: Column, text: Column) -> Column:
        said = F.element_at(of_feed, name)
        by_message = F.exists(
            fields, lambda field: (field["field"] == name) & _is_infinite(F.element_at(ways, field["name"]), text)
        )
        by_feed = _is_infinite(said, text)
        by_message &= F.coalesce(said != _NONE, F.lit(True))  # what is declared as text stays
        return F.coalesce(F.when(schema.isNull(), by_feed).otherwise(by_message), F.lit(False))

    return F.map_keys(F.map_filter(image, infinite))


def _is_infinite(way: Column, text: Column) -> Column:
    known = (way == _ZONED) & text.isin("infinity", "-infinity")
    for name, (last, first) in INFINITIES.items():
        known = F.when(way == name, text.isin(*last, *first)).otherwise(known)
    days = text.try_cast("bigint")
    return F.when(way == "epoch_days", (days < _FIRST_DAY) | (days > _LAST_DAY)).otherwise(known)


def without(image: Column, names: Column) -> Column:
    """An image with nulls in these columns."""
    return F.transform_values(image, lambda name, text: F.when(~F.array_contains(names, name), text))
