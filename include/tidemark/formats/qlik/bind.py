"""Rows are completed by the metadata of their tables: the columns that were not sent, the key, and Avro's columns.

The metadata of a row are those whose schema id (or table version) the message names: of several of that name the newest that
are not later than the row, else the oldest. Without one, or where these have not
come and no mask needs their ordinals: those with the columns of the message, the newest that is not later than the row, else
the oldest. Before all metadata stand the columns that the feed file declares, in their order: they describe what came
before the first metadata, whenever these come.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.formats.contract import DeclaredFeed, SchemaEntry
from tidemark.formats.qlik.avro_rows import readable, with_columns
from tidemark.formats.qlik.loads import place_of_row
from tidemark.formats.qlik.masks import (
    bit_of,
    bytes_reversed,
    columns_with,
    columns_without,
    digits_of,
    fits,
    full_mask,
    has_bit,
    names_by_digit,
    trimmed,
)
from tidemark.formats.qlik.metadata import Metadata, read_metadata
from tidemark.values.strict_json import NOT_UTF_8


@dataclass(frozen=True, kw_only=True)
class _Known:
    """One state of a table's columns."""

    position: str
    """From where on it holds: the position of the metadata message. Empty: it is the feed file's."""
    schema_id: str | None
    """The schema id by which messages name it; None: it has none."""
    version: str | None
    """The table version by which they do, where they name no schema id; None: it has none."""
    ordinals: dict[str, int] | None
    """By column, its bit in masks, counted from 1. None: only the key is known."""
    key: tuple[str, ...]
    """The key's columns, in the key's order; empty: the table has no key."""
    avro: int | None = None
    """The number of its Avro schema among the distinct ones of all states. None: it came without one."""


_COLUMN = "struct<name: string, digit: int, digits_with: string>"
_KNOWN = (
    "struct<number: int, position: string, schema_id: string, version: string, columns: int, "
    "by_digit: array<array<array<string>>>, "
    f"key_columns: array<{_COLUMN}>, names: array<string>, full: string, key: array<string>, avro: int>"
)


def bind(rows: DataFrame, schemas: Sequence[SchemaEntry], feed: DeclaredFeed) -> DataFrame:
    """Log rows (CHANGES and perhaps more columns) → the same columns, and ``waits_for``; lazily, without a join: metadata
    are literals. See :mod:`tidemark.formats.contract`.

    Completes ``position``, ``key``, ``prior_key``, ``before``, ``after``, ``absent`` and ``notes`` of rows with ``unbound``;
    ``problem`` where that cannot be done. Other rows pass through.
    """
    by_table, avro = _known(schemas, feed)
    numbers = itertools.count()
    # Literals, however many tables and columns there are. What describes a row is none of its columns: the names of a wide
    # table would be copied into each of its rows, from one step to the next.
    literals = {table: [_literal(next(numbers), state) for state in states] for table, states in by_table.items()}
    every = F.from_json(F.lit(json.dumps(list(itertools.chain(*literals.values())))), f"array<{_KNOWN}>")
    known = F.get(every, F.col("state"))
    u = F.col("unbound")
    chosen = _choose(
        rows.withColumn("u", u)
        .withColumn("mask", trimmed(F.element_at(u, "columnMask")))
        .withColumn("changed", trimmed(F.element_at(u, "changeMask")))
        .withColumns({"mask_digits": digits_of(F.col("mask")), "changed_digits": digits_of(F.col("changed"))})
        .withColumn("image", F.coalesce(F.when(F.col("op") == "delete", F.col("before")), "after", "before")),
        literals,
    )
    images = with_columns(chosen, readable(rows, avro), known["avro"])
    return _complete(images, rows.columns, known)


def _readable(schemas: Sequence[SchemaEntry]) -> Iterator[tuple[SchemaEntry, Metadata]]:
    """The metadata, oldest first. What cannot be understood is left out: reading it as a change of the table reports why."""
    for entry in sorted(set(schemas), key=lambda entry: (entry.source_table, entry.position, entry.text)):
        with suppress(ValueError):
            yield entry, read_metadata(entry.text)


def _known(schemas: Sequence[SchemaEntry], feed: DeclaredFeed) -> tuple[dict[str, list[_Known]], list[str]]:
    """The states of each table, oldest first; and the distinct Avro schemas."""
    by_table: dict[str, list[_Known]] = {}
    avro: list[str] = []
    for entry, metadata in _readable(schemas):
        number = None
        if metadata.data_schema is not None:
            if metadata.data_schema not in avro:
                avro.append(metadata.data_schema)
            number = avro.index(metadata.data_schema)
        declared = feed.tables.get(entry.source_table)
        key = tuple(declared.key) if declared and declared.key is not None else metadata.key
        by_table.setdefault(entry.source_table, []).append(
            _Known(
                position=entry.position,
                schema_id=metadata.schema_id,
                version=metadata.version,
                ordinals=dict(metadata.ordinals),
                key=key,
                avro=number,
            )
        )
    for name, table in feed.tables.items():
        states = by_table.get(name, [])
        if table.columns or (table.key is not None and not states):
            ordinals = {column: i for i, column in enumerate(table.columns, 1)} or None
            own_key = table.key if table.key is not None or not states else states[0].key
            by_table[name] = [
                _Known(position="", schema_id=None, version=None, ordinals=ordinals, key=tuple(own_key or ())),
                *states,
            ]
    return by_table, avro


def described_at(schemas: Sequence[SchemaEntry]) -> Column | None:
    """Where the metadata stand that a row names: of several of that name the newest that is not later than the row, else
    the oldest. Null: the row names none, or some that have not come. None: no metadata have a name."""
    by_table: dict[str, dict[str, list[str]]] = {}
    for entry, metadata in _readable(schemas):
        for word, name in (("schemaId", metadata.schema_id), ("tableVersion", metadata.version)):
            if name is not None:
                by_table.setdefault(entry.source_table, {}).setdefault(f"{word} {name}", []).append(entry.position)
    if not by_table:
        return None
    literal = F.from_json(F.lit(json.dumps(by_table)), "map<string, map<string, array<string>>>")
    names = [F.concat(F.lit(f"{word} "), F.element_at("unbound", F.lit(word))) for word in ("schemaId", "tableVersion")]
    places = F.element_at(F.element_at(literal, F.col("source_table")), F.coalesce(*names))
    until = F.filter(places, lambda place: place <= F.col("position"))
    return F.coalesce(F.get(until, F.size(until) - 1), F.get(places, F.lit(0)))


def _literal(number: int, known: _Known) -> dict[str, object]:
    """The state of this ``number`` as the JSON of :data:`_KNOWN`."""
    ordinals = known.ordinals
    bits = {name: bit_of(ordinals[name]) for name in known.key if name in ordinals} if ordinals is not None else {}
    return {
        "number": number,
        "position": known.position,
        "schema_id": known.schema_id,
        "version": known.version,
        "columns": None if ordinals is None else len(ordinals),
        "by_digit": None if ordinals is None else names_by_digit(ordinals),
        "key_columns": [{"name": name, "digit": at, "digits_with": with_} for name, (at, with_) in bits.items()],
        "names": None if ordinals is None else list(ordinals),
        "full": full_mask(max(ordinals.values())) if ordinals else None,
        "key": known.key,
        "avro": known.avro,
    }


def _choose(rows: DataFrame, known: Mapping[str, list[dict[str, object]]]) -> DataFrame:
    """Adds ``state``, the number of the state that describes the row. ``known``: all that are known, by table."""
    by_table = F.from_json(F.lit(json.dumps(known)), f"map<string, array<{_KNOWN}>>")
    candidates = F.when(F.col("u").isNotNull(), F.element_at(by_table, F.col("source_table")))
    chosen = F.transform(F.array(candidates), _number_of_state)
    return rows.withColumn("state", F.element_at(chosen, 1))


def _number_of_state(candidates: Column) -> Column:
    """The number of the state that describes a row. ``candidates``: all states of the row's table."""
    position = F.col("position")
    schema_id, version = F.element_at("u", F.lit("schemaId")), F.element_at("u", F.lit("tableVersion"))
    names = F.map_keys("image")
    unnamed = schema_id.isNull() & version.isNull()
    in_avro = F.element_at("u", F.lit("avro")).isNotNull()

    def in_force(states: Column) -> Column:
        until = F.filter(states, lambda state: state["position"] <= position)
        return F.coalesce(F.get(until, F.size(until) - 1), F.get(states, F.lit(0)))

    def same_columns(state: Column) -> Column:
        return (F.size(names) == F.size(state["names"])) & (F.size(F.array_except(names, state["names"])) == 0)

    def needs_no_ordinals(state: Column) -> Column:
        return unnamed | F.coalesce(F.col("mask") == state["full"], F.lit(True))

    def may_hold(state: Column) -> Column:
        inside = F.size(F.array_except(names, state["names"])) == 0
        return inside & F.coalesce(fits(F.col("mask"), state["full"]), F.lit(True))

    first, second = F.get(candidates, F.lit(0)), F.get(candidates, F.lit(1))
    declared = F.when(first["position"] == "", first)
    stated = F.filter(candidates, lambda state: state["position"] != "")
    state = F.coalesce(
        F.when(second.isNull(), declared),
        # A task that is made anew counts its versions from 1 again.
        in_force(F.filter(candidates, lambda state: state["schema_id"] == schema_id)),
        F.when(schema_id.isNull(), in_force(F.filter(candidates, lambda state: state["version"] == version))),
        F.when(in_avro & unnamed, in_force(stated)),
        # It names metadata that came before all that are known.
        F.when(~unnamed & ~in_avro & (position < second["position"]), declared),
        # The bits of a mask go by the ordinals of the metadata that the row names, and by no others.
        in_force(F.filter(candidates, lambda state: same_columns(state) & needs_no_ordinals(state))),
        F.when(unnamed, in_force(F.filter(candidates, may_hold))),
        # Nothing fits: the problem is written about the state in force.
        F.when(unnamed, in_force(stated)),
    )
    return state["number"]


def _complete(rows: DataFrame, passed: Sequence[str], known: Column) -> DataFrame:
    """The columns ``passed``, those that metadata complete among them, and ``waits_for``. ``known``: the state of a row's
    table that describes it."""
    c = F.col
    waits = c("u").isNotNull()
    judged = _with_keys(_with_sent_values(rows, known), known)
    wrong = judged.withColumn("wrong", F.when(waits & c("problem").isNull(), _problem(known)))
    good = waits & c("problem").isNull() & c("wrong").isNull()
    names = known["key"]
    moved = _has_values(c("old_key")) & ~c("old_key").eqNullSafe(c("own_key"))
    completed = {
        "position": place_of_row(c("keyed")),
        "key": F.when(c("keyed"), F.map_from_arrays(names, c("own_key"))),
        "prior_key": F.when(c("keyed") & moved, F.map_from_arrays(names, c("old_key"))),
        "before": c("kept_before"),
        "after": c("kept_after"),
        "absent": F.when((F.size("lacking") > 0) & (c("op") != "delete"), c("lacking")),
        "notes": F.coalesce(_note(known), c("notes")),
    }
    whole_rows = {name: F.when(good, value).otherwise(c(name)).alias(name) for name, value in completed.items()}
    whole_rows["problem"] = F.coalesce("problem", "wrong").alias("problem")
    whole_rows["waits_for"] = F.when(c("wrong").isNotNull(), _waits_for(known)).alias("waits_for")
    # Through a generator no filter on these is pushed down: it would repeat all of the above, many times over.
    return wrong.select(
        *(name for name in passed if name not in whole_rows), F.inline(F.array(F.struct(*whole_rows.values())))
    ).select(*passed, "waits_for")


def _with_sent_values(rows: DataFrame, known: Column) -> DataFrame:
    """Adds ``lacking``, the columns that were not sent, ``keyed``, and the images without values that were not sent:
    ``kept_before`` and ``kept_after``."""
    c = F.col
    mask, sent, digits, by_digit = c("mask"), F.map_keys("image"), c("mask_digits"), known["by_digit"]
    waits = c("u").isNotNull()
    nothing = F.array().cast("array<string>")

    # Spark hashes the second of two lists, and what an exception leaves of the first. Of a wide table's columns few are sent:
    # these are hashed, and not the others.
    def kept(image: Column, lost: Callable[[Column], Column]) -> Column:
        keys = F.map_keys(image)
        named = F.array_intersect("lacking", keys)
        without_lost = F.map_filter(image, lambda name, value: ~(F.array_contains(named, name) & lost(value)))
        return F.when(F.size(F.array_except(keys, "shown")) == 0, image).otherwise(without_lost)

    whole = (mask.isNull() | (mask == known["full"])) & (F.size(known["names"]) == F.size(sent))
    whole &= F.size(F.array_except(known["names"], sent)) == 0
    shown = F.when(mask.isNull(), sent).otherwise(F.coalesce(F.array_intersect(sent, "in_mask"), "in_mask"))
    lacking = F.when(mask.isNotNull() & (F.size("shown") == F.size("in_mask")), columns_without(by_digit, digits))
    lacking = F.coalesce(F.when(whole, nothing), lacking, F.array_except(known["names"], "shown"), nothing)
    listed = rows.withColumn("in_mask", F.when(waits, columns_with(by_digit, digits)))
    listed = listed.withColumn("shown", F.when(waits, shown)).withColumn("lacking", F.when(waits, lacking))
    return listed.withColumn("keyed", F.size(known["key"]) > 0).withColumns(
        {
            # The mask describes `data`; a value that beforeData has of such a column was sent.
            "kept_before": F.when(waits, kept(c("before"), lambda value: value.isNull())),
            "kept_after": F.when(waits, kept(c("after"), lambda value: F.lit(True))),
        }
    )


def _with_keys(rows: DataFrame, known: Column) -> DataFrame:
    """Adds ``own_key``, the values of the row's key, and ``old_key``, those before an update."""
    c = F.col
    # beforeData may have the changed columns of a key alone: the others are what they were.
    own, old = _key(known, c("kept_after"), c("kept_before")), _key(known, c("kept_before"), c("kept_after"))
    return rows.withColumn("own_key", F.when(c("keyed"), own)).withColumn(
        "old_key", F.when(c("keyed") & (c("op") == "update"), old)
    )


def _note(known: Column) -> Column:
    """A note on columns that an update changed and did not send."""
    unknown = F.array_except(columns_with(known["by_digit"], F.col("changed_digits")), "shown")
    return F.when(
        (F.col("op") == "update") & (F.size(unknown) > 0),
        F.array(F.concat(F.lit("changed, but not sent: "), F.array_join(unknown, ", "))),
    )


def _moves_from_nowhere(known: Column) -> Column:
    """Whether changeMask says that a column of the key was changed, and no image before holds it. A mask of all columns, or
    of all that were sent, says nothing of any: some sources do not tell which were changed."""
    changed, before = F.col("changed"), F.col("kept_before")
    tells = (changed != known["full"]) & ~changed.eqNullSafe(F.col("mask"))

    def lost(column: Column) -> Column:
        held = F.coalesce(F.map_contains_key(before, column["name"]), F.lit(False))
        return has_bit(F.col("changed_digits"), column["digit"], column["digits_with"]) & ~held

    return F.coalesce(tells & F.exists(known["key_columns"], lost), F.lit(False))


def _key(known: Column, image: Column, other: Column) -> Column:
    """The key's values in an image, in the key's order; where it lacks one, in the other."""
    return F.transform(known["key"], lambda name: F.coalesce(F.element_at(image, name), F.element_at(other, name)))


def _has_values(key: Column) -> Column:
    return F.coalesce(key.isNotNull() & ~F.exists(key, lambda value: value.isNull()), F.lit(False))


def _waits_for(known: Column) -> Column:
    """The metadata that a row which cannot be completed waits for; null where they would not help."""
    c = F.col
    in_avro = F.element_at("u", F.lit("avro")).isNotNull()
    # A row that names no metadata, with more columns than any that have come: those of a later version are on their way.
    names_none = F.element_at("u", F.lit("schemaId")).isNull() & F.element_at("u", F.lit("tableVersion")).isNull()
    newer = names_none & (F.size(F.array_except(F.map_keys("image"), known["names"])) > 0)
    to_come = (
        known.isNull()
        | (in_avro & known["avro"].isNull() & (known["position"] == ""))
        | (c("mask").isNotNull() & known["columns"].isNull())
        | (~in_avro & newer & ~fits(c("mask"), known["full"]))
    )
    return F.when(to_come, F.concat(F.lit("metadata of "), _described_as()))


def _described_as() -> Column:
    """The table of a row, and which of its metadata the row names."""
    schema_id, version = F.element_at("u", F.lit("schemaId")), F.element_at("u", F.lit("tableVersion"))
    which = F.coalesce(
        F.concat(F.lit(" with schemaId "), schema_id), F.concat(F.lit(" with tableVersion "), version), F.lit("")
    )
    return F.concat(F.substring("source_table", 1, 200), F.substring(which, 1, 200))


def _problem(known: Column) -> Column:
    """Why a row cannot be completed; null when it can."""
    c = F.col
    mask, full = c("mask"), known["full"]
    table = F.substring(c("source_table"), 1, 200)
    missing = F.concat(
        F.lit("the metadata message of table "), _described_as(),
        F.lit(" has not come: add its topic to the feed, or declare the table's columns and key"),
    )  # fmt: skip
    in_avro = F.element_at("u", F.lit("avro")).isNotNull()
    columns = known["columns"].cast("string")

    def wide(name: str, mask: Column, sent: Column) -> Column:
        swapped = trimmed(bytes_reversed(sent))
        width = F.concat(F.lit(f"{name} "), sent, F.lit(" has bits beyond the "), columns, F.lit(" columns of "), table)
        order = F.when(fits(swapped, full), F.lit("; with its bytes in the other order it fits: see `avro_masks`"))
        return F.when(~fits(mask, full), F.concat(width, F.coalesce(order, F.lit(""))))

    return F.coalesce(
        F.when(known.isNull(), missing),
        F.when(
            in_avro & known["avro"].isNull(),
            F.concat(
                F.lit("the metadata of table "), table, F.lit(" that apply here hold no dataSchema to read Avro by")
            ),
        ),
        F.when(
            in_avro & c("decoded").isNull(), F.lit("the message cannot be read with the dataSchema of its metadata")
        ),
        F.when(in_avro & c("decoded.no_text"), F.lit(NOT_UTF_8)),
        F.when(
            mask.isNotNull() & known["columns"].isNull(),
            F.concat(
                F.lit("columnMask needs the columns of "),
                table,
                F.lit(" in their order: "),
                F.lit("add the metadata topic to the feed, or declare them"),
            ),
        ),
        wide("columnMask", mask, F.element_at("u", F.lit("columnMask"))),
        wide("changeMask", c("changed"), F.element_at("u", F.lit("changeMask"))),
        F.when(
            c("keyed") & (c("op") == "update") & _moves_from_nowhere(known),
            F.lit("its key was changed, and the message does not say from what: the task must send images before"),
        ),
        F.when(
            c("keyed") & ~_has_values(c("own_key")),
            F.concat(F.lit("the message lacks a value of the key "), F.array_join(known["key"], ", ")),
        ),
        F.when(
            ~c("keyed") & (F.size("lacking") > 0),
            F.concat(F.lit("a table without a key needs all columns, and this lacks "), F.array_join("lacking", ", ")),
        ),
        F.when(
            ~c("keyed") & (c("op") == "update") & c("before").isNull(),
            F.lit("an update of a table without a key needs beforeData"),
        ),
    )
