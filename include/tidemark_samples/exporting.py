"""Messages as a source would put them on topics, and how the generators leave them on disk: exports, truth, feed file."""

from __future__ import annotations

import base64
import gzip
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from tidemark.hours import Hour, hours_between


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The size and the seed of a sample."""

    hours: int
    """How many hours it has."""
    events: int
    """About how many changes each hour has."""
    seed: int
    """What all that is drawn follows from."""
    first_hour: str = "2026-11-20T00"
    """The first hour, in UTC."""
    poison: int = 0
    """How many records in the second hour cannot be decoded."""
    container: str = ""
    """The container of the exports; empty: the format's usual one."""

    @property
    def start(self) -> datetime:
        """When the first hour begins; naive UTC."""
        return Hour.parse(self.first_hour).start.replace(tzinfo=None)

    @property
    def names(self) -> list[Hour]:
        """The names of the hours."""
        first = Hour.parse(self.first_hour)
        return hours_between(first, first.plus(self.hours - 1))


@dataclass(frozen=True, kw_only=True)
class Message:
    """One message of a topic, as a consumer sees it."""

    topic: str
    """The topic's name."""
    partition: int
    """The number of its partition."""
    offset: int
    """Its place in the partition."""
    sent_at: datetime
    """When it was sent, in naive UTC."""
    key: bytes | None
    """The bytes of its key; None: it has none."""
    value: bytes | None
    """The bytes of its value; None: a tombstone."""
    headers: tuple[tuple[str, str], ...] = ()
    """Its headers, in their order. A name may come twice."""


def write_export(exports: Path, topic: str, hour: str, objects: Sequence[Sequence[Message]], container: str) -> None:
    """One hour of a topic: ``<topic>/dt=…/hr=…/``, an object for each list of messages, and ``_SUCCESS``."""
    day, number = hour.split("T")
    folder = exports / topic / f"dt={day}" / f"hr={number}"
    folder.mkdir(parents=True, exist_ok=True)
    for index, messages in enumerate(objects):
        name, content = _WRITERS[container](messages)
        (folder / f"part-{index:05}{name}").write_bytes(content)
    (folder / "_SUCCESS").touch()


def write_truth(truth: Path, hour: str, tables: Mapping[str, Iterable[Mapping[str, Any]]]) -> None:
    """The state of every published table (rows in the order of their key) at an hour's cut, as `tidemark show` prints it."""
    (truth / hour).mkdir(parents=True, exist_ok=True)
    for table, rows in tables.items():
        lines = [json.dumps({name: as_json(value) for name, value in row.items()}, ensure_ascii=False) for row in rows]
        (truth / hour / f"{table}.jsonl").write_text("".join(line + "\n" for line in lines), "utf-8")


def write_feed(feeds: Path, feed: Mapping[str, Any]) -> None:
    """The feed file that reads the exports."""
    feeds.mkdir(parents=True, exist_ok=True)
    (feeds / f"{feed['feed']}.yaml").write_text(
        yaml.safe_dump(dict(feed), sort_keys=False, allow_unicode=True), "utf-8"
    )


def as_json(value: Any) -> Any:
    """A value as `tidemark show --json` prints it."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return format(value, "f") if isinstance(value, Decimal) else value


def _lines(lines: Iterable[bytes]) -> bytes:
    return gzip.compress(b"".join(line + b"\n" for line in lines), mtime=0)


def _millis(message: Message) -> int:
    return round((message.sent_at - datetime(1970, 1, 1)).total_seconds() * 1000)


def _kafka_json(messages: Sequence[Message]) -> tuple[str, bytes]:
    def record(message: Message) -> bytes:
        content = {
            "topic": message.topic,
            "partition": message.partition,
            "offset": message.offset,
            "timestamp": _millis(message),
            "key": None if message.key is None else message.key.decode(),
            "value": None if message.value is None else message.value.decode(),
            "headers": [{"key": name, "value": value} for name, value in message.headers],
        }
        return json.dumps(content, ensure_ascii=False).encode()

    return ".jsonl.gz", _lines(map(record, messages))


def _values(messages: Sequence[Message]) -> tuple[str, bytes]:
    return ".jsonl.gz", _lines(message.value for message in messages if message.value is not None)


def _raw(messages: Sequence[Message]) -> tuple[str, bytes]:
    return ".del.gz", gzip.compress(b"".join(message.value or b"" for message in messages), mtime=0)


def _pubsub(messages: Sequence[Message]) -> tuple[str, bytes]:
    def line(message: Message) -> bytes:
        content = {
            "data": base64.b64encode(message.value or b"").decode(),
            "attributes": dict(message.headers),
            "messageId": str(message.offset),
            "publishTime": message.sent_at.isoformat(timespec="milliseconds") + "Z",
        }
        return json.dumps(content | ({} if message.key is None else {"orderingKey": message.key.decode()})).encode()

    return ".jsonl.gz", _lines(map(line, messages))


def _rows(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Whole records, as the Parquet and Avro files of a sink hold them."""
    return [
        {
            "key": message.key,
            "value": message.value,
            "headers": [{"key": name, "value": value.encode()} for name, value in message.headers],
            "topic": message.topic,
            "partition": message.partition,
            "offset": message.offset,
            "timestamp": _millis(message),
        }
        for message in messages
    ]


def _connect_parquet(messages: Sequence[Message]) -> tuple[str, bytes]:
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    schema = pa.schema(
        [
            ("key", pa.binary()), ("value", pa.binary()), ("headers", pa.list_(header)), ("topic", pa.string()),
            ("partition", pa.int32()), ("offset", pa.int64()), ("timestamp", pa.timestamp("ms", "UTC")),
        ]
    )  # fmt: skip
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(_rows(messages), schema), file)
    return ".snappy.parquet", file.getvalue()


_AVRO_RECORD = {
    "type": "record",
    "name": "Record",
    "fields": [
        {"name": "key", "type": ["null", "bytes"]},
        {"name": "value", "type": ["null", "bytes"]},
        {
            "name": "headers",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Header",
                    "fields": [{"name": "key", "type": "string"}, {"name": "value", "type": "bytes"}],
                },
            },
        },
        {"name": "topic", "type": "string"},
        {"name": "partition", "type": "int"},
        {"name": "offset", "type": "long"},
        {"name": "timestamp", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}


def _connect_avro(messages: Sequence[Message]) -> tuple[str, bytes]:
    file = io.BytesIO()
    fastavro.writer(file, _AVRO_RECORD, _rows(messages), codec="deflate", sync_marker=b"between blocks..")
    return ".avro", file.getvalue()


#: Container → its writer: messages of one object → (the ending of the object's name, its bytes). `raw` and `lines` keep
#: values alone; `raw` is for records that end themselves (IBM's).
_WRITERS: dict[str, Callable[[Sequence[Message]], tuple[str, bytes]]] = {
    "connect_avro": _connect_avro,
    "connect_parquet": _connect_parquet,
    "kafka_json": _kafka_json,
    "lines": _values,
    "pubsub": _pubsub,
    "raw": _raw,
}
