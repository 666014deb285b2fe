"""dlt into DuckDB by its default way to merge, delete-insert, which alone drops older changes of the same key by
``dedup_sort``; deletes by ``hard_delete``. Changes come as Arrow batches, which its documentation recommends for speed.

A row replaces the one before it whole: there is no word for a text that was not sent.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import dlt
import duckdb

from benchmarks.peers.child import ASKED
from benchmarks.peers.events import select_changes


class Job:
    def __init__(self, folder: Path) -> None:
        os.environ.update(RUNTIME__DLTHUB_TELEMETRY="false", RUNTIME__LOG_LEVEL="ERROR")
        self.database = folder / "orders.duckdb"
        self.pipeline = dlt.pipeline(
            "orders",
            pipelines_dir=str(folder / "state"),
            destination=dlt.destinations.duckdb(str(self.database)),
            dataset_name="shop",
        )

    def load(self, objects: list[str]) -> None:
        self.run(objects)

    def run(self, objects: list[str]) -> None:
        changes = dlt.resource(
            duckdb.sql(select_changes(objects)).to_arrow_reader(),
            name="orders",
            primary_key="id",
            write_disposition="merge",
            columns={"place": {"dedup_sort": "desc"}, "deleted": {"hard_delete": True}},
        )
        self.pipeline.run(changes).raise_on_failed_jobs()

    def sums(self) -> Iterable[Any]:
        with duckdb.connect(str(self.database)) as database:
            return chain(*database.execute(f"SELECT {ASKED} FROM shop.orders").fetchall())  # noqa: S608 - constants
