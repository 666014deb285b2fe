"""The lake read without Spark: PyIceberg on the same catalog, for the command line, pages and small tables.

PyIceberg reads format v3 with deletion vectors; it writes nothing here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.table import Table
from sqlalchemy import inspect
from sqlalchemy.exc import DatabaseError, OperationalError

from tidemark.errors import ConfigError, TerminalError, TransientError
from tidemark.lake.spark_conf import CATALOG
from tidemark.lake.stored_formats import TABLE_FORMAT, check_table
from tidemark.settings import Settings
from tidemark.storage.retry import retry

#: The property of the namespace ``tidemark`` that says which lake the catalog belongs to.
LAKE_ID = "tidemark.lake"


def open_catalog(settings: Settings) -> Catalog:
    """The lake's catalog, by the same settings as Spark's."""
    uri = settings.catalog
    properties = {"warehouse": settings.lake_root, "init_catalog_tables": "false"}
    if uri.startswith("jdbc:sqlite:"):
        properties |= {"type": "sql", "uri": "sqlite:///" + uri.removeprefix("jdbc:sqlite:")}
    elif uri.startswith("jdbc:postgresql:"):
        parts = urlsplit(uri.removeprefix("jdbc:"))
        login = f"{quote(settings.catalog_user)}:{quote(settings.catalog_password)}@" if settings.catalog_user else ""
        properties |= {"type": "sql", "uri": f"postgresql+psycopg2://{login}{parts.netloc}{parts.path}"}
    elif uri.startswith(("http://", "https://")):
        properties |= {"type": "rest", "uri": uri}
    else:
        raise ConfigError(
            f"TIDEMARK_CATALOG_URI {uri!r} is no catalog", fix="give jdbc:sqlite:…, jdbc:postgresql://… or http(s)://…"
        )
    if settings.s3_endpoint:
        properties |= {"s3.endpoint": settings.s3_endpoint, "s3.region": settings.s3_region}
    return load_catalog(CATALOG, **properties)


@contextmanager
def reading(*name: str) -> Iterator[None]:
    """A failure of storage or catalog on the way, as ours."""
    try:
        yield
    except FileNotFoundError as error:
        fix = "restore the file from a backup, or take the table back to a snapshot of before"
        raise TerminalError(f"a file of it is missing: {error}", table=".".join(name), fix=fix) from error
    except (OSError, OperationalError) as error:
        raise TransientError(
            f"the lake could not be read: {error}",
            table=".".join(name),
            fix="check TIDEMARK_S3_ENDPOINT, TIDEMARK_CATALOG_URI and the network; it is tried again",
        ) from error
    except DatabaseError as error:
        raise TerminalError(
            f"the catalog's database cannot be used: {error.orig}",
            fix="check that TIDEMARK_CATALOG_URI names the catalog; restore the database from a backup if it is damaged",
        ) from error


def find_table(settings: Settings, *name: str) -> Table | None:
    """A table by namespace and name; None where there is none, or no catalog yet.

    StoredFormatError for a table of ours that has another format than this release's.
    """
    table = load_table(settings, *name)
    if table is not None and is_ours(table, name):
        check_table(table.properties.get(TABLE_FORMAT), ".".join(name))
    return table


def is_ours(table: Table, name: tuple[str, ...]) -> bool:
    """Whether Tidemark made the table: a catalog may hold others too."""
    return name[0] == "tidemark" or "tidemark.feed" in table.properties


@retry
def load_table(settings: Settings, *name: str) -> Table | None:
    """A table of any format; None where there is none, or no catalog yet."""
    with reading(*name):
        catalog = _used_catalog(settings)
        if catalog is None:
            return None
        try:
            return catalog.load_table(name)
        except NoSuchTableError:
            return None
        except DatabaseError:
            if isinstance(catalog, SqlCatalog) and not _is_made(catalog):
                return None
            raise


@retry
def list_tables(settings: Settings) -> list[tuple[str, ...]]:
    """The names of all tables of the catalog, each with its namespace; [] where there is no catalog yet."""
    with reading(CATALOG):
        catalog = _used_catalog(settings)
        if catalog is None or (isinstance(catalog, SqlCatalog) and not _is_made(catalog)):
            return []
        namespaces, found = catalog.list_namespaces(), []
        while namespaces:
            namespace = namespaces.pop()
            namespaces += catalog.list_namespaces(namespace)
            found += catalog.list_tables(namespace)
    return sorted(found)


@retry
def lake_of_catalog(settings: Settings) -> str | None:
    """The id of the lake that the catalog belongs to; None where it has not been told one, or is not made yet."""
    with reading(CATALOG):
        catalog = _used_catalog(settings)
        if catalog is None or (isinstance(catalog, SqlCatalog) and not _is_made(catalog)):
            return None
        try:
            return catalog.load_namespace_properties("tidemark").get(LAKE_ID)
        except NoSuchNamespaceError:
            return None


def _used_catalog(settings: Settings) -> Catalog | None:
    """The catalog; None while it is a file that no run has made yet, which opening it would make."""
    uri = settings.catalog
    if uri.startswith("jdbc:sqlite:") and not Path(uri.removeprefix("jdbc:sqlite:")).exists():
        return None
    return open_catalog(settings)


def _is_made(catalog: SqlCatalog) -> bool:
    """Whether Spark has made the catalog's own tables in the database, which it does in two steps at its first use. A
    database may be new, or a first run have died in between."""
    database = inspect(catalog.engine)
    table = "iceberg_tables"
    return database.has_table(table) and "iceberg_type" in {column["name"] for column in database.get_columns(table)}


@retry
def read_rows(
    settings: Settings, *name: str, where: BooleanExpression | None = None, columns: tuple[str, ...] = ("*",)
) -> list[dict[str, Any]]:
    """Rows of a small table as dicts; empty where the table is missing."""
    table = find_table(settings, *name)
    if table is None or table.current_snapshot() is None:
        return []
    with reading(*name):
        rows: pa.Table = table.scan(row_filter=where or AlwaysTrue(), selected_fields=columns).to_arrow()
    return [dict(row) for row in rows.to_pylist()]
