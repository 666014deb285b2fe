"""Catalogs that no Spark session has used yet, or only half."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tidemark.errors import TerminalError
from tidemark.lake.catalog import find_table
from tidemark.ledger.publication_history import load_history
from tidemark.settings import Settings

# As Iceberg's JdbcCatalog makes it first; the column iceberg_type comes in a second statement.
HALF = (
    "CREATE TABLE iceberg_tables (catalog_name VARCHAR(255), table_namespace VARCHAR(255), table_name VARCHAR(255), "
    "metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000))"
)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "lake").mkdir()
    return Settings(home=tmp_path, lake="lake")


@pytest.mark.parametrize("statement", [None, "SELECT 1", HALF], ids=["no file", "empty file", "killed half-way"])
def test_a_catalog_that_is_not_made_yet_holds_nothing(settings: Settings, statement: str | None) -> None:
    if statement:
        file = Path(settings.lake_root) / "catalog.db"
        with sqlite3.connect(file) as database:
            database.execute(statement)
        file.touch()
    assert find_table(settings, "shop", "orders") is None
    assert load_history(settings, "shop").receipts == []


def test_a_damaged_catalog_is_not_taken_for_an_empty_one(settings: Settings) -> None:
    (Path(settings.lake_root) / "catalog.db").write_bytes(b"no database" * 100)
    with pytest.raises(TerminalError, match="database cannot be used: file is not a database") as refused:
        find_table(settings, "shop", "orders")
    assert "TIDEMARK_CATALOG_URI" in str(refused.value)
