"""Which columns rows have, in whatever sets they come, and which no table can have."""

from __future__ import annotations

from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.errors import SchemaError
from tidemark.ledger.image_names import (
    MOST_COLUMNS,
    bounded,
    image_names,
    names_in,
    summarize,
    why_unpublishable,
)

WHY = {
    "1\x1fid": None,
    "0": None,
    "2\x1fid\x1f": "a column has no name",
    "1\x1fa\x1fb": "a column's name holds the control character U+001F",
    f"{MOST_COLUMNS + 1}\x1f…": f"the row has {MOST_COLUMNS + 1} columns, more than {MOST_COLUMNS}",
    "1\x1f_TIDEMARK": "a column is named _TIDEMARK, which Tidemark keeps for itself",
    "1\x1f" + "x" * 256: "a column's name has 256 characters, more than 255",
    None: None,
}


def test_names_that_no_table_can_have(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(text,) for text in WHY], "text string")
    found = rows.select("text", why_unpublishable(F.col("text")).alias("why")).collect()
    assert {row.text: row.why for row in found} == WHY


def text_of(names: list[str]) -> str:
    return "\x1f".join([str(len(names)), *names])


def test_names_are_written_as_one_text(spark: SparkSession) -> None:
    rows = spark.sql("SELECT map('id', '1') AS key, map('b', 'x', 'a', null) AS after UNION ALL SELECT null, map()")
    found = [tuple(row) for row in rows.select(*image_names()).collect()]
    assert found == [(text_of(["id"]), text_of(["b", "a"])), (None, text_of([]))]


def summarized(rows: DataFrame) -> dict[str, dict[str, object]]:
    found = summarize(
        rows, ["table"], F.col("number"), counts={"rows": F.count(F.lit(1))}, lowest={"first": F.min("at")},
        highest={"last": F.max("at")}, sets={"kinds": F.col("kind")},
    )  # fmt: skip
    return {row["table"]: row.asDict(recursive=True) for row in found.collect()}


def test_rows_of_as_many_sets_of_columns_as_there_are_rows(spark: SparkSession) -> None:
    """Of 60 columns ten are sent: no two rows of 6,000 are alike. All columns are found, in their order, by few texts."""
    random, columns = Random(5), [f"c{number:02d}" for number in range(60)]
    sent = [(at, ["id", *sorted(random.sample(columns, 10))]) for at in range(6_000)]
    listed = [("t", at, at % 2, f"k{at % 3}", "1\x1fid", text_of(names)) for at, names in sent]
    listed += [("u", 7, 0, None, "1\x1fid", None), ("u", 9, 0, "k", "1\x1fid", text_of(["_tidemark", "b"]))]
    rows = spark.createDataFrame(
        listed, "table string, at int, number int, kind string, key_names string, after_names string"
    )
    assert rows.select("after_names").distinct().count() > 5_000
    found = summarized(rows)
    t, u = found["t"], found["u"]
    assert (t["rows"], t["first"], t["last"], t["unpublishable"]) == (6_000, 0, 5_999, False)
    assert sorted(t["kinds"]) == ["k0", "k1", "k2"]
    texts = [(one["after_names"], one["generation"]) for one in t["columns"]]
    assert len(texts) <= 2 * 61
    assert {name for text, _ in texts for name in names_in(text)} == {"id", *columns}
    assert {text for text, _ in texts} <= {text_of(names) for _, names in sent}
    assert (u["rows"], u["first"], u["last"], u["kinds"], u["columns"]) == (2, 7, 9, ["k"], [])
    assert u["unpublishable"], "and its names are not among the columns"


def test_the_limit_of_what_one_hour_brings() -> None:
    assert bounded("s.t", ["b", "a"]) == ["a", "b"]
    with pytest.raises(SchemaError, match=r"table s\.t: its rows come with more than 5000 different columns"):
        bounded("s.t", (f"1\x1fc{n}" for n in range(5_001)))
