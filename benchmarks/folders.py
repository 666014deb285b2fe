"""Where the benchmarks keep their workloads and lakes."""

from __future__ import annotations

import shutil
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent
CACHE = HOME / ".tidemark/bench"


def new_folder(name: str) -> Path:
    """An empty folder beside the workloads."""
    folder = CACHE / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
