"""Keys of few rows as SQL literals: what they select is what has these values, whatever the values hold."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tidemark.fold.few_keys import condition, key_texts, key_values

VALUES: dict[str, list[Any]] = {
    "string": ["", "1", "a'b", 'a"b', "a\\'b", "\\", "${env:PATH}", "'); DROP TABLE t; --", "line\n", "ü\u0000€🜚", "%", " 1"],
    "bigint": [0, -1, 2**63 - 1, -(2**63)],
    "int": [0, 7, -(2**31)],
    "decimal(38,10)": [Decimal("0"), Decimal("1.5"), Decimal("-9999999999999999999999999999.9999999999")],
    "date": [date(1900, 1, 1), date(2026, 11, 20), date(9999, 12, 31)],
    "timestamp": [datetime(2026, 11, 20, 1, 2, 3, 4), datetime(1900, 1, 1)],
}  # fmt: skip


@pytest.mark.parametrize("kind", VALUES)
def test_every_value_is_found_again_and_no_other(spark: SparkSession, kind: str) -> None:
    values = VALUES[kind]
    rows = spark.createDataFrame([(value,) for value in values], f"`a ``b` {kind}").select(F.struct("*").alias("key"))
    key = cast(StructType, rows.schema["key"].dataType)
    texts = key_texts(key)
    for chosen in (values[:1], values[1:3], values):
        few = rows.where(F.col("key.`a ``b`").isin(chosen))
        found = few.select(*(F.sort_array(F.collect_set(text)).alias(name) for name, text in texts.items())).first()
        assert found is not None
        where = condition(key_values(key, found.asDict()), "key.")
        assert {row[0][0] for row in rows.where(where).collect()} == set(chosen)


def test_of_several_columns_each_has_its_values(spark: SparkSession) -> None:
    key = StructType.fromDDL("a int, b string, c double")
    assert list(key_texts(key)) == ["a", "b"], "a double may be no number: its text is not compared"
    assert condition(key_values(key, {"a": ["2", "1"], "b": ["x"]}), "t.") == (
        "t.`a` IN (CAST('1' AS int), CAST('2' AS int)) AND t.`b` IN ('x')"
    )
    assert key_values(key, {"b": ["x" * 600_000, "y" * 600_000]}) == {}, "no statement is as long"
    assert condition({}) == "true"
    assert condition({"a": []}) == "false", "there are no such rows"
