"""The jars of servers that tests start: fetched once, and kept in ``.tidemark``."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tidemark.lake.jars import resolve

_KEPT = Path(__file__).parent.parent.parent / ".tidemark"


def server_jars(name: str, coordinates: Sequence[str], excluded: Sequence[str] = ()) -> Path:
    """The folder with the jars of these coordinates and of what they need, without those ``excluded``. ``name``: of the
    server, whose version is that of the first."""
    folder = _KEPT / f"{name}-jars" / coordinates[0].rpartition(":")[2]
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as ivy:
        whole = Path(ivy) / "whole"
        whole.mkdir()
        for jar in resolve(Path(ivy), coordinates, excluded):
            shutil.move(jar, whole / jar.name)
        try:
            whole.rename(folder)
        except OSError:  # another worker was first
            if not folder.exists():
                raise
    return folder
