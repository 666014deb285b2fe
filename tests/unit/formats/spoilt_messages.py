"""Messages spoilt on purpose, in plain Python, for the fuzz tests: bytes cut and flipped, JSON bent in every joint."""

from __future__ import annotations

import base64
import gzip
import json
import random
from copy import deepcopy
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidemark.containers import kafka_json

_VALUES: tuple[Any, ...] = (
    None, "", " ", "x", "0", "-1", "1.5", "9" * 40, 0, -1, 1.5, 10**30, True, [], {}, [None], [[]], {"": None}, {"a": 1},
    {"dataColumn": {}}, {"dataColumn": {"id": None}}, "INSERT", "UPDATE_AFTER", "UPDATE", "ALTER", "TRUNCATE", "\u0000",
    "é€\U0001f4a9", "`;DROP", [{"id": "1"}], ["id", "id"], ["none"], [""], "1620457642589000000",
)  # fmt: skip


def messages_of(exports: Path) -> list[bytes]:
    """The values of all records of generated kafka_json exports."""
    lines = [line for path in sorted(exports.rglob("*.gz")) for line in gzip.decompress(path.read_bytes()).splitlines()]
    return [json.loads(line)["value"].encode() for line in lines]


def _joints(node: Any) -> list[tuple[Any, Any]]:
    """Every value inside a JSON value: (container, key or index)."""
    places: list[tuple[Any, Any]] = []
    for key, child in node.items() if isinstance(node, dict) else enumerate(node):
        places.append((node, key))
        if isinstance(child, dict | list):
            places += _joints(child)
    return places


def _bend(value: bytes, chance: random.Random) -> bytes:
    """A value of the JSON removed, replaced, renamed, repeated, or put in a list."""
    try:
        message = json.loads(value)
    except ValueError:
        return value + b"}"
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        places = _joints(message)
        if not places:
            break
        holder, key = chance.choice(places)
        kind = chance.randrange(5)
        if kind == 0:
            del holder[key]
        elif kind == 1:
            holder[key] = [holder[key]]
        elif kind == 2 and isinstance(holder, dict):
            holder[chance.choice((key + "x", key.upper(), ""))] = holder.pop(key)
        elif kind == 3 and isinstance(holder, dict):
            text = json.dumps(message, ensure_ascii=False)
            member = json.dumps(key, ensure_ascii=False) + ": "
            return text.replace(member, member + json.dumps(chance.choice(_VALUES)) + ", " + member, 1).encode()
        else:
            holder[key] = deepcopy(chance.choice(_VALUES))
    return json.dumps(message, ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass")


def _cut(value: bytes, chance: random.Random) -> bytes:
    """Bytes cut off, flipped, put in, taken out or doubled."""
    at = chance.randrange(len(value) + 1)
    other = chance.randrange(len(value) + 1)
    return chance.choice(
        (
            value[:at],
            value[at:],
            value[:at] + chance.randbytes(chance.randint(1, 4)) + value[at:],
            value[:at] + chance.randbytes(1) + value[at + 1 :],
            value[: min(at, other)] + value[max(at, other) :],
            value[:at] + value[min(at, other) :],
            value[:at] + chance.choice((b'"', b"{", b"}", b"[", b",", b"\\", b"\n", b"0", b"null")) + value[at:],
        )
    )


def spoilt(originals: list[bytes], count: int, seed: int) -> list[bytes]:
    """``count`` spoilt messages; the same ones for a seed."""
    chance = random.Random(seed)
    return [(_bend if chance.random() < 0.7 else _cut)(chance.choice(originals), chance) for _ in range(count)]


def records_of(spark: SparkSession, folder: Path, topic: str, values: list[bytes]) -> DataFrame:
    """RECORDS of the values, out of three objects of Kafka records in base64."""
    for part in range(3):
        lines = [
            json.dumps({"topic": topic, "partition": 0, "offset": i, "value": base64.b64encode(value).decode()})
            for i, value in enumerate(values)
            if i % 3 == part
        ]
        (folder / f"part-{part}.jsonl").write_text("".join(line + "\n" for line in lines))
    paths = [str(path) for path in sorted(folder.glob("*.jsonl"))]
    return kafka_json.read(spark, paths, kafka_json.Options(base64=True))
