"""How a Debezium connector writes values by their PostgreSQL types, the message schemas, and messages."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from tidemark_samples.exporting import Message

UNAVAILABLE = "__debezium_unavailable_value"
_EPOCH = datetime(1970, 1, 1)

_SCHEMAS: dict[str, dict[str, Any]] = {
    "text": {"type": "string"},
    "integer": {"type": "int32"},
    "bigint": {"type": "int64"},
    "boolean": {"type": "boolean"},
    "double precision": {"type": "double"},
    "bytea": {"type": "bytes"},
    "date": {"type": "int32", "name": "io.debezium.time.Date", "version": 1},
    "timestamp": {"type": "int64", "name": "io.debezium.time.MicroTimestamp", "version": 1},
    "timestamptz": {"type": "string", "name": "io.debezium.time.ZonedTimestamp", "version": 1},
    "text[]": {"type": "array", "items": {"type": "string", "optional": True}},
}


def wire(kind: str, value: Any, *, schemas: bool) -> Any:
    """A value of a PostgreSQL type as JSON holds it. Decimals: exact text, or with schemas the unscaled bytes."""
    if isinstance(value, Decimal):
        return _unscaled(value) if schemas else format(value, "f")
    if isinstance(value, datetime) and kind == "timestamptz":
        text = value.replace(tzinfo=None).isoformat(timespec="microseconds")
        return text.rstrip("0").rstrip(".") + "Z"
    if isinstance(value, datetime):
        return (value - _EPOCH) // timedelta(microseconds=1)
    if isinstance(value, date):
        return (value - _EPOCH.date()).days
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _unscaled(value: Decimal) -> str:
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    number = int(value.scaleb(-exponent))
    return base64.b64encode(
        number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)
    ).decode()


def key_schema(name: str, columns: Mapping[str, str]) -> dict[str, Any]:
    """The message schema of a key."""
    return {"type": "struct", "fields": _fields(columns, optional=False), "optional": False, "name": f"{name}.Key"}


def value_schema(name: str, columns: Mapping[str, str]) -> dict[str, Any]:
    """The message schema of a row's envelope."""
    image = {"type": "struct", "fields": _fields(columns, optional=True), "optional": True, "name": f"{name}.Value"}
    fields = [image | {"field": "before"}, image | {"field": "after"}, {"type": "string", "field": "op"}]
    return {"type": "struct", "fields": fields, "optional": False, "name": f"{name}.Envelope"}


def _fields(columns: Mapping[str, str], *, optional: bool) -> list[dict[str, Any]]:
    return [_schema(kind) | {"optional": optional, "field": name} for name, kind in columns.items()]


def _schema(kind: str) -> dict[str, Any]:
    if kind.startswith("numeric("):
        precision, scale = kind.removeprefix("numeric(").rstrip(")").split(",")
        parameters = {"scale": scale.strip(), "connect.decimal.precision": precision}
        return {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": parameters}
    return _SCHEMAS[kind]


@dataclass(kw_only=True)
class Sent:
    """One message before it has an offset."""

    topic: str
    """The topic's name."""
    at: datetime
    """When it is sent, in naive UTC."""
    body: dict[str, Any] | None
    """The value without its schema; None: a tombstone, or the value is ``raw``."""
    key: dict[str, Any] | None = None
    """The key without its schema; None: it has none."""
    schemas: tuple[dict[str, Any], dict[str, Any]] | None = None
    """The schemas of key and value, which the message carries; None: it carries none."""
    headers: tuple[tuple[str, dict[str, Any]], ...] = ()
    """The headers, each with its content, which is written as the key is."""
    raw: bytes | None = None
    """The value as it is, where it is no event; None: it is one, or a tombstone."""


def records(sent: Iterable[Sent], end: datetime) -> list[Message]:
    """Messages with offsets, up to the end of the last hour."""
    offsets: dict[str, int] = {}
    found = []
    for one in sent:
        if one.at < end:
            offset = offsets[one.topic] = offsets.get(one.topic, -1) + 1
            key, value = one.schemas or (None, None)
            headers = tuple((name, _json(content, key).decode()) for name, content in one.headers)
            key_bytes = None if one.key is None else _json(one.key, key)
            value_bytes = one.raw if one.body is None else _json(one.body, value)
            message = Message(
                topic=one.topic, partition=0, offset=offset, sent_at=one.at, key=key_bytes, value=value_bytes,
                headers=headers,
            )  # fmt: skip
            found.append(message)
    return found


def _json(content: dict[str, Any], schema: dict[str, Any] | None) -> bytes:
    whole = content if schema is None else {"schema": schema, "payload": content}
    return json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode()


def renumber(run: list[Sent]) -> None:
    """A 1.9 that starts again in the middle of a transaction counts its events from 1, and END counts only those."""
    order = 0
    for one in run:
        body = one.body or {}
        if body.get("status") == "BEGIN":
            return
        if body.get("status") == "END":
            body["event_count"] = order
            return
        if body.get("transaction"):
            order += 1
            body["transaction"]["total_order"] = order


def objects(messages: list[Message], chance: random.Random) -> list[list[Message]]:
    """Up to three objects, none of them in the topic's order."""
    if len(messages) < 6:
        return [messages] if messages else []
    spread: list[list[Message]] = [[], [], []]
    for message in messages:
        chance.choice(spread).append(message)
    return [one for one in reversed(spread) if one]


def poisoned(topic: str, number: int, hour: datetime) -> Iterator[Sent]:
    """Messages that are no events: cut short, of an unknown op, without a position, two in one, something else."""
    row = {"id": 1, "name": "poisoned"}
    source = {"schema": "store", "table": "customers", "lsn": 23, "sequence": '["22","23"]'}
    whole = json.dumps({"op": "c", "after": row, "source": source}).encode()
    kinds = (
        whole[: len(whole) // 2],
        whole.replace(b'"op": "c"', b'"op": "?"'),
        whole.replace(b'"lsn": 23', b'"lsn": null'),
        whole + whole,
        b'{"level": "INFO", "message": "strayed in"}',
    )
    for i in range(number):
        yield Sent(topic=topic, at=hour + timedelta(seconds=700 + i), body=None, raw=kinds[i % len(kinds)])


def millis(at: datetime) -> int:
    """Milliseconds since 1970."""
    return int((at - datetime(1970, 1, 1)) / timedelta(milliseconds=1))
