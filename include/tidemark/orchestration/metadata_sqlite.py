"""Airflow's metadata on SQLite: its services and its command line write at the same time, and wait for each other.

Airflow keeps the database in write-ahead mode. There a transaction that has read something can no longer begin to write
once another has written meanwhile: SQLite says "database is locked" at once, however long the timeout is. Python opens
a transaction before it writes, which is fine, but a savepoint opens one by itself, and reads first: Airflow makes the
runs of a backfill so, and many other things (https://www.sqlite.org/isolation.html, "SQLITE_BUSY_SNAPSHOT"). Here a
savepoint outside of a transaction begins one that waits until it may write.

``AIRFLOW__DATABASE__SQL_ALCHEMY_CONNECT_ARGS`` names :data:`CONNECT_ARGS`.
"""

from __future__ import annotations

import sqlite3
from typing import Any, Self


class _WaitingCursor(sqlite3.Cursor):
    def execute(self, sql: str, parameters: Any = (), /) -> Self:
        if sql.startswith("SAVEPOINT") and not self.connection.in_transaction:
            super().execute("BEGIN IMMEDIATE")
        return super().execute(sql, parameters)


class WaitingConnection(sqlite3.Connection):
    """A connection whose transactions wait until they may write."""

    def cursor(self, factory: Any = _WaitingCursor) -> Any:
        return super().cursor(factory)


#: Arguments of ``sqlite3.connect``. ``timeout``: seconds to wait for another writer, also on a busy machine.
CONNECT_ARGS = {"factory": WaitingConnection, "timeout": 60.0}
