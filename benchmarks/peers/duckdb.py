"""DuckDB alone: its own reader, the newest change of each key, and ``MERGE`` into its own table."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.peers.child import ABSENT, ASKED
from benchmarks.peers.events import COLUMNS, select_newest


class Job:
    def __init__(self, folder: Path) -> None:
        self.database = duckdb.connect(str(folder / "orders.duckdb"))

    def load(self, objects: list[str]) -> None:
        columns = ", ".join(f"{name} {type_}" for name, (type_, _) in COLUMNS.items())
        self.database.execute(f"CREATE TABLE orders ({columns}, PRIMARY KEY (id))")
        self.run(objects)

    def run(self, objects: list[str]) -> None:
        updates = ", ".join(f"{name} = s.{name}" for name in COLUMNS if name not in ("id", "note"))
        note = f"note = CASE WHEN s.note = '{ABSENT}' THEN t.note ELSE s.note END"
        self.database.execute(
            f"MERGE INTO orders t USING ({select_newest(objects)}) s ON t.id = s.id "  # noqa: S608 - constants
            f"WHEN MATCHED AND s.deleted THEN DELETE WHEN MATCHED THEN UPDATE SET {updates}, {note} "
            f"WHEN NOT MATCHED AND NOT s.deleted THEN INSERT ({', '.join(COLUMNS)}) VALUES (s.{', s.'.join(COLUMNS)})"
        )

    def sums(self) -> Iterable[Any]:
        return chain(*self.database.execute(f"SELECT {ASKED} FROM orders").fetchall())  # noqa: S608 - constants
