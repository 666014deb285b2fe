"""Lakes that are taken back to what they were, so that an hour can be measured again."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

from benchmarks.folders import HOME, new_folder
from benchmarks.merge import catalog_conf
from tidemark.lake.session import create_namespace, open_session
from tidemark.settings import Settings


class KeptLake:
    """A folder of tables and their catalog, as it was when this was made. Its files never change: later ones are deleted."""

    def __init__(self, root: Path) -> None:
        self._root, self._catalog, self._copy = root, root / "catalog.db", root / "catalog.db.kept"
        _copy_database(self._catalog, self._copy)
        self._files = set(root.rglob("*"))

    def put_back(self) -> None:
        """The folder as it was."""
        _copy_database(self._copy, self._catalog)
        for path in set(self._root.rglob("*")) - self._files:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


class EmptyLake:
    """A lake with a session on it, which :meth:`empty` takes back to nothing. ``name``: of its folder. The session also has
    the catalog of the hand-written jobs (:mod:`benchmarks.merge`)."""

    def __init__(self, name: str) -> None:
        lake, conf = new_folder(name), catalog_conf(new_folder(f"{name}-peer"))
        self.settings = Settings(
            home=HOME, lake=str(lake), driver_memory="4g", spark_master="local[2]", spark_conf=conf
        )
        self.spark = open_session(self.settings, "benchmark")
        create_namespace(self.spark, "nothing")
        self._nothing = KeptLake(lake)

    def empty(self) -> None:
        self.spark.catalog.clearCache()
        self._nothing.put_back()


def _copy_database(source: Path, target: Path) -> None:
    """SQLite's own copy, since Spark may have the catalog open."""
    with sqlite3.connect(source) as from_, sqlite3.connect(target) as to:
        from_.backup(to)
