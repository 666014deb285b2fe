"""Iceberg's JDBC catalog, read with its database's own driver: where a table's metadata lies, and what a namespace says.

Two tables, as Iceberg's JdbcCatalog makes them at its first use (its schema V1). PyIceberg reads them by SQLAlchemy, which
takes longer to import than a listing may take in all.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, quote, urlsplit

from tidemark.errors import ConfigError, TerminalError, TransientError
from tidemark.lake.spark_conf import CATALOG
from tidemark.settings import Settings

_POSTGRESQL = "jdbc:postgresql:"

_COLUMNS_IN_SQLITE = "SELECT name FROM pragma_table_info(?)"
_COLUMNS_IN_POSTGRESQL = "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(?)"

#: What the query of a JDBC address may say, and libpq calls by the same name.
_SAME_IN_BOTH_DRIVERS = ("sslmode", "sslrootcert", "user")
#: Of libpq, which would wait for hours where the network is cut: seconds until a connection stands, and milliseconds until
#: what was sent over it has arrived.
_TIMEOUTS = {"connect_timeout": 15, "keepalives_idle": 30, "tcp_user_timeout": 60_000}

#: How PostgreSQL refuses a connection: libpq hands on no code with its text.
_REFUSED = re.compile(
    r"password authentication failed|no password supplied|no pg_hba\.conf entry|(role|database) \".*\" does not exist"
    r"|permission denied for database"
)

_Execute: TypeAlias = Callable[..., list[tuple[Any, ...]]]


def is_jdbc(settings: Settings) -> bool:
    """Whether the lake's catalog is one of these."""
    return settings.catalog_file is not None or settings.catalog.startswith(_POSTGRESQL)


#: Iceberg adds the column of the type in a second step: without it, a first run has died while it made the catalog.
_TABLES = ("iceberg_tables", "iceberg_type")
_METADATA = (
    "SELECT metadata_location, iceberg_type FROM iceberg_tables "
    "WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?"
)
_PROPERTIES = ("iceberg_namespace_properties", "property_value")
_PROPERTY = (
    "SELECT property_value FROM iceberg_namespace_properties "
    "WHERE catalog_name = ? AND namespace = ? AND property_key = ?"
)


def find_metadata(settings: Settings, *name: str) -> str | None:
    """The location of the metadata of a table, by namespace and name; None where there is no such table."""
    found = _select(settings, _TABLES, _METADATA, ".".join(name[:-1]), name[-1])
    return next((str(location) for location, type_ in found if type_ in (None, "TABLE")), None)


def namespace_property(settings: Settings, namespace: str, key: str) -> str | None:
    """What a namespace's property says; None where nothing does."""
    found = _select(settings, _PROPERTIES, _PROPERTY, namespace, key)
    return found[0][0] if found else None


def _select(settings: Settings, made: tuple[str, str], statement: str, *values: str) -> list[tuple[Any, ...]]:
    """Rows of the lake's catalog; [] while the table and column of ``made`` are not."""
    if (file := settings.catalog_file) is not None and not file.exists():
        return []
    with _connected(settings) as execute:
        columns = execute(_COLUMNS_IN_SQLITE if file is not None else _COLUMNS_IN_POSTGRESQL, made[0])
        return execute(statement, CATALOG, *values) if (made[1],) in columns else []


@contextmanager
def _connected(settings: Settings) -> Iterator[_Execute]:
    """What executes a statement, with ``?`` for each value. A failure is ours: a database that does not answer can pass,
    one that is damaged or refuses the login cannot."""
    file = settings.catalog_file
    driver = sqlite3 if file is not None else import_module("psycopg2")
    try:
        with closing(_connect(settings, file, driver)) as connection, closing(connection.cursor()) as cursor:

            def execute(statement: str, *values: str) -> list[tuple[Any, ...]]:
                cursor.execute(statement if file is not None else statement.replace("?", "%s"), values)
                return list(cursor.fetchall())

            yield execute
    except driver.OperationalError as error:
        if _REFUSED.search(str(error)):
            raise ConfigError(
                f"the catalog does not let us in: {error}",
                fix="check TIDEMARK_CATALOG_USER, TIDEMARK_CATALOG_PASSWORD, and the database in TIDEMARK_CATALOG_URI",
            ) from error
        raise TransientError(
            f"the catalog does not answer: {error}",
            fix="check TIDEMARK_CATALOG_URI and the network; it is tried again",
        ) from error
    except driver.Error as error:
        raise TerminalError(
            f"the catalog's database cannot be used: {error}",
            fix="check that TIDEMARK_CATALOG_URI names the catalog; restore the database from a backup if it is damaged",
        ) from error


def _connect(settings: Settings, file: Path | None, driver: Any) -> Any:
    if file is not None:  # writable, for what a killed writer left is taken back by the next who opens it
        return sqlite3.connect(f"file:{quote(str(file))}?mode=rw", uri=True)
    place = urlsplit(settings.catalog.removeprefix("jdbc:"))
    asked = dict(parse_qsl(place.query))
    options = {name: asked[name] for name in _SAME_IN_BOTH_DRIVERS if name in asked} | _TIMEOUTS
    if schema := asked.get("currentSchema"):
        options["options"] = "-c search_path=" + re.sub(r"([\\\s])", r"\\\1", schema)
    if settings.catalog_user:
        options |= {"user": settings.catalog_user, "password": settings.catalog_password}
    return driver.connect(f"postgresql://{place.netloc}{place.path}", **options)
