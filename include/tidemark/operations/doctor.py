"""The doctor: checks that everything an hour needs is there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tidemark.errors import TidemarkError
from tidemark.feeds.loading import check_feeds
from tidemark.lake.catalog import open_catalog
from tidemark.lake.lake_marker import NO_CONDITIONS, USE_ANOTHER_STORAGE, check_lake, read_marker
from tidemark.lake.stored_formats import FORMAT
from tidemark.settings import Settings
from tidemark.storage.objects import storage_of


@dataclass(frozen=True)
class Finding:
    """One thing that was checked. ``found``: what is there, or what to do."""

    what: str
    good: bool
    found: str


def examine(settings: Settings) -> list[Finding]:
    """All findings. Changes nothing, except that it writes one small file in the lake and reads it back."""
    return [_java(), _jars(settings), _feeds(settings), _lake(settings), _format(settings), _catalog(settings)]


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
        storage.write_text(location, "well")
        good = storage.read_text(location) == "well"
        conditional = not storage.write_new(location, "well")
    except Exception as error:  # the doctor reports every failure
        return Finding("lake", False, f"{settings.lake_root} cannot be written: {error}")
    if not conditional:
        return Finding("lake", False, f"{NO_CONDITIONS}: {USE_ANOTHER_STORAGE}")
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
    uri = settings.catalog
    file = Path(uri.removeprefix("jdbc:sqlite:"))
    if uri.startswith("jdbc:sqlite:") and not file.exists():
        return Finding("catalog", True, f"{file} will be made by the first hour")
    try:
        namespaces = open_catalog(settings).list_namespaces()
    except Exception as error:  # the doctor reports every failure
        return Finding("catalog", False, f"{uri} does not answer: {error}")
    return Finding("catalog", True, f"{uri}: {len(namespaces)} namespaces")
