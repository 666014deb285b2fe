"""The key values of few rows, as SQL literals: by these a table is read where the rows can meet it, and not as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from tidemark.fold.row_join import text_literal
from tidemark.identifiers import quote

#: By key column, literals of the values that rows have in it. Empty: they are not listed.
KeyValues = Mapping[str, Sequence[str]]

#: The rows of so many changes are few. See docs/decisions/0011-a-small-hour-reads-little.md for what pays.
FEW_CHANGES = 5_000
#: Characters of a statement that may be literals.
_MOST_TEXT = 1_000_000
#: Types whose values are the same again when they are cast to text and back.
_CAST_BACK = ("tinyint", "smallint", "int", "bigint", "decimal", "date", "timestamp")


def key_texts(key: StructType, of: str = "key") -> dict[str, Column]:
    """By key column, its value as a text. ``key``: the type of ROWS' column of this name. ``of``: what has it."""
    kinds = {field.name: field.dataType.simpleString() for field in key.fields}
    return {name: F.col(of)[name].cast("string") for name, kind in kinds.items() if _literal(kind, "") is not None}


def key_values(key: DataType, texts: Mapping[str, Iterable[str]]) -> KeyValues:
    """The literals of distinct :func:`key_texts`, sorted; none where they are too long for a statement. ``key``: as there."""
    assert isinstance(key, StructType), "a key has columns"
    literals = {name: [_literal(key[name].dataType.simpleString(), text) for text in texts[name]] for name in texts}
    values = {name: sorted(filter(None, of_column)) for name, of_column in literals.items()}
    return values if sum(map(len, chain(*values.values()))) <= _MOST_TEXT else {}


def list_keys(rows: DataFrame) -> KeyValues:
    """The values of the keys (``key``) of rows that are few. One Spark job."""
    key = rows.schema["key"].dataType
    texts = key_texts(cast(StructType, key))
    found = rows.select(*(text.alias(name) for name, text in texts.items())).collect()
    return key_values(key, {name: {row[name] for row in found} for name in texts})


def condition(values: KeyValues, of: str = "") -> str:
    """Whether a row has one of these values in each key column, as SQL. ``of``: the row's alias, with a dot."""
    each = (f"{of}{quote(name)} IN ({', '.join(listed)})" if listed else "false" for name, listed in values.items())
    return " AND ".join(each) or "true"


def _literal(kind: str, text: str) -> str | None:
    if kind == "string":
        return text_literal(text)
    return f"CAST({text_literal(text)} AS {kind})" if kind.partition("(")[0] in _CAST_BACK else None
