"""The lake read without Spark: PyIceberg on the same catalog, for the command line, pages and small tables.

PyIceberg reads format v3 with deletion vectors; it writes nothing here. It is imported with the first table that is looked
for: what needs none of them, as `tidemark status`, answers without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tidemark.errors import ConfigError, TerminalError, TransientError
from tidemark.lake.jdbc_catalog import find_metadata, is_jdbc, namespace_property
from tidemark.lake.spark_conf import CATALOG, rest_properties
from tidemark.lake.stored_formats import TABLE_FORMAT, check_table
from tidemark.settings import Settings
from tidemark.storage.retry import retry

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table

#: The property of the namespace ``tidemark`` that says which lake the catalog belongs to.
LAKE_ID = "tidemark.lake"

#: Which rows of a table: those of which all of this is true. Column, comparison, value (of ``in`` and ``not in`` several).
Where: TypeAlias = list[tuple[str, Literal["=", ">=", "<=", "in", "not in"], Any]]


@contextmanager
def _open_rest(settings: Settings) -> Iterator[Catalog]:
    """A REST catalog, and what it refuses as an error of ours. ConfigError where the setting names no catalog."""
    from pyiceberg.catalog import load_catalog
    from pyiceberg.exceptions import ForbiddenError, OAuthError, RESTError, UnauthorizedError

    if not settings.catalog.startswith(("http://", "https://")):
        raise ConfigError(
            f"TIDEMARK_CATALOG_URI {settings.shown_catalog!r} is no catalog",
            fix="give jdbc:sqlite:…, jdbc:postgresql://… or http(s)://…",
        )
    try:
        yield load_catalog(CATALOG, type="rest", **_storage(settings), **rest_properties(settings))
    except (ForbiddenError, OAuthError, UnauthorizedError) as error:
        raise ConfigError(
            f"the catalog {settings.shown_catalog} does not let us in ({type(error).__name__})",
            fix="check TIDEMARK_CATALOG_USER and TIDEMARK_CATALOG_PASSWORD, and what the catalog lets that user do",
        ) from None
    except RESTError as error:
        raise TransientError(
            f"the catalog {settings.shown_catalog} did not do what it was asked for ({type(error).__name__})",
            fix="look at the catalog's log; it is tried again",
        ) from error


def _storage(settings: Settings) -> dict[str, str]:
    """PyIceberg's properties of the lake's storage."""
    of_s3 = {"s3.endpoint": settings.s3_endpoint, "s3.region": settings.s3_region} if settings.s3_endpoint else {}
    return of_s3


@contextmanager
def reading(*name: str) -> Iterator[None]:
    """A failure of storage or catalog on the way, as ours."""
    try:
        yield
    except FileNotFoundError as error:
        fix = "restore the file from a backup, or take the table back to a snapshot of before"
        raise TerminalError(f"a file of it is missing: {error}", table=".".join(name), fix=fix) from error
    except OSError as error:
        raise TransientError(
            f"the lake could not be read: {error}",
            table=".".join(name),
            fix="check TIDEMARK_S3_ENDPOINT, TIDEMARK_CATALOG_URI and the network; it is tried again",
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
        return _load_jdbc(settings, *name) if is_jdbc(settings) else _load_rest(settings, *name)


def _load_rest(settings: Settings, *name: str) -> Table | None:
    from pyiceberg.exceptions import NoSuchTableError

    try:
        with _open_rest(settings) as catalog:
            return catalog.load_table(name)
    except NoSuchTableError:
        return None


def _load_jdbc(settings: Settings, *name: str) -> Table | None:
    location = find_metadata(settings, *name)
    if location is None:
        return None
    from pyiceberg.catalog.noop import NoopCatalog
    from pyiceberg.io.pyarrow import PyArrowFileIO  # the one that PyIceberg takes too, with a log line each time
    from pyiceberg.serializers import FromInputFile
    from pyiceberg.table import Table

    storage = _storage(settings)
    metadata = FromInputFile.table_metadata(PyArrowFileIO(storage).new_input(location))
    return Table(name, metadata, location, PyArrowFileIO({**storage, **metadata.properties}), NoopCatalog(CATALOG))


@retry
def lake_of_catalog(settings: Settings) -> str | None:
    """The id of the lake that the catalog belongs to; None where it has not been told one, or is not made yet."""
    with reading(CATALOG):
        if is_jdbc(settings):
            return namespace_property(settings, "tidemark", LAKE_ID)
        from pyiceberg.exceptions import NoSuchNamespaceError

        try:
            with _open_rest(settings) as catalog:
                return catalog.load_namespace_properties("tidemark").get(LAKE_ID)
        except NoSuchNamespaceError:
            return None


@retry
def read_rows(
    settings: Settings, *name: str, where: Where | None = None, columns: tuple[str, ...] = ("*",)
) -> list[dict[str, Any]]:
    """Rows of a small table as dicts; empty where the table is missing."""
    table = find_table(settings, *name)
    if table is None or table.current_snapshot() is None:
        return []
    with reading(*name):
        rows = table.scan(row_filter=row_filter(where or []), selected_fields=columns).to_arrow()
    return [dict(row) for row in rows.to_pylist()]


def row_filter(where: Where) -> BooleanExpression:
    """The same, for a scan of PyIceberg."""
    from pyiceberg import expressions as of

    kinds: dict[str, Any] = {
        "=": of.EqualTo, ">=": of.GreaterThanOrEqual, "<=": of.LessThanOrEqual, "in": of.In, "not in": of.NotIn
    }  # fmt: skip
    everything: BooleanExpression = of.AlwaysTrue()
    return reduce(lambda all_, one: of.And(all_, kinds[one[1]](one[0], one[2])), where, everything)
