"""The first rows of a table: those that sorting all of them would give, without reading all of them."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tidemark.operations import read_table
from tidemark.operations.read_table import read_first_rows, read_snapshot, table_cells
from tidemark.settings import Settings

KEYS: dict[str, Any] = {
    "a number": [("id", pa.int64(), lambda rng: rng.randrange(-(10**6), 10**6))],
    "a text": [("id", pa.string(), lambda rng: "".join(rng.choice("aZé€🜚'% ") for _ in range(6)))],
    "a decimal": [("id", pa.decimal128(20, 2), lambda rng: rng.randrange(-(10**6), 10**6))],
    "two columns": [
        ("a", pa.string(), lambda rng: rng.choice("xyz")),
        ("b", pa.int32(), lambda rng: rng.randrange(10**6)),
    ],
    "a double": [("id", pa.float64(), lambda rng: rng.random())],
    "none": [],
}


@pytest.mark.parametrize("of", KEYS)
def test_the_first_rows_are_those_of_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of: str) -> None:
    rng, key = Random(3), KEYS[of]
    schema = pa.schema([*((name, kind) for name, kind, _ in key), ("value", pa.string()), ("_tidemark", pa.string())])
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path))
    catalog.create_namespace("s")
    names = [name for name, _, _ in key]
    table = catalog.create_table("s.t", schema, properties={"tidemark.key": json.dumps(names)})
    rows = {tuple(made(rng) for _, _, made in key) or (number,): str(number) for number in range(300)}
    listed = [{**dict(zip(names, at, strict=False)), "value": value, "_tidemark": "-"} for at, value in rows.items()]
    for part in (listed[:100], listed[100:]):
        table.append(pa.Table.from_pylist(part, schema=schema))
    read: list[Any] = []
    scan = type(table).scan

    def noted(self: Any, **asked: Any) -> Any:
        read.append(asked)
        return scan(self, **asked)

    monkeypatch.setattr(type(table), "scan", noted)
    monkeypatch.setattr(read_table, "_open", lambda *_: (table, None))
    settings = Settings(home=tmp_path)
    every, _ = read_snapshot(settings, "s.t")
    for limit in (1, 7, 1000):
        read.clear()
        found, by, number = read_first_rows(settings, "s.t", limit)
        assert (by, number) == (names, len(listed))
        assert list(table_cells(found, by, limit)) == list(table_cells(every, by, limit))
        if of not in ("none", "a double"):
            assert read[0]["selected_fields"] == tuple(names) and found.num_rows == min(limit, len(listed))
