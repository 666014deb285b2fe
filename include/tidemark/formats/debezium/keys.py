"""Which row an event is of: its key, and the old key where the row moved.

Key, value and each header are written by converters of their own, with or without a message schema around them: each is
read by its own shape, never by that of another.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemark.formats.contract import DeclaredFeed
from tidemark.values.expressions import compute_once
from tidemark.values.strict_json import exact_json, repeats_name, whole_text

IMAGE = "map<string, string>"
_OLD_KEY = "__debezium.oldkey"


def own_shape(document: Column) -> Column:
    """The columns of a key or a header, whether they stand in ``{"schema", "payload"}`` or by themselves; null where it has
    none: a number or a text with its message schema is no more of a key than one that is sent without."""
    schema, payload = F.element_at(document, F.lit("schema")), F.element_at(document, F.lit("payload"))
    wrapped = (F.size(document) == 2) & schema.startswith("{") & F.map_contains_key(document, "payload")
    columns = F.when(payload.startswith("{"), exact_json(payload, IMAGE)).when(~schema.contains('"type":'), document)
    return F.when(wrapped, columns).otherwise(document)


def names_old_key(headers: Column) -> Column:
    """Whether a row came from another key. Few do: only these are searched and parsed by :func:`old_key`."""
    return F.coalesce(F.array_contains(headers["key"], _OLD_KEY), F.lit(False))


def old_key(headers: Column, *, checked: bool) -> Column:
    """The old key, in the last header of its name; null where there is none, or where it is no JSON object, or one that names
    a column twice. ``checked``: the headers are known to hold nothing that :func:`whole_text` refuses.

    Connect's SimpleHeaderConverter leaves line breaks inside a text as they are.
    """
    named = F.filter(headers, lambda header: header["key"] == _OLD_KEY)
    written = F.element_at(named, -1)["value"].cast("string")
    document = compute_once(written if checked else whole_text(written), _document)
    found = compute_once(document, own_shape)
    return F.when(names_old_key(headers), compute_once(found, lambda old: F.when(~repeats_name(old), old)))


def _document(written: Column) -> Column:
    on_one_line = F.replace(F.replace(written, F.lit("\n"), F.lit("\\n")), F.lit("\r"), F.lit("\\r"))
    return F.coalesce(exact_json(written, IMAGE), exact_json(on_one_line, IMAGE))


def whole(old: Column, key: Column) -> Column:
    """An old key with the columns of the key that it lacks, which are the same then: ByLogicalTableRouter adds one to keys,
    and leaves headers as they are (ToLogicalTopicRouter in https://github.com/debezium/debezium)."""
    part = (F.size(old) < F.size(key)) & (F.size(F.array_except(F.map_keys(old), F.map_keys(key))) == 0)
    filled = F.transform_values(
        key, lambda name, now: F.when(F.map_contains_key(old, name), F.element_at(old, name)).otherwise(now)
    )
    return F.when(part, filled).otherwise(old)


def declared_keys(event: dict[str, Column], feed: DeclaredFeed) -> tuple[Column, Column]:
    """``k`` and ``old``; for messages without a key they are taken from the images, where the feed declares the key."""
    k, old, op, before = (event[name] for name in ("k", "old", "op", "before"))
    declared = {table: declared.key for table, declared in feed.tables.items() if declared.key}
    if not declared:
        return k, old
    keyless = k.isNull() & op.isin("c", "r", "u", "d")

    def picked(image: Column) -> Column:
        found = F.lit(None).cast(IMAGE)
        for table, key in declared.items():
            of_key = F.map_filter(image, partial(_is_one_of, key))
            found = F.when(event["table"] == table, F.when(F.size(of_key) > 0, of_key)).otherwise(found)
        return found

    new = F.when(keyless, picked(F.when(op == "d", before).otherwise(event["after"]))).otherwise(k)
    was = F.when(keyless & (op == "u"), picked(before))
    return new, F.coalesce(old, F.when(F.to_json(was) != F.to_json(new), was))


def _is_one_of(names: Sequence[str], name: Column, _: Column) -> Column:
    return name.isin(names)
