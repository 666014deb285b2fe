"""The layout of the landing: the paths of landed objects and their manifests. Only this module knows it, and
:mod:`tidemark.storage.landed_columns`, which reads the same out of a column.

``<landing>/<feed>/<topic>/dt=2026-11-20/hr=07/v00001/<object>`` holds an object byte for byte;
``<landing>/<feed>/_manifests/<hour>/v00001.json`` says what came with that version of the hour's export, and
``<landing>/<feed>/_offsets/<hour>/v00001.json`` where an hour begins in topics that are read from Kafka.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidemark.hours import Hour

_OBJECT = re.compile(r"[^/]+/dt=(?P<day>\d{4}-\d\d-\d\d)/hr=(?P<hour>\d\d)/v(?P<version>\d{1,9})/[^/]+")


def object_folder(feed: str, topic: str, hour: Hour, version: int) -> str:
    """The folder of a topic's objects of an hour, relative to the landing's root."""
    return f"{feed}/{topic}/dt={hour.date}/hr={hour.clock}/v{version:05d}"


def feed_manifests_folder(feed: str) -> str:
    """The folder of all manifests of a feed, relative to the landing's root."""
    return f"{feed}/_manifests"


def manifests_folder(feed: str, hour: Hour) -> str:
    """The folder of an hour's manifests, relative to the landing's root."""
    return f"{feed_manifests_folder(feed)}/{hour}"


def hour_starts_folder(feed: str, hour: Hour) -> str:
    """The folder of the offsets at which an hour begins (a feed that reads Kafka), relative to the landing's root."""
    return f"{feed}/_offsets/{hour}"


def manifest_name(version: int) -> str:
    """The name of a version in its folder, of a manifest for one; in the order of names, the newest is the last."""
    return f"v{version:05d}.json"


def named_version(name: str) -> int:
    """The version that a name of :func:`manifest_name` is of."""
    return int(name.removeprefix("v").removesuffix(".json"))


def version_of(path: str) -> int:
    """The version of the hour's export that an object came with, by its path relative to the landing's root."""
    return int(path.split("/")[4].removeprefix("v"))


@dataclass(frozen=True)
class LandedPath:
    """What the path of a landed object says."""

    hour: str
    """The hour for which it landed: ``2026-11-20T07``."""
    version: int
    """The version of the hour's export that it came with."""


def parse_path(path: str) -> LandedPath | None:
    """The path of a landed object, relative to its feed's folder; None for any other file."""
    found = _OBJECT.fullmatch(path)
    return LandedPath(f"{found['day']}T{found['hour']}", int(found["version"])) if found else None
