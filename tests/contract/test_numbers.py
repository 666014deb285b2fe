"""A number has all the digits in the change log that it was sent with: out of every container, in every format.

hypothesis draws the numbers; all of them go through a format and a container in one Spark job.
"""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, seed
from hypothesis import settings as examples
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.contract.inserts import LIKE_A_NUMBER, MESSAGES, decoded, landed
from tests.landed_records import read_landed
from tidemark.containers import CONTAINERS, kafka_json, load_container
from tidemark.formats import FORMATS
from tidemark.values.encodings import plain
from tidemark_samples.exporting import Message, write_export

_EXACT = Context(prec=4000, Emax=9999, Emin=-9999)


CORNERS = (
    "0", "-0", "-0.0", "0.0", "1.005", "1.50", "12345678.9", "0.0001", "1e5", "1E-400", "1e400", "9" * 38, "9" * 60,
    "1234567890123456.789", "12345678901234567890.12", "0.1000000000000000000000000000000000001", "1e-9999", "100E-2",
    "-9223372036854775808", "9223372036854775808", "1.00000000000000000000000000000000000000000000000001",
)  # fmt: skip


@st.composite
def numbers(draw: st.DrawFn) -> str:
    """A number of JSON with up to 38 digits and any scale, perhaps with zeros at its end, or an exponent."""
    text = str(draw(st.integers(0, 10 ** draw(st.integers(1, 38)) - 1)))
    scale = draw(st.integers(0, 38))
    if scale:
        text = text.zfill(scale + 1)
        text = f"{text[:-scale]}.{text[-scale:]}"
    exponent = draw(st.sampled_from(["", "", "", "e5", "E-7", "e+38", "E-38"]))
    return draw(st.sampled_from(["", "-"])) + text + exponent


def _drawn() -> list[str]:
    found: list[str] = []

    @seed(20261120)
    @examples(max_examples=120, deadline=None, database=None)
    @given(numbers())
    def collect(number: str) -> None:
        found.append(number)

    collect()
    return list(dict.fromkeys([*CORNERS, *found]))


NUMBERS = _drawn()


def _by_id(spark: SparkSession, out: Path, name: str, container: str) -> dict[int, dict[str, str]]:
    """The rows of an export by their id, as the change log has them."""
    rows = decoded(spark, out, name, container)
    assert not [(row.problem, row.raw) for row in rows if row.op == "bad"]
    return {int(row.after["id"]): row.after for row in rows}


PAIRS = [
    (name, container)
    for name in FORMATS
    for container in CONTAINERS
    if (name == "ibm") == (container == "raw") or container == "kafka_json"
]


@pytest.mark.parametrize(("name", "container"), PAIRS)
def test_a_number_keeps_its_digits(spark: SparkSession, tmp_path: Path, name: str, container: str) -> None:
    messages = [
        Message(
            topic="t",
            partition=0,
            offset=at,
            sent_at=datetime(2026, 11, 20),
            key=f'{{"id":{at}}}'.encode(),
            value=MESSAGES[name](at, text).encode(),
        )
        for at, text in enumerate(NUMBERS)
    ]
    write_export(tmp_path / "exports", "t", "2026-11-20T00", [messages], container)
    rows = _by_id(spark, tmp_path, name, container)
    assert {at: row["n"] for at, row in rows.items()} == dict(enumerate(NUMBERS))
    if name != "ibm":
        assert {row["note"] for row in rows.values()} == {json.loads(f'"{LIKE_A_NUMBER}"')}


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "ibm"])
def test_in_a_value_that_is_an_object_too(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """A Kafka record of JSON may hold its value, not the value's text; so may the key."""
    folder = tmp_path / "exports/t/dt=2026-11-20/hr=00"
    folder.mkdir(parents=True)
    lines = [
        f'{{"topic":"t","partition":0,"offset":{at},"timestamp":1,"key":{{"id":{at},"k":{text}}},"value" : '
        f'{MESSAGES[name](at, text)},"headers":[{{"key":"h","value":{text}}}]}}'
        for at, text in enumerate(NUMBERS)
    ]
    (folder / "part.jsonl").write_text("\n".join(lines), "utf-8")
    rows = _by_id(spark, tmp_path, name, "kafka_json")
    assert {at: row["n"] for at, row in rows.items()} == dict(enumerate(NUMBERS))
    assert {row["note"] for row in rows.values()} == {json.loads(f'"{LIKE_A_NUMBER}"')}
    objects = list((tmp_path / "landing").rglob("part.jsonl"))
    records = read_landed(spark, "kafka_json", objects, kafka_json.Options()).orderBy("record").collect()
    assert [bytes(record.key).decode() for record in records] == [
        f'{{"id":{at},"k":{text}}}' for at, text in enumerate(NUMBERS)
    ]
    assert [record.headers[0].value for record in records] == NUMBERS


@pytest.mark.parametrize("container", ["connect_parquet", "connect_avro"])
def test_a_decimal_column_of_a_file_keeps_its_digits(spark: SparkSession, tmp_path: Path, container: str) -> None:
    """Every scale, alone and inside a struct, a list and a map."""
    scales = range(39)
    plainest = [Decimal(text).normalize(_EXACT) for text in NUMBERS]
    digits = [int("".join(map(str, number.as_tuple().digits[:38]))) for number in plainest if number.is_finite()]
    rows = []
    for at, digit in enumerate(digits):
        held = {f"d{scale}": Decimal(digit).scaleb(-scale, _EXACT) for scale in scales}
        rows.append(
            {"id": at, **held, "in_struct": {"x": held["d7"]}, "in_list": [held["d7"]], "in_map": {"x": held["d7"]}}
        )
    folder = tmp_path / "exports/t/dt=2026-11-20/hr=00"
    folder.mkdir(parents=True)
    if container == "connect_parquet":
        seven = pa.decimal128(38, 7)
        fields = [("id", pa.int64()), *((f"d{scale}", pa.decimal128(38, scale)) for scale in scales)]
        nested = [("in_struct", pa.struct([("x", seven)])), ("in_list", pa.list_(seven)),
                  ("in_map", pa.map_(pa.string(), seven))]  # fmt: skip
        pq.write_table(pa.Table.from_pylist(rows, pa.schema([*fields, *nested])), folder / "t+0+0000000000.parquet")
    else:

        def decimal(scale: int) -> dict[str, Any]:
            return {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": scale}

        inner = {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": decimal(7)}]}
        schema = {"type": "record", "name": "Row", "fields": [
            {"name": "id", "type": "long"}, *({"name": f"d{scale}", "type": decimal(scale)} for scale in scales),
            {"name": "in_struct", "type": inner}, {"name": "in_list", "type": {"type": "array", "items": decimal(7)}},
            {"name": "in_map", "type": {"type": "map", "values": decimal(7)}},
        ]}  # fmt: skip
        with (folder / "t+0+0000000000.avro").open("wb") as file:
            fastavro.writer(file, fastavro.parse_schema(schema), rows)
    module = load_container(container)
    records = module.read(spark, landed(tmp_path), module.Options()).orderBy("record").collect()
    for row, record in zip(rows, records, strict=True):
        value = json.loads(record.value)
        wanted = {f"d{scale}": format(row[f"d{scale}"], "f") for scale in scales}
        assert {name: value[name] for name in wanted} == wanted
        assert [value["in_struct"]["x"], value["in_list"][0], value["in_map"]["x"]] == [wanted["d7"]] * 3


TYPES = [(38, 0), (38, 2), (38, 38), (38, 19), (12, 2), (20, 0), (25, 2), (5, 5), (1, 0)]


def test_a_decimal_is_the_number_or_nothing(spark: SparkSession) -> None:
    """Never rounded, whatever its notation."""
    texts = [
        *NUMBERS,
        "+1.5",
        " 1.50 ",
        ".5",
        "5.",
        "1_0",
        "٣",
        "1.5d",
        "0x1",
        "1e99999999999",
        "1e-999999999",
        ".",
        "e5",
        "",
    ]
    frame = spark.createDataFrame([(text,) for text in texts], "text string")
    kinds = [f"decimal({precision},{scale})" for precision, scale in TYPES]
    rows = frame.select("text", *(plain(F.col("text"), kind, None).alias(kind) for kind in kinds)).collect()
    for row in rows:
        for (precision, scale), kind in zip(TYPES, kinds, strict=True):
            assert row[kind] == _fitting(row.text, precision, scale), (row.text, kind)


def _fitting(text: str, precision: int, scale: int) -> Decimal | None:
    if not text.isascii() or "_" in text or "99999999" in text.lower().partition("e")[2]:
        return None
    try:
        number = _EXACT.create_decimal(text.strip())
    except ArithmeticError:
        return None
    kept = number.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    fits = not kept or kept.adjusted() < precision - scale
    return kept if kept == number and fits else None


def test_a_double_is_no_other_number(spark: SparkSession) -> None:
    """What is too large for it is refused, not infinite; infinity itself stays."""
    texts = ["1e400", "-1e39", "1.5d", "2F", "Infinity", "-inf", "NaN", "1.1666089296340942", "-0.0", "1E-400"]
    frame = spark.createDataFrame([(text,) for text in texts], "text string")
    both = frame.select(*(plain(F.col("text"), kind, None).alias(kind) for kind in ("double", "float"))).collect()
    assert [str(row.double) for row in both] == [
        "None", "-1e+39", "None", "None", "inf", "-inf", "nan", "1.1666089296340942", "-0.0", "0.0",
    ]  # fmt: skip
    assert [row.float for row in both][:4] == [None] * 4
