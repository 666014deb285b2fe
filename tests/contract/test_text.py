"""What is no text is not published as text: out of every container, in every format."""

from __future__ import annotations

import base64
import gzip
import json
from datetime import datetime
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.contract.inserts import MESSAGES, decoded, landed
from tests.contract.pairs import EXCUSED
from tidemark.containers import CONTAINERS, load_container
from tidemark.formats import FORMATS
from tidemark.values.strict_json import NOT_UTF_8
from tidemark_samples.exporting import Message, write_export

HOUR, AT = "2026-11-20T00", datetime(2026, 11, 20)
FOLDER = "exports/t/dt=2026-11-20/hr=00"
#: Bytes of a value, and whether they are UTF-8: the sign for what is no text is a character like others.
TEXTS = [
    ("Ingénue €".encode(), True),
    (b"\xef\xbf\xbd", True),
    (b"Ing\xe9nue", False),  # ISO-8859-1
    (b"\xed\xa0\x80", False),  # half of a surrogate pair
    (b"cut \xe2\x82", False),
]
PAIRS = [(name, container) for name in FORMATS for container in CONTAINERS if (name, container) not in EXCUSED]
_PLACE = b"a place 07"


@pytest.mark.promise(5)
@pytest.mark.parametrize(("name", "container"), PAIRS)
def test_bytes_that_are_not_utf_8_are_refused(spark: SparkSession, tmp_path: Path, name: str, container: str) -> None:
    written = [MESSAGES[name](at, f'"{_PLACE.decode()}"').encode() for at in range(len(TEXTS))]
    as_text = container == "kafka_json"  # its writer takes texts only
    values = (
        written if as_text else [value.replace(_PLACE, text) for value, (text, _) in zip(written, TEXTS, strict=True)]
    )
    messages = [
        Message(topic="t", partition=0, offset=at, sent_at=AT, key=f'{{"id":{at}}}'.encode(), value=value)
        for at, value in enumerate(values)
    ]
    write_export(tmp_path / "exports", "t", HOUR, [messages], container)
    if as_text:
        path = next((tmp_path / FOLDER).glob("part-*"))
        lines = gzip.decompress(path.read_bytes()).splitlines()
        lines = [line.replace(_PLACE, text) for line, (text, _) in zip(lines, TEXTS, strict=True)]
        path.write_bytes(gzip.compress(b"\n".join(lines)))
    rows = {row.record: row for row in decoded(spark, tmp_path, name, container)}
    assert len(rows) == len(TEXTS)
    for record, (text, good) in enumerate(TEXTS, 1):
        row = rows[record]
        if good:
            assert (row.op, row.after["n"]) == ("insert", text.decode()), row.problem
        else:
            assert row.op == "bad" and "utf-8" in row.problem.lower(), (row.problem, row.after)
            assert text in bytes(row.raw) or base64.b64encode(values[record - 1]) in bytes(row.raw)


#: Where half of a surrogate pair is escaped: in the value's own JSON, in that of the line, and in the key.
HALVES: dict[str, tuple[bytes, bytes]] = {
    "value": (_PLACE, rb"\\ud83d"), "line": (_PLACE, rb"\ud83d"), "key": (b'"key": "{', rb'"key": "\udc80{'),
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "ibm"])
def test_nor_is_half_a_character(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """As JSON.stringify and json.dumps write one; what the source wrote as a text, and a whole character, is taken."""
    value = MESSAGES[name](1, f'"{_PLACE.decode()}"').encode()
    message = Message(topic="t", partition=0, offset=1, sent_at=AT, key=b'{"id":1}', value=value)
    write_export(tmp_path / "exports", "t", HOUR, [[message]], "kafka_json")
    path = next((tmp_path / FOLDER).glob("part-*"))
    line = gzip.decompress(path.read_bytes()).rstrip()
    good = [line.replace(_PLACE, text) for text in (rb"\\ud83d\\ude00", rb"\ud83d\ude00", rb"\\\\ud83d")]
    bad = [line.replace(usual, half) for usual, half in HALVES.values()]
    path.write_bytes(gzip.compress(b"\n".join([*good, *bad])))
    rows = sorted(decoded(spark, tmp_path, name, "kafka_json"), key=lambda row: row.record)
    assert [row.after["n"] for row in rows[:3]] == ["\U0001f600", "\U0001f600", "\\ud83d"]
    assert [(row.op, row.problem) for row in rows[3:]] == [("bad", NOT_UTF_8)] * len(bad)


@pytest.mark.parametrize("pair", [rb"\\ud83d\\ude00", rb"\ud83d\ude00"], ids=["value", "line"])
def test_a_whole_character_in_escapes_needs_no_look(spark: SparkSession, tmp_path: Path, pair: bytes) -> None:
    """Landing says so of the object, and decode leaves the look out."""
    value = MESSAGES["debezium"](1, f'"{_PLACE.decode()}"').encode()
    message = Message(topic="t", partition=0, offset=1, sent_at=AT, key=b'{"id":1}', value=value)
    write_export(tmp_path / "exports", "t", HOUR, [[message]], "kafka_json")
    path = next((tmp_path / FOLDER).glob("part-*"))
    line = gzip.decompress(path.read_bytes()).replace(_PLACE, pair)
    path.write_bytes(gzip.compress(line))
    container = load_container("kafka_json")
    assert container.inspect(iter([line]), container.Options()).plain
    (row,) = decoded(spark, tmp_path, "debezium", "kafka_json")
    assert row.after["n"] == "\U0001f600"


@pytest.mark.promise(5)
def test_nor_inside_base64(spark: SparkSession, tmp_path: Path) -> None:
    """A key, a value and the header of an old key, each in its turn, are refused; other headers may be anything."""
    value = MESSAGES["debezium"](1, '"__debezium_unavailable_value"').encode()
    good = {"key": b'{"id":1}', "value": value, "__debezium.oldkey": b'{"id":0}', "trace": b"\xff\x00"}
    records = [good]
    records += [
        good | {name: good[name].replace(b'"id"', odd)}
        for odd in (b'"id\xff"', rb'"id\ud83d"')
        for name in ("key", "value", "__debezium.oldkey")
    ]
    lines = []
    for at, record in enumerate(records):
        text = {name: base64.b64encode(part).decode() for name, part in record.items()}
        headers = [{"key": name, "value": text[name]} for name in ("__debezium.oldkey", "trace")]
        kept = {name: text[name] for name in ("key", "value")}
        lines.append({"topic": "t", "partition": 0, "offset": at, "timestamp": 1, "headers": headers, **kept})
    folder = tmp_path / FOLDER
    folder.mkdir(parents=True)
    (folder / "part.jsonl").write_text("\n".join(map(json.dumps, lines)))
    rows = decoded(spark, tmp_path, "debezium", "kafka_json", base64=True)
    found = {row.record: row.problem for row in rows}
    assert found[1] is None
    assert all("UTF-8" in (found[record] or "") for record in range(2, 8)), found


@pytest.mark.promise(5)
@pytest.mark.parametrize("container", ["connect_parquet", "connect_avro"])
def test_nor_in_the_columns_of_a_file(spark: SparkSession, tmp_path: Path, container: str) -> None:
    """A text of a row, alone or inside a struct, a list or a map."""
    place = "a place 07"  # in the file it becomes as many bytes that are no text
    rows = [{"a": "é", "s": {"x": "\ufffd"}, "l": ["b"], "m": {"k": "v"}}]
    others = ({"a": place}, {"s": {"x": place}}, {"l": [place]}, {"m": {"k": place}}, {"m": {place: "v"}})
    rows += [rows[0] | other for other in others]
    folder = tmp_path / FOLDER
    folder.mkdir(parents=True)
    if container == "connect_parquet":
        path, text = folder / "t+0+0000000000.parquet", pa.string()
        kinds = {"a": text, "s": pa.struct([("x", text)]), "l": pa.list_(text), "m": pa.map_(text, text)}
        pq.write_table(pa.Table.from_pylist(rows, pa.schema(list(kinds.items()))), path, compression="none")
    else:
        path = folder / "t+0+0000000000.avro"
        inner = {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "string"}]}
        texts = {"l": {"type": "array", "items": "string"}, "m": {"type": "map", "values": "string"}}
        fields = [{"name": name, "type": kind} for name, kind in ({"a": "string", "s": inner} | texts).items()]
        with path.open("wb") as file:
            fastavro.writer(file, fastavro.parse_schema({"type": "record", "name": "Row", "fields": fields}), rows)
    path.write_bytes(path.read_bytes().replace(place.encode(), b"\xff" * len(place)))
    module = load_container(container)
    records = module.read(spark, landed(tmp_path), module.Options()).orderBy("record").collect()
    assert records[0].problem is None
    assert json.loads(bytes(records[0].value))["s"]["x"] == "\ufffd"
    assert all("UTF-8" in (record.problem or "") for record in records[1:]), [record.problem for record in records]
