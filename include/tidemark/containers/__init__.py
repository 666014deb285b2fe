"""How an export wraps records: one module per container, found by name through this registry.

A container's module offers what :class:`tidemark.containers.contract.Container` asks for. Modules are imported when a
feed names them, so that reading feed files for the DAGs does not import Spark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from tidemark.containers import connect_avro, connect_parquet, kafka_json, lines, pubsub, raw
    from tidemark.containers.contract import Container

    # The type checker compares each module with the Protocol here: at run time a module is found by its name alone.
    _connect_avro: Container = connect_avro
    _connect_parquet: Container = connect_parquet
    _kafka_json: Container = kafka_json
    _lines: Container = lines
    _pubsub: Container = pubsub
    _raw: Container = raw

CONTAINERS = {
    "connect_avro": "tidemark.containers.connect_avro",
    "connect_parquet": "tidemark.containers.connect_parquet",
    "kafka_json": "tidemark.containers.kafka_json",
    "lines": "tidemark.containers.lines",
    "pubsub": "tidemark.containers.pubsub",
    "raw": "tidemark.containers.raw",
}


def load_container(name: str) -> Container:
    """The module of a container. ``KeyError`` when nobody registered it (feed files are checked before)."""
    return cast("Container", import_module(CONTAINERS[name]))
