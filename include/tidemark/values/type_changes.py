"""How stored columns change to wanted types: which are added, which are widened in place, which are refused. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tidemark.errors import SchemaError
from tidemark.identifiers import TIDEMARK
from tidemark.values.columns import ColumnType

_WIDER = {
    "int": {"bigint", "string"}, "bigint": {"string"}, "float": {"double", "string"}, "double": {"string"},
    "boolean": {"string"}, "date": {"string"}, "timestamp": {"string"}, "timestamp_ntz": {"string"},
}  # fmt: skip


def reconcile(table: str, stored: dict[str, str], wanted: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """(columns to add, columns to widen) that lead from the stored types to the wanted ones.

    Names are compared without case, as Spark does. SchemaError for what cannot be done in place without losing values;
    a stored type that is already wider is fine.
    """
    _refuse_equal_names(table, list(stored) + [name for name in wanted if name not in stored])
    add, widen = {}, {}
    for name, new in wanted.items():
        old = stored.get(name)
        if old is None:
            add[name] = new
        elif old != new and not fits(new, old):
            if not widens(old, new):
                raise unsafe(table, name, old, new)
            widen[name] = new
    return add, widen


def unsafe(table: str, name: str, old: str, new: str) -> SchemaError:
    """A change of a column's type that loses values."""
    return SchemaError(
        f"column {name} is {old} and would become {new}: not possible without losing values",
        fix=f"in the feed file, declare a type for {name} that holds both under the table's columns, and give the table "
        "another `name`: it is built from the change log under that name, with all its rows",
        table=table,
    )


def refuse_other_key(table: str, feed: str, stored: list[str], key: tuple[str, ...]) -> None:
    """SchemaError where a table would get a key other than the one it was created with."""
    if stored != list(key):
        raise SchemaError(
            f"the key is {', '.join(stored) or 'none'} and would become {', '.join(key) or 'none'}",
            fix=fix_of_key(stored, [key]),
            feed=feed,
            table=table,
        )


def fix_of_key(old: Collection[str], named: Iterable[Collection[str]]) -> str:
    """What to do where messages name other keys than the ``old`` one."""
    fix = (
        f"declare the old key (`key: [{', '.join(old)}]`) under tables in the feed file; where it does not identify rows any "
        "more, take a new snapshot of the table into a new feed"
    )
    if all({*old} <= {*names} for names in named if names):
        return fix
    return f"{fix}. Of Debezium's messages, which need not hold it any more, take one in any case"


def wider_of(stored: dict[str, str], declared: dict[str, ColumnType]) -> dict[str, str]:
    """The types a table's columns should have: the declared ones, or the stored one where that is wider."""
    return {
        name: stored[name] if name in stored and fits(kind.spark, stored[name]) else kind.spark
        for name, kind in declared.items()
    }


def _refuse_equal_names(table: str, names: list[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        first = seen.setdefault(name.lower(), name)
        if first != name:
            raise SchemaError(
                f"columns {first!r} and {name!r} differ only in case",
                fix="where only the feed file writes it so, write it there as messages do; else rename one of them at the "
                "source: most readers cannot tell them apart",
                table=table,
            )
        if name.lower() == TIDEMARK:
            raise SchemaError(f"a source column is named {name!r}, which Tidemark keeps for itself", table=table)


def _decimal(name: str) -> tuple[int, int] | None:
    if not name.startswith("decimal("):
        return None
    precision, scale = name[8:-1].split(",")
    return int(precision), int(scale)


def fits(new: str, old: str) -> bool:
    """Whether every value of ``new`` can be held as the stored ``old``."""
    a, b = _decimal(new), _decimal(old)
    if a and b:
        return a[1] <= b[1] and a[0] - a[1] <= b[0] - b[1]
    return old == "string" or old in _WIDER.get(new, set())


def widens(old: str, new: str) -> bool:
    """Whether a stored column becomes ``new`` in place, every value as it was: Iceberg's promotions."""
    a, b = _decimal(old), _decimal(new)
    if a and b:
        return a[1] == b[1] and a[0] <= b[0]
    return (old, new) in {("int", "bigint"), ("float", "double")}
