"""PyIceberg: the newest change of each key, read by DuckDB into Arrow; ``delete`` and ``upsert`` in one transaction.

A row replaces the one before it whole: there is no word for a text that was not sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import In

from benchmarks.peers.child import ASKED
from benchmarks.peers.events import select_newest


class Job:
    def __init__(self, folder: Path) -> None:
        self.catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")

    def load(self, objects: list[str]) -> None:
        rows = duckdb.sql(select_newest(objects)).select("* EXCLUDE (deleted, place)").to_arrow_table()
        self.catalog.create_namespace("shop")
        self.table = self.catalog.create_table("shop.orders", rows.schema)
        self.table.append(rows)

    def run(self, objects: list[str]) -> None:
        duckdb.sql(f"CREATE TEMP TABLE newest AS {select_newest(objects)}")
        gone = duckdb.sql("SELECT id FROM newest WHERE deleted").fetchall()
        rows = duckdb.sql("SELECT * EXCLUDE (deleted, place) FROM newest WHERE NOT deleted").to_arrow_table()
        with self.table.transaction() as change:
            change.delete(In(term="id", literals=[id_ for (id_,) in gone]))
            change.upsert(rows, join_cols=["id"])

    def sums(self) -> Iterable[Any]:
        return chain(*self.table.scan().to_duckdb("orders").execute(f"SELECT {ASKED} FROM orders").fetchall())  # noqa: S608
