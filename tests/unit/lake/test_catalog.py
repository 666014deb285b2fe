"""The catalog as it is read without Spark: one that no session has used yet, or only half; and in PostgreSQL."""

from __future__ import annotations

import socket
import sqlite3
from pathlib import Path

import psycopg2
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import AlwaysTrue, And, EqualTo, GreaterThanOrEqual, In, LessThanOrEqual

from tests.postgres import PASSWORD, USER, postgres
from tidemark.errors import ConfigError, TerminalError, TransientError
from tidemark.lake import jdbc_catalog
from tidemark.lake.catalog import LAKE_ID, find_table, lake_of_catalog, read_rows, row_filter
from tidemark.lake.spark_conf import CATALOG
from tidemark.lake.stored_formats import FORMAT, TABLE_FORMAT
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


@pytest.mark.parametrize("place", ["{home}/c.db?busy_timeout=1000", "c.db"])
def test_the_file_of_a_catalog_is_the_one_that_its_driver_takes(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever folder the process is in. What stands behind `?` are options of the driver."""
    with sqlite3.connect(tmp_path / "c.db") as made:
        made.execute(
            "CREATE TABLE iceberg_namespace_properties (catalog_name, namespace, property_key, property_value)"
        )
        made.execute("INSERT INTO iceberg_namespace_properties VALUES (?, 'tidemark', ?, '7')", (CATALOG, LAKE_ID))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    settings = Settings(home=tmp_path, catalog_uri=f"jdbc:sqlite:{place.format(home=tmp_path)}")
    assert lake_of_catalog(settings) == "7"
    assert settings.catalog.startswith(f"jdbc:sqlite:{tmp_path}/c.db")


def test_a_damaged_catalog_is_not_taken_for_an_empty_one(settings: Settings) -> None:
    (Path(settings.lake_root) / "catalog.db").write_bytes(b"no database" * 100)
    with pytest.raises(TerminalError, match="database cannot be used: file is not a database") as refused:
        find_table(settings, "shop", "orders")
    assert "TIDEMARK_CATALOG_URI" in str(refused.value)


def test_a_catalog_in_postgresql_is_read(tmp_path: Path) -> None:
    with postgres("lake") as server:

        def asking(query: str = "", password: str = PASSWORD, user: str = USER, database: str = "lake") -> Settings:
            uri = f"jdbc:postgresql://127.0.0.1:{server.port}/{database}{query}"
            return Settings(home=tmp_path, lake="lake", catalog_uri=uri, catalog_user=user, catalog_password=password)

        settings = asking()
        assert find_table(settings, "tidemark", "receipts") is None and lake_of_catalog(settings) is None
        made = SqlCatalog(CATALOG, uri=server.url("lake"), warehouse=settings.lake_root)
        made.create_namespace("tidemark", {LAKE_ID: 'it\'s "7"'})
        made.create_namespace("tidemark.shop")
        schema = pa.schema([("sequence", pa.int64())])
        table = made.create_table("tidemark.shop.held", schema, properties={TABLE_FORMAT: str(FORMAT)})
        table.append(pa.table({"sequence": [1, 2, 3]}))
        assert lake_of_catalog(settings) == 'it\'s "7"'
        assert read_rows(settings, "tidemark", "shop", "held", where=[("sequence", "not in", [2])]) == [
            {"sequence": 1},
            {"sequence": 3},
        ]
        assert find_table(settings, "tidemark", "shop", "quarantine") is None
        for wrong in (asking(password="xyzzy"), asking(user="nobody"), asking(database="none")):
            with pytest.raises(ConfigError, match="the catalog does not let us in") as refused:
                lake_of_catalog(wrong)
            assert "xyzzy" not in str(refused.value) and "TIDEMARK_CATALOG_USER" in str(refused.value)
        elsewhere = asking("?currentSchema=lake&ApplicationName=x")
        assert lake_of_catalog(elsewhere) is None
        with psycopg2.connect(server.url("lake", "postgresql")) as database, database.cursor() as cursor:
            cursor.execute("CREATE SCHEMA lake; ALTER TABLE iceberg_namespace_properties SET SCHEMA lake")
        assert lake_of_catalog(elsewhere) == 'it\'s "7"'
        with psycopg2.connect(server.url("lake", "postgresql")) as database, database.cursor() as cursor:
            cursor.execute('ALTER SCHEMA lake RENAME TO "a b"')
        assert lake_of_catalog(asking('?currentSchema="a%20b",public')) == 'it\'s "7"'
        with pytest.raises(TransientError, match="does not support SSL"):
            lake_of_catalog(asking("?sslmode=require"))


@pytest.mark.full
def test_a_catalog_that_says_nothing_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As behind a network that was cut: libpq alone would wait for ever."""
    monkeypatch.setitem(jdbc_catalog._TIMEOUTS, "connect_timeout", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"jdbc:postgresql://127.0.0.1:{silent.getsockname()[1]}/lake"
        with pytest.raises(TransientError, match=r"the catalog does not answer: .*timeout expired"):
            lake_of_catalog(Settings(home=tmp_path, lake="lake", catalog_uri=uri))


def test_conditions_become_a_filter_of_the_scan() -> None:
    every = row_filter([("a", "=", "x"), ("b", ">=", 1), ("b", "<=", 9), ("b", "not in", []), ("c", "in", ["y", "z"])])
    expected = And(
        And(And(EqualTo("a", "x"), GreaterThanOrEqual("b", 1)), LessThanOrEqual("b", 9)), In("c", ["y", "z"])
    )
    assert every == expected and row_filter([]) == AlwaysTrue()
