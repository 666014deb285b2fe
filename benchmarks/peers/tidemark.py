"""This project: all stages of the hour, as ``benchmarks.scale`` runs them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks import hour, scale
from benchmarks.generate import Exports
from benchmarks.peers.child import ASKED
from tidemark.lake.session import open_session


class Job:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def load(self, objects: list[str]) -> None:
        made = Exports(Path(objects[0]).parents[4], {})
        settings = scale.settings_on(scale.HERE, made)
        self.tidemark = hour.Tidemark(open_session(settings, "benchmark"), settings)
        self.tidemark.load()

    def run(self, objects: list[str]) -> None:
        for _, work in self.tidemark.stages():
            work()

    def sums(self) -> Iterable[Any]:
        (row,) = self.tidemark.spark.sql(f"SELECT {ASKED} FROM {hour.TABLE}").collect()  # noqa: S608 - constants
        return row
