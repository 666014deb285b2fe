"""Values that were not in the source's log: the connector writes a placeholder in the column's type, or a null, and the
column is absent.

How a placeholder is written in each type is read off the connectors' own code: UnchangedToastedPlaceholder and
PostgresValueConverter of 1.9 to 3.7 and of its main branch, the proposed changes for geometry and for arrays by their
items' type, BinlogValueConverters and OracleValueConverters; how it is given, off getUnavailableValuePlaceholder of each
connector's configuration.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import uuid
from collections.abc import Callable, Iterable

from pyspark.sql import Column
from pyspark.sql import functions as F

#: The points that stand for a geometry, a geography and a point that was not in the log, as the connector's WKB.
_GEOMETRY = "AQEAACDmEAAAAAAA/IPXl8EAAAD8g9eXwQ=="
_GEOGRAPHY = "AQEAACDmEAAADCHn/f9/ZkAYQs77/39WQA=="
_POINT = "AQEAAAAAAAD8g9eXwQAAAPyD15fB"


#: The connectors that take ``hex:`` and digits for bytes; to any other it is a word like others.
_READ_HEX = ("postgresql", "mysql")


def placeholder(written: str, connector: str) -> bytes:
    """The bytes of a connector's ``unavailable.value.placeholder``. Raises ValueError where there are none."""
    if connector not in _READ_HEX or not written.startswith("hex:"):
        return written.encode()
    if not re.fullmatch(r"(?:[0-9A-Fa-f]{2})+", digits := written.removeprefix("hex:")):
        raise ValueError("two hexadecimal digits for each byte behind `hex:`, like `hex:4e4f`")
    return bytes.fromhex(digits)


def spellings(word: bytes) -> list[str]:
    """The texts by which a column of any type says that its value was not in the log. ``word``: :func:`placeholder`.

    One item stands for the array where items are texts, bytes or UUIDs. Otherwise each byte of the word is an item; Java's
    have a sign. Where the word is no UTF-8 its text is what Java makes of it.
    """
    text, content = word.decode(errors="replace"), base64.b64encode(word).decode()
    codes = [code - 256 if code > 127 else code for code in word]
    name_based = uuid.UUID(bytes=hashlib.md5(word, usedforsecurity=False).digest(), version=3)
    single = [base64.b64encode(bytes([code])).decode() for code in word]
    scalars = [text, content, word.hex(), {text: text}]
    arrays = [[text], [content], [str(name_based)], codes, list(map(float, codes)), single]
    variable = [{"scale": 0, "value": digit} for digit in single]
    written = [value if isinstance(value, str) else _json(value) for value in (*scalars, *arrays, variable)]
    return list(dict.fromkeys([*written, *_shapes()]))


def _shapes() -> Iterable[str]:
    """Geometry, geography and point. A double is written in the shortest form, or as Java writes it."""
    for wkb in (_GEOMETRY, _GEOGRAPHY):
        yield _json({"wkb": wkb, "srid": 4326})
        yield _json({"wkb": wkb, "srid": 4326, "extensions": None})
    for number in ("-99999999.0", "-9.9999999E7"):
        for rest in ("", ',"srid":null', ',"srid":null,"extensions":null'):
            yield f'{{"x":{number},"y":{number},"wkb":"{_POINT}"{rest}}}'


def _json(value: object) -> str:
    written = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    # A control character as Jackson writes it.
    return re.sub(r"\\\\|\\u00[01][0-9a-f]", lambda found: found[0].upper().replace("U", "u"), written)


def without_unavailable(image: Column, word: bytes, *, updated: Column) -> tuple[Column, Column]:
    """An image without its placeholders, and the names of the columns that held one; null: none.

    ``updated``: whether the row was there before (an update, the new row of a key change). Only then ``true`` for each
    byte of the word, in an array of booleans, is the placeholder: elsewhere it can only be a value. Most rows have no
    placeholder, and are not taken apart.
    """
    anywhere = spellings(word)
    in_updated = [*anywhere, _json([True] * len(word))]

    def where_absent(look: Callable[[list[str]], Column]) -> Column:
        # Asked of the row, not of each value again: the values are looked at one by one, without generated code.
        return F.when(updated, look(in_updated)).otherwise(look(anywhere))

    def absent(value: Column, words: list[str]) -> Column:
        return F.coalesce(value.isin(words), F.lit(False))

    values = F.map_values(image)
    holds_one = F.coalesce(where_absent(lambda words: F.exists(values, lambda value: value.isin(words))), F.lit(False))
    sent = where_absent(lambda words: F.map_filter(image, lambda _, value: ~absent(value, words)))
    names = where_absent(lambda words: F.map_keys(F.map_filter(image, lambda _, value: absent(value, words))))
    return F.when(holds_one, sent).otherwise(image), F.when(holds_one, names)


def without_unchanged(image: Column, absent: Column, before: Column) -> tuple[Column, Column]:
    """``image`` and ``absent`` of an update where a column that is null in both images is one that was not sent.

    SQL Server's change table has null in both for a large column that an update leaves as it was (SqlServerChangeTablePointer
    in https://github.com/debezium/debezium). One that an update makes null has its value in ``before``.
    """

    def unchanged(name: Column, value: Column) -> Column:
        return value.isNull() & F.map_contains_key(before, name) & F.element_at(before, name).isNull()

    names = F.map_keys(F.map_filter(image, unchanged))
    sent = F.map_filter(image, lambda name, value: ~unchanged(name, value))
    some = F.size(names) > 0
    together = F.concat(F.coalesce(absent, F.array().cast("array<string>")), names)
    return F.when(some, sent).otherwise(image), F.when(some, together).otherwise(absent)
