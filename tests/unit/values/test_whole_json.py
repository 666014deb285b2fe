"""What is written as JSON and read back is what it was."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidemark.values.whole_json import whole_json

LIBRARY = Path(__file__).parents[3] / "include/tidemark"
VALUES = [
    *("timestamp '2026-11-20 00:00:00.123456'", "timestamp '2026-11-20 00:00:00.5'", "timestamp '2026-11-20 00:00:00'"),
    *("timestamp '0001-01-01 00:00:00'", "timestamp '9999-12-31 23:59:59.999999'"),
    *("timestamp '+10000-01-01 00:00:00.000001'", "timestamp '-0043-03-15 00:00:00.123456'"),
    *("timestamp_ntz '2026-11-20 00:00:00.123456'", "timestamp_ntz '2026-11-20 00:00:00'"),
    *("timestamp_ntz '+10000-01-01 00:00:00.000001'", "timestamp_ntz '-0043-03-15 00:00:00.123456'"),
    *("date '2026-11-20'", "date '-0043-03-15'", "date '+294276-12-31'"),
    *("0.1D", "4.9E-324D", "double('NaN')", "double('-Infinity')", "-0.0D", "float('0.1')", "float('NaN')"),
    *("cast('99999999999999999999999999999999999999' as decimal(38,0))", "cast('1E-18' as decimal(38,18))"),
    *("9223372036854775807L", "tinyint(5)", "true", "X'00FF10'", "X''", "''", "' x '", "char(10)", "char(8232)"),
    *(
        "array(timestamp_ntz '2026-11-20 00:00:00.123456', null)",
        "named_struct('at', timestamp '2026-11-20 00:00:00.123456')",
    ),
]
#: Where ``to_json`` writes texts, and maps and structs of texts, alone.
OF_TEXTS = {
    "changelog/places.py": 1,
    "changelog/transaction_status.py": 1,
    "fold/keyless.py": 1,
    "formats/canal/decode.py": 2,
    "formats/dataworks/decode.py": 2,
    "formats/debezium/keys.py": 2,
    "formats/debezium/transactions.py": 1,
    "formats/qlik/avro.py": 1,
    "ledger/change_stats.py": 1,
    "ledger/quarantine_rows.py": 3,
    "operations/explain_transaction.py": 2,
    "pipeline/breaking_changes.py": 1,
    "pipeline/repeated_changes.py": 2,
    "values/whole_json.py": 1,  # it itself
}


def test_values_are_read_back_whole(spark: SparkSession) -> None:
    """Those of all types that keys have, and times within others."""
    one = spark.range(1).select(
        *(F.struct(F.expr(value).alias("id")).alias(f"v{number}") for number, value in enumerate(VALUES))
    )
    texts = one.select("*", *(whole_json(name).alias(f"text_{name}") for name in one.columns)).localCheckpoint()
    same = (F.from_json(f"text_{name}", one.schema[name].dataType).eqNullSafe(F.col(name)) for name in one.columns)
    found = texts.select(*same).collect()[0]
    assert [value for value, is_same in zip(VALUES, found, strict=True) if not is_same] == []


def test_fields_without_a_value_are_written_where_they_are_asked_for(spark: SparkSession) -> None:
    row = F.struct(F.lit(None).cast("timestamp").alias("at"), F.lit(1).alias("n"))
    found = spark.range(1).select(whole_json(row), whole_json(row, nulls=True)).collect()[0]
    assert tuple(found) == ('{"n":1}', '{"at":null,"n":1}')


def test_only_texts_are_written_otherwise() -> None:
    """Spark's own ``to_json`` leaves out the last digits of times: use ``whole_json``, or name the module here."""
    found = Counter(
        str(path.relative_to(LIBRARY))
        for path in LIBRARY.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == "to_json"
    )
    assert found == OF_TEXTS
