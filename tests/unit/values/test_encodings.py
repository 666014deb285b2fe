"""Text of messages → values: each encoding against plain Python, and what is no such value gives null."""

from __future__ import annotations

import base64
import json
import math
import random
from datetime import UTC, date, datetime
from decimal import Context, Decimal

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidemark.values.encodings import ENCODINGS, OR_SPAN, TIMES


def values(
    spark: SparkSession, encoding: str, spark_type: str, arg: str | None, texts: list[str | None]
) -> list[object]:
    """The encoding over many texts in one job."""
    frame = spark.createDataFrame([(i, text) for i, text in enumerate(texts)], "i int, text string")
    found = frame.select("i", ENCODINGS[encoding](F.col("text"), spark_type, arg).alias("value")).orderBy("i")
    return [row["value"] for row in found.collect()]


def bytes_of(number: int) -> str:
    """As Java writes it: in as few bytes as its two's complement has."""
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()


#: An encoding, the type of the column, a text of it, and its value.
CASES: list[tuple[str, str, str | None, object]] = [
    ("plain", "int", "12", 12),
    ("plain", "int", "twelve", None),
    ("plain", "double", "NaN", float("nan")),
    ("plain", "decimal(5,2)", "123.45", Decimal("123.45")),
    ("plain", "decimal(5,2)", "123.456", None),  # would be rounded
    ("plain", "decimal(5,2)", "123.450", Decimal("123.45")),
    ("plain", "decimal(5,2)", "1234.5", None),
    ("plain", "timestamp", "2026-11-20T00:40:28.605135Z", datetime(2026, 11, 20, 0, 40, 28, 605135, UTC)),
    ("plain", "timestamp", "infinity", None),
    ("plain", "timestamp", "2026-11-20T02:40:28+02:00", datetime(2026, 11, 20, 0, 40, 28, 0, UTC)),
    ("plain", "timestamp", "2026-11-20 02:40:28.6 +0200", datetime(2026, 11, 20, 0, 40, 28, 600_000, UTC)),
    ("plain", "timestamp", "1890-01-01T00:19:32.5+00:19:32", datetime(1890, 1, 1, 0, 0, 0, 500_000, UTC)),
    ("plain", "timestamp", "2026-11-20 00:40", datetime(2026, 11, 20, 0, 40, 0, 0, UTC)),
    ("plain", "timestamp_ntz", "2026-11-20 15:30:00.000", datetime(2026, 11, 20, 15, 30)),
    ("plain", "timestamp_ntz", "2026-11-20T15:30:00.123456", datetime(2026, 11, 20, 15, 30, 0, 123_456)),
    ("plain", "timestamp_ntz", "2026-11-20T15:30:00.000000Z", datetime(2026, 11, 20, 15, 30)),  # a sink's Parquet
    ("plain", "timestamp_ntz", "2026-11-20", datetime(2026, 11, 20)),
    ("plain", "date", "2026-11-20", date(2026, 11, 20)),
    ("plain", "date", "2026-11-20T00:00:00", date(2026, 11, 20)),
    ("plain", "date", "2026-11-20 00:00:00.000", date(2026, 11, 20)),
    # Spark's casts would take all of these: a time of day, for one, as that of the day on which the hour is run.
    ("plain", "timestamp", "12:30:00", None),
    ("plain", "timestamp", "T12:30:00Z", None),
    ("plain", "timestamp", "2026", None),
    ("plain", "timestamp", "2026-11", None),
    ("plain", "timestamp", "2026-11-20T00:40:28 Europe/Paris", None),
    ("plain", "timestamp_ntz", "12:30:00", None),
    ("plain", "timestamp_ntz", "2026", None),
    ("plain", "timestamp_ntz", "2026-11-20T00:15:49+08:00", None),
    ("plain", "timestamp_ntz", "2026-11-20 garbage", None),
    ("plain", "date", "2026-11-20T15:30:00", None),
    ("plain", "date", "2026-11-20 00:00:00.001", None),
    ("plain", "date", "2026-11", None),
    ("plain", "date", "2026-11-20 garbage", None),
    ("plain", "date", "2026-11-20\n", None),
    ("plain", "date", "2026-02-30", None),
    ("epoch_days", "date", "-5883", date(1953, 11, 23)),
    ("epoch_days", "date", "2147483647", None),
    ("epoch_millis", "timestamp_ntz", "1795133749539", datetime(2026, 11, 20, 0, 15, 49, 539000)),
    ("epoch_micros", "timestamp_ntz", "1795150245564657", datetime(2026, 11, 20, 4, 50, 45, 564657)),
    ("epoch_micros", "timestamp_ntz", "9223372036825200000", None),
    ("epoch_millis", "timestamp_ntz", "9223372036854775807", None),
    ("time_micros", "string", "14705980104", "04:05:05.980104"),
    ("time_micros", "string", "14705980100", "04:05:05.9801"),
    ("time_micros", "string", "0", "00:00:00"),
    ("time_millis", "string", "86400000", "24:00:00"),
    ("time_nanos", "string", "3723123456700", "01:02:03.1234567"),
    ("time_nanos", "string", "3723000000001", "01:02:03.000000001"),
    ("time_nanos", "string", "86400000000000", "24:00:00"),
    # MySQL's TIME is no time of day alone.
    ("time_millis", "string", "86400001", "24:00:00.001"),
    ("time_micros", "string", "-1", "-00:00:00.000001"),
    ("time_micros", "string", "-3020399000000", "-838:59:59"),
    ("time_micros", "string", "3020399000000", "838:59:59"),
    ("time_micros", "string", "3020399000001", None),
    ("time_micros", "string", "-3020399000001", None),
    ("time_micros", "string", "-9223372036854775808", None),
    ("time_micros", "string", "12:00:00", None),
    ("time_micros", "string", None, None),
    ("time_millis", "string", "9223372036854775807", None),
    ("time_micros", "string", "9223372036854775807", None),
    ("base64", "binary", "AQI=", bytearray(b"\x01\x02")),
    ("base64", "binary", "?", None),
    ("hex", "binary", "0aFF", bytearray(b"\x0a\xff")),
    ("hex", "binary", "0aF", None),
    ("json", "array<string>", '["a", null]', ["a", None]),
    ("unscaled_decimal", "decimal(14,2)", bytes_of(-85295847323), Decimal("-852958473.23")),
    ("unscaled_decimal", "decimal(3,2)", bytes_of(5), Decimal("0.05")),
    ("unscaled_decimal", "decimal(3,2)", bytes_of(1000), None),
    ("unscaled_decimal", "decimal(38,0)", bytes_of(10**38), None),
    ("unscaled_decimal", "decimal(3,2)", bytes_of(-128), Decimal("-1.28")),
    # What the connector does not write: its decimals are texts, or something else wrote them.
    ("unscaled_decimal", "decimal(38,0)", "12.5", None),
    ("unscaled_decimal", "decimal(38,0)", "-1234", None),
    ("unscaled_decimal", "decimal(38,0)", "12", None),
    ("unscaled_decimal", "decimal(38,0)", "12345", None),
    ("unscaled_decimal", "string", "123456", None),
    ("unscaled_decimal", "decimal(4,0)", "1234", None),  # more digits than the column has
    ("unscaled_decimal", "decimal(38,0)", "BQ", None),  # no padding
    ("unscaled_decimal", "decimal(38,0)", "BQ==\n", None),
    ("unscaled_decimal", "decimal(38,0)", "BR==", None),  # bits behind the last byte
    ("unscaled_decimal", "decimal(38,0)", "AAU=", None),  # a byte that says nothing
    ("unscaled_decimal", "decimal(38,0)", "//s=", None),
    ("unscaled_decimal", "decimal(38,0)", "", None),
    ("unscaled_decimal", "string", bytes_of(10**60), f"{10**60}"),
    ("variable_decimal", "string", json.dumps({"scale": 0, "value": "12345"}), None),
    ("variable_decimal", "string", json.dumps({"scale": 0, "value": "AAU="}), None),
    # Where the connector writes numbers or texts.
    ("variable_decimal", "string", "1234", "1234"),
    ("variable_decimal", "string", "-1.50E+3", "-1.50E+3"),
    ("variable_decimal", "string", "NaN", "NaN"),
    ("variable_decimal", "string", "BQ==", None),
    ("variable_decimal", "string", "1.5\n", None),
    ("variable_decimal", "string", json.dumps({"scale": 6, "value": bytes_of(8313225127)}), "8313.225127"),
    ("variable_decimal", "string", json.dumps({"scale": -2, "value": bytes_of(-7)}), "-700"),
    ("variable_decimal", "string", json.dumps({"scale": 2**31 - 1, "value": bytes_of(7)}), None),
    ("variable_decimal", "string", json.dumps({"scale": -(2**31), "value": bytes_of(7)}), None),
    ("plain", "int", None, None),
    ("base64", "binary", None, None),
    ("unscaled_decimal", "decimal(5,2)", None, None),
]


def test_one_text(spark: SparkSession) -> None:
    """All in one job, each text in a column of its own."""
    names = [f"text{number}" for number in range(len(CASES))]
    frame = spark.createDataFrame([tuple(text for _, _, text, _ in CASES)], ", ".join(f"{n} string" for n in names))
    read = []
    for name, (encoding, kind, _, _) in zip(names, CASES, strict=True):
        arg = "2" if encoding == "unscaled_decimal" and kind.endswith(",2)") else "0"
        arg = OR_SPAN if encoding in TIMES else arg
        read.append(ENCODINGS[encoding](F.col(name), kind, arg).alias(name))
    (row,) = frame.select(*read).collect()
    for name, case in zip(names, CASES, strict=True):
        _, kind, _, value = case
        found = row[name]
        if isinstance(value, float) and math.isnan(value):
            assert isinstance(found, float) and math.isnan(found), case
        elif isinstance(found, datetime) and kind == "timestamp":
            assert found.astimezone(UTC) == value, case
        else:
            assert found == value, case


def test_years_of_more_digits_and_before_the_first(spark: SparkSession) -> None:
    """Java writes them with a sign."""
    for kind, clock in (("date", ""), ("timestamp", "T00:00:00Z"), ("timestamp_ntz", " 00:00:00")):
        texts = [f"{day}{clock}" for day in ("+12026-01-01", "-0043-03-15")]
        frame = spark.createDataFrame([(text,) for text in texts], "text string")
        found = frame.select(ENCODINGS["plain"](F.col("text"), kind, None).isNotNull().alias("read")).collect()
        assert [row["read"] for row in found] == [True, True], kind


def test_unscaled_decimals_are_exact(spark: SparkSession) -> None:
    chance = random.Random(1)
    numbers = [
        chance.randrange(-(10 ** chance.randrange(1, 39)) + 1, 10 ** chance.randrange(1, 39)) for _ in range(500)
    ]
    found = values(spark, "unscaled_decimal", "decimal(38,10)", "10", [bytes_of(n) for n in numbers])
    wide = Context(prec=60)
    assert [int(v.scaleb(10, wide)) if isinstance(v, Decimal) else None for v in found] == numbers
