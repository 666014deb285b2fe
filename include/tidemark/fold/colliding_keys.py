"""Keys that move onto each other: for a moment a key has two rows, and each change is of one of them.

Databases that check uniqueness at the end of a statement or of a transaction send ``UPDATE t SET id = id + 1``, and
rows that exchange their keys, as moves onto keys that are still taken. What then leaves such a key is not what came
last: a delete takes the row that its image before shows; where that does not tell, the one that was there first. When
the transaction ends, each key has one row again.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidemark.fold.materialized import materialize
from tidemark.fold.typed_rows import TableShape
from tidemark.ledger.source_transactions import source_transaction

_TEXTS = "map<string, string>"
#: The rows that a key has, in the order in which they came: the sort key of the change that each began with (empty: it
#: was there before all known changes), its values so far, and the transaction that brought it.
_PRESENT = f"array<struct<row: string, after: {_TEXTS}, transaction: string>>"
_ASSIGNED = "array<struct<sort_key: string, op: string, row: string, landed: bigint, released: bigint>>"


def is_arrival() -> Column:
    """Whether a change of ROWS moves a row from another key onto this one."""
    return F.col("prior").isNotNull() & (F.col("op") == "insert") & (F.col("prior") != F.col("key"))


def colliding_keys(rows: DataFrame, new: Column) -> DataFrame:
    """Keys onto which a row moved, and which a row left later in the same transaction (``key``), and whether one of
    these two changes is ``new``. ``new``: a condition of ROWS."""
    arrived = materialize(rows.where(is_arrival()).select(
        F.col("key").alias("onto"), F.col("sort_key").alias("arrived"), source_transaction().alias("arrived_in"),
        new.alias("arrival_is_new"),
    ))  # fmt: skip
    if not arrived.count:  # as nearly always: nothing has to be joined
        return arrived.rows.select(F.col("onto").alias("key"), F.col("arrival_is_new").alias("new"))
    left = rows.where("op = 'delete'").select(
        "key", F.col("sort_key").alias("left"), source_transaction().alias("left_in"), new.alias("leaving_is_new")
    )
    together = (F.col("arrived_in") == F.col("left_in")) & (F.col("arrived") < F.col("left"))
    pairs = arrived.rows.join(left, arrived.rows["onto"] == left["key"]).where(together)
    return pairs.groupBy("key").agg(F.bool_or(F.col("arrival_is_new") | F.col("leaving_is_new")).alias("new"))


def with_source_rows(rows: DataFrame, colliding: DataFrame, shape: TableShape) -> DataFrame:
    """ROWS with ``of_row`` (which of its key's rows a change is of), ``of_last_row`` (whether that is the row which the
    key has at the end, or had last), and ``prior_row`` (on an arrival: which row of its old key it was). All three are
    null where keys do not collide. ``colliding``: as :func:`colliding_keys` gives them for all of ``rows``. ``shape``: the
    table's."""
    if colliding.isEmpty():
        names = {"of_row": "string", "of_last_row": "boolean", "prior_row": "string"}
        return rows.withColumns({name: F.lit(None).cast(kind) for name, kind in names.items()})
    # Under names of its own: Spark takes the two sides of the joins below for the same columns otherwise.
    of = _assign_rows(_steps(_changes(rows, shape).join(colliding, "key", "left_semi")))
    assigned = of.select(
        F.col("key").alias("changed_key"), F.col("sort_key").alias("changed_at"), F.col("op").alias("changed_by"),
        F.col("row").alias("of_row"), (F.col("row") == F.col("last")).alias("of_last_row"),
    ).localCheckpoint()  # fmt: skip
    left = assigned.where("changed_by = 'delete'").select(
        F.col("changed_key").alias("left_key"), _place(F.col("changed_at")).alias("left_at"),
        F.col("of_row").alias("prior_row"),
    )  # fmt: skip
    is_it = (F.col("key") == F.col("changed_key")) & (F.col("sort_key") == F.col("changed_at"))
    it_left = (F.col("prior") == F.col("left_key")) & (_place(F.col("sort_key")) == F.col("left_at"))
    return (
        rows.join(assigned, is_it, "left")
        .join(left, it_left, "left")
        .select(*rows.columns, "of_row", "of_last_row", "prior_row")
    )


def of_other_rows(rows: DataFrame, stored: DataFrame, shape: TableShape) -> DataFrame:
    """The changes (``key``, ``sort_key``, and how often each ``landed`` and was ``released``) that are of another row than
    the one which their key has at the end, or had last: they come to nothing. ``rows``: ROWS, newer than all that is stored,
    of all keys onto which one of them moves a row. ``stored``: the ``key`` of rows of the published table, those that have
    one of these keys among them, and their ``image`` (:meth:`tidemark.fold.typed_rows.TableShape.stored_images`)."""
    there = {"key": F.col("key"), "after": F.col("image"), "sort_key": F.lit(""), "op": F.lit("insert")}
    changes = _changes(rows, shape)
    before = stored.select(
        *(there.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in changes.schema.fields)
    )
    steps = _steps(changes.unionByName(before).repartition("key"))
    arrived = F.min(F.when(F.col("arrival"), F.col("sort_key"))).over(Window.partitionBy("key", "transaction"))
    leaves = (F.col("op") == "delete") & F.col("transaction").isNotNull() & (arrived < F.col("sort_key"))
    collides = F.bool_or("leaves").over(Window.partitionBy("key"))
    colliding = steps.withColumn("leaves", leaves).withColumn("collides", collides).where("collides")
    return _assign_rows(colliding).where("row <> last").select("key", "sort_key", "landed", "released")


def _changes(rows: DataFrame, shape: TableShape) -> DataFrame:
    """Of ROWS, what :func:`_steps` takes."""
    images = (shape.by_value(F.col(name)).alias(name) for name in ("before", "after"))
    landed = F.when(F.col("counts"), F.col("landed_this_hour"))
    return rows.select(
        "key", "sort_key", "op", is_arrival().alias("arrival"), source_transaction().alias("transaction"), *images,
        landed.alias("landed"),
    )  # fmt: skip


def _steps(changes: DataFrame) -> DataFrame:
    """One step for each change, however often it came: ``landed`` and ``released`` are how often."""
    said = ("op", "arrival", "transaction", "before", "after")
    return changes.groupBy("key", "sort_key").agg(
        *(F.first(name).alias(name) for name in said),
        F.count_if("landed").alias("landed"),
        F.count_if(~F.col("landed")).alias("released"),
    )


def _assign_rows(steps: DataFrame) -> DataFrame:
    """Each step (``key``, ``sort_key``, ``op``, ``landed``, ``released``) with the ``row`` of its key that it is of, and the
    ``last`` row of the key."""
    step = F.struct("sort_key", "op", "arrival", "transaction", "before", "after", "landed", "released")
    of_key = steps.groupBy("key").agg(_follow(_in_order(F.collect_list(step))).alias("followed"))
    each = F.explode("followed.assigned").alias("of")
    return of_key.select("key", "followed.last", each).select("key", "last", "of.*")


def _place(sort_key: Column) -> Column:
    """The position in a sort key: the halves of a key change share it."""
    return F.substring_index(sort_key, "#", 1)


def _in_order(steps: Column) -> Column:
    def compare(one: Column, other: Column) -> Column:
        return F.when(one["sort_key"] < other["sort_key"], F.lit(-1)).otherwise(F.lit(1))

    return F.array_sort(steps, compare)


def _follow(steps: Column) -> Column:
    """Ordered steps of one key (``sort_key``, ``op``, ``arrival``, ``transaction``, ``before``, ``after``, ``landed``,
    ``released``) → struct(``assigned``: each step with its row; ``last``: the row that is there at the end, or was there
    last)."""
    start = F.struct(
        F.array().cast(_PRESENT).alias("present"), F.lit("").alias("last"), F.array().cast(_ASSIGNED).alias("assigned")
    )

    def merge(state: Column, step: Column) -> Column:
        return _with(
            _still_present(state["present"], step),
            lambda present: _with(_row_of(present, state["last"], step), lambda row: _after(state, present, row, step)),
        )

    return F.aggregate(steps, start, merge)


def _with(value: Column, use: Callable[[Column], Column]) -> Column:
    """``use(value)``, where the value is worked out once however often it is used."""
    return F.element_at(F.transform(F.array(value), use), 1)


def _after(state: Column, present: Column, row: Column, step: Column) -> Column:
    """The state after a step of ``row``, of the rows that are ``present``."""
    others = F.filter(present, lambda one: one["row"] != row)
    taken = F.try_element_at(F.filter(present, lambda one: one["row"] == row), F.lit(1))
    brought = F.coalesce(taken["transaction"], step["transaction"])
    written = F.struct(row.alias("row"), _values(taken["after"], step).alias("after"), brought.alias("transaction"))
    now = (
        F.when(step["op"] == "delete", others)
        .when(step["arrival"], F.concat(present, F.array(written)))
        .when((step["op"] == "insert") | taken.isNull(), F.array(written))
        .otherwise(F.transform(present, lambda one: F.when(one["row"] == row, written).otherwise(one)))
    )
    assigned = F.struct(
        step["sort_key"].alias("sort_key"), step["op"].alias("op"), row.alias("row"), step["landed"].alias("landed"),
        step["released"].alias("released"),
    )  # fmt: skip
    return _with(
        now,
        lambda rows: F.struct(
            rows.alias("present"),
            F.when(F.size(rows) == 0, row).otherwise(F.element_at(rows, -1)["row"]).alias("last"),
            F.concat(state["assigned"], F.array(assigned)).alias("assigned"),
        ),
    )


def _still_present(present: Column, step: Column) -> Column:
    """The rows that a key still has when a step comes: of several, only the newest outlives its transaction."""
    same = F.try_element_at(present, F.lit(-1))["transaction"] == step["transaction"]
    over = ~F.coalesce(same, F.lit(False))
    return F.when((F.size(present) > 1) & over, F.slice(present, -1, 1)).otherwise(present)


def _row_of(present: Column, last: Column, step: Column) -> Column:
    """Which row a step is of."""

    def chosen(agreeing: Column) -> Column:
        best = F.array_max(agreeing)
        newest = F.size(present) + 1 - F.array_position(F.reverse(agreeing), best)
        place = F.when(step["op"] == "delete", F.array_position(agreeing, best)).otherwise(newest)
        return F.element_at(present, place.cast("int"))["row"]

    alike = F.transform(present, lambda one: _agreement(step["before"], one["after"]))
    return (
        F.when(step["op"] == "insert", step["sort_key"])
        .when(F.size(present) == 0, last)
        .otherwise(_with(alike, chosen))
    )


def _agreement(before: Column, after: Column) -> Column:
    """How many columns of an image before a row has the same values in."""
    same = F.map_filter(before, lambda name, value: F.coalesce(F.element_at(after, name) == value, F.lit(False)))
    return F.coalesce(F.size(same), F.lit(0))


def _values(known: Column, step: Column) -> Column:
    """What is known of a row after a step. ``known``: before it; null: nothing."""
    known = F.coalesce(known, F.create_map().cast(_TEXTS))
    unsent = F.map_filter(known, lambda name, _: ~F.map_contains_key(step["after"], name))
    return F.map_concat(unsent, step["after"])
