"""The doctor: checks that everything an hour needs is there."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import socket
import subprocess
import urllib.request
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tidemark import __version__
from tidemark.errors import TidemarkError
from tidemark.feeds.loading import check_feeds, feed_names, find_feed
from tidemark.hours import Hour
from tidemark.lake.catalog import lake_of_catalog
from tidemark.lake.lake_marker import check_lake, read_marker
from tidemark.lake.spark_conf import spark_conf
from tidemark.lake.stored_formats import FORMAT
from tidemark.ledger.state_store import load_state
from tidemark.pipeline.exports import is_complete
from tidemark.settings import Settings, unread_variables
from tidemark.storage.conditional_writes import require_conditional_writes
from tidemark.storage.objects import storage_of

#: Free bytes under a lake of files, below which the next hour may not find room.
_LITTLE_ROOM = 1 << 30
#: Seconds by which the clocks of this machine and of the lake's storage may differ: whether an export has settled, and what
#: maintenance may remove, is told by comparing them.
_SKEW = 30.0
_WITHIN = 3.0
_HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Finding:
    """One thing that was checked."""

    what: str
    """What was checked, in a word or two."""
    good: bool
    """Whether it is as an hour needs it. What is made by the first hour, and what an hour can do without, counts as good."""
    found: str
    """What is there, and what to do where that is not good."""


def examine(settings: Settings) -> list[Finding]:
    """All findings. Changes nothing, except that it writes two small files in the lake and reads one back."""
    lake = _lake(settings)
    found = [
        _variables(),
        _java(),
        _jars(settings),
        _versions(settings),
        _spark(settings),
        _feeds(settings),
        lake,
        _clock(settings, lake),
    ]
    found += [] if settings.lake_root.startswith("s3://") else [_disk(settings)]
    return [*found, _format(settings), _catalog(settings), _airflow(), *_next_exports(settings)]


def _variables() -> Finding:
    """Whether every variable ``TIDEMARK_*`` is a setting."""
    told = unread_variables()
    return Finding("settings", told is None, told or "every variable TIDEMARK_… is one")


def _java() -> Finding:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None or not Path(java).exists():
        return Finding("Java", False, "no java: run `make setup`, or install Java 17 or 21 and set JAVA_HOME")
    output = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', output)
    good = version is not None and version[1] in ("17", "21")
    return Finding(
        "Java", good, f"{java}: {version[1] if version else 'unknown'}" + ("" if good else "; Spark needs 17 or 21")
    )


def _jars(settings: Settings) -> Finding:
    folder = settings.path(settings.jars)
    count = len(list(folder.glob("*.jar")))
    return Finding("jars", count > 0, f"{count} in {folder}" if count else f"none in {folder}: run `make setup`")


def _versions(settings: Settings) -> Finding:
    """Whether the jars are for the Spark that is installed."""
    names = {"PySpark": "pyspark", "Airflow": "apache-airflow", "PyIceberg": "pyiceberg", "pandera": "pandera"}
    listed = [f"Tidemark {__version__}", f"Python {platform.python_version()}"]
    listed += [f"{name} {_version(package) or 'is not installed'}" for name, package in names.items()]
    jars = [
        match[1]
        for path in settings.path(settings.jars).glob("*iceberg-spark-runtime-*.jar")
        if (match := re.search(r"iceberg-spark-runtime-(\d+\.\d+)_", path.name))
    ]
    spark = (_version("pyspark") or "").rpartition(".")[0]
    wrong = [jar for jar in jars if jar != spark]
    return Finding(
        "versions", not wrong, ", ".join(listed) + (f"; the Iceberg jar is for Spark {wrong[0]}" if wrong else "")
    )


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _spark(settings: Settings) -> Finding:
    """Whether its settings are what an hour allows, whether a standalone master is there, and what its executors must see."""
    master = settings.spark_master
    try:
        spark_conf(settings)
        for host, port in re.findall(r"([^/,]+):(\d+)", master) if master.startswith("spark://") else ():
            socket.create_connection((host, int(port)), timeout=_WITHIN).close()
    except TidemarkError as error:
        return Finding("Spark", False, f"{error.problem}: {error.fix}")
    except OSError as error:
        return Finding(
            "Spark", False, f"{master} does not answer ({error}): start it, or set TIDEMARK_SPARK_MASTER right"
        )
    folders = {root for root in (settings.lake_root, settings.landing_root) if not root.startswith("s3://")}
    if master.startswith("local") or not folders:
        return Finding("Spark", True, f"on {master}")
    see = f"its executors must see {' and '.join(sorted(folders))}: let all nodes mount it, or use S3"
    return Finding("Spark", True, f"on {master}; {see}")


def _feeds(settings: Settings) -> Finding:
    folder = settings.path(settings.feeds)
    if not folder.is_dir():
        return Finding("feeds", False, f"no folder {folder}: set TIDEMARK_FEEDS")
    mistakes = check_feeds(folder, settings.path(settings.checks))
    found = (
        f"{len(mistakes)} mistakes: see `tidemark feeds check`"
        if mistakes
        else f"{len(list(folder.glob('*.yaml')))} in {folder}"
    )
    return Finding("feeds", not mistakes, found)


def _lake(settings: Settings) -> Finding:
    location = f"{settings.lake_root}/_doctor"
    try:
        storage = storage_of(location, settings)
        storage.remove(location)
        storage.write_new(location, "well")
        good = storage.read_text(location) == "well"
        require_conditional_writes(settings.lake_root, settings)
    except Exception as error:  # the doctor reports every failure
        return Finding("lake", False, f"{settings.lake_root} cannot be written: {error}")
    return Finding("lake", good, f"{settings.lake_root} can be written")


def _format(settings: Settings) -> Finding:
    try:
        check_lake(settings)
        marker = read_marker(settings)
    except TidemarkError as error:
        return Finding("stored format", False, f"{error.problem}: {error.fix}")
    if marker is None:
        return Finding("stored format", True, f"{FORMAT}, once the first hour is run")
    return Finding("stored format", True, f"{marker.format}, by Tidemark {marker.made_by}")


def _catalog(settings: Settings) -> Finding:
    if (file := settings.catalog_file) is not None and not file.exists():
        return Finding("catalog", True, f"{file} will be made by the first hour")
    try:
        known = lake_of_catalog(settings)
    except Exception as error:  # the doctor reports every failure
        return Finding("catalog", False, f"{settings.shown_catalog} does not answer: {error}")
    return Finding(
        "catalog", True, f"{settings.shown_catalog} answers" + ("" if known else "; the first hour begins it")
    )


def _clock(settings: Settings, lake: Finding) -> Finding:
    """Of this machine and of the lake's storage, by the file that :func:`_lake` has just written, where it could."""
    location = f"{settings.lake_root}/_doctor"
    try:
        written = storage_of(location, settings).find(location) if lake.good else None
    except Exception:  # the storage went away
        written = None
    if written is None:
        return Finding("clock", False, "it is compared with the storage of a lake that is well")
    skew = abs((datetime.now(UTC) - written.modified).total_seconds())
    if skew > _SKEW:
        return Finding("clock", False, f"the lake's storage is {skew:.0f} s off: set both clocks by a time server")
    return Finding("clock", True, "agrees with the lake's storage")


def _disk(settings: Settings) -> Finding:
    folder = Path(settings.lake_root)
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    return Finding("disk", free > _LITTLE_ROOM, f"{free / (1 << 30):.1f} GiB are free under {folder}")


def _airflow() -> Finding:
    """The services of the Airflow that this environment names, as its API reports them."""
    url = os.environ.get("AIRFLOW__API__BASE_URL", "http://localhost:8080").rstrip("/")
    if not url.startswith(("http://", "https://")):
        return Finding("Airflow", False, f"AIRFLOW__API__BASE_URL is no web address: {url}")
    try:
        with urllib.request.urlopen(f"{url}/api/v2/monitor/health", timeout=_WITHIN) as answer:
            health = json.load(answer)
        services = {name: one["status"] for name, one in health.items() if one and one.get("status")}
    except (OSError, ValueError, AttributeError, TypeError):
        return Finding("Airflow", True, f"none answers at {url}: `make ui` starts it, and hours run without it too")
    bad = [f"{name} is {status}" for name, status in sorted(services.items()) if status != "healthy"]
    return Finding("Airflow", not bad, f"at {url}: " + (", ".join(bad) or "all services are healthy"))


def _next_exports(settings: Settings) -> list[Finding]:
    """Of each feed, whether the export of the hour behind its newest is whole, and what it lacks; where it has published
    none, of its first hour on schedule, or of the hour that ended last: whether the place of its exports answers."""
    findings: list[Finding] = []
    folder, ended = settings.path(settings.feeds), datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - _HOUR
    for name in feed_names(folder) if folder.is_dir() else ():
        try:
            newest, feed = load_state(settings, name).newest_hour, find_feed(name, settings, deep=False)
            hour = newest.plus(1) if newest else Hour.of(feed.start or ended)
            findings.append(Finding("export", True, f"{name} {hour}: {is_complete(feed, hour, settings).why}"))
        except TidemarkError as error:
            findings.append(Finding("export", False, f"{name}: {str(error).splitlines()[0]}"))
    return findings
