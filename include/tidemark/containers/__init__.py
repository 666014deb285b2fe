"""How an export wraps records: one module per container, found by name through this registry.

A module offers ``Options`` (a pydantic model: the feed's ``container`` block), ``read(spark, objects, options)``
and ``count(chunks)``; see :mod:`tidemark.containers.contract`.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

CONTAINERS = {
    "connect_avro": "tidemark.containers.connect_avro",
    "connect_parquet": "tidemark.containers.connect_parquet",
    "kafka_json": "tidemark.containers.kafka_json",
    "lines": "tidemark.containers.lines",
    "pubsub": "tidemark.containers.pubsub",
    "raw": "tidemark.containers.raw",
}


def load_container(name: str) -> ModuleType:
    """The module of a container. ``KeyError`` when nobody registered it (feed files are checked before)."""
    return import_module(CONTAINERS[name])
