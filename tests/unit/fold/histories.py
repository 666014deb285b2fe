"""Random histories of rows, as the oracle's changes and as log rows. Keys are of families, that key changes stay in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import types as T

from tests.convergence.oracle import Change, Key
from tidemark.fold.typed_rows import TableShape
from tidemark.formats.contract import CHANGES
from tidemark.values.columns import ColumnType
from tidemark.values.encodings import ENCODINGS

COLUMNS = ("a", "b", "c")
SHAPE = TableShape(
    key=("id",),
    columns={"id": ColumnType("int"), **{name: ColumnType("string") for name in COLUMNS}},
    encodings=ENCODINGS,
)
KEY_TYPE = T.StructType([T.StructField("id", T.IntegerType())])
ROW_TYPE = T.StructType([*KEY_TYPE, *(T.StructField(name, T.StringType()) for name in COLUMNS)])
_LOG_TYPE = T.StructType([*CHANGES, T.StructField("landed_this_hour", T.BooleanType())])
#: Keys of a family.
SIZE = 3


@dataclass(frozen=True)
class Delivered:
    """A change that was delivered once. ``number``: of the delivery."""

    change: Change
    landed: bool = True
    number: int = 0


def random_family(rng: Random, family: int, *, moves: bool) -> list[tuple[Change, ...]]:
    """What happens to the keys of a family, in order: changes, and (``moves``) the two halves of key changes."""
    happened: list[tuple[Change, ...]] = []
    for step in range(rng.randint(1, 7)):
        position = family + 10_000 * step  # families interleave
        one, other = rng.sample(range(family * SIZE, family * SIZE + SIZE), 2)
        if moves and rng.random() < 0.35:
            happened.append(
                (Change("t", position, "delete", (one,)), _written(rng, position, "insert", (other,), (one,)))
            )
        elif rng.random() < 0.2:
            happened.append((Change("t", position, "delete", (one,)),))
        else:
            happened.append((_written(rng, position, rng.choice(("insert", "update", "update")), (one,), None),))
    return happened


def _written(rng: Random, position: int, op: str, key: Key, prior: Key | None) -> Change:
    absent = frozenset(name for name in COLUMNS if rng.random() < 0.4)
    sent = {name: rng.choice((f"{name}{position}", None)) for name in COLUMNS if name not in absent}
    return Change("t", position, op, key, frozenset({"id": key[0], **sent}.items()), absent, prior)


def place(change: Change) -> str:
    """The sort key that a change must have."""
    return f"{change.position:012d}#" + {"delete": "0", "insert": "1", "update": "2"}[change.op]


def log_rows(spark: SparkSession, delivered: Sequence[Delivered]) -> DataFrame:
    """The deliveries as log rows, each with its number as ``record``."""
    return frame(spark, [_log_row(each) for each in delivered])


def _log_row(delivered: Delivered) -> dict[str, Any]:
    """Some come from a table that lacked columns then: these are null, and nowhere named."""
    change = delivered.change
    after = {n: None if v is None else str(v) for n, v in change.sent if v is not None or change.position % 3}
    return {
        "op": change.op,
        "position": f"{change.position:012d}",
        "key": {"id": str(change.key[0])},
        "prior_key": None if change.prior is None else {"id": str(change.prior[0])},
        "before": None if change.taken is None else {n: None if v is None else str(v) for n, v in change.taken},
        "tx": None if change.transaction is None else f"tx{change.transaction}",
        "after": None if change.op == "delete" else after,
        "absent": sorted(change.absent) or None,
        "landed_this_hour": delivered.landed,
        "record": delivered.number,
    }


def frame(spark: SparkSession, rows: Iterable[dict[str, Any]]) -> DataFrame:
    """Log rows; what is not named is null."""
    names = _LOG_TYPE.names
    return spark.createDataFrame([tuple(row.get(name) for name in names) for row in rows], _LOG_TYPE)


def shown(after: dict[str, str | None], absent: Sequence[str]) -> dict[str, Any]:
    """A folded row's values as the oracle shows them."""
    return dict.fromkeys((*COLUMNS, *absent)) | {n: int(v) if n == "id" else v for n, v in after.items()}  # type: ignore[arg-type]


def folded_rows(collected: list[Row]) -> dict[Key, tuple[dict[str, Any], frozenset[str]]]:
    """FOLDED that was collected → values and absent columns by key, without the deleted keys."""
    return {
        (row.key["id"],): (shown(row.after, row.absent), frozenset(row.absent)) for row in collected if not row.deleted
    }
