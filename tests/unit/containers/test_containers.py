"""What each container makes of an object's bytes: records whole, numbered, none lost, and refused when not its own."""

from __future__ import annotations

import base64
import gzip
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from tidemark.containers import connect_avro, connect_parquet, kafka_json, lines, load_container, pubsub, text
from tidemark.containers.contract import RECORDS, Contents
from tidemark.containers.objects import tasks_at_once
from tidemark.errors import ExportError
from tidemark.feeds.model import Feed
from tidemark.pipeline.land import land
from tidemark.settings import Settings
from tidemark_samples.exporting import Message, write_export

HOUR = "2026-11-20T07"
BYTES = ("raw", "key", "value")  # which may come as text
LANDED = "shop/srv.shop.orders/dt=2026-11-20/hr=07/v00001"
AT = datetime(2026, 11, 20, 7, 5, 1, 250_000)
MESSAGES = [
    Message(topic="srv.shop.orders", partition=3, offset=40 + i, sent_at=AT, key=key, value=value, headers=headers)
    for i, (key, value, headers) in enumerate(
        [
            (b'{"id": 1}', b'{"op": "c", "text": "\xc3\xa9 } { }{"}', (("__debezium.oldkey", '{"id": 0}'), ("h", ""))),
            (None, b'{"op": "t"}', ()),
            (b'{"id": 1}', None, ()),
        ]
    )
]
ENDINGS = {"connect_avro": ".avro", "connect_parquet": ".snappy.parquet"}


def landed(folder: Path) -> Path:
    """A folder as the landing has it."""
    landed = folder / LANDED
    landed.mkdir(parents=True, exist_ok=True)
    return landed


def read(spark: SparkSession, name: str, *paths: Path, **options: Any) -> list[Row]:
    container = load_container(name)
    records = container.read(spark, [str(path) for path in paths], container.Options(**options))
    assert records.columns == RECORDS.names
    others = [f.name for f, kind in zip(records.schema, RECORDS, strict=True) if f.dataType != kind.dataType]
    assert {(name, records.schema[name].dataType) for name in others} <= {(name, StringType()) for name in BYTES}
    records = records.select(*(F.col(kind.name).cast(kind.dataType).alias(kind.name) for kind in RECORDS))
    rows = records.orderBy("object", "record").collect()
    assert {row.object for row in rows} <= {str(path) for path in paths}
    return rows


def counted(name: str, content: bytes, step: int = 7) -> int | None:
    return inspected(name, content, step).records


def inspected(name: str, content: bytes, step: int = 7) -> Contents:
    container = load_container(name)
    chunks = (content[i : i + step] for i in range(0, len(content), step))
    contents: Contents = container.inspect(chunks, container.Options())
    return contents


def part(row: Row, name: str) -> bytes | None:
    return None if row[name] is None else bytes(row[name])


@pytest.mark.parametrize("name", ["kafka_json", "connect_avro", "connect_parquet"])
def test_containers_of_whole_records_give_back_the_messages(spark: SparkSession, tmp_path: Path, name: str) -> None:
    write_export(tmp_path, "srv.shop.orders", HOUR, [MESSAGES, MESSAGES[1:]], name)
    objects = sorted(path for path in tmp_path.rglob("part-*"))
    rows = read(spark, name, *objects)
    assert [(Path(r.object).name[:10], r.record) for r in rows] == [
        ("part-00000", 1), ("part-00000", 2), ("part-00000", 3), ("part-00001", 1), ("part-00001", 2),
    ]  # fmt: skip
    for row, message in zip(rows, [*MESSAGES, *MESSAGES[1:]], strict=True):
        assert (row.topic, row.partition, row.offset, row.sent_at, row.problem) == (
            message.topic, message.partition, message.offset, message.sent_at, None,
        )  # fmt: skip
        assert (part(row, "key"), part(row, "value")) == (message.key, message.value)
        assert [tuple(header) for header in row.headers or []] == list(message.headers)
        assert json.loads(bytes(row.raw))["offset"] == message.offset
    content = objects[0].read_bytes()
    assert counted(name, gzip.decompress(content) if name == "kafka_json" else content) == 3


def test_a_line_is_numbered_and_parsed_in_one_projection(spark: SparkSession, tmp_path: Path) -> None:
    """Spark copies a row from each to the next, where a parser is among them: a tenth of what parsing costs."""
    write_export(tmp_path, "srv.shop.orders", HOUR, [MESSAGES], "kafka_json")
    records = kafka_json.read(spark, [str(next(tmp_path.rglob("part-*")))], kafka_json.Options(base64=False))
    plan = records.select("object", "record", "raw", "value")._jdf.queryExecution().executedPlan().toString()
    assert [line.strip(" +-*:()0123456789").split()[0] for line in plan.strip().splitlines()] == [
        "Project", "Project", "FileScan",
    ]  # fmt: skip


PLAIN = (
    b'{"topic":"t","key":null,"value" : "{\\"value\\":{\\"n\\":1.50}}","headers":[{"key":"\xc3\xa9","value":"1"}]}\n'
)
#: What is rare → what stands for it in place of what is usual, and whether it is rare in lines too.
RARE = {
    "a value that is an object": (b'"{', b'{"n":1.50},"x":"{', False),
    "one behind a blank": (b'"{', b' \t {"n":1.50},"x":"{', False),
    "a key that is a list": (b"null", b"[1.50]", False),
    "a header's value that is a number": (b'"1"', b"-0", False),
    "a member's name in escapes": (b'"value" ', b'"val\\u0075e" ', False),
    "bytes that are not UTF-8": (b"\xc3\xa9", b"\xc3\x28", True),
    "an escape of half a character": (b'"1"', b'"\\uD83d"', True),
    "a half behind a pair": (b'"1"', b'"\\ud83d\\ude00\\ude00"', True),
    "halves in the wrong order": (b'"1"', b'"\\ude00\\ud83d"', True),
    "two first halves, and one second": (b'"1"', b'"\\ud83d\\ud83d\\ude00"', True),
    "halves in two documents, one inside the other": (b'"1"', rb'"\ud83d\\ude00"', True),
    "one half behind a backslash that is escaped": (b'"1"', rb'"\\ud83d\ude00"', True),
    "the code of a surrogate": (b"\xc3\xa9", b"\xed\xa0\x80", True),
    "a character in too many bytes": (b"\xc3\xa9", b"\xc0\xaf", True),
}


@pytest.mark.parametrize("name", ["lines", "kafka_json", "pubsub"])
def test_lines_of_few_objects_are_for_all_tasks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Else one large object would keep one core busy, and the others idle."""
    container, folder = load_container(name), landed(tmp_path)
    paths = [str(folder / f"{number}.jsonl") for number in range(2)]
    for path in paths:
        Path(path).write_bytes(b"".join(b'{"topic": "t", "value": "%d"}\n' % number for number in range(50)))

    def read_by(tasks: int, *objects: str) -> tuple[bool, list[Row]]:
        monkeypatch.setattr(text, "tasks_at_once", lambda _: tasks)
        records = container.read(spark, [*objects], container.Options())
        plan = records._jdf.queryExecution().optimizedPlan().toString()
        return "RepartitionByExpression" in plan, records.orderBy("object", "record").collect()

    dealt_out, rows = read_by(2, paths[0])
    assert dealt_out and [row.record for row in rows] == [*range(1, 51)]
    assert read_by(1, paths[0]) == (False, rows)
    assert not read_by(2, *paths)[0]


def test_a_small_hour_is_one_task() -> None:
    def tasks(cores: int, partitions: str) -> int:
        spark: Any = SimpleNamespace(
            sparkContext=SimpleNamespace(defaultParallelism=cores), conf={"spark.sql.shuffle.partitions": partitions}
        )
        return tasks_at_once(spark)

    assert (tasks(8, "1"), tasks(8, "4"), tasks(2, "200")) == (1, 4, 2)


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_landing_sees_whether_lines_are_plain(step: int) -> None:
    """Wherever the rare one stands, and wherever the bytes are cut on their way."""
    assert inspected("kafka_json", PLAIN * 3, step) == Contents(3, plain=True)
    assert inspected("kafka_json", b"", step) == Contents(0, plain=True)
    for whole in (rb"\ud83d\ude00", rb"\uD83D\uDE00\ud83d\ude00 \ud83d\ude00", rb"\\ud83d\\ude00\\ud83d\\ude00"):
        assert inspected("kafka_json", PLAIN.replace(b'"1"', b'"%s"' % whole) * 2, step) == Contents(2, plain=True), (
            whole
        )
    for what, (usual, rare, in_lines) in RARE.items():
        assert PLAIN.count(usual) == 1, what
        other = PLAIN.replace(usual, rare)
        for content in (other + PLAIN, PLAIN + other, PLAIN + other[:-1]):
            assert inspected("kafka_json", content, step) == Contents(2, plain=False), what
            assert inspected("lines", content, step) == Contents(2, plain=not in_lines), what


def test_a_line_without_an_end_is_not_kept_for_a_look() -> None:
    chunks = iter([b"x" * (1 << 20)] * 70)
    assert lines.inspect(chunks, lines.Options()) == Contents(1, plain=False)


def test_a_value_under_an_escaped_name_keeps_its_digits(spark: SparkSession, tmp_path: Path) -> None:
    path = landed(tmp_path) / "part"
    path.write_bytes(PLAIN.replace(*RARE["a member's name in escapes"][:2]).replace(b'"{', b'{"n":1.50e1},"x":"{'))
    (row,) = read(spark, "kafka_json", path)
    assert part(row, "value") == b'{"n":1.50e1}'


def test_pubsub(spark: SparkSession, tmp_path: Path) -> None:
    folder = landed(tmp_path)
    write_export(tmp_path, "x", HOUR, [MESSAGES], "pubsub")
    text = gzip.decompress(next(tmp_path.rglob("x/**/part-*")).read_bytes())
    other = {"message_id": "9", "data": base64.b64encode(b"\xff\x00").decode(), "attributes": {"topic": "srv.other"}}
    wrong = [b"[]", b'{"data": 1', b'{"data": "%%%"}', b'{"topic": "x"}', b'{"data": "YQ=="} {"data": "YQ=="}', b""]
    more = [json.dumps(other | {"publish_time": "2026-11-20T07:05:01.25Z"}).encode(), b'{"data": "YWI="}\r']
    path = folder / "m.jsonl"
    path.write_bytes(b"\n".join([*text.splitlines(), *more, *wrong]) + b"\n")
    rows = read(spark, "pubsub", path, topic_attribute="topic")
    assert [r.record for r in rows] == list(range(1, 12))
    for row, message in zip(rows[:3], MESSAGES, strict=True):
        assert (row.topic, row.partition, row.offset, row.sent_at) == ("srv.shop.orders", None, None, AT)
        assert (part(row, "key"), part(row, "value")) == (message.key, message.value)
        assert [tuple(header) for header in row.headers or []] == list(message.headers)
    assert (rows[3].topic, bytes(rows[3].value), rows[3].sent_at) == ("srv.other", b"\xff\x00", AT)
    assert (rows[4].topic, bytes(rows[4].value), rows[4].problem) == ("srv.shop.orders", b"ab", None)
    assert [row.problem is None for row in rows] == [True] * 5 + [False] * 6
    assert [bytes(row.raw) for row in rows[5:]] == wrong
    assert "base64" in rows[7].problem and "goes on" in rows[9].problem


def test_lines_know_their_topic_by_their_place_in_the_landing(spark: SparkSession, tmp_path: Path) -> None:
    here, elsewhere = landed(tmp_path) / "a.zst", tmp_path / "a.gz"
    here.write_bytes(zstandard.compress(b"one\ntwo"))
    elsewhere.write_bytes(gzip.compress(b"three\r\n"))
    rows = read(spark, "lines", here, elsewhere)
    assert {(bytes(r.value), r.topic) for r in rows} == {
        (b"one", "srv.shop.orders"), (b"two", "srv.shop.orders"), (b"three\r", None),
    }  # fmt: skip


RECORD = '{"topic": "t", "value": "{\\"a\\": \\"} {\\"}{\\"b\\"}"}'


@pytest.mark.parametrize(
    ("line", "good"),
    [
        (RECORD, True),
        (RECORD + "\r", True),
        (RECORD + "  ", True),
        ('{"topic": "t", "value": {"a": [{"b": 1} , {"c": "} {"}]}}', True),
        (RECORD + RECORD, False),
        (RECORD + " " + RECORD, False),
        (RECORD + "," + RECORD, False),
        (RECORD + " x", False),
        (RECORD + "]", False),
    ],
)
def test_a_line_that_goes_on_behind_its_record_is_not_lost(lines_read: dict[str, Row], line: str, good: bool) -> None:
    row = lines_read[line]
    assert bytes(row.raw).decode() == line
    assert (row.problem is None) == good
    assert good or "goes on" in row.problem


@pytest.fixture(scope="module")
def lines_read(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Row]]:
    mark = test_a_line_that_goes_on_behind_its_record_is_not_lost.pytestmark[0]  # type: ignore[attr-defined]
    path = tmp_path_factory.mktemp("lines") / "x"
    path.write_text("\n".join(line for line, _ in mark.args[1]))
    yield {bytes(row.raw).decode(): row for row in read(spark, "kafka_json", path)}


def test_a_timestamp_that_is_none_crashes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "x").write_text('{"topic": "t", "timestamp": 9223372036854775807}')
    assert read(spark, "kafka_json", tmp_path / "x")[0].sent_at is None


def test_a_line_without_a_value_is_no_tombstone(spark: SparkSession, tmp_path: Path) -> None:
    """As `kcat -J` writes a record, whose value it calls payload. A header has a value, too."""
    lines = [
        '{"topic": "t", "key": "MQ==", "payload": "YWI=", "headers": [{"key": "h", "value": "MQ=="}]}', '{"topic": "t"}',
        '{"topic": "t", "value": null}', '{"topic": "t", "val\\u0075e": null}', '{"topic": "t", "value": "YWI="}',
    ]  # fmt: skip
    (tmp_path / "x").write_text("\n".join(lines))
    rows = read(spark, "kafka_json", tmp_path / "x")
    assert ["no member `value`" in (row.problem or "") for row in rows] == [True, True, False, False, False]


ENVELOPES = [
    [{"op": "c", "before": None, "after": {"id": 1, "price": Decimal("1234567890123456789.10"), "raw": b"\x00\xff"}}],
    [
        {"op": "u", "before": None, "after": {"id": 2, "price": None, "raw": None, "note": "é"}},
        {"op": "u", "before": None, "after": {"id": 3, "price": None, "raw": None, "note": None}},
    ],
]


def _image(note: bool) -> list[tuple[str, pa.DataType]]:
    columns = [("id", pa.int64()), ("price", pa.decimal128(30, 2)), ("raw", pa.binary())]
    return [*columns, ("note", pa.string())] if note else columns


def _parquet(rows: list[dict[str, Any]], note: bool) -> bytes:
    image = pa.struct(_image(note))
    schema = pa.schema([("op", pa.string()), ("before", image), ("after", image), ("at", pa.timestamp("us", "UTC"))])
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([row | {"at": AT.replace(tzinfo=UTC)} for row in rows], schema), file)
    return file.getvalue()


def _avro(rows: list[dict[str, Any]], note: bool) -> bytes:
    price = {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 2}
    kinds: dict[str, Any] = {"id": "long", "price": price, "raw": "bytes", **({"note": "string"} if note else {})}
    image = {"type": "record", "name": "V", "fields": [{"name": n, "type": ["null", t]} for n, t in kinds.items()]}
    stamp = {"type": "long", "logicalType": "timestamp-micros"}
    fields = {"op": "string", "before": ["null", image], "after": ["null", "V"], "at": stamp}
    schema = {"type": "record", "name": "E", "fields": [{"name": n, "type": t} for n, t in fields.items()]}
    file = io.BytesIO()
    fastavro.writer(file, schema, [row | {"at": AT.replace(tzinfo=UTC)} for row in rows], codec="deflate")
    return file.getvalue()


WRITERS = {"connect_avro": _avro, "connect_parquet": _parquet}


def test_a_column_of_a_file_may_have_any_name(spark: SparkSession, tmp_path: Path) -> None:
    """Rows that were flattened have the table's own columns."""
    path = landed(tmp_path) / "0f-srv.shop.orders_2_0000000007.parquet"
    pq.write_table(pa.table({name: ["x"] for name in ("a`b", "c.d", "`", "e f")}), path)
    (row,) = read(spark, "connect_parquet", path)
    assert json.loads(bytes(row.value)) == {"a`b": "x", "c.d": "x", "`": "x", "e f": "x"}


@pytest.mark.parametrize("name", WRITERS)
def test_rows_of_a_sink_are_values_as_json(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """The columns of each object are its own: one that it does not have is not a null."""
    paths = [landed(tmp_path) / f"0f-srv.shop.orders_2_{first:010}{ENDINGS[name]}" for first in (7, 8)]
    for path, rows, note in zip(paths, ENVELOPES, (False, True), strict=True):
        path.write_bytes(WRITERS[name](rows, note))
    beside = landed(tmp_path) / f"0f-srv.shop.orders_2_0000000007.keys{ENDINGS[name]}"
    beside.write_bytes(WRITERS[name](ENVELOPES[0], False))
    rows = read(spark, name, *paths, beside)
    assert [(r.topic, r.partition, r.offset, r.record) for r in rows if not r.problem] == [
        ("srv.shop.orders", 2, 7, 1), ("srv.shop.orders", 2, 8, 1), ("srv.shop.orders", 2, 9, 2),
    ]  # fmt: skip
    values = [json.loads(bytes(r.value)) for r in rows if not r.problem]
    assert values[0]["after"] == {"id": 1, "price": "1234567890123456789.10", "raw": "AP8="}
    assert "before" in values[0] and values[0]["before"] is None
    assert values[1]["after"] == {"id": 2, "price": None, "raw": None, "note": "é"}
    assert values[2]["after"]["note"] is None
    assert values[0]["at"] == "2026-11-20T07:05:01.250000Z"
    assert all(r.raw == r.value and r.key is None and r.headers is None for r in rows)
    assert [r.problem is None for r in rows if r.object == str(beside)] == [False]


@pytest.mark.parametrize("name", WRITERS)
def test_records_are_numbered_across_the_parts_of_an_object(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """Row groups and blocks are what Spark would split a large object by."""
    numbers = [{"n": number, "pad": "x" * 50} for number in range(1, 3001)]
    path = tmp_path / f"x{ENDINGS[name]}"
    if name == "connect_parquet":
        pq.write_table(pa.Table.from_pylist(numbers), path, row_group_size=100)
    else:
        fields = [{"name": "n", "type": "int"}, {"name": "pad", "type": "string"}]
        with path.open("wb") as file:
            fastavro.writer(file, {"type": "record", "name": "R", "fields": fields}, numbers, sync_interval=500)
    rows = read(spark, name, path)
    assert [(row.record, json.loads(bytes(row.value))["n"]) for row in rows] == [(n, n) for n in range(1, 3001)]
    assert counted(name, path.read_bytes(), 1000) == 3000


WHOLE = {name: write(ENVELOPES[1] * 900, True) for name, write in WRITERS.items()}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("step", [1 << 20, 5])
def test_rows_are_counted_while_they_land(name: str, step: int) -> None:
    assert counted(name, WHOLE[name], step) == 1800


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda whole: b"", id="empty"),
        pytest.param(lambda whole: b"PA", id="short"),
        pytest.param(lambda whole: b'{"a": 1}\n', id="text"),
        pytest.param(lambda whole: whole[:4], id="only the beginning"),
        pytest.param(lambda whole: whole[:30], id="in the header"),
        pytest.param(lambda whole: whole[: len(whole) // 2], id="half"),
        pytest.param(lambda whole: whole[:-3], id="nearly whole"),
        pytest.param(lambda whole: whole[:-40] + bytes(32) + whole[-8:], id="spoilt end"),
        pytest.param(lambda whole: whole[:-8] + b"\xff\xff\xff\x00" + whole[-4:], id="footer longer than itself"),
        pytest.param(gzip.compress, id="compressed as a whole"),
    ],
)
def test_what_is_not_whole_never_lands(tmp_path: Path, name: str, spoil: Any) -> None:
    folder = tmp_path / "exports/a/dt=2026-11-20/hr=07"
    folder.mkdir(parents=True)
    (folder / "x").write_bytes(spoil(WHOLE[name]))
    feed = Feed.model_validate(
        {
            "feed": "shop", "description": "", "owner": "me", "topics": ["a"], "container": {"type": name},
            "exports": {"path": "{topic}/dt={date}/hr={hour}/*", "marker": None, "settle": "0s"},
            "format": {"type": "debezium"},
        }
    )  # fmt: skip
    settings = Settings(home=tmp_path, lake="lake", exports="exports")
    with pytest.raises(ExportError) as caught:
        land(feed, HOUR, settings)
    assert caught.value.object is not None and caught.value.object.endswith("/x")
    assert caught.value.fix
    assert not list(Path(settings.landing_root).rglob("x"))


def test_avro_of_plain_values_is_refused() -> None:
    file = io.BytesIO()
    fastavro.writer(file, "string", ["a"])
    with pytest.raises(ExportError, match="of string, not of records"):
        counted("connect_avro", file.getvalue())


@pytest.mark.parametrize("module", [kafka_json, lines, pubsub, connect_avro, connect_parquet])
def test_only_what_compresses_inside_refuses_compression(module: Any) -> None:
    assert getattr(module, "OWN_COMPRESSION", False) == module.__name__.rpartition(".")[2].startswith("connect")
