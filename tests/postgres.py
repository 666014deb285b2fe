"""A PostgreSQL server from a package: TCP on this machine, one user with a password, gone with the test."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg2

from scripts import local_postgres

USER, PASSWORD = "tide", "fingerprint"


@dataclass(frozen=True)
class Postgres:
    """Where it listens."""

    port: int

    def url(self, database: str, driver: str = "postgresql+psycopg2") -> str:
        """For SQLAlchemy."""
        return f"{driver}://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{database}"


@contextmanager
def postgres(*databases: str) -> Iterator[Postgres]:
    """A new server with these databases."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="tidemark-postgres-"))  # PostgreSQL's user cannot see into pytest's folders
    try:
        local_postgres.make(folder, USER, PASSWORD)
        command, other = local_postgres.command(folder, "127.0.0.1", port), local_postgres.unprivileged()
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, **other)
        try:
            connection = _connect(port, server)
            connection.autocommit = True
            with connection.cursor() as cursor:
                for database in databases:
                    cursor.execute(f'CREATE DATABASE "{database}"')
            connection.close()
            yield Postgres(port)
        finally:
            server.send_signal(signal.SIGINT)  # not TERM: that waits for clients
            server.wait(60)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _connect(port: int, server: subprocess.Popen[bytes]) -> psycopg2.extensions.connection:
    """A connection, as soon as the server gives one."""
    end = time.monotonic() + 60
    while True:
        try:
            return psycopg2.connect(host="127.0.0.1", port=port, user=USER, password=PASSWORD, dbname="postgres")
        except psycopg2.OperationalError:  # not yet listening, or still starting
            if time.monotonic() > end or server.poll() is not None:
                raise
        time.sleep(0.1)
